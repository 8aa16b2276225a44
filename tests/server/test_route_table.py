"""From a path to its operation."""

from urllib.parse import unquote

import pytest
from starlette.routing import Match

from instar.api.operation import operations
from instar.server.app import families
from instar.server.dispatch import routes

BOUNDS = [bound for family in families() for bound in operations(family)]
ROUTES = routes(BOUNDS, None)


def found(raw):
    """What matches a path as it was sent: the first route's own path, and its variable parts."""
    scope = {"type": "http", "method": "GET", "path": unquote(raw), "raw_path": raw.encode(), "root_path": ""}
    for route in ROUTES:
        match, more = route.matches(scope)
        if match is Match.FULL:
            return route.path, more["path_params"]
    return None


@pytest.mark.parametrize("path", sorted({bound.operation.path for bound in BOUNDS}))
def test_each_operation_is_found_by_its_own_path(path):
    filled = path.replace("{path:path}", "a/b/c").replace("{", "x").replace("}", "")
    assert found(filled)[0] == path


def test_a_slash_that_is_encoded_belongs_to_its_part():
    assert found("/session/a%2Fb/message") == ("/session/{sessionID}/message", {"sessionID": "a/b"})


def test_an_encoded_slash_does_not_make_a_fixed_path():
    assert found("/session%2Fstatus") is None
