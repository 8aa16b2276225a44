"""How full a model's window is: tokens by estimate, the room that a conversation has, what came since."""

from typing import Final

import msgspec

from instar.config import CompactionConfig
from instar.message import (
    Assistant,
    FilePart,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    Tokens,
    ToolCompleted,
    ToolPart,
    User,
    WithParts,
    visible,
)
from instar.provider.convert import result_text
from instar.provider.protocol import Model

_CHARACTERS: Final = 4
"""Characters of a token, roughly (the reference's section 3.6)."""
_PICTURE: Final = 1_500
"""Tokens of an image: providers scale larger ones down."""
_DOCUMENT: Final = 20
"""Characters of a document's url for a token: its pages count, not its bytes."""
_NAME: Final = 50


def tokens(text: str) -> int:
    """Return how many tokens a text has, roughly."""
    return -(-len(text) // _CHARACTERS)


def size(message: WithParts) -> int:
    """Return how many tokens a message has when it is sent, roughly."""
    found = 0
    for part in message.parts:
        if isinstance(part, ToolPart):
            found += len(msgspec.json.encode(part.state.input)) // _CHARACTERS + result_size(part)
        elif isinstance(part, TextPart):
            found += 0 if part.ignored else tokens(part.text)
        elif isinstance(part, ReasoningPart):
            found += tokens(part.text)
        elif isinstance(part, FilePart):
            found += file_size(part)
        elif isinstance(part, SubtaskPart):
            found += tokens(part.prompt)
    return found


def result_size(part: ToolPart) -> int:
    """Return how many tokens the model reads of a call's result, roughly."""
    state = part.state
    files = state.attachments if isinstance(state, ToolCompleted) and not state.time.compacted else None
    return tokens(result_text(part)) + sum(map(file_size, files or ()))


def file_size(part: FilePart) -> int:
    """Return how many tokens a file has, roughly; one that is only named has a few."""
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
    """Return a model as if its window had no more than `window` tokens; one that is not known has that many."""
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
    """Tokens of the tool outputs that were cleared since the last call: it still counted them."""
    since = last.time.completed or last.time.created
    found = 0
    for message in reversed(history):
        for part in message.parts:
            if isinstance(part, ToolPart) and isinstance(part.state, ToolCompleted):
                cleared = part.state.time.compacted
                found += tokens(part.state.output) if cleared and cleared >= since else 0
    return found


def _is_futile(history: list[WithParts], room: int) -> bool:
    """Whether the first request after the last summary filled the room already: the next one would as well."""
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
