"""A running instance takes up code of a trusted folder once it is accepted, and keeps what it has until then."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.turn import reload

from instar.testing import Machine, RuntimeUnderTest, results, said

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: {{user}}\n'
TAGS = """
    async def mine(input, options):
        async def complete(given, output):
            output.text += " TAG"

        return {"text.complete": complete}
"""
SCRIPT = 'export const mine = async () => ({ "text.complete": async (i, o) => { o.text += " TAG" } })\n'
TOOL = '"""Adds."""\nasync def execute(args, context):\n    return "TAG"\n'
NODE = pytest.mark.skipif(shutil.which("node") is None, reason="plugins in JavaScript are run by node")


@pytest.fixture(autouse=True)
def _by_hand(house: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at when a test says so, and trusted when the person says so."""
    monkeypatch.setattr("instar.runtime.runtime._WATCH_AFTER", 600)
    del house.environment["INSTAR_TRUST"]
    house.says(ECHO)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


async def says(door: RuntimeUnderTest) -> str:
    return said(await door.ask(await door.session(), "hello"))


def left_out(house: Machine, problems: list[str], *names: str) -> Any:
    (problem,) = [one for one in problems if "not as accepted" in one]
    assert problem.endswith(f"then accept: instar trust {house.folder}")
    return all(name in problem for name in names)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "text", "loaded"),
    [
        (".instar/plugin/evil.py", TAGS.replace("\n    ", "\n").replace("TAG", "x"), "plugin:evil"),
        pytest.param(".opencode/plugin/x.ts", SCRIPT.replace("TAG", "x"), "plugin:x", marks=NODE),
        (
            "instar.json",
            '{"plugin": ["tests.runtime.offered"]}',
            "plugin:tests.runtime.offered",
        ),
    ],
)
async def test_a_new_plugin_is_taken_up_once_it_is_accepted(
    house: Machine, name: str, text: str, loaded: str
) -> None:
    house.trust()
    door = await house.open()
    write(house.folder / name, text)
    what, problems = await reload(door)
    assert what == []
    assert left_out(house, problems, name, "(new)")
    assert await says(door) == "hello"
    assert await reload(door) == ([], []), "it is said once"
    house.trust()
    assert await reload(door) == ([loaded], [])
    assert await says(door) == "hello x"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".instar/plugins/mine.py", TAGS.replace("\n    ", "\n")),
        pytest.param(".opencode/plugins/mine.js", SCRIPT, marks=NODE),
    ],
)
async def test_a_plugin_that_changed_stays_as_it_was_until_it_is_accepted(
    house: Machine, name: str, text: str
) -> None:
    path = write(house.folder / name, text.replace("TAG", "one"))
    house.trust()
    door = await house.open()
    write(path, text.replace("TAG", "two"))
    what, problems = await reload(door)
    assert (what, left_out(house, problems, f"{name} (changed)")) == ([], True)
    assert await says(door) == "hello one"
    house.trust()
    assert await reload(door) == (["plugin:mine"], [])
    assert await says(door) == "hello two"
    path.unlink()
    what, problems = await reload(door)
    assert (what, left_out(house, problems, f"{name} (gone)")) == ([], True)
    assert await says(door) == "hello two"
    house.trust()
    assert await reload(door) == (["plugin:mine"], [])
    assert await says(door) == "hello"


async def test_a_tool_that_changed_stays_as_it_was_and_a_new_one_beside_it_is_not_offered(
    house: Machine,
) -> None:
    path = write(house.folder / ".instar/tools/add.py", TOOL.replace("TAG", "one"))
    house.trust()
    door = await house.open()
    house.says("== turn\ntool: add {}\n== turn\ntext: done\n" * 2)

    async def called() -> str:
        session = await door.session()
        await door.ask(session, "go")
        return results(await door.stored(session))[-1]

    write(path, TOOL.replace("TAG", "two"))
    write(path.with_name("more.py"), TOOL)
    _, problems = await reload(door)
    assert left_out(house, problems, ".instar/tools/add.py (changed)", ".instar/tools/more.py (new)")
    assert "more" not in await door.runtime.tools()
    assert await called() == "one"
    house.trust()
    assert await reload(door) == (["tools"], [])
    assert "more" in await door.runtime.tools()
    assert await called() == "two"


async def test_options_that_changed_leave_the_plugin_with_those_that_were_accepted(house: Machine) -> None:
    text = TAGS.replace("\n    ", "\n").replace('" TAG"', "options['word']")
    write(house.folder / "mine.py", text)
    write(house.folder / "instar.json", json.dumps({"plugin": [["./mine.py", {"word": " one"}]]}))
    house.trust()
    door = await house.open()
    assert await says(door) == "hello one"
    write(house.folder / "instar.json", json.dumps({"plugin": [["./mine.py", {"word": " two"}]]}))
    await reload(door)
    assert await says(door) == "hello one"
    house.trust()
    await reload(door)
    assert await says(door) == "hello two"


async def test_what_a_plugin_imports_later_is_what_was_accepted_too(house: Machine) -> None:
    text = TAGS.replace("\n    ", "\n").replace(
        'output.text += " TAG"', "from . import part\n        output.text += part.word"
    )
    write(house.folder / "mine/__init__.py", text)
    part = write(house.folder / "mine/part.py", 'word = " one"\n')
    write(house.folder / "instar.json", '{"plugin": ["./mine"]}')
    house.trust()
    door = await house.open()
    write(part, 'word = " two"\n')
    assert await says(door) == "hello one"
    assert not door.of("plugin.error")


@pytest.mark.slow
@NODE
async def test_a_host_of_javascript_that_is_started_again_loads_only_what_was_accepted(
    house: Machine,
) -> None:
    kill = SCRIPT.replace('o.text += " TAG"', 'process.kill(process.pid, "SIGKILL")')
    path = write(house.folder / ".opencode/plugin/mine.js", kill)
    house.trust()
    door = await house.open()
    write(path, SCRIPT.replace("TAG", "two"))
    assert await says(door) == "hello"
    assert await says(door) == "hello"
    assert "SIGKILL" in door.of("plugin.error")[-1].message
