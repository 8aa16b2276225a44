"""The runtimes of a server: one for each directory that a request named, opened when first asked for."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from instar import approval, question
from instar.plugin import Invalid, NotFound
from instar.runtime import Options, Runtime
from instar.wire import Plain

log = logging.getLogger("instar.server")


class Instances:
    """Runtimes by the real path of their directory. `default` is used where a request names none."""

    def __init__(self, default: Path, environment: Mapping[str, str], flags: Plain | None = None) -> None:
        self.url: str | None = None
        self._default = default.resolve()
        self._environment = environment
        self._flags = flags or {}
        self._open: dict[Path, asyncio.Task[Runtime]] = {}
        self._closing = False

    async def get(self, directory: str | None) -> Runtime:
        """Return the runtime of a directory, opening it if need be.

        Raises `Invalid` when there is no such directory, and what `Runtime.open` raises. A runtime that did
        not open is tried again by the next request.
        """
        path = self._resolved(directory)
        if self._closing:
            raise Invalid("the server is shutting down")
        if path not in self._open:
            self._open[path] = asyncio.create_task(self._start(path), name=f"open {path}")
        opening = self._open[path]
        try:
            # Shielded: one client that goes away must not take the runtime from the others.
            return await asyncio.shield(opening)
        except BaseException:
            if opening.done() and self._open.get(path) is opening and _failed(opening):
                del self._open[path]
            raise

    async def of_session(self, session_id: str, directory: str | None) -> Runtime:
        """Return the runtime of a session's own directory, which may be another than the request's.

        A session lives in one runtime only, whatever directory a client names. Raises `NotFound`, and as `get`.
        """
        asked = await self.get(directory)
        session = await asked.instance.store.session(session_id)
        if session is None:
            raise NotFound(f"Session not found: {session_id}")
        # A folder that is gone cannot be opened: then the request's own must do.
        return await self.get(session.directory) if _is_folder(session.directory) else asked

    def opened(self) -> list[Runtime]:
        """Return the runtimes that are open now."""
        return [task.result() for task in self._open.values() if task.done() and not _failed(task)]

    async def close(self) -> None:
        """End every turn and close every runtime, all at once; nothing is opened afterwards."""
        self._closing = True
        opened = await asyncio.gather(*self._open.values(), return_exceptions=True)
        runtimes = [runtime for runtime in opened if isinstance(runtime, Runtime)]
        for failure in await asyncio.gather(
            *(runtime.close() for runtime in runtimes), return_exceptions=True
        ):
            if isinstance(failure, BaseException):
                log.error("closing failed", exc_info=failure)

    def _resolved(self, directory: str | None) -> Path:
        if not directory:
            return self._default
        if not _is_folder(directory):
            raise Invalid(f"there is no folder {directory!r}; name one by its absolute path")
        return Path(directory).resolve()

    async def _start(self, path: Path) -> Runtime:
        # What is asked waits for a client's answer, also for a client that is yet to come (as in opencode).
        options = Options(path, self._environment, self._flags, approval.relayed, question.relayed)
        runtime = await Runtime.open(options)
        runtime.server_url = self.url
        for notice in [*runtime.untrusted, *runtime.notices]:
            log.warning("notice directory=%s: %s", path, notice)
        log.info("instance opened directory=%s", path)
        return runtime


def _is_folder(name: str) -> bool:
    try:
        return "\0" not in name and name.startswith("/") and Path(name).is_dir()
    except OSError:  # a name that is too long, or a folder that may not be looked into
        return False


def _failed(opening: "asyncio.Task[Runtime]") -> bool:
    return opening.cancelled() or opening.exception() is not None
