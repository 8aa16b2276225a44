"""What a server counts while it runs: turns, steps, tool calls, hook runs, evolutions. They begin at 0 with it."""

import os
import time
from collections import Counter
from typing import Final

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
from instar.store.sqlite import SqliteStore
from instar.store.statistics import Metered, metered

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
        self.calls: dict[Key, Metered] = {}
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

    async def read(self, store: SqliteStore) -> None:
        """Add the model calls that were booked since the last look: those of all processes on the database."""
        self._read, found = await store.ask(lambda connection: metered(self._read, connection))
        for one in found:
            model = _bounded(f"{one.provider}/{one.model}", self._model_names)
            key = (model, _bounded(one.origin, self._origins))
            held = self.calls.get(key)
            self.calls[key] = one if held is None else held.plus(one)

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
    """The name, or `OTHER` once there are too many: whoever names models or tools must not fill a scraper."""
    if name not in known and len(known) >= NAMES:
        return OTHER
    known.add(name)
    return name
