"""The text that is summarised: a conversation as lines, which only a person's words can begin with ``[User]``."""

import json
import re
from typing import Final

import msgspec

from instar.message import (
    FilePart,
    MessageAbortedError,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolPart,
    User,
    WithParts,
)
from instar.provider.convert import result_text

LONGEST_RESULT: Final = 2_000
"""Characters of one tool result, of a call's arguments and of a text that no person wrote."""
_MARK: Final = 100
"""Room for the sentence that says what was left out."""
_LINE_END: Final = re.compile("\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")


class Entry(msgspec.Struct, frozen=True):
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


def _length(entries: list[Entry]) -> int:
    return sum(len(entry.text) + 2 for entry in entries)


def _dropped(entries: list[Entry], room: int) -> set[int]:
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


def _entries(message: WithParts) -> list[Entry]:
    if isinstance(message.info, User):
        return _asked(message)
    found = [entry for part in message.parts for entry in _answered(part)]
    if isinstance(message.info.error, MessageAbortedError):
        found.append(Entry("[The person stopped the agent here]"))
    return found


def _asked(message: WithParts) -> list[Entry]:
    found = []
    for part in message.parts:
        if isinstance(part, TextPart) and part.text.strip() and not part.ignored:
            found += _text(part)
        elif isinstance(part, FilePart):
            found.append(Entry(f"[User attached a file]: {_name(part)}", of_person=True))
        elif isinstance(part, SubtaskPart):
            found.append(Entry(f"[User asked for a sub-agent]: {inset(part.prompt)}", of_person=True))
    return found


def _text(part: TextPart) -> list[Entry]:
    if (part.metadata or {}).get("compaction_continue"):
        return []
    if part.synthetic:
        return [Entry(f"[Note of the program]: {_brief(part.text)}")]
    return [Entry(f"[User]: {inset(part.text)}", of_person=True)]


def _answered(part: object) -> list[Entry]:
    if isinstance(part, TextPart) and part.text.strip() and not part.ignored:
        return [Entry(f"[Assistant]: {inset(part.text)}")]
    if not isinstance(part, ToolPart):
        return []
    given = json.dumps(part.state.input, ensure_ascii=False)
    files = part.state.attachments if isinstance(part.state, ToolCompleted) else None
    named = "".join(f"\n  [with a file: {_name(file)}]" for file in files or ())
    call = f"[Assistant tool call]: {inset(part.tool)}({_brief(given)})"
    return [Entry(f"{call}\n[Tool result]: {_brief(result_text(part))}{named}")]


def _name(file: FilePart) -> str:
    name = file.filename or ("a file" if file.url.startswith("data:") else file.url)
    return inset(f"{name[:200]} ({file.mime})")


def _brief(text: str) -> str:
    if len(text) <= LONGEST_RESULT:
        return inset(text)
    return f"{inset(text[:LONGEST_RESULT])} [… {len(text) - LONGEST_RESULT} characters more]"
