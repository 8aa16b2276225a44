"""The example lines of nanobot's tool `self`, in a session: the answers are those that nanobot prints."""

import asyncio
import json
from typing import Any

import pytest

from instar.plugin import Tool, Value
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest, results

pytest_plugins = ["tests.turn"]

SEARCH = """
from instar.plugin import Tool

async def _search(args, context):
    return "found"

async def mine(input, options):
    given = {"type": "object", "properties": {}}
    return {"tool": {"web_search": Tool("Search the web.", given, _search)}}
"""
LEAST = {"max_iterations": 40, "context_window_tokens": 65536}
"""What nanobot prints of the parameters before anything is set; the model is the one that answers here."""


def call(**args: Any) -> str:
    return f"    tool: self {json.dumps(args, ensure_ascii=False)}\n"


def turn(*lines: str) -> str:
    return "    == turn\n" + "".join(lines) + "\n"


async def opened(house: Machine, *turns: str, **settings: Any) -> RuntimeUnderTest:
    house.says("".join([*turns, turn("    text: done\n")]))
    house.plugin(SEARCH)
    house.settings(tools={"self_evolution": True}, **settings)
    return await house.open()


async def told(house: Machine, *lines: str, **settings: Any) -> list[str]:
    """What the tool answers to calls, one a turn."""
    door = await opened(house, *(turn(line) for line in lines), **settings)
    session = await door.session()
    await door.ask(session, "go")
    return results(await door.stored(session))


INSPECT = [
    (
        call(action="inspect"),
        "max_iterations: 40\ncontext_window_tokens: 65536\nmodel: 'scripted/x'",
    ),
    (call(action="inspect", key="subagents._running_tasks"), "subagents: 0 running — []"),
    (call(action="inspect", key="web_config.enable"), "web_config.enable: True"),
    (
        call(action="inspect", key="context.build_system_prompt"),
        "method build_system_prompt() — use 'call' action to invoke",
    ),
]
MODIFY = [
    (call(action="modify", key="max_iterations", value=80), "Set max_iterations = 80 (was 40)"),
    (
        call(action="modify", key="provider_retry_mode", value="persistent"),
        "Set provider_retry_mode = 'persistent' (was 'standard')",
    ),
    (call(action="modify", key="my_custom_flag", value=True), "Set _runtime_vars.my_custom_flag = True"),
    (call(action="call", method="subagents.get_running_count"), "0"),
]
TOOLS = [
    (
        call(action="manage_tool", name="web_search", manage_action="unregister"),
        "Unregistered tool 'web_search'",
    ),
    (
        call(action="manage_tool", name="web_search", manage_action="register"),
        "Re-registered tool 'web_search'",
    ),
]
SNAPSHOTS = [
    (call(action="snapshot", name="coding_mode"), "Snapshot 'coding_mode' saved"),
    (call(action="modify", key="max_iterations", value=100), "Set max_iterations = 100 (was 80)"),
    (
        call(action="modify", key="context_window_tokens", value=131072),
        "Set context_window_tokens = 131072 (was 65536)",
    ),
    (call(action="snapshot", name="high_capacity"), "Snapshot 'high_capacity' saved"),
    (call(action="restore", name="coding_mode"), "Restored snapshot 'coding_mode'"),
    (call(action="list_snapshots"), "Snapshots (2): ['coding_mode', 'high_capacity']"),
    (call(action="reset", key="max_iterations"), "Reset max_iterations = 40 (was 80)"),
    (call(action="reset", key="my_custom_flag"), "Deleted _runtime_vars.my_custom_flag"),
]
AFTER = [
    (call(action="inspect", key="max_iterations"), "max_iterations: 40"),
    (
        call(action="reset", key="my_custom_flag"),
        "'my_custom_flag' is not a known property or runtime variable",
    ),
]
"""What is left once the examples are through."""


@pytest.mark.slow
async def test_the_example_lines_answer_as_they_are_printed(house: Machine) -> None:
    story = [*INSPECT, *MODIFY, *TOOLS, *SNAPSHOTS, *AFTER]
    assert await told(house, *(line for line, _ in story)) == [answer for _, answer in story]


async def test_calls_of_one_answer_see_what_the_calls_before_them_changed(house: Machine) -> None:
    """Calls that only look go to other tools beside them."""
    story = [
        *SNAPSHOTS[:1],
        (call(action="modify", key="max_iterations", value=80), "Set max_iterations = 80 (was 40)"),
        (call(action="inspect", key="max_iterations"), "max_iterations: 80"),
        *SNAPSHOTS[4:5],
        (call(action="inspect", key="max_iterations"), "max_iterations: 40"),
        (call(action="list_snapshots"), "Snapshots (1): ['coding_mode']"),
    ]
    door = await opened(house, turn(*(line for line, _ in story)))
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session)) == [answer for _, answer in story]


async def test_the_system_prompt_that_a_call_gives_is_the_one_that_was_sent(house: Machine) -> None:
    (prompt,) = await told(house, call(action="call", method="context.build_system_prompt"))
    assert prompt == "\n\n".join(house.requests()[0]["system"])
    assert len(prompt) > 100


async def test_the_tools_are_listed_with_what_they_are_for(house: Machine) -> None:
    (listed,) = await told(house, call(action="list_tools"))
    head, *lines = listed.splitlines()
    offered = {tool["function"]["name"] for tool in house.requests()[0]["tools"]}
    assert head == f"Tools ({len(offered)}):"
    assert {line.split(":")[0].strip() for line in lines} == offered
    assert "  web_search: Search the web." in lines


@pytest.mark.slow
async def test_running_sub_agents_are_seen_counted_and_cancelled(house: Machine) -> None:
    task = {"description": "look", "prompt": "child work", "subagent_type": "general"}
    line = f"    tool: task {json.dumps(task)}\n"
    door = await opened(
        house,
        turn(line, line, "    tool: watch {}\n"),
        '    == when "child work" once\n    tool: hang {}\n\n',
    )
    running = door.runtime.registry.views["subagents"].children["_running_tasks"]
    assert isinstance(running, Value)
    hung: list[str] = []

    async def hang(args: Any, context: Any) -> str:
        hung.append(context.session_id)
        await asyncio.Event().wait()
        return ""

    async def watch(args: Any, context: Any) -> str:
        await door.until(lambda event: len(hung) == 2)
        asked: list[dict[str, Any]] = [
            {"action": "inspect", "key": "subagents._running_tasks"},
            {"action": "call", "method": "subagents.get_running_count"},
            {
                "action": "call",
                "method": "subagents.cancel_by_session",
                "args": {"session_key": context.session_id},
            },
        ]
        return "\n".join([(await context.invoke("self", one)).output for one in asked])

    given = {"type": "object", "properties": {}}
    door.plugin({"tool": {"hang": Tool("Hang.", given, hang), "watch": Tool("Watch.", given, watch)}})
    session = await door.session()
    await door.ask(session, "go")
    seen, counted, ended = results(await door.stored(session))[2].splitlines()
    assert seen in {f"subagents: 2 running — {[one, other]}" for one, other in (hung, hung[::-1])}
    assert (counted, ended) == ("2", "2")


@pytest.mark.parametrize("more", [{}, {"background": True}])
async def test_sub_agents_are_seen_from_the_answer_that_sets_them_to_work(
    house: Machine, more: dict[str, Any]
) -> None:
    task = {"description": "look", "prompt": "child work", "subagent_type": "general", **more}
    door = await opened(
        house,
        turn(
            f"    tool: task {json.dumps(task)}\n" * 2,
            call(action="inspect", key="subagents._running_tasks"),
            call(action="call", method="subagents.get_running_count"),
            call(action="call", method="subagents.cancel_by_session", args={"session_key": "KEY"}),
            call(action="call", method="subagents.get_running_count"),
        ),
        '    == when "child work"\n    tool: bash {"command": "sleep 4711"}\n\n',
    )
    session = await door.session()

    async def name(given: Any, output: Any) -> None:
        if given.tool == "self" and "args" in output.args:
            output.args["args"] = {"session_key": session}

    door.plugin({"tool.execute.before": name})
    await asyncio.wait_for(door.ask(session, "go"), TIMEOUT)
    *_, seen, counted, cancelled, left = results(await door.stored(session))[:6]
    children = [one.id for one in await door.client.children(session)]
    assert seen in {f"subagents: 2 running — {[one, other]}" for one, other in (children, children[::-1])}
    assert (counted, cancelled, left) == ("2", "2", "0")


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("max_iterations", 0, "Error: 'max_iterations' must be >= 1"),
        ("max_iterations", 101, "Error: 'max_iterations' must be <= 100"),
        ("max_iterations", "eighty", "Error: 'max_iterations' must be int, got str"),
        ("max_iterations", "101", "Error: 'max_iterations' must be <= 100"),
        ("max_iterations", 10**30, "Error: unsupported int (more than 64 bits)"),
        ("max_iterations", "80.5", "Error: 'max_iterations' must be int, got float"),
        ("max_iterations", True, "Error: 'max_iterations' must be int, got bool"),
        ("context_window_tokens", 4095, "Error: 'context_window_tokens' must be >= 4096"),
        ("context_window_tokens", 1_000_001, "Error: 'context_window_tokens' must be <= 1000000"),
        ("model", "", "Error: 'model' must be at least 1 characters"),
    ],
)
async def test_a_restricted_parameter_keeps_its_type_and_range(
    house: Machine, key: str, value: Any, said: str
) -> None:
    refused, now = await told(
        house, call(action="modify", key=key, value=value), call(action="inspect", key=key)
    )
    assert refused == said
    assert now == f"{key}: {LEAST.get(key, 'scripted/x')!r}"


@pytest.mark.parametrize("ends", [{"max_iterations": (1, 100), "context_window_tokens": (4096, 1_000_000)}])
async def test_the_ends_of_a_range_are_taken(house: Machine, ends: dict[str, tuple[int, int]]) -> None:
    lines = [call(action="modify", key=key, value=end) for key, both in ends.items() for end in both]
    door = await opened(house, turn(*lines))
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session)) == [
        f"Set {key} = {end} (was {was})"
        for key, (least, most) in ends.items()
        for end, was in ((least, LEAST[key]), (most, least))
    ]


BLOCKED = [
    *("bus", "provider", "_running", "_config_defaults", "_runtime_vars", "_config_snapshots"),
    *("__class__", "__dict__", "subagents.__class__", "tools.__init__.__globals__"),
]


@pytest.mark.parametrize("key", BLOCKED)
async def test_what_nanobot_blocks_is_not_accessible(house: Machine, key: str) -> None:
    looked, changed = await told(
        house, call(action="inspect", key=key), call(action="modify", key=key, value=1)
    )
    assert looked.endswith(" is not accessible")
    assert changed.endswith(" is protected and cannot be modified")


OPEN = [
    *("tools", "subagents", "sessions", "context", "consolidator", "dream", "runner", "commands"),
    *("web_config", "exec_config", "workspace", "hooks", "evolve", "usage", "cost"),
]
"""What nanobot does not block, and what instar adds."""


@pytest.mark.parametrize("key", OPEN)
async def test_what_nanobot_does_not_block_can_be_looked_at(house: Machine, key: str) -> None:
    (seen,) = await told(house, call(action="inspect", key=key))
    assert not seen.startswith("Error")
    assert key in seen


SAFEGUARDS: list[tuple[Any, str]] = [
    (["x"] * 1025, "Error: value too large (max 1024 total elements)"),
    ("x" * 32769, "Error: value too large (max 32768 bytes of text)"),
    (json.loads("[" * 11 + "]" * 11), "Error: value nesting too deep (max 10 levels)"),
]


@pytest.mark.parametrize(("value", "said"), SAFEGUARDS)
async def test_a_value_is_bounded(house: Machine, value: Any, said: str) -> None:
    (refused,) = await told(house, call(action="modify", key="mine", value=value))
    assert refused.endswith(said.removeprefix("Error: "))


async def test_a_number_may_come_as_a_text_and_a_text_may_be_long(house: Machine) -> None:
    story = [
        (call(action="modify", key="max_iterations", value="80"), "Set max_iterations = 80 (was 40)"),
        (
            call(action="modify", key="limits.session.cost", value="1.5"),
            "Set limits.session.cost = 1.5 (was None)",
        ),
        (call(action="modify", key="mine", value="80"), "Set _runtime_vars.mine = '80'"),
        (call(action="inspect", key="_runtime_vars.mine"), "mine: '80'"),
        (call(action="modify", key="long", value="x" * 32768), ""),
        (call(action="inspect", key="_runtime_vars.long.__class__"), "Error: '__class__' is not accessible"),
    ]
    told_, read = await told(house, *(line for line, _ in story)), [answer for _, answer in story]
    assert told_.pop(4).startswith("Set _runtime_vars.long = 'xxx")
    assert told_ == read[:4] + read[5:]


async def test_arguments_of_another_type_are_refused_before_the_tool_sees_them(house: Machine) -> None:
    wrong: list[dict[str, Any]] = [
        *({}, {"action": 5}, {"action": ["inspect"]}, {"action": "inspect", "key": 5}),
        *({"action": "inspect", "key": ["a"]}, {"action": "snapshot", "name": 7}),
        {"action": "snapshot", "name": "a", "persist": "yes"},
        {"action": "call", "method": "subagents.get_running_count", "args": ["a"]},
        {"action": "manage_tool", "name": 7, "manage_action": "register"},
    ]
    for said in await told(house, *(call(**one) for one in wrong)):
        assert said.startswith("The self tool was called with invalid arguments: ")


@pytest.mark.parametrize("key", ["commands", "consolidator.auto", "runner.agent", "workspace.directory"])
async def test_what_is_a_persons_to_change_is_said_with_what_may_be_set(house: Machine, key: str) -> None:
    (refused,) = await told(house, call(action="modify", key=key, value="x"))
    assert refused.startswith(f"Error: '{key}' is read-only: it is a person's to change (instar docs self). ")
    assert "You may set max_iterations, context_window_tokens, model, provider_retry_mode" in refused


async def test_what_a_plugin_set_out_of_range_is_reset_and_said(
    house: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    async def loosen(given: Any, output: Any) -> None:
        parameter = door.runtime.registry.views["parameters"].children["max_iterations"]
        assert isinstance(parameter, Value)
        assert parameter.write is not None
        parameter.write(given.session_id, 500)

    door = await opened(house, turn(call(action="inspect", key="max_iterations")))
    door.plugin({"chat.message": loosen})
    session = await door.session()
    await door.ask(session, "go")
    assert "'max_iterations' must be <= 100; it was reset to its default 40" in caplog.text
    assert [(one.path, one.old, one.new) for one in door.of("self.modified")] == [("max_iterations", 500, 40)]
    assert results(await door.stored(session)) == ["max_iterations: 40"]


async def test_a_sub_agent_registers_nothing_that_its_caller_took_away(house: Machine) -> None:
    task = {"description": "look", "prompt": "child work", "subagent_type": "general"}
    door = await opened(
        house,
        turn(
            call(action="manage_tool", name="web_search", manage_action="unregister"),
            call(action="manage_tool", name="grep", manage_action="unregister"),
            call(action="manage_tool", name="grep", manage_action="register"),
        ),
        turn(f"    tool: task {json.dumps(task)}\n"),
        '    == when "child work" once\n',
        call(action="manage_tool", name="web_search", manage_action="register"),
        call(action="manage_tool", name="glob", manage_action="unregister"),
        call(action="manage_tool", name="glob", manage_action="register") + "\n",
    )
    session = await door.session()
    await door.ask(session, "go")
    (child,) = await door.client.children(session)
    refused, *own = results(await door.stored(child.id))[:3]
    assert refused.startswith("Error: 'web_search' was not previously unregistered")
    assert own == ["Unregistered tool 'glob'", "Re-registered tool 'glob'"]
    offered = [{one["function"]["name"] for one in request["tools"]} for request in house.requests()]
    assert not any("web_search" in names for names in offered[1:])


async def test_there_are_64_variables_and_no_more(house: Machine) -> None:
    lines = [call(action="modify", key=f"k{one}", value=one) for one in range(65)]
    door = await opened(house, turn(*lines))
    session = await door.session()
    await door.ask(session, "go")
    *kept, last = results(await door.stored(session))
    assert all(one.startswith("Set _runtime_vars.k") for one in kept)
    assert last == "Error: _runtime_vars is full (max 64 keys). Reset unused keys first."


async def test_a_restart_gives_the_defaults_back(house: Machine) -> None:
    door = await opened(
        house,
        turn(
            call(action="modify", key="max_iterations", value=80),
            call(action="modify", key="mine", value=1),
            call(action="snapshot", name="kept"),
            call(action="manage_tool", name="web_search", manage_action="unregister"),
        ),
        turn("    text: set\n"),
        turn(call(action="inspect"), call(action="list_snapshots"), "    tool: web_search {}\n"),
    )
    session = await door.session()
    await door.ask(session, "go")
    again = await house.open()
    await again.ask(session, "look")
    seen, snapshots, found = results(await again.stored(session))[-3:]
    assert seen == "max_iterations: 40\ncontext_window_tokens: 65536\nmodel: 'scripted/x'"
    assert (snapshots, found) == ("No snapshots saved", "found")
