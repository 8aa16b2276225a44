"""Records of real calls of hook scripts, for the replay of candidates.

A ring of the newest calls for each script and hook, a compressed file each, in a folder that no script can write to.
Writing happens in a thread of its own: a call never waits for its record. Secrets are taken out by their values, and by
the names of their keys; one that instar does not know, under a harmless name, is not found.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from instar.plugin import process, sandbox
from instar.plugins.evolve import protocol
from instar.plugins.evolve.workspace import visible

MASK: Final = "***"
_SHORTEST: Final = 6
_WORDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-.\s]+")
_PLAIN: Final = re.compile(r"[A-Za-z0-9]+")
_CODE: Final = re.compile(r"\\+u([0-9A-Fa-f]{4})")
_SHORT: Final = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}

Secrets = Callable[[], Iterable[str]]
"""Gives the values that are known to be secret, asked for each record."""


def redact(data: bytes, secrets: Iterable[str]) -> bytes | None:
    """Return JSON `data` with each of `secrets`, and what stands under a key that names one, as ``***``.

    Values are found in keys and texts, in whatever form JSON may write a character, also in JSON that stands
    inside a text. One shorter than six characters is left: it would blank out ordinary words. A number under such a
    key becomes 0, but for counts of tokens. Unchanged data is returned as it is; None for data that is not JSON.
    """
    known = _known(secrets)
    try:
        value = msgspec.json.decode(data)
        hidden = _hidden(value, known)
        return data if hidden is value else msgspec.json.encode(hidden)
    except (ValueError, RecursionError):
        return None


def names_secret(key: str) -> bool:
    """Whether a key names a secret, as a variable of that name would; ``apiKey`` and ``api-key`` are ``API_KEY``."""
    return sandbox.is_secret_name(_WORDS.sub("_", key))


class _Value(NamedTuple):
    """A secret, and the longest piece of it that JSON writes as it is or as \\uXXXX, never in another way."""

    text: str
    plain: str


def _known(secrets: Iterable[str]) -> list[_Value]:
    values = {value for value in secrets if len(value) >= _SHORTEST}
    # Of two that begin alike the longer goes first, so that no tail of it stays.
    ordered = sorted(values, key=lambda value: (-len(value), value))
    return [_Value(value, max(_PLAIN.findall(value), key=len, default="")) for value in ordered]


@lru_cache(maxsize=32)
def _compiled(values: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join("".join(map(_written, value)) for value in values))


def _written(character: str) -> str:
    r"""A pattern for one character: as it stands, after backslashes, or as \\uXXXX, at any depth of JSON in JSON."""
    units = character.encode("utf-16-be", "surrogatepass")
    escaped = "".join(rf"\\+u(?i:{units[at : at + 2].hex()})" for at in range(0, len(units), 2))
    ways = [re.escape(character), escaped]
    if character in _SHORT:
        ways.append(rf"\\+{_SHORT[character]}")
    if character in '"\\/':
        ways.append(rf"\\+{re.escape(character)}")
    return f"(?:{'|'.join(ways)})"


def _hidden(value: Any, known: Sequence[_Value]) -> Any:
    """The value without secrets; the very same object where there are none."""
    if isinstance(value, str):
        return _text(value, known)
    if isinstance(value, list):
        items = [_hidden(item, known) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if isinstance(value, dict):
        made = {_text(key, known): _under(key, item, known) for key, item in value.items()}
        same = all(new is old for new, old in zip(made.values(), value.values(), strict=False))
        return value if same and list(made) == list(value) else made
    return value


def _under(key: str, value: Any, known: Sequence[_Value]) -> Any:
    if not names_secret(key):
        return _hidden(value, known)
    if isinstance(value, str):
        return MASK if value else value
    if isinstance(value, list):
        return [_under(key, item, known) for item in value] if value else value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if "token" in key.lower() else 0
    return _hidden(value, known)


def _text(text: str, known: Sequence[_Value]) -> str:
    if "\\" not in text:
        for value in known:
            if value.text in text:
                text = text.replace(value.text, MASK)
        return text
    # The pattern of a secret is slow, and holds up every other thread: it runs only where its plain piece stands.
    decoded = _CODE.sub(lambda found: chr(int(found[1], 16)), text) if "\\u" in text else text
    there = tuple(value.text for value in known if value.plain in text or value.plain in decoded)
    return _compiled(there).sub(MASK, text) if there else text


log = logging.getLogger("instar.evolve")

LARGEST: Final = process.MIB
"""Bytes of input, and of answer, beyond which a call is not recorded."""
_WAITING: Final = 32 * process.MIB
_SUFFIX: Final = ".call"
_UNPACKED: Final = 4 * process.MIB
_HOOK: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_COUNTED_EVERY: Final = 32

Failure = Literal["crash", "timeout", "malformed", "unknown"]
"""How a call failed: it ended badly, took too long, printed what is no answer, or does not know the hook."""


class HookCallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One call as it was.

    `script` is the file's name in ``hooks/``; `stdin` its whole input; `at` its beginning in ms since the epoch and
    `duration` its length in ms; `names` those of its environment's variables, never their values; `commit` the
    workspace's (None where git had none); `answer` what was parsed (None when it failed, and `failure` says how);
    `code` its exit code, None when a signal ended it.
    """

    script: str
    hook: str
    at: int
    stdin: bytes
    duration: int
    names: tuple[str, ...] = ()
    commit: str | None = None
    answer: protocol.Answer | None = None
    failure: Failure | None = None
    code: int | None = 0


class Bounds(msgspec.Struct, frozen=True):
    """How much is kept: `calls` for each script and hook, and `size` bytes of files in all."""

    calls: int = 50
    size: int = 64 * process.MIB


class RecordsRead(msgspec.Struct, frozen=True):
    """What was read: records, newest first, and a sentence for each file that could not be."""

    records: tuple[HookCallRecord, ...]
    problems: tuple[str, ...]


class Records:
    """The records of one workspace, in `folder`, which is made when it is needed.

    `secrets` gives the values that must not be written. Several processes may share the folder. `too_large` and
    `dropped` count the calls of this process that were not kept: for their size, and because they came faster
    than they could be written. `problem` is what the last write failed with, None when it did not.
    """

    def __init__(self, folder: Path, secrets: Secrets = tuple, bounds: Bounds | None = None) -> None:
        self._folder = folder
        self._secrets = secrets
        self._bounds = bounds or Bounds()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="instar-records")
        self._lock = threading.Lock()
        self._waiting = 0
        self._numbers = itertools.count()
        self._since_counted = 0
        self._closed = False
        self.too_large = 0
        self.dropped = 0
        self.problem: str | None = None

    def add(self, record: HookCallRecord) -> None:
        """Keep a call, soon. ``discover`` is not kept: the gate's first stage asks for it anyway."""
        odd = not visible(record.script) or "/" in record.script or not _HOOK.fullmatch(record.hook)
        if self._closed or odd or record.hook == "discover":
            return
        size = len(record.stdin)
        if size > LARGEST:
            self.too_large += 1
            return
        with self._lock:
            if self._waiting + size > _WAITING:
                self.dropped += 1
                return
            self._waiting += size
        written = self._thread.submit(self._write, record)
        written.add_done_callback(lambda done: self._written(done, size))

    async def read(self, script: str | None = None) -> RecordsRead:
        """Return what is kept, of one script or of all, with what was added before this."""
        return await asyncio.wrap_future(self._thread.submit(self._read, script))

    async def close(self) -> None:
        """Write what waits; later calls are not kept."""
        self._closed = True
        await asyncio.to_thread(self._thread.shutdown)

    # -- in the thread ---------------------------------------------------------------------------------

    def _write(self, record: HookCallRecord) -> None:
        packed = self._pack(record)
        if packed is None:
            self.too_large += 1
            return
        ring = self._folder / record.script / record.hook
        ring.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{record.at:015d}-{os.getpid()}-{next(self._numbers):06d}"
        beside = ring / f".{name}.new"
        try:
            beside.write_bytes(packed)
            beside.replace(ring / f"{name}{_SUFFIX}")
        finally:
            beside.unlink(missing_ok=True)
        for path in _newest(ring)[self._bounds.calls :]:
            path.unlink(missing_ok=True)
        self._since_counted -= 1
        if self._since_counted < 0:
            self._since_counted = _COUNTED_EVERY
            self._shrink()

    def _pack(self, record: HookCallRecord) -> bytes | None:
        """The record without secrets, as bytes; None when it may not be kept."""
        secrets = [*self._secrets()]
        stdin = redact(record.stdin, secrets)
        answer = redact(msgspec.json.encode(record.answer), secrets)
        if stdin is None or answer is None or len(answer) > LARGEST:
            return None
        clean = msgspec.structs.replace(record, stdin=stdin, answer=msgspec.json.decode(answer))
        return zlib.compress(msgspec.msgpack.encode(clean), 1)

    def _shrink(self) -> None:
        """Remove the oldest until the rest fits."""
        found = sorted(self._files(), key=lambda path: path.name, reverse=True)
        total = 0
        for path in found:
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size
                if total > self._bounds.size:
                    path.unlink()

    def _read(self, script: str | None) -> RecordsRead:
        records, problems = [], []
        for path in sorted(self._files(script), key=lambda path: path.name, reverse=True):
            try:
                record = _unpack(path)
            except FileNotFoundError:
                continue  # another process has dropped it
            except (OSError, ValueError, zlib.error) as error:
                problems.append(f"the record {path} is left out, it cannot be read: {error}")
                continue
            records.append(record)
        return RecordsRead(tuple(records), tuple(problems))

    def _files(self, script: str | None = None) -> Iterator[Path]:
        return self._folder.glob(f"*/*/*{_SUFFIX}") if script is None else self._of(script)

    def _of(self, script: str) -> Iterator[Path]:
        return (self._folder / script).glob(f"*/*{_SUFFIX}")

    def _written(self, done: "Future[None]", size: int) -> None:
        with self._lock:
            self._waiting -= size
        error = None if done.cancelled() else done.exception()
        said = None if error is None else f"a call could not be recorded: {type(error).__name__}: {error}"
        if said is not None and said != self.problem:
            log.warning("evolve=records problem=%r", said)
        self.problem = said


def _newest(ring: Path) -> list[Path]:
    names = sorted((name for name in os.listdir(ring) if name.endswith(_SUFFIX)), reverse=True)  # noqa: PTH208
    return [ring / name for name in names]


def _unpack(path: Path) -> HookCallRecord:
    """Return the record of a file. Raises `OSError`, `zlib.error` and `ValueError`."""
    unpacking = zlib.decompressobj()
    data = unpacking.decompress(path.read_bytes(), _UNPACKED)
    if not unpacking.eof:
        raise ValueError("it is cut short or too large")
    record = msgspec.msgpack.decode(data, type=HookCallRecord)
    if (record.script, record.hook) != (path.parent.parent.name, path.parent.name):
        raise ValueError(f"it is of {record.script} {record.hook}")
    return record
