"""Each row of docs/concepts/glossary.md names a file of the source that exists, and what it defines."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = re.findall(
    r"^\| ([^|]+) \|[^|]+\| `([a-z_0-9/.]+)`(?: `(\w+)`)? \|$",
    (ROOT / "docs" / "concepts" / "glossary.md").read_text("utf-8"),
    re.M,
)


def names(path: Path) -> set[str]:
    """What a module defines at its top."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


@pytest.mark.parametrize(("word", "place", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_a_word_of_the_glossary_is_where_it_says(word: str, place: str, name: str) -> None:
    path = ROOT / "src" / "instar" / place
    assert path.exists()
    assert not name or name in names(path)


def test_every_row_is_read_and_they_are_in_order() -> None:
    lines = (ROOT / "docs" / "concepts" / "glossary.md").read_text("utf-8").splitlines()
    assert len(ROWS) == sum(line.startswith("| ") for line in lines) - 1
    assert [row[0] for row in ROWS] == sorted(row[0] for row in ROWS)
