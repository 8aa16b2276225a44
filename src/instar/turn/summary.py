"""One compaction: what it summarises and keeps, the call, and how the session goes on from it."""

import json
import logging
from typing import Final

import msgspec

from instar import wire
from instar.definitions.agent import Agent, UnknownAgent, sampling_temperature, shipped_prompt
from instar.event import SessionCompacted, make
from instar.limits.budget import ReachedLimit
from instar.message import (
    Assistant,
    CompactionPart,
    Created,
    FilePart,
    MessageAbortedError,
    Part,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolPart,
    User,
    WithParts,
    decode_part,
    mark_of,
    newest_user,
    part_to_plain,
    text_of,
    visible,
)
from instar.plugin import PromptBody, points
from instar.provider.convert import result_text
from instar.provider.protocol import Finish, ModelRequest, ProviderError, describe
from instar.provider.resolve import NoModel, UnknownModel
from instar.session.instance import Instance
from instar.session.sessions import place_in
from instar.turn import step
from instar.turn.compaction import conversation, file_size, is_media, room, waiting
from instar.turn.context import Turn, finish_request
from instar.turn.model_call import CallMeter, metered
from instar.turn.step import AnswerWriter
from instar.wire import ids
from instar.wire.pattern import late_pattern

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
_CHARACTERS: Final = 3
"""Characters of a token when it must fit: code and many languages take more tokens than English prose."""
SHARES: Final = (1.0, 0.5, 0.25)
"""How much of what should have fitted is tried, where the provider says that it did not."""
LONGEST_RESULT: Final = 2_000
"""Characters of one tool result, of a call's arguments and of a text that no person wrote."""
_MARK: Final = 100
"""Room for the sentence that says what was left out."""
_LINE_END: Final = late_pattern("\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")


class SummaryPlan(msgspec.Struct, frozen=True):
    """What one compaction does: `summarised` becomes the summary, with `prior`, the summary before it.

    `again` are prompts that nobody answered: they are given anew after the summary. `held`: a prompt that nobody
    answered is in what is kept, or in the summary. `last`: the prompt that was worked on.
    """

    summarised: list[WithParts]
    prior: WithParts | None
    again: list[WithParts]
    held: bool
    last: User | None


class SummaryTask(msgspec.Struct, frozen=True):
    """What is to be summarised: the messages, the summary of what was before them, and what hooks had to say."""

    messages: list[WithParts]
    prior: str
    system: list[str]
    hooked: points.CompactingOutput


def plan(history: list[WithParts], asked: WithParts) -> SummaryPlan:
    """Return what the compaction that `asked` asks for does: a pure function of the history.

    After an overflow the prompt that nobody answered is taken out and given again, if there is something else
    to summarise; if it is what does not fit, it is summarised with the rest.
    """
    mark = mark_of(asked)
    assert mark is not None
    before = history[: next(index for index, message in enumerate(history) if message is asked)]
    sent = visible(before)
    talk = conversation(sent)
    prior = sent[1] if len(talk) < len(sent) else None
    last = newest_user(talk)
    open_ = waiting(before, last) if last is not None and mark.auto else []
    kept = next((i for i, m in enumerate(talk) if m.info.id == mark.tail_start_id), len(talk))
    rest = talk[: next((i for i, m in enumerate(talk) if m in open_), len(talk))]
    if mark.overflow and open_ and rest:
        return SummaryPlan(rest, prior, open_, held=True, last=last)
    return SummaryPlan(talk[:kept], prior, [], held=bool(open_), last=last)


async def run(instance: Instance, turn: Turn) -> step.Outcome:
    """Answer a message that asks for a summary, publish ``session.compacted``, and see how to go on.

    A summary that fails is saved with its error, and the history stays what it was.
    """
    asked = turn.live.find(turn.user.id)
    assert asked is not None
    doing = plan(turn.live.history, asked)
    problem = _take_over(instance, turn)
    async with metered(instance, step.call_for(turn, "compaction")) as meter:
        if isinstance(meter, ReachedLimit):
            return step.limited(instance, turn, meter)
        async with step.answering(instance, turn, meter, summary=True) as writer:
            if problem is not None:
                raise ProviderError(problem)
            task = await gather(instance, turn, doing.summarised, doing.prior)
            await _stream(instance, turn, task, writer, meter)
            finish = await _whole(instance, writer.holder, writer)
            await meter.done(finish.tokens, writer.holder.info.id)
            await step.end(instance, turn, writer.holder, finish)
    if writer.outcome is not None:
        return "failed"
    await _tell(instance, turn, asked, writer.holder)
    await _go_on(instance, turn, asked, doing)
    return "final"


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


async def _stream(
    instance: Instance, turn: Turn, task: SummaryTask, writer: AnswerWriter, meter: CallMeter
) -> None:
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


async def _whole(instance: Instance, holder: WithParts, writer: AnswerWriter) -> Finish:
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


async def _go_on(instance: Instance, turn: Turn, asked: WithParts, doing: SummaryPlan) -> None:
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
    media = [part for part in message.parts if isinstance(part, FilePart) and is_media(part)]
    stripped = sum(map(file_size, media)) > room(instance, live, model) // 2
    parts = [_repeated(part, user, stripped=stripped) for part in message.parts]
    more = live.attribute(user.id, live.origin_of(message.info.id))
    await instance.sessions.save_message(live, user, parts, more)


def _repeated(part: Part, user: User, *, stripped: bool) -> Part:
    if stripped and isinstance(part, FilePart) and is_media(part):
        text = f"[{part.filename or 'A file'} ({part.mime}) was attached here; it did not fit the model's window]"
        return TextPart(text=text, synthetic=True, **place_in(user))
    place = {"id": ids.new("prt"), "sessionID": user.session_id, "messageID": user.id}
    return decode_part({**part_to_plain(part), **place})


async def gather(
    instance: Instance, turn: Turn, messages: list[WithParts], prior: WithParts | None
) -> SummaryTask:
    """Ask the hooks of a compaction, each once. The door gives transforms a copy of the messages."""
    given = points.CompactingInput(session_id=turn.live.id)
    hooked = await instance.plugins.trigger(points.COMPACTING, given, points.CompactingOutput(context=[]))
    if instance.plugins.listens(points.MESSAGES):
        seen = points.MessagesOutput(messages=messages)
        await instance.plugins.trigger(points.MESSAGES, points.Empty(), seen)
        messages = seen.messages
    system_in = points.SystemInput(session_id=turn.live.id, model=describe(turn.model), purpose="compaction")
    system = points.SystemOutput(system=[turn.agent.prompt or shipped_prompt("compaction")])
    system = await instance.plugins.trigger(points.SYSTEM, system_in, system)
    return SummaryTask(
        messages, text_of(prior) if prior else "", [text for text in system.system if text], hooked
    )


async def request_for(instance: Instance, turn: Turn, task: SummaryTask, share: float) -> ModelRequest:
    """Return the request for a summary; its conversation takes `share` of what the window has room for."""
    model, agent = turn.model, turn.agent
    part = TextPart(text=_text(task, _conversation(instance, turn, task, share)), **place_in(turn.user))
    request = ModelRequest(
        model=model,
        system=task.system,
        messages=[WithParts(info=turn.user, parts=[part])],
        temperature=sampling_temperature(agent, model.id) if model.temperature else None,
        top_p=agent.top_p,
        max_output_tokens=min(model.limit.output, 32_000) or None,
        options={**model.options, **agent.options},
        session_id=turn.live.id,
        agent=agent.name,
        purpose="compaction",
    )
    return await finish_request(instance, request, turn.user)


def _conversation(instance: Instance, turn: Turn, task: SummaryTask, share: float) -> str:
    free = room(instance, turn.live, turn.model)
    longest = max(0, free * _CHARACTERS - len(_text(task, "")) - sum(map(len, task.system)))
    whole = transcript(task.messages)
    if share == 1 and len(whole) <= longest:
        return whole
    return transcript(task.messages, int(min(len(whole), longest) * share))


def _text(task: SummaryTask, conversation: str) -> str:
    prior = f"<prior-summary>\n{inset(task.prior)}\n</prior-summary>\n\n" if task.prior else ""
    if task.hooked.prompt is not None:
        told = f"{task.hooked.prompt}\n\nThe following is the conversation history:\n\n{prior}{conversation}"
        return "\n\n".join([told, *task.hooked.context])
    told = f"{prior}Here is the conversation so far:\n\n<conversation>\n{conversation}\n</conversation>"
    again = [shipped_prompt("compaction_again")] if prior else []
    return "\n\n".join([told, shipped_prompt("compaction_request"), *again, *task.hooked.context])


class TranscriptEntry(msgspec.Struct, frozen=True):
    """One line of the transcript, and whether it is the person's own."""

    text: str
    of_person: bool = False


def transcript(messages: list[WithParts], longest: int | None = None) -> str:
    """Return messages as text of at most about `longest` characters.

    What does not fit is left out, and the text says so: first what the person did not say, oldest first, then
    the oldest of what they said. A single entry longer than half of it loses its middle.
    """
    entries = [entry for message in messages for entry in _entries(message)]
    if longest is None or _length(entries) <= longest:
        return "\n\n".join(entry.text for entry in entries)
    room = max(0, longest - _MARK)
    entries = [msgspec.structs.replace(entry, text=shortened(entry.text, room // 2)) for entry in entries]
    dropped = _dropped(entries, room)
    note = f"[{len(dropped)} entries of the conversation were left out here and below: they did not fit]"
    kept = [entry.text for index, entry in enumerate(entries) if index not in dropped]
    return "\n\n".join([note, *kept] if dropped else kept)


def shortened(text: str, longest: int) -> str:
    """Return a text with its middle cut out when it is longer than `longest` characters; it says so."""
    if len(text) <= longest:
        return text
    half = max(0, longest - _MARK) // 2
    cut = len(text) - 2 * half
    return f"{text[:half]}\n  [… {cut} characters were left out here …]\n  {text[len(text) - half :]}"


def inset(text: str) -> str:
    """Return a text that can neither begin a line of the transcript nor end it: its own lines are indented."""
    for tag in ("conversation", "prior-summary"):
        text = text.replace(f"</{tag}", f"<\\/{tag}")
    return _LINE_END.sub("\n  ", text)


def _length(entries: list[TranscriptEntry]) -> int:
    return sum(len(entry.text) + 2 for entry in entries)


def _dropped(entries: list[TranscriptEntry], room: int) -> set[int]:
    """The places of the entries that go, so that the others fit."""
    surplus = _length(entries) - room
    order = sorted(range(len(entries)), key=lambda index: (entries[index].of_person, index))
    found: set[int] = set()
    for index in order:
        if surplus <= 0:
            break
        surplus -= len(entries[index].text) + 2
        found.add(index)
    return found


def _entries(message: WithParts) -> list[TranscriptEntry]:
    if isinstance(message.info, User):
        return _asked(message)
    found = [entry for part in message.parts for entry in _answered(part)]
    if isinstance(message.info.error, MessageAbortedError):
        found.append(TranscriptEntry("[The person stopped the agent here]"))
    return found


def _asked(message: WithParts) -> list[TranscriptEntry]:
    found = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text.strip() and not part.ignored:
            found += _text_entries(part)
        elif isinstance(part, FilePart):
            found.append(TranscriptEntry(f"[User attached a file]: {_name(part)}", of_person=True))
        elif isinstance(part, SubtaskPart):
            found.append(
                TranscriptEntry(f"[User asked for a sub-agent]: {inset(part.prompt)}", of_person=True)
            )
    return found


def _text_entries(part: TextPart) -> list[TranscriptEntry]:
    if (part.metadata or {}).get("compaction_continue"):
        return []
    if part.synthetic:
        return [TranscriptEntry(f"[Note of the program]: {_brief(part.text)}")]
    return [TranscriptEntry(f"[User]: {inset(part.text)}", of_person=True)]


def _answered(part: object) -> list[TranscriptEntry]:
    if isinstance(part, TextPart) and part.text.strip() and not part.ignored:
        return [TranscriptEntry(f"[Assistant]: {inset(part.text)}")]
    if not isinstance(part, ToolPart):
        return []
    given = json.dumps(part.state.input, ensure_ascii=False)
    files = part.state.attachments if isinstance(part.state, ToolCompleted) else None
    named = "".join(f"\n  [with a file: {_name(file)}]" for file in files or ())
    call = f"[Assistant tool call]: {inset(part.tool)}({_brief(given)})"
    return [TranscriptEntry(f"{call}\n[Tool result]: {_brief(result_text(part))}{named}")]


def _name(file: FilePart) -> str:
    name = file.filename or ("a file" if file.url.startswith("data:") else file.url)
    return inset(f"{name[:200]} ({file.mime})")


def _brief(text: str) -> str:
    if len(text) <= LONGEST_RESULT:
        return inset(text)
    return f"{inset(text[:LONGEST_RESULT])} [… {len(text) - LONGEST_RESULT} characters more]"
