"""Every operation that the server carries out, as one ASGI application."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp

from instar import __version__
from instar.api.instance import (
    ConsoleOrgs,
    ConsoleState,
    ExperimentalCapabilities,
    SwitchBody,
    UpgradeBody,
    Upgraded,
)
from instar.api.operation import flagship_operations, operation, operations
from instar.server.call import Call
from instar.server.dispatch import ANY, PATH, Contributed, OperationTree, sockets
from instar.server.errors import refusal
from instar.server.instances import Instances
from instar.server.openapi import document
from instar.server.routes.config import ConfigRoutes
from instar.server.routes.definitions import DefinitionRoutes
from instar.server.routes.doctor import DoctorRoutes
from instar.server.routes.events import EventRoutes, SyncRoutes
from instar.server.routes.files import FileRoutes, VcsRoutes
from instar.server.routes.mcp import McpRoutes
from instar.server.routes.projects import CopyRoutes, ProjectRoutes, WorkspaceRoutes, WorktreeRoutes
from instar.server.routes.providers import ProviderRoutes
from instar.server.routes.pty import PtyRoutes
from instar.server.routes.sessions import AnswerRoutes, HistoryRoutes, SessionRoutes
from instar.server.routes.stats import MetricsRoutes, StatsRoutes
from instar.server.routes.trust import TrustRoutes
from instar.wire import Plain

_MOUNTED: Final = "instar.opencode.routes"
"""A room above the server's, whose `families` are mounted by name."""


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
        return document([*own, *(bound for bounds in flagship_operations().values() for bound in bounds)])


class InstanceRoutes:
    """Instances as a whole."""

    @operation("POST", "/instance/dispose", "instance.dispose")
    async def dispose(self, call: Call) -> bool:
        """End a directory's instance: turns are aborted, and the next request opens it with its new settings."""
        await call.instances.dispose(call.directory)
        return True

    @operation("POST", "/global/dispose", "global.dispose", scoped=False)
    async def dispose_all(self, call: Call) -> bool:
        """End every instance, as ``/instance/dispose`` ends one."""
        await call.instances.dispose_all()
        return True

    @operation("POST", "/global/upgrade", "global.upgrade", scoped=False)
    async def upgrade(self, body: UpgradeBody) -> Upgraded:
        """Say that instar does not upgrade itself."""
        said = f"instar does not upgrade itself: pip install --upgrade instar (asked for {body.target[:40]})"
        return Upgraded(success=False, error=said)

    @operation("GET", "/experimental/capabilities", "experimental.capabilities.get")
    async def capabilities(self) -> ExperimentalCapabilities:
        """Tell which of opencode's experiments are on: none."""
        return ExperimentalCapabilities(background_subagents=False)

    @operation("GET", "/experimental/console", "experimental.console.get")
    async def console(self) -> ConsoleState:
        """Tell of the account in opencode's cloud: there is none."""
        return ConsoleState(console_managed_providers=[], switchable_org_count=0)

    @operation("GET", "/experimental/console/orgs", "experimental.console.listOrgs")
    async def orgs(self) -> ConsoleOrgs:
        """List the organisations of the account in opencode's cloud: there are none."""
        return ConsoleOrgs(orgs=[])

    @operation("POST", "/experimental/console/switch", "experimental.console.switchOrg")
    async def switch(self, body: SwitchBody) -> bool:
        """Switch to another organisation; false, since there is none."""
        return False


def families() -> list[object]:
    """Return the objects that implement the operations, one for each family."""
    return [
        GlobalRoutes(),
        EventRoutes(),
        SyncRoutes(),
        DefinitionRoutes(),
        ConfigRoutes(),
        TrustRoutes(),
        ProviderRoutes(),
        McpRoutes(),
        InstanceRoutes(),
        SessionRoutes(),
        HistoryRoutes(),
        AnswerRoutes(),
        StatsRoutes(),
        DoctorRoutes(),
        MetricsRoutes(),
        FileRoutes(),
        VcsRoutes(),
        ProjectRoutes(),
        WorktreeRoutes(),
        CopyRoutes(),
        WorkspaceRoutes(),
        PtyRoutes(),
        *import_module(_MOUNTED).families(),
    ]


def application(instances: Instances, doors: Mapping[str, ASGIApp] = MappingProxyType({})) -> Starlette:
    """Return the ASGI application over the runtimes of one server, without the guard.

    `doors` are other protocols' applications by their path, for requests and for web sockets.
    """
    bounds = [bound for family in families() for bound in operations(family)]
    contributed = Route(PATH, Contributed(instances, bounds).carry, methods=ANY)
    others = [kind(path, door) for path, door in doors.items() for kind in (Route, WebSocketRoute)]
    return Starlette(
        routes=[OperationTree(bounds, instances), *sockets(bounds, instances), *others, contributed],
        exception_handlers={HTTPException: _http_error},
    )


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    name = "NotFoundError" if error.status_code == 404 else "BadRequest"
    answer = refusal(error.status_code, name, f"{request.method} {request.url.path}: {error.detail}")
    answer.headers.update(error.headers or {})
    return answer
