"""Our messages as Chat Completions messages, and what every adapter's conversion needs.

The same input gives the same bytes: prompt caches work on prefixes, so nothing here may depend on time, on the order
in a set or on later messages. A message that has not changed since the last call is not converted again: a session's
400th step costs what its 10th costs.

A model is not sent: ignored and blank text, step, snapshot, patch and retry parts, parts of unknown types, and answers
that failed before they said or asked anything.
"""

import base64
import binascii
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar
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
from instar.provider.protocol import DIGEST, Model, ModelRequest, PromptPiece, Sent, ToolSpec, piece
from instar.wire import Plain, encode

INTERRUPTED: Final = "[Tool execution was interrupted]"
"""The result of a call that never ended: a call without a result would make every later request fail."""
CLEARED: Final = "[Old tool result content cleared]"
"""The result of a call whose output was pruned (opencode 1.18's words)."""
SUMMARISED: Final = "What did we do so far?"
"""The text of a user message that marks a compaction (opencode 1.18's words)."""
RETURNED: Final = "Files that the tool calls above returned:"
"""Begins the user message that holds the files of tool results, where a result can hold text alone."""
_MOST_BYTES: Final = 16 << 20
"""Bytes of converted messages that are remembered."""
_MOST_MESSAGES: Final = 2_000
_MOST_TOOLS: Final = 2048
"""Tools that are remembered; with one more, all are forgotten."""

Made = TypeVar("Made")
Form = TypeVar("Form")


class EncodedTool(msgspec.Struct, frozen=True):
    """A tool's definition as a provider is sent it."""

    json: bytes
    piece: PromptPiece


class Remembered(Generic[Made]):
    """A pure function of a tool's definition that remembers its results by the tool's name.

    Nearly always a step has the tools of the step before: to encode and digest 13 of them anew takes 0.11 ms, to
    compare them 0.02. The content is compared, since a plugin may change its tool in place.
    """

    def __init__(self, make: Callable[[ToolSpec], Made]) -> None:
        self._make = make
        self._known: dict[str, tuple[ToolSpec, Made]] = {}

    def __call__(self, spec: ToolSpec) -> Made:
        """Return the function's result for a definition."""
        known = self._known.get(spec.name)
        if known is not None and known[0] == spec:
            return known[1]
        made = self._make(spec)
        if len(self._known) >= _MOST_TOOLS:
            self._known.clear()
        own = msgspec.structs.replace(spec, parameters=msgspec.to_builtins(spec.parameters))
        self._known[spec.name] = (own, made)
        return made


class Converted(msgspec.Struct, Generic[Form], frozen=True):
    """A message in a provider's form. `made_of` are the values it was made of: equal values, equal bytes."""

    made_of: list[Any]
    form: Form
    piece: PromptPiece


class Conversions(Generic[Form]):
    """The converted messages of a request: forms, pieces and the digests of these, without what is empty.

    `messages` says of each message how many there are up to it. Lists beside each other, since to look into each of
    2,000 messages for one of the three takes longer than all else that a step does with them.
    """

    def __init__(self) -> None:
        self.forms: list[Form] = []
        self.pieces: list[PromptPiece] = []
        self.digests = bytearray()
        self.messages: list[int] = []

    def add(self, form: Form, sent: PromptPiece) -> None:
        """Add a message."""
        if sent.size:
            self.forms.append(form)
            self.pieces.append(sent)
            self.digests += sent.digest
        self.messages.append(len(self.forms))

    def first(self, count: int) -> "Conversions[Form]":
        """Return those of the first messages, to which others may be added."""
        found = Conversions[Form]()
        found.messages = self.messages[:count]
        most = found.messages[-1] if found.messages else 0
        found.forms, found.pieces = self.forms[:most], self.pieces[:most]
        found.digests = self.digests[: most * DIGEST]
        return found


class Converter(ABC, Generic[Form]):
    """Converts messages and remembers the results by message, up to 16 MiB and some thousand messages in all."""

    def __init__(self) -> None:
        self._known: dict[str, Converted[Form]] = {}
        self._bytes = 0

    @abstractmethod
    def convert(self, message: WithParts) -> tuple[Form, bytes]:
        """Return a message in the provider's form, and the bytes that are sent of it."""

    def values(self, message: WithParts) -> list[Any]:
        """Return the values of a message that `convert` reads."""
        return values_of(message)

    def of_request(self, request: ModelRequest) -> Conversions[Form]:
        """Return a request's converted messages: those that `ModelRequest.made` lacks are made."""
        if request.made is None:
            return self.converted(request.messages)
        made: Conversions[Form] | None = request.made.get(self)
        if made is None:
            # What another model's converter made is not kept beside it.
            request.made.clear()
            made = request.made[self] = Conversions()
        for message in request.messages[len(made.messages) :]:
            form, data = self.convert(message)
            made.add(form, piece(message.info.id, data))
        return made

    def converted(self, messages: Sequence[WithParts]) -> Conversions[Form]:
        """Return the converted messages."""
        found = Conversions[Form]()
        for message in messages:
            made_of = self.values(message)
            known = self._known.pop(message.info.id, None)
            self._bytes -= known.piece.size if known else 0
            if known is None or known.made_of != made_of:
                form, data = self.convert(message)
                known = Converted(made_of, form, piece(message.info.id, data))
            if known.piece.size <= _MOST_BYTES // 8:
                # Used last, it stands last.
                self._known[message.info.id] = known
                self._bytes += known.piece.size
            found.add(known.form, known.piece)
        # A conversation that is longer would be forgotten while it is read.
        most = max(_MOST_MESSAGES, 2 * len(messages))
        while self._bytes > _MOST_BYTES or len(self._known) > most:
            self._bytes -= self._known.pop(next(iter(self._known))).piece.size
        return found


class ChatConverter(Converter[bytes]):
    """Converts messages to the JSON of Chat Completions messages, joined by commas.

    `attachment`: the model takes images and PDFs. `reasoning_field`: the key in which the provider wants
    earlier thinking back (``reasoning_content`` …), None to leave it out.
    """

    def __init__(self, *, attachment: bool = False, reasoning_field: str | None = None) -> None:
        super().__init__()
        self._attachment = attachment
        self._reasoning_field = reasoning_field

    def convert(self, message: WithParts) -> tuple[bytes, bytes]:
        """Return the JSON: of none, one, or an answer with its tool results."""
        if isinstance(message.info, Assistant):
            found = [item for step in answer_steps(message) for item in self._answer(step)]
        else:
            found = self._user(message.parts)
        data = b",".join([encode(item) for item in found])
        return data, data

    def _user(self, parts: list[Part]) -> list[Plain]:
        content = [_text(one) if isinstance(one, str) else self._file(one) for one in user_content(parts)]
        if not content:
            return []
        if all(one["type"] == "text" for one in content):
            return [{"role": "user", "content": "\n\n".join(one["text"] for one in content)}]
        return [{"role": "user", "content": content}]

    def _answer(self, parts: list[Part]) -> list[Plain]:
        text = "\n".join(part.text for part in parts if isinstance(part, TextPart) and is_sent(part))
        calls = [part for part in parts if isinstance(part, ToolPart)]
        if not text and not calls:
            return []
        # Some compatible servers refuse an answer whose content is null or missing.
        answer: Plain = {"role": "assistant", "content": text}
        thought = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
        if self._reasoning_field is not None and thought:
            answer[self._reasoning_field] = thought
        if calls:
            answer["tool_calls"] = [_call(part) for part in calls]
        found = [answer]
        for part in calls:
            found.append({"role": "tool", "tool_call_id": part.call_id, "content": result_text(part)})
        if files := returned_files(calls):
            # A tool's message can hold text alone.
            found.append({"role": "user", "content": [_text(RETURNED), *map(self._file, files)]})
        return found

    def _file(self, part: FilePart) -> Plain:
        mime = part.mime.partition(";")[0].lower()
        inline = part.url.startswith("data:")
        if self._attachment and not _is_inline_text(part):
            if mime.startswith("image/") and (inline or part.url.startswith(("http://", "https://"))):
                return {"type": "image_url", "image_url": {"url": part.url}}
            if mime == "application/pdf" and inline:
                return {"type": "file", "file": {"filename": _file_name(part), "file_data": part.url}}
        return _text(file_text(part, attachment=self._attachment))


def conversation(system: list[str], messages: Conversions[bytes]) -> bytes:
    """Return the JSON array of a conversation."""
    head = [encode(message) for message in _system_messages(system)]
    return b"[%b]" % b",".join(head + messages.forms)


def sent(request: ModelRequest, messages: Conversions[bytes], body: bytes = b"") -> Sent:
    """Return what a provider's prompt cache compares of a request."""
    tools = [_function(spec).piece for spec in request.tools]
    system = piece("", b"".join([encode(message) for message in _system_messages(request.system)]))
    return Sent(tools, system, list(messages.pieces), body, bytes(messages.digests))


def _system_messages(system: list[str]) -> list[Plain]:
    # One, since the templates of several open models refuse a second one.
    text = "\n\n".join(block for block in system if block)
    return [{"role": "system", "content": text}] if text else []


def tool_list(tools: list[ToolSpec]) -> bytes:
    """Return tools as a JSON array of Chat Completions functions, in the order given."""
    return b"[" + b",".join([_function(spec).json for spec in tools]) + b"]"


@Remembered
def _function(spec: ToolSpec) -> EncodedTool:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    data = encode({"type": "function", "function": function})
    return EncodedTool(data, piece(spec.name, data))


def reasoning_field(model: Model) -> str | None:
    """Return the key in which the model wants its earlier thinking back: opencode's ``interleaved``."""
    wanted = model.interleaved
    if isinstance(wanted, dict):
        wanted = wanted.get("field")
    if wanted is True:
        return "reasoning_content"
    return wanted if isinstance(wanted, str) and wanted else None


def values_of(message: WithParts) -> list[Any]:
    """Return the values of a message that reach the provider. Comparing them is fast: most are the same objects."""
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
            files = getattr(state, "attachments", None) or ()
            time = getattr(state, "time", None)
            found += (part.call_id, part.tool, type(state), state.input, getattr(time, "compacted", None))
            found.append(getattr(state, "output", None) or getattr(state, "error", None))
            found += [(file.url, file.mime, file.filename) for file in files]
        elif isinstance(part, FilePart):
            found += (part.url, part.mime, part.filename)
        elif not isinstance(part, UnknownPart):
            found += (kind, getattr(part, "text", None) or getattr(part, "prompt", None))
    return found


def answer_steps(message: WithParts) -> list[list[Part]]:
    """Return the parts of an answer, cut at its step starts: other programs keep several model calls in one message.

    Nothing of an answer that failed before it asked for a tool: that call was made again.
    """
    failed = (APIError, ProviderAuthError, UnknownError, ContextOverflowError)
    if isinstance(getattr(message.info, "error", None), failed) and not any(
        isinstance(part, ToolPart) for part in message.parts
    ):
        return []
    steps: list[list[Part]] = [[]]
    for part in message.parts:
        if isinstance(part, StepStartPart):
            steps.append([])
        else:
            steps[-1].append(part)
    return steps


def user_content(parts: list[Part]) -> Iterator[str | FilePart]:
    """Yield the texts and files that a model is sent of a user message."""
    has_content = any(isinstance(part, TextPart) and part.synthetic for part in parts)
    for part in parts:
        if isinstance(part, TextPart) and is_sent(part):
            yield part.text
        elif isinstance(part, FilePart):
            # opencode writes the content of a text file or folder beside it, as synthetic text.
            read = part.url.startswith("file:") and part.mime in ("text/plain", "application/x-directory")
            if not (read and has_content):
                yield part
        elif isinstance(part, CompactionPart):
            yield SUMMARISED
        elif isinstance(part, SubtaskPart) and part.prompt.strip():
            yield part.prompt


def is_sent(part: TextPart) -> bool:
    """Return whether a model is sent this text."""
    return not part.ignored and bool(part.text.strip())


def result_text(part: ToolPart) -> str:
    """Return the text of a call's result: its output, its error, or that it never ended."""
    state = part.state
    if isinstance(state, ToolCompleted):
        return CLEARED if state.time.compacted else state.output
    if isinstance(state, ToolError):
        return state.error or INTERRUPTED
    return INTERRUPTED


def returned_files(calls: Iterable[ToolPart]) -> list[FilePart]:
    """Return the files in the results of calls, without those of cleared results."""
    return [
        file
        for part in calls
        if isinstance(part.state, ToolCompleted) and not part.state.time.compacted
        for file in part.state.attachments or ()
    ]


def file_text(part: FilePart, *, attachment: bool = False) -> str:
    """Return the text that stands for a file: its content, or a sentence that names it.

    The disk is never read here: a file's bytes may change, the bytes of a request may not.
    """
    mime = part.mime.partition(";")[0].lower()
    if _is_inline_text(part):
        return f'<file name="{_file_name(part)}">\n{_data_text(part.url)}\n</file>'
    if not part.url.startswith("data:"):
        return f"[Attached file {_file_name(part)} ({mime}) at {part.url}]"
    reason = "" if attachment else "; this model cannot be shown it, say so to the person"
    return f"[Attached file {_file_name(part)} ({mime}){reason}]"


def _is_inline_text(part: FilePart) -> bool:
    mime = part.mime.partition(";")[0].lower()
    is_text = mime.startswith("text/") or mime.endswith(("json", "xml", "yaml", "toml"))
    return part.url.startswith("data:") and is_text


def _file_name(part: FilePart) -> str:
    return part.filename or part.url.partition("?")[0].rpartition("/")[2][:80] or "file"


def _data_text(url: str) -> str:
    head, _, payload = url.partition(",")
    try:
        is_base64 = head.endswith(";base64")
        raw = base64.b64decode(payload, validate=True) if is_base64 else unquote_to_bytes(payload)
    except (binascii.Error, ValueError):
        return "[this file's data: url is damaged]"
    return raw.decode("utf-8", "replace")


def _call(part: ToolPart) -> Plain:
    arguments = encode(part.state.input).decode()
    return {"id": part.call_id, "type": "function", "function": {"name": part.tool, "arguments": arguments}}


def _text(text: str) -> Plain:
    return {"type": "text", "text": text}
