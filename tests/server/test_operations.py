"""What the server answers to each operation of opencode's document, and its own, as docs/reference/server.md has it.

``python -m tests.server.test_operations`` writes the table.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.server.conformance import OPENCODE

from instar.api.operation import Bound, flagship_operations, operations
from instar.server.app import families

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "server.md"
RUN = "python -m tests.server.test_operations"
WITHOUT = {
    "global.upgrade": "nothing is upgraded: `success` is false",
    "experimental.capabilities.get": "no sub-agent in the background",
    "experimental.console.get": "no account: no provider is managed",
    "experimental.console.listOrgs": "none",
    "experimental.console.switchOrg": "false",
    "experimental.session.background": "false: a task is waited for",
    "find.symbols": "none: no language server is asked for symbols",
    "session.share": "400: nothing leaves the machine",
    "session.unshare": "the session, which is not shared",
    "sync.replay": "400: there is no other server",
    "sync.steal": "400",
    "v2.reference.list": "none",
}
"""Operations of features that instar does not have, and what they answer."""
OTHERWISE = {
    "mcp.auth.authenticate": "clients are shown where to log in (`tui.toast.show`): no browser is opened here",
    "file.status": "none, as opencode 1.18 does; `/vcs/status` has them",
    "experimental.projectCopy.generateName": "a name made of the words: no model is asked",
    "experimental.workspace.syncList": "204: workspaces are read each time",
    "lsp.status": "those that were started; one that ended is an `error`",
    "v2.projectCopy.refresh": "204: copies are looked for each time",
    "v2.session.compact": "it is done (opencode 1.18: 503)",
    "v2.session.wait": "it waits (opencode 1.18: 503)",
}
"""Operations that do something else than in opencode."""


def rows() -> Iterator[tuple[str, str]]:
    """The table's lines: requests to one path with the same answer in one."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, operation in OPENCODE.operations.items():
        found.setdefault((operation.path, answer(name)), []).append(operation.method)
    for (path, told), methods in sorted(found.items()):
        yield f"`{', '.join(methods)} {path}`", told
    for bound in sorted(own(), key=lambda one: (one.operation.path, one.operation.method)):
        yield f"`{bound.operation.method} {bound.operation.path}`", f"instar's own: {summary(bound)}"


def answer(name: str) -> str:
    """What stands in the table for an operation of opencode's."""
    if name in WITHOUT:
        return f"without that feature: {WITHOUT[name]}"
    return OTHERWISE.get(name, "as opencode")


def own() -> list[Bound]:
    """The operations that opencode does not have."""
    core = [bound for family in families() for bound in operations(family)]
    every = [*core, *(bound for bounds in flagship_operations().values() for bound in bounds)]
    return [bound for bound in every if bound.operation.id not in OPENCODE.operations]


def summary(bound: Bound) -> str:
    """The first sentence of what an operation says of itself, as part of a sentence."""
    text = bound.summary.partition(". ")[0].rstrip(".").replace("|", "\\|").replace("``", "`")
    return text[0].lower() + text[1:]


def table() -> str:
    """The table as it must stand."""
    lines = [("request", "answer"), ("---", "---"), *rows()]
    return "".join(f"| {request} | {told} |\n" for request, told in lines)


def split() -> tuple[str, str, str]:
    """The page before the table, the table, the page after it."""
    text = PAGE.read_text("utf-8")
    found = re.search(rf"<!-- begin operations: {RUN} -->\n(.*?)<!-- end -->\n", text, re.DOTALL)
    assert found, f"{PAGE} has no table of operations"
    return text[: found.start(1)], found[1], text[found.end(1) :]


def test_the_table_of_operations_in_the_docs_is_what_the_server_has() -> None:
    assert split()[1] == table(), f"run: {RUN}"


def test_what_the_table_tells_apart_is_served_as_all_of_opencodes_document_is() -> None:
    served = {bound.operation.id for family in families() for bound in operations(family)}
    assert not WITHOUT.keys() & OTHERWISE.keys()
    assert {*WITHOUT, *OTHERWISE} <= set(OPENCODE.operations) <= served


if __name__ == "__main__":
    before, _, after = split()
    PAGE.write_text(before + table() + after, "utf-8")
