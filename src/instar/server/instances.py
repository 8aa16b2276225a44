"""The runtimes of a server: one for each directory that a request named, opened when first asked for."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextvars import Context
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from instar.approval import permissions, questions
from instar.event import GlobalDisposed, make
from instar.git.project import discover, is_folder
from instar.plugin import Invalid, NotFound, Server
from instar.process import Processes
from instar.runtime import Options, Runtime
from instar.runtime.plugin_context import Serving, header
from instar.server.access import Tickets
from instar.server.metrics import Counters
from instar.server.stream import Feed, Published
from instar.settings.builtin_plugins import stands_by
from instar.settings.load import read_settings
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.wire import Plain

if TYPE_CHECKING:
    from instar.client import AsyncClient
    from instar.cluster.sharing import Sharing
    from instar.provider.login import Logins
    from instar.store.relay import Relay

log = logging.getLogger("instar.server")
screen = logging.getLogger("instar.waiting")
"""Shown to whoever started the server, and in its log."""


Asked = tuple[permissions.Person | None, questions.Questioner | None]


class Instances:
    """Runtimes by the real path of their directory. `default` is used where a request names none.

    `asked` are the `person` and the `questioner` of `Options`: by default what is asked waits for any client's answer.
    """

    def __init__(
        self,
        default: Path,
        environment: Mapping[str, str],
        flags: Plain | None = None,
        http: "Callable[[Runtime], AsyncClient] | None" = None,
        serve: Callable[[Runtime], Serving] | None = None,
        asked: Asked = (permissions.relayed, questions.relayed),
    ) -> None:
        self._http, self._serve, self._asked = http, serve, asked
        self._server: Server | None = None
        self.feed = Feed()
        self.counters = Counters()
        self.tickets = Tickets()
        self.logins: WeakKeyDictionary[Runtime, Logins] = WeakKeyDictionary()
        self._default = default.resolve()
        self.environment = environment
        self.paths = Paths.from_environment(environment)
        self._flags = flags or {}
        self._open: dict[Path, asyncio.Task[Runtime]] = {}
        self._ending: dict[Path, asyncio.Task[None]] = {}
        self._closing = False
        self._relay: Relay | None = None
        self._shared: Sharing | None = None
        self._working: asyncio.Task[None] | None = None

    async def listen(self) -> None:
        """Be one of the workers on a database server from now on, if the store is on one. Raises `StoreError`."""
        if not isinstance(self.paths.database, str) or self._relay is not None:
            return
        # psycopg is an extra, and takes a while to import
        from instar.cluster.absurd import AbsurdEngine
        from instar.cluster.sharing import Sharing
        from instar.limits.budget import running_calls
        from instar.limits.stop import SharedStops, StopFile
        from instar.store.relay import Relay
        from instar.store.trust import SharedTrust

        self._relay = Relay(self.paths.database)
        # Also this process' own: so clients of every worker hear all in one order.
        self._relay.observe(lambda event: self.feed.publish(Published.stored(event)), own=True)
        self.feed.caught_up = self._relay.caught_up
        await self._relay.start()
        engine = AbsurdEngine(self.paths.database, self._relay)
        await engine.prepare()
        trust = SharedTrust(self.paths, self.environment)
        # Before it is asked whether the default directory's plugins want to work by themselves.
        await asyncio.to_thread(trust.refresh)
        stops = SharedStops(StopFile(self.paths.data), also=trust.read)
        running = running_calls(self.paths.database)
        self._shared = Sharing(engine, self._relay, stops, running)
        self._working = asyncio.create_task(engine.work(self._carry_on), name="take up turns")

    async def _carry_on(self, session_id: str, directory: str, stop: str) -> bool:
        """Run the turn of a session in its directory; False where this machine has no such folder."""
        if not is_folder(directory):
            return False
        assert self._shared is not None
        return await self._shared.carry_on(await self.get(directory), session_id, stop)

    def answer_at(self, url: str, password: str | None) -> None:
        """Tell the plugins of runtimes that are opened from now on where the server is, and how it lets them in."""
        self._server = Server(url, None if password is None else header(password))

    async def get(self, directory: str | None) -> Runtime:
        """Return the runtime of a directory, opening it if need be.

        Raises `Invalid` when there is no such directory, and what `Runtime.open` raises. A runtime that did
        not open is tried again by the next request.
        """
        path = self._resolved(directory)
        if self._closing:
            raise Invalid("the server is shutting down")
        if path not in self._open:
            # In a context of its own: what the runtime goes on doing is not the work of the request that opened it.
            starting = self._start(path, self._ending.get(path))
            self._open[path] = asyncio.create_task(starting, name=f"open {path}", context=Context())
        opening = self._open[path]
        try:
            # Shielded: one client that goes away must not take the runtime from the others.
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._open.get(path) is opening and _failed(opening):
                del self._open[path]
            raise

    async def stand_by(self) -> None:
        """Open the default directory's runtime if a plugin is to work there without being asked (a heartbeat).

        One that does not open is said in the log; the requests that need it say it again.
        """
        try:
            if await self._is_awaited():
                await self.get(None)
        except Exception as error:
            log.error("instance not opened directory=%s: %s", self._default, error)

    async def _is_awaited(self) -> bool:
        if stands_by((), self.environment, self._flags):
            return True
        project = await discover(self._default, Processes())
        trust = Trust(self.paths, self.environment)
        read = read_settings(self._default, project, self.paths, self.environment, {}, trust)
        return stands_by([entry.target for entry in read.plugins], self.environment, self._flags)

    async def of_session(self, session_id: str, directory: str | None) -> Runtime:
        """Return the runtime of a session's own directory, which may be another than the request's.

        A session lives in one runtime only, whatever directory a client names. Raises `NotFound`, and as `get`.
        """
        asked = await self.get(directory)
        session = await asked.instance.store.whereabouts(session_id)
        if session is None:
            raise NotFound(f"Session not found: {session_id}")
        if session.directory == str(asked.instance.directory):
            return asked
        # A folder that is gone cannot be opened: then the request's own must do.
        return await self.get(session.directory) if is_folder(session.directory) else asked

    def opened(self) -> list[Runtime]:
        """Return the runtimes that are open now."""
        return [task.result() for task in self._open.values() if task.done() and not _failed(task)]

    def may_dispose(self) -> None:
        """Raise `Invalid` where the runtimes are somebody else's to close; asked before a change that needs it."""

    async def dispose(self, directory: str | None) -> None:
        """Close a directory's runtime, if it is open: its turns end as aborted, and the next request opens it anew.

        Raises `Invalid` when there is no such directory.
        """
        await self._end(self._resolved(directory))

    async def dispose_all(self) -> None:
        """Close every runtime, all at once; each is opened anew by the next request that names its directory."""
        await asyncio.gather(*(self._end(path) for path in tuple(self._open)))
        self.feed.publish(Published.of(make(GlobalDisposed()), "global"))

    async def drain(self, seconds: float) -> bool:
        """Let no turn begin any more and wait for those that run, so many seconds; True when all have ended."""
        if self._shared is not None:
            self._shared.leave(self.opened())
        draining = [asyncio.create_task(runtime.drain()) for runtime in self.opened()]
        if not draining:
            return True
        try:
            _, running = await asyncio.wait(draining, timeout=seconds)
        finally:
            for task in draining:
                task.cancel()
        return not running

    async def close(self) -> None:
        """End every turn and close every runtime, all at once; nothing is opened afterwards."""
        self._closing = True
        if self._shared is not None:
            self._shared.leave(self.opened())
        await asyncio.gather(*(self._end(path) for path in tuple(self._open)))
        await asyncio.gather(*self._ending.values())
        if self._shared is not None:
            await self._shared.engine.close()
        if self._working is not None:
            await self._working
        if self._relay is not None:
            self._relay.close()

    async def _end(self, path: Path) -> None:
        opening = self._open.pop(path, None)
        if opening is not None:
            # A request that comes meanwhile waits for this: two runtimes must not run the same sessions.
            self._ending[path] = asyncio.create_task(self._closed(path, opening), name=f"close {path}")
        if path in self._ending:
            # Shielded: a client that goes away must not leave a runtime half closed.
            await asyncio.shield(self._ending[path])

    async def _closed(self, path: Path, opening: "asyncio.Task[Runtime]") -> None:
        try:
            await asyncio.wait([opening])
            if not _failed(opening):
                await opening.result().close()
                log.info("instance closed directory=%s", path)
        except Exception as error:
            log.error("closing failed directory=%s", path, exc_info=error)
        finally:
            if self._ending.get(path) is asyncio.current_task():
                del self._ending[path]

    def _resolved(self, directory: str | None) -> Path:
        if not directory:
            return self._default
        if not is_folder(directory):
            raise Invalid(f"there is no folder {directory!r}; name one by its absolute path")
        return Path(directory).resolve()

    async def _start(self, path: Path, before: "asyncio.Task[None] | None") -> Runtime:
        if before is not None:
            await asyncio.wait([before])
        # What is asked waits for a client's answer, also for a client that is yet to come (as in opencode).
        options = Options(
            path,
            self.environment,
            self._flags,
            *self._asked,
            http=self._http,
            server=self._server,
            serve=self._serve,
            relay=self._relay,
            shared=self._shared,
        )
        runtime = await Runtime.open(options)
        self.feed.join(runtime)
        self.counters.join(runtime)
        for notice in [*runtime.untrusted, *runtime.notices, *runtime.problems()]:
            screen.warning("notice directory=%s: %s", path, notice)
        log.info("instance opened directory=%s", path)
        return runtime


def _failed(opening: "asyncio.Task[Runtime]") -> bool:
    return opening.cancelled() or opening.exception() is not None
