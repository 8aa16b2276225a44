"""Operations that are carried out over a web socket (``media="websocket"``)."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, cast

from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from instar.plugin.route import Bound, signature
from instar.server.call import Call
from instar.server.dispatch import answer
from instar.server.errors import answer_for
from instar.server.instances import Instances

if TYPE_CHECKING:
    from starlette.requests import Request

log = logging.getLogger("instar.server")

MEDIA: Final = "websocket"
"""What such an operation says of its answer."""
LARGEST: Final = 1024 * 1024
"""Bytes of a client's message."""


def sockets(bounds: Iterable[Bound], instances: Instances) -> list[WebSocketRoute]:
    """Return the routes of such operations; a plain request for one has its own (`instar.server.routing`)."""
    return [
        WebSocketRoute(bound.operation.path, socket_endpoint(bound, instances))
        for bound in bounds
        if bound.operation.media == MEDIA
    ]


def socket_endpoint(bound: Bound, instances: Instances) -> Callable[[WebSocket], Awaitable[None]]:
    """Return an operation's endpoint; its method accepts the socket and returns when the conversation is over.

    What it raises before that is answered in place of opening the socket, as a request is.
    """

    async def carry(socket: WebSocket) -> None:
        call = Call(cast("Request", socket), instances)
        try:
            await answer(bound, signature(bound.handler), call, socket.path_params)
        except WebSocketDisconnect:
            return
        except Exception as error:
            if socket.application_state is not WebSocketState.CONNECTING:
                log.error("web socket failed path=%s", socket.url.path, exc_info=error)
                await socket.close(1011)
                return
            refused = answer_for(call.explained(error), socket.url.path)
            await socket.send_denial_response(refused)

    return carry
