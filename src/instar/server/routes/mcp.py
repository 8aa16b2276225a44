"""The routes of MCP servers: how they are, others for as long as the instance lives, what they offer to read."""

from typing import Final, NoReturn

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
from instar.mcp import LinkError, Servers, Status
from instar.plugin import Invalid
from instar.runtime import Runtime, mcp
from instar.server.errors import Formed
from instar.settings.config import McpConfig

_FORMS: Final = (McpUnsupportedOAuthError,)


class McpRoutes:
    """MCP servers. None of them is logged in to by OAuth here."""

    @operation("GET", "/mcp", "mcp.status")
    async def status(self, runtime: Runtime) -> dict[str, MCPStatus]:
        """Tell how each MCP server is, once those are connected that can be."""
        return await _statuses(runtime.mcp)

    @operation("POST", "/mcp", "mcp.add")
    async def add(self, runtime: Runtime, body: McpBody) -> dict[str, MCPStatus]:
        """Add a server until the instance ends, in place of one of that name."""
        runtime.mcp = runtime.mcp or mcp.registered(runtime.instance, permissions.relayed)
        plain = {**wire.to_plain(body.config)}
        await _put(runtime.mcp, body.name, msgspec.convert(plain, McpConfig))
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
        """Refuse a login to a server: instar has no OAuth for MCP servers."""
        _known(runtime, name)
        _refuse(name)

    @operation("POST", "/mcp/{name}/auth/authenticate", "mcp.auth.authenticate", errors=(404,), forms=_FORMS)
    async def authenticate(self, runtime: Runtime, name: str) -> MCPStatus:
        """Log in to a server; no server is logged in to here."""
        _known(runtime, name)
        _refuse(name)

    @operation("POST", "/mcp/{name}/auth/callback", "mcp.auth.callback", errors=(404,))
    async def end_login(self, runtime: Runtime, name: str, body: CodeBody) -> MCPStatus:
        """End a login to a server; none is begun here."""
        _known(runtime, name)
        raise Invalid(
            f"no login to the MCP server {name!r} is under way: instar knows no OAuth for MCP servers"
        )

    @operation("DELETE", "/mcp/{name}/auth", "mcp.auth.remove", errors=(404,))
    async def remove_login(self, runtime: Runtime, name: str) -> Removed:
        """Forget a login to a server; none is kept here."""
        _known(runtime, name)
        return Removed(success=True)

    @operation("GET", "/experimental/resource", "experimental.resource.list")
    async def resources(self, runtime: Runtime) -> dict[str, McpResource]:
        """List what connected servers offer to read, by server and uri."""
        servers = runtime.mcp
        try:
            found = await servers.resources() if servers is not None else {}
        except LinkError:  # without the SDK there is no server
            return {}
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
    missing = None
    try:
        await servers.ready()
    except LinkError as error:
        missing = str(error)
    return {status.server: _shown(status, missing) for status in servers.status()}


def _shown(status: Status, missing: str | None) -> MCPStatus:
    if status.state in ("connected", "disabled"):
        return MCPStatus(status=status.state)
    return MCPStatus(status="failed", error=missing or status.error or f"it is {status.state}")


async def _switched(runtime: Runtime, name: str, *, enabled: bool) -> bool:
    servers, config = _known(runtime, name)
    if config.enabled != enabled or enabled:
        await _put(servers, name, msgspec.structs.replace(config, enabled=enabled))
    return True


async def _put(servers: Servers, name: str, config: McpConfig) -> None:
    try:
        await servers.put(name, config)
    except LinkError:  # said by its status
        return


def _known(runtime: Runtime, name: str) -> tuple[Servers, McpConfig]:
    servers = runtime.mcp
    config = servers.config(name) if servers is not None else None
    if servers is None or config is None:
        tag, said = "McpServerNotFoundError", f"MCP server not found: {name}"
        raise Formed(404, {"_tag": tag, "name": name, "message": said})
    return servers, config


def _refuse(name: str) -> NoReturn:
    raise Formed(400, {"error": f"MCP server {name} does not support OAuth"})


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
