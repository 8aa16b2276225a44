"""Notifications: what a hook says that others should know is told to every other live session, once."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from tests.waiting import until

from instar.message import User, text_of
from instar.plugin import PromptBody
from instar.plugins.evolve.database import Database

TELLS = '{"tools": [{"name": "tell", "description": "Tells."}]}'
CHANGED = {"type": "note_changed", "files": ["notes/a.md"]}
DEFAULT = "[update] modified: notes/a.md. Read again what you need."
SAID = "[update] modified: FOO.md. re-read if needed."
STORY = """\
== when "tell the others" once
tool: a_tell {}
== when "told|wait"
text: done
== when "."
text: ok
"""


def teller(person, notify=(CHANGED,), name="a.sh", **more):
    """A script whose tool says `notify`."""
    answer = json.dumps({"result": "told", "notify": list(notify)})
    return person.shell(name, discover=TELLS, execute_tool=answer, **more)


async def notes(door, session):
    """The messages of evolve's own in a session."""
    return [text_of(one) for one in await door.history(session) if is_synthetic(one)]


def is_synthetic(one):
    return isinstance(one.info, User) and all(part.synthetic for part in one.parts)


async def told(door, session, count=1):
    async def enough():
        found = await notes(door, session)
        return found if len(found) >= count else None

    return await until(enough)


async def prompted(door, count):
    """Sessions that were prompted once."""
    made = [await door.session() for _ in range(count)]
    for session in made:
        await door.ask(session, "hello")
    return made


async def opened_again(person):
    """An instar that nobody has used yet, and the sessions of one before it: who tells, and who is told."""
    teller(person)
    person.tell(STORY)
    door = await person.open()
    source, other = await prompted(door, 2)
    await door.runtime.close()
    return await person.open(), source, other


def waiting(door):
    """The sessions that something waits for, as evolve's view says."""
    return door.runtime.registry.views["evolve"].children["untold"].read("")


@pytest.mark.slow
async def test_every_other_live_session_gets_one_synthetic_message_at_once_and_no_model_is_asked(person):
    teller(person, format_notification=json.dumps({"message": SAID}))
    person.tell(STORY)
    door = await person.open()
    source, *others = await prompted(door, 3)
    calls = len(person.requests())
    await door.ask(source, "tell the others")
    for session in others:
        assert await told(door, session) == [SAID]
    assert len(person.requests()) == calls + 2
    assert await notes(door, source) == []
    given = person.calls("a.sh", "format_notification")
    assert sorted(one["session"]["id"] for one in given) == sorted(others)
    assert all(one["notifications"] == [CHANGED] for one in given)
    # The model reads it with the next prompt, in one call.
    assert await door.ask(others[0], "well?") == "ok"
    assert person.said()[-3:] == ["hello", SAID, "well?"]
    assert len(person.requests()) == calls + 3


@pytest.mark.slow
async def test_a_message_leaves_what_the_model_was_sent_before_as_it_was(person):
    teller(person)
    person.tell(STORY)
    door = await person.open()
    source, other = await prompted(door, 2)
    await door.ask(source, "tell the others")
    await told(door, other)
    await door.ask(other, "well?")
    first, _, _, last = person.requests()[-4:] if len(person.requests()) > 4 else person.requests()
    first = next(one for one in person.requests() if one["messages"][-1]["content"] == "hello")
    assert last["messages"][: len(first["messages"])] == first["messages"]
    assert last["system"] == first["system"]


async def test_what_an_answer_calls_notifications_is_told_with_what_it_calls_notify(person):
    lines = [{"result": "told", "notify": [CHANGED]}, {"notifications": [{"type": "mood"}]}]
    answer = "\n".join(map(json.dumps, lines))
    said = json.dumps({"message": SAID})
    person.shell("a.sh", discover=TELLS, execute_tool=answer, format_notification=said)
    person.tell(STORY)
    door = await person.open()
    source, other = await prompted(door, 2)
    await door.ask(source, "tell the others")
    assert await told(door, other) == [SAID]
    (given,) = person.calls("a.sh", "format_notification")
    assert given["notifications"] == [CHANGED, {"type": "mood"}]


async def test_without_a_script_that_words_it_the_files_are_named(person):
    teller(person)
    person.tell(STORY)
    door = await person.open()
    source, other = await prompted(door, 2)
    await door.ask(source, "tell the others")
    assert await told(door, other) == [DEFAULT]


async def test_a_script_that_fails_to_word_it_recovers_nothing_and_the_files_are_named(person):
    teller(person, format_notification="$ exit 3", recover='{"user": "recover!"}')
    person.tell(STORY)
    door = await person.open()
    source, other = await prompted(door, 2)
    await door.ask(source, "tell the others")
    assert await told(door, other) == [DEFAULT]
    assert person.calls("a.sh", "recover") == []


@pytest.mark.slow
async def test_a_script_may_say_that_there_is_nothing_to_tell(person):
    teller(person, format_notification='{"message": ""}')
    person.tell(STORY)
    door = await person.open()
    source, other = await prompted(door, 2)
    await door.ask(source, "tell the others")
    await until(lambda: not waiting(door))
    assert await notes(door, other) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "hook",
    ["observe_message", "idle", "tool_before", "tool_after", "mutate_request", "execute_tool", "recover"],
)
async def test_any_hook_may_notify(person, hook):
    answer = {"notify": {"type": "mood"}} | ({"result": "told"} if hook == "execute_tool" else {})
    mark = person.folder / "now"
    code = f"$ test -e {mark} && echo '{json.dumps(answer)}' || echo '{{}}'"
    answers = {"execute_tool": "$ exit 3" if hook == "recover" else '{"result": "told"}', hook: code}
    person.shell("a.sh", discover=TELLS, **answers)
    person.tell(STORY)
    door = await person.open()
    (other,) = await prompted(door, 1)
    source = await door.session()
    mark.touch()
    await door.ask(source, "tell the others")
    assert set(await told(door, other)) == {"[update] mood."}


@pytest.mark.slow
async def test_sub_agents_archived_sessions_and_those_that_were_never_prompted_are_not_told(person):
    teller(person)
    person.tell(STORY)
    door = await person.open()
    source, other, archived = await prompted(door, 3)
    await door.runtime.session.update(archived, archived=1)
    new = await door.session()
    await door.ask(source, "tell the others")
    await told(door, other)
    await until(lambda: not waiting(door))
    for session in (archived, new):
        await door.ask(session, "well?")
        assert await notes(door, session) == []


@pytest.mark.slow
async def test_a_session_in_the_middle_of_a_turn_is_told_between_two_steps(person):
    teller(person)
    gate = person.folder / "gate"
    person.tell(f"""\
== when "tell the others" once
tool: a_tell {{}}
== when "told"
text: done
== when "work" once
tool: bash {{"command": "until test -e {gate}; do sleep 0.02; done; echo open"}}
== when "."
text: ok
""")
    door = await person.open()
    (source,) = await prompted(door, 1)
    busy = await door.session()
    prompt = PromptBody.text("work", system="Briefly.", tools={"webfetch": False})
    turn = asyncio.create_task(door.runtime.session.prompt(busy, prompt))
    await until(lambda: _running(door, busy))
    await door.ask(source, "tell the others")
    assert await notes(door, busy) == []
    gate.touch()
    await turn
    assert await notes(door, busy) == [DEFAULT]
    # One step for the call, one for its output and the message.
    requests = [one for one in person.requests() if {"role": "user", "content": "work"} in one["messages"]]
    asked = [one["messages"] for one in requests]
    # What was asked for with the prompt holds after the message too.
    assert requests[0]["system"] == requests[1]["system"]
    assert "Briefly." in requests[1]["system"]
    assert "webfetch" not in person.tools(-1)
    assert [messages[-1]["role"] for messages in asked] == ["user", "user"]
    assert [one["content"] for one in asked[1][-2:]] == ["open\n", DEFAULT]


async def _running(door, session):
    return [call for call in await door.calls(session) if call.state.__struct_config__.tag == "running"]


@pytest.mark.slow
async def test_what_was_said_while_nobody_used_a_session_is_one_message_before_its_next_prompt(person):
    door, source, other = await opened_again(person)
    # In this process nobody has used the other session: it is told when it is gone on with.
    await door.ask(source, "tell the others")
    again = await door.session()
    await door.ask(again, "tell the others")
    await until(lambda: waiting(door) == [other])
    assert await door.ask(other, "well?") == "ok"
    assert len(await notes(door, other)) == 1
    assert person.said() == ["hello", DEFAULT, "well?"]
    assert waiting(door) == []


@pytest.mark.slow
async def test_a_session_is_told_no_more_than_eight_times_while_it_rests(person):
    teller(person)
    person.tell(STORY.replace(" once", ""))
    door = await person.open()
    (other,) = await prompted(door, 1)
    for number in range(10):
        source = await door.session()
        await door.ask(source, "tell the others")
        await told(door, other, min(number + 1, 8))
    assert len(await notes(door, other)) == 8
    await door.ask(other, "well?")
    assert other not in waiting(door)
    # The ninth was under way and the tenth came after it, or one note tells both: they say the same.
    assert len(await notes(door, other)) in (9, 10)


async def test_what_a_person_took_back_is_not_dropped_by_a_message(person):
    teller(person)
    person.tell(STORY)
    door = await person.open()
    source, other = await prompted(door, 2)
    await door.runtime.session.revert(other)
    await door.ask(source, "tell the others")
    await door.runtime.session.unrevert(other)
    # The end of the other turn is heard of a moment later: it may be told by now, behind what was taken back.
    assert [text_of(one) for one in await door.history(other)] in (["hello", "ok"], ["hello", "ok", DEFAULT])
    await door.ask(other, "well?")
    assert await notes(door, other) == [DEFAULT]


@pytest.mark.slow
async def test_nothing_waits_for_a_session_that_was_deleted(person):
    door, source, other = await opened_again(person)
    await door.ask(source, "tell the others")
    assert waiting(door) == [other]
    await door.runtime.session.delete(other)
    await until(lambda: not waiting(door))


@pytest.mark.slow
async def test_a_notice_that_leads_to_a_notice_ends_after_one_more_and_a_person_is_told(person):
    person.shell(
        "a.sh",
        discover=TELLS,
        execute_tool=json.dumps({"result": "told", "notify": [CHANGED]}),
        format_notification='{"message": "again", "notify": [{"type": "again"}]}',
    )
    person.tell(STORY)
    door = await person.open()
    source, other = await prompted(door, 2)
    heard = []
    door.runtime.instance.bus.observe(heard.append)
    await door.ask(source, "tell the others")
    limit = await until(lambda: [one.properties for one in heard if one.type == "session.limit"])
    await until(lambda: not waiting(door))
    assert "a notice led to 1 more on end" in limit[0].message
    assert (limit[0].limit, limit[0].cause) == ("notices", "evolve.format_notification")
    assert (await notes(door, other), await notes(door, source)) == (["again"], ["again"])
    assert len(person.calls("a.sh", "format_notification")) == 2


@pytest.mark.slow
async def test_prompts_that_come_while_sessions_are_told_are_answered_once_each(person):
    teller(person, format_notification=json.dumps({"message": SAID}))
    person.tell(STORY.replace(" once", ""))
    door = await person.open()
    sessions = await prompted(door, 4)
    for _ in range(6):
        calls = len(person.requests())
        source, *others = sessions
        turn = asyncio.create_task(door.ask(source, "tell the others"))
        # As the notice is queued, and while it is being told.
        await until(lambda: waiting(door))
        assert await asyncio.gather(*(door.ask(session, "hello") for session in others)) == ["ok"] * 3
        await turn
        await until(lambda: not waiting(door))
        assert len(person.requests()) == calls + 2 + 3
    for session in others:
        assert (await notes(door, session)) == [SAID] * 6
        history = await door.history(session)
        ids = {one.info.id for one in history if is_synthetic(one)}
        assert not [one for one in history if getattr(one.info, "parent_id", None) in ids]


@pytest.mark.slow
async def test_what_is_said_while_other_sessions_are_answered_is_told_at_the_end_of_their_turns(person):
    teller(person)
    person.tell(STORY)
    door = await person.open()
    source, *others = await prompted(door, 4)
    person.tell('== when "slow"\ndelay: 4s\ntext: ok\n' + STORY)
    calls = len(person.requests())
    turns = [asyncio.create_task(door.ask(session, "slow")) for session in others]
    await until(lambda: len(person.requests()) == calls + 3)
    await door.ask(source, "tell the others")
    assert [turn.done() for turn in turns] == [False] * 3
    assert await asyncio.gather(*turns) == ["ok"] * 3
    for session in others:
        assert await told(door, session) == [DEFAULT]
        assert is_synthetic((await door.history(session))[-1])
    assert len(person.requests()) == calls + 3 + 2


@pytest.mark.slow
async def test_what_one_process_says_is_told_in_another_before_the_next_prompt(person):
    teller(person)
    person.tell(STORY)
    door = await person.open()
    (other,) = await prompted(door, 1)
    person.instar("run", "-m", "scripted/x", "--title", "t", "tell the others")
    assert waiting(door) == [other]
    await door.ask(other, "well?")
    assert await notes(door, other) == [DEFAULT]
    person.instar("run", "-m", "scripted/x", "-s", other, "and now?")
    assert person.said().count(DEFAULT) == 1


KILLED = """\
import asyncio, os, signal, sys
from pathlib import Path
from instar.plugins.evolve import notifications
from instar.runtime import Options, Runtime
from instar.plugin import PromptBody

place, project, session, text = sys.argv[1:]
put = notifications.PostedMessages.put

async def dies(self, *args, **more):
    if place == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    await put(self, *args, **more)
    os.kill(os.getpid(), signal.SIGKILL)

notifications.PostedMessages.put = dies

async def main():
    flags = {"model": "scripted/x", "workspace": os.environ["INSTAR_WORKSPACE"]}
    runtime = await Runtime.open(Options(Path(project), dict(os.environ), flags))
    await runtime.session.prompt(session, PromptBody.text(text))

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["before", "after"])
async def test_a_process_that_is_killed_while_it_tells_neither_loses_nor_doubles_the_message(person, place):
    door, source, other = await opened_again(person)
    await door.ask(source, "tell the others")
    await door.runtime.close()
    given = [sys.executable, "-c", KILLED, place, str(person.project), other, "well?"]
    ended = await asyncio.to_thread(
        subprocess.run, given, env=os.environ | person.environment, timeout=30, capture_output=True
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    door = await person.open()
    assert len(await notes(door, other)) == (place == "after")
    await door.ask(other, "well?")
    assert await notes(door, other) == [DEFAULT]
    assert waiting(door) == []


async def test_a_queue_that_cannot_be_read_keeps_no_prompt_out(person):
    teller(person)
    person.tell(STORY)
    door = await person.open()
    source, other = await prompted(door, 2)
    (folder,) = (person.home / ".local/share/instar/plugin/evolve/workspaces").iterdir()
    with contextlib.closing(Database(folder)) as database:
        database.change(lambda connection: connection.execute("DROP TABLE waiting"))
    assert await door.ask(source, "tell the others") == "done"
    assert await door.ask(other, "well?") == "ok"
