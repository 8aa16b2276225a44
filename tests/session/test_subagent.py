"""Sub-agents: sessions of their own that a `task` call begins, goes on with, and ends."""

import asyncio
import json
import time
from typing import Any

import pytest
from tests.waiting import SOON, until

from instar.message import Rule
from instar.plugin import SessionBody, Tool
from instar.session.subagent import CAP, inherited
from instar.settings.permission import evaluate
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest, calls_of, results, said

pytest_plugins = ["tests.turn"]

TASK = """
    == turn
    tool: task {"description": "count files", "prompt": "child: count", "subagent_type": "general"}

    == turn
    text: all done
"""


def rule(permission: str, pattern: str, action: Any) -> Rule:
    return Rule(permission=permission, pattern=pattern, action=action)


async def played(
    house: Machine, child: str, script: str = TASK, **settings: Any
) -> tuple[RuntimeUnderTest, str]:
    house.says(script + child)
    house.settings(**settings)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    return door, session


async def test_a_task_is_done_in_a_session_of_its_own_and_its_answer_comes_back(house: Machine) -> None:
    door, session = await played(house, '\n    == when "child: count"\n    text: seven files\n')
    (child,) = await door.client.children(session)
    assert (child.parent_id, child.title, child.agent) == (
        session,
        "count files (@general subagent)",
        "general",
    )
    (found,) = results(await door.stored(session))
    assert found == (
        f'<task id="{child.id}" state="completed">\n<task_result>\nseven files\n</task_result>\n</task>'
    )
    (call,) = calls_of((await door.stored(session))[1])
    assert call.state.metadata["sessionId"] == child.id  # type: ignore[union-attr, index]
    history = await door.stored(child.id)
    assert [message.info.agent for message in history] == ["general", "general"]
    assert [one.id for one in await door.client.list() if one.parent_id] == [child.id]


async def test_what_a_sub_agent_spends_is_booked_to_the_task_in_its_own_session(house: Machine) -> None:
    door, session = await played(house, '\n    == when "child: count"\n    text: seven\n    usage: input=7\n')
    (child,) = await door.client.children(session)
    (usage,) = await door.runtime.instance.store.usage(child.id)
    assert (usage.cause, usage.tokens.input) == ("task", 7)
    assert {one.cause for one in await door.runtime.instance.store.usage(session)} == {"turn"}


async def test_a_task_goes_on_in_its_session_and_remembers(house: Machine) -> None:
    door, session = await played(house, '\n    == when "child: count"\n    text: seven\n')
    (child,) = await door.client.children(session)
    call = json.dumps(
        {"description": "more", "prompt": "child: again", "subagent_type": "general", "task_id": child.id}
    )
    house.says(
        TASK
        + f'\n    == when "more please"\n    tool: task {call}\n\n    == when "child: again"\n    text: eight\n'
    )
    await door.ask(session, "more please")
    assert [one.id for one in await door.client.children(session)] == [child.id]
    assert [request for request in house.requests() if "child: count" in str(request["messages"])][-1]
    assert (
        f'<task id="{child.id}" state="completed">\n<task_result>\neight'
        in results(await door.stored(session))[-1]
    )
    texts = [
        part.text
        for message in await door.stored(child.id)
        for part in message.parts
        if hasattr(part, "text")
    ]
    assert texts == ["child: count", "seven", "child: again", "eight"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ('"subagent_type": "genral"', "there is no agent 'genral'; there are: general"),
        ('"subagent_type": "zzz"', "there is no agent 'zzz'; there are: general, explore."),
        ('"subagent_type": "build"', "build takes no tasks; those that do: "),
        ('"subagent_type": "title"', "title takes no tasks"),
        (
            '"subagent_type": "general", "task_id": "ses_x"',
            "this session has no task ses_x; it has begun none",
        ),
    ],
)
async def test_a_task_that_cannot_be_begun_says_why(house: Machine, call: str, said: str) -> None:
    script = f'\n== turn\ntool: task {{"description": "d", "prompt": "p", {call}}}\n\n== turn\ntext: well\n'
    door, session = await played(house, "", script)
    assert said in results(await door.stored(session))[0]
    assert await door.client.children(session) == []


async def test_a_sub_agent_hands_no_task_on(house: Machine) -> None:
    # An agent that tasks itself without end: the child's first turn asks for a task like its parent's.
    door, session = await played(house, "")
    (child,) = await door.client.children(session)
    assert await door.client.children(child.id) == []
    assert "Model tried to call unavailable tool 'task'" in results(await door.stored(child.id))[0]
    assert "task" not in [spec["function"]["name"] for spec in house.requests()[1]["tools"]]


async def test_what_the_caller_is_denied_its_sub_agent_is_denied(house: Machine) -> None:
    child = """
    == when "child: count"
    tool: bash {"command": "rm -rf x"}
    tool: bash {"command": "echo fine"}
    """
    block = {"build": {"permission": {"bash": {"rm *": "deny"}}}}
    door, session = await played(house, child, agent=block)
    (made,) = await door.client.children(session)
    denied, fine = results(await door.stored(made.id))[:2]
    assert "rule which prevents you" in denied
    assert fine == "fine\n"


@pytest.mark.parametrize(
    ("caller", "own", "asked", "expected"),
    [
        ([("edit", "*", "deny")], [], ("edit", "a"), "deny"),
        ([("edit", "*", "deny"), ("edit", "a", "allow")], [], ("edit", "a"), "allow"),
        # an exception never loosens what the sub-agent itself restricts
        ([("edit", "*", "deny"), ("edit", "a", "allow")], [("edit", "a", "deny")], ("edit", "a"), "deny"),
        ([("edit", "*", "deny"), ("edit", "*", "allow")], [], ("edit", "a"), "allow"),
        # what holds for every agent has been weighed by the sub-agent's own rules
        (
            [("bash", "rm *", "deny")],
            [("bash", "rm *", "deny"), ("bash", "rm x", "allow")],
            ("bash", "rm x"),
            "allow",
        ),
        ([("bash", "*", "ask")], [], ("bash", "x"), "allow"),
        ([("*", "*", "deny"), ("read", "*", "allow")], [("read", "s", "deny")], ("read", "s"), "deny"),
    ],
)
def test_denials_are_inherited_and_nothing_is_loosened(
    caller: list[Any], own: list[Any], asked: tuple[str, str], expected: str
) -> None:
    common = [rule("*", "*", "allow")]
    theirs, mine = common + [rule(*one) for one in caller], common + [rule(*one) for one in own]
    assert evaluate(*asked, [*mine, *inherited(theirs, mine)]).action == expected


async def test_an_abort_reaches_the_sub_agent_within_a_second(house: Machine) -> None:
    child = '\n    == when "child: count"\n    tool: bash {"command": "echo begun; sleep 4711"}\n'
    house.says(TASK + child)
    door = await house.open()
    session = await door.session()
    await door.start(session, "go")
    part = await door.running("bash")
    begun = time.monotonic()
    await asyncio.wait_for(door.client.abort(session), SOON)
    assert part.session_id != session
    await door.idle(part.session_id)
    assert time.monotonic() - begun < SOON
    assert await door.client.status() == {}
    last = (await door.stored(part.session_id))[-1].info
    assert last.error.__class__.__name__ == "MessageAbortedError"  # type: ignore[union-attr]


BEHIND = (
    TASK.replace('"subagent_type"', '"background": true, "subagent_type"')
    + """
    == turn
    text: thank you
"""
)


async def begun(house: Machine) -> tuple[RuntimeUnderTest, str, str, asyncio.Event]:
    """A caller at rest, its sub-agent that works in the background, and what lets that one end."""
    child = '\n    == when "child: count" once\n    tool: hold {}\n\n    == when "held"\n    text: seven\n'
    house.says(BEHIND + child)
    door = await house.open()
    released = asyncio.Event()

    async def hold(args: Any, context: Any) -> str:
        await released.wait()
        return "held"

    door.plugin({"tool": {"hold": Tool("Hold.", {"type": "object", "properties": {}}, hold)}})
    session = await door.session()
    await asyncio.wait_for(door.ask(session, "go"), TIMEOUT)
    (made,) = await door.client.children(session)
    await until(lambda: len(house.requests()) == 3)
    return door, session, made.id, released


async def test_a_task_in_the_background_is_not_waited_for_and_its_end_is_told(house: Machine) -> None:
    door, session, child, released = await begun(house)
    history = await door.stored(session)
    assert results(history)[0].startswith(f'<task id="{child}" state="running">')
    assert said(history[-1]) == "all done"
    assert set(await door.client.status()) == {child}
    released.set()
    assert await door.runtime.turns.wait_behind(await door.live(session))
    told, answer = (await door.stored(session))[-2:]
    assert (
        said(told) == f'<task id="{child}" state="completed">\n<task_result>\nseven\n</task_result>\n</task>'
    )
    assert told.parts[0].synthetic  # type: ignore[union-attr]
    assert said(answer) == "thank you"


async def test_an_abort_ends_the_turn_and_the_next_one_what_works_in_the_background(house: Machine) -> None:
    door, session, child, _ = await begun(house)
    assert await asyncio.wait_for(door.client.abort(session), SOON)
    await door.idle(child)

    async def has_ended() -> bool:
        return not await door.client.abort(session)

    await until(has_ended)
    assert len(house.requests()) == 3


async def test_what_works_in_the_background_ends_with_its_session(house: Machine) -> None:
    door, session, _, _ = await begun(house)
    await door.client.delete(session)
    assert await door.client.status() == {}


async def test_work_in_the_background_that_the_end_of_instar_cut_off_is_told_by_the_next_turn(
    house: Machine,
) -> None:
    door, session, child, _ = await begun(house)
    await door.runtime.close()
    again = await house.open()
    await again.ask(session, "are you there?")
    texts = [said(one) for one in await again.stored(session)]
    assert any(text.startswith(f'<task id="{child}" state="error">') for text in texts[3:]), texts


async def test_a_task_in_the_background_that_cannot_be_begun_says_why(house: Machine) -> None:
    door, session = await played(house, "", BEHIND.replace("general", "genral"))
    assert "there is no agent 'genral'" in results(await door.stored(session))[0]


async def test_a_sub_agent_that_fails_says_so_and_the_caller_goes_on(house: Machine) -> None:
    door, session = await played(house, '\n    == when "child: count"\n    error: 400 no such parameter\n')
    found = results(await door.stored(session))[0]
    assert 'state="error">\n<task_error>\n' in found
    assert "no such parameter" in found


async def test_deleting_a_session_deletes_its_tasks(house: Machine) -> None:
    door, session = await played(house, '\n    == when "child: count"\n    text: seven\n')
    (child,) = await door.client.children(session)
    await door.client.delete(session)
    assert await door.runtime.instance.store.session(child.id) is None


async def test_hooks_give_a_sub_agent_context_and_make_it_go_on(house: Machine) -> None:
    seen: list[Any] = []

    async def start(given: Any, output: Any) -> None:
        seen.append((given.agent, given.description, given.resumed))
        output.context.append("mind the gap")

    async def stop(given: Any, output: Any) -> None:
        seen.append(given.continued)
        if given.continued == 0:
            output.prompt = "not enough"

    house.says(
        TASK + '\n    == when "child: count"\n    text: one\n\n    == when "not enough"\n    text: two\n'
    )
    door = await house.open()
    door.plugin({"subagent.start": start, "subagent.stop": stop})
    session = await door.session()
    await door.ask(session, "go")
    assert seen == [("general", "count files", False), 0, 1]
    assert "\ntwo\n" in results(await door.stored(session))[0]
    assert "mind the gap" in str(house.requests()[1]["messages"])


async def test_a_hook_that_never_lets_go_is_stopped_at_the_cap(house: Machine) -> None:
    async def stop(given: Any, output: Any) -> None:
        output.prompt = "child: count"

    house.says(TASK + '\n    == when "child: count"\n    text: one\n')
    door = await house.open()
    door.plugin({"subagent.stop": stop})
    session = await door.session()
    await door.ask(session, "go")
    (child,) = await door.client.children(session)
    assert len(await door.stored(child.id)) == 2 * (CAP + 1)


async def test_children_are_those_of_their_parent(house: Machine) -> None:
    door, session = await played(house, '\n    == when "child: count"\n    text: one\n')
    other = await door.session()
    await door.client.create(SessionBody(parent_id=other, title="c"))
    assert len(await door.client.children(session)) == 1
