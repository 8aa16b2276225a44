"""Permissions in a turn: rules, hooks, people, and what a project remembers."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.turn import Door, House, answer_of, results

from instar.approval import Person, always_once
from instar.event import PermissionAsked
from instar.message import Rule
from instar.plugin import points

pytest_plugins = ["tests.turn"]

RUN = '== turn\ntool: bash {"command": "echo ran >> ran"}\n\n== turn\ntext: went on\n'
TWICE = """
    == turn
    tool: bash {"command": "echo one"}
    tool: bash {"command": "echo two"}

    == turn
    text: went on

    == turn
    tool: bash {"command": "echo three"}

    == turn
    text: and on
"""


class Answering:
    """A person who answers always the same, and remembers the questions."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.questions: list[PermissionAsked] = []

    async def __call__(self, question: PermissionAsked) -> Any:
        self.questions.append(question)
        return self.reply


def ran(house: House) -> bool:
    return (house.folder / "ran").exists()


async def play(
    house: House, permission: Any, person: Person | None = None, hooks: Any = None
) -> tuple[Door, str]:
    house.says(RUN)
    house.settings(permission=permission)
    door = await house.open(person=person)
    door.plugin(hooks or {})
    session = await door.session()
    await door.ask(session, "go")
    return door, results(await door.stored(session))[0]


def hook(status: Any) -> dict[str, Any]:
    async def ask(given: points.PermissionInput, output: points.PermissionOutput) -> None:
        output.status = status

    return {"permission.ask": ask}


async def test_what_is_allowed_runs_without_a_question(house: House) -> None:
    person = Answering("once")
    door, _ = await play(house, {"bash": "allow"}, person)
    assert ran(house)
    assert person.questions == []
    assert "permission.asked" not in door.types()


async def test_what_is_denied_does_not_run_and_the_model_reads_the_rule(house: House) -> None:
    person = Answering("once")
    _, text = await play(house, {"bash": {"*": "allow", "echo *": "deny"}}, person)
    assert not ran(house)
    assert person.questions == []
    assert text.startswith(
        "The user has specified a rule which prevents you from using this specific tool call"
    )
    assert '{"permission": "bash", "pattern": "echo *", "action": "deny"}' in text
    assert len(house.requests()) == 2


async def test_a_person_is_asked_with_the_call_already_shown_and_answers_once(house: House) -> None:
    person = Answering("once")
    door, _ = await play(house, {"bash": "ask"}, person)
    assert ran(house)
    (question,) = person.questions
    assert question.permission == "bash"
    assert "echo ran" in str(question.patterns)
    assert question.always == ["echo *"]
    assert question.tool is not None
    assert question.tool.call_id == "call_t1_1"
    states = [
        event.type if "permission" in event.type else event.properties.part.state.__struct_config__.tag  # type: ignore[attr-defined]
        for event in door.heard
        if "permission" in event.type
        or getattr(getattr(event.properties, "part", None), "tool", "") == "bash"
    ]
    assert states == ["pending", "running", "permission.asked", "permission.replied", "completed"]
    assert await door.runtime.instance.store.asks() == []


async def test_a_rejection_ends_the_turn_and_the_calls_behind_it_do_not_run(house: House) -> None:
    house.says(TWICE)
    house.settings(permission={"bash": "ask"})
    person = Answering("reject")
    door = await house.open(person=person)
    session = await door.session()
    answer = answer_of(await door.ask(session, "go"))
    assert results(await door.stored(session)) == [
        "The user rejected permission to use this specific tool call.",
        "Tool execution aborted",
    ]
    assert len(person.questions) == 1
    assert (answer.finish, answer.error) == ("tool-calls", None)
    assert len(house.requests()) == 1
    assert await door.client.status() == {}


@pytest.mark.parametrize("reply", ["yes", None, True, "Always"])
async def test_an_answer_that_is_none_of_the_three_is_a_rejection(house: House, reply: Any) -> None:
    door, text = await play(house, {"bash": "ask"}, Answering(reply))
    assert not ran(house)
    assert text == "The user rejected permission to use this specific tool call."
    assert [given.reply for given in door.of("permission.replied")] == ["reject"]


async def test_a_person_who_cannot_be_reached_refuses(house: House) -> None:
    async def person(question: PermissionAsked) -> Any:
        raise OSError("the terminal is gone")

    door, text = await play(house, {"bash": "ask"}, person)
    assert not ran(house)
    assert "the terminal is gone" in text
    assert [given.reply for given in door.of("permission.replied")] == ["reject"]


async def test_without_a_person_an_ask_is_refused_with_what_to_do_and_the_turn_goes_on(house: House) -> None:
    _, text = await play(house, {"bash": "ask"})
    assert not ran(house)
    assert text.startswith("Permission bash on echo ran >> ran")
    assert "nobody is here to give it" in text
    assert len(house.requests()) == 2


async def test_auto_answers_asks_and_no_denies(house: House) -> None:
    await play(house, {"bash": "ask"}, always_once)
    assert ran(house)


async def test_auto_does_not_beat_a_deny(house: House) -> None:
    await play(house, {"bash": {"*": "ask", "echo *": "deny"}}, always_once)
    assert not ran(house)


async def test_always_is_remembered_for_the_project_across_a_restart(house: House) -> None:
    house.says(TWICE)
    house.settings(permission={"bash": "ask"})
    person = Answering("always")
    door = await house.open(person=person)
    session = await door.session()
    await door.ask(session, "go")
    assert len(person.questions) == 1
    await door.runtime.close()
    later = await house.open(person=person)
    await later.ask(session, "again")
    assert results(await later.stored(session)) == ["one\n", "two\n", "three\n"]
    assert len(person.questions) == 1


async def test_always_never_beats_a_deny_that_was_written_later(house: House) -> None:
    await play(house, {"bash": "ask"}, Answering("always"))
    (house.folder / "ran").unlink()
    _, text = await play(house, {"bash": {"*": "ask", "echo *": "deny"}}, Answering("once"))
    assert not ran(house)
    assert text.startswith("The user has specified a rule")


async def test_always_covers_what_the_call_named_and_nothing_else(house: House) -> None:
    await play(house, {"bash": "ask"}, Answering("always"))
    house.says('== turn\ntool: bash {"command": "touch other"}\n\n== turn\ntext: x\n')
    person = Answering("reject")
    door = await house.open(person=person)
    await door.ask(await door.session(), "go")
    assert [question.patterns for question in person.questions] == [["touch other"]]


@pytest.mark.parametrize("cloned", [False, True], ids=["another folder", "a clone with the same root commit"])
async def test_always_holds_in_its_own_place_only(house: House, cloned: bool) -> None:
    first, second = house.folder, house.folder.with_name("second")
    if cloned:
        git(first, "init", "--quiet")
        git(
            first,
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b.c",
            "commit",
            "--quiet",
            "--allow-empty",
            "-m",
            "root",
        )
        git(first.parent, "clone", "--quiet", str(first), str(second))
    else:
        second.mkdir()
    await play(house, {"bash": "ask"}, Answering("always"))
    house.folder = second
    person = Answering("once")
    door, _ = await play(house, {"bash": "ask"}, person)
    assert len(person.questions) == 1
    assert (door.runtime.instance.project.id == "global") is not cloned


def git(folder: Path, *args: str) -> None:
    subprocess.run(["git", *args], cwd=folder, check=True, capture_output=True)


async def test_a_sessions_own_rules_come_after_the_agents(house: House) -> None:
    house.says(RUN)
    door = await house.open()
    rule = Rule(permission="bash", pattern="echo *", action="deny")
    session = await door.session(permission=[rule])
    await door.ask(session, "go")
    assert not ran(house)


# -- permission.ask ----------------------------------------------------------------------------------


async def test_a_hook_tightens_an_allow_to_a_question(house: House) -> None:
    person = Answering("once")
    await play(house, {"bash": "allow"}, person, hook("ask"))
    assert len(person.questions) == 1
    assert ran(house)


async def test_a_hook_tightens_an_allow_to_a_deny(house: House) -> None:
    _, text = await play(house, {"bash": "allow"}, None, hook("deny"))
    assert not ran(house)
    assert text.startswith("A plugin denied this call (bash on echo ran >> ran")


async def test_a_hook_answers_a_question_in_a_persons_place(house: House) -> None:
    person = Answering("reject")
    await play(house, {"bash": "ask"}, person, hook("allow"))
    assert person.questions == []
    assert ran(house)


async def test_a_hook_cannot_loosen_a_deny(house: House) -> None:
    _, text = await play(house, {"bash": {"*": "allow", "echo *": "deny"}}, None, hook("allow"))
    assert not ran(house)
    assert text.startswith("The user has specified a rule")


@pytest.mark.parametrize("status", ["maybe", None, 5])
async def test_a_hook_that_leaves_no_status_refuses(house: House, status: Any) -> None:
    await play(house, {"bash": "allow"}, Answering("once"), hook(status))
    assert not ran(house)


async def test_a_hook_that_fails_refuses_and_the_model_reads_why(house: House) -> None:
    async def ask(given: Any, output: Any) -> None:
        raise ValueError("the policy server is down")

    _, text = await play(house, {"bash": "allow"}, None, {"permission.ask": ask})
    assert not ran(house)
    assert text == "The plugin test refused this call: the policy server is down"


async def test_a_hook_is_told_what_is_asked_and_by_whom(house: House) -> None:
    seen: list[points.PermissionInput] = []

    async def ask(given: points.PermissionInput, output: points.PermissionOutput) -> None:
        seen.append(given)
        assert output.status == "allow"

    await play(house, {"bash": "allow"}, None, {"permission.ask": ask})
    (given,) = seen
    assert (given.permission, given.tool, given.call_id) == ("bash", "bash", "call_t1_1")
    assert given.metadata["command"] == "echo ran >> ran"
