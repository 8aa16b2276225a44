"""Permissions in a turn: rules, hooks, people, and what a project remembers."""

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import SOON

from instar.approval.permissions import PermissionAnswer, Person, always_once, relayed
from instar.event import PermissionAsked
from instar.message import Rule
from instar.plugin import Ask, Invalid, NotFound, Tool, points
from instar.store import PutAsk
from instar.testing import Machine, RuntimeUnderTest, answer_of, results

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


def ran(house: Machine) -> bool:
    return (house.folder / "ran").exists()


async def play(
    house: Machine, permission: Any, person: Person | None = None, hooks: Any = None
) -> tuple[RuntimeUnderTest, str]:
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


@pytest.mark.slow
async def test_what_is_allowed_runs_without_a_question(house: Machine) -> None:
    person = Answering("once")
    door, _ = await play(house, {"bash": "allow"}, person)
    assert ran(house)
    assert person.questions == []
    assert "permission.asked" not in door.types()


async def test_what_is_denied_does_not_run_and_the_model_reads_the_rule(house: Machine) -> None:
    person = Answering("once")
    _, text = await play(house, {"bash": {"*": "allow", "echo *": "deny"}}, person)
    assert not ran(house)
    assert person.questions == []
    assert text.startswith(
        "The user has specified a rule which prevents you from using this specific tool call"
    )
    assert '{"permission": "bash", "pattern": "echo *", "action": "deny"}' in text
    assert len(house.requests()) == 2


async def test_a_person_is_asked_with_the_call_already_shown_and_answers_once(house: Machine) -> None:
    person = Answering("once")
    door, _ = await play(house, {"bash": "ask"}, person)
    assert ran(house)
    (question,) = person.questions
    assert question.permission == "bash"
    assert "echo ran" in str(question.patterns)
    assert question.always == ["echo ran >> ran"]
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


async def test_a_rejection_ends_the_turn_and_the_calls_behind_it_do_not_run(house: Machine) -> None:
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
async def test_an_answer_that_is_none_of_the_three_is_a_rejection(house: Machine, reply: Any) -> None:
    door, text = await play(house, {"bash": "ask"}, Answering(reply))
    assert not ran(house)
    assert text == "The user rejected permission to use this specific tool call."
    assert [given.reply for given in door.of("permission.replied")] == ["reject"]


async def test_a_person_who_cannot_be_reached_refuses(house: Machine) -> None:
    async def person(question: PermissionAsked) -> Any:
        raise OSError("the terminal is gone")

    door, text = await play(house, {"bash": "ask"}, person)
    assert not ran(house)
    assert "the terminal is gone" in text
    assert [given.reply for given in door.of("permission.replied")] == ["reject"]


async def test_without_a_person_an_ask_is_refused_with_what_to_do_and_the_turn_goes_on(
    house: Machine,
) -> None:
    _, text = await play(house, {"bash": "ask"})
    assert not ran(house)
    assert text.startswith("Permission bash on echo ran >> ran")
    assert "nobody is here to give it" in text
    assert len(house.requests()) == 2


@pytest.mark.slow
async def test_auto_answers_asks_and_no_denies(house: Machine) -> None:
    await play(house, {"bash": "ask"}, always_once)
    assert ran(house)


async def test_auto_does_not_beat_a_deny(house: Machine) -> None:
    await play(house, {"bash": {"*": "ask", "echo *": "deny"}}, always_once)
    assert not ran(house)


@pytest.mark.slow
async def test_always_is_remembered_for_the_project_across_a_restart(house: Machine) -> None:
    house.says(re.sub("two|three", "one", TWICE))
    house.settings(permission={"bash": "ask"})
    person = Answering("always")
    door = await house.open(person=person)
    session = await door.session()
    await door.ask(session, "go")
    assert len(person.questions) == 1
    await door.runtime.close()
    later = await house.open(person=person)
    await later.ask(session, "again")
    assert results(await later.stored(session)) == ["one\n", "one\n", "one\n"]
    assert len(person.questions) == 1


@pytest.mark.slow
async def test_always_never_beats_a_deny_that_was_written_later(house: Machine) -> None:
    await play(house, {"bash": "ask"}, Answering("always"))
    (house.folder / "ran").unlink()
    _, text = await play(house, {"bash": {"*": "ask", "echo *": "deny"}}, Answering("once"))
    assert not ran(house)
    assert text.startswith("The user has specified a rule")


@pytest.mark.slow
async def test_always_covers_what_the_call_named_and_nothing_else(house: Machine) -> None:
    await play(house, {"bash": "ask"}, Answering("always"))
    house.says('== turn\ntool: bash {"command": "touch other"}\n\n== turn\ntext: x\n')
    person = Answering("reject")
    door = await house.open(person=person)
    await door.ask(await door.session(), "go")
    assert [question.patterns for question in person.questions] == [["touch other"]]


@pytest.mark.slow
@pytest.mark.parametrize("cloned", [False, True], ids=["another folder", "a clone with the same root commit"])
async def test_always_holds_in_its_own_place_only(house: Machine, cloned: bool) -> None:
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


async def test_a_sessions_own_rules_come_after_the_agents(house: Machine) -> None:
    house.says(RUN)
    door = await house.open()
    rule = Rule(permission="bash", pattern="echo *", action="deny")
    session = await door.session(permission=[rule])
    await door.ask(session, "go")
    assert not ran(house)


# -- permission.ask ----------------------------------------------------------------------------------


async def test_a_hook_tightens_an_allow_to_a_question(house: Machine) -> None:
    person = Answering("once")
    await play(house, {"bash": "allow"}, person, hook("ask"))
    assert len(person.questions) == 1
    assert ran(house)


async def test_a_hook_tightens_an_allow_to_a_deny(house: Machine) -> None:
    _, text = await play(house, {"bash": "allow"}, None, hook("deny"))
    assert not ran(house)
    assert text.startswith("A plugin denied this call (bash on echo ran >> ran")


async def test_a_hook_answers_a_question_in_a_persons_place(house: Machine) -> None:
    person = Answering("reject")
    await play(house, {"bash": "ask"}, person, hook("allow"))
    assert person.questions == []
    assert ran(house)


async def test_a_hook_cannot_loosen_a_deny(house: Machine) -> None:
    _, text = await play(house, {"bash": {"*": "allow", "echo *": "deny"}}, None, hook("allow"))
    assert not ran(house)
    assert text.startswith("The user has specified a rule")


@pytest.mark.parametrize("status", ["maybe", None, 5])
async def test_a_hook_that_leaves_no_status_refuses(house: Machine, status: Any) -> None:
    await play(house, {"bash": "allow"}, Answering("once"), hook(status))
    assert not ran(house)


async def test_a_hook_that_fails_refuses_and_the_model_reads_why(house: Machine) -> None:
    async def ask(given: Any, output: Any) -> None:
        raise ValueError("the policy server is down")

    _, text = await play(house, {"bash": "allow"}, None, {"permission.ask": ask})
    assert not ran(house)
    assert text == "The plugin test refused this call: the policy server is down"


async def test_a_hook_is_told_what_is_asked_and_by_whom(house: Machine) -> None:
    seen: list[points.PermissionInput] = []

    async def ask(given: points.PermissionInput, output: points.PermissionOutput) -> None:
        seen.append(given)
        assert output.status == "allow"

    await play(house, {"bash": "allow"}, None, {"permission.ask": ask})
    (given,) = seen
    assert (given.permission, given.tool, given.call_id) == ("bash", "bash", "call_t1_1")
    assert given.metadata["command"] == "echo ran >> ran"


# -- answers through the client ----------------------------------------------------------------------


class Absent:
    """A person who never answers, and knows whether they are still asked."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.left = False

    async def __call__(self, question: PermissionAsked) -> Any:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left = True


async def begun(
    house: Machine, script: str = RUN, person: Person = relayed, **settings: Any
) -> tuple[RuntimeUnderTest, str]:
    """A turn that waits for a permission."""
    house.says(script)
    house.settings(**{"permission": {"bash": "ask"}, **settings})
    door = await house.open(person=person)
    session = await door.session()
    await door.start(session, "go")
    await door.until(lambda event: event.type == "permission.asked")
    return door, session


async def test_a_client_answers_a_call_that_waits_and_the_answer_is_durable_then(house: Machine) -> None:
    door, session = await begun(house)
    (waiting,) = await door.runtime.permission.list()
    assert (waiting.permission, waiting.patterns) == ("bash", ["echo ran >> ran"])
    assert len(await door.runtime.instance.store.asks()) == 1
    await door.runtime.permission.reply(waiting.id, "once")
    assert await door.runtime.instance.store.asks() == []
    assert [(given.request_id, given.reply) for given in door.of("permission.replied")] == [
        (waiting.id, "once")
    ]
    await door.idle(session)
    assert ran(house)
    assert await door.runtime.permission.list() == []


async def test_only_the_first_answer_counts_and_only_one_of_the_three(house: Machine) -> None:
    door, session = await begun(house)
    (waiting,) = await door.runtime.permission.list()
    with pytest.raises(Invalid, match="give one of once, always, reject"):
        await door.runtime.permission.reply(waiting.id, "yes")
    answers = [door.runtime.permission.reply(waiting.id, reply) for reply in ("reject", "once")]
    first, second = await asyncio.gather(*answers, return_exceptions=True)
    assert first is None
    assert isinstance(second, NotFound)
    await door.idle(session)
    assert not ran(house)
    with pytest.raises(NotFound, match="per_nothing"):
        await door.runtime.permission.reply("per_nothing", "once")


async def test_a_person_at_the_door_is_no_longer_asked_when_a_client_answered(house: Machine) -> None:
    person = Absent()
    door, session = await begun(house, person=person)
    await person.asked.wait()
    (waiting,) = await door.runtime.permission.list()
    await door.runtime.permission.reply(waiting.id, "once")
    await door.idle(session)
    assert person.left
    assert ran(house)


@pytest.mark.parametrize("through_the_client", [False, True])
async def test_a_rejection_with_a_reason_is_read_by_the_model_and_the_turn_goes_on(
    house: Machine, through_the_client: bool
) -> None:
    reason = "use git instead"
    person = relayed if through_the_client else Answering(PermissionAnswer("reject", f" {reason} "))
    door, session = await begun(house, person=person)
    if through_the_client:
        (waiting,) = await door.runtime.permission.list()
        await door.runtime.permission.reply(waiting.id, "reject", reason)
    await door.idle(session)
    assert results(await door.stored(session)) == [
        "The user rejected permission to use this specific tool call with the following feedback: use git instead"
    ]
    assert len(house.requests()) == 2


async def test_a_blank_reason_is_none(house: Machine) -> None:
    door, session = await begun(house)
    (waiting,) = await door.runtime.permission.list()
    await door.runtime.permission.reply(waiting.id, "reject", "  ")
    await door.idle(session)
    assert len(house.requests()) == 1


@pytest.mark.parametrize(("setting", "requests"), [(True, 2), (False, 1), ("yes", 1)])
async def test_a_setting_lets_the_turn_go_on_after_a_rejection(
    house: Machine, setting: Any, requests: int
) -> None:
    door, session = await begun(
        house, person=Answering("reject"), experimental={"continue_loop_on_deny": setting}
    )
    await door.idle(session)
    assert results(await door.stored(session)) == [
        "The user rejected permission to use this specific tool call."
    ]
    assert len(house.requests()) == requests


THREE = """
    == turn
    tool: deploy {"to": "test one"}
    tool: deploy {"to": "test two"}
    tool: deploy {"to": "production"}

    == turn
    text: went on
"""


async def deploying(house: Machine) -> tuple[RuntimeUnderTest, str, dict[str, str]]:
    """A turn with three calls that wait at once, and the ids of what they ask, by target."""

    async def execute(args: dict[str, Any], ctx: Any) -> str:
        to = args["to"]
        await ctx.ask(Ask("deploy", [to], [to.split()[0] + " *"]))
        return f"deployed {to}"

    tool = Tool("d", {"type": "object"}, execute, permissions=lambda args, ctx: [])
    house.says(THREE)
    house.settings(permission={"deploy": "ask"})
    door = await house.open(person=relayed)
    door.plugin({"tool": {"deploy": tool}})
    session = await door.session()
    await door.start(session, "go")
    await door.until(lambda event: len(door.of("permission.asked")) == 3)
    return door, session, {asked.patterns[0]: asked.id for asked in await door.runtime.permission.list()}


async def test_always_answers_the_sessions_other_calls_that_it_covers(house: Machine) -> None:
    door, session, waiting = await deploying(house)
    await door.runtime.permission.reply(waiting["test one"], "always")
    await door.until(lambda event: len(door.of("permission.replied")) == 2)
    assert [asked.id for asked in await door.runtime.permission.list()] == [waiting["production"]]
    assert {(given.request_id, given.reply) for given in door.of("permission.replied")} == {
        (waiting["test one"], "always"),
        (waiting["test two"], "always"),
    }
    await door.runtime.permission.reply(waiting["production"], "once")
    await door.idle(session)
    assert results(await door.stored(session)) == [
        *("deployed test one", "deployed test two", "deployed production")
    ]
    # What answered the second call was given once.
    assert [(rule.permission, rule.pattern) for rule in await door.runtime.permission.approvals()] == [
        ("deploy", "test *")
    ]


async def test_a_rejection_rejects_the_sessions_other_calls_too(house: Machine) -> None:
    door, session, waiting = await deploying(house)
    other = await door.session()
    elsewhere = asyncio.create_task(
        door.runtime.instance.approvals.require(
            Ask("deploy", ["test three"]),
            [Rule(permission="deploy", pattern="*", action="ask")],
            other,
            "deploy",
            door.of("permission.asked")[0].tool,
        )
    )
    await door.until(lambda event: len(door.of("permission.asked")) == 4)
    await door.runtime.permission.reply(waiting["test two"], "reject")
    await door.idle(session)
    refusal = "The user rejected permission to use this specific tool call."
    assert results(await door.stored(session)) == [refusal] * 3
    assert len(house.requests()) == 1
    # A call of another session still waits.
    (left,) = await door.runtime.permission.list()
    assert left.session_id == other
    await door.runtime.permission.reply(left.id, "once")
    await elsewhere


async def test_a_rejection_with_a_reason_leaves_the_other_calls_waiting(house: Machine) -> None:
    door, session, waiting = await deploying(house)
    await door.runtime.permission.reply(waiting["production"], "reject", "not today")
    left = {asked.id for asked in await door.runtime.permission.list()}
    assert left == {waiting["test one"], waiting["test two"]}
    await door.runtime.permission.reply(waiting["test one"], "always")
    await door.idle(session)
    said = results(await door.stored(session))
    assert said[:2] == ["deployed test one", "deployed test two"]
    assert said[2].endswith("not today")
    assert len(house.requests()) == 2


async def test_an_abort_withdraws_what_waits(house: Machine) -> None:
    door, session = await begun(house)
    (waiting,) = await door.runtime.permission.list()
    await asyncio.wait_for(door.client.abort(session), SOON)
    assert [given.reply for given in door.of("permission.replied")] == ["reject"]
    assert await door.runtime.permission.list() == []
    assert await door.runtime.instance.store.asks() == []
    with pytest.raises(NotFound):
        await door.runtime.permission.reply(waiting.id, "once")


async def test_what_a_dead_process_asked_is_withdrawn_and_what_a_living_one_asks_stays(
    house: Machine,
) -> None:
    door, _ = await begun(house)
    (waiting,) = await door.runtime.permission.list()
    dead = await door.session()
    left = PutAsk("per_left", dead, {"id": "per_left"})
    await door.runtime.instance.store.commit([left])
    later = await house.open(person=relayed)
    assert [row.id for row in await later.runtime.instance.store.asks()] == [waiting.id]


# -- what is remembered ------------------------------------------------------------------------------


@pytest.mark.slow
async def test_what_was_allowed_for_always_is_listed_and_can_be_taken_back(house: Machine) -> None:
    door, _ = await play(house, {"bash": "ask"}, Answering("always"))
    permission = door.runtime.permission
    assert [(rule.permission, rule.pattern) for rule in await permission.approvals()] == [
        ("bash", "echo ran >> ran")
    ]
    assert await permission.forget("bash", "echo") is False
    assert await permission.forget("bash", "echo ran >> ran") is True
    assert await permission.forget("bash", "echo ran >> ran") is False
    assert await permission.approvals() == []
    person = Answering("once")
    await play(house, {"bash": "ask"}, person)
    assert len(person.questions) == 1


@pytest.mark.slow
async def test_what_is_taken_back_in_one_place_still_holds_in_another(house: Machine) -> None:
    first, second = house.folder, house.folder.with_name("second")
    second.mkdir()
    await play(house, {"bash": "ask"}, Answering("always"))
    house.folder = second
    door, _ = await play(house, {"bash": "ask"}, Answering("always"))
    await door.runtime.permission.forget("bash", "echo ran >> ran")
    house.folder = first
    there = await house.open()
    assert len(await there.runtime.permission.approvals()) == 1
