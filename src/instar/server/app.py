"""Every operation that the server carries out, as one ASGI application."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from instar import __version__
from instar.plugin.route import operation, operations
from instar.server.contributed import PATH, Contributed, declared
from instar.server.errors import refusal
from instar.server.instances import Instances
from instar.server.openapi import document
from instar.server.routes.answers import AnswerRoutes
from instar.server.routes.api_answers import ApiAnswerRoutes
from instar.server.routes.api_history import ApiHistoryRoutes
from instar.server.routes.api_sessions import ApiSessionRoutes
from instar.server.routes.catalog import CatalogRoutes
from instar.server.routes.config import ConfigRoutes
from instar.server.routes.credentials import Begun, CredentialRoutes
from instar.server.routes.definitions import DefinitionRoutes
from instar.server.routes.events import EventRoutes
from instar.server.routes.files import FileRoutes, FileSystemRoutes
from instar.server.routes.history import HistoryRoutes
from instar.server.routes.instances import InstanceRoutes
from instar.server.routes.mcp import McpRoutes
from instar.server.routes.metrics import MetricsRoutes
from instar.server.routes.projects import CopyRoutes, ProjectRoutes, WorktreeRoutes
from instar.server.routes.providers import ProviderRoutes
from instar.server.routes.pty import ApiPtyRoutes, PtyRoutes
from instar.server.routes.sessions import SessionRoutes
from instar.server.routes.stats import StatsRoutes
from instar.server.routes.sync import SyncRoutes
from instar.server.routes.tui import TuiRoutes
from instar.server.routes.vcs import VcsRoutes
from instar.server.routes.workspaces import WorkspaceRoutes
from instar.server.routing import ANY, routes
from instar.server.sockets import sockets
from instar.wire import Plain


class GlobalRoutes:
    """What is about the server."""

    @operation("GET", "/global/health", "global.health", scoped=False)
    async def health(self) -> Plain:
        """Say that the server is well, and its version."""
        return {"healthy": True, "version": __version__}

    @operation("GET", "/doc", "global.doc", scoped=False)
    async def doc(self) -> Plain:
        """Get this document."""
        own = [bound for family in families() for bound in operations(family)]
        return document([*own, *(bound for bounds in declared().values() for bound in bounds)])


def families() -> list[object]:
    """Return what carries operations out, one object for each family."""
    begun = Begun()
    return [
        GlobalRoutes(),
        EventRoutes(),
        SyncRoutes(),
        DefinitionRoutes(),
        ConfigRoutes(),
        CredentialRoutes(begun),
        ProviderRoutes(begun),
        CatalogRoutes(),
        McpRoutes(),
        InstanceRoutes(),
        SessionRoutes(),
        HistoryRoutes(),
        AnswerRoutes(),
        ApiSessionRoutes(),
        ApiHistoryRoutes(),
        ApiAnswerRoutes(),
        StatsRoutes(),
        MetricsRoutes(),
        FileRoutes(),
        FileSystemRoutes(),
        VcsRoutes(),
        ProjectRoutes(),
        WorktreeRoutes(),
        CopyRoutes(),
        WorkspaceRoutes(),
        PtyRoutes(),
        ApiPtyRoutes(),
        TuiRoutes(),
    ]


def application(instances: Instances) -> Starlette:
    """Return the ASGI application over the runtimes of one server, without the guard."""
    bounds = [bound for family in families() for bound in operations(family)]
    contributed = Route(PATH, Contributed(instances, bounds).carry, methods=ANY)
    return Starlette(
        routes=[routes(bounds, instances), *sockets(bounds, instances), contributed],
        exception_handlers={HTTPException: _http_error},
    )


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    name = "NotFoundError" if error.status_code == 404 else "BadRequest"
    answer = refusal(error.status_code, name, f"{request.method} {request.url.path}: {error.detail}")
    answer.headers.update(error.headers or {})
    return answer
