"""What a connection to a server can do, and what goes wrong with one. `link` implements it with the SDK."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from instar.config import McpConfig
from instar.process import Processes
from instar.wire import Plain

if TYPE_CHECKING:
    import asyncio


class LinkError(Exception):
    """A request failed or a connection ended; the text says why.

    `lost` says that the connection cannot be used any more, `final` that trying again is no use.
    """

    def __init__(self, message: str, *, lost: bool = False, final: bool = False) -> None:
        super().__init__(message)
        self.lost = lost
        self.final = final


class Place(msgspec.Struct, frozen=True):
    """Where local servers run: in `directory`, with `environment`, as children of `processes`."""

    processes: Processes
    directory: Path
    environment: Mapping[str, str]


Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Hears how far a call is: done, of how much, and a word on it."""


class Link(Protocol):
    """An open connection. Every method raises `LinkError`."""

    capabilities: Plain
    """What the server says that it offers: ``tools``, ``resources``, ``prompts``."""
    lost: "asyncio.Future[str]"
    """Set when the connection ended, with the reason."""

    async def request(self, method: str, params: Plain, progress: Progress | None = None) -> Any:
        """Send a request and return its result as it came."""
        ...

    async def pages(self, method: str, key: str) -> list[Any]:
        """Return all entries of a list that comes in pages."""
        ...

    def schema_fault(self, schema: Plain) -> str | None:
        """Say what is wrong with a JSON Schema; None when it is one."""
        ...


Connect = Callable[[McpConfig, Place, Callable[[str], None]], AbstractAsyncContextManager[Link]]
"""Opens a connection; the function hears the methods of the server's notifications."""


def config_fault(name: str, config: McpConfig) -> str | None:
    """Say what is wrong with a server's block; None when a connection can be tried."""
    where = f"mcp.{name}"
    if config.type is None:
        return f'{where}.type is missing: say "local" (with command) or "remote" (with url)'
    if config.type == "local" and not (config.command and config.command[0]):
        return f'{where}.command is missing: a local server needs one, as ["program", "argument"]'
    if config.type == "remote" and not (config.url or "").startswith(("http://", "https://")):
        return f"{where}.url is missing or is no http or https address: a remote server needs one"
    return None


def first_of(error: BaseException) -> BaseException:
    """Return the first cause in a group of exceptions, as the SDK's task groups raise them."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
