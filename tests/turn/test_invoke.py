"""A tool that calls other tools: what holds for a call of the model's holds for those, under their own names."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import SOON

from instar.event import PermissionAsked
from instar.limits.stop import EVERYWHERE, StopFile
from instar.message import FilePart, ToolCompleted, ToolError
from instar.plugin import Ask, PermissionDenied, Tool, ToolContext, ToolFailure, ToolResult, points
from instar.testing import Machine, calls_of, results, said

pytest_plugins = ["tests.turn"]

ANY: dict[str, Any] = {"type": "object", "properties": {}}
NAMED: dict[str, Any] = {"type": "object", "properties": {"who": {"type": "string"}}, "required": ["who"]}
END = "\n== turn\ntext: done\n"


async def relay(args: Any, ctx: ToolContext) -> ToolResult:
    return await ctx.invoke(args["name"], args.get("args", {}))


def tool(execute: Any, parameters: dict[str, Any] = ANY, **rest: Any) -> Tool:
    return Tool(description="A test's tool.", parameters=parameters, execute=execute, **rest)


RELAY = tool(relay, repeatable=True)


def ask(name: str, /, **args: Any) -> str:
    return f"tool: relay {json.dumps({'name': name, 'args': args})}"


class Person:
    """Gives one answer to every question."""

    def __init__(self, reply: Any = "once") -> None:
        self.reply = reply
        self.asked: list[PermissionAsked] = []

    async def __call__(self, question: PermissionAsked) -> Any:
        self.asked.append(question)
        return self.reply


class Played:
    """A turn that was played to its end."""

    def __init__(self, door: Any, history: Any) -> None:
        self.door = door
        self.read = results(history)
        self.parts = [part for message in history for part in calls_of(message)]


async def play(
    house: Machine, *turns: str, tools: dict[str, Tool] | None = None, person: Any = None, **hooks: Any
) -> Played:
    house.says("".join(f"== turn\n{turn}\n" for turn in turns) + END)
    door = await house.open(person=person)
    door.plugin({"tool": {"relay": RELAY, **(tools or {})}, **hooks})
    session = await door.session()
    await door.ask(session, "go")
    return Played(door, await door.stored(session))


async def greet(args: Any, ctx: ToolContext) -> ToolResult:
    file = FilePart(
        id="prt_1", session_id=ctx.session_id, message_id=ctx.message_id, mime="text/plain", url="data:,x"
    )
    return ToolResult(f"Hello, {args['who']}!", "greeting", {"polite": True}, [file])


async def test_output_title_metadata_and_files_come_through_and_the_part_names_the_tool(
    house: Machine,
) -> None:
    played = await play(house, ask("greet", who="Ada"), tools={"greet": tool(greet, NAMED)})
    (part,) = played.parts
    assert isinstance(part.state, ToolCompleted)
    assert (part.tool, part.state.output, part.state.title) == ("relay", "Hello, Ada!", "greeting")
    invoked = {"tool": "greet", "callID": f"{part.call_id}.1", "input": {"who": "Ada"}}
    assert part.state.metadata == {"polite": True, "truncated": False, "invoked": [invoked]}
    assert [file.url for file in part.state.attachments or []] == ["data:,x"]


async def test_hooks_are_told_of_both_calls_by_their_names_and_ids_and_may_change_both(
    house: Machine,
) -> None:
    heard: list[tuple[str, str, str]] = []

    async def before(given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        heard.append(("before", given.tool, given.call_id))
        if given.tool == "greet":
            output.args["who"] = "Eve"

    async def after(given: points.ToolAfterInput, output: points.ToolAfterOutput) -> None:
        heard.append(("after", given.tool, given.call_id))
        output.output += f" ({given.tool})"

    hooks = {"tool.execute.before": before, "tool.execute.after": after}
    played = await play(house, ask("greet", who="Ada"), tools={"greet": tool(greet, NAMED)}, **hooks)
    assert played.read == ["Hello, Eve! (greet) (relay)"]
    inner, outer = "call_t1_1.1", "call_t1_1"
    assert heard == [
        ("before", "relay", outer),
        ("before", "greet", inner),
        ("after", "greet", inner),
        ("after", "relay", outer),
    ]
    assert played.parts[0].state.metadata["invoked"][0]["input"] == {"who": "Eve"}


async def test_a_hook_that_refuses_the_tool_refuses_it_here_too(house: Machine) -> None:
    failed: list[tuple[str, str]] = []

    async def before(given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        if given.tool == "greet":
            raise ValueError("not on a Friday")

    async def failure(given: points.ToolAfterInput, output: points.ToolFailureOutput) -> None:
        failed.append((given.tool, given.call_id))

    hooks = {"tool.execute.before": before, "tool.execute.failure": failure}
    played = await play(house, ask("greet", who="Ada"), tools={"greet": tool(greet, NAMED)}, **hooks)
    assert played.read == ["The plugin test refused this call: not on a Friday"]
    assert failed == [("greet", "call_t1_1.1"), ("relay", "call_t1_1")]
    assert isinstance(played.parts[0].state, ToolError)


async def broken(args: Any, ctx: ToolContext) -> str:
    raise KeyError("colour")


async def cancelled(args: Any, ctx: ToolContext) -> str:
    raise asyncio.CancelledError


async def nothing(args: Any, ctx: ToolContext) -> Any:
    return None


async def unprintable(args: Any, ctx: ToolContext) -> ToolResult:
    return ToolResult("x", metadata={"a": object()})


REFUSED = {
    ask("greet", who=5): "The greet tool was called with invalid arguments: who: expected",
    ask("greet"): "The greet tool was called with invalid arguments: ",
    'tool: relay {"name": "greet", "args": [1]}': "The arguments of greet are not an object.",
    'tool: relay {"name": "greet", "args": null}': "The arguments of greet are not an object.",
    ask("greeet", who="x"): "relay cannot invoke 'greeet': you have no such tool. Did you mean greet",
    ask(""): "relay cannot invoke '': you have no such tool.",
    ask("relay", name="greet"): "relay cannot invoke 'relay': you have no such tool.",
    ask("invalid", tool="x", error="y"): "relay cannot invoke 'invalid': you have no such tool.",
    ask("other", name="greet"): "other was invoked by another tool, and so can invoke none itself.",
    ask("broken"): "The tool failed: KeyError: 'colour'",
    ask("cancelled"): "The tool failed: CancelledError: it was cancelled from within",
    ask("nothing"): "The tool returned a NoneType, not a text",
    ask("unprintable"): "What the tool returned cannot be kept",
    ask("read", filePath="gone.txt"): "File not found: ",
}


@pytest.mark.parametrize("asked", REFUSED, ids=lambda asked: asked[12:60])
async def test_a_call_that_cannot_be_made_tells_the_model_why(house: Machine, asked: str) -> None:
    tools = {
        "greet": tool(greet, NAMED),
        "other": tool(relay),
        "broken": tool(broken),
        "cancelled": tool(cancelled),
        "nothing": tool(nothing),
        "unprintable": tool(unprintable),
    }
    played = await play(house, asked, tools=tools)
    (read,) = played.read
    assert read.startswith(REFUSED[asked]), read
    assert isinstance(played.parts[0].state, ToolError)


async def test_what_is_denied_is_denied_here_and_no_rule_on_the_caller_changes_that(house: Machine) -> None:
    house.settings(permission={"relay": "allow", "bash": {"*": "allow", "rm *": "deny"}, "webfetch": "deny"})
    played = await play(
        house,
        ask("bash", command="rm -r x", description="d"),
        ask("webfetch", url="https://example.org"),
        ask("bash", command="echo fine", description="d"),
    )
    assert "prevents you from using this specific tool call (bash on rm -r x" in played.read[0]
    assert played.read[1] == "relay cannot invoke 'webfetch': you have no such tool."
    assert played.read[2] == "fine\n"


async def test_a_tool_that_the_message_or_the_agent_switched_off_stays_off(house: Machine) -> None:
    house.says(f"== turn\n{ask('bash', command='echo x')}\n== turn\n{ask('greet', who='x')}\n{END}")
    house.settings(agent={"build": {"tools": {"greet": False}}})
    door = await house.open()
    door.plugin({"tool": {"relay": RELAY, "greet": tool(greet, NAMED)}})
    session = await door.session()
    await door.ask(session, "go", tools={"bash": False})
    assert [text.split(":")[0] for text in results(await door.stored(session))] == [
        "relay cannot invoke 'bash'",
        "relay cannot invoke 'greet'",
    ]


async def test_the_final_answer_is_the_models_own_to_give(house: Machine) -> None:
    """The tool that takes a structured answer can be called by nobody else."""
    house.says(
        f"== turn\n{ask('StructuredOutput', who='x')}\n== turn\ntool: StructuredOutput {json.dumps({'who': 'y'})}\n"
    )
    door = await house.open()
    door.plugin({"tool": {"relay": RELAY}})
    session = await door.session()
    await door.ask(session, "go", format={"type": "json_schema", "schema": NAMED})
    assert results(await door.stored(session))[0].startswith(
        "relay cannot invoke 'StructuredOutput': you have"
    )


async def test_a_person_is_asked_under_the_tools_own_name_about_the_part_that_they_see(
    house: Machine,
) -> None:
    house.settings(permission={"bash": "ask"})
    person = Person("reject")
    played = await play(house, ask("bash", command="echo x", description="d"), "text: never", person=person)
    (question,) = person.asked
    assert (question.permission, list(question.patterns)) == ("bash", ["echo x"])
    assert question.tool is not None
    assert question.tool.call_id == played.parts[0].call_id
    assert played.read == ["The user rejected permission to use this specific tool call."]
    assert len(house.requests()) == 1  # a refusal without words ends the turn


async def test_what_a_running_tool_asks_for_is_asked_and_refused_under_its_name(house: Machine) -> None:
    async def careful(args: Any, ctx: ToolContext) -> str:
        await ctx.ask(Ask("door", ["front"]))
        return "open"

    async def kind(args: Any, ctx: ToolContext) -> str:
        try:
            return (await ctx.invoke("careful", {})).output
        except PermissionDenied as denied:
            return f"kindly: {denied}"

    house.settings(permission={"door": "deny"})
    played = await play(house, "tool: kind", tools={"careful": tool(careful), "kind": tool(kind)})
    assert played.read[0].startswith("kindly: The user has specified a rule")
    assert "(door on front)" in played.read[0]


ONE = ask("greet", who="Ada")
DIRECT = 'tool: greet {"who": "Ada"}'


@pytest.mark.parametrize(
    ("turns", "times"),
    [
        ([ONE, ONE, ONE], 1),
        ([f"{ONE}\n{ONE}\n{ONE}"], 1),
        ([DIRECT, ONE, DIRECT], 1),
        ([ONE, ONE], 0),
        ([ONE, ask("greet", who="Eve"), ONE, ask("greet", who="Eve"), ONE], 0),
        ([ask("background", action="list")] * 4, 0),
    ],
)
async def test_the_third_identical_call_is_asked_about_whoever_made_them(
    house: Machine, turns: list[str], times: int
) -> None:
    person = Person()
    await play(house, *turns, tools={"greet": tool(greet, NAMED)}, person=person)
    assert [(one.permission, list(one.patterns)) for one in person.asked] == [
        ("doom_loop", ["greet"])
    ] * times


@pytest.mark.parametrize(
    "turns",
    [
        [DIRECT, 'tool: hail {"who": "Ada"}', DIRECT],
        ['tool: hail {"who": "Ada"}', ask("hail", who="Ada"), ONE],
        [DIRECT, DIRECT, ask("hail", who="Ada")],
    ],
)
async def test_calls_of_one_tool_by_its_names_are_alike(house: Machine, turns: list[str]) -> None:
    person = Person()
    named = tool(greet, NAMED, aliases=("hail",))
    await play(house, *turns, tools={"greet": named}, person=person)
    assert [(one.permission, list(one.patterns)) for one in person.asked] == [("doom_loop", ["greet"])]


async def test_a_tool_that_makes_one_call_again_and_again_is_asked_about_at_the_third(house: Machine) -> None:
    async def stubborn(args: Any, ctx: ToolContext) -> str:
        return "".join([(await ctx.invoke("greet", {"who": "Ada"})).output for _ in range(3)])

    person = Person("reject")
    tools = {"greet": tool(greet, NAMED), "stubborn": tool(stubborn)}
    played = await play(house, "tool: stubborn", tools=tools, person=person)
    assert [one.permission for one in person.asked] == ["doom_loop"]
    made = played.parts[0].state.metadata["invoked"]
    assert [one["callID"] for one in made] == ["call_t1_1.1", "call_t1_1.2", "call_t1_1.3"]


async def test_its_output_is_cut_once_as_any(house: Machine) -> None:
    command = "seq 3000"
    played = await play(
        house, ask("bash", command=command, description="d"), f'tool: bash {{"command": "{command}"}}'
    )
    through, direct = (text.split("All of it is in")[0] for text in played.read)
    assert through == direct
    assert through.count("The output was cut") == 1
    state = played.parts[0].state
    assert isinstance(state, ToolCompleted)
    assert state.metadata["truncated"] is True
    assert Path(state.metadata["outputPath"]).read_text().splitlines()[-1] == "3000"


async def test_an_abort_ends_what_was_invoked_and_keeps_what_it_had_shown(house: Machine) -> None:
    house.says(f"== turn\n{ask('bash', command='echo begun; sleep 4931', description='d')}\n{END}")
    door = await house.open()
    door.plugin({"tool": {"relay": RELAY}})
    session = await door.session()
    await door.start(session, "go")

    def shown(event: Any) -> bool:
        part = getattr(event.properties, "part", None)
        metadata = getattr(getattr(part, "state", None), "metadata", None) or {}
        return getattr(part, "tool", "") == "relay" and "begun" in str(metadata.get("output"))

    await door.until(shown)
    async with asyncio.timeout(SOON):
        await door.client.abort(session)
        await door.idle(session)
    (part,) = [part for message in await door.stored(session) for part in calls_of(message)]
    assert isinstance(part.state, ToolCompleted)
    assert part.state.output.startswith("begun\n")
    assert part.state.metadata["interrupted"] is True
    assert part.state.metadata["invoked"][0]["tool"] == "bash"


@pytest.mark.parametrize("when", ["before the call", "while a person is asked"])
async def test_after_a_stop_nothing_more_is_invoked(house: Machine, when: str) -> None:
    ran: list[str] = []

    def stop() -> None:
        StopFile(house.data).add(EVERYWHERE, time.time_ns() // 1_000_000)

    async def person(question: PermissionAsked) -> Any:
        stop()
        return "once"

    async def tireless(args: Any, ctx: ToolContext) -> str:
        if when == "before the call":
            stop()
        return (await ctx.invoke("greet", {"who": "Ada"})).output

    async def greeted(args: Any, ctx: ToolContext) -> str:
        ran.append("greet")
        return "hi"

    if when != "before the call":
        house.settings(permission={"greet": "ask"})
    house.says(f"== turn\ntool: tireless\n{END}")
    door = await house.open(person=person)
    door.plugin({"tool": {"tireless": tool(tireless), "greet": tool(greeted, NAMED)}})
    session = await door.session()
    await door.start(session, "go")
    await door.idle(session)
    assert ran == []
    assert len(house.requests()) == 1


async def test_a_tool_that_came_up_during_the_step_may_be_invoked_and_is_told_of(house: Machine) -> None:
    tools: dict[str, Tool] = {}

    async def grow(args: Any, ctx: ToolContext) -> str:
        tools["greet"] = tool(greet, NAMED)
        found = await ctx.tools()
        again = (await ctx.invoke("greet", {"who": "Ada"})).output
        return f"{found['greet'].description} {'grow' in found} {'bash' in found} {again}"

    async def definition(given: points.ToolID, output: points.DefinitionOutput) -> None:
        if given.tool_id == "greet":
            output.description = "Greets."

    tools |= {"grow": tool(grow)}
    house.says(f"== turn\ntool: grow\n{END}")
    door = await house.open()
    door.plugin({"tool": tools, "tool.definition": definition})
    session = await door.session()
    assert said(await door.ask(session, "go")) == "done"
    assert results(await door.stored(session)) == ["Greets. False True Hello, Ada!"]
    assert "greet" not in str(house.requests()[0]["tools"])


async def test_a_call_that_has_ended_invokes_nothing_more(house: Machine) -> None:
    kept: list[ToolContext] = []

    async def keep(args: Any, ctx: ToolContext) -> str:
        kept.append(ctx)
        return "kept"

    await play(house, "tool: keep", tools={"keep": tool(keep), "greet": tool(greet, NAMED)})
    with pytest.raises(ToolFailure, match="its own call has ended"):
        await kept[0].invoke("greet", {"who": "Ada"})


async def test_a_tool_that_outlives_an_abort_invokes_nothing_more(house: Machine) -> None:
    refused: list[str] = []
    waiting = asyncio.Event()

    async def stubborn(args: Any, ctx: ToolContext) -> str:
        try:
            waiting.set()
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            with pytest.raises(ToolFailure, match="its own call has ended") as failure:
                await ctx.invoke("greet", {"who": "Ada"})
            refused.append(str(failure.value))
        return "done"

    house.says(f"== turn\ntool: stubborn\n{END}")
    door = await house.open()
    door.plugin({"tool": {"stubborn": tool(stubborn), "greet": tool(greet, NAMED)}})
    session = await door.session()
    await door.start(session, "go")
    await asyncio.wait_for(waiting.wait(), 10)
    await door.client.abort(session)
    await door.idle(session)
    assert len(refused) == 1


async def test_what_is_no_json_is_no_argument(house: Machine) -> None:
    async def odd(args: Any, ctx: ToolContext) -> ToolResult:
        return await ctx.invoke("greet", {"who": object()})

    played = await play(house, "tool: odd", tools={"odd": tool(odd), "greet": tool(greet, NAMED)})
    assert played.read[0].startswith("The arguments of greet are not JSON")


async def test_a_sub_agent_works_for_an_invoked_task(house: Machine) -> None:
    """Its session stands in the part's metadata, where clients look for it."""
    house.says(
        "== turn\n"
        + ask("task", description="look", prompt="look at it", subagent_type="general")
        + '\n== when "look at it"\ntext: seen\n'
        + END
    )
    door = await house.open()
    door.plugin({"tool": {"relay": RELAY}})
    session = await door.session()
    assert said(await door.ask(session, "go")) == "done"
    (part,) = [part for message in await door.stored(session) for part in calls_of(message)]
    assert isinstance(part.state, ToolCompleted)
    assert "seen" in part.state.output
    child = part.state.metadata["sessionId"]
    assert (await door.live(child)).session.parent_id == session
