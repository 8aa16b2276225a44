"""Metrics: those of OpenTelemetry's conventions, and what instar's server counts, under the same names with dots.

Prometheus knows ``instar.tool.calls`` of a collector as ``instar_tool_calls_total``, its name in ``/instar/metrics``.
No attribute takes values that a client or a model could multiply without bound.
"""

from typing import Any, Final

from opentelemetry.metrics import Meter

from instar.plugin import event, message, points
from instar.plugins.telemetry.names import chat_attributes

NAMES: Final = 100
"""Names of tools, models and origins that have a line of their own; what comes after them counts as `OTHER`."""
OTHER: Final = "(other)"
_SECONDS: Final = [0.01 * 2**power for power in range(14)]
_TOKENS: Final = [4**power for power in range(14)]
"""The conventions' bounds of the buckets."""


class Instruments:
    """What takes the metrics of this process."""

    def __init__(self, meter: Meter) -> None:
        self.tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self.duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.turns = meter.create_counter("instar.turns", "{turn}", "Turns that came to their end.")
        self.steps = meter.create_counter(
            "instar.steps", "{step}", "Steps of turns: model calls that were answered."
        )
        self.tools = meter.create_counter("instar.tool.calls", "{call}", "Tool calls, by how they ended.")
        self.hooks = meter.create_counter("instar.hook.runs", "{run}", "Runs of rules of hooks.")
        self.evolutions = meter.create_counter(
            "instar.evolutions", "{change}", "Changes of evolve workspaces, by what became of them."
        )
        self.calls = meter.create_counter("instar.model.calls", "{call}", "Model calls that ended.")
        self.cost = meter.create_counter(
            "instar.cost.dollars",
            "{dollar}",
            "What model calls cost; those without a known price are not in it.",
        )
        self.unpriced = meter.create_counter(
            "instar.unpriced.calls", "{call}", "Model calls without a known price."
        )
        self.busy = meter.create_up_down_counter(
            "instar.sessions.busy", "{session}", "Sessions in which a turn runs."
        )
        self._known: dict[str, set[str]] = {}

    def bounded(self, kind: str, name: str) -> str:
        """Return a name of a kind, or `OTHER` once there are too many: tools and models are named from outside."""
        known = self._known.setdefault(kind, set())
        if name not in known and len(known) >= NAMES:
            return OTHER
        known.add(name)
        return name


class Figures:
    """Counts what happens in one instance."""

    def __init__(self, instruments: Instruments) -> None:
        self._to = instruments
        self._busy: set[str] = set()
        self._open: set[str] = set()

    def called(self, made: points.ModelCallInput) -> None:
        """Count a model call."""
        to, bounded = self._to, self._to.bounded
        model = f"{made.model.provider_id}/{made.model.model_id}"
        whose = {"model": bounded("model", model), "origin": bounded("origin", made.origin.name)}
        to.calls.add(1, whose)
        if made.cost is None:
            to.unpriced.add(1, whose)
        else:
            to.cost.add(made.cost, whose)
        said = chat_attributes(made.model.provider_id, bounded("request", made.model.model_id))
        failed = {"error.type": made.error} if made.error else {}
        to.duration.record(max(0, made.ended - made.started) / 1000, {**said, **failed})
        tokens = made.tokens
        used = {
            "input": tokens.input + tokens.cache.read + tokens.cache.write,
            "output": tokens.output + tokens.reasoning,
        }
        for kind, count in used.items():
            if count:
                to.tokens.record(count, {**said, "gen_ai.token.type": kind})

    def heard(self, happened: Any) -> None:
        """Count an event, of which these are the properties."""
        to = self._to
        match happened:
            case event.PartUpdated(part=message.ToolPart() as part):
                self._tool(part)
            case event.PartUpdated(part=message.StepFinishPart()):
                to.steps.add(1)
            case event.SessionIdle():
                to.turns.add(1)
            case event.SessionStatusChanged():
                self._status(happened)
            case event.HooksRan():
                to.hooks.add(1, {"event": happened.event, "action": happened.action})
            case event.EvolveInstalled():
                to.evolutions.add(1, {"outcome": "installed"})
            case event.EvolveRefused():
                # The stage at which a candidate waits for a person, which the event tells as a refusal.
                waits = happened.stage == "authority"
                to.evolutions.add(1, {"outcome": "waiting" if waits else "refused"})
            case event.EvolveRolledback():
                to.evolutions.add(1, {"outcome": "rolled back"})

    def close(self) -> None:
        """The instance is closed: nothing runs in it."""
        self._to.busy.add(-len(self._busy))
        self._busy.clear()

    def _status(self, changed: event.SessionStatusChanged) -> None:
        was, runs = changed.session_id in self._busy, not isinstance(changed.status, event.Idle)
        self._to.busy.add(runs - was)
        (self._busy.add if runs else self._busy.discard)(changed.session_id)

    def _tool(self, part: message.ToolPart) -> None:
        state = part.state.status
        if state in ("pending", "running"):
            self._open.add(part.id)
        elif part.id in self._open:
            # What is published of a call afterwards, as when its output is dropped, counts no second time.
            self._open.discard(part.id)
            self._to.tools.add(1, {"tool": self._to.bounded("tool", part.tool), "result": state})
