"""From a connection to a web socket."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import Protocol


def protocol(**given: Any) -> "Protocol":
    """Return uvicorn's protocol of web sockets for one connection.

    It is imported when the first web socket comes: most servers never see one.
    """
    from instar.server.wsproto import Socket

    return Socket(**given)
