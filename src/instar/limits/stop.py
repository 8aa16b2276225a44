"""The kill switch: `instar stop` is an event that every running instar hears before it does anything more.

A stop is kept in a file in instar's data folder, which no child of the model can see, and has an id. Whoever is about
to call a model or a tool looks whether the last stop that holds for its directory is one that it knows of (one stat
when nothing changed). Ids are compared, never times: a clock that is set back or forward undoes no stop.

What a stop means in a directory that it covers:

- A turn that had begun before it ends.
- A session goes on once a person has prompted it after the stop, and so do the sessions that are made from then on.
- Until then, or until a person resumes what goes by itself (`StopFile.resume`), nothing automatic begins a turn in it.

A file that cannot be read stops everything: a gate fails closed.

Where the store is on a server (`SharedStops`), stops and resumptions are rows there too. Each process reads them
twice a second into its file of stops; all processes take them in the order of the rows.
"""

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

import msgspec

from instar.api.stats import StopMade, StoppedSession, StopReport, StopsReport
from instar.git import common_folder, find_worktree
from instar.store import StoreError
from instar.store.database import SqlConnection
from instar.store.lease import running, waiting
from instar.store.store import Store, database_at
from instar.wire.document import atomic_write, locked

log = logging.getLogger("instar.limits")

EVERYWHERE: Final = "*"
"""The scope of a stop that holds for every directory."""
RESUME: Final = "instar stop --resume lets what is automatic go on"
_REPAIR: Final = "run instar stop, which writes it anew"
_PATIENCE: Final = 6.0
"""Seconds that is waited for turns to end: they need one, on a machine under load some more."""
_LOOK: Final = 0.05
_READ_EVERY: Final = 0.4
"""Seconds between two looks at the rows of other machines' stops."""
_SILENCE: Final = 10.0
"""Seconds for which these rows may be unreadable before no model and no tool is called."""


class StopFileError(Exception):
    """The file of stops cannot be read; the text says which, why, and what to do."""


class StopOrdered(asyncio.CancelledError):
    """`instar stop` ends what was about to happen: it is treated as an abort."""


class _Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: Literal[1]
    stops: tuple[StopMade, ...]


class StopOrder(msgspec.Struct, frozen=True):
    """What a person ordered on one of the machines: a stop, or (`resumes`) what is automatic goes on in a scope."""

    id: str
    scope: str
    time: int
    resumes: bool


def _said(stop: StopMade) -> str:
    """Return in words who stopped what and when."""
    where = "everything" if stop.scope == EVERYWHERE else stop.scope
    return (
        f"instar stop ended {where} at {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(stop.time / 1000))}"
    )


def scope_of(directory: Path) -> str:
    """Return what a stop in `directory` covers: its repository's main worktree, or the folder itself outside of one."""
    real = directory.resolve()
    worktree = find_worktree(real)
    if worktree is None:
        return str(real)
    common = common_folder(worktree)
    return str(common.parent if common is not None and common.name == ".git" else worktree)


def covers(scope: str, directory: Path) -> bool:
    """Whether a stop of `scope` holds in `directory`: it, or its repository, is or lies in the folder."""
    if scope == EVERYWHERE:
        return True
    return directory.resolve().is_relative_to(scope) or Path(scope_of(directory)).is_relative_to(scope)


class StopFile:
    """The file of stops below the data folder: the last stop of each scope, oldest first."""

    def __init__(self, data: Path) -> None:
        self.path = data / "halt" / "stops.json"

    def read(self) -> tuple[StopMade, ...]:
        """Return the stops; none without a file. Raises `StopFileError`."""
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=_Kept).stops
        except (FileNotFoundError, NotADirectoryError):
            return ()
        except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise StopFileError(
                f"nothing may run, since {self.path} cannot be read ({why}): it says what was stopped; {_REPAIR}"
            ) from error

    def add(self, scope: str, now: int) -> StopMade:
        """Stop a scope. A file that could not be read is put aside, and the stop covers everything then.

        Raises `OSError` when the stop could not be written: nothing was stopped.
        """
        with locked(self.path.parent):
            try:
                earlier = self.read()
            except StopFileError:
                # Whatever it covered has to stay stopped.
                earlier, scope = (), EVERYWHERE
                with contextlib.suppress(OSError):
                    self.path.replace(self.path.with_suffix(".unreadable"))
            stop = StopMade(os.urandom(8).hex(), scope, now)
            self._write(_stopped(earlier, stop))
        return stop

    def resume(self, scope: str) -> None:
        """Let what is automatic go on in a scope, whatever stopped it. Raises `StopFileError` and `OSError`."""
        with locked(self.path.parent):
            stops = self.read()
            if stops:
                self._write(tuple(_resumed(one, scope) for one in stops))

    def take(self, orders: Sequence[StopOrder]) -> None:
        """Carry out, in their order, the orders that were not taken before. Raises `StopFileError` and `OSError`."""
        with locked(self.path.parent):
            taken = self._taken()
            fresh = [one for one in orders if one.id not in taken]
            stops = self.read()
            for order in fresh:
                if order.resumes:
                    stops = tuple(_resumed(one, order.scope) for one in stops)
                else:
                    stops = _stopped(stops, StopMade(order.id, order.scope, order.time))
            if fresh:
                self._write(stops)
                atomic_write(self._taken_path, msgspec.json.encode([one.id for one in orders]), 0o600)

    @property
    def _taken_path(self) -> Path:
        return self.path.with_name("taken.json")

    def _taken(self) -> Sequence[str]:
        try:
            return msgspec.json.decode(self._taken_path.read_bytes(), type=list[str])
        except (OSError, msgspec.MsgspecError):
            return []  # taken once more, they stop more than they should and never less

    def _write(self, stops: tuple[StopMade, ...]) -> None:
        atomic_write(self.path, msgspec.json.format(msgspec.json.encode(_Kept(1, stops))), 0o600)


def _stopped(earlier: Sequence[StopMade], stop: StopMade) -> tuple[StopMade, ...]:
    """Return the stops with one more. One that is known, since it was ordered here, gets its place among the others."""
    known = next((one for one in earlier if one.id == stop.id), stop)
    return (*(one for one in earlier if not _within(one.scope, known.scope)), known)


def _within(inner: str, outer: str) -> bool:
    return outer == EVERYWHERE or (inner != EVERYWHERE and Path(inner).is_relative_to(outer))


def _resumed(stop: StopMade, scope: str) -> StopMade:
    kept = tuple(one for one in stop.resumed if not _within(one, scope))
    return msgspec.structs.replace(stop, resumed=(*kept, scope))


class SharedStops:
    """The stops of all machines whose store is on one server, read into a file of stops; one for a process.

    `also` reads beside them what else persons ordered on those machines.
    """

    def __init__(
        self, stops: StopFile, also: Callable[[SqlConnection], None] = lambda connection: None
    ) -> None:
        self._stops = stops
        self._also = also
        self._taken: list[StopOrder] | None = None
        self._asked = self._read = time.monotonic()

    async def follow(self, store: Store) -> None:
        """Read the rows again and again. Several that do this in one process read them no more often than one."""
        while True:
            if self._is_due():
                with contextlib.suppress(StoreError):  # `check` says it once that lasts
                    await store.ask(self.read)
            await asyncio.sleep(_READ_EVERY / 4)

    def _is_due(self) -> bool:
        """Whether the rows are to be read again; for others who ask they are not, from then on."""
        now = time.monotonic()
        if now - self._asked < _READ_EVERY:
            return False
        self._asked = now
        return True

    def read(self, connection: SqlConnection) -> None:
        """Read the rows, and carry out what is new."""
        orders = _orders(connection)
        if orders != self._taken:
            try:
                self._stops.take(orders)
            except (StopFileError, OSError) as error:
                log.error("stops of other machines are not taken: %s", error)
                return
            self._taken = orders
        self._read = time.monotonic()
        self._also(connection)

    def check(self) -> None:
        """Raise `StoreError` when what other machines stopped is not known any more."""
        silence = time.monotonic() - self._read
        if silence > _SILENCE:
            raise StoreError(
                f"nothing may run: for {silence:.0f} seconds the database did not say what was stopped."
                " It goes on once the database can be read"
            )


class StopState:
    """What the stops mean for the sessions of one directory's instance. To be used on one event loop.

    `shared`: those of other machines are known too, as long as somebody reads them.
    """

    def __init__(
        self,
        stops: StopFile,
        directory: Path,
        clock: Callable[[], int] | None = None,
        shared: SharedStops | None = None,
    ) -> None:
        self._stops = stops
        self.shared = shared
        self._path = str(stops.path)
        self._clock = clock or (lambda: time.time_ns() // 1_000_000)
        self._places = {directory.resolve(), Path(scope_of(directory))}
        self._seen: tuple[int, ...] | None = None
        self._last: StopMade | None = None
        self._problem = ""
        self._heard = ""
        self._known: dict[str, str] = {}
        self._begun: dict[str, str] = {}
        self.opened = self.last_id()

    def last_id(self) -> str:
        """Return the id of the last stop that applies here, empty without one, ``?`` when that is unknown."""
        self._look()
        return "?" if self._problem else self._id

    def halted(self) -> int:
        """Return when the stop was made, in ms, that still keeps automatic work from beginning here; 0 without one."""
        self._look()
        if self._problem:
            return self._clock()
        stop = self._last
        return 0 if stop is None or self._goes_on(stop) else stop.time

    def why(self, session_id: str = "") -> str | None:
        """Return why nothing may go on in a session, or beside all sessions; None when it may."""
        self._look()
        if self._problem:
            return self._problem
        stop = self._last
        if stop is None:
            return None
        if self._begun.get(session_id, stop.id) != stop.id:
            return _said(stop)
        known = self._known.get(session_id, "") if session_id else self._heard
        return None if known == stop.id or self._goes_on(stop) else _said(stop)

    def check(self, session_id: str) -> None:
        """Raise `StopOrdered` when nothing may go on in a session, and `StoreError` as `SharedStops.check`."""
        if self.shared is not None:
            self.shared.check()
        if self.why(session_id) is not None:
            raise StopOrdered

    def person_prompted(self, session_id: str) -> None:
        """A person prompts a session: it goes on, whatever was stopped so far. Raises `StopFileError`."""
        self._look()
        if self._problem:
            raise StopFileError(self._problem)
        self._heard = self._known[session_id] = self._id

    def admitted(self, session_id: str, stop_id: str) -> None:
        """A prompt was let in at another worker, which knew of this stop as the last one: it stopped none of it."""
        self._known[session_id] = stop_id

    def session_made(self, session_id: str) -> None:
        """A session was made: it may do what a person's last prompt has let go on here."""
        self._known[session_id] = self._heard

    def inherit(self, session_id: str, caller: str) -> None:
        """A session works for another one from now on, a sub-agent's for its caller's."""
        self._known[session_id] = self._known.get(caller, "")

    def begin(self, session_id: str) -> None:
        """A turn begins in a session: each later stop ends it."""
        self._begun[session_id] = self.last_id()

    def finish(self, session_id: str) -> None:
        """The session's turn is over."""
        self._begun.pop(session_id, None)

    @property
    def _id(self) -> str:
        return "" if self._last is None else self._last.id

    def _goes_on(self, stop: StopMade) -> bool:
        return any(self._covered(scope) for scope in stop.resumed)

    def _covered(self, scope: str) -> bool:
        return scope == EVERYWHERE or any(place.is_relative_to(scope) for place in self._places)

    def _look(self) -> None:
        """Read the file when it is another than at the last look."""
        try:
            found = os.stat(self._path)  # noqa: PTH116 - asked for many times a turn
            seen = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        except (FileNotFoundError, NotADirectoryError):
            self._last, self._problem, self._seen = None, "", None
            return
        except OSError:  # reading says what is wrong
            seen = None
        if seen is not None and seen == self._seen:
            return
        try:
            stops, self._problem, self._seen = self._stops.read(), "", seen
        except StopFileError as error:
            # It is read again each time: the person may repair it in place.
            self._problem, self._seen = str(error), None
            return
        self._last = next((one for one in reversed(stops) if self._covered(one.scope)), None)


_Run = tuple[str, str, int | None]
"""A session's id, and the host and process that hold it."""


class NotStopped(Exception):
    """A stop could not be written: nothing was stopped. The text says why."""


async def stop(data: Path, database: Path | str, scope: str) -> StopReport:
    """Write a stop and wait until what ran has ended. Raises `NotStopped` when it could not be written."""
    before, problem = await _running(database)
    try:
        made = StopFile(data).add(scope, _now())
    except OSError as error:
        raise NotStopped(
            f"nothing was stopped: {error.filename or data}: {error.strerror or error}"
        ) from error
    order = StopOrder(made.id, scope, made.time, resumes=False)
    problem = problem or await asyncio.to_thread(_share, StopFile(data), database, order)
    # Once more: what began meanwhile was stopped too.
    found = before | (await _running(database))[0]
    ours = {key: run for key, run in found.items() if covers(made.scope, Path(run.directory))}
    left = await _ending(database, set(ours))
    try:
        found_waiting = await asyncio.to_thread(waiting, database)
        queued = [one for one in found_waiting if covers(made.scope, Path(one.directory))]
    except StoreError as error:
        queued, problem = [], problem or str(error)
    ended = [msgspec.structs.replace(run, ended=key not in left) for key, run in ours.items()]
    return StopReport(made, ended, queued, len(found) - len(ours), problem)


def resume(data: Path, database: Path | str, scope: str) -> None:
    """Let what is automatic go on in a scope, on all machines. Raises `StopFileError`, `OSError` and `StoreError`."""
    stops = StopFile(data)
    stops.resume(scope)
    if problem := _share(stops, database, StopOrder(os.urandom(8).hex(), scope, _now(), resumes=True)):
        raise StoreError(problem)


def _share(stops: StopFile, database: Path | str, order: StopOrder) -> str:
    """Tell an order to other machines where the store is on a server; return why that failed, or an empty text."""
    if isinstance(database, Path):
        return ""
    server = database_at(database)
    try:
        with closing(server.open()) as connection:
            connection.begin(writes=True)
            connection.run("drop_stops", (order.scope, order.resumes))
            connection.run("put_stop", (order.id, order.scope, order.time, order.resumes))
            orders = _orders(connection)
            connection.execute("COMMIT")
        stops.take(orders)
    except (StopFileError, OSError) as error:
        return str(error)
    except Exception as error:
        return f"other machines were not told: {server.explain(error)}"
    return ""


def _orders(connection: SqlConnection) -> list[StopOrder]:
    return [StopOrder(*row) for row in connection.run("stops")]


def stop_report(data: Path, state: StopState) -> StopsReport:
    """Return the stops that are kept, and what they mean for the instance of `state`. Raises `StopFileError`."""
    return StopsReport(list(StopFile(data).read()), state.halted())


async def _ending(database: Path | str, runs: set[_Run]) -> set[_Run]:
    """Wait until nobody holds these sessions; return those that are still held when patience is over."""
    until = time.monotonic() + _PATIENCE
    left = runs
    while left and time.monotonic() < until:
        held, problem = await _running(database)
        left = left if problem else left & held.keys()
        await asyncio.sleep(_LOOK if left else 0)
    return left


async def _running(database: Path | str) -> tuple[dict[_Run, StoppedSession], str]:
    """Return the sessions that running processes hold, and the reason if that is unknown."""
    try:
        found = await asyncio.to_thread(running, database, _now())
    except StoreError as error:
        return {}, str(error)
    return {(run.id, run.host, run.pid): run for run in found}, ""


def _now() -> int:
    return time.time_ns() // 1_000_000
