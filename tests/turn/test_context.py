"""What a step sends: a system prompt that stays as it was, messages that only grow, tools in a fixed order."""

import json
import platform
import subprocess
import time
from itertools import pairwise
from typing import Any

import pytest

from instar.message import TextPart
from instar.plugin import Tool, points
from instar.testing import Machine, RuntimeUnderTest, results, said, users

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: {{user}}\n'
TOOL = """
== turn
tool: bash {"command": "echo x"}

== turn
text: done

== turn
text: again

== turn
text: more
"""


def git(house: Machine, *args: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *identity, *args], cwd=house.folder, check=True, capture_output=True)


async def test_the_system_prompt_is_the_base_the_place_and_the_instructions(house: Machine) -> None:
    house.says(ECHO)
    (house.folder / "AGENTS.md").write_text("Use tabs.\n")
    git(house, "init", "-q")
    git(house, "commit", "-q", "--allow-empty", "-m", "first")
    door = await house.open()
    await door.ask(await door.session(), "hi")
    (system,) = house.requests()[0]["system"]
    base, _, rest = system.partition("\n\nHere is where you are:\n")
    assert base.startswith("You are an agent that works on a person's computer")
    assert rest == (
        "<env>\n"
        f"  Working directory: {house.folder}\n"
        f"  Worktree: {house.folder}\n"
        "  Git repository: yes\n"
        f"  Platform: {platform.system().lower()}\n"
        f"  Date: {time.strftime('%a %b %d %Y')}\n"
        "</env>\n\n"
        f"Instructions from: {house.folder}/AGENTS.md\n"
        "Use tabs."
    )


async def test_the_configured_instructions_follow_those_of_the_home_and_the_project(house: Machine) -> None:
    house.says(ECHO)
    house.settings(instructions=["rules/*.md"])
    (house.home / "AGENTS.md").write_text("Home first.")
    (house.folder / "CLAUDE.md").write_text("Then the project.")
    (house.folder / "rules").mkdir()
    (house.folder / "rules/one.md").write_text("Then the rules.")
    door = await house.open()
    await door.ask(await door.session(), "hi")
    texts = house.requests()[0]["system"][0].split("Instructions from: ")[1:]
    assert [text.splitlines()[1] for text in texts] == ["Home first.", "Then the project.", "Then the rules."]


async def test_the_system_prompt_stays_as_it_was_also_after_a_restart(house: Machine) -> None:
    house.says(TOOL)
    (house.folder / "AGENTS.md").write_text("Use tabs.")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "one")
    (house.folder / "AGENTS.md").write_text("Use spaces.")
    await door.ask(session, "two")
    await door.runtime.close()
    again = await house.open()
    await again.ask(session, "three")
    systems = [request["system"] for request in house.requests()]
    assert len(systems) == 4
    assert all(system == systems[0] for system in systems)
    await again.ask(await again.session(), "new")
    assert "Use spaces." in house.requests()[-1]["system"][0]


async def test_each_request_begins_with_the_bytes_of_the_one_before(house: Machine) -> None:
    house.says(TOOL)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "one")
    await door.ask(session, "two")
    await door.runtime.close()
    await (await house.open()).ask(session, "three")
    sent = [(request["system"], request["tools"], request["messages"]) for request in house.requests()]
    assert len(sent) == 4
    for (system, tools, messages), (later_system, later_tools, later_messages) in pairwise(sent):
        assert json.dumps(later_system) == json.dumps(system)
        assert json.dumps(later_tools) == json.dumps(tools)
        assert json.dumps(later_messages[: len(messages)]) == json.dumps(messages)
        assert len(later_messages) > len(messages)


async def test_another_agent_has_a_prompt_of_its_own(house: Machine) -> None:
    house.says(ECHO)
    house.settings(agent={"poet": {"prompt": "You rhyme.", "temperature": 0.9, "top_p": 0.5}})
    door = await house.open()
    session = await door.session()
    for agent in ("build", "poet", "build"):
        await door.ask(session, "hi", agent=agent)
    first, poet, last = house.requests()
    assert poet["system"][0].startswith("You rhyme.\n\nHere is where you are:")
    assert (poet["params"]["temperature"], poet["params"]["top_p"]) == (0.9, 0.5)
    assert first["system"] == last["system"] != poet["system"]


async def test_a_prompts_own_system_text_follows_for_that_prompt_alone(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hi", system="Answer in French.")
    await door.ask(session, "hi")
    first, second = (request["system"] for request in house.requests())
    assert first == [*second, "Answer in French."]


BUILT_IN = [
    *("bash", "background", "read", "list", "glob", "grep", "edit", "write"),
    *("webfetch", "todowrite", "todoread", "task"),
]


async def test_tools_come_built_in_first_and_plugins_by_name(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()

    async def execute(args: Any, ctx: Any) -> str:
        return ""

    tool = Tool(description="d", parameters={"type": "object", "properties": {}}, execute=execute)
    door.plugin({"tool": {"zebra": tool, "ant": tool}})
    door.plugin({"tool": {"mole": tool}})
    await door.ask(await door.session(), "hi")
    names = [spec["function"]["name"] for spec in house.requests()[0]["tools"]]
    assert names == [*BUILT_IN, "ant", "mole", "zebra"]
    assert [name for name in await door.runtime.tools() if name not in ("invalid", "apply_patch")] == names


@pytest.mark.parametrize(
    ("settings", "prompt", "missing"),
    [
        ({"permission": {"bash": "deny"}}, {}, {"bash", "background"}),
        ({"permission": {"edit": "deny"}}, {}, {"edit", "write"}),
        ({"permission": {"bash": {"*": "allow", "rm *": "deny"}}}, {}, set()),
        ({"permission": "deny"}, {}, set(BUILT_IN)),
        ({"permission": {"*": "deny", "read": "allow"}}, {}, set(BUILT_IN) - {"read"}),
        ({"tools": {"bash": False, "write": False}}, {}, {"bash", "background", "edit", "write"}),
        ({"agent": {"build": {"permission": {"grep": "deny"}}}}, {}, {"grep"}),
        ({}, {"tools": {"glob": False}}, {"glob"}),
        ({}, {"tools": {"bash": False, "edit": False}}, {"bash", "background", "edit", "write"}),
        ({}, {"tools": {"todo*": False, "todoread": True}}, {"todowrite"}),
        ({}, {"tools": {"*": False, "read": True}}, set(BUILT_IN) - {"read"}),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
async def test_a_tool_that_is_denied_outright_is_not_offered(
    house: Machine, settings: dict[str, Any], prompt: dict[str, Any], missing: set[str]
) -> None:
    house.says(ECHO)
    house.settings(**settings)
    door = await house.open()
    await door.ask(await door.session(), "hi", **prompt)
    names = {spec["function"]["name"] for spec in house.requests()[0]["tools"]}
    assert names == set(BUILT_IN) - missing


async def test_a_model_without_tools_is_sent_none(house: Machine) -> None:
    house.says(ECHO)
    house.settings(provider={"scripted": {"models": {"x": {"tool_call": False}}}})
    door = await house.open()
    await door.ask(await door.session(), "hi")
    assert house.requests()[0]["tools"] == []


async def with_hooks(
    house: Machine, hooks: dict[str, Any], script: str = TOOL
) -> tuple[RuntimeUnderTest, str]:
    house.says(script)
    door = await house.open()
    door.plugin(hooks)
    session = await door.session()
    await door.ask(session, "one")
    return door, session


async def test_hooks_push_replace_and_remove_messages_for_the_model_and_not_in_the_history(
    house: Machine,
) -> None:
    async def transform(given: points.Empty, output: points.MessagesOutput) -> None:
        if len(output.messages) > 1:
            del output.messages[1:]
        first = output.messages[0]
        part = first.parts[0]
        assert isinstance(part, TextPart)
        part.text = "ONE"
        extra = first.copy()
        extra.parts[0].text = "pushed"  # type: ignore[union-attr]
        output.messages = [*output.messages, extra]

    door, session = await with_hooks(house, {"chat.messages.transform": transform}, ECHO)
    assert [message["content"] for message in house.requests()[0]["messages"]] == ["ONE", "pushed"]
    assert users((await door.live(session)).history) == ["one"]
    await door.ask(session, "two")
    assert [message["content"] for message in house.requests()[1]["messages"]] == ["ONE", "pushed"]
    assert users(await door.stored(session)) == ["one", "two"]


async def test_hooks_change_the_system_prompt_of_each_call(house: Machine) -> None:
    async def transform(given: points.SystemInput, output: points.SystemOutput) -> None:
        output.system.append(f"{given.purpose} {given.model['id']}")
        output.system.append("")

    await with_hooks(house, {"experimental.chat.system.transform": transform})
    assert [request["system"][1:] for request in house.requests()] == [["turn x"], ["turn x"]]


async def test_a_step_hook_replaces_the_system_prompt_of_one_step_without_freezing_it(house: Machine) -> None:
    async def before(given: points.StepInput, output: points.StepOutput) -> None:
        if given.step == 2:
            output.system = ["only this"]

    async def transform(given: points.SystemInput, output: points.SystemOutput) -> None:
        output.system.append("more")

    door, session = await with_hooks(house, {"step.before": before, "chat.system.transform": transform})
    await door.ask(session, "two")
    first, second, third = (request["system"] for request in house.requests())
    assert second == ["only this"]
    assert first == third
    assert first[-1] == "more"


async def test_hooks_change_parameters_headers_and_what_a_tool_says_of_itself(house: Machine) -> None:
    async def params(given: points.CallInput, output: points.ParamsOutput) -> None:
        assert given.provider["id"] == "scripted"
        output.temperature, output.top_p, output.top_k, output.max_output_tokens = 0.3, 0.4, 5, 600
        output.options["effort"] = "low"

    async def headers(given: points.CallInput, output: points.HeadersOutput) -> None:
        output.headers["X-Session"] = given.session_id

    async def definition(given: points.ToolID, output: points.DefinitionOutput) -> None:
        if given.tool_id == "bash":
            output.description = "Runs it."
            output.parameters["properties"].pop("timeout")

    hooks = {"chat.params": params, "chat.headers": headers, "tool.definition": definition}
    door, session = await with_hooks(house, hooks)
    for request in house.requests():
        assert request["params"] == {
            "temperature": 0.3,
            "top_p": 0.4,
            "max_output_tokens": 600,
            "options": {"effort": "low", "top_k": 5},
            "headers": {"X-Session": session},
        }
        bash = request["tools"][0]["function"]
        assert bash["description"] == "Runs it."
        assert set(bash["parameters"]["properties"]) == {"command", "workdir"}
    assert "timeout" in door.runtime.instance.tools["bash"].parameters["properties"]


async def test_hooks_run_in_the_order_of_the_reference(house: Machine) -> None:
    """In opencode's order."""
    called: list[str] = []

    def recording(name: str) -> Any:
        async def hook(given: Any, output: Any) -> None:
            if called[-1:] != [name]:
                called.append(name)

        return hook

    names = [
        *("chat.message", "step.before", "tool.definition", "experimental.chat.messages.transform"),
        *("experimental.chat.system.transform", "chat.params", "chat.headers", "tool.execute.before"),
        *("permission.ask", "shell.env", "tool.execute.after", "message.completed"),
        *("experimental.text.complete", "turn.end"),
    ]
    await with_hooks(house, {name: recording(name) for name in names})
    assert called == [
        "chat.message",
        *("step.before", "tool.definition", "experimental.chat.messages.transform"),
        *("experimental.chat.system.transform", "chat.params", "chat.headers"),
        *("tool.execute.before", "permission.ask", "shell.env", "tool.execute.after", "message.completed"),
        *("step.before", "tool.definition", "experimental.chat.messages.transform"),
        *("experimental.chat.system.transform", "chat.params", "chat.headers"),
        *("experimental.text.complete", "message.completed", "turn.end"),
    ]


async def test_a_failing_hook_changes_nothing_is_published_and_the_turn_goes_on(house: Machine) -> None:
    async def broken(given: Any, output: Any) -> None:
        output.system.append("half made")
        raise ValueError("no luck")

    door, _ = await with_hooks(house, {"chat.system.transform": broken})
    assert all("half made" not in request["system"] for request in house.requests())
    assert {given.message for given in door.of("plugin.error")} == {"no luck"}


async def test_a_step_does_not_read_the_session_from_the_database(house: Machine) -> None:
    house.says(TOOL)
    door = await house.open()
    session = await door.session()
    store = door.runtime.instance.store
    readers = store._readers  # type: ignore[attr-defined]
    real, reads = readers.submit, []
    readers.submit = lambda work: reads.append(work) or real(work)
    await door.ask(session, "one")
    first = len(reads)
    for _ in range(2):
        await door.ask(session, "again")
    readers.submit = real
    history_reads = [work for work in reads if getattr(work, "func", None) is not None]
    assert history_reads == []
    assert first <= 4
    assert len(reads) - first <= 2 * 3


async def test_a_tool_that_a_plugin_adds_in_a_session_can_be_called_on_the_next_step(house: Machine) -> None:
    house.says(
        '== turn\ntool: bash {"command": "true"}\n\n== turn\nexpect_tool: grown\ntool: grown\n\n== turn\ntext: done\n'
    )
    door = await house.open()
    tools: dict[str, Tool] = {}

    async def execute(args: Any, ctx: Any) -> str:
        return "grown up"

    async def after(given: points.ToolAfterInput, output: Any) -> None:
        tools["grown"] = Tool("New.", {"type": "object", "properties": {}}, execute)

    door.plugin({"tool": tools, "tool.execute.after": after})
    session = await door.session()
    assert said(await door.ask(session, "go")) == "done"
    assert results(await door.stored(session))[1] == "grown up"
