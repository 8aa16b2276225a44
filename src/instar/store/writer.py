"""The threads that talk to the database: one that writes, grouping what waits, and a few that read.

The event loop hands over work and gets futures; nothing here blocks it. Threads are daemons: a process
that ends without `close` loses nothing that was announced.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

import msgspec

from instar.event import Event
from instar.store.database import SqlConnection, SqlDatabase, closed

log = logging.getLogger("instar.store")

T = TypeVar("T")

Work = Callable[[SqlConnection], Any]
"""What to do with the connection, once or (undone in between) twice; its result is the caller's."""

_GROUP: Final = 256
"""So many commits are enough for one transaction."""
_LINGER: Final = 0.02
"""Seconds for which what is only passed on to other processes waits for more, or for a commit."""
_READERS: Final = 2


class _Job(msgspec.Struct, eq=False):
    """Work, the future of its result, and the events to publish once it is durable."""

    work: Work | None
    future: "asyncio.Future[Any]"
    events: Sequence[Event] = ()
    kept: bool = True
    """Whether the events tell of what was written: else they are published also when that failed."""
    asks: bool = False
    """Whether what `work` returns is to be called for its result, after all others: a server is waited for once."""
    one_state: bool = True
    """Whether what it reads has to be of one moment."""
    result: Any = None
    failure: Exception | None = None


class Writer:
    """One thread with one connection. Work that waits is done in one transaction.

    `publish` gets each job's events on the event loop, in the order of the commits, after the COMMIT that
    holds them and before the job's future resolves.
    """

    def __init__(self, database: SqlDatabase, publish: Callable[[Event], None]) -> None:
        self._database = database
        self._publish = publish
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[list[_Job] | None] = SimpleQueue()
        self._submitted: list[_Job] = []
        """What the thread is handed when the event loop comes round: it is woken once for all of it."""
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._closing = False
        self._under_way = 0

    async def start(self) -> None:
        """Open the database. Raises `StoreError`."""
        threading.Thread(target=self._run, name="instar-store-writer", daemon=True).start()
        await self._opened

    def publish(self, event: Event, pass_on: Work | None = None) -> None:
        """Publish an event that is not stored: at once, or after what was submitted before it and after `pass_on`.

        Nobody is refused: a turn that ends while the store is closed says so still.
        """
        if (self._under_way or pass_on) and not self._closing:
            asks = pass_on is not None
            self._submit(_Job(pass_on, self._loop.create_future(), (event,), kept=False, asks=asks))
        else:
            self._announce(event)

    def submit(
        self, work: Work | None, events: Sequence[Event] = (), *, asks: bool = False
    ) -> "asyncio.Future[Any]":
        """Queue `work`; the future has its result once it is durable and `events` were published.

        `asks`: it returns a function that gives the result, which is called before the transaction ends.
        """
        if self._closing:
            raise closed(self._database)
        future: asyncio.Future[Any] = self._loop.create_future()
        self._submit(_Job(work, future, events, asks=asks))
        return future

    def _submit(self, job: _Job) -> None:
        self._under_way += 1
        if not self._submitted:
            self._loop.call_soon(self._hand_over)
        self._submitted.append(job)

    def _hand_over(self) -> None:
        if self._submitted:
            self._queue.put(self._submitted)
            self._submitted = []

    async def settled(self) -> None:
        """Return once all that was submitted has been done, or has failed, and is announced."""
        if self._under_way and not self._closing:
            await asyncio.gather(self.submit(None), return_exceptions=True)

    async def close(self) -> None:
        """Finish what was submitted, then close the connection."""
        if not self._closing:
            self._closing = True
            self._hand_over()
            self._queue.put(None)
        await asyncio.shield(self._ended)

    def _run(self) -> None:
        try:
            connection = self._database.open()
        except Exception as error:  # whatever it is, the opener gets it
            self._tell(_fail, self._opened, error)
            return
        self._tell(_resolve, self._opened, None)
        open_ended = True
        while open_ended:
            jobs, open_ended = self._next()
            if jobs:
                _perform(connection, jobs, self._database)
                self._tell(self._deliver, jobs)
        connection.close()
        self._tell(_resolve, self._ended, None)

    def _next(self) -> tuple[list[_Job], bool]:
        """Wait for jobs and take those that wait behind them; False when the end was asked for."""
        jobs: list[_Job] = []
        handed = self._queue.get()
        patience = time.monotonic() + _LINGER
        try:
            while handed is not None:
                jobs += handed
                if len(jobs) >= _GROUP:
                    return jobs, True
                if any(job.kept or job.work is None for job in handed):
                    patience = 0.0
                handed = self._queue.get(timeout=max(0.0, patience - time.monotonic()))
        except Empty:
            return jobs, True
        return jobs, False

    def _tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        # A closed loop has nobody left to hear of it; what was written stays written.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *arguments)

    def _deliver(self, jobs: list[_Job]) -> None:
        for job in jobs:
            self._under_way -= 1
            for event in () if job.kept and job.failure is not None else job.events:
                self._announce(event)
            if job.kept:
                _settle(job)
            elif job.failure is not None:
                log.warning("not passed on to other processes: %s", job.failure)

    def _announce(self, event: Event) -> None:
        try:
            self._publish(event)
        except Exception as error:  # a subscriber's fault must not keep the others from hearing
            message = f"publishing {event.type} failed"
            self._loop.call_exception_handler({"message": message, "exception": error})


class Readers:
    """A few threads, each with a connection of its own, started when first needed."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._loop = asyncio.get_running_loop()
        self._closing = False

    def submit(self, work: Callable[[SqlConnection], T], *, one_state: bool = True) -> "asyncio.Future[T]":
        """Queue `work`. It is done in one read transaction and sees one state of the database, if it has to."""
        if self._closing:
            raise closed(self._database)
        if len(self._threads) < _READERS:
            thread = threading.Thread(target=self._run, name="instar-store-reader", daemon=True)
            self._threads.append(thread)
            thread.start()
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(work, future, one_state=one_state))
        return future

    def close(self) -> None:
        """Finish what was submitted and close the connections."""
        self._closing = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        connection: SqlConnection | None = None
        while (job := self._queue.get()) is not None:
            try:
                connection = connection or self._database.connect()
                if job.one_state:
                    connection.begin(writes=False)
                job.result = None if job.work is None else job.work(connection)
            except Exception as error:  # the reader outlives it, the caller gets it
                job.failure = self._database.explain(error)
            finally:
                if connection is not None and connection.in_transaction:
                    connection.execute("ROLLBACK")
            try:
                self._loop.call_soon_threadsafe(_settle, job)
            except RuntimeError:
                break  # the loop is closed
        if connection is not None:
            connection.close()


class Near:
    """A connection of the event loop's own, for a few rows that are found by their key.

    A thread takes longer to be woken than such a row to be read: it stands in this process' memory or in the
    system's. What another process locks is not waited for here.
    """

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        self._connection: SqlConnection | None = None
        self._closing = False

    def read(self, work: Callable[[SqlConnection], T]) -> T:
        """Return what `work` gives. Raises `BlockingIOError` where it would have to wait, and `StoreError`."""
        if self._closing:
            raise closed(self._database)
        try:
            if self._connection is None:
                self._connection = self._database.connect(waits=False)
            return work(self._connection)
        except BlockingIOError:
            raise
        except Exception as error:
            if self._database.is_locked(error):
                raise BlockingIOError(str(error)) from error
            raise self._database.explain(error) from error

    def close(self) -> None:
        """Close the connection."""
        self._closing = True
        if self._connection is not None:
            self._connection.close()


def _perform(connection: SqlConnection, jobs: list[_Job], database: SqlDatabase) -> None:
    """Do all of it in one transaction; when one fails, each in its own, so that it fails alone.

    A savepoint around each job would do the same, at the price of two statements for every job that
    does not fail.
    """
    failure = _transaction(connection, jobs, database)
    if failure is None:
        return
    if len(jobs) > 1 and not database.is_locked(failure):
        for job in jobs:
            _perform(connection, [job], database)
        return
    for job in jobs:
        job.failure = database.explain(failure)


def _transaction(connection: SqlConnection, jobs: list[_Job], database: SqlDatabase) -> Exception | None:
    """Do the jobs and commit; or undo them all and return what went wrong.

    Whether what is saved would be lost is asked last, for all of them.
    """
    if not [job for job in jobs if job.work]:
        return None
    try:
        connection.begin(writes=True)
        for job in jobs:
            job.result = None if job.work is None else job.work(connection)
        for job in jobs:
            if job.asks:
                job.result = job.result()
        database.check()
        connection.execute("COMMIT")
    except Exception as error:  # the writer outlives whatever happens, the callers get it
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        return error
    return None


def _settle(job: _Job) -> None:
    if job.failure is not None:
        _fail(job.future, job.failure)
    else:
        _resolve(job.future, job.result)


def _resolve(future: "asyncio.Future[Any]", result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
