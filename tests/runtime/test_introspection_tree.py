"""The tree that the core's rooms declare: their paths, what each holds, and what cannot be reached by it."""

import inspect
import json
from typing import Any

import pytest

from instar.plugin import Branch, Method, Value
from instar.plugins.self import bounds
from instar.plugins.self.tree import SelfTree, TreeNode
from instar.testing import Machine, RuntimeUnderTest, results

pytest_plugins = ["tests.turn"]

PATHS = [
    *("max_iterations", "context_window_tokens", "model", "provider_retry_mode", "tools", "subagents"),
    *("subagents._running_tasks", "subagents.get_running_count", "subagents.cancel_by_session", "sessions"),
    *("context.build_system_prompt", "consolidator", "dream", "runner", "commands", "web_config.enable"),
    *("exec_config", "workspace", "hooks", "evolve", "usage", "cost", "limits"),
]
"""What docs/reference/self.md names."""


def look(**args: Any) -> str:
    return f"== turn\ntool: self {json.dumps({'action': 'inspect', **args})}\n\n"


async def opened(house: Machine, script: str = "", **settings: Any) -> RuntimeUnderTest:
    house.says(script + "== turn\ntext: done\n")
    house.settings(**{"tools": {"self_evolution": True}, **settings})
    return await house.open()


def tree(door: RuntimeUnderTest) -> SelfTree:
    return SelfTree(door.runtime.registry.views.values())


async def read(found: TreeNode, session: str) -> Any:
    assert isinstance(found.node, Value)
    value = found.node.read(session)
    return await value if inspect.isawaitable(value) else value


@pytest.mark.parametrize("path", PATHS)
async def test_every_path_that_nanobots_page_names_is_declared(house: Machine, path: str) -> None:
    door = await opened(house)
    found = tree(door).find(tuple(path.split(".")))
    assert found is not None
    assert found.path == path
    assert found.rest == ()


async def test_every_value_reads_as_its_kind_says_and_as_plain_data(house: Machine) -> None:
    door = await opened(house)
    before, after = await door.session(), await door.session()
    await door.ask(after, "go")
    for session in (before, after):
        for found in tree(door).walk():
            if isinstance(found.node, Value):
                value = await read(found, session)
                json.dumps(value)
                if value is not None:
                    bounds.check(found.path, value, found.node.kind)
                if found.node.default is not None and found.node.kind and session == after:
                    default = found.node.default(session)
                    default = await default if inspect.isawaitable(default) else default
                    assert default == value


async def test_everything_that_is_declared_says_what_it_is(house: Machine) -> None:
    door = await opened(house)
    for found in tree(door).walk():
        assert found.node.doc.strip(), found.path
        assert found.node.doc.rstrip().endswith((".", "…")) or isinstance(found.node, Branch), found.path
        if isinstance(found.node, Method):
            assert found.node.parameters.get("additionalProperties") is False, found.path


async def test_what_writes_or_guards_is_known_by_name(house: Machine) -> None:
    """A new setter is a decision: it belongs in this list, and in docs/reference/self.md."""
    door = await opened(house)
    found = {one.path: one.node for one in tree(door).walk()}
    written = {path: node.guard for path, node in found.items() if isinstance(node, Value) and node.write}
    assert written == {
        "max_iterations": None,
        "context_window_tokens": None,
        "model": None,
        "provider_retry_mode": None,
        "web_config.enable": "tighten",
        "exec_config.enable": "tighten",
        "limits.session.tokens": "tighten",
        "limits.session.cost": "tighten",
    }
    acting = [path for path, node in found.items() if isinstance(node, Method) and node.acts]
    assert acting == ["subagents.cancel_by_session"]


async def test_the_examples_that_look_answer_of_the_real_rooms(house: Machine) -> None:
    script = (
        look()
        + look(key="subagents._running_tasks")
        + look(key="web_config.enable")
        + look(key="context.build_system_prompt")
        + look(action="call", method="subagents.get_running_count")
        + look(key="tools")
        + look(action="manage_tool", name="todowrite", manage_action="unregister")
        + look(key="tools.registered.todowrite")
        + look(key="runner.step")
        + look(key="dream.active")
        + look(key="hooks.active")
        + look(key="evolve.active")
    )
    door = await opened(house, script)
    session = await door.session()
    await door.ask(session, "go")
    said = results(await door.stored(session))
    assert said[:5] == [
        "max_iterations: 40\ncontext_window_tokens: 65536\nmodel: 'scripted/x'",
        "subagents: 0 running — []",
        "web_config.enable: True",
        "method build_system_prompt() — use 'call' action to invoke",
        "0",
    ]
    assert said[5].startswith("tools: ")
    assert "registered — ['bash', " in said[5]
    assert said[7].startswith("Error: 'tools.registered.todowrite' not found")
    assert said[8:] == [
        "runner.step: 9",
        "dream.active: False",
        "hooks.active: False",
        "evolve.active: False",
    ]


async def test_the_system_prompt_is_the_one_that_was_sent(house: Machine) -> None:
    async def add(given: Any, output: Any) -> None:
        output.system.append("A plugin's own words.")

    door = await opened(house, look(action="call", method="context.build_system_prompt"))
    door.plugin({"experimental.chat.system.transform": add})
    session = await door.session()
    await door.ask(session, "go")
    (said,) = results(await door.stored(session))
    assert said == "\n\n".join(house.requests()[0]["system"])
    assert said.endswith("A plugin's own words.")


async def test_nothing_of_another_session_is_told(house: Machine) -> None:
    door = await opened(house)
    other = await door.session("TITLE-OF-ANOTHER")
    await door.ask(other, "WORDS-OF-ANOTHER")
    session = await door.session()
    await door.ask(session, "mine")
    for found in tree(door).walk():
        if isinstance(found.node, Value):
            told = json.dumps(await read(found, session))
            assert "ANOTHER" not in told, found.path
            assert other not in told, found.path
