"""``python -m instar.server.health [URL]``: whether a server is well, for a container's or a supervisor's check.

It logs in as the server's own user does: with the password of the environment, else with that of its file. The
exit code is 0 for a server that is well, else 1, with a line that says why not.
"""

import base64
import contextlib
import http.client
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from instar.server.password import known_password
from instar.settings.paths import Paths

DEFAULT: Final = "http://127.0.0.1:4096"
PATIENCE: Final = 4.0
"""Seconds that the answer may take."""


class _AtSocket(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self._path)


def problem(url: str, environment: Mapping[str, str]) -> str | None:
    """Return why the server at a URL (``http://…`` or ``unix:///path``) is not well, or None."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "unix"):
            return f"{url!r} is no address of a server: write http://host:port or unix:///path"
        at = _AtSocket(parts.path) if parts.scheme == "unix" else None
        with contextlib.closing(
            at or http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)
        ) as connection:
            connection.request("GET", "/global/health", headers=_login(environment))
            answer = connection.getresponse()
            body = answer.read(65536)
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{url} does not answer: {type(error).__name__} {error}".strip()
    if answer.status != 200:
        return f"{url} answers {answer.status}"
    try:
        return None if json.loads(body).get("healthy") is True else f"{url} is not well"
    except (ValueError, AttributeError):
        return f"{url} is no server of this kind"


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Check the server that the first argument names; return the exit code."""
    found = problem(arguments[0] if arguments else DEFAULT, environment)
    if found is not None:
        sys.stderr.write(f"instar: {found}\n")
    return 0 if found is None else 1


def _login(environment: Mapping[str, str]) -> dict[str, str]:
    path = Paths.from_environment(environment).password_file
    value = known_password(environment, path)
    if value is None:
        return {}
    token = base64.b64encode(f"opencode:{value.value.reveal()}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
