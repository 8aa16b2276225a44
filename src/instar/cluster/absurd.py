"""Turns handed out by absurd (https://github.com/earendil-works/absurd): a queue of tasks in PostgreSQL.

It is asked by its SQL functions, which its own clients call too. A task is claimed for as long as a lease lasts, and
the claim is extended while its turn runs; one that is not extended any more is given to the next worker that looks.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Collection
from typing import TYPE_CHECKING, Any, Final

import psycopg

from instar.cluster.engine import Run, WorkerEnds
from instar.settings.install import installing
from instar.store import Enqueue, StoreError
from instar.store.lease import owner_name
from instar.store.postgresql import PARAMETERS
from instar.store.relay import Relay

try:
    import absurdctl  # type: ignore[import-untyped]
except ImportError as error:
    raise StoreError(f"a server on PostgreSQL needs absurdctl: {installing('cluster')}") from error

if TYPE_CHECKING:
    from psycopg.rows import TupleRow

log = logging.getLogger("instar.cluster")

_TASK: Final = "turn"
_ATTEMPTS: Final = 10
"""Workers that may be lost with one turn before it is given up."""
_CAPACITY: Final = 64
"""Turns that one worker runs at once."""
_AT_ONCE: Final = 4
"""Tasks that one look takes, so that workers who are woken together share what waits."""
_LOOK: Final = 1.0
"""Seconds between two looks when nobody wakes us: for claims that ended."""
_AGAIN: Final = 1.0
"""Seconds after which a session is looked at again that another worker runs."""
_KEPT: Final = 24 * 3600
"""Seconds for which finished tasks are kept."""
_CLEANED_EVERY: Final = 3600.0
_PREPARING: Final = 0x1257AA


class AbsurdEngine:
    """The tasks of one schema. To be used on the event loop that made it."""

    def __init__(self, url: str, relay: Relay) -> None:
        self._url = url
        self._relay = relay
        self._server = relay.server
        self._connection: psycopg.AsyncConnection[TupleRow] | None = None
        self._connecting = asyncio.Lock()
        self._queue = ""
        self._wake = asyncio.Event()
        self._paused = self._closed = False
        self._running: dict[asyncio.Task[None], str] = {}
        self._waiting: set[asyncio.Event] = set()

    async def prepare(self) -> None:
        """Make or update absurd's tables, and the queue of this schema. Raises `StoreError`."""
        try:
            async with await self._connected(autocommit=False) as connection:
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_PREPARING,))
                await _migrate(connection)
                found = await connection.execute("SELECT 'instar_' || left(md5(current_schema()), 16)")
                ((self._queue,),) = await found.fetchall()
                await connection.execute("SELECT absurd.create_queue(%s)", (self._queue,))
        except psycopg.Error as error:
            raise self._server.explain(error) from error
        self._relay.on_wake(self._heard)

    @property
    def _lease(self) -> int:
        """Seconds for which a task is claimed."""
        return max(1, round(self._server.lease_ms / 1000))

    def wanted(self, session_id: str, directory: str, key: str, stop: str) -> Enqueue:
        """Return the write that makes a task of a session."""
        what = {"session": session_id, "directory": directory, "stop": stop, "key": key}
        options = {"max_attempts": _ATTEMPTS, "idempotency_key": key}
        return Enqueue((self._queue, _TASK, json.dumps(what), json.dumps(options)))

    async def work(self, run: Run) -> None:
        """Claim tasks and run them until `close`."""
        clock, cleaned = asyncio.get_running_loop().time, -_CLEANED_EVERY
        while not self._paused:
            self._wake.clear()
            free = min(_AT_ONCE, _CAPACITY - len(self._running))
            try:
                if clock() - cleaned > _CLEANED_EVERY:
                    cleaned = clock()
                    await self._ask("SELECT absurd.cleanup_tasks(%s, %s)", self._queue, _KEPT)
                claimed = await self._claim(free) if free else []
            except (psycopg.Error, OSError) as error:
                log.warning("no turns are taken up: %s", self._server.explain(error))
                claimed = []
            for run_id, what in claimed:
                task = asyncio.create_task(self._carry_out(run_id, what, run))
                self._running[task] = what["session"]
                task.add_done_callback(self._ended)
            if not free or len(claimed) < free:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), _LOOK)

    async def finished(self, key: str) -> None:
        """Wait until a task is completed, failed or cancelled; one that was never written is."""
        await self.until(lambda: self._is_done(key), key)

    async def until(self, met: Callable[[], Awaitable[bool]], key: str | None = None) -> None:
        """Wait until a condition is met, which is looked at whenever work was written or done: with `key` this one."""
        woken = asyncio.Event()

        def heard(said: str) -> None:
            if key is None or said == key:
                woken.set()

        # From before the first look: what happens between a look and the wait is not missed.
        stop = self._relay.on_wake(heard)
        self._waiting.add(woken)
        try:
            while not await met():
                if self._closed:
                    raise WorkerEnds(
                        "this server ends; the turn goes on at another one: read the answer there"
                    )
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), _LOOK)
                woken.clear()
        finally:
            self._waiting.discard(woken)
            stop()

    def claimed(self) -> Collection[str]:
        """Return the sessions that are carried on here now."""
        return set(self._running.values())

    def pause(self) -> None:
        """Take up nothing more."""
        self._paused = True
        self._wake.set()

    async def close(self) -> None:
        """Wait for what is under way and end."""
        self.pause()
        self._closed = True
        for woken in self._waiting:
            woken.set()
        if self._running:
            await asyncio.wait(self._running)
        if self._connection is not None:
            await self._connection.close()

    def _heard(self, key: str) -> None:
        if not key:
            self._wake.set()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        del self._running[task]
        if len(self._running) == _CAPACITY - 1:
            self._wake.set()

    async def _is_done(self, key: str) -> bool:
        statement = (
            f"SELECT 1 FROM absurd.t_{self._queue} WHERE idempotency_key = %s"  # noqa: S608 - our own name
            " AND state IN ('pending', 'running', 'sleeping')"
        )
        try:
            return not await self._ask(statement, key)
        except (psycopg.Error, OSError) as error:
            log.warning("waiting for a turn: %s", self._server.explain(error))
            return False

    async def _claim(self, free: int) -> list[tuple[Any, dict[str, str]]]:
        return await self._ask(
            "SELECT run_id, params FROM absurd.claim_task(%s, %s, %s, %s)",
            self._queue,
            owner_name(),
            self._lease,
            free,
        )

    async def _carry_out(self, run_id: Any, what: dict[str, str], run: Run) -> None:
        beating = asyncio.create_task(self._keep(run_id))
        done = False
        try:
            done = await run(what["session"], what["directory"], what.get("stop", ""))
        except Exception as error:
            log.error("a turn could not be taken up session=%s", what["session"], exc_info=error)
        finally:
            beating.cancel()
        told = "pg_notify('instar_work_' || md5(current_schema()), %s)"
        later = "absurd.schedule_run(%s, %s, absurd.current_time() + make_interval(secs => %s))"
        try:
            if done:
                key = what.get("key", "")
                await self._ask(f"SELECT absurd.complete_run(%s, %s), {told}", self._queue, run_id, key)
            elif self._paused:
                await self._ask(f"SELECT {later}, {told}", self._queue, run_id, 0.0, "")
            else:
                await self._ask(f"SELECT {later}", self._queue, run_id, _AGAIN)
        except (psycopg.Error, OSError) as error:
            # Whoever has the task by now finds that nothing is left to answer.
            log.warning("not noted as done session=%s: %s", what["session"], self._server.explain(error))

    async def _keep(self, run_id: Any) -> None:
        """Extend a claim, until it is lost: that changes nothing, the session's lease decides who may write."""
        while True:
            await asyncio.sleep(self._lease / 3)
            try:
                await self._ask("SELECT absurd.extend_claim(%s, %s, %s)", self._queue, run_id, self._lease)
            except (psycopg.OperationalError, OSError) as error:
                log.warning("a claim was not extended: %s", self._server.explain(error))
            except psycopg.Error:
                return

    async def _connected(self, **parameters: Any) -> "psycopg.AsyncConnection[TupleRow]":
        return await psycopg.AsyncConnection.connect(self._url, **{**PARAMETERS, **parameters})

    async def _ask(self, statement: str, *parameters: Any) -> list[Any]:
        async with self._connecting:
            if self._connection is None or self._connection.closed:
                self._connection = await self._connected()
            found = await self._connection.execute(statement, parameters)
            return await found.fetchall() if found.description else []


async def _migrate(connection: "psycopg.AsyncConnection[TupleRow]") -> None:
    found = await connection.execute("SELECT to_regprocedure('absurd.get_schema_version()') IS NOT NULL")
    ((made,),) = await found.fetchall()
    if not made:
        await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        return
    ((version,),) = await (await connection.execute("SELECT absurd.get_schema_version()")).fetchall()
    steps = absurdctl.resolve_migration_path(
        version, absurdctl.ABSURD_SCHEMA_TARGET_VERSION, absurdctl.discover_bundled_migrations()
    )
    if steps is None:
        raise StoreError(
            f"the database has absurd {version}, which is newer than {absurdctl.ABSURD_SCHEMA_TARGET_VERSION}:"
            " update instar"
        )
    for step in steps:
        await connection.execute(step["sql"])
