"""Records of real calls of hook scripts, for the replay of candidates.

The newest calls for each script and hook are kept, where no script can write.
Writing happens in a thread of its own: a call never waits for its record. Secrets are taken out by their values, and by
the names of their keys; one that instar does not know, under a harmless name, is not found.
"""

import asyncio
import logging
import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from sqlite3 import Connection
from typing import Any, Final, Literal, NamedTuple

import msgspec

from instar.plugin import process, sandbox
from instar.plugins.evolve import protocol
from instar.plugins.evolve.database import Database, append

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
_NEWEST_FIRST: Final = """SELECT script, hook, at, value FROM call WHERE ?1 IS NULL OR script = ?1
  ORDER BY at DESC, number DESC"""
_KEEP_NEWEST: Final = """DELETE FROM call WHERE script = ? AND hook = ? AND number NOT IN
  (SELECT number FROM call WHERE script = ? AND hook = ? ORDER BY at DESC, number DESC LIMIT ?)"""

Failure = Literal["crash", "timeout", "malformed", "unknown"]
"""How a call failed: it ended badly, took too long, printed what is no answer, or does not know the hook."""


class HookCallRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One call as it was.

    `script` is the file's name in ``hooks/``; `stdin` its whole input; `at` its beginning in ms since the epoch and
    `duration` its length in ms; `commit` the workspace's (None where git had none); `answer` what was parsed (None when
    it failed, and `failure` says how).
    """

    script: str
    hook: str
    at: int
    stdin: bytes
    duration: int
    commit: str | None = None
    answer: protocol.Answer | None = None
    failure: Failure | None = None


class Bounds(msgspec.Struct, frozen=True):
    """How much is kept: `calls` for each script and hook, and `size` bytes in all."""

    calls: int = 50
    size: int = 64 * process.MIB


class RecordsRead(msgspec.Struct, frozen=True):
    """What was read: records, newest first, and a sentence for each that could not be."""

    records: tuple[HookCallRecord, ...]
    problems: tuple[str, ...]


class Records:
    """The records of one workspace.

    `secrets` gives the values that must not be written. A call that is too large is not kept. `problem` is what the
    last write failed with, None when it did not.
    """

    def __init__(self, database: Database, secrets: Secrets = tuple, bounds: Bounds | None = None) -> None:
        self._database = database
        self._secrets = secrets
        self._bounds = bounds or Bounds()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="instar-records")
        self._closed = False
        self.problem: str | None = None

    def add(self, record: HookCallRecord) -> None:
        """Keep a call, soon. ``discover`` is not kept: the gate's first stage asks for it anyway."""
        if not self._closed and record.hook != "discover" and len(record.stdin) <= LARGEST:
            self._thread.submit(self._write, record).add_done_callback(self._written)

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
            return
        ring = record.script, record.hook

        def turn(connection: Connection) -> None:
            append(connection, "call", self._bounds.size, *ring, record.at, packed)
            connection.execute(_KEEP_NEWEST, (*ring, *ring, self._bounds.calls))

        self._database.change(turn, durable=False)

    def _pack(self, record: HookCallRecord) -> bytes | None:
        """The record without secrets, as bytes; None when it may not be kept."""
        secrets = [*self._secrets()]
        stdin = redact(record.stdin, secrets)
        answer = redact(msgspec.json.encode(record.answer), secrets)
        if stdin is None or answer is None or len(answer) > LARGEST:
            return None
        clean = msgspec.structs.replace(record, stdin=stdin, answer=msgspec.json.decode(answer))
        return zlib.compress(msgspec.msgpack.encode(clean), 1)

    def _read(self, script: str | None) -> RecordsRead:
        try:
            found = self._database.rows(_NEWEST_FIRST, script)
        except OSError as error:
            return RecordsRead((), (str(error),))
        records, problems = [], []
        for name, hook, at, value in found:
            try:
                records.append(msgspec.msgpack.decode(zlib.decompress(value), type=HookCallRecord))
            except (ValueError, TypeError, zlib.error) as error:
                problems.append(
                    f"the record of {name} {hook} at {at} is left out, it cannot be read: {error}"
                )
        return RecordsRead(tuple(records), tuple(problems))

    def _written(self, done: "Future[None]") -> None:
        error = None if done.cancelled() else done.exception()
        said = None if error is None else f"a call could not be recorded: {type(error).__name__}: {error}"
        if said is not None and said != self.problem:
            log.warning("evolve=records problem=%r", said)
        self.problem = said
