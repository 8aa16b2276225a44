"""The id of a request: in its answer, in each log line that it causes, and in one line about itself."""

import logging
import re
import time
from contextvars import ContextVar
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from instar import ids

log = logging.getLogger("instar.server")

HEADER: Final = "X-Request-ID"
REQUEST: ContextVar[str | None] = ContextVar("request", default=None)
"""The id of the request that is being answered; turns that it begins have it too."""

_PLAUSIBLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{7,127}")


class Traced:
    """Gives each request an id, or takes its own one over if it is plausible, and logs it at DEBUG."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        given = Headers(scope=scope).get(HEADER, "")
        request = given if _PLAUSIBLE.fullmatch(given) else ids.new("req")
        REQUEST.set(request)
        began = time.monotonic()
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = request
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            method = scope.get("method", "WEBSOCKET")
            spent = (time.monotonic() - began) * 1000
            # The query is left out: it may hold what the person searched for.
            log.debug("request method=%s path=%s status=%d ms=%.0f", method, scope["path"], status, spent)


class Marked(logging.Filter):
    """Adds the request's id to each line that is logged while it is answered, as the record's ``request``."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through."""
        record.request = REQUEST.get()
        return True


def mark_logs() -> None:
    """See that log lines carry the id of the request that causes them."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(Marked())
