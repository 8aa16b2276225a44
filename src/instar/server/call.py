"""One request: the instance that it is about, and its raw query, body and headers."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from starlette.requests import Request

from instar.cluster.engine import WorkerEnds
from instar.plugin import Invalid, LocalTarget, NotFound
from instar.runtime import Runtime
from instar.server.access import LOGIN
from instar.server.connection import left
from instar.server.errors import BadRequest, Forbidden, Formed
from instar.server.instances import Instances
from instar.settings.config import ConfigError
from instar.wire.document import DocumentError

T = TypeVar("T")

LARGEST_BODY: Final = 20 * 1024 * 1024
"""Bytes of a request's body."""
QUIET: Final = 20.0
"""Seconds that may pass between two pieces of a body."""
LONGEST: Final = 300.0
"""Seconds that a whole body may take."""


class Call:
    """A request, for operations that need more than its query, body and path."""

    def __init__(self, request: Request, instances: Instances) -> None:
        self.request = request
        self.instances = instances
        self._used: list[Runtime] = []
        self.headers: dict[str, str] = {}

    @property
    def is_person(self) -> bool:
        """Whether the request carried the password; false on a server without one."""
        return bool(self.request.scope.get(LOGIN))

    @property
    def directory(self) -> str | None:
        """The directory that the request names: in its query, or in a header, URI-encoded; None: the server's own."""
        header = self.request.headers.get("x-opencode-directory")
        query = self.request.query_params
        named = query.get("directory") or query.get("location[directory]")
        return named or (unquote(header) if header else None)

    async def runtime(self) -> Runtime:
        """Return the runtime of the request's directory, or of the workspace of its project that it names.

        Raises as `Instances.get`, and `BadRequest` for a workspace that there is none of here.
        """
        runtime = self._noted(await self.instances.get(self.directory))
        query = self.request.query_params
        if "location" in query:
            raise BadRequest("location has fields: location[directory], location[workspace]", "Query")
        named = query.get("workspace") or query.get("location[workspace]")
        if not named:
            return runtime
        try:
            target = await runtime.workspace.target(named)
        except NotFound as error:
            raise BadRequest(str(error), "Query") from error
        if not isinstance(target, LocalTarget):
            raise BadRequest(f"workspace {named} is on another machine: ask there", "Query")
        return self._noted(await self.instances.get(str(target.directory)))

    async def of_session(self, session_id: str) -> Runtime:
        """Return the runtime in which a session lives. Raises as `Instances.of_session`."""
        return self._noted(await self.instances.of_session(session_id, self.directory))

    def explained(self, error: Exception) -> Exception:
        """Return what to answer in place of an error: one that came of a runtime's end says so."""
        foreseen = BadRequest | Forbidden | Formed | NotFound | ConfigError | DocumentError | WorkerEnds
        ended = next((one.instance for one in self._used if one.instance.closed), None)
        if ended is None or isinstance(error, foreseen):
            return error
        return Invalid(f"the instance of {ended.directory} was disposed while this request ran; ask again")

    def _noted(self, runtime: Runtime) -> Runtime:
        self._used.append(runtime)
        return runtime

    async def attended(self, work: Coroutine[Any, Any, T]) -> T:
        """Do `work`; cancel it, with its children, when the client leaves (`BadRequest`).

        For requests without a body, or whose body has been read.
        """
        working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left(self.request.receive))
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
                raise BadRequest("the client has gone away")
            return working.result()
        finally:
            leaving.cancel()
            working.cancel()

    async def bytes(self) -> bytes:
        """Read the body. Raises `BadRequest` when it is larger than `LARGEST_BODY` or takes too long to come."""
        data = bytearray()
        too_large = BadRequest(f"the body is larger than {LARGEST_BODY} bytes", "Body", 413)
        length = self.request.headers.get("content-length") or "0"
        if not length.isdecimal() or int(length) > LARGEST_BODY:
            raise too_large
        now = asyncio.get_running_loop().time
        end = now() + LONGEST
        try:
            async with asyncio.timeout(QUIET) as limit:
                async for chunk in self.request.stream():
                    data += chunk
                    if len(data) > LARGEST_BODY:
                        raise too_large
                    limit.reschedule(min(now() + QUIET, end))
        except TimeoutError:
            raise BadRequest("the body takes too long to come", "Body", 408) from None
        return bytes(data)
