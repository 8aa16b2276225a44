"""What the server does for each operation of opencode's document, and its own, as docs/reference/http.md has it.

``python -m tests.server.test_operations`` writes the tables.
"""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.server.conformance import OPENCODE

from instar.api.operation import Bound, flagship_operations, operations, signature
from instar.server.app import families

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "http.md"
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


GROUPS = {
    "Sessions and messages": ("/session", "/experimental/session"),
    "What waits for a person": ("/permission", "/question"),
    "Events": ("/event", "/global/event", "/sync"),
    "Files and the repository": ("/path", "/file", "/find", "/vcs"),
    "Projects, worktrees and workspaces": (
        *("/project", "/experimental/project", "/experimental/worktree", "/experimental/workspace"),
        "/experimental/control-plane",
    ),
    "Agents, commands, skills and tools": (
        "/agent",
        "/command",
        "/skill",
        "/experimental/tool",
        "/formatter",
        "/lsp",
    ),
    "Settings, providers and logins": ("/config", "/global/config", "/provider", "/auth"),
    "MCP servers": ("/mcp", "/experimental/resource"),
    "Terminals": ("/pty",),
    "Terminal interfaces": ("/tui",),
    "The server": (
        *("/doc", "/log", "/instance", "/global/health", "/global/dispose", "/global/upgrade"),
        *("/experimental/capabilities", "/experimental/console"),
    ),
    "opencode's newer routes": ("/api",),
    "instar's own": ("/instar",),
}
"""Under which heading a path stands: the one that has it, or the beginning of it."""
_BAR = "\\|"
MANY = 12
"""A body with more fields is named in one word."""


def every() -> Iterator[Bound]:
    """All operations: the core's, then the flagships'."""
    for family in families():
        yield from operations(family)
    for bounds in flagship_operations().values():
        yield from bounds


def group(path: str) -> str:
    """The heading under which a path stands."""
    (found,) = (
        title
        for title, prefixes in GROUPS.items()
        if any(path == prefix or path.startswith(f"{prefix}/") for prefix in prefixes)
    )
    return found


def row(bound: Bound) -> str:
    """The line of an operation: what is asked, what it does, what it takes."""
    takes = signature(bound.handler)
    query = [f"`?{name}`" for name in fields(takes.query)]
    body = [f"`{name}`" for name in fields(takes.body)]
    if len(body) > MANY:
        body = ["settings"]
    elif takes.body is not None and not body:
        body = ["a body, see `/doc`"]
    meanings = [about(takes.query) if query else "", about(takes.body) if len(body) > 1 else ""]
    taken = "<br>".join(filter(None, [", ".join([*query, *body]), *meanings]))
    path = bound.operation.path.replace(":path}", "}")
    cells = [f"`{bound.operation.method} {path}`", f"{bound.summary} {bound.description}".strip(), taken]
    return f"| {' | '.join(cell.replace('|', _BAR).replace('``', '`') for cell in cells)} |\n"


def fields(kind: Any) -> list[str]:
    """The wire names of a struct's fields, none of another type."""
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return [field.encode_name for field in msgspec.structs.fields(kind)] if is_struct else []


def about(kind: Any) -> str:
    """What a query or a body says of itself, in one line; nothing of one that says only whose it is."""
    said = " ".join(inspect.cleandoc(kind.__doc__ or "").split())
    return "" if said.startswith("The body of") else said


def table() -> str:
    """The tables as they must stand, each below its heading."""
    found: dict[str, list[str]] = {title: [] for title in GROUPS}
    for bound in every():
        found[group(bound.operation.path)].append(row(bound))
    head = "| request | does | takes |\n| --- | --- | --- |\n"
    parts = [f"## {title}\n\n{head}{''.join(rows)}" for title, rows in found.items()]
    return "\n" + "\n".join([*parts, departures()]) + "\n"


def departures() -> str:
    """The table of opencode's operations that instar answers otherwise."""
    told = {**{name: f"No such feature: {what}." for name, what in WITHOUT.items()}, **OTHERWISE}
    rows = sorted(
        f"| `{operation.method} {operation.path}` | {told[name][0].upper()}{told[name][1:].rstrip('.')}. |\n"
        for name, operation in OPENCODE.operations.items()
        if name in told
    )
    return "## What differs from opencode\n\n| request | answer |\n| --- | --- |\n" + "".join(rows)


def split() -> tuple[str, str, str]:
    """The page before the table, the table, the page after it."""
    text = PAGE.read_text("utf-8")
    found = re.search(rf"<!-- begin operations: {RUN} -->\n(.*?)<!-- end -->\n", text, re.DOTALL)
    assert found, f"{PAGE} has no tables of operations"
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
