"""The tree in self.md is the one that a runtime has. ``python tests/plugins/self/test_docs.py`` writes it."""

import asyncio
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from instar.plugin import Branch, Method, Node, Value
from instar.plugins.self.tree import SelfTree
from instar.runtime import Options, Runtime

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "self.md"
BEGIN, END = "<!-- begin: python tests/plugins/self/test_docs.py -->\n", "<!-- end -->\n"
HOOKS: Final = {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}
"""A rule, so that the branch of hooks is there."""


async def reference(folder: Path) -> str:
    """The table of the tree of a runtime in which every flagship is in use."""
    (folder / "project").mkdir()
    (folder / "ws" / "hooks").mkdir(parents=True)
    home = folder / "home" / ".config" / "instar"
    home.mkdir(parents=True)
    (home / "instar.json").write_text(
        json.dumps({"model": "scripted/echo", "tools": {"self_evolution": True}, "hooks": HOOKS}), "utf-8"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "INSTAR_WORKSPACE": str(folder / "ws"),
    }
    async with await Runtime.open(Options(folder / "project", environment, {})) as runtime:
        tree = SelfTree(runtime.registry.views.values())
        lines = ["| path | type | | what it is |", "|---|---|---|---|"]
        for found in tree.walk():
            path = ".".join(found.at)
            lines.append(f"| `{path}` | {' | '.join(told(found.node))} |")
    return "\n".join(lines) + "\n"


def told(node: Node) -> tuple[str, str, str]:
    """What a node is, what may be done with it, and what it says of itself."""
    if isinstance(node, Branch):
        return "", "", f"**{node.doc.removesuffix('.')}**"
    if isinstance(node, Method):
        given = ", ".join(node.parameters.get("properties", {}))
        does = "writes, through the gate" if node.writes else "acts" if node.acts else "reads"
        return f"method({given})", f"call: {does}", node.doc
    takes = f"Takes effect {node.when}." if node.write else f"{node.when.capitalize()}."
    return ", ".join(kinds(node)), done(node), f"{node.doc} {takes}" if node.when else node.doc


def kinds(value: Value) -> Iterator[str]:
    """The type and range of a value."""
    kind = value.kind
    if "enum" in kind:
        yield " or ".join(f"`{one}`" for one in kind["enum"])
    elif "type" in kind:
        yield str(kind["type"])
    low, high = kind.get("minimum"), kind.get("maximum")
    if high is not None:
        yield f"{low:,} to {high:,}"
    elif low is not None:
        yield f"from {low:,}" if isinstance(low, int) else "above 0"


def done(value: Value) -> str:
    """What may be done with a value, and whom that reaches."""
    if value.write is None:
        return "read"
    if value.guard:
        return f"tighten, {value.scope}"
    return f"set, {value.scope}"


def split() -> tuple[str, str, str]:
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    found, _, after = rest.partition(END)
    return before, found, after


@pytest.mark.slow
async def test_the_tree_in_the_docs_is_the_one_that_a_runtime_has(tmp_path: Path) -> None:
    assert split()[1] == await reference(tmp_path), "run: python tests/plugins/self/test_docs.py"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        written = asyncio.run(reference(Path(made)))
    start, _, finish = split()
    PAGE.write_text(start + BEGIN + written + END + finish, "utf-8")
