"""What fills the window of a session's model.

A provider counts a request as a whole. What each part has of that is estimated by its characters.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec

from instar.api.stats import ContextPart, ContextReport
from instar.mcp.server import tool_name
from instar.message import (
    Assistant,
    FilePart,
    Part,
    ReasoningPart,
    TextPart,
    ToolPart,
    WithParts,
    visible,
)
from instar.plugin import Invalid, Tool
from instar.provider.resolve import NoModel, UnknownModel
from instar.runtime.introspection import Inspected
from instar.runtime.mcp import NAME as MCP
from instar.session.instance import Instance
from instar.session.state import SessionState
from instar.turn import compaction
from instar.turn.context import own_prompt

Kind = Literal["system", "tools", "messages"]

_BUILTIN: Final = "built-in"


class _Counts:
    """Characters and numbers of what is sent, by kind and name."""

    def __init__(self) -> None:
        self.characters: dict[tuple[Kind, str], int] = defaultdict(int)
        self.numbers: dict[tuple[Kind, str], int] = defaultdict(int)

    def add(self, kind: Kind, name: str, characters: int) -> None:
        """Count one more."""
        self.characters[kind, name] += characters
        self.numbers[kind, name] += 1

    def parts(self, ratio: float) -> list[ContextPart]:
        """Return the parts, the largest of each kind first; `ratio` is of tokens to characters."""
        found = [
            ContextPart(
                kind=kind,
                name=name,
                count=self.numbers[kind, name],
                characters=characters,
                tokens=round(characters * ratio),
            )
            for (kind, name), characters in self.characters.items()
        ]
        kinds = ("system", "tools", "messages")
        return sorted(found, key=lambda one: (kinds.index(one.kind), -one.characters))


async def context_report(instance: Instance, session_id: str, named: str = "") -> ContextReport:
    """Tell what a session's next request sends to the model that is named, or to the one that would answer.

    Raises `Invalid` where there is none, and `NotFound`.
    """
    seen = Inspected(instance)
    live = await instance.sessions.open(session_id)
    try:
        model = instance.models.find(named) if named else seen.model(live)
        tools = seen.tools(live)
    except (NoModel, UnknownModel) as error:
        raise Invalid(str(error)) from error
    counts = _Counts()
    await _add_system(counts, seen, live)
    _add_tools(counts, instance, tools)
    sent = visible(live.history)
    end, spent = _counted(sent)
    _add_messages(counts, sent[:end])
    _add_grown(counts, "messages", live.prefix.texts if live.prefix and end else ())
    # What the last answer's calls gave, and what was said since, is not in the provider's count.
    known = sum(counts.characters.values()) - _results(sent[end - 1 : end])
    ratio = spent / known if spent else 1 / compaction.CHARACTERS
    _add_messages(counts, sent[end:])
    used = round(sum(counts.characters.values()) * ratio)
    limit, room = model.limit, compaction.room(instance, live, model)
    return ContextReport(
        model=model.ref,
        window=limit.input or limit.context or None,
        room=room,
        automatic=not compaction.is_off(instance),
        used=used,
        left=max(0, room - used),
        counted=bool(spent),
        parts=counts.parts(ratio),
    )


async def _add_system(counts: _Counts, seen: Inspected, live: SessionState) -> None:
    agent = seen.agent(live)
    if agent is None:
        return
    own = await own_prompt(seen.instance, live, agent)
    text = "\n\n".join(live.system or own)
    rest = len(text) - _add_grown(counts, "system", live.prefix.characters if live.prefix else ())
    for instruction in seen.instance.instructions.read():
        if instruction in text:
            file = instruction.partition("\n")[0].removeprefix("Instructions from: ")
            counts.add("system", file, len(instruction))
            rest -= len(instruction)
    counts.add("system", f"agent {agent.name}", max(0, rest))


def _add_grown(counts: _Counts, kind: Kind, stages: Iterable[tuple[str, int]]) -> int:
    """Count what plugins added, by how long it was after each, and return all of it."""
    before = added = 0
    for plugin, after in stages:
        if plugin and after > before:
            counts.add(kind, f"plugin {plugin}", after - before)
            added += after - before
        before = after
    return added


def _add_tools(counts: _Counts, instance: Instance, tools: dict[str, Tool]) -> None:
    owners = instance.plugins.owners()
    for name, tool in tools.items():
        owner = owners.get(name, "")
        source = (
            _server(name, instance.config.mcp) if owner == MCP else f"plugin {owner}" if owner else _BUILTIN
        )
        size = len(name) + len(tool.description) + len(msgspec.json.encode(tool.parameters))
        counts.add("tools", source, size)


def _server(tool: str, servers: Iterable[str]) -> str:
    return next((f"{MCP} {one}" for one in servers if tool.startswith(tool_name(one, ""))), MCP)


def _counted(sent: Sequence[WithParts]) -> tuple[int, int]:
    """Return the place behind the last answer that the provider counted, and its tokens; 0 and 0 where none was."""
    for place in range(len(sent), 0, -1):
        info = sent[place - 1].info
        if isinstance(info, Assistant) and info.summary:
            break
        if isinstance(info, Assistant) and info.finish and (spent := compaction.used(info.tokens)):
            return place, spent
    return 0, 0


def _add_messages(counts: _Counts, messages: Iterable[WithParts]) -> None:
    for message in messages:
        for part in message.parts:
            characters = compaction.part_size(part) * compaction.CHARACTERS
            if characters:
                counts.add("messages", _name(message, part), characters)


def _results(messages: Iterable[WithParts]) -> int:
    calls = (part for message in messages for part in message.parts if isinstance(part, ToolPart))
    return sum(map(compaction.result_size, calls)) * compaction.CHARACTERS


def _name(message: WithParts, part: Part) -> str:
    match part:
        case ToolPart():
            return f"calls of {part.tool}"
        case ReasoningPart():
            return "reasoning"
        case FilePart():
            return "files"
        case TextPart() if isinstance(message.info, Assistant):
            return "summary" if message.info.summary else "answers"
        case TextPart(synthetic=True):
            return "added to prompts"
    return "prompts"
