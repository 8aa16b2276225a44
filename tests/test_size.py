"""Things stay small: ceilings that may fall and never rise (design habit 1)."""

import ast
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "instar"
FILES = sorted(SOURCE.rglob("*.py"))

MODULE = 350
FUNCTION = 60
LOOP = 60
MEDIAN = 8


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    first = node.body[0]
    doc = (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
    documented = (first.end_lineno or 0) - first.lineno + 1 if doc else 0
    return (node.end_lineno or 0) - node.lineno + 1 - documented


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_fits_in_its_ceiling(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= MODULE


def test_no_function_is_longer_than_a_page() -> None:
    long = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}: {length(node)} lines"
        for path in FILES
        for node in functions(path)
        if length(node) > FUNCTION
    ]
    assert not long


def test_the_loop_fits_on_a_page() -> None:
    run = next(node for node in functions(SOURCE / "loop.py") if node.name == "run")
    assert length(run) <= LOOP


def test_the_median_function_is_short() -> None:
    assert statistics.median(length(node) for path in FILES for node in functions(path)) <= MEDIAN
