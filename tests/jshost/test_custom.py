"""A person's own tools in JavaScript: files of the tool folders, in the child that runs the plugins."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.turn import reload
from tests.waiting import until

from instar.message import ToolCompleted
from instar.testing import Machine, RuntimeUnderTest, calls_of, results

Write = Callable[..., Path]
Put = Callable[..., Path]

CALL = '== turn\ntool: shout {"text": "hi"}\n\n== turn\ntext: {{tool}}\n'
SHOUT = """
    export default { description: "Says it loudly.", args: { text: { type: "string" } },
      async execute(args, ctx) { BODY } }
"""
SEVERAL = """
    const child = globalThis.child ??= Math.random()
    const own = { description: "Which child.", args: {}, execute: async () => `${child}` }
    export default own
    export const other = own
    export const helper = (text) => text
    export const words = ["a"]
    export const none = null
"""


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at when a test says so, however slow the machine is."""
    monkeypatch.setattr("instar.runtime.runtime._WATCH_AFTER", 600)


@pytest.fixture
def put(write: Write) -> Put:
    """Write a tool file of the project, by default the tool ``shout`` with this body."""

    def written(body: str, name: str = "shout.js", folder: str = ".opencode/tool") -> Path:
        return write(SHOUT.replace("BODY", body) if "export" not in body else body, name, folder)

    return written


async def called(house: Machine, text: str = CALL) -> list[str]:
    """What the model read of the calls of a turn."""
    house.says(text)
    return await turn(await house.open())


async def turn(door: RuntimeUnderTest) -> list[str]:
    session = await door.session()
    await door.ask(session, "go")
    return results(await door.stored(session))


# -- which tools there are ---------------------------------------------------------------------------------


async def test_exports_that_are_tools_go_by_the_file_and_their_names_in_the_child_of_the_plugins(
    house: Machine, write: Write, put: Put
) -> None:
    put(SEVERAL, "one.js")
    put(SEVERAL, "two.js", ".instar/tools")
    write("export const P = async () => ({ tool: { three: { description: '3', args: {}, "
          "execute: async () => `${globalThis.child}` } } })")  # fmt: skip
    calls = "".join(f"tool: {name} {{}}\n" for name in ("one", "one_other", "two", "two_other", "three"))
    found = await called(house, f"== turn\n{calls}\n== turn\ntext: done\n")
    assert len(found) == 5
    assert len({*found}) == 1
    assert float(found[0])
    offered = {one["function"]["name"]: one["function"] for one in house.requests()[0]["tools"]}
    assert [name for name in offered if name.startswith(("one", "two"))] == [
        *("one", "one_other", "two", "two_other")
    ]
    assert offered["one_other"]["description"] == "Which child."


@pytest.mark.slow
async def test_a_tool_of_the_nearer_folder_counts_and_one_of_a_plugin_before_it(
    house: Machine, write: Write, put: Put
) -> None:
    put("return 'home'", folder=str(house.home / "tools"))
    put("return 'project'")
    assert await called(house) == ["project"]
    write(
        "export const P = async () => ({ tool: { shout: { description: 'x', args: {}, "
        "execute: async () => 'plugin' } } })"
    )
    assert await called(house) == ["plugin"]


@pytest.mark.slow
async def test_a_runtime_names_them_and_a_plugin_in_python_may_call_them(house: Machine, put: Put) -> None:
    put("return args.text + '!'")
    house.plugin("""
        from instar.plugin import Tool

        async def p(given, options):
            async def run(args, ctx):
                return "it said " + (await ctx.invoke("shout", {"text": "hi"})).output
            return {"tool": {"ask": Tool("Asks.", {"type": "object", "properties": {}}, run)}}
    """)
    assert await called(house, "== turn\ntool: ask {}\n\n== turn\ntext: done\n") == ["it said hi!"]
    door = await house.open()
    assert "shout" in await door.runtime.tools()


@pytest.mark.slow
def test_instar_run_calls_a_tool_that_is_a_file(house: Machine, put: Put) -> None:
    put("return `${args.text} from ${ctx.agent}`")
    house.says(CALL)
    command = [sys.executable, "-m", "instar", "run", "-m", "scripted/x", "say hi"]
    done = subprocess.run(
        command,
        cwd=house.folder,
        env={**house.environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == "hi from build\n"


# -- a call ------------------------------------------------------------------------------------------------


async def test_a_call_is_given_what_a_plugins_tool_is_given_and_shows_how_it_gets_on(
    house: Machine, put: Put
) -> None:
    house.settings(permission={"fly": "allow", "swim": "deny"})
    put(
        """
        const asked = { permission: "swim", patterns: ["Rome"], always: [], metadata: {} }
        await ctx.ask({ ...asked, permission: "fly" })
        ctx.metadata({ title: "looking", metadata: { step: 1 } })
        const swam = await ctx.ask(asked).then(() => "swam", () => "sank")
        return { title: "Loud", metadata: { swam }, output: JSON.stringify([args, Object.keys(ctx).sort()]) }
        """
    )
    house.says(CALL)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    (call,) = [call for message in await door.stored(session) for call in calls_of(message)]
    assert isinstance(call.state, ToolCompleted)
    keys = (
        '["abort","agent","ask","callID","directory","extra","messageID","metadata","sessionID","worktree"]'
    )
    assert call.state.output == f'[{{"text":"hi"}},{keys}]'
    assert (call.state.title, call.state.metadata["swam"]) == ("Loud", "sank")
    shown = [one.part for one in door.of("message.part.updated") if one.part.type == "tool"]
    assert any(getattr(one.state, "title", None) == "looking" for one in shown)


async def test_a_long_output_is_cut_and_arguments_that_do_not_fit_never_reach_it(
    house: Machine, put: Put
) -> None:
    put("return args.text.repeat(40_000)")
    long, wrong = await called(
        house, '== turn\ntool: shout {"text": "hi"}\ntool: shout {"text": 7}\n\n== turn\ntext: done\n'
    )
    assert len(long) < 60_000
    assert "Search it with grep" in long
    assert wrong.startswith("The shout tool was called with invalid arguments: ")


async def test_a_tool_whose_name_is_denied_is_not_there(house: Machine, put: Put) -> None:
    house.settings(permission={"shout": "deny"})
    put("return 'it was called'")
    (found,) = await called(house)
    assert "it was called" not in found
    assert "shout" not in [one["function"]["name"] for one in house.requests()[0]["tools"]]


async def test_an_aborted_call_is_told_by_its_signal(house: Machine, put: Put) -> None:
    put(
        """
        const { writeFileSync } = await import("node:fs")
        const aborted = new Promise((resolve) => ctx.abort.addEventListener("abort", resolve))
        writeFileSync(ctx.directory + "/started", "")
        await aborted
        writeFileSync(ctx.directory + "/aborted", "")
        """
    )
    house.says(CALL)
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    await until((house.folder / "started").exists)
    await door.client.abort(session)
    await door.idle(session)
    await until((house.folder / "aborted").exists)


# -- what does not load ------------------------------------------------------------------------------------

BAD = {
    "throw new Error('no key'); export {}": "no key",
    "const x = ;": "Unexpected",
    "export default { args: {}, execute: async () => 'x' }": "bad is left out: a tool needs `description`",
    "export const a = { execute: async () => 'x' }": "bad_a is left out: a tool needs `args` and `description`",
    "export const a = { description: 'd', args: {}, execute: 7 }": "the tool bad_a has no function `execute`",
    "export const é = { description: 'd', args: {}, execute() {} }": "'bad_é' cannot be a tool's name",
}


@pytest.mark.parametrize("source", BAD, ids=BAD)
async def test_a_file_that_does_not_load_is_one_line_and_its_neighbours_work(
    house: Machine, write: Write, put: Put, source: str
) -> None:
    bad = write(source, "bad.js", ".opencode/tool")
    put("return 'still here'")
    house.says(CALL)
    door = await house.open()
    (notice,) = door.runtime.notices
    assert notice.startswith(f"tool {bad} is skipped: ")
    assert BAD[source] in notice
    assert await turn(door) == ["still here"]


async def test_an_export_that_lacks_something_is_named_and_the_file_has_its_other_tools(
    house: Machine, put: Put
) -> None:
    put("return 'still here'")
    house.says(CALL)
    door = await house.open()
    put("export const a = { args: {}, execute() {} }\n" + SHOUT.replace("BODY", "return 'still here'"))
    assert await reload(door) == (["tools"], [])
    assert await turn(door) == ["still here"]
    (said,) = [one for one in door.of("plugin.error") if one.hook == "tool"]
    assert (said.plugin, said.message) == ("tools", "shout_a is left out: a tool needs `description`")


async def test_a_file_that_exports_no_tool_is_passed_over(house: Machine, put: Put) -> None:
    put("export const helper = (text) => text", "lib.js")
    house.says(CALL)
    door = await house.open()
    assert door.runtime.notices == []
    assert [name for name in await door.runtime.tools() if name.startswith("lib")] == []


async def test_a_tool_of_a_folder_that_is_not_trusted_is_not_run_and_is_named(
    house: Machine, put: Put
) -> None:
    path = put("export default 1; (await import('node:fs')).writeFileSync('ran', '')", "evil.ts")
    put("return 'mine'", folder=str(house.home / "tools"))
    house.environment = {**house.environment, "INSTAR_TRUST": ""}
    house.says(CALL)
    door = await house.open()
    assert door.runtime.untrusted == [f"{path} was left out: an untrusted project may not run code"]
    assert await turn(door) == ["mine"]
    assert not (house.folder / "ran").exists()


# -- files that change -------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_file_that_changed_is_loaded_anew_one_that_is_broken_stays_and_one_that_is_gone_ends(
    house: Machine, put: Put
) -> None:
    house.says("== turn\ntool: shout {\"text\": \"hi\"}\ntool: kept {}\n== turn\ntext: done\n" * 6)  # fmt: skip
    put(SEVERAL, "kept.js")
    path = put("return 'one'")
    door = await house.open()
    first, child = await turn(door)
    assert first == "one"
    assert await reload(door) == ([], [])

    put("return 'two'")
    assert await reload(door) == (["tools"], [])
    assert await turn(door) == ["two", child]

    path.write_text("export default {")
    what, (problem,) = await reload(door)
    assert what == []
    assert problem.startswith(f"tool {path} is not loaded again, and stays as it was: ")
    assert await turn(door) == ["two", child]

    path.unlink()
    assert await reload(door) == (["tools"], [])
    gone, still = await turn(door)
    assert still == child
    assert "two" not in gone


async def test_the_first_file_is_taken_up_and_those_in_python_run_no_second_time(
    house: Machine, write: Write, put: Put
) -> None:
    ran = house.folder / "ran"
    write(
        f"""
        description = "Counts."
        with open({str(ran)!r}, "a") as file:
            file.write("x")

        async def execute(args, ctx):
            return "x"
        """,
        "count.py",
        ".opencode/tool",
    )
    door = await house.open()
    put("return 'hello'")
    assert await reload(door) == (["tools"], [])
    house.says(CALL)
    assert await turn(door) == ["hello"]
    assert ran.read_text() == "x"


@pytest.mark.parametrize("settings", ["{}", "{"], ids=["settings that can be read", "settings that cannot"])
async def test_tools_of_a_folder_that_is_trusted_no_more_end(house: Machine, put: Put, settings: str) -> None:
    house.environment = {**house.environment, "INSTAR_TRUST": ""}
    put("return 'it was called'")
    trust = house.trust()
    door = await house.open()
    assert "shout" in await door.runtime.tools()
    trust.remove(house.folder)
    (house.folder / "opencode.json").write_text(settings)
    what, _ = await reload(door)
    assert what == ["tools"]
    assert "shout" not in await door.runtime.tools()
