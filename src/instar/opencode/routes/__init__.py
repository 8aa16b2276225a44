"""opencode's newer routes (``/api/…``) and those of its terminal interface, which `instar.server.app` mounts."""

from instar.opencode.routes.answers import ApiAnswerRoutes
from instar.opencode.routes.catalog import CatalogRoutes, IntegrationRoutes
from instar.opencode.routes.location import ApiPtyRoutes, LocationRoutes
from instar.opencode.routes.sessions import ApiHistoryRoutes, ApiSessionRoutes
from instar.opencode.routes.tui import TuiRoutes


def families() -> list[object]:
    """Return what carries the operations out, one object for each family."""
    return [
        ApiSessionRoutes(),
        ApiHistoryRoutes(),
        ApiAnswerRoutes(),
        LocationRoutes(),
        ApiPtyRoutes(),
        CatalogRoutes(),
        IntegrationRoutes(),
        TuiRoutes(),
    ]
