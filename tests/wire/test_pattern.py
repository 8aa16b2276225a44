import ast
import re
from pathlib import Path

import pytest

from instar.wire.pattern import late_pattern

SOURCE = Path(__file__).parent.parent.parent / "src" / "instar"


def test_a_late_pattern_does_what_the_compiled_one_does():
    late = late_pattern(r"(?P<name>[a-z]+)=(\d+)", re.IGNORECASE)
    assert late.fullmatch("A=1").groupdict() == {"name": "A"}
    assert late.sub(r"\2", "a=1 b=2") == "1 2"
    assert late.search("a=") is None
    assert late_pattern(rb"[0-9]+").findall(b"1 22") == [b"1", b"22"]


def test_a_mistake_in_a_late_pattern_shows_when_it_is_used():
    late = late_pattern("(")
    with pytest.raises(re.error):
        late.match("")


def at_import(node):
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from at_import(child)


@pytest.mark.parametrize(
    "room", sorted({path.relative_to(SOURCE).parts[0] for path in SOURCE.rglob("*.py")} - {"plugins"})
)
def test_no_room_compiles_a_pattern_when_it_is_imported_and_each_late_one_is_right(room):
    files = [SOURCE / room] if room.endswith(".py") else sorted((SOURCE / room).rglob("*.py"))
    for path in files:
        for node in at_import(ast.parse(path.read_text("utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            assert called != "re.compile", f"{path}:{node.lineno}: write late_pattern(...)"
            if called == "late_pattern" and isinstance(node.args[0], ast.Constant):
                re.compile(node.args[0].value, eval(ast.unparse(node.args[1])) if len(node.args) > 1 else 0)
