"""From a path to its operation: the table finds what a look at one route after the other would find."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.routing import Match

from instar.plugin.route import operations
from instar.server.app import families
from instar.server.routing import ANY, PathRoute, Table

PATHS = sorted(
    {bound.operation.path for family in families() for bound in operations(family)},
    key=lambda path: (path.count("{"), path),
)


async def nothing(request):
    """No request comes here."""


ROUTES = [PathRoute(path, nothing, methods=ANY) for path in PATHS]
TABLE = Table(ROUTES)
PARTS = sorted({part for path in PATHS for part in path.split("/")[1:] if not part.startswith("{")})


def found(raw, among=TABLE):
    """What matches a path as it was sent: the route's own path, and its variable parts."""
    scope = {"type": "http", "method": "GET", "path": unquote(raw), "raw_path": raw.encode(), "root_path": ""}
    for route in [among] if isinstance(among, Table) else among:
        match, more = route.matches(scope)
        if match is Match.FULL:
            return more.get("instar.route", route).path, more["path_params"]
    return None


@pytest.mark.parametrize("path", PATHS)
def test_each_operation_is_found_by_its_own_path(path):
    filled = path.replace("{path:path}", "a/b/c").replace("{", "x").replace("}", "")
    assert found(filled)[0] == path


def test_a_slash_that_is_encoded_belongs_to_its_part():
    assert found("/session/a%2Fb/message") == ("/session/{sessionID}/message", {"sessionID": "a/b"})


@given(
    st.lists(st.sampled_from([*PARTS, "", "ses_1", "a%2Fb", "a%20b", "%2f", "é".encode().hex()]), max_size=7)
)
def test_whatever_is_asked_for_is_found_as_by_a_look_at_each_route(parts):
    raw = "/" + "/".join(parts)
    assert found(raw) == found(raw, ROUTES)


def test_nothing_else_than_a_request_is_matched():
    assert TABLE.matches({"type": "websocket", "path": "/session"})[0] is Match.NONE
