"""Made by tests/client/generator.py from the server's operations; change those instead."""

from typing import Any, Literal

import msgspec

from instar.wire import Wire


class Cause(Wire):
    """What led to a candidate: ids of session and tool call, the tool's name, the agent's, the message's id."""

    session: str | None = None
    call: str | None = None
    tool: str | None = None
    agent: str | None = None
    message: str | None = None


class Thresholds(Wire):
    """When the heartbeat's session is cleaned, and how; None: never for that reason."""

    cleanup: Literal["none", "new", "archive", "compact"]
    count: int | None
    tokens: int | None


class Tally(Wire):
    """The heartbeat session: how many beats it had, and their tokens, since it was cleaned. "": there is none."""

    session: str = ""
    count: int = 0
    tokens: int = 0


class Begun(Wire):
    """A beat that has begun and not ended. `due` is None for one that nothing but a person asked for."""

    number: int
    at: int
    due: int | None = None
    asked: bool = False


class Pause(Wire):
    """A pause: since when, and why (``a person``, …)."""

    since: int
    why: str


class Decision(Wire):
    """What a person said about the entry of this digest; `time` in ms since 1970."""

    approved: bool
    by: str
    time: int
    digest: str


class Proposal(Wire):
    """A candidate that passed its trials and would reach more.

    `file` is its path in the workspace and `base` the sha256 of the live version's bytes that it was judged against,
    "" for a new file; `also` are new texts of files that go with it, by path. `raised` is what
    `authority.raises` said. `diff`, `test` and `replay` are texts for a person; `prediction` is as the model gave it.
    """

    file: str
    base: str
    content: str
    raised: tuple[str, ...]
    cause: Cause = msgspec.field(default_factory=Cause)
    also: dict[str, str] = msgspec.field(default_factory=dict)
    diff: str = ""
    test: str = ""
    replay: str = ""
    prediction: Any = None


class Change(Wire):
    """One line of the timeline.

    `kind` is the chronicle's, or ``changed`` for a commit of which it knows nothing; `by` is agent, person or instar,
    `time` in ms since 1970. `author` is git's, `tool` the tools that ran, `cost` the ms that the gate took, `gate` a
    line a stage, `rolled_back_by` the commits that took it back (in `show`). The rest as in `trailers` and `chronicle`.
    """

    kind: str
    by: str
    time: int
    commit: str = ""
    author: str = ""
    subject: str = ""
    tool: str = ""
    files: list[str] = msgspec.field(default_factory=list)
    session: str = ""
    call: str = ""
    beside: list[str] = msgspec.field(default_factory=list)
    agent: str = ""
    epoch: int | None = None
    gate: list[str] = msgspec.field(default_factory=list)
    cost: int | None = None
    cause: str = ""
    expect: str = ""
    rolls_back: str = msgspec.field(default="", name="rolls_back")
    rolled_back_by: list[str] = msgspec.field(name="rolled_back_by", default_factory=list)
    stage: str = ""
    text: str = ""


class WaitingChange(Wire):
    """A change that waits for a person, and what it would reach."""

    id: str
    file: str
    raised: tuple[str, ...]


class Departure(Wire):
    """A guarded file that is not as accepted. `text` is a sentence for people and the model.

    `installing`: an instar is at work on it, or was and died (`transaction`); it is no person's change.
    """

    path: str
    kind: Literal["changed", "mode", "missing", "new", "link", "special", "unreadable", "installing"]
    text: str


class HookScript(Wire):
    """A hook script as `status` shows it; the rest is unknown when it was not run."""

    file: str
    name: str | None = None
    test: str | None = None
    tools: list[str] = msgspec.field(default_factory=list)


class Paused(Wire):
    """Whether heartbeats are paused after an order, and why, or why they were."""

    paused: bool
    why: str = ""


class BeatEntry(Wire):
    """A line of the log. `at` is when it began or happened, `end` when a beat ended, `due` when it was due.

    `why` is the reason, or the error of a beat that failed. `session`, `tokens` and `cost` (dollars) are a beat's.
    """

    kind: Literal["ran", "failed", "interrupted", "skipped", "paused", "resumed", "moved"]
    number: int
    at: int
    times: int = 1
    due: int | None = None
    end: int | None = None
    why: str = ""
    session: str = ""
    tokens: int = 0
    cost: float = 0.0
    asked: bool = False


class HeartbeatStatus(Wire):
    """How the heartbeat stands; times in ms since 1970.

    `every` is the interval (below 1: off; None: the settings cannot be used), `process` the one that beats, None for
    none, `session` the heartbeat's with its beats and tokens since it was cleaned, `running` the beat that runs, `last`
    the newest beat that ended, `log` the newest entries, oldest first.
    """

    workspace: str
    every: int | None
    next: int | None
    process: int | None
    paused: Pause | None
    running: Begun | None
    session: Tally
    thresholds: Thresholds | None
    last: BeatEntry | None
    log: list[BeatEntry]
    problems: list[str]


class Rejected(Wire):
    """A change that was refused for good."""

    id: str
    file: str


class ReasonBody(Wire):
    """Why; it stands in the log."""

    reason: str = ""


class PinBody(Wire):
    """A file or folder by its path in the workspace."""

    file: str


class Made(Wire):
    """Files that were changed by an order: the epoch that it made, and its commit ("": git failed, `problem` says how).

    `probation` says how the trial of each file stands that is on trial. `loose` are the scripts that run behind the
    shield alone though their grant is a sandbox: a person put that version there.
    """

    files: list[str]
    epoch: int
    commit: str
    problem: str = ""
    probation: dict[str, str] = msgspec.field(default_factory=dict)
    loose: list[str] = msgspec.field(default_factory=list)


class RollbackBody(Wire):
    """The change to take back: the start of a commit's id, HEAD, HEAD~2, or an epoch such as @12; "" is the newest."""

    ref: str = ""


class PendingEntry(Wire):
    """A proposal that waits, or on which a person has decided; `time` in ms since 1970."""

    id: str
    digest: str
    time: int
    proposal: Proposal
    decision: Decision | None = None


class Listing(Wire):
    """All entries, the oldest first, and a sentence on each file that could not be read as one."""

    entries: list[PendingEntry]
    problems: list[str]


class Pin(Wire):
    """One pinned file or folder: its path in the workspace, who pinned it, when (ms since 1970; 0: not known)."""

    file: str
    by: str = ""
    time: int = 0


class Shown(Wire):
    """One commit: the change, its diff, of which `cut` characters are left out, and what else the chronicle tells."""

    change: Change
    diff: str
    cut: int
    events: list[Change]


class Timeline(Wire):
    """Changes, newest first; `problems` say what could not be read."""

    changes: list[Change]
    problems: list[str] = msgspec.field(default_factory=list)


class EvolveStatus(Wire):
    """How a workspace stands. `active` says whether evolve would be on, and so whether scripts were run.

    `epoch` is None for a workspace that evolve has not worked on yet, `level` how far children are confined here,
    `frozen` why nothing may change ("": it may), `probation` how the trial of each file stands.
    """

    workspace: str
    source: str
    active: bool
    scripts: list[HookScript]
    history: str | None
    problems: list[str]
    epoch: int | None = None
    level: str | None = None
    frozen: str = ""
    departures: list[Departure] = msgspec.field(default_factory=list)
    probation: dict[str, str] = msgspec.field(default_factory=dict)
    waiting: list[WaitingChange] = msgspec.field(default_factory=list)
