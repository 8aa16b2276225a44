"""The door: order, one output for all, gates that fail closed, observers that fail open."""

import asyncio
from typing import Any

import pytest

from instar.event import Event, PluginError
from instar.event.bus import Bus
from instar.message import Created, ModelRef, TextPart, User, WithParts, text_of
from instar.plugin import Refused, points
from instar.plugin.door import Plugins
from instar.plugin.tool import Tool, ToolResult

BEFORE = points.ToolCallInput(tool="bash", session_id="ses_1", call_id="c")
USER = User(
    id="msg_1",
    session_id="ses_1",
    time=Created(created=1),
    agent="build",
    model=ModelRef(provider_id="scripted", model_id="x"),
)
TEXT = points.TextInput(session_id="ses_1", message_id="msg_1", part_id="prt_1")


def door(*hooks: dict[str, Any]) -> tuple[Plugins, list[Event]]:
    bus, heard = Bus(), []
    bus.observe(heard.append)
    plugins = Plugins(bus, points.CORE)
    for number, one in enumerate(hooks):
        plugins.add(f"plugin{number}", one)
    return plugins, heard


def append(text: str) -> Any:
    async def hook(given: Any, output: points.TextOutput) -> None:
        output.text += text

    return hook


async def fail(given: Any, output: Any) -> None:
    if isinstance(output, points.TextOutput):
        output.text = "half made"
    raise RuntimeError("no luck")


async def test_plugins_run_in_registration_order_on_one_output() -> None:
    name = "experimental.text.complete"
    plugins, _ = door({name: append("1")}, {name: append("2")}, {name: append("3")})
    output = points.TextOutput(text="0")
    assert await plugins.trigger(points.TEXT_COMPLETE, TEXT, output) is output
    assert output.text == "0123"


async def test_a_hook_may_be_named_without_the_experimental_prefix() -> None:
    plugins, _ = door({"text.complete": append("!")})
    assert (await plugins.trigger(points.TEXT_COMPLETE, TEXT, points.TextOutput(text="a"))).text == "a!"


async def test_an_observer_that_fails_loses_its_changes_and_its_neighbours_run() -> None:
    name = "experimental.text.complete"
    plugins, heard = door({name: append("1")}, {name: fail}, {name: append("2")})
    output = await plugins.trigger(points.TEXT_COMPLETE, TEXT, points.TextOutput(text="0"))
    assert output.text == "012"
    assert [event.properties for event in heard] == [
        PluginError(plugin="plugin1", hook=name, message="no luck")
    ]


async def test_a_gate_that_fails_refuses_and_says_who_and_why() -> None:
    called = []

    async def later(given: Any, output: Any) -> None:
        called.append(given)

    plugins, heard = door({"tool.execute.before": fail}, {"tool.execute.before": later})
    with pytest.raises(Refused, match="no luck") as refused:
        await plugins.trigger(points.TOOL_BEFORE, BEFORE, points.ArgsOutput(args={}))
    assert refused.value.plugin == "plugin0"
    assert (called, heard) == ([], [])


def test_nobody_listens_where_nobody_subscribed() -> None:
    plugins, _ = door({"tool.execute.before": fail})
    assert plugins.listens(points.TOOL_BEFORE)
    assert not plugins.listens(points.TEXT_COMPLETE)


def test_a_name_that_is_no_hook_point_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    plugins, _ = door({"tool.execute.befor": fail})
    plugins.warn()
    assert "unknown hook plugin=plugin0 hook=tool.execute.befor" in caplog.text


async def test_tools_added_to_a_live_mapping_are_seen_at_once() -> None:
    async def execute(args: Any, context: Any) -> ToolResult:
        return ToolResult(output="")

    tool = Tool(description="d", parameters={"type": "object"}, execute=execute)
    mapping: dict[str, Tool] = {}
    plugins, _ = door({"tool": mapping})
    assert plugins.tools() == {}
    mapping["late"] = tool
    assert plugins.tools() == {"late": tool}


async def stuck(given: Any, output: Any) -> None:
    output.text = "half made"
    await asyncio.Event().wait()


NONSENSE: list[Any] = [5, None, object(), ["a"], {"a": 1}]


@pytest.mark.parametrize("left", NONSENSE)
async def test_an_observer_that_leaves_nonsense_is_named_and_its_change_is_gone(left: Any) -> None:
    name = "experimental.text.complete"

    async def hook(given: Any, output: points.TextOutput) -> None:
        output.text = left

    plugins, heard = door({name: hook}, {name: append("!")})
    assert (await plugins.trigger(points.TEXT_COMPLETE, TEXT, points.TextOutput(text="a"))).text == "a!"
    (error,) = [event.properties for event in heard]
    assert isinstance(error, PluginError)
    assert (error.plugin, error.hook) == ("plugin0", name)
    assert error.message.startswith("what it left in `text` cannot be used: ")


async def test_a_misspelt_field_is_named() -> None:
    async def hook(given: Any, output: Any) -> None:
        output.txt = "lost"

    plugins, heard = door({"text.complete": hook})
    await plugins.trigger(points.TEXT_COMPLETE, TEXT, points.TextOutput(text="a"))
    assert [event.properties.message for event in heard] == [  # type: ignore[attr-defined]
        "it set `txt`, and TextOutput has no such field"
    ]


@pytest.mark.parametrize("args", [*NONSENSE[:4], {"a": object()}, {"a": {1, 2}, "b": b""}])
async def test_a_gate_refuses_what_is_nonsense(args: Any) -> None:
    async def hook(given: Any, output: points.ArgsOutput) -> None:
        output.args = args

    plugins, _ = door({"tool.execute.before": hook})
    output = points.ArgsOutput(args={"command": "ls"})
    if isinstance(args, dict) and "b" in args:
        # A set and bytes have a form in JSON; what comes back is that form.
        assert (await plugins.trigger(points.TOOL_BEFORE, BEFORE, output)).args == {"a": [1, 2], "b": ""}
        return
    with pytest.raises(Refused, match="what it left in `args` cannot be used"):
        await plugins.trigger(points.TOOL_BEFORE, BEFORE, output)
    assert output.args == {"command": "ls"}


async def test_what_a_handler_changes_after_it_returned_changes_nothing() -> None:
    kept: list[points.ArgsOutput] = []

    async def hook(given: Any, output: points.ArgsOutput) -> None:
        output.args["list"] = [1]
        kept.append(output)

    async def look(given: Any, output: points.ArgsOutput) -> None:
        kept[0].args["list"].append(2)
        kept[0].args = {"gone": True}

    plugins, _ = door({"tool.execute.before": hook}, {"tool.execute.before": look})
    output = await plugins.trigger(points.TOOL_BEFORE, BEFORE, points.ArgsOutput(args={}))
    kept[0].args["later"] = True
    assert output.args == {"list": [1]}


async def test_messages_may_be_pushed_as_objects_or_as_dicts_and_are_copies() -> None:
    mine = WithParts(
        info=USER, parts=[TextPart(id="prt_2", session_id="ses_1", message_id="msg_1", text="two")]
    )

    async def hook(given: Any, output: points.MessagesOutput) -> None:
        output.messages[0].parts.clear()
        output.messages.append(mine)
        output.messages.append(mine.to_plain())  # type: ignore[arg-type]

    plugins, heard = door({"experimental.chat.messages.transform": hook})
    first = WithParts(
        info=USER, parts=[TextPart(id="prt_1", session_id="ses_1", message_id="msg_1", text="one")]
    )
    output = points.MessagesOutput(messages=[first])
    await plugins.trigger(points.MESSAGES, points.Empty(), output)
    mine.parts.clear()
    assert heard == []
    assert [text_of(message) for message in output.messages] == ["", "two", "two"]
    assert text_of(first) == "one"


async def test_parts_stay_objects_and_a_dict_stays_one() -> None:
    part = TextPart(id="prt_1", session_id="ses_1", message_id="msg_1", text="one")

    async def hook(given: Any, output: points.CommandOutput) -> None:
        output.parts.append({"type": "text", "text": "two"})

    plugins, _ = door({"command.execute.before": hook})
    given = points.CommandInput(command="c", session_id="ses_1", arguments="")
    output = await plugins.trigger(points.COMMAND_BEFORE, given, points.CommandOutput(parts=[part]))
    assert output.parts == [part, {"type": "text", "text": "two"}]
    assert output.parts[0] is not part


async def test_a_tools_definition_may_be_changed_under_either_name() -> None:
    async def old(given: Any, output: points.DefinitionOutput) -> None:
        output.parameters["first"] = True

    async def new(given: Any, output: points.DefinitionOutput) -> None:
        output.json_schema = {**output.json_schema, "second": True}

    plugins, heard = door({"tool.definition": old}, {"tool.definition": new})
    output = points.DefinitionOutput(description="d", parameters={})
    await plugins.trigger(points.TOOL_DEFINITION, points.ToolID(tool_id="x"), output)
    assert (output.parameters, heard) == ({"first": True, "second": True}, [])


async def test_a_handler_that_never_returns_is_ended_and_named_and_its_neighbours_run() -> None:
    plugins, heard = door({"text.complete": stuck, "timeout": 0.05}, {"text.complete": append("!")})
    assert (await plugins.trigger(points.TEXT_COMPLETE, TEXT, points.TextOutput(text="a"))).text == "a!"
    assert [event.properties.message for event in heard] == [  # type: ignore[attr-defined]
        "it did not return within 0.05 s and was ended"
    ]


async def test_a_gate_whose_handler_never_returns_refuses() -> None:
    plugins, _ = door({"tool.execute.before": stuck, "timeout": 0.05})
    with pytest.raises(Refused, match=r"it did not return within 0\.05 s"):
        await plugins.trigger(points.TOOL_BEFORE, BEFORE, points.ArgsOutput(args={}))


async def test_a_plugin_with_limits_of_its_own_is_waited_for() -> None:
    async def slow(given: Any, output: points.TextOutput) -> None:
        await asyncio.sleep(0.01)
        output.text += "!"

    plugins, _ = door({"text.complete": slow, "timeout": None})
    assert (await plugins.trigger(points.TEXT_COMPLETE, TEXT, points.TextOutput(text="a"))).text == "a!"


@pytest.mark.parametrize("timeout", [5, None])
async def test_a_handler_ends_with_the_turn_that_called_it(timeout: float | None) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def hook(given: Any, output: Any) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    plugins, heard = door({"text.complete": hook, "timeout": timeout})
    turn = asyncio.create_task(plugins.trigger(points.TEXT_COMPLETE, TEXT, points.TextOutput(text="a")))
    await began.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    assert (ended.is_set(), heard) == (True, [])


@pytest.mark.parametrize("timeout", [5, None])
async def test_a_handler_that_is_cancelled_from_within_does_not_end_the_turn(timeout: float | None) -> None:
    async def hook(given: Any, output: Any) -> None:
        raise asyncio.CancelledError

    plugins, heard = door({"text.complete": hook, "timeout": timeout})
    await plugins.trigger(points.TEXT_COMPLETE, TEXT, points.TextOutput(text="a"))
    assert [event.properties.message for event in heard] == [  # type: ignore[attr-defined]
        "it was cancelled from within"
    ]


async def test_dispose_is_told_to_every_plugin_also_when_one_fails() -> None:
    told = []

    async def dispose() -> None:
        told.append(True)

    async def broken() -> None:
        raise RuntimeError("no luck")

    plugins, heard = door({"dispose": broken}, {"dispose": dispose})
    await plugins.dispose()
    assert (told, [event.type for event in heard]) == ([True], ["plugin.error"])


async def test_a_tool_that_is_none_is_named_once_and_left_out() -> None:
    plugins, heard = door({"tool": {"bad": "not a tool"}})
    assert (plugins.tools(), plugins.tools()) == ({}, {})
    assert [event.properties.message for event in heard] == ["the tool 'bad' is no Tool"]  # type: ignore[attr-defined]


async def test_config_hooks_see_each_others_changes_and_what_is_refused_is_gone() -> None:
    async def add(config: dict[str, Any]) -> None:
        config["model"] = "scripted/a"

    async def nonsense(config: dict[str, Any]) -> None:
        config.clear()
        config["when"] = object()

    async def refused(config: dict[str, Any]) -> None:
        config["limits"] = "none"

    async def last(config: dict[str, Any]) -> None:
        config["model"] += "b"

    def accept(config: dict[str, Any]) -> None:
        if "limits" in config:
            raise ValueError("limits: expected a map")

    plugins, heard = door(*({"config": hook} for hook in (add, nonsense, refused, last)))
    config: dict[str, Any] = {"username": "Ada"}
    problems = await plugins.configure(config, accept)
    assert config == {"username": "Ada", "model": "scripted/ab"}
    assert problems[1] == "what the plugin plugin2 changed is left out: limits: expected a map"
    assert [event.properties.plugin for event in heard] == ["plugin1", "plugin2"]  # type: ignore[attr-defined]
