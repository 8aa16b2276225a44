"""No hook point is a promise only: each has a call site, is reached by a session, and stands in the docs.

opencode's `permission.ask` was declared and never called for a year (opencode#7006).
"""

import ast
import inspect
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from instar.plugin import CommandBody, points
from instar.plugin.points import NOT_POINTS, HookPoint
from instar.plugins.evolve import points as evolve
from instar.testing import Machine, RuntimeUnderTest

pytest_plugins = ["tests.turn"]

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "instar"
DOCS = ROOT / "docs" / "reference" / "hook-points.md"
CORE = points.CORE.all()
CONSTANTS = {name: value for name, value in vars(points).items() if isinstance(value, HookPoint)}
OF_FLAGSHIPS = [value for value in vars(evolve).values() if isinstance(value, HookPoint)]
"""What flagships declare: their own tests reach them."""


def name_of(point: HookPoint[Any, Any]) -> str:
    return point.name


@cache
def triggered() -> dict[str, list[str]]:
    """Where each ``points.NAME`` is the first argument of a call of `trigger`."""
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        if "trigger" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            first = node.args[0] if node.args else None
            if node.func.attr == "trigger" and isinstance(first, ast.Attribute):
                found.setdefault(first.attr, []).append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    return found


@pytest.mark.parametrize("constant", CONSTANTS)
def test_a_hook_point_has_a_call_site(constant: str) -> None:
    assert triggered().get(constant), f"points.{constant} is declared and nobody triggers it"


def test_every_declared_hook_point_has_a_constant_by_which_it_is_triggered() -> None:
    # A flagship that another test loaded may have declared its own.
    shipped = [point for point in CORE if point not in OF_FLAGSHIPS]
    assert sorted(map(name_of, CONSTANTS.values())) == sorted(map(name_of, shipped))


SCRIPT = """
    == turn
    text: I look.
    tool: bash {"command": "echo hi"}
    tool: read {"filePath": "gone.txt"}
    tool: write {"filePath": "made.txt", "content": "made"}
    tool: task {"description": "look", "prompt": "child work", "subagent_type": "general"}

    == when "child work"
    text: found it

    == turn
    text: done
    usage: input=9500

    == when "Continue if"
    text: nothing is left

    == when "name me"
    text: it has a name

    == title
    text: A name
"""


async def everywhere(house: Machine, hooks: dict[str, Any]) -> RuntimeUnderTest:
    """Play what reaches every hook point, with `hooks` as a plugin."""
    house.says(SCRIPT)
    window = {"scripted": {"models": {"x": {"limit": {"context": 10000, "output": 1000}}}}}
    house.settings(permission={"bash": "allow"}, provider=window)
    door = await house.open()
    door.plugin(hooks)
    session = await door.session()
    await door.ask(session, "go")
    await door.client.command(session, CommandBody(command="init", arguments=""))
    await door.client.summarize(session)
    untitled = await door.session(title=None)
    await door.ask(untitled, "name me")
    await door.until(lambda event: event.type == "session.updated" and "'A name'" in str(event.to_plain()))
    await door.client.delete(untitled)
    assert door.of("plugin.error") == []
    return door


async def test_one_session_reaches_every_hook_point(house: Machine) -> None:
    reached: dict[str, tuple[type[Any], type[Any]]] = {}

    def recording(name: str) -> Any:
        async def hook(given: Any, output: Any) -> None:
            reached[name] = (type(given), type(output))

        return hook

    await everywhere(house, {point.name: recording(point.name) for point in CONSTANTS.values()})
    assert set(reached) == set(map(name_of, CONSTANTS.values()))
    for point in CONSTANTS.values():
        given, output = reached[point.name]
        assert issubclass(given, point.input)
        assert issubclass(output, point.output)


def examples() -> dict[str, Any]:
    """The handler that the docs show for each hook point."""
    found = {}
    text = DOCS.read_text("utf-8")
    for name, source in re.findall(r"^### ([\w.]+)\n\n```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        space: dict[str, Any] = {}
        exec(compile(source, f"docs/reference/hook-points.md {name}", "exec"), space)
        (found[name],) = [value for value in space.values() if inspect.iscoroutinefunction(value)]
    return found


async def test_the_docs_have_an_example_for_each_hook_point_and_every_one_of_them_works(
    house: Machine,
) -> None:
    shown, called = examples(), set()
    assert list(shown) == [point.name for point in CONSTANTS.values()]

    def counting(name: str) -> Any:
        async def hook(given: Any, output: Any) -> None:
            await shown[name](given, output)
            called.add(name)

        return hook

    await everywhere(house, {name: counting(name) for name in shown})
    assert called == set(shown)
    (first, *_), sent = house.requests(), json.dumps(house.requests())
    assert (first["system"][-1], first["params"]["temperature"]) == ("Answer in one sentence.", 0.4)
    for changed in ("asked by Ada", "messages so far", "Prefer `rg`", "List the folder first", "X-Provider"):
        assert changed in sent


@pytest.mark.parametrize("point", [*CONSTANTS.values(), *OF_FLAGSHIPS], ids=name_of)
def test_a_hook_point_stands_in_the_docs_as_the_code_has_it(point: HookPoint[Any, Any]) -> None:
    gate = "yes" if point.gate else ""
    row = f"| `{point.name}` | {gate} | {point.doc} | {fields(point.input)} | {fields(point.output)} |"
    assert row in DOCS.read_text("utf-8").splitlines()


def fields(kind: type[Any]) -> str:
    return ", ".join(f"`{field.name}`" for field in msgspec.structs.fields(kind)) or "–"


def test_the_docs_name_no_hook_point_that_is_not_there() -> None:
    rows = [
        line.split("|") for line in DOCS.read_text("utf-8").splitlines() if re.match(r"\| `[\w.]+` \|", line)
    ]
    assert [row[1].strip(" `") for row in rows] == [
        *(point.name for point in CONSTANTS.values()),
        *(point.name for point in OF_FLAGSHIPS),
    ]


@pytest.mark.parametrize("key", NOT_POINTS)
def test_the_other_keys_of_a_plugins_hooks_stand_in_the_docs(key: str) -> None:
    (paragraph,) = re.findall(
        r"^Other keys of what a plugin returns:.*$", DOCS.read_text("utf-8"), re.MULTILINE
    )
    assert f"`{key}`" in paragraph


@pytest.mark.parametrize("point", CONSTANTS.values(), ids=name_of)
def test_a_hook_point_says_when_it_fires_and_knows_its_short_name(point: HookPoint[Any, Any]) -> None:
    assert re.fullmatch(r"[A-Z].*\.", point.doc)
    if point.name.startswith("experimental."):
        assert points.CORE.find(point.name.removeprefix("experimental.")) is point
