"""From a path to its operation."""

from urllib.parse import unquote

import pytest
from starlette.routing import Match

from instar.api.operation import operations
from instar.server.app import families
from instar.server.dispatch import NODE, OperationTree

BOUNDS = [bound for family in families() for bound in operations(family)]
ROUTE = OperationTree(BOUNDS, None)


def found(raw):
    """What matches a path as it was sent: the operation's own path, and its variable parts."""
    scope = {"type": "http", "method": "GET", "path": unquote(raw), "raw_path": raw.encode(), "root_path": ""}
    match, more = ROUTE.matches(scope)
    return (more[NODE].path, more["path_params"]) if match is Match.FULL else None


@pytest.mark.parametrize("path", sorted({bound.operation.path for bound in BOUNDS}))
def test_each_operation_is_found_by_its_own_path(path):
    filled = path.replace("{path:path}", "a/b/c").replace("{", "x").replace("}", "")
    assert found(filled)[0] == path


def test_a_slash_that_is_encoded_belongs_to_its_part():
    assert found("/session/a%2Fb/message") == ("/session/{sessionID}/message", {"sessionID": "a/b"})


def test_an_encoded_slash_does_not_make_a_fixed_path():
    assert found("/session%2Fstatus") is None


@pytest.mark.parametrize(
    "path", ["/session/", "/session//message", "/api/fs/read", "/session/ses_1/message/"]
)
def test_a_part_that_is_empty_is_no_variable_part(path):
    assert found(path) is None


def test_the_rest_of_a_path_may_have_slashes_and_may_be_empty():
    assert found("/api/fs/read/a/b%20c")[1] == {"path": "a/b c"}
    assert found("/api/fs/read/")[1] == {"path": ""}
