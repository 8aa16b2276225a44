"""Our messages as Anthropic Messages, always the same bytes for the same input.

Each message is turned into blocks once and kept, as `convert` does for Chat Completions. Roles take
turns: what two people's messages or a tool's results say one after the other is one user turn.

**Cache breakpoints** (`MARK`) stand on the last tool, the last block of the system prompt, and the last
block of the last two user turns: four, which is as many as Anthropic takes. A step's last user turn is
the next step's last but one, so that a step finds in the cache exactly what the step before wrote there,
however many blocks lie between (Anthropic looks back 20). Nothing else differs between two steps: a
step's blocks, their marks taken off, begin the next step's.
"""

import re
from typing import Any, Final

import msgspec

from instar.message import (
    Assistant,
    CompactionPart,
    FilePart,
    Part,
    ReasoningPart,
    SubtaskPart,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPart,
    WithParts,
)
from instar.provider import convert
from instar.provider.anthropic_answer import METADATA
from instar.provider.definition import Remembered, Shown
from instar.provider.protocol import Piece, Request, Sent, ToolSpec, piece
from instar.wire import Plain, encode

MARK: Final = b',"cache_control":{"type":"ephemeral"}}'
BEGINNING: Final = "[The conversation goes on.]"
"""What stands before an answer that begins the history, as after a removed message."""
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ID: Final = re.compile(r"[^a-zA-Z0-9_-]")
_KEPT_BYTES: Final = 16 << 20

Turn = tuple[str, list[bytes]]
"""A role and the JSON of its blocks."""


class Kept(msgspec.Struct, frozen=True):
    """A message's turns, the values that they were made of, and the piece of the prefix that they are."""

    made_of: list[Any]
    turns: list[Turn]
    piece: Piece


class Converter:
    """Converts the messages of one model and remembers the result by message, up to 16 MiB in all.

    `attachment`: the model takes images and PDFs. `ref` is the model as ``provider/model``: thinking goes
    back to the model that thought it, since a signature is bound to that.
    """

    def __init__(self, ref: str, *, attachment: bool = False) -> None:
        self._ref = ref
        self._attachment = attachment
        self._kept: dict[str, Kept] = {}
        self._bytes = 0

    def json(self, messages: list[WithParts]) -> bytes:
        """Return the JSON array of the conversation, the last two user turns marked."""
        return conversation(self.kept(messages))

    def kept(self, messages: list[WithParts]) -> list[Kept]:
        """Return the messages that something is sent of, as turns."""
        return [kept for message in messages if (kept := self._message(message)).piece.size]

    def _message(self, message: WithParts) -> Kept:
        made_of = [convert.values_of(message), [_given(part) for part in message.parts]]
        kept = self._kept.get(message.info.id)
        if kept is not None and kept.made_of == made_of:
            return kept
        turns = [
            (role, [encode(block) for block in blocks])
            for role, blocks in turns_of(message, self._ref, attachment=self._attachment)
        ]
        said = b"".join(b"".join([role.encode(), *blocks]) for role, blocks in turns if blocks)
        new = Kept(made_of, turns, piece(message.info.id, said))
        self._keep(message.info.id, new, kept)
        return new

    def _keep(self, message_id: str, new: Kept, old: Kept | None) -> None:
        if new.piece.size > _KEPT_BYTES // 8:
            return
        self._bytes += new.piece.size - (old.piece.size if old else 0)
        self._kept[message_id] = new
        while self._bytes > _KEPT_BYTES:
            self._bytes -= self._kept.pop(next(iter(self._kept))).piece.size


def conversation(messages: list[Kept]) -> bytes:
    """Return the JSON array of a conversation whose messages are turns already, the last two user turns marked."""
    turns = merged([turn for kept in messages for turn in kept.turns])
    asked = [index for index, (role, _) in enumerate(turns) if role == "user"][-2:]
    pieces = [_turn(turn, marked=index in asked) for index, turn in enumerate(turns)]
    return b"[" + b",".join(pieces) + b"]"


def sent(request: Request, messages: list[Kept], body: bytes) -> Sent:
    """Return what Anthropic's cache compares of a request whose messages are turns already."""
    tools = [_tool(spec).piece for spec in request.tools]
    system = piece("", b"".join(_system(request.system)))
    return Sent(tools, system, [kept.piece for kept in messages], body)


def system_blocks(system: list[str]) -> bytes:
    """Return the system prompt's texts as a JSON array of blocks, the last one marked; empty without any."""
    blocks = _system(system)
    return _array(blocks, marked=True) if blocks else b""


def _system(system: list[str]) -> list[bytes]:
    return [encode(_text(text)) for text in system if text.strip()]


def tool_list(tools: list[ToolSpec]) -> bytes:
    """Return tools as a JSON array in the order given, the last one marked."""
    return _array([_tool(spec).json for spec in tools], marked=True)


@Remembered
def _tool(spec: ToolSpec) -> Shown:
    shown = {"name": spec.name, "description": spec.description, "input_schema": _schema(spec.parameters)}
    return Shown.of(spec, encode(shown))


def merged(turns: list[Turn]) -> list[Turn]:
    """Join turns of one role that follow each other, and let a person begin: Anthropic asks for both."""
    found: list[Turn] = []
    for role, blocks in turns:
        if found and found[-1][0] == role:
            found[-1] = (role, [*found[-1][1], *blocks])
        elif blocks:
            found.append((role, blocks))
    if found and found[0][0] != "user":
        found.insert(0, ("user", [encode(_text(BEGINNING))]))
    return found


def turns_of(message: WithParts, ref: str, *, attachment: bool = False) -> list[tuple[str, list[Plain]]]:
    """Return what the provider is sent for one message: each step's answer, then its tool results."""
    if not isinstance(message.info, Assistant):
        return [("user", _user(message.parts, attachment))]
    if convert.failed_empty(message):
        return []
    same = ref == f"{message.info.provider_id}/{message.info.model_id}"
    found: list[tuple[str, list[Plain]]] = []
    for step in convert.cut_steps(message.parts):
        said = [block for part in step if (block := _said(part, same)) is not None]
        # An answer of thinking alone says nothing, and Anthropic refuses a turn that ends with thinking.
        while said and said[-1]["type"] in ("thinking", "redacted_thinking"):
            said.pop()
        results = [_result(part, attachment) for part in step if isinstance(part, ToolPart)]
        found += [("assistant", said)] if said else []
        found += [("user", results)] if results else []
    return found


def _said(part: Part, same: bool) -> Plain | None:
    if isinstance(part, TextPart):
        return _text(part.text) if convert.is_sent(part) else None
    if isinstance(part, ToolPart):
        call = {"type": "tool_use", "id": _call_id(part), "name": part.tool}
        return call | {"input": part.state.input}
    if isinstance(part, ReasoningPart) and same:
        return _thinking(part)
    return None


def _thinking(part: ReasoningPart) -> Plain | None:
    """Thinking as it came; without its signature Anthropic refuses it."""
    given = _given(part) or {}
    if given.get("redactedData"):
        return {"type": "redacted_thinking", "data": given["redactedData"]}
    if given.get("signature"):
        return {"type": "thinking", "thinking": part.text, "signature": given["signature"]}
    return None


def _given(part: Part) -> Any:
    """What Anthropic gave with a block of thinking."""
    if not isinstance(part, ReasoningPart):
        return None
    given = (part.metadata or {}).get(METADATA)
    return given if isinstance(given, dict) else None


def _result(part: ToolPart, attachment: bool) -> Plain:
    """A call's result. Images and PDFs stand inside it; what the model cannot take is named in words."""
    found: Plain = {"type": "tool_result", "tool_use_id": _call_id(part)}
    state = part.state
    # An empty text block is refused; a result without content is not.
    text = convert.result_text(part)
    content = [_text(text)] if text.strip() else []
    if isinstance(state, ToolCompleted) and not state.time.compacted:
        content += [_file(file, attachment) for file in state.attachments or ()]
    if content:
        found["content"] = text if content == [_text(text)] else content
    if isinstance(state, ToolError):
        found["is_error"] = True
    return found


def _user(parts: list[Part], attachment: bool) -> list[Plain]:
    read = any(isinstance(part, TextPart) and part.synthetic for part in parts)
    content: list[Plain] = []
    for part in parts:
        if isinstance(part, TextPart) and convert.is_sent(part):
            content.append(_text(part.text))
        elif isinstance(part, FilePart) and not (read and convert.is_read_from_disk(part)):
            content.append(_file(part, attachment))
        elif isinstance(part, CompactionPart):
            content.append(_text(convert.SUMMARISED))
        elif isinstance(part, SubtaskPart) and part.prompt.strip():
            content.append(_text(part.prompt))
    return content


def _file(part: FilePart, attachment: bool) -> Plain:
    """A file as Anthropic takes it: an image or a PDF, by its bytes or its address; else words."""
    mime = part.mime.partition(";")[0].lower()
    kind = "image" if mime in _IMAGES else "document" if mime == "application/pdf" else None
    head, _, payload = part.url.partition(",")
    if kind is not None and attachment:
        if part.url.startswith(("http://", "https://")):
            return {"type": kind, "source": {"type": "url", "url": part.url}}
        if part.url.startswith("data:") and head.endswith(";base64"):
            return {"type": kind, "source": {"type": "base64", "media_type": mime, "data": payload}}
    plain: Plain = convert.file_piece(part, attachment=False)
    return plain


def _call_id(part: ToolPart) -> str:
    """The call's id in the letters that Anthropic takes: another provider may have given it."""
    return _ID.sub("_", part.call_id) or "call"


def _schema(parameters: Plain) -> Plain:
    return parameters if parameters.get("type") == "object" else {"type": "object", **parameters}


def _turn(turn: Turn, *, marked: bool) -> bytes:
    role, blocks = turn
    return b'{"role":"' + role.encode() + b'","content":' + _array(blocks, marked=marked) + b"}"


def _array(blocks: list[bytes], *, marked: bool) -> bytes:
    *first, last = blocks
    return b"[" + b",".join([*first, last[:-1] + MARK if marked else last]) + b"]"


def _text(text: str) -> Plain:
    return {"type": "text", "text": text}
