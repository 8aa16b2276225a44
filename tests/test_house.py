"""The house stays small: caps on the whole, and on each file and function.

A cap falls with what was reached. A change that brings a new room raises it by what that room needs and says so.
"""

import ast
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "instar"
GENERATED = SOURCE / "_version.py"
"""The build writes it."""
FILES = sorted(set(SOURCE.rglob("*.py")) - {GENERATED})

ENTRIES = 29
"""Entries of `src/instar`, without `__init__.py`, `__main__.py` and `py.typed`."""
MODULES = 515
CODE = 68_950
"""Lines of code in all: without blank lines, comments, docstrings and imports."""
CODE_OF_THE_CORE = 50_150
"""The same without `plugins`."""

SHARED_NAMES = 9
"""Names of public classes that stand in more than one module: mostly a word of the HTTP interface and what it shows."""

MODULE = 600
HELLO = 47
"""Files that "hello" passes through in a turn of `instar run`, from the prompt to its answer."""
HELLO_CALLS = 2_150
"""Calls of Python functions on that way, in all threads: on a busy machine some more look from time to time."""
BASH = 82
"""Files that a turn with one call of bash passes through."""
EDIT = 154
"""Files that a turn with one edit of a hook script passes through, through the gate and its commit."""
EDIT_CALLS = 18_000
"""Calls of Python functions on that way, in all threads: 14,900, and more on a busy machine, where waits look again."""

LATE = {"cli/loop.py", "project/watch.py", "tool/background.py"}
"""Files that look from time to time, on that way only where the machine is busy: they are not counted."""

FUNCTION = 60
LOOP = 60
MEDIAN = 8


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    documented = len(span(node.body[0])) if is_text(node.body[0]) else 0
    return len(span(node)) - documented


def code_lines(path: Path) -> int:
    left_out: set[int] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import | ast.ImportFrom) or (isinstance(node, ast.Expr) and is_text(node)):
            left_out.update(span(node))
    lines = enumerate(path.read_text("utf-8").splitlines(), 1)
    return sum(
        1 for number, line in lines if line.strip() and line.strip()[0] != "#" and number not in left_out
    )


def test_there_are_no_more_rooms_and_modules_than_a_newcomer_can_learn() -> None:
    ours = {"__init__.py", "__main__.py", "py.typed", "__pycache__", GENERATED.name}
    assert len({entry.name for entry in SOURCE.iterdir()} - ours) <= ENTRIES
    assert len(FILES) <= MODULES


def test_the_whole_does_not_grow() -> None:
    sizes: dict[bool, int] = defaultdict(int)
    for path in FILES:
        sizes[path.is_relative_to(SOURCE / "plugins")] += code_lines(path)
    assert sizes[False] <= CODE_OF_THE_CORE
    assert sizes[False] + sizes[True] <= CODE


def test_two_classes_of_one_name_are_one_idea() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    shared = {name: found for name, found in places.items() if len(found) > 1}
    assert len(shared) <= SHARED_NAMES, shared


def test_a_module_holds_one_thing() -> None:
    long = [path for path in FILES if len(path.read_text("utf-8").splitlines()) > MODULE]
    assert not long


def test_no_function_is_longer_than_a_page() -> None:
    long = [
        f"{path.relative_to(SOURCE)}:{node.lineno} {node.name}: {length(node)} lines"
        for path in FILES
        for node in functions(path)
        if length(node) > FUNCTION
    ]
    assert not long


def test_the_loop_fits_on_a_page() -> None:
    run = next(node for node in functions(SOURCE / "turn" / "loop.py") if node.name == "run")
    assert length(run) <= LOOP


def test_the_median_function_is_short() -> None:
    assert statistics.median(length(node) for path in FILES for node in functions(path)) <= MEDIAN


def traced(
    tmp_path: Path, environment: Mapping[str, str], script: str = "", workspaces: Sequence[Path] = ()
) -> dict[str, int]:
    """Return the calls by file of a prompt of `instar run` in a new repository.

    The first run finds how far this machine confines children, and keeps that: the second is the one that counts.
    """
    folder, report = tmp_path / "project", tmp_path / "report.json"
    subprocess.run(["git", "init", "-q", folder], check=True, env=environment)
    (folder / "script.txt").write_text(script)
    given = {"INSTAR_SCRIPT": str(folder / "script.txt")} if script else {}
    program = [sys.executable, Path(__file__).parent / "traced.py", report]
    command = [*program, "run", "--auto", "--model", "scripted/echo", "hello"]
    for workspace in workspaces or (None, None):
        evolving = ["--workspace", workspace] if workspace else []
        ended = subprocess.run(
            [*command, *evolving],
            cwd=folder,
            env={**environment, **given},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout == ("done\n" if script else "hello\n")
    calls: dict[str, int] = json.loads(report.read_text())
    return {file: count for file, count in calls.items() if file not in LATE}


def test_a_prompt_goes_a_short_way(tmp_path: Path, clean_environment: Mapping[str, str]) -> None:
    calls = traced(tmp_path, clean_environment)
    assert len(calls) <= HELLO, sorted(calls)
    assert sum(calls.values()) <= HELLO_CALLS, sorted(calls.items(), key=lambda item: -item[1])


def test_a_tool_call_goes_a_short_way(tmp_path: Path, clean_environment: Mapping[str, str]) -> None:
    """Its calls are not counted: how many there are depends on what else runs on the machine."""
    script = '== turn\ntool: bash {"command": "echo hi"}\n\n== turn\ntext: done\n'
    calls = traced(tmp_path, clean_environment, script)
    assert "tool/bash.py" in calls
    assert len(calls) <= BASH, sorted(calls)


SCRIPT = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "bot", "test": "bot_test.sh", "tools": [{"name": "hello", "description": "Greets."}]}' ;;
mutate_request) echo '{"system": ["You are Bot."]}' ;;
execute_tool) echo '{"result": "Hello!"}' ;;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""
EDITING = """\
== turn
tool: evolve_hook_edit {"file": "bot.sh", "oldString": "Hello", "newString": "Good day"}

== turn
expect: Installed hooks/bot.sh
text: done
"""
WATCHING = (
    "plugins/evolve/heartbeat/",
    "project/",
    "runtime/reload_watch.py",
    "git/project.py",
    "store/projects.py",
)
"""What begins a second after the start: on a slow machine within the turn."""


def test_an_edit_of_a_hook_script_goes_a_short_way(
    tmp_path: Path, clean_environment: Mapping[str, str]
) -> None:
    workspaces = [tmp_path / "first", tmp_path / "second"]
    for root in workspaces:
        for path, text in (("hooks", SCRIPT), ("tests", "#!/bin/sh\nhooks/bot.sh discover\n")):
            (root / path).mkdir(parents=True)
            file = root / path / ("bot.sh" if path == "hooks" else "bot_test.sh")
            file.write_text(text)
            file.chmod(0o755)
    found = traced(tmp_path, clean_environment, EDITING, workspaces)
    calls = {file: count for file, count in found.items() if not file.startswith(WATCHING)}
    assert "plugins/evolve/evolution.py" in calls
    assert len(calls) <= EDIT, sorted(calls)
    assert sum(calls.values()) <= EDIT_CALLS, sorted(calls.items(), key=lambda item: -item[1])
