"""Our messages as Chat Completions messages, always the same bytes for the same input.

Prompt caches work on prefixes, so nothing here may depend on time, on order in a set or on what came
later. A message that has not changed since the last call is not converted again: a session's 400th
step costs what its 10th costs.

What the model is not sent: ignored and empty text, step, snapshot, patch and retry parts, parts of
unknown types, and answers that failed before they said or asked anything.
"""

import base64
import binascii
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec

from instar.message import (
    APIError,
    Assistant,
    CompactionPart,
    ContextOverflowError,
    FilePart,
    Part,
    ProviderAuthError,
    ReasoningPart,
    StepFinishPart,
    StepStartPart,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
    UnknownError,
    UnknownPart,
    WithParts,
)
from instar.provider.definition import Remembered, Shown
from instar.provider.protocol import Model, Piece, Request, Sent, ToolSpec, piece
from instar.wire import Plain, encode

INTERRUPTED: Final = "[Tool execution was interrupted]"
"""The result of a call that never ended: a call without a result would make every later request fail."""
CLEARED: Final = "[Old tool result content cleared]"
"""The result of a call whose output was pruned (opencode 1.18's words)."""
SUMMARISED: Final = "What did we do so far?"
"""What a person's message that marks a compaction says (opencode 1.18's words)."""
RETURNED: Final = "Files that the tool calls above returned:"
"""What begins the synthetic message of a person's that holds a tool's files (seed 004 section 4)."""
_KEPT_BYTES: Final = 16 << 20


class Kept(msgspec.Struct, frozen=True):
    """A message's JSON, and the values that it was made of: equal values, equal bytes."""

    made_of: list[Any]
    json: bytes
    piece: Piece


class Converter:
    """Converts messages and remembers the result by message, up to 16 MiB in all.

    `attachment`: the model takes images and PDFs. `reasoning_field`: the key in which the provider wants
    earlier thinking back (``reasoning_content`` …), None to leave it out.
    """

    def __init__(self, *, attachment: bool = False, reasoning_field: str | None = None) -> None:
        self._attachment = attachment
        self._field = reasoning_field
        self._kept: dict[str, Kept] = {}
        self._bytes = 0

    def json(self, system: list[str], messages: list[WithParts]) -> bytes:
        """Return the JSON array of the whole conversation, the system prompt as its one first message."""
        return conversation(system, self.kept(messages))

    def kept(self, messages: list[WithParts]) -> list[Kept]:
        """Return the messages that something is sent of, converted."""
        return [kept for message in messages if (kept := self._message(message)).json]

    def plain(self, system: list[str], messages: list[WithParts]) -> list[Plain]:
        """Return the same conversation as plain values."""
        return msgspec.json.decode(self.json(system, messages), type=list[dict[str, Any]])

    def _message(self, message: WithParts) -> Kept:
        made_of = values_of(message)
        kept = self._kept.get(message.info.id)
        if kept is not None and kept.made_of == made_of:
            return kept
        wire = convert(message, attachment=self._attachment, reasoning_field=self._field)
        data = b",".join([encode(item) for item in wire])
        new = Kept(made_of, data, piece(message.info.id, data))
        self._keep(message.info.id, new, kept)
        return new

    def _keep(self, message_id: str, new: Kept, old: Kept | None) -> None:
        if len(new.json) > _KEPT_BYTES // 8:
            return
        self._bytes += len(new.json) - (len(old.json) if old else 0)
        self._kept[message_id] = new
        while self._bytes > _KEPT_BYTES:
            oldest = next(iter(self._kept))
            self._bytes -= len(self._kept.pop(oldest).json)


def conversation(system: list[str], messages: list[Kept]) -> bytes:
    """Return the JSON array of a conversation whose messages are converted already."""
    head = [encode(message) for message in system_messages(system)]
    return b"[" + b",".join([*head, *(kept.json for kept in messages)]) + b"]"


def sent(request: Request, messages: list[Kept], body: bytes = b"") -> Sent:
    """Return what a provider's cache compares of a request whose messages are converted already."""
    tools = [_function(spec).piece for spec in request.tools]
    system = piece("", b"".join(encode(message) for message in system_messages(request.system)))
    return Sent(tools, system, [kept.piece for kept in messages], body)


def system_messages(system: list[str]) -> list[Plain]:
    """Return the system prompt as one message, its blocks joined by a blank line; none when all are empty.

    One, since the templates of several open models refuse a second one.
    """
    text = "\n\n".join(block for block in system if block)
    return [{"role": "system", "content": text}] if text else []


def tool_list(tools: list[ToolSpec]) -> bytes:
    """Return tools as a JSON array of Chat Completions functions, in the order given."""
    return b"[" + b",".join([_function(spec).json for spec in tools]) + b"]"


@Remembered
def _function(spec: ToolSpec) -> Shown:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return Shown.of(spec, encode({"type": "function", "function": function}))


def convert(
    message: WithParts, *, attachment: bool = False, reasoning_field: str | None = None
) -> list[Plain]:
    """Return what the provider is sent for one message: none, one, or an answer with its tool results."""
    if not isinstance(message.info, Assistant):
        return _user(message.parts, attachment)
    if failed_empty(message):
        return []
    found: list[Plain] = []
    for step in cut_steps(message.parts):
        found += _answer(step, attachment, reasoning_field)
    return found


def reasoning_field(model: Model) -> str | None:
    """Return the key in which the model wants its earlier thinking back: opencode's ``interleaved``."""
    wanted = model.interleaved
    if isinstance(wanted, dict):
        wanted = wanted.get("field")
    if wanted is True:
        return "reasoning_content"
    return wanted if isinstance(wanted, str) and wanted else None


def values_of(message: WithParts) -> list[Any]:
    """The values of a message that reach the provider: same objects compare fast."""
    found: list[Any] = [getattr(message.info, "error", None)]
    for part in message.parts:
        # By type and the frequent ones first: every step asks this of every message.
        kind = type(part)
        if kind is StepFinishPart:
            continue
        if kind is StepStartPart:
            found.append(kind)
        elif isinstance(part, TextPart):
            found += (part.text, part.ignored)
        elif isinstance(part, ToolPart):
            state = part.state
            time = getattr(state, "time", None)
            found += (part.call_id, part.tool, type(state), state.input, getattr(time, "compacted", None))
            found += (getattr(state, "output", None) or getattr(state, "error", None), _attached(state))
        elif isinstance(part, FilePart):
            found += (part.url, part.mime, part.filename)
        elif not isinstance(part, UnknownPart):
            found += (kind, getattr(part, "text", None) or getattr(part, "prompt", None))
    return found


def _attached(state: Any) -> Any:
    files = getattr(state, "attachments", None)
    return [(file.url, file.mime, file.filename) for file in files] if files else None


def failed_empty(message: WithParts) -> bool:
    """An answer that the provider broke off, and that asked for nothing: the turn was tried again."""
    broken = (APIError, ProviderAuthError, UnknownError, ContextOverflowError)
    if not isinstance(getattr(message.info, "error", None), broken):
        return False
    return not any(isinstance(part, ToolPart) for part in message.parts)


def cut_steps(parts: list[Part]) -> list[list[Part]]:
    """Cut an answer at its step starts: other programs keep several model calls in one message."""
    steps: list[list[Part]] = [[]]
    for part in parts:
        if isinstance(part, StepStartPart):
            steps.append([])
        else:
            steps[-1].append(part)
    return steps


def _answer(parts: list[Part], attachment: bool, field: str | None) -> list[Plain]:
    text = "\n".join(part.text for part in parts if isinstance(part, TextPart) and is_sent(part))
    calls = [part for part in parts if isinstance(part, ToolPart)]
    if not text and not calls:
        return []
    # Some compatible servers refuse an answer whose content is null or missing.
    answer: Plain = {"role": "assistant", "content": text}
    if field is not None:
        thought = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
        answer |= {field: thought} if thought else {}
    if calls:
        answer["tool_calls"] = [_call(part) for part in calls]
    results = [{"role": "tool", "tool_call_id": part.call_id, "content": result_text(part)} for part in calls]
    return [answer, *results, *_result_files(calls, attachment)]


def _call(part: ToolPart) -> Plain:
    arguments = encode(part.state.input).decode()
    return {
        "id": part.call_id,
        "type": "function",
        "function": {"name": part.tool, "arguments": arguments},
    }


def result_text(part: ToolPart) -> str:
    """What the model reads of a call: its output, its error, or that it never ended."""
    state = part.state
    if isinstance(state, ToolCompleted):
        return CLEARED if state.time.compacted else state.output
    if isinstance(state, ToolError):
        return state.error or INTERRUPTED
    return INTERRUPTED


def _result_files(calls: list[ToolPart], attachment: bool) -> list[Plain]:
    """A tool's message can only hold text, so that its images follow as a message of their own."""
    files = [
        file_piece(file, attachment)
        for part in calls
        if isinstance(part.state, ToolCompleted) and not part.state.time.compacted
        for file in part.state.attachments or ()
    ]
    if not files:
        return []
    return [{"role": "user", "content": [_text(RETURNED), *files]}]


def _user(parts: list[Part], attachment: bool) -> list[Plain]:
    read = any(isinstance(part, TextPart) and part.synthetic for part in parts)
    content: list[Plain] = []
    for part in parts:
        if isinstance(part, TextPart) and is_sent(part):
            content.append(_text(part.text))
        elif isinstance(part, FilePart) and not (read and is_read_from_disk(part)):
            content.append(file_piece(part, attachment))
        elif isinstance(part, CompactionPart):
            content.append(_text(SUMMARISED))
        elif isinstance(part, SubtaskPart):
            content.append(_text(part.prompt))
    if not content:
        return []
    if all(piece["type"] == "text" for piece in content):
        return [{"role": "user", "content": "\n\n".join(piece["text"] for piece in content)}]
    return [{"role": "user", "content": content}]


def is_sent(part: TextPart) -> bool:
    """Whether the model is sent this text."""
    return not part.ignored and bool(part.text.strip())


def is_read_from_disk(part: FilePart) -> bool:
    """A text file or folder whose content stands beside it as synthetic text, as opencode writes them."""
    return part.url.startswith("file:") and part.mime in ("text/plain", "application/x-directory")


def file_piece(part: FilePart, attachment: bool) -> Plain:
    """A file as the provider takes it. Never read from the disk here: its bytes may change, ours may not."""
    name = part.filename or part.url.partition("?")[0].rpartition("/")[2][:80] or "file"
    mime = part.mime.partition(";")[0].lower()
    remote = part.url.startswith(("http://", "https://"))
    inline = part.url.startswith("data:")
    if inline and (mime.startswith("text/") or mime.endswith(("json", "xml", "yaml", "toml"))):
        return _text(f'<file name="{name}">\n{_data_text(part.url)}\n</file>')
    if mime.startswith("image/") and (inline or remote) and attachment:
        return {"type": "image_url", "image_url": {"url": part.url}}
    if mime == "application/pdf" and inline and attachment:
        return {"type": "file", "file": {"filename": name, "file_data": part.url}}
    where = "" if inline else f" at {part.url}"
    reason = "" if attachment or not inline else "; this model cannot be shown it, say so to the person"
    return _text(f"[Attached file {name} ({mime}){where}{reason}]")


def _data_text(url: str) -> str:
    """The text of a ``data:`` url; a broken one says so."""
    head, _, payload = url.partition(",")
    try:
        raw = (
            base64.b64decode(payload, validate=True)
            if head.endswith(";base64")
            else unquote_to_bytes(payload)
        )
    except (binascii.Error, ValueError):
        return "[this file's data: url is damaged]"
    return raw.decode("utf-8", "replace")


def _text(text: str) -> Plain:
    return {"type": "text", "text": text}
