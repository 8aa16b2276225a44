"""The server: settings, providers and logins, MCP servers, events."""

from typing import Any

from instar.api.config import Config
from instar.api.instance import (
    Authorization,
    CodeBody,
    HistoryEvent,
    McpBody,
    MCPStatus,
    Removed,
    ReplayBody,
    StealBody,
    UpgradeBody,
    Upgraded,
)
from instar.api.provider import (
    ApiAuth,
    AuthorizeBody,
    CallbackBody,
    ConfigProviders,
    OAuth,
    ProviderAuthAuthorization,
    ProviderAuthMethod,
    ProviderList,
    WellKnownAuth,
)
from instar.client.endpoint import C, Calls, endpoint, stream
from instar.event import Event, OfSession


class GlobalConfigCalls(Calls[C]):
    """``global_.config``."""

    @endpoint("GET", "/global/config")
    def get(self) -> Config:
        """Get the person's own settings, in opencode's form."""

    @endpoint("PATCH", "/global/config")
    def update(self, body: Config) -> Config:
        """Put settings into the person's own file, and end every instance."""


class McpAuthCalls(Calls[C]):
    """``mcp.auth``."""

    @endpoint("POST", "/mcp/{name}/auth")
    def start(self, name: str) -> Authorization:
        """Begin a login to a server: where the person logs in; empty where the server asks for no login."""

    @endpoint("POST", "/mcp/{name}/auth/authenticate")
    def authenticate(self, name: str) -> MCPStatus:
        """Log in to a server: shows clients where (``tui.toast.show``), and answers once it is done."""

    @endpoint("POST", "/mcp/{name}/auth/callback")
    def callback(self, name: str, body: CodeBody) -> MCPStatus:
        """End the login to a server that is under way, with the code that the browser was sent back with."""

    @endpoint("DELETE", "/mcp/{name}/auth")
    def remove(self, name: str) -> Removed:
        """Forget the login to a server, and disconnect it."""


class ProviderOauthCalls(Calls[C]):
    """``provider.oauth``."""

    @endpoint("POST", "/provider/{providerID}/oauth/authorize")
    def authorize(self, provider_id: str, body: AuthorizeBody) -> ProviderAuthAuthorization:
        """Begin a login; answers where the person is to go."""

    @endpoint("POST", "/provider/{providerID}/oauth/callback")
    def callback(self, provider_id: str, body: CallbackBody) -> bool:
        """End the login that was begun last: hand in the code, or wait until the person has logged in."""


class SyncHistoryCalls(Calls[C]):
    """``sync.history``."""

    @endpoint("POST", "/sync/history")
    def list(self, body: dict[str, int]) -> list[HistoryEvent]:
        """List the durable events of all sessions, of a session that the body names those after its number."""


class AuthCalls(Calls[C]):
    """``auth``."""

    @endpoint("DELETE", "/auth/{providerID}")
    def remove(self, provider_id: str) -> bool:
        """Forget a login; nothing happens where none is kept."""

    @endpoint("PUT", "/auth/{providerID}")
    def set(self, provider_id: str, body: ApiAuth | OAuth | WellKnownAuth) -> bool:
        """Keep a login; instances that are open have it once they were disposed."""


class ConfigCalls(Calls[C]):
    """``config``."""

    @endpoint("GET", "/config")
    def get(self) -> Config:
        """Get a directory's merged settings, in opencode's form."""

    @endpoint("PATCH", "/config")
    def update(self, body: Config) -> Config:
        """Put settings into the directory's file, and end its instance, so that the next request has them."""

    @endpoint("GET", "/config/providers")
    def providers(self) -> ConfigProviders:
        """List the providers that can be called, with their models and the one to begin with."""


class EventCalls(Calls[C]):
    """``event``."""

    @stream("/event")
    def subscribe(
        self, *, last_event_id: str | None = None, directory: str | None = None, workspace: str | None = None
    ) -> Event:
        """Follow a directory's events."""


class GlobalCalls(Calls[C]):
    """``global_``."""

    config: GlobalConfigCalls[C]

    @endpoint("GET", "/global/health")
    def health(self) -> dict[str, Any]:
        """Say that the server is well, and its version."""

    @endpoint("GET", "/doc")
    def doc(self) -> dict[str, Any]:
        """Get this document."""

    @stream("/global/event")
    def event(self, *, last_event_id: str | None = None) -> Event:
        """Follow the events of all directories; a durable event comes a second time in the form of its row."""

    @endpoint("POST", "/global/dispose")
    def dispose(self) -> bool:
        """End every instance, as ``/instance/dispose`` ends one."""

    @endpoint("POST", "/global/upgrade")
    def upgrade(self, body: UpgradeBody) -> Upgraded:
        """Say that instar does not upgrade itself."""


class McpCalls(Calls[C]):
    """``mcp``."""

    auth: McpAuthCalls[C]

    @endpoint("GET", "/mcp")
    def status(self) -> dict[str, MCPStatus]:
        """Tell how each MCP server is, once those are connected that can be."""

    @endpoint("POST", "/mcp")
    def add(self, body: McpBody) -> dict[str, MCPStatus]:
        """Add a server until the instance ends, in place of one of that name."""

    @endpoint("POST", "/mcp/{name}/connect")
    def connect(self, name: str) -> bool:
        """Connect a server, also one that is switched off; true also where it failed (see ``GET /mcp``)."""

    @endpoint("POST", "/mcp/{name}/disconnect")
    def disconnect(self, name: str) -> bool:
        """Disconnect a server, and leave it off."""


class ProviderCalls(Calls[C]):
    """``provider``."""

    oauth: ProviderOauthCalls[C]

    @endpoint("GET", "/provider/auth")
    def auth(self) -> dict[str, list[ProviderAuthMethod]]:
        """List the ways to log in that plugins offer, by provider."""

    @endpoint("GET", "/provider")
    def list(self) -> ProviderList:
        """List every provider that is known, with its models, and say which can be called."""


class SyncCalls(Calls[C]):
    """``sync``."""

    history: SyncHistoryCalls[C]

    @endpoint("POST", "/sync/start")
    def start(self) -> bool:
        """See that a directory's sessions are kept up to date: here they always are."""

    @endpoint("POST", "/sync/replay")
    def replay(self, body: ReplayBody) -> OfSession:
        """Refuse to carry out another server's events."""

    @endpoint("POST", "/sync/steal")
    def steal(self, body: StealBody) -> OfSession:
        """Refuse to take a session over from another server."""
