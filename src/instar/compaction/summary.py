"""One compaction: what it summarises and keeps, the call, and how the session goes on from it."""

import asyncio
import logging
from typing import Final

import msgspec

from instar import ids, step, wire
from instar.account import Forbidden, Meter, metered
from instar.agent import Agent, UnknownAgent
from instar.compaction.request import SHARES, Task, gather, request_for
from instar.compaction.tail import conversation, is_going_on, waiting
from instar.compaction.window import file_size, is_media, usable
from instar.context import Turn
from instar.event import SessionCompacted, make
from instar.instance import Instance
from instar.message import (
    Assistant,
    CompactionPart,
    Created,
    FilePart,
    Part,
    TextPart,
    ToolPart,
    User,
    WithParts,
    decode_part,
    mark_of,
    part_to_plain,
    text_of,
    visible,
)
from instar.plugin import PromptBody, points
from instar.provider.assemble import UnknownModel
from instar.provider.describe import describe
from instar.provider.protocol import Finish, ProviderError
from instar.provider.resolve import NoModel
from instar.stream import Writer
from instar.usage import Reached

log = logging.getLogger("instar.compaction")

CONTINUE: Final = (
    "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed."
)
LEFT_OUT: Final = (
    "The last message did not fit the model's window. It was shortened and summarised above, and files that were "
    "attached to it are gone. If you need what is missing, say so to the person."
)
_SHORTEST: Final = 4_000
"""Characters of a request that are not what does not fit: cutting them would not help."""


class Plan(msgspec.Struct, frozen=True):
    """What one compaction does: `summarised` becomes the summary, with `prior`, the summary before it.

    `again` are prompts that nobody answered: they are given anew after the summary. `held`: a prompt that nobody
    answered is in what is kept, or in the summary. `last`: the prompt that was worked on.
    """

    summarised: list[WithParts]
    prior: WithParts | None
    again: list[WithParts]
    held: bool
    last: User | None


def plan(history: list[WithParts], asked: WithParts) -> Plan:
    """Return what the compaction that `asked` asks for does: a pure function of the history.

    After an overflow the prompt that nobody answered is taken out and given again, if there is something else
    to summarise; if it is what does not fit, it is summarised with the rest (the reference's section 3.6).
    """
    mark = mark_of(asked)
    assert mark is not None
    before = history[: next(index for index, message in enumerate(history) if message is asked)]
    sent = visible(before)
    talk = conversation(sent)
    prior = sent[1] if len(talk) < len(sent) else None
    last = next((m.info for m in reversed(talk) if isinstance(m.info, User)), None)
    open_ = waiting(before, last) if last is not None and mark.auto else []
    kept = next((i for i, m in enumerate(talk) if m.info.id == mark.tail_start_id), len(talk))
    rest = talk[: next((i for i, m in enumerate(talk) if m in open_), len(talk))]
    if mark.overflow and open_ and rest:
        return Plan(rest, prior, open_, held=True, last=last)
    return Plan(talk[:kept], prior, [], held=bool(open_), last=last)


def can_help(history: list[WithParts], asked: User) -> bool:
    """Whether a summary can make a request fit that was refused: not right after the last one did not."""
    open_ = waiting(history, asked)
    if not open_ or not all(map(is_going_on, open_)):
        return True
    talk = conversation(visible(history))
    return bool(talk) and talk[0] not in open_


async def run(instance: Instance, turn: Turn) -> step.Outcome:
    """Answer a message that asks for a summary, publish ``session.compacted``, and see how to go on.

    A summary that fails is saved with its error, and the history stays what it was.
    """
    asked = turn.live.find(turn.user.id)
    assert asked is not None
    doing = plan(turn.live.history, asked)
    problem = _take_over(instance, turn)
    async with metered(instance, step.call_for(turn, "compaction")) as meter:
        if isinstance(meter, Reached):
            return step.limited(instance, turn, meter)
        holder = await _summarise(instance, turn, doing, problem, meter)
    if holder is None:
        return "failed"
    await _tell(instance, turn, asked, holder)
    await _go_on(instance, turn, asked, doing)
    return "final"


async def _summarise(
    instance: Instance, turn: Turn, doing: Plan, problem: str | None, meter: Meter
) -> WithParts | None:
    """Write the summary; None when it failed, or when a `problem` forbids it: the answer says why."""
    holder = await step.begin(instance, turn, summary=True)
    writer = Writer(instance, turn.live, holder)
    try:
        if problem is not None:
            raise ProviderError(problem)
        task = await gather(instance, turn, doing.summarised, doing.prior)
        await _stream(instance, turn, task, writer, meter)
        finish = await _whole(instance, holder, writer)
        await meter.done(finish.tokens, holder.info.id)
        await step.end(instance, turn, holder, finish)
    except asyncio.CancelledError:
        await step.aborted(instance, turn, holder, writer)
        raise
    except Forbidden as refused:
        await step.stopped(instance, turn, holder, refused.reached)
        return None
    except Exception as error:
        meter.failed(error)
        await step.failed(instance, turn, holder, writer, error)
        return None
    return holder


def _take_over(instance: Instance, turn: Turn) -> str | None:
    """Let the agent `compaction` answer, with its own model if it has one. Return what is wrong with it."""
    asking, turn.agent = turn.agent, Agent("compaction", hidden=True)
    try:
        turn.agent = instance.agents.get("compaction")
        if (own := turn.agent.model) is not None:
            turn.model = instance.models.find(f"{own.provider_id}/{own.model_id}")
    except (UnknownAgent, UnknownModel, NoModel) as error:
        log.warning("no summary session=%s agent=%s error=%s", turn.live.id, asking.name, error)
        return f"the agent compaction cannot be used: {error}"
    return None


async def _stream(instance: Instance, turn: Turn, task: Task, writer: Writer, meter: Meter) -> None:
    """Make the call, with less of the conversation where the provider says that it did not fit."""
    for share in SHARES:
        request = await request_for(instance, turn, task, share)
        try:
            await step.stream(instance, turn, request, writer, meter)
        except ProviderError as error:
            short = len(text_of(request.messages[0])) <= _SHORTEST
            if error.kind != "overflow" or share == SHARES[-1] or short:
                raise
            log.info("summary did not fit session=%s share=%s", turn.live.id, share)
            await writer.discard()
        else:
            return


async def _whole(instance: Instance, holder: WithParts, writer: Writer) -> Finish:
    """Return the end of a summary. Raises `ProviderError` when it says nothing: the history must not go for that."""
    finish = step.finished(writer)
    if not text_of(holder).strip():
        raise ProviderError("the model wrote no summary; the conversation stays as it was")
    for part in [part for part in holder.parts if isinstance(part, ToolPart)]:
        # No tool was offered: a call that was made up has no result, and would make the loop wait for one.
        await instance.sessions.drop_part(holder, part)
    return Finish("stop" if finish.reason == "tool-calls" else finish.reason, finish.tokens)


async def _tell(instance: Instance, turn: Turn, asked: WithParts, holder: WithParts) -> None:
    instance.bus.publish(make(SessionCompacted(session_id=turn.live.id)))
    if not instance.plugins.listens(points.COMPACTION_AFTER):
        return
    seen, mark = holder.copy(), mark_of(asked)
    assert isinstance(seen.info, Assistant)
    assert mark is not None
    given = points.CompactedInput(
        session_id=turn.live.id,
        message=seen.info,
        parts=seen.parts,
        auto=mark.auto,
        overflow=bool(mark.overflow),
    )
    await instance.plugins.trigger(points.COMPACTION_AFTER, given, points.Empty())


async def _go_on(instance: Instance, turn: Turn, asked: WithParts, doing: Plan) -> None:
    """After an automatic summary: give the open prompts again, or queue a word to go on if plugins let it."""
    mark = mark_of(asked)
    if mark is None or not mark.auto:
        return
    for message in doing.again:
        await _repeat(instance, turn, message)
    later = turn.live.history[turn.live.history.index(asked) + 1 :]
    if any(isinstance(message.info, User) for message in later):
        return
    if not doing.held and not await _is_wanted(instance, turn, mark):
        return
    last = doing.last or turn.user
    body = PromptBody.text(
        f"{LEFT_OUT}\n\n{CONTINUE}" if mark.overflow and doing.held else CONTINUE,
        synthetic=True,
        agent=turn.user.agent,
        model=turn.user.model,
        variant=turn.user.model.variant,
        system=last.system,
        tools=last.tools,
        format=last.format,
    )
    body.parts[0]["metadata"] = {"compaction_continue": True}
    origin = turn.live.origin_of(turn.user.id)
    await instance.sessions.queue(turn.live.id, "compaction", wire.to_plain(body), origin)


async def _is_wanted(instance: Instance, turn: Turn, mark: CompactionPart) -> bool:
    model = instance.models.find(f"{turn.user.model.provider_id}/{turn.user.model.model_id}")
    given = points.AutocontinueInput(
        session_id=turn.live.id,
        agent=turn.user.agent,
        model=describe(model),
        provider=instance.models.info(model.provider_id),
        message=wire.copy(turn.user),
        overflow=bool(mark.overflow),
    )
    output = points.AutocontinueOutput(enabled=True)
    return bool((await instance.plugins.trigger(points.AUTOCONTINUE, given, output)).enabled)


async def _repeat(instance: Instance, turn: Turn, message: WithParts) -> None:
    """Save a prompt again, after the summary; files that are likely what did not fit become a sentence."""
    assert isinstance(message.info, User)
    live = turn.live
    created = Created(created=live.next_time())
    user = msgspec.structs.replace(message.info, id=ids.new("msg"), time=created)
    model = instance.models.find(f"{user.model.provider_id}/{user.model.model_id}")
    unknown = live.tuning.window or instance.config.context_window_tokens
    room = usable(model, unknown, instance.config.compaction.reserved)
    media = [part for part in message.parts if isinstance(part, FilePart) and is_media(part)]
    stripped = sum(map(file_size, media)) > room // 2
    parts = [_repeated(part, user, stripped=stripped) for part in message.parts]
    more = live.attribute(user.id, live.origin_of(message.info.id))
    await instance.sessions.save_message(live, user, parts, more)


def _repeated(part: Part, user: User, *, stripped: bool) -> Part:
    place = {"id": ids.new("prt"), "sessionID": user.session_id, "messageID": user.id}
    if stripped and isinstance(part, FilePart) and is_media(part):
        text = f"[{part.filename or 'A file'} ({part.mime}) was attached here; it did not fit the model's window]"
        return TextPart(
            id=place["id"], session_id=user.session_id, message_id=user.id, text=text, synthetic=True
        )
    return decode_part({**part_to_plain(part), **place})
