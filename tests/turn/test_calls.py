"""The tool calls of one answer: what may run runs, together; what may not is an error that the model reads."""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import SOON

from instar.event import PartUpdated
from instar.message import FilePart, ToolCompleted, ToolError, ToolPart
from instar.plugin import Ask, Tool, ToolContext, ToolFailure, ToolResult, points
from instar.testing import Machine, RuntimeUnderTest, calls_of, results, said
from instar.turn import calls

pytest_plugins = ["tests.turn"]

ANY: dict[str, Any] = {"type": "object", "properties": {}}
END = "\n== turn\ntext: done\n"


def tool(execute: Callable[..., Any], parameters: dict[str, Any] = ANY, **rest: Any) -> Tool:
    return Tool(description="A test's tool.", parameters=parameters, execute=execute, **rest)


async def played(house: Machine, turn: str, *hooks: dict[str, Any]) -> tuple[RuntimeUnderTest, list[str]]:
    """Play a turn and its end with plugins; return the door and what the model read of each call."""
    house.says(f"== turn\n{turn}\n{END}")
    door = await house.open()
    for number, one in enumerate(hooks):
        door.plugin(one, f"plugin{number}")
    session = await door.session()
    assert said(await door.ask(session, "go")) == "done"
    history = await door.stored(session)
    assert history == (await door.live(session)).history
    return door, results(history)


def ends(door: RuntimeUnderTest) -> list[str]:
    """The ids of the calls in the order in which their ends were published."""
    updates = [given for given in door.of("message.part.updated") if isinstance(given, PartUpdated)]
    parts = [given.part for given in updates if isinstance(given.part, ToolPart)]
    return [part.call_id for part in parts if isinstance(part.state, ToolCompleted | ToolError)]


async def test_calls_of_one_answer_run_together(house: Machine) -> None:
    """Each command waits for a file that the other one makes."""
    wait = "touch {0}; until [ -e {1} ]; do sleep 0.01; done; echo {0}"
    first, second = (json.dumps({"command": wait.format(*names)}) for names in (("a", "b"), ("b", "a")))
    _, found = await played(house, f"tool: bash {first}\ntool: bash {second}")
    assert found == ["a\n", "b\n"]


async def test_calls_are_prepared_in_order_before_any_runs_and_reported_in_order(house: Machine) -> None:
    events: list[str] = []

    async def before(given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        await asyncio.sleep(0)
        events.append(f"prepare {given.tool}")

    async def after(given: points.ToolAfterInput, output: Any) -> None:
        events.append(f"report {given.tool}")

    def named(name: str, waits: asyncio.Event | None, sets: asyncio.Event | None) -> Tool:
        async def execute(args: Any, ctx: ToolContext) -> str:
            events.append(f"run {name}")
            if waits:
                await waits.wait()
            if sets:
                sets.set()
            return name

        return tool(execute)

    gate = asyncio.Event()
    tools = {"slow": named("slow", gate, None), "quick": named("quick", None, gate)}
    hooks = {"tool": tools, "tool.execute.before": before, "tool.execute.after": after}
    door, found = await played(house, "tool: slow\ntool: quick", hooks)
    assert found == ["slow", "quick"]
    assert events == [
        *("prepare slow", "prepare quick", "run slow", "run quick", "report slow", "report quick"),
    ]
    assert ends(door) == ["call_t1_1", "call_t1_2"]


async def test_hooks_of_different_calls_run_at_once_and_people_are_asked_in_order(house: Machine) -> None:
    """The first call's hook ends when the last call's one has begun."""
    last, asked = asyncio.Event(), list[str]()

    async def before(given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        if output.args["command"] == "echo 3":
            last.set()
        await asyncio.wait_for(last.wait(), SOON)
        output.ask = f"about {output.args['command']}"

    async def permission(given: points.PermissionInput, output: points.PermissionOutput) -> None:
        asked.append(given.metadata["reason"])
        output.status = "allow"

    lines = [f'tool: bash {{"command": "echo {number}"}}' for number in (1, 2, 3)]
    hooks = {"tool.execute.before": before, "permission.ask": permission}
    _, found = await played(house, "\n".join(lines), hooks)
    assert found == ["1\n", "2\n", "3\n"]
    assert asked == [f"about echo {number}" for number in (1, 2, 3)]


async def test_a_call_that_changes_what_later_ones_see_ends_before_they_begin(house: Machine) -> None:
    """What stands before it runs beside it: a sub-agent, say, that it looks at."""
    seen: list[str] = []
    looked = asyncio.Event()

    async def work(args: Any, ctx: ToolContext) -> str:
        await asyncio.wait_for(looked.wait(), SOON)
        return "worked"

    async def change(args: Any, ctx: ToolContext) -> str:
        await asyncio.sleep(0.05 if not seen else 0)
        seen.append(args["to"])
        looked.set()
        return f"{seen}"

    async def look(args: Any, ctx: ToolContext) -> str:
        return f"{seen}"

    tools = {"work": tool(work), "change": tool(change, ordered=True), "look": tool(look)}
    turn = 'tool: work {}\ntool: change {"to": "a"}\ntool: look {}\ntool: change {"to": "b"}\ntool: look {}'
    _, found = await played(house, turn, {"tool": tools})
    assert found == ["worked", "['a']", found[2], "['a', 'b']", "['a', 'b']"]
    assert found[2] in ("['a']", "['a', 'b']")


async def test_a_refused_call_leaves_its_neighbours_alone_and_is_reported_in_its_place(
    house: Machine,
) -> None:
    async def before(given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        if output.args["command"] == "false":
            raise ValueError("not on a Friday")

    asked = [f'tool: bash {{"command": "{command}"}}' for command in ("echo one", "false", "echo three")]
    door, found = await played(house, "\n".join(asked), {"tool.execute.before": before})
    assert found == ["one\n", "The plugin plugin0 refused this call: not on a Friday", "three\n"]
    assert ends(door) == ["call_t1_1", "call_t1_2", "call_t1_3"]


REFUSED = {
    "tool: nosuch {}": "Model tried to call unavailable tool 'nosuch'. Available tools: bash, background,",
    "raw: read {broken": "The arguments of read are not JSON: ",
    'raw: read {"filePath": "a", "limit": NaN}': "The arguments of read are not JSON: ",
    "raw: read [1]": "The arguments of read are not an object. Please rewrite the input.",
    "raw: read 5": "The arguments of read are not an object. Please rewrite the input.",
    "tool: read {}": "The read tool was called with invalid arguments: ",
    'tool: read {"filePath": 5}': "The read tool was called with invalid arguments: ",
    'tool: read {"filePath": "gone.txt"}': "File not found: ",
    "raw: read " + "[" * 30_000: "The arguments of read are not JSON: ",
}


@pytest.mark.parametrize("asked", REFUSED, ids=lambda asked: asked[:30])
async def test_a_call_that_cannot_run_tells_the_model_why_and_the_turn_goes_on(
    house: Machine, asked: str
) -> None:
    _, found = await played(house, asked)
    assert found[0].startswith(REFUSED[asked])


async def test_an_empty_argument_text_is_an_empty_object(house: Machine) -> None:
    async def execute(args: Any, ctx: ToolContext) -> str:
        return json.dumps(args)

    _, found = await played(house, "raw: plain ", {"tool": {"plain": tool(execute)}})
    assert found == ["{}"]


async def test_a_tool_that_fails_as_it_means_to_gives_the_model_its_words(house: Machine) -> None:
    async def execute(args: Any, ctx: ToolContext) -> str:
        raise ToolFailure("the printer is out of paper; load some")

    _, found = await played(house, "tool: print", {"tool": {"print": tool(execute)}})
    assert found == ["the printer is out of paper; load some"]


async def test_a_tool_that_breaks_is_an_error_and_is_logged(
    house: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    async def execute(args: Any, ctx: ToolContext) -> str:
        raise KeyError("colour")

    _, found = await played(house, "tool: paint", {"tool": {"paint": tool(execute)}})
    assert found == ["The tool failed: KeyError: 'colour'"]
    assert "tool failed tool=paint call=call_t1_1" in caplog.text


UNSOUND: dict[str, tuple[Any, str]] = {
    "nothing": (None, "The tool returned a NoneType, not a text"),
    "a dict": ({"output": "x"}, "The tool returned a dict, not a text"),
    "a number as output": (ToolResult(output=5), "The tool returned a ToolResult, not a text"),  # type: ignore[arg-type]
    "metadata that is no JSON": (ToolResult("x", metadata={"a": object()}), "What the tool returned cannot"),
    "no metadata": (ToolResult("x", metadata=None), "What the tool returned cannot"),  # type: ignore[arg-type]
    "a title of another type": (ToolResult("x", title=5), "What the tool returned cannot"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", UNSOUND)
async def test_a_result_that_cannot_be_kept_is_an_error_of_that_call_alone(house: Machine, name: str) -> None:
    async def execute(args: Any, ctx: ToolContext) -> Any:
        return UNSOUND[name][0]

    turn = 'tool: odd\ntool: bash {"command": "echo fine"}'
    _, found = await played(house, turn, {"tool": {"odd": tool(execute)}})
    assert found[0].startswith(UNSOUND[name][1])
    assert found[1] == "fine\n"


async def test_a_tool_that_is_cancelled_from_within_is_an_error_and_no_abort(house: Machine) -> None:
    async def execute(args: Any, ctx: ToolContext) -> str:
        raise asyncio.CancelledError

    _, found = await played(house, "tool: odd", {"tool": {"odd": tool(execute)}})
    assert found == ["The tool failed: CancelledError: it was cancelled from within"]


async def test_a_tool_may_be_called_by_an_alias(house: Machine) -> None:
    async def execute(args: Any, ctx: ToolContext) -> str:
        return "it is noon"

    tools = {"clock": tool(execute, aliases=("persona_clock",))}
    _, found = await played(house, "tool: persona_clock", {"tool": tools})
    assert found == ["it is noon"]
    assert [spec["function"]["name"] for spec in house.requests()[0]["tools"]].count("clock") == 1
    assert "persona_clock" not in str(house.requests()[0]["tools"])


async def test_hooks_hear_of_a_tool_by_the_name_that_it_is_registered_under(house: Machine) -> None:
    async def execute(args: Any, ctx: ToolContext) -> str:
        return "it is noon"

    heard = []

    async def hear(given: Any, output: Any) -> None:
        heard.append(given.tool)

    hooks = {"tool.execute.before": hear, "permission.ask": hear, "tool.execute.after": hear}
    guarded = tool(execute, aliases=("persona_clock",))
    guarded.permissions = lambda args, ctx: [Ask("clock")]
    await played(house, "tool: persona_clock", {"tool": {"clock": guarded}, **hooks})
    assert heard == ["clock"] * 3


async def test_a_later_plugins_tool_of_the_same_name_takes_the_place_of_a_built_in_one(
    house: Machine,
) -> None:
    async def execute(args: Any, ctx: ToolContext) -> str:
        return "not today"

    _, found = await played(house, "tool: bash", {"tool": {"bash": tool(execute)}})
    assert found == ["not today"]


async def test_a_hook_changes_the_arguments_and_they_are_checked_again(house: Machine) -> None:
    (house.folder / "a.txt").write_text("here I am")

    async def before(given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        output.args["filePath"] = {"b.txt": "a.txt", "c.txt": 5}[output.args["filePath"]]

    turn = 'tool: read {"filePath": "b.txt"}\ntool: read {"filePath": "c.txt"}'
    door, found = await played(house, turn, {"tool.execute.before": before})
    assert "1: here I am" in found[0]
    assert found[1].startswith("The read tool was called with invalid arguments: ")
    session = door.of("session.created")[0].session_id
    inputs = [call.state.input for message in await door.stored(session) for call in calls_of(message)]
    assert inputs == [{"filePath": "a.txt"}, {"filePath": 5}]


@pytest.mark.parametrize(("left", "why"), [(5, "got `int`"), ({"filePath": object()}, "of type object")])
async def test_arguments_that_a_hook_broke_refuse_the_call(house: Machine, left: Any, why: str) -> None:
    async def before(given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        output.args = left

    _, found = await played(house, 'tool: read {"filePath": "b.txt"}', {"tool.execute.before": before})
    assert found[0].startswith(
        "The plugin plugin0 refused this call: what it left in `args` cannot be used: "
    )
    assert why in found[0]


async def test_hooks_change_what_the_model_reads_of_a_call(house: Machine) -> None:
    async def after(given: points.ToolAfterInput, output: points.ToolAfterOutput) -> None:
        output.output = f"{given.args['command']} said {output.output}"
        output.title, output.metadata = "Changed", {"seen": True}

    async def failure(given: points.ToolAfterInput, output: points.ToolFailureOutput) -> None:
        output.error = f"{given.tool}: {output.error[:14]}"

    hooks = {"tool.execute.after": after, "tool.execute.failure": failure}
    door, found = await played(
        house, 'tool: bash {"command": "echo hi"}\ntool: read {"filePath": "x"}', hooks
    )
    assert found == ["echo hi said hi\n", "read: File not found"]
    state = next(given.part.state for given in door.of("message.part.updated") if _is_done(given))
    assert (state.title, state.metadata) == ("Changed", {"seen": True})


def _is_done(given: PartUpdated) -> bool:
    return isinstance(given.part, ToolPart) and isinstance(given.part.state, ToolCompleted)


async def test_what_a_hook_leaves_unsound_is_discarded(house: Machine) -> None:
    async def after(given: Any, output: points.ToolAfterOutput) -> None:
        output.output = 5  # type: ignore[assignment]

    async def failure(given: Any, output: points.ToolFailureOutput) -> None:
        output.error = None  # type: ignore[assignment]

    hooks = {"tool.execute.after": after, "tool.execute.failure": failure}
    _, found = await played(house, 'tool: bash {"command": "echo hi"}\ntool: read {"filePath": "x"}', hooks)
    assert found[0] == "hi\n"
    assert found[1].startswith("File not found")


async def test_a_hook_sets_the_environment_of_a_command(house: Machine) -> None:
    async def env(given: points.ShellEnvInput, output: points.ShellEnvOutput) -> None:
        output.env["COLOUR"] = f"blue {given.call_id}"

    _, found = await played(house, 'tool: bash {"command": "echo $COLOUR"}', {"shell.env": env})
    assert found == ["blue call_t1_1\n"]


async def test_a_long_result_is_cut_and_the_whole_is_kept_in_a_file(house: Machine) -> None:
    async def execute(args: Any, ctx: ToolContext) -> str:
        return "line\n" * 5000

    _, found = await played(house, "tool: talk", {"tool": {"talk": tool(execute)}})
    assert len(found[0]) < 20_000
    saved = next((house.data / "tool-output").iterdir())
    assert saved.read_text() == "line\n" * 5000
    assert str(saved) in found[0]


async def test_files_that_a_tool_returns_are_kept_with_its_call(house: Machine) -> None:
    async def execute(args: Any, ctx: ToolContext) -> ToolResult:
        place = {"id": "prt_a", "session_id": ctx.session_id, "message_id": ctx.message_id}
        return ToolResult("a dot", attachments=[FilePart(mime="image/png", url="data:,x", **place)])

    door, _ = await played(house, "tool: draw", {"tool": {"draw": tool(execute)}})
    session = door.of("session.created")[0].session_id
    state = calls_of((await door.stored(session))[1])[0].state
    assert isinstance(state, ToolCompleted)
    assert [file.url for file in state.attachments or []] == ["data:,x"]


async def test_a_tool_is_given_its_call_its_session_and_a_way_to_show_how_it_gets_on(house: Machine) -> None:
    seen: dict[str, Any] = {}

    async def execute(args: Any, ctx: ToolContext) -> str:
        seen.update(session=ctx.session_id, call=ctx.call_id, agent=ctx.agent, messages=len(ctx.messages))
        ctx.metadata(title="half", metadata={"done": 1})
        ctx.metadata(metadata={"of": 2})
        await ctx.ask(Ask("more"))
        with pytest.raises(TypeError):
            ctx.metadata(metadata={"bad": object()})
        return str(ctx.directory)

    door, found = await played(house, "tool: work", {"tool": {"work": tool(execute)}})
    session = door.of("session.created")[0].session_id
    assert found == [str(house.folder)]
    assert seen == {"session": session, "call": "call_t1_1", "agent": "build", "messages": 2}
    running = [
        (given.part.state.title, given.part.state.metadata)
        for given in door.of("message.part.updated")
        if isinstance(given.part, ToolPart) and given.part.state.__struct_config__.tag == "running"
    ]
    assert running[-1] == ("half", {"done": 1, "of": 2})


@pytest.mark.slow
async def test_a_tool_that_will_not_stop_cannot_hold_an_abort_up(house: Machine) -> None:
    house.says(f"== turn\ntool: stubborn\ntool: late\n{END}")
    door = await house.open()
    release, began = asyncio.Event(), asyncio.Event()

    async def stubborn(args: Any, ctx: ToolContext) -> str:
        began.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return "I am still here"

    async def late(args: Any, ctx: ToolContext) -> str:
        return "finished"

    door.plugin({"tool": {"stubborn": tool(stubborn), "late": tool(late)}})
    session = await door.session()
    await door.start(session, "go")
    await began.wait()
    started = time.monotonic()
    assert await door.client.abort(session)
    assert time.monotonic() - started < SOON
    assert calls._PATIENCE < 1, "within a second nothing of a turn may run"
    release.set()
    history = await door.stored(session)
    assert results(history)[0] == "Tool execution aborted"
    assert len(history) == 2


async def test_a_tool_that_swallows_its_cancelling_does_not_keep_an_aborted_turn_going(
    house: Machine,
) -> None:
    house.says(f"== turn\ntool: deaf\n{END}")
    door = await house.open()
    began = asyncio.Event()

    async def deaf(args: Any, ctx: ToolContext) -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "what cancelling?"
        return ""

    door.plugin({"tool": {"deaf": tool(deaf)}})
    session = await door.session()
    await door.start(session, "go")
    await began.wait()
    assert await door.client.abort(session)
    assert len(house.requests()) == 1
    assert results(await door.stored(session)) == ["Tool execution aborted"]


async def test_a_call_of_an_unknown_tool_is_put_to_the_hooks_as_one_of_invalid(house: Machine) -> None:
    house.says('== turn\ntool: nothing {"a": 1}\n== turn\ntext: {{tool}}\n')
    door = await house.open()
    seen: list[tuple[str, object]] = []

    async def before(given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        seen.append((given.tool, output.args["tool"]))
        output.args["error"] = "There is no such thing."

    door.plugin({"tool.execute.before": before})
    answer = await door.ask(await door.session(), "hi")
    assert (seen, said(answer)) == ([("invalid", "nothing")], "There is no such thing.")
