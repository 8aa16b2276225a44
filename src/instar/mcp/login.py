"""Keys to remote servers by OAuth: what is kept of them, and one that a person makes.

They are kept in ``mcp-auth.json`` in the data folder, mode 0600: by server its address, the tokens, the client that it
registered, and what it said of its authorization server, each in the words of its RFC. Nothing here imports the SDK.
"""

import asyncio
import contextlib
import secrets
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from instar.mcp.server import LinkError
from instar.provider.keys import Keys
from instar.settings.config import McpConfig, McpOAuthConfig
from instar.wire import Plain

LOGINS: Final = "mcp-auth.json"
PATIENCE: Final = 300.0
"""Seconds that a person has to log in."""
_PORT: Final = 19876
"""opencode's: a client that was registered for its address fits."""
_QUIET: Final = 10.0


def offers_login(config: McpConfig) -> bool:
    """Whether somebody may log in to a server."""
    return config.type == "remote" and config.oauth is not False


class Redirected(msgspec.Struct, frozen=True):
    """What the authorization server sent the browser back with."""

    code: str
    state: str
    issuer: str | None = None


class Login:
    """The login to one server: what is kept of it and, if it is `attended`, a person who is logging in.

    `url` is done when the person can log in there, `made` when the login was. What is kept counts only for the address
    that it was made for.
    """

    def __init__(self, name: str, config: McpConfig, kept: Keys, *, attended: bool = False) -> None:
        self.name, self.attended = name, attended
        self.server = config.url or ""
        self.settings = config.oauth if isinstance(config.oauth, McpOAuthConfig) else McpOAuthConfig()
        port = self.settings.callback_port or _PORT
        self.redirect = self.settings.redirect_uri or f"http://127.0.0.1:{port}/mcp/oauth/callback"
        self.url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.state = ""
        self.made: asyncio.Task[None] | None = None
        self._kept = kept
        self._answer: asyncio.Future[Redirected] = asyncio.get_running_loop().create_future()
        self._listener: asyncio.Server | None = None

    def entry(self) -> Plain:
        """Return what is kept. Raises `KeysError`."""
        entry = self._kept.entry(self.name) or {}
        return entry if entry.get("server_url") == self.server else {}

    def keep(self, **parts: Any) -> None:
        """Keep these parts beside the others. Raises `KeysError`."""
        self._kept.keep(self.name, {**self.entry(), "server_url": self.server, **parts})

    async def show(self, url: str) -> None:
        """Tell where to log in, and wait there for the browser to come back. Raises `LinkError`."""
        self.state = parse_qs(urlsplit(url).query)["state"][0]
        place = urlsplit(self.redirect)
        if place.hostname in ("127.0.0.1", "localhost", "::1"):
            try:
                self._listener = await asyncio.start_server(self._heard, place.hostname, place.port or 80)
            except OSError as error:
                raise LinkError(
                    f"the browser cannot come back to port {place.port or 80}: {error.strerror};"
                    f" name another one as mcp.{self.name}.oauth.callbackPort"
                ) from None
        self.url.set_result(url)

    async def answer(self) -> Redirected:
        """Wait for the answer. Raises `LinkError` if the authorization server refused."""
        return await self._answer

    def give(self, code: str) -> None:
        """Take the code that a client was sent back with."""
        if not self._answer.done():
            self._answer.set_result(Redirected(code, self.state))

    def close(self) -> None:
        """Listen no more."""
        if self._listener is not None:
            self._listener.close()

    async def _heard(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer a request of the browser, or of whoever else found the port."""
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_QUIET):
                request = await reader.readuntil(b"\r\n\r\n")
            _, target, _ = request.split(b"\r\n")[0].decode("latin-1").split(" ")
            status, text = self._taken(target)
            head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            writer.write(f"{head}content-length: {len(text.encode())}\r\n\r\n{text}".encode())
            await writer.drain()
        writer.close()

    def _taken(self, target: str) -> tuple[str, str]:
        """Take the answer in a request's target; return a status and a text for the person."""
        given = {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()}
        is_ours = urlsplit(target).path == urlsplit(self.redirect).path and secrets.compare_digest(
            given.get("state", "").encode(), self.state.encode()
        )
        # Whatever else asks here must not end the login.
        if not is_ours or not ("code" in given or "error" in given) or self._answer.done():
            return "400 Bad Request", "This is no answer to the login that instar waits for."
        if "code" in given:
            self._answer.set_result(Redirected(given["code"], given["state"], given.get("iss")))
            return "200 OK", f"instar has the answer of {self.name}. You can close this page."
        said = given.get("error_description") or given["error"]
        self._answer.set_exception(LinkError(f"its authorization server refused: {said[:300]}"))
        return "200 OK", "Nobody was logged in. You can close this page."
