"""Actions: what a hook asks for is done in other sessions, and no chain of actions goes on for ever."""

import asyncio
import json
import logging

import pytest
from tests.waiting import until

from instar.message import User, text_of
from instar.plugin import Origin, PromptBody

ACTS = '{"tools": [{"name": "act", "description": "Acts."}]}'
STORY = """\
== when "act now" once
tool: a_act {}
== when "acted"
text: done
== when "."
text: heard {{user}}
"""


def acting(person, *actions):
    """A script whose tool asks for these actions, and a model that calls it when told so."""
    person.shell("a.sh", discover=ACTS, execute_tool=json.dumps({"result": "acted", "actions": actions}))
    person.tell(STORY)


def send(session, **more):
    return {"type": "send", "session_id": session, "message": "ping"} | more


async def said(door, session):
    return [text_of(one) for one in await door.history(session)]


async def at_rest(door):
    """Wait until no session works."""

    async def done():
        return not await door.runtime.session.status()

    await until(done)


async def answered(door, session, *texts):
    async def there():
        return await said(door, session) == list(texts)

    await until(there)


def observed(door):
    heard = []
    door.runtime.instance.bus.observe(
        lambda one: heard.append(one.properties) if one.type == "session.limit" else 0
    )
    return heard


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "synthetic"), [({}, True), ({"synthetic": True}, True), ({"synthetic": False}, None)]
)
async def test_send_lets_another_session_answer_with_the_heartbeat_agent(person, more, synthetic):
    person.config(agent={"evolve": {"prompt": "You are the evolve agent."}})
    acting(person)
    door = await person.open()
    source, other = await door.session(), await door.session()
    acting(person, send(other, **more))
    person.accept()
    assert await door.ask(source, "act now") == "done"
    await answered(door, other, "ping", "heard ping")
    message, answer = await door.history(other)
    assert (message.info.agent, answer.info.agent) == ("evolve", "evolve")
    assert bool(message.parts[0].synthetic) is bool(synthetic)


@pytest.mark.slow
async def test_create_session_makes_one_of_this_title(person):
    acting(person, {"type": "create_session", "title": "Notes of today"})
    door = await person.open()
    await door.ask(await door.session(), "act now")
    assert "Notes of today" in [one.title for one in await door.runtime.session.list()]


@pytest.mark.slow
async def test_an_unknown_action_or_session_is_logged_and_the_others_still_happen(person):
    acting(
        person,
        {"type": "delete_everything"},
        send("ses_nowhere"),
        "send",
        {"type": "create_session", "title": "Still made"},
    )
    ran = person.run(STORY.replace("act now", "hi"))
    assert ran.logged("action 1 is left out; there are send and create_session", "delete_everything")
    assert ran.logged("send to ses_nowhere: Session not found")
    assert ran.logged("action 3 is left out", "Expected `object`, got `str`")
    door = await person.open()
    assert "Still made" in [one.title for one in await door.runtime.session.list()]


@pytest.mark.slow
async def test_send_to_the_own_session_is_a_follow_up_after_the_answer(person):
    acting(person)
    door = await person.open()
    source = await door.session()
    acting(person, send(source))
    person.accept()
    assert await door.ask(source, "act now") == "heard ping"
    assert (await said(door, source))[-3:] == ["done", "ping", "heard ping"]


@pytest.mark.slow
async def test_send_to_a_session_at_work_is_heard_by_its_next_step(person):
    gate = person.folder / "gate"
    acting(person)
    door = await person.open()
    source, busy = await door.session(), await door.session()
    acting(person, send(busy))
    person.accept()
    person.tell(
        '== when "work" once\n'
        f'tool: bash {{"command": "until test -e {gate}; do sleep 0.02; done; echo open"}}\n' + STORY
    )
    turn = asyncio.create_task(door.ask(busy, "work"))
    await until(lambda: door.calls(busy))
    await door.ask(source, "act now")
    gate.touch()
    assert "ping" in await turn
    assert await at_rest(door) is None


@pytest.mark.slow
async def test_an_agent_that_is_not_there_is_named_unless_nobody_chose_it(person):
    person.write("config/evolve.jsonc", '{"heartbeat_agent": "nusre"}')
    person.config(agent={"nurse": {"prompt": "n"}})
    acting(person)
    door = await person.open()
    source, other = await door.session(), await door.session()
    acting(person, send(other), send(source))
    person.accept()
    heard = await _logged(door, source)
    named = [line for line in heard if "heartbeat_agent: there is no agent 'nusre'; there are: " in line]
    assert named
    assert "nurse" in named[0].partition("there are: ")[2]
    assert await said(door, other) == []


async def _logged(door, session):
    """What evolve logged while the session acted."""
    lines = []

    class Ear(logging.Handler):
        def emit(self, record):
            lines.append(record.getMessage())

    ear = Ear()
    logging.getLogger("instar.evolve").addHandler(ear)
    try:
        await door.ask(session, "act now")
    finally:
        logging.getLogger("instar.evolve").removeHandler(ear)
    return lines


@pytest.mark.slow
async def test_without_an_agent_of_the_usual_name_the_sessions_own_answers(person):
    acting(person)
    door = await person.open()
    source, other = await door.session(), await door.session()
    acting(person, send(other))
    person.accept()
    await door.ask(source, "act now")
    await answered(door, other, "ping", "heard ping")
    assert (await door.history(other))[0].info.agent == "build"


@pytest.mark.slow
async def test_a_session_that_another_process_runs_is_refused_by_name(person):
    acting(person)
    door = await person.open()
    source, other = await door.session(), await door.session()
    acting(person, send(other), {"type": "create_session", "title": "Still made"})
    person.accept()
    assert await door.runtime.instance.store.lease(other, "elsewhere:1:x", 60_000)
    heard = await _logged(door, source)
    assert [
        line
        for line in heard
        if f"send to {other}" in line and "running in another process (elsewhere" in line
    ]
    assert "Still made" in [one.title for one in await door.runtime.session.list()]


# -- chains ----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_an_action_that_asks_for_itself_again_ends_and_a_person_is_told(person):
    mark = person.folder / "actions"
    person.shell("a.sh", discover="{}", observe_message=f"$ cat {mark} 2>/dev/null || echo '{{}}'")
    person.tell(STORY)
    door = await person.open()
    own = await door.session()
    mark.write_text(json.dumps({"actions": [send(own)]}))
    limits = observed(door)
    await door.ask(own, "hello")
    await at_rest(door)
    assert await said(door, own) == ["hello", "heard hello", "ping", "heard ping"]
    assert [(one.session_id, one.limit, one.cause) for one in limits] == [
        (own, "actions", "evolve.observe_message")
    ]
    assert (
        "a prompt of a person has led to 1 action on end: a chain of actions ends there" in limits[0].message
    )
    # The next prompt begins a new chain.
    await door.ask(own, "again")
    await at_rest(door)
    assert len(await said(door, own)) == 8


@pytest.mark.slow
async def test_two_sessions_that_send_to_each_other_end_after_one_round(person):
    mark = person.folder / "actions"
    person.shell("a.sh", discover="{}", observe_message=f"$ cat {mark} 2>/dev/null || echo '{{}}'")
    person.tell(STORY)
    door = await person.open()
    one, other = await door.session(), await door.session()
    mark.write_text(json.dumps({"actions": [send(one), send(other)]}))
    await door.ask(one, "hello")
    await at_rest(door)
    calls = len(person.requests())
    assert calls == 3
    assert await said(door, other) == ["ping", "heard ping"]
    assert await said(door, one) == ["hello", "heard hello", "ping", "heard ping"]


@pytest.mark.slow
async def test_an_action_of_a_heartbeat_is_its_own_and_starts_no_chain_also_after_a_restart(person):
    mark = person.folder / "actions"
    person.shell("a.sh", discover="{}", observe_message=f"$ cat {mark} 2>/dev/null || echo '{{}}'")
    person.tell(STORY)
    door = await person.open()
    beating, other, third = [await door.session() for _ in range(3)]
    mark.write_text(json.dumps({"actions": [send(other)]}))
    beat = Origin("heartbeat", "ws/12")
    limits = observed(door)
    await door.runtime.session.prompt(beating, PromptBody.text("[heartbeat] hi", synthetic=True), beat)
    await answered(door, other, "ping", "heard ping")
    await at_rest(door)
    assert [one.session_id for one in limits] == [other]
    assert "heartbeat ws/12 has led to 1 action on end" in limits[0].message
    await door.runtime.close()
    door = await person.open()
    assert await door.runtime.session.origin(other) == Origin("heartbeat", "ws/12", "evolve.send", 1)
    assert await said(door, third) == []
    assert all(isinstance(one.info, User) or one.info.agent for one in await door.history(other))


@pytest.mark.slow
async def test_one_answer_asks_for_sixteen_actions_at_most(person):
    acting(person, *({"type": "create_session", "title": f"n{number}"} for number in range(20)))
    door = await person.open()
    heard = await _logged(door, await door.session())
    made = [one.title for one in await door.runtime.session.list() if one.title.startswith("n")]
    assert len(made) == 16
    assert [line for line in heard if "an answer may ask for 16 at most" in line]


@pytest.mark.slow
def test_a_run_that_was_answered_is_well_although_a_chain_of_actions_ended(person):
    given = person.folder / "calls" / "a.sh.observe_message"
    action = f"""$ id=$(tail -n1 "{given}" | grep -o 'ses_[A-Za-z0-9]*' | head -n1)
        echo '{{"actions": [{{"type": "send", "message": "again", "session_id": "'$id'"}}]}}'"""
    person.shell("a.sh", discover="{}", observe_message=action)
    ran = person.run(STORY)
    assert "has led to 1 action on end" in ran.stderr
    assert ran.code == 0


@pytest.mark.slow
def test_a_run_waits_for_the_session_that_an_action_set_to_work(person):
    mark = person.folder / "actions"
    person.shell("a.sh", discover="{}", idle=f"$ cat {mark} 2>/dev/null || echo '{{}}'")
    person.run(STORY)
    (other,) = json.loads(person.instar("session", "list", "--json").stdout)
    mark.write_text(json.dumps({"actions": [send(other["id"])]}))
    ran = person.run('== when "ping"\ndelay: 4s\ntext: pong\n' + STORY)
    assert f"waiting for session {other['id']}" in ran.stderr
    last = json.loads(person.instar("export", other["id"]).stdout)["messages"][-1]
    assert [part["text"] for part in last["parts"] if part["type"] == "text"] == ["pong"]
