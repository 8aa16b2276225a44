"""The tool in a session: a scripted model's calls, the wire, permissions, events, sub-agents."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.self.room import SECRETS

from instar.plugin import Value
from instar.testing import Machine, RuntimeUnderTest, results

pytest_plugins = ["tests.turn"]

MINE = """
from instar.plugin import Tool
from tests.plugins.self.room import Room

ROOM = Room()

async def _search(args, context):
    return "found"

async def mine(input, options):
    ROOM.declare(input.registry)
    given = {"type": "object", "properties": {}}
    return {"tool": {"web_search": Tool("Search the web.", given, _search, aliases=("websearch",))}}
"""


def call(**args: Any) -> str:
    return f"    tool: self {json.dumps(args, ensure_ascii=False)}\n"


def turn(*lines: str) -> str:
    return "    == turn\n" + "".join(lines) + "\n"


async def opened(house: Machine, *turns: str, on: Any = True, **settings: Any) -> RuntimeUnderTest:
    house.says("".join([*turns, turn("    text: done\n")]))
    house.plugin(MINE)
    house.settings(tools={"self_evolution": on} if on is not None else {}, **settings)
    return await house.open()


@pytest.mark.slow
async def test_nanobots_examples_for_sub_agents_answer_as_they_are_printed(house: Machine) -> None:
    """All others, with the rooms of the core, are in `tests/e2e/test_self_examples.py`."""
    key = {"session_key": "weixin:user123"}
    story = [
        (
            call(action="inspect", key="subagents._running_tasks"),
            "subagents: 2 running — ['a1b2c3', 'd4e5f6']",
        ),
        (call(action="call", method="subagents.get_running_count"), "2"),
        (call(action="call", method="subagents.cancel_by_session", args=key), "2"),
    ]
    door = await opened(house, *(turn(line) for line, _ in story))
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session)) == [answer for _, answer in story]


@pytest.mark.slow
async def test_a_tool_that_was_taken_away_is_not_in_the_next_request_and_answers_unknown(
    house: Machine,
) -> None:
    door = await opened(
        house,
        turn(call(action="manage_tool", name="web_search", manage_action="unregister")),
        turn("    tool: web_search {}\n"),
        turn(call(action="list_tools")),
        turn(call(action="manage_tool", name="web_search", manage_action="register")),
        turn("    tool: web_search {}\n"),
    )
    session = await door.session()
    await door.ask(session, "go")
    offered = ["web_search" in names(request) for request in house.requests()]
    assert offered == [True, False, False, False, True, True]
    _, unknown, listed, _, found = results(await door.stored(session))
    assert "unavailable tool 'web_search'" in unknown
    assert "web_search" not in listed
    assert listed.startswith("Tools (")
    assert "\n  read: " in listed
    assert "\n  self: " in listed
    assert found == "found"
    other = await door.session()
    await door.ask(other, "go")
    assert "web_search" in names(house.requests()[6])


@pytest.mark.slow
async def test_a_rule_about_taking_a_tool_away_holds_whatever_the_tool_is_called_by(house: Machine) -> None:
    door = await opened(
        house,
        turn(call(action="manage_tool", name="websearch", manage_action="unregister")),
        turn(call(action="manage_tool", name="read", manage_action="unregister")),
        permission={"self": {"*": "allow", "manage_tool web_search": "deny"}},
    )
    session = await door.session()
    await door.ask(session, "go")
    denied, done = results(await door.stored(session))
    assert "manage_tool web_search" in denied
    assert done == "Unregistered tool 'read'"
    assert "web_search" in names(house.requests()[-1])


def names(request: dict[str, Any]) -> list[str]:
    return [tool["function"]["name"] for tool in request["tools"]]


@pytest.mark.slow
@pytest.mark.parametrize("on", [None, False])
async def test_without_the_switch_there_is_no_such_tool(house: Machine, on: Any) -> None:
    door = await opened(house, turn(call(action="inspect")), on=on, plugin=["self"])
    session = await door.session()
    await door.ask(session, "go")
    assert "unavailable tool 'self'" in results(await door.stored(session))[0]


async def test_the_switch_is_no_name_of_a_tool(house: Machine) -> None:
    door = await opened(house)
    rules = [rule for agent in door.runtime.instance.agents.all() for rule in agent.permission]
    assert "self_evolution" not in [rule.permission for rule in rules]


@pytest.mark.slow
async def test_a_change_is_an_event_with_its_session_and_its_call(house: Machine) -> None:
    door = await opened(house, turn(call(action="modify", key="max_iterations", value=80)))
    session = await door.session()
    answer = await door.ask(session, "go")
    (told,) = door.of("self.modified")
    assert (told.path, told.old, told.new, told.session_id) == ("max_iterations", 40, 80, session)
    (part,) = [one for message in await door.stored(session) for one in message.parts if one.type == "tool"]
    assert told.call_id == part.call_id
    assert part.state.title == "Set max_iterations = 80 (was 40)"
    assert answer.info.role == "assistant"


@pytest.mark.slow
async def test_rules_and_hooks_decide_on_what_is_called_and_set(house: Machine) -> None:
    seen = []

    async def before(given: Any, output: Any) -> None:
        seen.append(output.args)

    door = await opened(
        house,
        turn(
            call(action="call", method="subagents.cancel_by_session", args={"session_key": "x"}),
            call(action="call", method="subagents.get_running_count"),
            call(action="modify", key="model", value="a/b"),
        ),
        permission={"self": {"*": "allow", "call subagents.cancel*": "deny", "modify model": "deny"}},
    )
    door.plugin({"tool.execute.before": before})
    session = await door.session()
    await door.ask(session, "go")
    refused, counted, model = results(await door.stored(session))
    assert counted == "2"
    assert "denies" in refused or "prevents" in refused or "denied" in refused
    assert "Set model" not in model
    assert seen[0]["method"] == "subagents.cancel_by_session"


@pytest.mark.slow
async def test_the_watchdog_looks_before_each_step_and_each_call(house: Machine) -> None:
    async def break_it(given: Any, output: Any) -> None:
        if given.step == 1:
            room.put(given.session_id, "max_iterations", 1_000_000)

    door = await opened(house, turn("    tool: web_search {}\n"))
    (view,) = [one for one in door.runtime.registry.views.values() if one.name == "parameters"]
    value = view.children["max_iterations"]

    class room:  # noqa: N801 - stands for the room of the plugin
        put = staticmethod(lambda session, name, new: value.write(session, new))

    door.plugin({"step.before": break_it})
    session = await door.session()
    await door.ask(session, "go")
    (told,) = door.of("self.modified")
    assert (told.path, told.old, told.new, told.call_id) == ("max_iterations", 1_000_000, 40, "")


@pytest.mark.slow
async def test_what_goes_out_of_range_within_a_step_is_reset_before_its_next_call(house: Machine) -> None:
    door = await opened(house, turn("    tool: web_search {}\n"))
    (view,) = [one for one in door.runtime.registry.views.values() if one.name == "parameters"]
    value = view.children["max_iterations"]
    assert isinstance(value, Value)
    write: Any = value.write
    seen: list[list[str]] = []

    async def broken(given: Any, output: Any) -> None:
        write(given.session_id, 1_000_000)

    async def ran(given: Any, output: Any) -> None:
        seen.append([one.path for one in door.of("self.modified")])

    # By then the watchdog has looked at the step.
    door.plugin({"chat.params": broken, "tool.execute.after": ran})
    session = await door.session()
    await door.ask(session, "go")
    assert seen == [["max_iterations"]]


@pytest.mark.slow
async def test_a_sub_agent_gets_a_copy_and_does_not_reach_its_caller(house: Machine) -> None:
    task = {"description": "look", "prompt": "child work", "subagent_type": "general"}
    door = await opened(
        house,
        turn(
            call(action="modify", key="max_iterations", value=80),
            call(action="modify", key="mine", value=1),
            call(action="manage_tool", name="web_search", manage_action="unregister"),
        ),
        turn(f"    tool: task {json.dumps(task)}\n"),
        turn(call(action="inspect")),
        '    == when "child work" once\n'
        + call(action="inspect")
        + call(action="modify", key="mine", value=2)
        + "\n",
        '    == when "_runtime_vars: " once\n    text: looked\n\n',
    )
    session = await door.session()
    await door.ask(session, "go")
    (child,) = [one for one in door.of("session.created") if one.info.parent_id == session]
    looked, _ = results(await door.stored(child.info.id))
    assert looked.startswith("max_iterations: 80\n")
    assert looked.endswith("_runtime_vars: {'mine': 1}")
    assert results(await door.stored(session))[-1].endswith("_runtime_vars: {'mine': 1}")
    requests = [names(one) for one in house.requests() if one["session"] == child.info.id]
    assert requests
    assert not any("web_search" in one for one in requests)


@pytest.mark.slow
async def test_no_secret_of_a_room_or_the_environment_leaves_by_any_door(house: Machine) -> None:
    house.environment["MY_API_KEY"] = "sk-ENVIRONMENT-1234"
    door = await opened(
        house,
        turn(
            call(action="call", method="context.build_system_prompt"),
            call(action="inspect", key="web_config.search.api_key"),
            call(action="inspect", key="web_config.search.more.list"),
            call(action="modify", key="mine", value="it is sk-ENVIRONMENT-1234"),
            call(action="call", method="odd.fails_too"),
            call(action="inspect", key="odd.object"),
        ),
    )
    session = await door.session()
    await door.ask(session, "go")
    answers = results(await door.stored(session))
    assert answers[3] == "Set _runtime_vars.mine = 'it is ***'"
    told = json.dumps([one.to_plain() for one in door.heard if one.type == "self.modified"])
    # What only the room knows by its value is not known to instar: it stands in a `Secret` or under a telling key.
    hidden = [secret for secret in (*SECRETS[1:], "sk-ENVIRONMENT-1234") if secret in "".join(answers) + told]
    assert hidden == []


@pytest.mark.slow
async def test_what_was_done_in_a_session_is_counted_and_forgotten_with_it(house: Machine) -> None:
    door = await opened(
        house,
        turn(
            call(action="inspect"),
            call(action="modify", key="mine", value=1),
            call(action="call", method="odd.nothing"),
        ),
        turn(call(action="inspect", key="self.changes")),
        turn(call(action="inspect", key="self.calls")),
        turn(call(action="inspect", key="self.reads")),
    )
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session))[3:] == ["self.changes: 1", "self.calls: 1", "self.reads: 4"]
    view = door.runtime.registry.views["self"].children["changes"]
    assert isinstance(view, Value)
    assert view.read(session) == 1
    await door.client.delete(session)
    assert view.read(session) == 0


@pytest.mark.slow
async def test_the_example_of_a_plugin_s_view_can_be_looked_at_set_and_called(house: Machine) -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "plugin-api.md").read_text("utf-8")
    shown = r"^```python file=\.instar/plugins/shelf\.py\n(.*?)^```$"
    (source,) = re.findall(shown, text, re.MULTILINE | re.DOTALL)
    house.plugin(source, "shelf")
    door = await opened(
        house,
        turn(call(action="modify", key="shelf.height", value=90)),
        turn(
            call(action="modify", key="shelf.height", value=301),
            call(action="call", method="shelf.books"),
        ),
        turn(call(action="reset", key="shelf.height")),
    )
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session)) == [
        "Set shelf.height = 90 (was 100)",
        "Error: 'shelf.height' must be <= 300",
        "30",
        "Reset shelf.height = 100 (was 90)",
    ]
