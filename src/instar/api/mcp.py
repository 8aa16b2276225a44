"""MCP servers in the API."""

from typing import Annotated, Literal

import msgspec

from instar.wire import Plain, Wire


class McpLocalConfig(Wire, tag_field="type", tag="local"):
    """A program to run; `timeout` in ms."""

    command: list[str]
    cwd: str | None = None
    environment: dict[str, str] | None = None
    enabled: bool | None = None
    timeout: Annotated[int, msgspec.Meta(gt=0)] | None = None


class McpRemoteConfig(Wire, tag_field="type", tag="remote"):
    """An address to call; `oauth` is read, and nobody logs in by it; `timeout` in ms."""

    url: str
    enabled: bool | None = None
    headers: dict[str, str] | None = None
    oauth: Plain | bool | None = None
    timeout: Annotated[int, msgspec.Meta(gt=0)] | None = None


class McpBody(Wire):
    """A server to add until the instance ends."""

    name: str
    config: McpLocalConfig | McpRemoteConfig


class MCPStatus(Wire):
    """How a server is; `error` where it failed."""

    status: Literal["connected", "disabled", "failed"]
    error: str | None = None


class McpResource(Wire):
    """Something that a server (`client`) offers to read."""

    name: str
    uri: str
    description: str | None = None
    mime_type: str | None = None
    client: str


class CodeBody(Wire):
    """The code of a login."""

    code: str


class Authorization(Wire):
    """Where to log in to a server."""

    authorization_url: str
    oauth_state: str


class Removed(Wire):
    """What was kept is gone."""

    success: bool


class McpUnsupportedOAuthError(Wire):
    """A login to a server that cannot be logged in to, or not by instar."""

    error: str
