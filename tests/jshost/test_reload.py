"""A running instance takes up what changed in JavaScript plugins: in a child of its own, beside those that stay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.turn import reload
from tests.waiting import until

from instar.testing import Machine, RuntimeUnderTest, results, said

Write = Callable[..., Path]

ECHO = '== when ""\ntext: {{user}}\n'
TAGS = """
    import { appendFileSync } from "node:fs"

    globalThis.child ??= Math.random()
    export default { id: "NAME", server: async (input, options) => ({
      "text.complete": async (i, o) => { o.text += ` TAG${options?.more ?? ""}:${globalThis.child}` },
      dispose: async () => appendFileSync(input.directory + "/gone", "TAG "),
    }) }
"""


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at when a test says so, however slow the machine is."""
    monkeypatch.setattr("instar.runtime.runtime._WATCH_AFTER", 600)


@pytest.fixture
def tag(write: Write) -> Callable[..., Path]:
    def tagged(text: str, name: str = "mine", folder: str = ".opencode/plugin") -> Path:
        return write(TAGS.replace("TAG", text).replace("NAME", name), f"{name}.js", folder)

    return tagged


async def tags(door: RuntimeUnderTest) -> dict[str, str]:
    """What each plugin adds to an answer, and the child that it runs in."""
    answer = said(await door.ask(await door.session(), "hello"))
    found = [word.partition(":") for word in answer.split()[1:]]
    return {text: child for text, _, child in found}


def hosts(door: RuntimeUnderTest) -> list[Any]:
    return [one.host for one in door.runtime.instance.plugins.loaded]


@pytest.mark.slow
async def test_one_that_changed_is_loaded_anew_one_that_is_broken_stays_and_one_that_is_gone_ends(
    house: Machine, tag: Callable[..., Path]
) -> None:
    house.says(ECHO)
    gone = house.folder / "gone"
    tag("kept", "kept")
    path = tag("one")
    door = await house.open()
    first = (await tags(door))["kept"]
    assert await tags(door) == {"kept": first, "one": first}
    assert await reload(door) == ([], [])

    tag("two")
    assert await reload(door) == (["plugin:mine"], [])
    second = (await tags(door))["two"]
    assert await tags(door) == {"kept": first, "two": second}
    assert second != first, "a child in which nothing of the old code is left"
    assert gone.read_text() == "one "

    path.write_text("export default {")
    what, (problem,) = await reload(door)
    assert (what, "mine.js is not loaded again, and stays as it was" in problem) == ([], True)
    assert await tags(door) == {"kept": first, "two": second}
    tag("two")
    assert await reload(door) == ([], [])
    assert await tags(door) == {"kept": first, "two": second}

    old = hosts(door)[1]
    path.unlink()
    assert await reload(door) == (["plugin:mine"], [])
    assert await tags(door) == {"kept": first}
    assert gone.read_text() == "one two "
    await until(lambda: not old.is_up and not door.runtime.instance.plugins.idle_hosts)
    await door.runtime.close()
    assert gone.read_text() == "one two kept "


@pytest.mark.slow
async def test_other_options_and_a_new_entry_are_taken_up(house: Machine, tag: Callable[..., Path]) -> None:
    house.says(ECHO)
    path = tag("mine", folder="own")
    door = await house.open()
    house.settings(plugin=[str(path)])
    assert await reload(door) == (["plugin:mine"], [])
    assert [*await tags(door)] == ["mine"]
    house.settings(plugin=[[str(path), {"more": "!"}]])
    assert await reload(door) == (["plugin:mine"], [])
    assert [*await tags(door)] == ["mine!"]
    house.settings(plugin=[])
    assert await reload(door) == (["plugin:mine"], [])
    assert await tags(door) == {}


@pytest.mark.slow
async def test_of_a_plugin_that_is_a_folder_every_file_counts_and_no_package(
    house: Machine, write: Write
) -> None:
    house.says(ECHO)
    write("""
        import { word } from "./lib/word.js"
        export default { id: "own", server: async () => ({
          "text.complete": async (i, o) => { o.text += word },
        }) }
    """, "index.js", "own")  # fmt: skip
    write("export const word = ' one:1'", "word.js", "own/lib")
    write('{"type": "module"}', "package.json", "own")
    house.settings(plugin=[str(house.folder / "own")])
    door = await house.open()
    assert [*await tags(door)] == ["one"]
    write("export const word = ' two:1'", "word.js", "own/lib")
    assert await reload(door) == (["plugin:own"], [])
    assert [*await tags(door)] == ["two"]
    write("", "x.js", "own/node_modules/x")
    assert await reload(door) == ([], [])


@pytest.mark.slow
async def test_a_tool_that_is_at_work_ends_its_work_in_the_child_that_it_began_in(
    house: Machine, write: Write
) -> None:
    tool = """
        import { existsSync, writeFileSync } from "node:fs"
        export const P = async ({ directory }) => ({ tool: { wait: { description: "Waits.", args: {},
          async execute() {
            writeFileSync(directory + "/begun", "")
            while (!existsSync(directory + "/go")) await new Promise((done) => setTimeout(done, 5))
            return "WORD"
          } } } })
    """
    house.says("== turn\ntool: wait {}\n\n== turn\ntool: wait {}\n\n== turn\ntext: done\n")
    write(tool.replace("WORD", "one"))
    door = await house.open()
    (old,) = hosts(door)
    session = await door.session()
    await door.start(session, "go")
    await until((house.folder / "begun").exists)
    write(tool.replace("WORD", "two"))
    assert await reload(door) == (["plugin:mine"], [])
    assert old.is_up
    (house.folder / "go").touch()
    await door.idle(session)
    assert results(await door.stored(session)) == ["one", "two"]
    await until(lambda: not old.is_up)


@pytest.mark.slow
async def test_what_one_contributed_goes_with_it_by_the_name_that_its_code_gives_it(
    house: Machine, write: Write
) -> None:
    source = """
        export default { id: "own", server: async ({ experimental_workspace }) => {
          experimental_workspace.register("box", { name: "WORD", description: "" })
          return {}
        } }
    """
    path = write(source.replace("WORD", "one"))
    door = await house.open()

    def box() -> str | None:
        found = door.runtime.registry.workspaces.get("box")
        return None if found is None else found.name

    await until(lambda: box() == "one")
    write(source.replace("WORD", "two"))
    assert await reload(door) == (["plugin:own"], [])
    await until(lambda: box() == "two")
    path.write_text("export default {")
    await reload(door)
    assert box() == "two"
    path.unlink()
    assert await reload(door) == (["plugin:own"], [])
    assert box() is None
