"""The door: order, one output for all, gates that fail closed, observers that fail open."""

from typing import Any

import pytest

from instar.bus import Bus
from instar.event import Event, PluginError
from instar.plugin import points
from instar.plugin.door import Plugins, Refused
from instar.plugin.tool import Tool, ToolResult

BEFORE = points.ToolCallInput(tool="bash", session_id="ses_1", call_id="c")
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
    door({"tool.execute.befor": fail})
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
