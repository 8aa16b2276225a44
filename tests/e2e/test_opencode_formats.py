"""opencode's examples as files: an agent, a command and a plugin, in both places, and they do as written.

The tool settings are those of opencode's documentation: `tools` with names and wildcards, `permission` with patterns.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from instar.message import User
from instar.plugin import CommandBody
from instar.testing import Machine, results, said, users

pytest_plugins = ["tests.turn"]

AGENT = """\
---
description: Reviews code for quality and best practices
mode: all
model: scripted/reviewer
temperature: 0.3
tools:
  write: false
  edit: false
  bash: true
  "todo*": false
permission:
  edit: deny
  bash: ask
  bash "echo *": allow
  bash "echo secret*": deny
  webfetch: deny
disable: false
reasoningEffort: high
---

You review code.
"""
ECHO = '== when ""\ntext: {{user}}\n'
ONE_CALL = "== turn\ntool: CALL\n\n== turn\ntext: done\n"


def write(house: Machine, name: str, text: str, *, home: bool = False) -> Path:
    """Write a file of the project's `.opencode`, or of opencode's folder in the home configuration."""
    path = (house.home.parent / "opencode" if home else house.folder / ".opencode") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def offered(house: Machine) -> set[str]:
    return {spec["function"]["name"] for spec in house.requests()[-1]["tools"]}


# -- agents ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", [True, False], ids=["home", "project"])
async def test_an_agents_file_gives_prompt_model_parameters_and_tools(house: Machine, home: bool) -> None:
    house.says(ECHO)
    write(house, "agent/review.md", AGENT, home=home)
    door = await house.open()
    assert door.runtime.notices == []
    await door.ask(await door.session(), "hi", agent="review")
    request = house.requests()[0]
    assert request["model"] == "scripted/reviewer"
    assert request["system"][0].startswith("You review code.\n\n")
    assert request["params"]["temperature"] == 0.3
    assert request["params"]["options"]["reasoningEffort"] == "high"
    assert not offered(house) & {"write", "edit", "todowrite", "todoread", "webfetch"}
    assert {"bash", "read", "grep"} <= offered(house)


@pytest.mark.parametrize(
    ("call", "result"),
    [
        ('bash {"command": "echo hi"}', "hi\n"),
        ('bash {"command": "echo secret things"}', "The user has specified a rule which prevents"),
        ('bash {"command": "echo hi | echo secrets"}', "The user has specified a rule which prevents"),
        ('bash {"command": "ls"}', "Permission bash on ls needs a person's answer"),
        ('edit {"filePath": "a", "oldString": "b", "newString": "c"}', "unavailable tool 'edit'"),
        ('webfetch {"url": "http://127.0.0.1:9", "format": "text"}', "unavailable tool 'webfetch'"),
        ('todowrite {"todos": []}', "unavailable tool 'todowrite'"),
    ],
)
async def test_an_agents_file_decides_as_it_is_written(house: Machine, call: str, result: str) -> None:
    house.says(ONE_CALL.replace("CALL", call))
    write(house, "agent/review.md", AGENT)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go", agent="review")
    assert result in results(await door.stored(session))[0]


@pytest.mark.parametrize(("mode", "takes", "speaks"), [
    ("subagent", True, False), ("primary", False, True), ("all", True, True), (None, True, True),
])  # fmt: skip
async def test_the_mode_says_who_may_use_an_agent(
    house: Machine, mode: str | None, takes: bool, speaks: bool
) -> None:
    task = 'task {"description": "d", "prompt": "child work", "subagent_type": "x"}'
    house.says(
        ONE_CALL.replace("CALL", task) + '\n== when "child work"\ntext: worked\n\n== when "hi"\ntext: hello\n'
    )
    head = f"mode: {mode}\n" if mode else ""
    write(house, "agent/x.md", f"---\ndescription: d\n{head}---\nx")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    (result,) = results(await door.stored(session))
    assert ("worked" in result) == takes, result
    house.settings(default_agent="x")
    again = await house.open()
    if speaks:
        assert (await again.ask(await again.session(), "hi")).info.agent == "x"
    else:
        with pytest.raises(Exception, match="'x' is a sub-agent"):
            await again.ask(await again.session(), "hi")


@pytest.mark.parametrize(("model", "temperature"), [("plain", 0), ("qwen3-coder", 0.55)])
async def test_the_default_temperature_is_0_and_qwens_higher(
    house: Machine, model: str, temperature: float
) -> None:
    house.says(ECHO)
    door = await house.open(model=f"scripted/{model}")
    await door.ask(await door.session(), "hi")
    assert house.requests()[0]["params"]["temperature"] == temperature


async def test_an_agents_own_tools_beat_those_of_everybody(house: Machine) -> None:
    house.says(ECHO)
    house.settings(tools={"bash": False, "grep": False})
    write(house, "agent/x.md", "---\ntools:\n  bash: true\n---\nx")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hi")
    assert not offered(house) & {"bash", "grep"}
    await door.ask(session, "hi", agent="x")
    assert offered(house) & {"bash", "grep"} == {"bash"}


async def test_a_disabled_agent_is_not_there(house: Machine) -> None:
    write(house, "agent/x.md", "---\ndisable: true\n---\nx")
    door = await house.open()
    with pytest.raises(Exception, match="there is no agent 'x'"):
        await door.ask(await door.session(), "hi", agent="x")


# -- commands ----------------------------------------------------------------------------------------

COMMAND = """\
---
description: Builds one target
agent: builder
model: scripted/other
subtask: false
---
Build $ARGUMENTS for $TARGET_OS.
"""


@pytest.mark.parametrize("home", [True, False], ids=["home", "project"])
async def test_a_commands_file_is_a_prompt_with_its_agent_and_model(house: Machine, home: bool) -> None:
    house.says(ECHO)
    write(house, "command/build.md", COMMAND, home=home)
    write(house, "agent/builder.md", "You build.", home=home)
    door = await house.open()
    session = await door.session()
    body = CommandBody(command="build", arguments="all fast TARGET_OS=linux")
    answer = await door.client.command(session, body)
    assert said(answer) == "Build all fast for linux."
    asked = (await door.stored(session))[0].info
    assert isinstance(asked, User)
    assert (asked.agent, asked.model.model_id) == ("builder", "other")
    (executed,) = door.of("command.executed")
    assert (executed.name, executed.arguments) == ("build", body.arguments)


@pytest.mark.parametrize(
    ("field", "children"), [("subtask: true", 1), ("subtask: false", 0), ("agent: plan", 0)]
)
async def test_a_command_is_done_by_a_sub_agent_where_it_says_so(
    house: Machine, field: str, children: int
) -> None:
    house.says(ECHO)
    write(house, "command/look.md", f"---\n{field}\n---\nLook at $1")
    door = await house.open()
    session = await door.session()
    await door.client.command(session, CommandBody(command="look", arguments="it"))
    assert len(await door.client.children(session)) == children
    prompted = users(await door.stored(session))
    assert ("Look at it" in prompted[0]) == (not children)


# -- plugins -----------------------------------------------------------------------------------------

PLUGIN = """\
import json

async def my_plugin(input, options):
    seen = {"given": [type(getattr(input, name)).__name__ for name in ("project", "directory", "worktree")]}
    seen["reached"] = []

    async def event(event):
        if event.type == "session.idle":
            seen["idle"] = event.properties.session_id
            seen["title"] = (await input.client.session.get(event.properties.session_id)).title

    async def before(given, output):
        seen["reached"].append(["before", given.tool, dict(output.args)])
        output.args["command"] += " there"

    async def after(given, output):
        seen["reached"].append(["after", given.tool, output.output])
        output.output = output.output.upper()

    async def dispose():
        (input.directory / "seen.json").write_text(json.dumps(seen))

    return {"event": event, "tool.execute.before": before, "tool.execute.after": after, "dispose": dispose}
"""


@pytest.mark.parametrize("home", [True, False], ids=["home", "project"])
async def test_a_plugins_file_hears_events_and_stands_before_and_after_each_call(
    house: Machine, home: bool
) -> None:
    house.says(ONE_CALL.replace("CALL", 'bash {"command": "echo hi"}'))
    write(house, "plugin/mine.py", PLUGIN, home=home)
    door = await house.open()
    assert door.runtime.notices == []
    session = await door.session()
    await door.ask(session, "go")
    assert results(await door.stored(session)) == ["HI THERE\n"]
    await door.runtime.close()
    seen: dict[str, Any] = json.loads((house.folder / "seen.json").read_text())
    assert (seen["idle"], seen["title"]) == (session, "named")
    assert seen["given"][0] == "Project"
    assert seen["reached"] == [["before", "bash", {"command": "echo hi"}], ["after", "bash", "hi there\n"]]
