"""``GET /instar/metrics``: the server's figures in Prometheus' text format, version 0.0.4 (issue 10, item 3).

What a process counts begins at 0 with it (`instar.server.counters`); model calls, tokens and cost are those that the
database has booked, of all processes. No label has values that a client or a model could multiply without bound.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from starlette.responses import Response

from instar import __version__
from instar.plugin.route import operation
from instar.server.call import Call
from instar.server.counters import Counters, resident
from instar.server.instances import Instances
from instar.server.routes.stats import store_of

FORMAT: Final = "text/plain; version=0.0.4"

Labels = Sequence[tuple[str, str]]


class Family(NamedTuple):
    """One metric: its name, kind and help, and a value for each set of labels."""

    name: str
    kind: str
    help: str
    samples: Sequence[tuple[Labels, float]]


class MetricsRoutes:
    """The server's figures for a scraper."""

    @operation("GET", "/instar/metrics", "instar.metrics", scoped=False, media="text/plain")
    async def metrics(self, call: Call) -> Response:
        """Get the server's figures in Prometheus' text format."""
        instances = call.instances
        # Before it is opened here, for the default directory, nobody may have asked for anything yet.
        await instances.counters.read(store_of(await call.runtime()))
        return Response("".join(text(families(instances))), media_type=FORMAT)


def families(instances: Instances) -> Iterator[Family]:
    """Yield the metrics as they stand."""
    counters = instances.counters
    yield Family("instar_info", "gauge", "The version that runs.", [((("version", __version__),), 1)])
    yield from _work(counters)
    yield from _spent(counters)
    opened = instances.opened()
    sessions = [runtime.instance.sessions for runtime in opened]
    yield _gauge("instar_instances", "Directories that are open.", len(opened))
    yield _gauge("instar_sessions_open", "Sessions that are in use.", sum(one.opened for one in sessions))
    yield _gauge(
        "instar_sessions_busy", "Sessions in which a turn runs.", sum(len(one.statuses()) for one in sessions)
    )
    yield _gauge("instar_event_streams", "Clients that follow events.", instances.feed.clients)
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
    yield Family(
        "instar_model_calls_total",
        "counter",
        "Model calls that are booked.",
        [(labels, one.calls) for labels, one in calls],
    )
    tokens = [
        ((*labels, ("kind", kind)), value) for labels, one in calls for kind, value in one.tokens.items()
    ]
    yield Family("instar_tokens_total", "counter", "Tokens of model calls, by kind.", tokens)
    yield Family(
        "instar_cost_dollars_total",
        "counter",
        "What model calls cost, in US dollars; those without a known price are not in it.",
        [(labels, one.cost) for labels, one in calls],
    )
    yield Family(
        "instar_unpriced_calls_total",
        "counter",
        "Model calls without a known price.",
        [(labels, one.unpriced) for labels, one in calls],
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
