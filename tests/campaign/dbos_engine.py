"""instar with DBOS (https://github.com/dbos-inc/dbos-transact-py) for the engine, to compare it with absurd.

``python -m tests.campaign.cluster --engine dbos`` plays it; ``pip install dbos`` first. The transaction of a prompt
calls DBOS' SQL function `enqueue_workflow`. That a worker is gone is noticed here: of DBOS its paid Conductor does it.
"""

import asyncio
import contextlib

import psycopg
from dbos import DBOS, DBOSConfig  # type: ignore[import-not-found,unused-ignore]

from instar.cli import main
from instar.cluster import absurd
from instar.cluster.engine import Run
from instar.store.lease import owner_name

POLL = 0.2
"""Seconds between two looks for work: DBOS is woken by nothing."""
CAPACITY = 64
AGAIN = 1.0
LOCK = 0xDB05

# The store calls absurd's function in the transaction of the prompt: here that is DBOS'.
SPAWN = """
CREATE SCHEMA IF NOT EXISTS absurd;
CREATE OR REPLACE FUNCTION absurd.spawn_task(queue text, task text, params jsonb, options jsonb) RETURNS text
LANGUAGE sql AS $$
  SELECT dbos.enqueue_workflow(
    workflow_name => 'turn', queue_name => 'turns', workflow_id => options ->> 'idempotency_key',
    positional_args => ARRAY[params -> 'session', params -> 'directory', params -> 'stop', params -> 'key']::json[])
$$;
CREATE TABLE IF NOT EXISTS dbos.instar_alive (executor text PRIMARY KEY, at double precision);
"""
BEAT = """
INSERT INTO dbos.instar_alive VALUES (%s, extract(epoch FROM now()))
ON CONFLICT (executor) DO UPDATE SET at = excluded.at
"""
GONE = "SELECT executor FROM dbos.instar_alive WHERE at < extract(epoch FROM now()) - %s"
"""Who is silent for longer than a lease: what was theirs is given to others by each worker that notices."""


class DbosEngine(absurd.AbsurdEngine):
    """The tasks of one database. What it has of absurd's adapter is the connection and the waiting."""

    async def prepare(self) -> None:
        """Make or update the tables of DBOS."""
        config: DBOSConfig = {
            "name": "instar",
            "system_database_url": self._url,
            "executor_id": owner_name(),
            "application_version": "1",
            "log_level": "WARNING",
        }
        DBOS(config=config)

        @DBOS.workflow(name="turn")
        async def turn(session_id: str, directory: str, stop: str, key: str) -> None:
            # DBOS has a loop of its own; instar's turns run on instar's.
            work = self._turn(session_id, directory, stop, key)
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

        self._loop = asyncio.get_running_loop()
        self._run: Run | None = None
        self._started = asyncio.Event()
        # No transaction: DBOS makes indexes while others work, and waits for the ends of theirs.
        async with await self._connected() as connection:
            await connection.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
            await asyncio.to_thread(DBOS.launch)
            await connection.execute(SPAWN)
        await asyncio.to_thread(
            DBOS.register_queue, "turns", worker_concurrency=CAPACITY, polling_interval_sec=POLL
        )

    async def work(self, run: Run) -> None:
        """Let DBOS' threads run what they take; here who is gone is looked for."""
        self._run = run
        self._started.set()
        while not self._paused:
            try:
                await self._ask(BEAT, owner_name())
                gone = [executor for (executor,) in await self._ask(GONE, float(self._lease))]
                if gone:
                    await asyncio.to_thread(DBOS._recover_pending_workflows, gone)
            except (psycopg.Error, OSError) as error:
                absurd.log.warning("no heartbeat: %s", self._server.explain(error))
            except Exception as error:
                absurd.log.error("nothing was recovered", exc_info=error)
            await asyncio.sleep(self._lease / 3)

    async def close(self) -> None:
        """End; what is under way is another worker's."""
        self.pause()
        self._closed = True
        for woken in self._waiting:
            woken.set()
        await asyncio.to_thread(DBOS.destroy)
        if self._connection is not None:
            await self._connection.close()

    async def _is_done(self, key: str) -> bool:
        statement = (
            "SELECT 1 FROM dbos.workflow_status WHERE workflow_uuid = %s"
            " AND status IN ('ENQUEUED', 'PENDING', 'DELAYED')"
        )
        try:
            return not await self._ask(statement, key)
        except (psycopg.Error, OSError):
            return False

    async def _turn(self, session_id: str, directory: str, stop: str, key: str) -> None:
        await self._started.wait()
        assert self._run is not None
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = session_id
        done = False
        while not done:
            try:
                done = await self._run(session_id, directory, stop)
            except Exception as error:  # what a workflow raises ends it for ever
                absurd.log.error("a turn could not be taken up session=%s", session_id, exc_info=error)
            if not done:
                await asyncio.sleep(AGAIN)
        del self._running[task]
        with contextlib.suppress(psycopg.Error, OSError):
            await self._ask("SELECT pg_notify('instar_work_' || md5(current_schema()), %s)", key)


if __name__ == "__main__":
    absurd.AbsurdEngine = DbosEngine  # type: ignore[misc]
    main()
