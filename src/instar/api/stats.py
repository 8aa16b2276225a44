"""Answers and queries of instar's own part of the interface: what was used, may be used, was stopped or is missing."""

from typing import Annotated, Literal

import msgspec

from instar.wire import Wire, ids


class SpentCacheTokens(msgspec.Struct, frozen=True):
    """Tokens of the input that a provider's cache served (`read`) or took (`write`)."""

    read: int
    write: int


class SpentTokens(msgspec.Struct, frozen=True):
    """Tokens of some calls; `input` are those that no cache served or took."""

    input: int
    output: int
    reasoning: int
    cache: SpentCacheTokens


class SpentSum(msgspec.Struct, frozen=True, kw_only=True):
    """The sum of some calls: `cached` is the share of the input that a cache served (0 to 1; None without input).

    `cost` is in US dollars; `unpriced` calls, whose price is not known, are not in it.
    """

    calls: int
    sessions: int
    tokens: SpentTokens
    cached: float | None
    cost: float
    unpriced: int


class SpentLine(SpentSum, frozen=True, kw_only=True):
    """The sum of the calls that have the same `key`; `title` is that of a session."""

    key: str
    title: str | msgspec.UnsetType = msgspec.UNSET


class EvolutionSum(SpentSum, frozen=True, kw_only=True):
    """What the steps used in which the agent changed itself; `kind` says what became of the changes.

    `unknown` of them belong to messages that were deleted.
    """

    kind: str
    unknown: int


class CacheBreaks(msgspec.Struct, frozen=True):
    """How often a plugin changed a block that a prompt cache held, and the bytes that were sent anew for it."""

    plugin: str
    block: str
    times: int
    lost: int


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What model calls used and cost, as ``instar stats --json`` prints it; times in ms.

    `first` and `last` are the times of the calls, `by` holds a table for each word that was asked for, `unpriced` the
    calls of models whose price is not known, `tools` how often which tool was called, where that was asked for.
    """

    since: int
    until: int | None
    first: int
    last: int
    total: SpentSum
    by: dict[str, list[SpentLine]]
    unpriced: dict[str, int]
    evolution: list[EvolutionSum]
    cache_breaks: list[CacheBreaks]
    tools: dict[str, int] | msgspec.UnsetType = msgspec.UNSET


class StatsQuery(Wire):
    """Which calls count, as the options of ``instar stats``.

    `by`: words to sum by, with commas between them (day, session, agent, model, cause, origin). `days`: the last so
    many, 0 is today. `since`, `until`: a day or a time, as 2026-01-31 or 2026-01-31T12:00. `session`: an id, or its
    beginning. `project`: a folder of it or its id; empty: that of the directory. `tools`: also how often which tool
    was called.
    """

    by: str = ""
    days: Annotated[int, msgspec.Meta(ge=0, le=100_000)] | None = None
    since: str | None = None
    until: str | None = None
    session: str = ""
    project: str | None = None
    tools: bool = False


class LimitsQuery(Wire):
    """With `session` the answer includes the limit of its tree of sessions."""

    session: ids.SessionID | None = None


class Sum(msgspec.Struct, frozen=True):
    """The sum of booked calls: their number, tokens and US dollars, and how many had no known price."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0


class Room(msgspec.Struct, frozen=True):
    """The largest number of tokens and US dollars, or what is left of it; None means no limit."""

    tokens: int | None
    cost: float | None


class LimitUsage(msgspec.Struct, frozen=True):
    """A limit by its path in the settings: the `most`, what was `used` of it so far, and what is `left`."""

    path: str
    most: Room
    used: Sum
    left: Room


class LimitsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What may be used here, and what was.

    `steps` and `minutes` (None: no limit) are those of a turn, `calls` those in a row without a person, `failures`
    those in a row after which what no person asked for waits; `waiting` are the providers for which it waits now, with
    the seconds that are left. `heartbeat` is what one beat may use. `limits` look back 24 hours, a session's to its
    beginning.
    """

    steps: int
    minutes: float | None
    calls: int
    failures: int
    waiting: dict[str, float]
    heartbeat: Room
    limits: list[LimitUsage]


class ContextQuery(Wire):
    """The model of the next prompt, provider/model; without one that of the last, or of the settings."""

    model: str = ""


class ContextPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what a session's next request sends: of its system prompt, its tools or its messages.

    `name` says what it is (an instruction file's path, whose tools, the calls of a tool …), `count` how many there are
    of it. An image has as many `characters` as a text of its tokens. `tokens` is an estimate.
    """

    kind: Literal["system", "tools", "messages"]
    name: str
    count: int
    characters: int
    tokens: int


class ContextReport(msgspec.Struct, frozen=True, kw_only=True):
    """What fills the window of a session's model, in tokens.

    `window` is the model's own limit (None: not known), `room` how many the conversation may fill before it is
    summarised, by itself only if `automatic`; `used` and `left` are of that room. `counted`: the provider counted the
    last request and its answer, and what each part has of that is estimated by its characters; else all is estimated.
    """

    model: str
    window: int | None
    room: int
    automatic: bool
    used: int
    left: int
    counted: bool
    parts: list[ContextPart]


class Diagnosis(msgspec.Struct, frozen=True):
    """One thing that was looked at; `todo` says what to do about a note or a problem."""

    name: str
    state: Literal["ok", "note", "problem"]
    text: str
    todo: str = ""


class DoctorReport(msgspec.Struct, frozen=True):
    """What ``instar doctor`` says: its lines, and the command to type next."""

    lines: list[Diagnosis]
    next: str


class ShieldState(msgspec.Struct, frozen=True):
    """How far children of the model are confined here, and the best level that the settings ask for."""

    level: str
    at_most: str


class StopBody(Wire):
    """`all`: everywhere, not only in the directory's project."""

    all: bool = False


class StopMade(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stop: the folder that it covers (``*``: every one), when (ms), and where it was lifted.

    `resumed` are the scopes in which a person has let what is automatic go on since.
    """

    id: str
    scope: str
    time: int
    resumed: tuple[str, ...] = ()


class StoppedSession(msgspec.Struct, frozen=True):
    """A session that ran when the stop came, and whether its turn has ended."""

    id: str
    title: str
    directory: str
    host: str
    pid: int | None
    ended: bool


class QueuedPrompts(msgspec.Struct, frozen=True):
    """How many prompts of one source wait in a session's queue."""

    session_id: str
    title: str
    directory: str
    source: str
    count: int


class StopReport(msgspec.Struct, frozen=True):
    """What a stop did. `elsewhere` counts sessions that run where it does not hold.

    `problem` says why it could not be told what ran.
    """

    stop: StopMade
    sessions: list[StoppedSession]
    waiting: list[QueuedPrompts]
    elsewhere: int = 0
    problem: str = ""


class StopsReport(msgspec.Struct, frozen=True):
    """The last stop of each scope, oldest first; a person made each.

    `halted` is the time (ms) of the one that still keeps what is automatic from beginning in the directory; 0: none.
    """

    stops: list[StopMade]
    halted: int


class Resumed(msgspec.Struct, frozen=True):
    """The scope in which what is automatic goes on."""

    resumed: str
