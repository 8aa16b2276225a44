"""Mistakes in the files that a person writes: each is named by file, line and field, and its neighbours are there."""

import json
from typing import Any

import pytest

from instar.plugin import CommandBody, PromptBody
from instar.testing import Machine, results, said
from instar.wire.document import DocumentError

pytest_plugins = ["tests.turn"]

ECHO = '== when ""\ntext: {{user}}\n'
ACTIONS = "expected allow, ask or deny (or a map of them), found"


def write(house: Machine, name: str, text: str) -> str:
    path = house.folder / ".opencode" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return str(path)


def neighbours(house: Machine) -> None:
    write(house, "agent/fine.md", "---\ndescription: a neighbour\n---\nYou are fine.")
    write(house, "command/fine.md", "Fine: $ARGUMENTS")
    write(house, "skill/fine/SKILL.md", "---\nname: fine\ndescription: a skill\n---\nBe fine.")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("agent/bad.md", "---\ndescription: [a\n---\nx", ":3: expected YAML: "),
        ("agent/bad.md", "---\ndescription: x\n", ":1: expected a --- line that ends the front matter"),
        ("agent/bad.md", "---\nsteps: many\n---\nx", ":2: steps: expected an integer"),
        ("agent/bad.md", "---\npermission:\n  edit: no\n---\nx", f":3: permission.edit: {ACTIONS} 'no'; write deny"),
        ("agent/bad.md", "---\ntempreature: 1\n---\nx", ":2: tempreature: there is no such field; did you mean"),
        ("command/bad.md", "---\nagent: [a\n---\nx", ":3: expected YAML: "),
        ("command/bad.md", "---\nsubtask: maybe\n---\nx", ":2: subtask: expected true or false"),
        ("command/bad.md", "---\nagnet: plan\n---\nx", ":2: agnet: there is no such field; did you mean agent?"),
        ("command/bad.md", "---\ndescription: x\n---\n", ":4: expected the command's text"),
        ("skill/bad/SKILL.md", "---\nname: [a\n---\nx", ":3: expected YAML: "),
        ("skill/bad/SKILL.md", "---\nname: bad\n", ": "),
        ("skill/bad/SKILL.md", "---\nname: bad\n---\nx", "description"),
        ("skill/bad/SKILL.md", "---\nname: bad\ndescripton: d\n---\nx", "description"),
    ],
)  # fmt: skip
async def test_a_mistake_in_a_definition_is_named_and_its_neighbours_are_there(
    house: Machine, name: str, text: str, said: str
) -> None:
    house.says(ECHO)
    neighbours(house)
    path = write(house, name, text)
    door = await house.open()
    (notice,) = door.runtime.notices
    assert path in notice
    assert said in notice
    session = await door.session()
    await door.ask(session, "hi", agent="fine")
    assert house.requests()[0]["system"][0].startswith("You are fine.")
    assert "a skill" in json.dumps(house.requests()[0]["tools"])
    await door.client.command(session, CommandBody(command="fine", arguments="yes"))
    assert "Fine: yes" in json.dumps(house.requests()[-1]["messages"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"model": }', r":1:11: "),
        ('{\n  "model": 5\n}', r":2:12: model: expected a string"),
        ('{"mcp": {"m": {"type": "local", "command": "one"}}}', r":1:\d+: mcp\.m\.command: expected a list"),
        ('{"mcp": {"m": {"type": "nearby"}}}', r":1:\d+: mcp\.m\.type: "),
        ('{"agent": {"a": {"mode": "boss"}}}', r":1:\d+: agent\.a\.mode: expected one of"),
        ('{"command": {"c": {"template": "t", "subtask": 1}}}', r":1:\d+: command\.c\.subtask: "),
        ('{"permission": {"bash": "maybe"}}', r":1:\d+: permission\.bash: "),
    ],
)
async def test_a_mistake_in_the_settings_is_named_and_nothing_is_guessed(
    house: Machine, text: str, said: str
) -> None:
    (house.folder / "opencode.json").write_text(text)
    with pytest.raises(DocumentError, match=r"opencode\.json" + said):
        await house.open()


@pytest.mark.parametrize(
    ("name", "field", "said"),
    [
        ("agent", "model: nobody/x", "unknown provider 'nobody'"),
        ("agent", "model: scripted", "agent.bad.model: there is no model 'scripted'; write provider/model"),
        ("command", "model: nobody/x", "unknown provider 'nobody'"),
        ("command", "agent: nobody", "there is no agent 'nobody'"),
    ],
)
async def test_a_definition_that_names_what_is_not_there_is_refused_where_it_is_used(
    house: Machine, name: str, field: str, said: str
) -> None:
    house.says(ECHO)
    neighbours(house)
    write(house, f"{name}/bad.md", f"---\n{field}\n---\nx")
    door = await house.open()
    session = await door.session()
    used = (
        door.ask(session, "hi", agent="bad")
        if name == "agent"
        else door.client.command(session, CommandBody(command="bad", arguments=""))
    )
    with pytest.raises(Exception, match=said):
        await used
    assert await door.stored(session) == []
    await door.ask(session, "hi", agent="fine")


async def test_an_agent_that_does_not_exist_is_told_with_the_nearest(house: Machine) -> None:
    house.says(ECHO)
    neighbours(house)
    door = await house.open()
    session = await door.session()
    with pytest.raises(Exception, match="there is no agent 'fien'; there are: fine"):
        await door.ask(session, "hi", agent="fien")
    assert await door.stored(session) == []


async def test_an_image_that_the_model_cannot_take_is_told_in_words(house: Machine) -> None:
    house.says(ECHO)
    door = await house.open()
    session = await door.session()
    picture = {
        "type": "file",
        "mime": "image/png",
        "filename": "a.png",
        "url": "data:image/png;base64,iVBORw0KGgo=",
    }
    body: Any = [{"type": "text", "text": "look"}, picture]
    assert said(await door.client.prompt(session, PromptBody(parts=body)))
    sent = json.dumps(house.requests()[0]["messages"])
    assert "base64" not in sent
    assert "a.png" in sent


async def test_a_commands_failing_shell_is_told_with_its_exit_code(house: Machine) -> None:
    house.says(ECHO)
    write(house, "command/look.md", "Look: !`echo half; echo why >&2; exit 3`")
    door = await house.open()
    session = await door.session()
    await door.client.command(session, CommandBody(command="look", arguments=""))
    sent = json.dumps(house.requests()[0]["messages"])
    assert all(word in sent for word in ("half", "why", "3"))


async def test_an_agent_that_hands_itself_its_task_is_stopped(house: Machine) -> None:
    house.says("""
        == when "go"
        tool: task {"description": "d", "prompt": "go", "subagent_type": "loop"}

        == turn
        text: enough
    """)
    write(house, "agent/loop.md", "---\ndescription: d\npermission:\n  task: allow\n---\nTask yourself.")
    door = await house.open()
    session = await door.session()
    await door.start(session, "go", agent="loop")
    await door.until(lambda event: event.type == "session.created" and bool(event.properties.info.parent_id))  # type: ignore[attr-defined]
    await door.idle(session)
    (child,) = await door.client.children(session)
    assert await door.client.children(child.id) == []
    assert "unavailable tool 'task'" in results(await door.stored(child.id))[0]
