"""A record of what providers are sent, for whoever asks for one: ``INSTAR_LOG_REQUESTS=FILE``.

One JSON object a line: ``time`` (ms, when it was sent), ``took`` (ms), ``protocol``, ``url``, ``model``, ``session``,
``purpose``, ``body`` (the request's own bytes), and ``tokens`` as the provider counted them or ``error``. Headers, and
keys with them, are left out; the conversation is not, so that nobody but its owner may read the file. Replay it with
``python -m bench.caching FILE`` (issue 7, item 9).
"""

import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from instar.provider.protocol import Delta, Finish, Provider, ProviderError, Request, Sent

VARIABLE: Final = "INSTAR_LOG_REQUESTS"

log = logging.getLogger("instar.provider")


class Line(msgspec.Struct, omit_defaults=True):
    """One line of the record: a call that was made."""

    time: int
    took: int
    protocol: str
    url: str
    model: str
    session: str
    purpose: str
    body: msgspec.Raw
    tokens: Any = None
    error: str | None = None


def recorded(provider: Provider, environment: Mapping[str, str]) -> Provider:
    """Return the adapter, with a record of its calls where the environment asks for one."""
    file = environment.get(VARIABLE)
    return Recording(provider, Path(file).expanduser()) if file else provider


class Recording:
    """An adapter whose calls are written to `file`, which only its owner can read."""

    def __init__(self, provider: Provider, file: Path) -> None:
        self._provider = provider
        self._file = file

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Make the call as the adapter does, and write it down when it has ended. Raises as the adapter does."""
        found: list[Sent] = []

        def sent(sent: Sent) -> None:
            found.append(sent)
            if request.sent is not None:
                request.sent(sent)

        began, clock = time.time_ns() // 1_000_000, time.monotonic()
        tokens, error = None, "the call was cut short"
        try:
            async for delta in self._provider.stream(msgspec.structs.replace(request, sent=sent)):
                if isinstance(delta, Finish):
                    tokens, error = msgspec.to_builtins(delta.tokens), ""
                yield delta
        except ProviderError as failure:
            error = str(failure)
            raise
        finally:
            for one in found:
                if one.body:
                    took = int((time.monotonic() - clock) * 1000)
                    self._write(_line(request, began, took, one.body, tokens, error))

    async def close(self) -> None:
        """Close the adapter."""
        await self._provider.close()

    def _write(self, line: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            handle = os.open(self._file, flags, 0o600)
            with os.fdopen(handle, "wb") as out:
                os.fchmod(handle, 0o600)
                out.write(line)
        except OSError as error:
            # An observer fails open: the call was made and its answer counts.
            log.error("request not recorded file=%s error=%s", self._file, error.strerror)


def _line(request: Request, began: int, took: int, body: bytes, tokens: Any, error: str) -> bytes:
    # A user name, a password or a query may stand in the address; they are keys too.
    where = urlsplit(request.model.url)
    line = Line(
        time=began,
        took=took,
        protocol=request.model.protocol,
        url=f"{where.scheme}://{where.hostname}{where.path}",
        model=request.model.wire_id or request.model.id,
        session=request.session_id,
        purpose=request.purpose,
        body=msgspec.Raw(body),
        tokens=tokens,
        error=error or None,
    )
    return msgspec.json.encode(line) + b"\n"
