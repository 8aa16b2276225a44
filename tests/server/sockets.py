"""Real web sockets to a server, and what a terminal says on one."""

import base64
import json
from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator
from tests.server.conformance import DOCUMENT
from tests.server.conftest import LOGIN, PATIENCE, Served
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

BASIC = "Basic " + base64.b64encode(":".join(LOGIN).encode()).decode()


def joined(served: Served, path: str, *, login: bool = True, **options: Any) -> ClientConnection:
    """Open a web socket; `options` are those of `websockets`."""
    headers = {**({"Authorization": BASIC} if login else {}), **options.pop("headers", {})}
    url = served.url.replace("http", "ws", 1) + path
    return connect(url, additional_headers=headers, open_timeout=PATIENCE, max_size=None, **options)


def refused(served: Served, path: str, **options: Any) -> tuple[int, Any]:
    """Ask for a web socket that is refused; return the answer's status and body."""
    try:
        joined(served, path, **options).close()
    except InvalidStatus as error:
        body = bytes(error.response.body or b"")
        return error.response.status_code, json.loads(body) if body else None
    raise AssertionError("the web socket was opened")


def heard(socket: ClientConnection, until: Callable[[str], bool]) -> str:
    """Read text until it is as it should be; return it."""
    text = ""
    while not until(text):
        message = socket.recv(timeout=PATIENCE)
        text += message if isinstance(message, str) else ""
    return text


def replayed(socket: ClientConnection) -> tuple[str, int]:
    """Read what had been printed before, and the place that it ends at."""
    text = ""
    while isinstance(message := socket.recv(timeout=PATIENCE), str):
        text += message
    assert message[:1] == b"\0"
    return text, json.loads(message[1:])["cursor"]


def closed(socket: ClientConnection) -> tuple[int, str]:
    """Wait for the end of a web socket; return its code and reason. Raises `ConnectionError` when it broke."""
    try:
        while True:
            socket.recv(timeout=PATIENCE)
    except ConnectionClosed as error:
        if error.rcvd is None:
            raise ConnectionError("the connection broke") from error
        return error.rcvd.code, error.rcvd.reason


def misfits(schema: str, value: Any) -> list[str]:
    """What of a value does not fit a schema of opencode's document."""
    whole = {"$ref": f"#/components/schemas/{schema}", "components": DOCUMENT["components"]}
    return [error.message[:200] for error in Draft202012Validator(whole).iter_errors(value)]
