"""JSON with comments, places in it by line and column, and files that are written whole or not at all."""

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, NoReturn

from instar.wire.pattern import late_pattern

_TOKEN: Final = late_pattern(
    r'(?P<string>"(?:[^"\\\n]|\\.)*"?)|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)|(?P<open>/\*)|(?P<comma>,)'
    r"|(?P<close>[\]}])|(?P<space>\s+)|(?P<other>[^\s\"/,\]}]+|/)",
    re.DOTALL,
)
_SPACE: Final = late_pattern(r"\s*")
_TOO_DEEP: Final = "expected fewer levels of brackets, found too many"
_EXPECTED: Final = {
    "Expecting property name enclosed in double quotes": "a key in double quotes",
    "Expecting ':' delimiter": "a colon after the key",
    "Expecting ',' delimiter": "a comma or the closing bracket",
    "Expecting value": "a value",
    "Unterminated string starting at": "a closing double quote for the string that starts here",
    "Invalid control character at": "a closing double quote before the end of the line (a tab is \\t)",
    "Extra data": "the end of the document",
}


LARGEST: Final = 16 << 20
"""Bytes of a document that are read."""
DEEPEST: Final = 100
"""Brackets inside one another; what reads the value may follow them one call deep each."""


class DocumentError(Exception):
    """A document that cannot be read: ``source:line:column: expected …, found …``, both counted from 1."""

    def __init__(self, source: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{source}:{line}:{column}: {message}")
        self.source = source
        self.line = line
        self.column = column
        self.message = message


class IrregularFileError(OSError):
    """A pipe or device, which could be waited for, or read, for ever."""


class _ForeignWordError(ValueError):
    """One of the words that Python's reader takes and JSON does not have."""


def parse_jsonc(text: str, source: str) -> Any:
    """Return the value of JSON text with ``//`` and ``/* */`` comments and trailing commas.

    Of a key that stands twice the last one counts. A byte order mark is passed over. `source` names the
    text in errors. Raises `DocumentError`.
    """
    text = text.removeprefix("\ufeff")
    try:
        value = json.loads(text, parse_constant=_refuse)  # most documents are plain JSON
    except (ValueError, RecursionError):
        value = _load(blanked(text, source), source)
    if _is_deep(value):
        raise DocumentError(source, 1, 1, _TOO_DEEP)
    return value


def repeated(text: str) -> list[str]:
    """Return the keys that stand twice in one map of a document that parses; each once, those of inner maps first."""
    found: dict[str, None] = {}

    def paired(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, value in pairs:
            if key in plain:
                found[key] = None
            plain[key] = value
        return plain

    text = text.removeprefix("\ufeff")
    try:
        json.loads(text, object_pairs_hook=paired)
    except (ValueError, RecursionError):
        found.clear()
        json.loads(blanked(text, ""), object_pairs_hook=paired)
    return list(found)


def read_jsonc(path: Path) -> Any:
    """Return the value of a JSONC file. Raises `DocumentError`, and `OSError` when it cannot be read."""
    return parse_jsonc(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Return a UTF-8 file's text without its byte order mark.

    Raises `DocumentError` at the first byte that is not UTF-8, for a pipe or device (which could be waited
    for, or read, for ever) and for more than `LARGEST` bytes; `OSError` when it cannot be read.
    """
    return decoded(read_bytes(path), path)


def decoded(raw: bytes, path: Path) -> str:
    """Return the text of a file that holds `raw`, as `read_text`. Raises `DocumentError`."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        good = raw[: error.start].decode("utf-8-sig", "replace")
        line, column = _place(good, len(good))
        raise DocumentError(
            str(path), line, column, f"expected UTF-8 text, found the byte {raw[error.start]:#04x}"
        ) from None


def locate(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    """Return line and column, from 1, of the value at `path` in a document that parses.

    Where the path leads on beyond what the document holds, the place of the innermost value that it does.
    """
    text = text.removeprefix("\ufeff")
    plain = blanked(text, "")
    at = _skip(plain, 0)
    for key in path:
        inner = _entry(plain, at, key)
        if inner is None:
            break
        at = inner
    return _place(text, at)


def open_regular(path: str | Path, flags: int = 0) -> BinaryIO:
    """Open a regular file for reading. Raises `OSError`, for a pipe or device `IrregularFileError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise IrregularFileError(errno.EINVAL, "it is a pipe or device", str(path))


@contextlib.contextmanager
def opened_folder(root: Path, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the folder that the file at `path` below `root` stands in, and give it with the file's name.

    No link below `root` is followed. `make`: folders that are missing are made. Raises `OSError`.
    """
    *folders, last = path.split("/")
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    here = os.open(root, flags)
    try:
        for name in folders:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
                    os.fsync(here)
            try:
                inner = os.open(name, flags | os.O_NOFOLLOW, dir_fd=here)
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.ENOTDIR):
                    why = f"{name} on the way to it is no folder"
                    raise NotADirectoryError(errno.ENOTDIR, why, path) from None
                raise
            os.close(here)
            here = inner
        yield here, last
    finally:
        os.close(here)


@contextlib.asynccontextmanager
async def locked_within(folder: Path, seconds: float, late: Exception) -> AsyncIterator[None]:
    """As `locked`, but the event loop goes on meanwhile. Raises `late` when another holds the lock for `seconds`."""
    lock = _lockable(folder)
    end, pause = time.monotonic() + seconds, 0.002
    try:
        while not _took(lock):
            if time.monotonic() > end:
                raise late
            await asyncio.sleep(pause)
            pause = min(0.1, pause * 2)
        yield
    finally:
        os.close(lock)


def private_folder(folder: Path) -> None:
    """Make a folder and those above it that are missing, each for its owner alone. Raises `OSError`.

    `Path.mkdir` gives its mode to the last one only.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileNotFoundError:
        private_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _lockable(folder: Path) -> int:
    private_folder(folder)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


def _took(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a private folder, made if need be, so that one process at a time changes its files."""
    lock = _lockable(folder)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def atomic_write(path: Path, data: bytes, mode: int | None = None) -> None:
    """Replace the file's content so that a reader, or a crash, sees the old or the new whole.

    Writes beside it, syncs, and renames. `mode` are the new permission bits; without it those of the
    file that is there, else 0o644 less the umask. A symbolic link is followed. Raises `OSError`.
    """
    # Start-up time: a turn replaces no file.
    import tempfile

    path = path.resolve()
    if mode is None:
        mode = path.stat().st_mode & 0o7777 if path.exists() else 0o666 & ~_umask()
    handle, beside = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(beside).replace(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            Path(beside).unlink()
        raise
    _sync_folder(path.parent)


def read_bytes(path: Path) -> bytes:
    """Return what a file holds. Raises as `read_text` but for the encoding."""
    try:
        with open_regular(path) as file:
            raw = file.read(LARGEST + 1)
    except IrregularFileError:
        raise DocumentError(str(path), 1, 1, "expected a file, found a pipe or device") from None
    if len(raw) > LARGEST:
        raise DocumentError(str(path), 1, 1, f"expected at most {LARGEST >> 20} MiB, found more")
    return raw


def _is_deep(value: Any) -> bool:
    """Whether brackets stand more than `DEEPEST` inside one another."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _refuse(word: str) -> NoReturn:
    raise _ForeignWordError(word)


def _load(plain: str, source: str) -> Any:
    try:
        return json.loads(plain, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        expected = _EXPECTED.get(error.msg.removesuffix(" at"), _EXPECTED.get(error.msg, ""))
        wanted = f"expected {expected}" if expected else error.msg
        _fail(source, plain, error.pos, f"{wanted}, found {_found(plain, error.pos)}")
    except _ForeignWordError as error:
        word = str(error)
        at = next(
            m.start() + m[0].index(word)
            for m in _TOKEN.finditer(plain)
            if m.lastgroup == "other" and word in m[0]
        )
        _fail(source, plain, at, f"expected a value, found {word}, which JSON does not have")
    except RecursionError:
        raise DocumentError(source, 1, 1, _TOO_DEEP) from None
    except ValueError as error:
        raise DocumentError(source, 1, 1, f"expected a shorter number: {error}") from None


def _fail(source: str, text: str, at: int, message: str) -> NoReturn:
    line, column = _place(text, at)
    raise DocumentError(source, line, column, message) from None


def _found(text: str, at: int) -> str:
    if at >= len(text) or not text[at:].strip():
        return "the end of the document"
    if text[at] == "\n":
        return "the end of the line"
    if text[at] == '"':
        return "a string"
    word = re.match(r"[\w.+-]{1,20}", text[at:])
    return word[0] if word else text[at]


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def blanked(text: str, source: str) -> str:
    """Return the text with spaces for comments and trailing commas: every place keeps its line and column.

    Raises `DocumentError` for a comment without an end.
    """
    out: list[str] = []
    comma: int | None = None
    after_value = False
    for token in _TOKEN.finditer(text):
        kind, word = token.lastgroup, token[0]
        if kind == "open":
            _fail(
                source, text, token.start(), "expected */ to close the comment, found the end of the document"
            )
        if kind in ("line", "block"):
            word = re.sub(r"[^\n]", " ", word)
        elif kind == "comma":
            comma = len(out) if after_value else None
            after_value = False
        elif kind != "space":
            if kind == "close" and comma is not None:
                out[comma] = " "
            comma = None
            after_value = not (kind == "other" and word[-1] in "[{:")
        out.append(word)
    return "".join(out)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _entry(text: str, at: int, key: str | int) -> int | None:
    """Where the value under `key` starts in the map or list that starts at `at`."""
    opening = text[at : at + 1]
    if (opening, type(key)) not in (("{", str), ("[", int)):
        return None
    found, index = None, 0
    at = _skip(text, at + 1)
    while text[at] not in "]}":
        name: str | int = index
        if opening == "{":
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        if name == key:
            found = at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
        index += 1
    return found


_DECODER: Final = json.JSONDecoder()


def _umask() -> int:
    # There is no way to read it but to set it; nothing else of ours creates files in between.
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
