"""Reading an exported session's file: its size, its JSON, its shape.

A file is ``{"info": …, "messages": [{"info": …, "parts": […]}]}`` as ``opencode export`` prints it; ours may
add ``todos`` and, with ``--children``, ``children``: a list of the same. Other keys are ignored.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from instar import wire
from instar.exchange.transcript import ExchangeError, Record

LIMIT: Final = 256 * 1024 * 1024
"""The largest file that is read, in bytes: reading takes several times as much memory."""


class _Message(msgspec.Struct):
    info: msgspec.Raw
    parts: list[msgspec.Raw]


class _One(msgspec.Struct):
    info: msgspec.Raw
    messages: list[_Message]
    todos: list[Any] = []


class _File(_One):
    children: list[_One] = []


def read_archive(data: bytes, name: str) -> list[Record]:
    """Return the sessions of a file, the parent first; `name` is the file's, for the errors.

    Raises `ExchangeError` with line and column for what is not JSON, and with the place for another shape.
    Messages are decoded one by one, when they are asked for.
    """
    if len(data) > LIMIT:
        raise too_large(name)
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        file = _decoded(data)
    except msgspec.ValidationError as error:
        words = str(error).replace("`$.", "`")
        raise ExchangeError(
            f"{name}: not an exported session: {words}; it must be what `opencode export` or `instar export` prints"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _malformed(data, name) from None
    return [_record(one, data, name) for one in (file, *file.children)]


def _decoded(data: bytes) -> _File:
    try:
        return msgspec.json.decode(data, type=_File)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # Half of a surrogate pair, which JavaScript writes: the whole is read with care, at twice the memory.
        return msgspec.json.decode(wire.encode(wire.parse(data)), type=_File)


def too_large(name: str) -> ExchangeError:
    """Return the error for a file beyond the limit."""
    return ExchangeError(
        f"{name}: larger than {LIMIT >> 20} MB; import it from the database instead (--opencode-db)"
    )


def _record(one: _One, data: bytes, name: str) -> Record:
    def value(raw: msgspec.Raw) -> Any:
        try:
            return wire.parse(bytes(raw))
        except msgspec.DecodeError:
            raise _malformed(data, name) from None

    def messages() -> Iterator[tuple[Any, list[Any]]]:
        for message in one.messages:
            yield value(message.info), [value(part) for part in message.parts]

    return Record(info=value(one.info), messages=messages(), todos=one.todos)


def _malformed(data: bytes, name: str) -> ExchangeError:
    """The error with its line and column; the standard library's parser knows both."""
    try:
        json.loads(data.decode())
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return ExchangeError(f"{name}:{line}: not UTF-8 text; save the file in that encoding")
    except json.JSONDecodeError as error:
        return ExchangeError(f"{name}:{error.lineno}:{error.colno}: not JSON: {error.msg}")
    except (RecursionError, ValueError) as error:
        return ExchangeError(f"{name}: not JSON that can be read: {error}")
    return ExchangeError(f"{name}: not JSON that can be read: nested too deeply")
