"""Compaction: a long history becomes a summary that the session goes on from.

A user message with a `compaction` part asks for it; the answer to that message is the summary.
`message.visible` then hides what was summarised; the history keeps it.
"""

from typing import Final

import msgspec

from instar.message import (
    Assistant,
    CompactionPart,
    Created,
    FilePart,
    Origin,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    Tokens,
    ToolCompleted,
    ToolPart,
    User,
    WithParts,
    mark_of,
    visible,
)
from instar.provider.convert import result_text
from instar.provider.protocol import Model
from instar.session.instance import Instance
from instar.session.sessions import place_in
from instar.session.state import SessionState, now
from instar.settings.config import CompactionConfig
from instar.turn.context import Turn, answering
from instar.turn.model_call import forbidden
from instar.turn.step import call_for
from instar.wire import ids

_OFF: Final = "OPENCODE_DISABLE_AUTOCOMPACT"
NEWEST: Final = 40_000
"""Tokens of the newest outputs that stay, and half of the room at most."""
_TURNS: Final = 2
_PROTECTED: Final = ("skill",)
"""Tools whose outputs stay: what a skill says holds for as long as the session lasts."""
CHARACTERS: Final = 4
"""Characters of a token, roughly, as opencode counts them."""
_PICTURE: Final = 1_500
"""Tokens of an image: providers scale larger ones down."""
_DOCUMENT: Final = 20
"""Characters of a document's url for a token: its pages count, not its bytes."""
_NAME: Final = 50


def is_due(instance: Instance, live: SessionState, model: Model) -> bool:
    """Whether the next request may not fit the model's window."""
    return not is_off(instance) and is_full(live.history, room(instance, live, model))


async def is_due_at_end(instance: Instance, turn: Turn) -> bool:
    """Whether a session is summarised right after a final answer, and then continues.

    Not after an answer that somebody waits for as it is (a sub-agent's report, or a structured one), nor when a
    limit forbids it: nothing waits for room yet.
    """
    live = turn.live
    if live.session.parent_id is not None or turn.user.format is not None:
        return False
    last = live.history[-1].info
    if not isinstance(last, Assistant) or last.error or not is_due(instance, live, turn.model):
        return False
    return await forbidden(instance, call_for(turn, "compaction")) is None


def is_asked(history: list[WithParts], asked: User) -> bool:
    """Whether the message `asked` asks for a summary."""
    holder = next((message for message in reversed(history) if message.info.id == asked.id), None)
    return holder is not None and mark_of(holder) is not None


def last_answer(history: list[WithParts], asked: str) -> WithParts:
    """Return the last answer to the message `asked`, without summaries made after it.

    Whoever said something to the session since is not answered by it. Where nothing was answered before a summary, or
    an attempt at one, ended the turn, it is the last message that is the model's, else the history's end.
    """
    at = next((index for index in range(len(history) - 1, -1, -1) if history[index].info.id == asked), -1)
    found = [one for one in history[at + 1 :] if isinstance(one.info, Assistant)]
    answers = [one for one in found if isinstance(one.info, Assistant) and not one.info.summary]
    return (answers or found or history)[-1]


def can_help(history: list[WithParts], asked: User) -> bool:
    """Whether a summary can make a refused request fit: not right after a summary that did not help."""
    open_ = waiting(history, asked)
    if not open_ or not all(map(is_going_on, open_)):
        return True
    talk = conversation(visible(history))
    return bool(talk) and talk[0] not in open_


async def ask(
    instance: Instance,
    live: SessionState,
    asked: User,
    *,
    auto: bool,
    overflow: bool | None = None,
    origin: Origin | None = None,
) -> bool:
    """Save the message that asks for a summary, of `origin` or that of `asked`.

    Returns False when nothing more can be done against an overflow. An automatic summary may not be needed once
    old tool outputs are cleared (``compaction.prune``); none is asked for then.
    """
    config = instance.config.compaction
    free = room(instance, live, answering(instance, live, asked))
    if overflow and (is_off(instance) or not can_help(live.history, asked)):
        return False
    if auto and not overflow and config.prune:
        await prune(instance, live, free)
        if not is_full(live.history, free):
            return True
    if mark_of(live.history[-1]) is not None:
        # Somebody asked at the same time: one summary is enough.
        return True
    start = None
    if not overflow:
        held = waiting(live.history, asked) if auto else []
        talk = conversation(visible(live.history))
        start = tail_start(talk, config.tail_turns, kept_budget(free, config), held)
    user = User(
        id=ids.new("msg"),
        session_id=live.id,
        time=Created(created=live.next_time()),
        agent=asked.agent,
        model=asked.model,
    )
    part = CompactionPart(auto=auto, overflow=overflow, tail_start_id=start, **place_in(user))
    more = live.attribute(user.id, origin or live.origin_of(asked.id))
    await instance.sessions.save_message(live, user, [part], more)
    return True


def room(instance: Instance, live: SessionState, model: Model) -> int:
    """Return the tokens that a session's conversation may fill before it is summarised."""
    config = instance.config
    return usable(
        narrowed(model, live.overrides.window), config.context_window_tokens, config.compaction.reserved
    )


def is_off(instance: Instance) -> bool:
    """Whether nothing is summarised without being asked."""
    value = instance.environment.get(_OFF, "").lower()
    return not instance.config.compaction.auto or value in ("1", "true")


def conversation(sent: list[WithParts]) -> list[WithParts]:
    """Return visible messages without the compaction that they begin with."""
    return sent[2:] if sent and mark_of(sent[0]) is not None else sent


def waiting(history: list[WithParts], asked: User) -> list[WithParts]:
    """Return the unanswered prompts at the end of the history: `asked`, and those just before it.

    An answer to `asked` that failed does not count as work.
    """
    found: list[WithParts] = []
    for message in reversed(history):
        info = message.info
        if isinstance(info, User) and mark_of(message) is None:
            found.insert(0, message)
        elif not (isinstance(info, Assistant) and info.parent_id == asked.id and info.error is not None):
            break
    return found if any(message.info.id == asked.id for message in found) else []


def tail_start(messages: list[WithParts], turns: int, budget: int, held: list[WithParts]) -> str | None:
    """Return the id of the first message that is kept: of the last `turns` turns, as many as fit `budget` tokens.

    A turn begins at a person's message and is kept whole, so that no tool result loses its call. The messages
    `held` are kept whatever their size. None when nothing is kept: also when nothing would be left to summarise.
    """
    first = next((index for index, message in enumerate(messages) if message in held), None)
    starts = [index for index, message in enumerate(messages[:first]) if isinstance(message.info, User)]
    found, end = first, len(messages) if first is None else first
    for start in reversed(starts[-turns:] if turns else []):
        budget -= sum(map(size, messages[start:end]))
        if budget < 0:
            break
        found = end = start
    # If everything fitted, nothing would be left to summarise: what nobody answered is kept alone.
    found = found or first
    return messages[found].info.id if found else None


def is_going_on(message: WithParts) -> bool:
    """Whether a message only tells the session to go on after it was summarised."""
    texts = [part for part in message.parts if isinstance(part, TextPart)]
    return bool(texts) and all((part.metadata or {}).get("compaction_continue") for part in texts)


def clearable(sent: list[WithParts], newest: int) -> list[tuple[WithParts, ToolPart]]:
    """Return the outputs that may be cleared, each with its message: those beyond the `newest` tokens of them.

    The last two turns' outputs are neither cleared nor counted.
    """
    found: list[tuple[WithParts, ToolPart]] = []
    turns = seen = 0
    for message in reversed(sent):
        turns += isinstance(message.info, User)
        # A turn's answers stand after its prompt: this prompt's own are past.
        if turns < _TURNS or isinstance(message.info, User):
            continue
        for part in reversed(message.parts):
            if not isinstance(part, ToolPart) or not _is_clearable(part):
                continue
            seen += result_size(part)
            if seen > newest:
                found.append((message, part))
    return found


async def prune(instance: Instance, live: SessionState, room: int) -> None:
    """Clear old tool outputs of a conversation that may fill `room` tokens: save when, and publish it."""
    for holder, part in clearable(visible(live.history), min(NEWEST, room // 2)):
        assert isinstance(part.state, ToolCompleted)
        time = msgspec.structs.replace(part.state.time, compacted=now())
        state = msgspec.structs.replace(part.state, time=time)
        await instance.sessions.save_part(holder, msgspec.structs.replace(part, state=state))


def _is_clearable(part: ToolPart) -> bool:
    state = part.state
    return isinstance(state, ToolCompleted) and not state.time.compacted and part.tool not in _PROTECTED


def tokens(text: str) -> int:
    """Return how many tokens a text has, roughly."""
    return -(-len(text) // CHARACTERS)


def size(message: WithParts) -> int:
    """Return how many tokens a message has when it is sent, roughly."""
    return sum(map(part_size, message.parts))


def part_size(part: Part) -> int:
    """Return how many tokens a part has when it is sent, roughly."""
    match part:
        case ToolPart():
            return len(msgspec.json.encode(part.state.input)) // CHARACTERS + result_size(part)
        case TextPart():
            return 0 if part.ignored else tokens(part.text)
        case ReasoningPart():
            return tokens(part.text)
        case FilePart():
            return file_size(part)
        case SubtaskPart():
            return tokens(part.prompt)
    return 0


def result_size(part: ToolPart) -> int:
    """Return how many tokens the model reads of a call's result, roughly."""
    state = part.state
    files = state.attachments if isinstance(state, ToolCompleted) and not state.time.compacted else None
    return tokens(result_text(part)) + sum(map(file_size, files or ()))


def file_size(part: FilePart) -> int:
    """Return the approximate tokens of a file; one that is only named has a few."""
    if not part.url.startswith("data:"):
        return _PICTURE if is_media(part) and part.url.startswith("http") else _NAME
    if part.mime.startswith("image/"):
        return _PICTURE
    if is_media(part):
        return max(_PICTURE, len(part.url) // _DOCUMENT)
    return tokens(part.url)


def is_media(part: FilePart) -> bool:
    """Whether a file is an image or a document: nothing that could stand as text."""
    return part.mime.startswith(("image/", "audio/", "video/")) or part.mime.startswith("application/pdf")


def used(spent: Tokens) -> int:
    """Return how much of the window a call took."""
    return spent.total or spent.input + spent.output + spent.cache.read + spent.cache.write


def usable(model: Model, unknown_window: int, reserved: int | None = None) -> int:
    """Return the tokens that a conversation may fill: the window less room for the answer.

    `unknown_window` stands in for a window that is not known. `reserved` is what the person wants to stay free
    at least; a quarter of the window stays usable whatever they say.
    """
    limit = model.limit
    if limit.input:
        free = min(20_000, limit.output or 20_000) if reserved is None else reserved
        return max(limit.input - free, limit.input // 4)
    window = limit.context or unknown_window
    free = min(limit.output or 8_192, 32_000, window // 2)
    return max(window - max(free, reserved or 0), window // 4)


def narrowed(model: Model, window: int | None) -> Model:
    """Return a model with a window of at most `window` tokens; an unknown window becomes `window`."""
    if window is None:
        return model
    limit = model.limit
    limit = msgspec.structs.replace(
        limit, context=min(window, limit.context or window), input=limit.input and min(window, limit.input)
    )
    return msgspec.structs.replace(model, limit=limit)


def kept_budget(room: int, config: CompactionConfig) -> int:
    """Return how many tokens of recent turns may be kept as they are, of a conversation that may fill `room`.

    At most half of it, whatever the settings say: a summary that frees nothing would be asked for again at once.
    """
    budget = config.preserve_recent_tokens
    if budget is None:
        budget = min(15_000, max(2_000, room // 4))
    return min(budget, room // 2)


def is_full(history: list[WithParts], room: int) -> bool:
    """Whether the next request may not fit into `room`, and a summary would help.

    Counted is what the last call took, what its tools answered since, and what was said since. No summary helps
    against a prompt that fills the room alone, or against a system prompt and tools that do, nor is one tried twice
    when it failed.
    """
    said = 0
    for message in reversed(history):
        info = message.info
        if isinstance(info, User):
            said += size(message)
        elif info.summary:
            # Just summarised, or a summary that failed or was aborted: the step itself is tried now.
            return False
        elif info.finish:
            load = said + _load(history, message, info)
            # What costs a look at every message is asked last.
            full = said < room <= load and room <= load - _cleared(history, info)
            return full and not _is_futile(history, room)
    return False


def _load(history: list[WithParts], last: WithParts, info: Assistant) -> int:
    results = sum(result_size(part) for part in last.parts if isinstance(part, ToolPart))
    if spent := used(info.tokens):
        return spent + results
    # A provider that counts nothing: local servers often do not.
    sent = visible(history)
    newest = next(index for index, message in enumerate(sent) if message is last)
    return sum(map(size, sent[: newest + 1]))


def _cleared(history: list[WithParts], last: Assistant) -> int:
    """Return the tokens of the tool outputs that were cleared since the last call, whose usage includes them."""
    since = last.time.completed or last.time.created
    found = 0
    for message in reversed(history):
        for part in message.parts:
            if isinstance(part, ToolPart) and isinstance(part.state, ToolCompleted):
                cleared = part.state.time.compacted
                found += tokens(part.state.output) if cleared and cleared >= since else 0
    return found


def _is_futile(history: list[WithParts], room: int) -> bool:
    """Whether the first request after the last summary was already too large, so that another summary is futile."""
    first: Tokens | None = None
    for message in reversed(history):
        info = message.info
        if not isinstance(info, Assistant):
            continue
        if info.summary and info.error is None:
            return first is not None and first.input + first.cache.read + first.cache.write >= room
        if info.finish and not info.summary:
            first = info.tokens
    return False
