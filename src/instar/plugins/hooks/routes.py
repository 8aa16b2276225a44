"""The operations of hooks in the HTTP interface, under ``/instar/hooks``. They only look.

They answer what ``instar hooks check`` and ``instar hooks stats`` print with ``--json``.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from instar.plugin import Client, ids, operation, wire
from instar.plugins.hooks import record
from instar.plugins.hooks.record import HookStats, RuleRun
from instar.plugins.hooks.report import RulesInForce, in_force
from instar.plugins.hooks.sources import ActiveRules

_MOST: Final = 1000
"""Lines of a record in one answer."""


class HookStatsQuery(wire.Wire):
    """Which runs count: those of the last `days` days (0 is today), those of one `session`."""

    days: Annotated[int, msgspec.Meta(ge=0, le=100_000)] | None = None
    session: str = ""


class RecordQuery(wire.Wire):
    """How many lines, the newest ones."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=_MOST)] = 100


class HooksRoutes:
    """What is asked of hooks. `data` is the plugin's own folder."""

    def __init__(self, armed: ActiveRules, data: Path, client: Client) -> None:
        self._armed = armed
        self._data = data
        self._client = client

    @operation("GET", "/instar/hooks", "instar.hooks.rules", errors=(404,))
    async def rules(self) -> RulesInForce:
        """Name every rule that is armed, with its file and dialect, and what is not, and why."""
        return await asyncio.to_thread(in_force, self._armed)

    @operation("GET", "/instar/hooks/stats", "instar.hooks.stats", errors=(404,))
    async def stats(self, query: HookStatsQuery) -> HookStats:
        """Tell of each rule how often it ran, what it decided, how long it took, and what its model cost.

        Of all folders' sessions, as far as they still exist: a record goes with its session.
        """
        since = record.since(query.days)
        return await asyncio.to_thread(record.summed, self._data, query.session, since)

    @operation("GET", "/instar/hooks/session/{sessionID}", "instar.hooks.record", errors=(404,))
    async def record(self, session_id: ids.SessionID, query: RecordQuery) -> Sequence[RuleRun]:
        """List what rules did in a session, oldest first: its newest lines."""
        await self._client.session.get(session_id)
        return await asyncio.to_thread(self._newest, session_id, query.limit)

    def _newest(self, session_id: str, limit: int) -> list[RuleRun]:
        return list(deque(record.read(self._data, session_id), limit))
