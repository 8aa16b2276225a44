"""One web socket's connection. Imported when the first one comes (`instar.server.sockets`)."""

import logging
from typing import Any

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol


class Socket(WSProtocol):
    """uvicorn's, which logs no address: a ticket may stand in it. Each is logged by `instar.server.traced`."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.logger = logging.getLogger("instar.server.wsproto")
        self.logger.setLevel(logging.WARNING)
