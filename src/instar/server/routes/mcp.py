"""The routes of MCP servers: how they are, others for as long as the instance lives, what they offer to read."""

import asyncio
from typing import Final

import msgspec

from instar import wire
from instar.api.instance import (
    Authorization,
    CodeBody,
    McpBody,
    McpResource,
    MCPStatus,
    McpUnsupportedOAuthError,
    Removed,
)
from instar.api.operation import operation
from instar.approval import permissions
from instar.event import TuiToastShow, make
from instar.mcp import LinkError, Login, Servers, Status, offers_login
from instar.plugin import Invalid
from instar.provider.keys import KeysError
from instar.runtime import Runtime, mcp
from instar.server.call import Call
from instar.server.errors import Formed
from instar.settings.config import McpConfig

_FORMS: Final = (McpUnsupportedOAuthError,)


class McpRoutes:
    """MCP servers, and logging in to remote ones."""

    @operation("GET", "/mcp", "mcp.status")
    async def status(self, runtime: Runtime) -> dict[str, MCPStatus]:
        """Tell how each MCP server is, once those are connected that can be."""
        return await _statuses(runtime.mcp)

    @operation("POST", "/mcp", "mcp.add")
    async def add(self, runtime: Runtime, body: McpBody) -> dict[str, MCPStatus]:
        """Add a server until the instance ends, in place of one of that name."""
        runtime.mcp = runtime.mcp or mcp.registered(runtime.instance, permissions.relayed)
        plain = {**wire.to_plain(body.config)}
        await runtime.mcp.put(body.name, msgspec.convert(plain, McpConfig))
        return await _statuses(runtime.mcp)

    @operation("POST", "/mcp/{name}/connect", "mcp.connect", errors=(404,))
    async def connect(self, runtime: Runtime, name: str) -> bool:
        """Connect a server, also one that is switched off; true also where it failed (see ``GET /mcp``)."""
        return await _switched(runtime, name, enabled=True)

    @operation("POST", "/mcp/{name}/disconnect", "mcp.disconnect", errors=(404,))
    async def disconnect(self, runtime: Runtime, name: str) -> bool:
        """Disconnect a server, and leave it off."""
        return await _switched(runtime, name, enabled=False)

    @operation("POST", "/mcp/{name}/auth", "mcp.auth.start", errors=(404,), forms=_FORMS)
    async def start_login(self, runtime: Runtime, name: str) -> Authorization:
        """Begin a login to a server: where the person logs in; empty where the server asks for no login.

        The browser comes back to a port of this machine; else ``/callback`` takes the code.
        """
        login = await _begun(runtime, name)
        if login is None:
            return Authorization(authorization_url="", oauth_state="")
        return Authorization(authorization_url=login.url.result(), oauth_state=login.state)

    @operation("POST", "/mcp/{name}/auth/authenticate", "mcp.auth.authenticate", errors=(404,), forms=_FORMS)
    async def authenticate(self, call: Call, runtime: Runtime, name: str) -> MCPStatus:
        """Log in to a server: shows clients where (``tui.toast.show``), and answers once it is done."""
        login = await _begun(runtime, name)
        if login is not None:
            # The person's browser may be on another machine: none is opened here.
            where = f"log in to {name}: {login.url.result()}"
            runtime.instance.bus.publish(make(TuiToastShow(message=where, variant="info", duration=60_000)))
            await call.attended(_ended(login))
        return _status(runtime, name)

    @operation("POST", "/mcp/{name}/auth/callback", "mcp.auth.callback", errors=(404,))
    async def end_login(self, runtime: Runtime, name: str, body: CodeBody) -> MCPStatus:
        """End the login to a server that is under way, with the code that the browser was sent back with."""
        servers, _ = _known(runtime, name)
        login = servers.logins.get(name)
        if login is None or not login.state:
            raise Invalid(f"no login to the MCP server {name!r} is under way")
        login.give(body.code)
        await _ended(login)
        return _status(runtime, name)

    @operation("DELETE", "/mcp/{name}/auth", "mcp.auth.remove", errors=(404,))
    async def remove_login(self, runtime: Runtime, name: str) -> Removed:
        """Forget the login to a server, and disconnect it."""
        servers, _ = _known(runtime, name)
        try:
            await servers.log_out(name)
        except KeysError as error:
            raise Invalid(str(error)) from error
        return Removed(success=True)

    @operation("GET", "/experimental/resource", "experimental.resource.list")
    async def resources(self, runtime: Runtime) -> dict[str, McpResource]:
        """List what connected servers offer to read, by server and uri."""
        found = await runtime.mcp.resources() if runtime.mcp is not None else {}
        return {
            f"{name}:{one['uri']}": McpResource(
                name=str(one.get("name") or one["uri"]),
                uri=one["uri"],
                description=_text(one.get("description")),
                mime_type=_text(one.get("mimeType")),
                client=name,
            )
            for name, listed in found.items()
            for one in listed
        }


async def _statuses(servers: Servers | None) -> dict[str, MCPStatus]:
    if servers is None:
        return {}
    await servers.ready()
    return {status.server: _shown(status) for status in servers.status()}


def _shown(status: Status) -> MCPStatus:
    if status.state in ("connected", "disabled", "needs_auth"):
        return MCPStatus(status=status.state)
    return MCPStatus(status="failed", error=status.error or f"it is {status.state}")


async def _switched(runtime: Runtime, name: str, *, enabled: bool) -> bool:
    servers, config = _known(runtime, name)
    if config.enabled != enabled or enabled:
        await servers.put(name, msgspec.structs.replace(config, enabled=enabled))
    return True


def _known(runtime: Runtime, name: str) -> tuple[Servers, McpConfig]:
    servers = runtime.mcp
    config = servers.config(name) if servers is not None else None
    if servers is None or config is None:
        tag, said = "McpServerNotFoundError", f"MCP server not found: {name}"
        raise Formed(404, {"_tag": tag, "name": name, "message": said})
    return servers, config


async def _begun(runtime: Runtime, name: str) -> Login | None:
    servers, config = _known(runtime, name)
    if not offers_login(config):
        raise Formed(400, {"error": f"MCP server {name} does not support OAuth"})
    try:
        return await servers.log_in(name)
    except LinkError as error:
        raise Invalid(str(error)) from error


async def _ended(login: Login) -> None:
    assert login.made is not None
    try:
        # A client that leaves does not end what the person does in the browser.
        await asyncio.shield(login.made)
    except LinkError as error:
        raise Invalid(str(error)) from error


def _status(runtime: Runtime, name: str) -> MCPStatus:
    assert runtime.mcp is not None
    (status,) = (one for one in runtime.mcp.status() if one.server == name)
    return _shown(status)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
