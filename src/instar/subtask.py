"""Subtasks: parts of a prompt that a sub-agent does first, as if the model had called the `task` tool."""

import msgspec

from instar import calls, ids
from instar.context import Turn, available
from instar.instance import Instance
from instar.message import SubtaskPart, Tokens, ToolPart, ToolPending, User, WithParts
from instar.provider.protocol import Finish
from instar.step import Outcome, aborted, begin, end, failed
from instar.stream import Call, Writer

TOOL = "task"


def waiting(history: list[WithParts], asked: User) -> list[SubtaskPart]:
    """Return the subtasks of a message for which no call was made yet."""
    made: set[str] = set()
    for message in reversed(history):
        made |= {part.call_id for part in message.parts if isinstance(part, ToolPart)}
        if message.info.id == asked.id:
            return [
                part for part in message.parts if isinstance(part, SubtaskPart) and part.call_id not in made
            ]
    return []


async def run(instance: Instance, turn: Turn, parts: list[SubtaskPart]) -> Outcome:
    """Carry subtasks out in an answer of their own; the next step reads what they brought.

    Raises `asyncio.CancelledError` after an abort, with everything saved.
    """
    holder = await begin(instance, turn)
    writer = Writer(instance, turn.live, holder)
    try:
        asked = [_call(turn, holder, part) for part in parts]
        for call in asked:
            await instance.sessions.save_part(holder, call.part)
        going_on = await calls.run(instance, turn, holder, asked, available(instance, turn))
        await end(instance, turn, holder, Finish("tool-calls", Tokens.zero()))
    except BaseException as error:
        if isinstance(error, Exception):
            return await failed(instance, turn, holder, writer, error)
        await aborted(instance, turn, holder, writer)
        raise
    return "calls" if going_on else "stopped"


def _call(turn: Turn, holder: WithParts, part: SubtaskPart) -> Call:
    given = {"description": part.description, "prompt": part.prompt, "subagent_type": part.agent}
    if part.command:
        given["command"] = part.command
    raw = msgspec.json.encode(given).decode()
    tool = ToolPart(
        id=ids.new("prt"),
        session_id=turn.live.id,
        message_id=holder.info.id,
        call_id=part.call_id,
        tool=TOOL,
        state=ToolPending(input=given, raw=raw),
    )
    return Call(tool, [raw])
