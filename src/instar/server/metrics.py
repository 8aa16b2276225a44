"""The figures of a server, and their text for ``GET /instar/metrics`` (Prometheus' text format, version 0.0.4).

Turns, steps, tool calls, hook runs and evolutions are counted from 0 while the process runs. Model calls, tokens and
cost are those that the database has booked, of all processes. No label takes values that a client or a model could
multiply without bound.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from instar import __version__
from instar.event import (
    Event,
    EvolveInstalled,
    EvolveRefused,
    EvolveRolledback,
    HooksRan,
    PartUpdated,
    SessionIdle,
)
from instar.message import StepFinishPart, ToolPart
from instar.runtime import Runtime
from instar.store.statistics import KINDS, metered
from instar.store.store import Store

NAMES: Final = 100
"""Names of tools, and models, that have a line of their own; what comes after them counts as `OTHER`."""
OTHER: Final = "(other)"
_UNDER_WAY: Final = 10_000
"""Tool calls that are waited for; beyond that they are not counted."""

Key = tuple[str, ...]


class Counters:
    """The counters of one server. `started` is when it began, in seconds since 1970."""

    def __init__(self) -> None:
        self.started = time.time()
        self.turns = 0
        self.steps = 0
        self.tools: Counter[Key] = Counter()
        self.hooks: Counter[Key] = Counter()
        self.evolutions: Counter[Key] = Counter()
        self.calls: dict[Key, Counter[str]] = {}
        self._read = 0
        self._tool_names: set[str] = set()
        self._model_names: set[str] = set()
        self._origins: set[str] = set()
        self._under_way: set[str] = set()

    def join(self, runtime: Runtime) -> None:
        """Count what an instance publishes from now on."""
        runtime.instance.bus.observe(self.heard)

    def heard(self, happened: Event) -> None:
        """Count an event."""
        given = happened.properties
        match given:
            case PartUpdated(part=ToolPart() as part):
                self._tool(part)
            case PartUpdated(part=StepFinishPart()):
                self.steps += 1
            case SessionIdle():
                self.turns += 1
            case HooksRan():
                self.hooks[given.event, given.action] += 1
            case EvolveInstalled():
                self.evolutions["installed",] += 1
            case EvolveRefused():
                # The stage at which a candidate waits for a person, which the event tells as a refusal.
                self.evolutions["waiting" if given.stage == "authority" else "refused",] += 1
            case EvolveRolledback():
                self.evolutions["rolled back",] += 1

    async def read(self, store: Store) -> None:
        """Add the model calls that were booked since the last look: those of all processes on the database."""
        self._read, found = await store.ask(lambda connection: metered(self._read, connection))
        for name, origin, figures in found:
            key = (_bounded(name, self._model_names), _bounded(origin, self._origins))
            # A Counter counts what is no whole number too.
            self.calls.setdefault(key, Counter()).update(figures)

    def _tool(self, part: ToolPart) -> None:
        state = part.state.status
        if state in ("pending", "running"):
            if len(self._under_way) < _UNDER_WAY:
                self._under_way.add(part.id)
        elif part.id in self._under_way:
            # What is published of a call afterwards, as when its output is dropped, counts no second time.
            self._under_way.discard(part.id)
            self.tools[_bounded(part.tool, self._tool_names), state] += 1


def resident() -> int:
    """Return the bytes of memory that this process holds; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - no path of anybody's
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _bounded(name: str, known: set[str]) -> str:
    """Return the name, or `OTHER` once there are too many: names of models and tools come from outside."""
    if name not in known and len(known) >= NAMES:
        return OTHER
    known.add(name)
    return name


FORMAT: Final = "text/plain; version=0.0.4"

Labels = Sequence[tuple[str, str]]


class Family(NamedTuple):
    """One metric: its name, kind and help, and a value for each set of labels."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[Labels, float]]


def families(counters: Counters, opened: Sequence[Runtime], streams: int) -> Iterator[Family]:
    """Yield the metrics as they stand; `streams` is the number of open event streams."""
    yield Family("instar_info", "gauge", "The version that runs.", [((("version", __version__),), 1)])
    yield from _work(counters)
    yield from _spent(counters)
    sessions = [runtime.instance.sessions for runtime in opened]
    yield _gauge("instar_instances", "Directories that are open.", len(opened))
    yield _gauge(
        "instar_sessions_open", "Sessions that are in use.", sum(len(one.present()) for one in sessions)
    )
    yield _gauge(
        "instar_sessions_busy", "Sessions in which a turn runs.", sum(len(one.statuses()) for one in sessions)
    )
    yield _gauge("instar_event_streams", "Clients that follow events.", streams)
    yield from _process(counters)


def text(found: Iterable[Family]) -> Iterator[str]:
    """Yield metrics as lines."""
    for name, kind, told, samples in found:
        yield f"# HELP {name} {told}\n# TYPE {name} {kind}\n"
        for labels, value in samples:
            named = ",".join(f'{label}="{_escaped(said)}"' for label, said in labels)
            yield f"{name}{{{named}}} {_number(value)}\n" if named else f"{name} {_number(value)}\n"


def _work(counters: Counters) -> Iterator[Family]:
    yield _counter("instar_turns_total", "Turns that came to their end.", counters.turns)
    yield _counter("instar_steps_total", "Steps of turns: model calls that were answered.", counters.steps)
    yield _labelled(
        "instar_tool_calls_total", "Tool calls, by how they ended.", ("tool", "result"), counters.tools
    )
    yield _labelled("instar_hook_runs_total", "Runs of rules of hooks.", ("event", "action"), counters.hooks)
    yield _labelled(
        "instar_evolutions_total",
        "Changes of evolve workspaces, by what became of them.",
        ("outcome",),
        counters.evolutions,
    )


def _spent(counters: Counters) -> Iterator[Family]:
    calls = [((("model", model), ("origin", origin)), one) for (model, origin), one in counters.calls.items()]
    for name, figure, told in _FIGURES:
        yield Family(name, "counter", told, [(labels, one[figure]) for labels, one in calls])
    tokens = [((*labels, ("kind", kind)), int(one[kind])) for labels, one in calls for kind in KINDS]
    yield Family("instar_tokens_total", "counter", "Tokens of model calls, by kind.", tokens)


_FIGURES: Final = (
    ("instar_model_calls_total", "calls", "Model calls that are booked."),
    (
        "instar_cost_dollars_total",
        "cost",
        "What model calls cost, in US dollars; those without a known price are not in it.",
    ),
    ("instar_unpriced_calls_total", "unpriced", "Model calls without a known price."),
)


def _process(counters: Counters) -> Iterator[Family]:
    times = time.process_time()
    yield _counter("process_cpu_seconds_total", "Seconds of user and system time.", times)
    yield _gauge("process_resident_memory_bytes", "Bytes of memory that are held.", resident())
    yield _gauge("process_start_time_seconds", "When the server began, since 1970.", counters.started)
    yield _gauge(
        "instar_uptime_seconds", "Seconds since the server began.", max(0.0, time.time() - counters.started)
    )
    yield _gauge("instar_tasks", "Tasks of the server's event loop.", len(asyncio.all_tasks()))


def _counter(name: str, told: str, value: float) -> Family:
    return Family(name, "counter", told, [((), value)])


def _gauge(name: str, told: str, value: float) -> Family:
    return Family(name, "gauge", told, [((), value)])


def _labelled(name: str, told: str, labels: Sequence[str], counted: "dict[tuple[str, ...], int]") -> Family:
    samples = [(tuple(zip(labels, key, strict=True)), value) for key, value in sorted(counted.items())]
    return Family(name, "counter", told, samples)


def _escaped(said: str) -> str:
    return said.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
