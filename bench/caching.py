"""How much of real requests a provider's prompt cache would have served: `python -m bench.caching FILE...`.

FILE is a record of requests (`INSTAR_LOG_REQUESTS=FILE instar ...`), one JSON object a line. They are replayed through
a model of each provider's cache, byte for byte, with the rules that the providers document (docs/concepts/caching.md
names them): where it looks, how long it keeps, how much it needs at least. A token is taken to be four bytes of JSON.

What is measured is the share of what *could* be served: all that the request before it in the same session had sent.
A request that comes later than the cache keeps things is listed and left out; a request that does not begin with the
one before it is a break, is listed, and counts as not served.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import msgspec

BYTES_PER_TOKEN: Final = 4
MINUTES_5, HOUR_1, DAY_1 = 300_000, 3_600_000, 86_400_000
"""Milliseconds."""
LOOKBACK: Final = 20
"""Blocks that Anthropic looks at from a breakpoint backwards, that block included."""
BREAKPOINTS: Final = 4
"""As many as Anthropic takes in a request."""
LEAST: Final = (
    (re.compile(r"(opus|fable|mythos)-5(?!\d)"), 512),
    (re.compile(r"haiku-4-5|opus-4-[567](?!\d)"), 4096),
    (re.compile(r"sonnet-4-6|haiku-3|3-5-haiku|3-haiku"), 2048),
    (re.compile(r"sonnet|opus"), 1024),
)
"""The shortest prefix in tokens that Anthropic caches, by model; where documents disagree, the larger."""
LEAST_UNKNOWN: Final = 4096
OPENAI_LEAST, OPENAI_STEP = 1024, 128
"""Tokens: OpenAI serves prefixes from the first on, in steps of the second."""
_MARK: Final = re.compile(rb',"cache_control":(\{[^{}]*\})\}$')


class Line(msgspec.Struct):
    """A recorded request."""

    time: int
    protocol: str
    url: str
    model: str
    session: str
    purpose: str
    body: msgspec.Raw
    took: int = 0
    tokens: Any = None
    error: str | None = None


class Block(NamedTuple):
    """A piece of a request as a cache compares it. `keep` is for how many ms a breakpoint on it asks, 0 without one."""

    place: str
    data: bytes
    keep: int = 0


class Body(msgspec.Struct):
    """What of a request's body stands in the prefix."""

    messages: list[msgspec.Raw]
    tools: list[msgspec.Raw] = []
    system: msgspec.Raw = msgspec.Raw(b"[]")
    thinking: msgspec.Raw = msgspec.Raw(b"null")
    tool_choice: msgspec.Raw = msgspec.Raw(b"null")
    response_format: msgspec.Raw = msgspec.Raw(b"null")
    prompt_cache_key: str = ""
    prompt_cache_retention: str = ""


class Message(msgspec.Struct):
    """An Anthropic turn."""

    role: str
    content: msgspec.Raw


class Served(NamedTuple):
    """Tokens of one request: all of them, those read from the cache, and those that it can hold of them."""

    tokens: int
    read: int
    holds: int


class Cache(Protocol):
    """A provider's cache."""

    def serve(self, line: Line, body: Body) -> Served:
        """Answer one request and remember what the provider would."""
        ...


def blocks(protocol: str, body: Body) -> list[Block]:
    """Return a request's prefix in the order in which the provider's cache compares it."""
    if protocol == "anthropic":
        return [
            *(_marked(f"tool {at}", b"tool:", raw) for at, raw in enumerate(body.tools, 1)),
            *(_marked("system", b"system:", raw) for raw in _array(body.system)),
            # These take part from the messages on: a change of them leaves tools and system where they are.
            Block("options", b"options:" + bytes(body.tool_choice) + bytes(body.thinking)),
            *_turns(body),
        ]
    return [
        Block("options", bytes(body.response_format)),
        *(Block(f"tool {at}", bytes(raw)) for at, raw in enumerate(body.tools, 1)),
        *(Block(f"message {at}", bytes(raw)) for at, raw in enumerate(body.messages, 1)),
    ]


def _turns(body: Body) -> Iterator[Block]:
    for at, raw in enumerate(body.messages, 1):
        turn = msgspec.json.decode(raw, type=Message)
        for block in _array(turn.content):
            yield _marked(f"message {at}", turn.role.encode() + b":", block)


def _array(raw: msgspec.Raw) -> list[msgspec.Raw]:
    """The blocks of a content; a text stands for one."""
    data = bytes(raw)
    return msgspec.json.decode(data, type=list[msgspec.Raw]) if data[:1] == b"[" else [raw]


def _marked(place: str, kind: bytes, raw: msgspec.Raw) -> Block:
    """A block without its breakpoint: no cache compares that."""
    data = bytes(raw)
    found = _MARK.search(data)
    if found is None:
        return Block(place, kind + data)
    keep = HOUR_1 if b'"1h"' in found[1] else MINUTES_5
    return Block(place, kind + data[: found.start()] + b"}", keep)


class Anthropic:
    """Anthropic's cache: entries stand where breakpoints were; a breakpoint looks back 20 blocks for one."""

    def __init__(self) -> None:
        self._until: dict[bytes, tuple[int, int]] = {}

    def serve(self, line: Line, body: Body) -> Served:
        """Read at the longest entry that a breakpoint finds, then write the breakpoints."""
        found = blocks("anthropic", body)
        sizes, chain = _chained(found, f"{line.url} {line.model}".encode())
        marks = [at for at, block in enumerate(found) if block.keep]
        if len(marks) > BREAKPOINTS:
            raise ValueError(f"{len(marks)} breakpoints in a request; Anthropic takes {BREAKPOINTS}")
        least = next((size for name, size in LEAST if name.search(line.model)), LEAST_UNKNOWN)
        hit = self._hit(marks, chain, line.time)
        for at in marks:
            if sizes[at] >= least:
                self._keep(chain[at], line.time, found[at].keep)
        if hit is not None:
            self._keep(chain[hit], line.time, 0)
        holds = max((sizes[at] for at in marks if sizes[at] >= least), default=0)
        return Served(sizes[-1], 0 if hit is None else sizes[hit], holds)

    def _hit(self, marks: list[int], chain: list[bytes], time: int) -> int | None:
        for mark in reversed(marks):
            for at in range(mark, max(mark - LOOKBACK, -1), -1):
                if self._until.get(chain[at], (0, 0))[0] > time:
                    return at
        return None

    def _keep(self, entry: bytes, time: int, keep: int) -> None:
        """Write an entry, or use it again: each use keeps it for its lifetime anew."""
        until, kept = self._until.get(entry, (0, 0))
        keep = max(keep, kept if until > time else 0)
        self._until[entry] = (time + keep, keep)


class OpenAI:
    """OpenAI's cache: every prefix of 1,024 tokens and more in steps of 128, for those with the same key."""

    def __init__(self) -> None:
        self._until: dict[bytes, tuple[int, int]] = {}

    def serve(self, line: Line, body: Body) -> Served:
        """Read the longest prefix that is there, then write all of them."""
        data = b"\0".join(block.data for block in blocks("openai", body))
        keep = DAY_1 if body.prompt_cache_retention == "24h" else MINUTES_5
        state = blake2b(f"{line.url} {line.model} {body.prompt_cache_key}".encode(), digest_size=16)
        first, step = OPENAI_LEAST * BYTES_PER_TOKEN, OPENAI_STEP * BYTES_PER_TOKEN
        at, read, missed = 0, 0, False
        for end in range(first, len(data) + 1, step):
            state.update(data[at:end])
            at, entry = end, state.digest()
            missed = missed or self._until.get(entry, (0, 0))[0] <= line.time
            read = read if missed else end
            self._until[entry] = (line.time + keep, keep)
        return Served(_tokens(len(data)), _tokens(read), _tokens(at))


def _chained(found: list[Block], start: bytes) -> tuple[list[int], list[bytes]]:
    """The tokens up to each block, and the digest of everything up to it."""
    state, size = blake2b(start, digest_size=16), 0
    sizes, chain = [], []
    for block in found:
        state.update(len(block.data).to_bytes(8, "big") + block.data)
        size += len(block.data)
        sizes.append(_tokens(size))
        chain.append(state.digest())
    return sizes, chain


def _tokens(size: int) -> int:
    return size // BYTES_PER_TOKEN


class Gone(NamedTuple):
    """A request that could not be served as the one before it: number in its session, why, and where it changed."""

    session: str
    number: int
    place: str


class Report(msgspec.Struct):
    """What a replay came to, in tokens.

    `could` counts what the request before had sent and the cache can hold; `served` what was read of that; `told` is
    what the provider itself said that it read, None where it said nothing.
    """

    requests: int = 0
    tokens: int = 0
    read: int = 0
    could: int = 0
    served: int = 0
    told: int = 0
    breaks: list[Gone] = []
    late: list[Gone] = []

    @property
    def share(self) -> float:
        """The part of what could be served that was; 1 where nothing could."""
        return self.served / self.could if self.could else 1.0


def replay(lines: Iterable[Line]) -> Report:
    """Replay requests in the order of their times. Raises `msgspec.MsgspecError` for a body that is none."""
    caches: dict[str, Cache] = {"anthropic": Anthropic()}
    openai = OpenAI()
    report = Report()
    turns: dict[str, list[tuple[Line, Body, Served]]] = {}
    for line in sorted(lines, key=lambda line: line.time):
        if line.error is not None and line.tokens is None:
            # Nobody says whether a call that failed was cached; the least is taken.
            continue
        body = msgspec.json.decode(line.body, type=Body)
        served = caches.get(line.protocol, openai).serve(line, body)
        report.requests += 1
        report.tokens += served.tokens
        report.read += served.read
        report.told += ((line.tokens or {}).get("cache") or {}).get("read") or 0
        if line.purpose == "turn":
            turns.setdefault(line.session, []).append((line, body, served))
    for session, made in turns.items():
        for number, (before, now) in enumerate(pairwise(made), 2):
            _compare(report, session, number, before, now)
    return report


def _compare(
    report: Report,
    session: str,
    number: int,
    before: tuple[Line, Body, Served],
    now: tuple[Line, Body, Served],
) -> None:
    place = parted(before[0], before[1], now[0], now[1])
    if place is not None:
        report.breaks.append(Gone(session, number, place))
    keeps = max((block.keep for block in blocks(before[0].protocol, before[1])), default=0)
    keeps = DAY_1 if before[1].prompt_cache_retention == "24h" else keeps or MINUTES_5
    if now[0].time - before[0].time >= keeps:
        report.late.append(Gone(session, number, f"after {(now[0].time - before[0].time) / 60_000:.0f} min"))
        return
    could = min(before[2].holds, now[2].tokens)
    report.could += could
    report.served += min(now[2].read, could)


def parted(old: Line, was: Body, new: Line, body: Body) -> str | None:
    """Return where a request does not begin with the one before it; None when it does."""
    if (old.url, old.model) != (new.url, new.model):
        return f"model {new.model}"
    before, now = blocks(old.protocol, was), blocks(new.protocol, body)
    for left, right in zip(before, now, strict=False):
        if left.data != right.data:
            return left.place if left.place == right.place else f"{left.place} / {right.place}"
    return None if len(now) >= len(before) else f"{before[len(now)].place}, which is gone"


def read(path: Path) -> Iterator[Line]:
    """Read a record. Raises `OSError`, and `ValueError` with the line's number for one that is none."""
    with path.open("rb") as file:
        for number, text in enumerate(file, 1):
            try:
                yield msgspec.json.decode(text, type=Line)
            except msgspec.MsgspecError as error:
                raise ValueError(f"{path}:{number}: not a recorded request: {error}") from None


def lines_of(report: Report) -> Iterator[str]:
    """The report as it is printed."""
    yield f"{report.requests} requests, {report.tokens} tokens of input (a token is {BYTES_PER_TOKEN} bytes)"
    share = report.read / report.tokens if report.tokens else 0.0
    yield f"read from the cache: {share:.2%} of all input; {report.share:.2%} of what could be"
    if report.told:
        yield f"the provider counted {report.told} tokens read"
    for gone in report.breaks:
        yield f"break: request {gone.number} of {gone.session}: {gone.place}"
    for gone in report.late:
        yield f"too late: request {gone.number} of {gone.session}: {gone.place}"


def main() -> None:
    """Replay the files that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m bench.caching", description=__doc__)
    parser.add_argument("file", nargs="+", type=Path, help="a record made with INSTAR_LOG_REQUESTS")
    try:
        report = replay(line for path in parser.parse_args().file for line in read(path))
    except (OSError, ValueError) as error:
        sys.exit(f"error: {error}")
    print("\n".join(lines_of(report)))


if __name__ == "__main__":
    main()
