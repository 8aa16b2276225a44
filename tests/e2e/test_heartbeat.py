"""The heartbeat, as a person meets it: through sessions, restarts, settings and the command line."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.waiting import PATIENCE, SOON, until, wait_until

from instar.limits.stop import StopFile, scope_of
from instar.message import Assistant, ModelRef, User, WithParts, text_of
from instar.plugin import PromptBody, SessionBody
from instar.plugins.evolve.database import Database
from instar.plugins.evolve.heartbeat import heart, schedule, scheduler
from instar.plugins.evolve.heartbeat.book import HeartbeatBook
from instar.plugins.evolve.heartbeat.schedule import BeatEntry

HOUR = "3600000"
DISCOVER = '{"name": "bot"}'
BEAT = '{"system": ["You beat."], "user": "Look around."}'
FINE = """\
== when "."
text: fine
usage: input=100 output=20
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let schedulers look often: a test asks through the book, as another process does."""
    monkeypatch.setattr(scheduler, "LOOK", 0.02)
    monkeypatch.setattr(heart, "GRACE", 0.01)


@pytest.fixture
def beats(person: Any) -> "Beats":
    return Beats(person)


class Beats:
    """A person whose workspace has a heartbeat that is due in an hour, and beats when the test asks."""

    def __init__(self, person: Any) -> None:
        self.person = person
        person.environment["EVOLVE_HEARTBEAT_MS"] = HOUR
        person.config(agent={"evolve": {"prompt": "You are the heart."}})
        person.tell(FINE)

    @property
    def book(self) -> HeartbeatBook:
        data = self.person.home / ".local/share/instar/plugin/evolve/workspaces"
        (folder,) = data.iterdir()
        return HeartbeatBook(Database(folder))

    def noted(self, name: str) -> Any:
        return json.loads(Database(self.book.folder.parent).note(name) or b"null")

    def used(self) -> str:
        """The model that was noted as the one used last; "" before any was: plugins hear of it a moment later."""
        try:
            return str(self.noted("model")["model"]["modelID"])
        except FileNotFoundError:
            return ""

    def entries(self, *kinds: str) -> list[BeatEntry]:
        try:
            found = self.book.entries()
        except (FileNotFoundError, ValueError):  # no instar was here yet
            return []
        return [one for one in found if one.kind in kinds] if kinds else found

    async def beat(self) -> BeatEntry:
        """Ask for a beat and return what is written of it."""
        await until(lambda: self.book.state.every)
        self.ask()
        return await self.ended()

    def ask(self) -> None:
        now = time.time_ns() // 1_000_000
        self.book.change(lambda state: schedule.ask(state, now))

    async def ended(self) -> BeatEntry:
        """The beat that was asked for, once it has ended."""
        await until(lambda: not self.book.state.asked and self.book.state.beat is None)
        return [one for one in self.entries() if one.asked or one.times][-1]

    async def messages(self, door: Any, entry: BeatEntry) -> list[WithParts]:
        return list(await door.history(entry.session))


# -- a beat ----------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_beat_asks_the_hook_and_sends_what_it_answers_to_a_session_of_its_own(beats):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    talk = await door.session()
    await door.ask(talk)
    entry = await beats.beat()
    assert (entry.kind, entry.why, entry.tokens) == ("ran", "", 120)
    session = await door.runtime.session.get(entry.session)
    assert session.title == "heartbeat"
    asked, answered = await beats.messages(door, entry)
    assert isinstance(asked.info, User)
    assert (text_of(asked), asked.info.agent) == ("[heartbeat] Look around.", "evolve")
    assert [part.synthetic for part in asked.parts] == [True]
    assert text_of(answered) == "fine"
    assert person.requests()[-1]["system"] == ["You beat."]
    (given,) = person.calls("a.sh", "heartbeat")
    assert [one["id"] for one in given["sessions"]] == [talk]
    assert given["history"] == []


@pytest.mark.slow
async def test_the_next_beat_goes_on_in_the_same_session_with_the_same_bytes_before_it(beats):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    first, second = await beats.beat(), await beats.beat()
    assert first.session == second.session
    one, two = person.requests()
    assert (one["system"], one["tools"]) == (two["system"], two["tools"])
    assert two["messages"][: len(one["messages"])] == one["messages"]
    history = person.calls("a.sh", "heartbeat")[1]["history"]
    assert [(said["role"], said["agent"]) for said in history] == [
        ("user", "evolve"),
        ("assistant", "evolve"),
    ]
    assert beats.book.state.tally == schedule.Tally(first.session, 2, 240)
    assert len(await beats.messages(door, first)) == 4


@pytest.mark.slow
async def test_a_new_system_prompt_of_the_hook_replaces_the_sessions_own_at_the_next_beat(beats):
    person = beats.person
    counted = f'$ wc -l <"{person.folder}/calls/a.sh.heartbeat" | sed \'s/.*/{{"system": ["beat &"], "user": "go"}}/\''
    person.shell("a.sh", discover=DISCOVER, heartbeat=counted, mutate_request='{"system": ["chat"]}')
    await person.open()
    await beats.beat()
    await beats.beat()
    assert person.systems() == [["beat 1"], ["beat 2"]]


@pytest.mark.slow
async def test_without_a_hook_the_prompt_file_is_the_system_prompt(beats):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER)
    person.write("prompts/heartbeat.md", "Beat quietly.")
    person.write("prompts/preamble.md", "You are Bot.")
    await person.open()
    assert (await beats.beat()).kind == "ran"
    assert person.systems() == [["You are Bot.", "Beat quietly."]]
    assert person.said()[-1].startswith("[heartbeat] ")


@pytest.mark.slow
async def test_a_hook_that_says_only_what_to_do_leaves_the_session_the_prompt_of_mutate_request(beats):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER, heartbeat='{"user": "go"}', mutate_request='{"system": ["chat"]}')
    await person.open()
    await beats.beat()
    assert person.systems() == [["chat"]]


@pytest.mark.slow
async def test_where_there_is_nothing_to_send_the_skip_says_so_and_no_session_is_made(beats):
    beats.person.shell("a.sh", discover=DISCOVER)
    door = await beats.person.open()
    entry = await beats.beat()
    assert (entry.kind, entry.session) == ("skipped", "")
    assert "no script answers `heartbeat`" in entry.why
    assert await door.runtime.session.list() == []


@pytest.mark.slow
@pytest.mark.parametrize("key", ["system", "user"])
async def test_what_is_too_long_is_not_sent_and_the_beat_says_so(beats, key, caplog):
    person = beats.person
    long = f"""$ printf '{{"{key}": "'; head -c 100001 /dev/zero | tr '\\0' x; echo '"}}'"""
    person.shell("a.sh", discover=DISCOVER, heartbeat=long)
    await person.open()
    entry = await beats.beat()
    assert entry.kind == "failed"
    assert re.search(rf"as {key} has 1000\d\d characters, 100000 at most are sent", entry.why)
    assert "100000 at most are sent" in caplog.text
    assert person.requests() == []


@pytest.mark.slow
async def test_a_beat_is_not_offered_the_tool_that_asks_a_person(beats):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)

    async def questioner(asked: Any) -> None:
        raise AssertionError("nobody is asked")

    door = await person.open(questioner=questioner)
    talk = await door.session()
    await door.ask(talk)
    assert "question" in person.tools()
    await beats.beat()
    assert "question" not in person.tools()
    assert "read" in person.tools()


@pytest.mark.slow
async def test_what_the_hook_changes_is_committed_as_the_heartbeat(beats):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER, heartbeat=f"$ mkdir -p notes; echo hi >notes/n.md; echo '{BEAT}'")
    await person.open()
    await beats.beat()
    assert person.subjects()[0] == "heartbeat"
    assert "Call: heartbeat 0" in person.git("log", "-1", "--format=%B")
    assert person.git("show", "--name-only", "--format=").split() == ["notes/n.md"]


VETO = """
async def veto(input, options=None):
    async def heartbeat(given, output):
        raise ValueError(f"no beat {given.number}: {given.system} {given.user}")

    return {"evolve.heartbeat": heartbeat}
"""


@pytest.mark.slow
async def test_another_plugin_may_refuse_a_beat_and_the_skip_says_why(beats):
    (beats.person.home / ".config" / "instar" / "plugin").mkdir(parents=True)
    (beats.person.home / ".config" / "instar" / "plugin" / "veto.py").write_text(VETO)
    beats.person.shell("bot.sh", discover=DISCOVER, heartbeat=BEAT)
    await beats.person.open()
    entry = await beats.beat()
    assert entry.why == ("the plugin veto refused it: no beat 0: ['You beat.'] [heartbeat] Look around.")
    assert beats.person.requests() == []


@pytest.mark.slow
async def test_what_a_beat_spends_is_booked_as_that_heartbeats(beats):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    entry = await beats.beat()
    store = door.runtime.instance.store
    booked = list(await store.usage(session_id=entry.session))
    assert {(one.origin, one.origin_id.rpartition("/")[2]) for one in booked} == {("heartbeat", "0")}


# -- agent and model -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "named", "why"),
    [
        ("EVOLVE_HEARTBEAT_AGENT", "evolv", r"heartbeat_agent: there is no agent 'evolv'.*\bevolve\b"),
        ("EVOLVE_MODEL", "nowhere/m", "nowhere"),
    ],
)
async def test_an_agent_or_a_model_that_is_none_fails_the_beat_and_it_is_said(beats, variable, named, why):
    person = beats.person
    person.environment[variable] = named
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    await person.open()
    entry = await beats.beat()
    assert entry.kind == "failed"
    assert re.search(why, entry.why)
    assert person.requests() == []


@pytest.mark.slow
@pytest.mark.parametrize("named", ['"scripted/y"', '{"providerID": "scripted", "modelID": "y"}'])
async def test_the_model_of_the_settings_answers_in_both_forms(beats, named):
    person = beats.person
    person.write("config/evolve.jsonc", f'{{"model": {named}}}')
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    entry = await beats.beat()
    answered = (await beats.messages(door, entry))[-1].info
    assert isinstance(answered, Assistant)
    assert answered.model_id == "y"


@pytest.mark.slow
@pytest.mark.parametrize("named", ["scripted/y", '{"providerID": "scripted", "modelID": "y"}'])
async def test_the_environment_wins_over_the_settings_file(beats, named):
    person = beats.person
    person.write("config/evolve.jsonc", '{"model": "scripted/z", "heartbeat_agent": "nobody"}')
    person.environment |= {"EVOLVE_MODEL": named, "EVOLVE_HEARTBEAT_AGENT": "build"}
    person.environment["EVOLVE_HEARTBEAT_TITLE"] = "pulse"
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    entry = await beats.beat()
    answered = (await beats.messages(door, entry))[-1].info
    assert isinstance(answered, Assistant)
    assert (answered.model_id, answered.agent) == ("y", "build")
    assert (await door.runtime.session.get(entry.session)).title == "pulse"


@pytest.mark.slow
async def test_the_model_that_a_person_used_last_is_written_down_at_once_and_beats_after_a_restart(beats):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    prompt = PromptBody.text("hi", model=ModelRef(provider_id="scripted", model_id="y"))
    await door.runtime.session.prompt(await door.session(), prompt)
    await until(lambda: beats.used() == "y")
    await door.runtime.close()
    kept = person.root / "state/evolve.json"
    written = {"model": {"providerID": "scripted", "modelID": "y"}}
    assert json.loads(kept.read_text()) == written
    assert person.git("status", "--porcelain") == ""
    door = await person.open()
    entry = await beats.beat()
    assert (await beats.messages(door, entry))[-1].info.model_id == "y"
    assert json.loads(kept.read_text()) == written
    # What stands there counts, and what scripts keep beside it stays.
    kept.write_text('{"model": {"providerID": "scripted", "modelID": "z"}, "mine": 1}')
    entry = await beats.beat()
    assert (await beats.messages(door, entry))[-1].info.model_id == "z"
    await door.ask(await door.session())
    await until(lambda: beats.used() == "x")
    await beats.beat()
    assert json.loads(kept.read_text()) == {"model": {"providerID": "scripted", "modelID": "x"}, "mine": 1}


@pytest.mark.slow
async def test_only_a_persons_own_sessions_say_which_model_was_used_last(beats):
    person = beats.person
    person.environment["EVOLVE_MODEL"] = "scripted/y"
    person.config(agent={"evolve": {"prompt": "p"}, "compaction": {"model": "scripted/c"}})
    person.tell(FINE + "== compaction\ntext: A summary.\n")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    talk = await door.session()
    await door.ask(talk)
    await until(lambda: beats.used() == "x")
    await beats.beat()
    child = await door.runtime.session.create(SessionBody(title="t", parent_id=talk))
    other = PromptBody.text("hi", model=ModelRef(provider_id="scripted", model_id="z"))
    await door.runtime.session.prompt(child.id, other)
    await door.runtime.session.summarize(talk)
    await beats.beat()
    assert beats.used() == "x"


@pytest.mark.slow
async def test_the_agents_own_model_comes_before_the_one_that_was_used_last(beats):
    person = beats.person
    person.config(agent={"evolve": {"prompt": "p", "model": "scripted/own"}})
    person.write("state/evolve.json", '{"model": {"providerID": "scripted", "modelID": "last"}}')
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    entry = await beats.beat()
    assert (await beats.messages(door, entry))[-1].info.model_id == "own"


@pytest.mark.slow
async def test_a_remembered_model_that_is_none_is_said_and_passed_over(beats, caplog):
    person = beats.person
    person.write("state/evolve.json", '{"model": {"providerID": "nowhere", "modelID": "m"}}')
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    await person.open()
    assert (await beats.beat()).kind == "ran"
    assert "state/evolve.json" in caplog.text
    assert "nowhere" in caplog.text


# -- skipping, failing, restarts -------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_beat_that_is_due_while_another_session_works_is_skipped_with_the_reason(beats):
    person = beats.person
    person.environment["EVOLVE_HEARTBEAT_MS"] = "200"
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    person.tell('== when "hi"\ntool: bash {"command": "sleep 60"}\n' + FINE)
    door = await person.open()
    talk = await door.session()
    asking = asyncio.create_task(door.ask(talk))
    try:
        (entry, *_) = await until(lambda: [one for one in beats.entries("skipped") if talk in one.why])
    finally:
        await door.runtime.session.abort(talk)
        await asyncio.gather(asking, return_exceptions=True)
    assert entry.why == f"session {talk} (t) is busy"
    # One may have run before the session began to work.
    await until(lambda: [one for one in beats.entries("ran") if one.number > entry.number])


@pytest.mark.slow
async def test_a_session_of_another_instar_on_the_workspace_keeps_it_from_beating_too(beats):
    person = beats.person
    person.environment["EVOLVE_HEARTBEAT_MS"] = "200"
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    person.tell('== when "hi"\ntool: bash {"command": "sleep 60"}\n' + FINE)
    await person.open()
    other = await person.open()
    await until(lambda: beats.entries("ran"))
    talk = await other.session()
    asking = asyncio.create_task(other.ask(talk))
    try:
        await until(lambda: [one for one in beats.entries("skipped") if "of another instar" in one.why])
    finally:
        await other.runtime.session.abort(talk)
        await asyncio.gather(asking, return_exceptions=True)
    number = beats.book.state.number
    await until(lambda: [one for one in beats.entries("ran") if one.number >= number])


@pytest.mark.slow
async def test_the_setting_lets_it_beat_while_another_session_works(beats):
    person = beats.person
    person.environment |= {"EVOLVE_HEARTBEAT_MS": "200", "EVOLVE_HEARTBEAT_SKIP_ACTIVE": "false"}
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    person.tell('== when "hi"\ntool: bash {"command": "sleep 60"}\n' + FINE)
    door = await person.open()
    talk = await door.session()
    asking = asyncio.create_task(door.ask(talk))

    async def working() -> bool:
        return talk in await door.runtime.session.status()

    try:
        await until(working)
        number = beats.book.state.number
        assert await until(lambda: [one for one in beats.entries("ran") if one.number >= number])
        assert await working()
    finally:
        await door.runtime.session.abort(talk)
        await asyncio.gather(asking, return_exceptions=True)


@pytest.mark.slow
async def test_a_script_that_fails_in_the_hook_is_recovered_in_the_beat_once_until_it_is_mended(beats):
    person = beats.person
    person.shell(
        "a.sh",
        discover=DISCOVER,
        heartbeat="$ echo broken >&2; exit 3",
        recover='{"system": ["emergency"], "user": "mend it"}',
    )
    await person.open()
    first, second = await beats.beat(), await beats.beat()
    assert (first.kind, second.kind) == ("ran", "skipped")
    assert first.why.startswith("recovered from: a.sh heartbeat: ")
    assert "a.sh heartbeat: " in second.why
    assert (first.tokens, second.tokens) == (120, 0)
    assert person.systems() == [["emergency"]]
    assert person.said() == ["[heartbeat] mend it"]


@pytest.mark.slow
async def test_a_model_that_fails_makes_a_beat_that_failed_and_the_next_one_runs(beats):
    person = beats.person
    person.tell("== turn\nerror: 400 no such thing\n")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    await person.open()
    entry = await beats.beat()
    assert entry.kind == "failed"
    assert "no such thing" in entry.why
    person.tell(FINE)
    assert (await beats.beat()).kind == "ran"


@pytest.mark.slow
async def test_a_limit_that_ends_a_beat_is_its_outcome(beats):
    person = beats.person
    person.config(agent={"evolve": {"prompt": "p"}}, limits={"session": {"tokens": 100}})
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    await person.open()
    assert (await beats.beat()).kind == "ran"
    entry = await beats.beat()
    assert entry.kind == "failed"
    assert "limits.session.tokens" in entry.why


@pytest.mark.slow
async def test_a_chain_of_actions_that_ends_in_a_beat_is_no_failure_of_the_beat(beats):
    person = beats.person
    given = person.folder / "calls" / "a.sh.observe_message"
    action = f"""$ id=$(tail -n1 "{given}" | grep -o 'ses_[A-Za-z0-9]*' | head -n1)
        echo '{{"actions": [{{"type": "send", "message": "again", "session_id": "'$id'"}}]}}'"""
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT, observe_message=action)
    door = await person.open()
    heard = []
    door.runtime.instance.bus.observe(
        lambda one: heard.append(one.properties) if one.type == "session.limit" else 0
    )
    entry = await beats.beat()
    assert [one.limit for one in heard] == ["actions"]
    assert (entry.kind, entry.why, entry.tokens) == ("ran", "", 240)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "calls", "limit"),
    [
        ({}, 9, "follow_ups"),
        ({"heartbeat": {"tokens": 350}}, 3, "limits.heartbeat.tokens"),
        ({"calls": 5}, 5, "limits.calls"),
    ],
    ids=["cap", "heartbeat", "calls"],
)
async def test_a_heartbeat_that_answers_itself_stops_and_the_next_one_beats(beats, limits, calls, limit):
    """Its `idle` always goes on, and each answer is noted in the other sessions."""
    person = beats.person
    person.config(agent={"evolve": {"prompt": "p"}}, limits=limits)
    again, note = '{"continue": "and again"}', '{"notify": [{"type": "beat"}]}'
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT, idle=again, observe_message=note)
    door = await person.open()
    await door.session()
    heard = []
    door.runtime.instance.bus.observe(
        lambda one: heard.append(one.properties.limit) if one.type == "session.limit" else 0
    )
    for number in (1, 2):
        await beats.beat()
        assert len(person.requests()) == calls * number
        assert set(heard) == {limit}


@pytest.mark.slow
async def test_a_beat_that_a_person_aborts_is_written_down_as_interrupted(beats):
    person = beats.person
    person.tell('== turn\ntool: bash {"command": "sleep 60"}\n')
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    await until(lambda: beats.book.state.every)
    beats.ask()
    await until(lambda: person.requests())
    (session,) = await door.runtime.session.list()
    await door.runtime.session.abort(session.id)
    assert (await beats.ended()).kind == "interrupted"


@pytest.mark.slow
async def test_the_end_of_instar_cuts_a_beat_short_and_the_next_one_goes_on_in_its_session(beats):
    person = beats.person
    person.tell('== turn\ntool: bash {"command": "sleep 60"}\n')
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    await until(lambda: beats.book.state.every)
    beats.ask()
    await until(lambda: person.requests())
    begun = time.monotonic()
    await door.runtime.close()
    assert time.monotonic() - begun < SOON
    (entry,) = beats.entries()
    assert entry.kind == "interrupted"
    due = beats.book.state.due
    person.tell(FINE)
    door = await person.open()
    await door.ask(await door.session())
    assert beats.book.state.due == due
    await beats.beat()
    # The one that was talked to, and the heartbeat's.
    assert len(await door.runtime.session.list()) == 2


@pytest.mark.slow
async def test_of_two_instars_on_a_workspace_one_beats_and_the_other_takes_over(beats):
    person = beats.person
    person.environment["EVOLVE_HEARTBEAT_MS"] = "50"
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    first = await person.open()
    await until(lambda: beats.entries("ran"))
    await person.open()
    await first.runtime.close()
    last = beats.book.state.number
    await until(lambda: [one for one in beats.entries("ran") if one.number > last])
    numbers = [one.number for one in beats.entries() if one.times]
    assert numbers == sorted(set(numbers))


@pytest.mark.slow
async def test_a_stop_freezes_the_heart_until_a_person_resumes_it(beats):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    await person.open()
    await until(lambda: beats.book.state.every)
    stops = StopFile(person.home / ".local/share/instar")
    stops.add(scope_of(person.project), time.time_ns() // 1_000_000)
    await until(lambda: beats.book.state.paused)
    assert [one.why for one in beats.entries("paused")] == ["instar stop"]
    with pytest.raises(schedule.ScheduleRefused, match="instar heartbeat resume"):
        beats.ask()
    await asyncio.to_thread(person.instar, "heartbeat", "resume")
    assert (await beats.beat()).kind == "ran"


@pytest.mark.slow
async def test_a_new_interval_holds_once_a_person_accepted_it_without_any_session_at_work(beats):
    person = beats.person
    del person.environment["EVOLVE_HEARTBEAT_MS"]
    person.write("config/evolve.jsonc", f'{{"heartbeat_ms": {HOUR}}}')
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    await person.open()
    await until(lambda: beats.book.state.every == int(HOUR))
    person.write("config/evolve.jsonc", '{"heartbeat_ms": 40}')
    await asyncio.to_thread(person.accept)
    await until(lambda: len(beats.entries("ran")) >= 2)
    person.write("config/evolve.jsonc", '{"heartbeat_ms": -1}')
    await asyncio.to_thread(person.accept)
    await until(lambda: beats.book.state.due is None)


@pytest.mark.slow
async def test_a_safe_run_does_not_beat(beats):
    person = beats.person
    person.environment["EVOLVE_HEARTBEAT_MS"] = "20"
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    person.run("== turn\ntext: one\n", EVOLVE_HEARTBEAT_MS=HOUR)
    person.run('== turn\ntool: bash {"command": "sleep 0.5"}\n== turn\ntext: two\n', "--safe")
    assert beats.entries() == []
    assert person.calls("a.sh", "heartbeat") == []


# -- cleanup ---------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("by", ["count", "tokens"])
@pytest.mark.parametrize("how", ["none", "new", "archive", "compact"])
async def test_the_session_is_cleaned_as_the_settings_say_when_a_threshold_is_reached(beats, how, by):
    person = beats.person
    person.environment["EVOLVE_HEARTBEAT_CLEANUP"] = how
    person.environment[f"EVOLVE_HEARTBEAT_CLEANUP_{by.upper()}"] = "2" if by == "count" else "240"
    person.tell(FINE + "== compaction\ntext: A summary.\n")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    first, second = await beats.beat(), await beats.beat()
    assert first.session == second.session
    left = await door.runtime.session.get(first.session)
    assert bool(left.time.archived) == (how == "archive")
    summaries = [
        one
        for one in await beats.messages(door, first)
        if isinstance(one.info, Assistant) and one.info.summary
    ]
    assert bool(summaries) == (how == "compact")
    booked = await door.runtime.instance.store.usage(first.session)
    assert {one.origin for one in booked} == {"heartbeat"}, "the summary is the heartbeat's too"
    assert [one.cause for one in booked].count("compaction") == len(summaries)
    tally = beats.book.state.tally
    assert tally.count == (2 if how == "none" else 0)
    third = await beats.beat()
    assert (third.session == first.session) == (how in ("none", "compact"))


@pytest.mark.slow
async def test_a_session_that_could_not_be_summarised_is_so_after_the_next_beat(beats):
    person = beats.person
    person.environment |= {"EVOLVE_HEARTBEAT_CLEANUP": "compact", "EVOLVE_HEARTBEAT_CLEANUP_COUNT": "2"}
    person.tell(FINE + "== compaction\nerror: filter no\n")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    await person.open()
    await beats.beat()
    assert (await beats.beat()).kind == "ran"
    assert beats.book.state.tally.count == 2
    person.tell(FINE + "== compaction\ntext: A summary.\n")
    await beats.beat()
    assert beats.book.state.tally.count == 0


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["archived", "deleted"])
async def test_a_session_that_a_person_put_away_is_made_anew(beats, gone):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    door = await person.open()
    first = await beats.beat()
    if gone == "archived":
        await door.runtime.session.update(first.session, archived=1)
    else:
        await door.runtime.session.delete(first.session)
    second = await beats.beat()
    assert second.kind == "ran"
    assert second.session != first.session


@pytest.mark.slow
async def test_a_session_that_works_in_another_directory_is_not_beaten_in(beats):
    person = beats.person
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    here, elsewhere = person.project, person.folder / "elsewhere"
    elsewhere.mkdir()
    await person.open()
    first = await beats.beat()
    person.project = elsewhere
    strange = await (await person.open()).session()
    note = json.dumps({str(here): strange}).encode()
    Database(beats.book.folder.parent).keep("heartbeat", note)
    entry = await beats.beat()
    assert entry.kind == "ran"
    assert entry.session not in (strange, first.session)
    assert beats.noted("heartbeat") == {str(here): entry.session}


@pytest.mark.slow
async def test_what_goes_on_after_a_beat_is_not_offered_the_tool_that_asks_a_person_either(beats):
    person = beats.person
    mark = person.folder / "said"
    idle = f"""$ test -e {mark} && echo '{{}}' || {{ touch {mark}; echo '{{"continue": "go on"}}'; }}"""
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT, idle=idle)

    async def questioner(asked: Any) -> None:
        raise AssertionError("nobody is asked")

    await person.open(questioner=questioner)
    await beats.beat()
    beat, after = person.requests()
    assert "go on" in json.dumps(after["messages"])
    assert after["tools"] == beat["tools"]
    assert "question" not in person.tools()


# -- doors -----------------------------------------------------------------------------------------------


@pytest.fixture
def serve(person):
    """Start ``instar serve`` on any port; it is ended with the test."""
    started = []

    def start() -> Any:
        command = [sys.executable, "-m", "instar", "serve", "--port", "0", "--grace", "0", "--print-logs"]
        child = subprocess.Popen(
            command,
            cwd=person.project,
            env=person.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(child)
        return child

    yield start
    for child in started:
        if child.poll() is None:
            child.terminate()
        child.wait(PATIENCE)


@pytest.mark.slow
def test_a_server_beats_from_its_start_without_any_request_and_after_a_kill_goes_on(beats, serve):
    person = beats.person
    person.environment["EVOLVE_HEARTBEAT_MS"] = "300"
    person.config(agent={"evolve": {"prompt": "p"}}, model="scripted/x")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    child = serve()
    wait_until(lambda: len(beats.entries("ran")) >= 2)
    said = json.loads(person.instar("heartbeat", "status", "--json").stdout)
    assert said["process"] == child.pid
    assert said["session"]["session"] == beats.entries("ran")[0].session
    child.send_signal(signal.SIGKILL)
    child.wait()
    number = beats.book.state.number
    serve()
    wait_until(lambda: [one for one in beats.entries("ran") if one.number > number])
    spans = [number for one in beats.entries() for number in range(one.number, one.number + one.times)]
    assert spans == list(range(len(spans)))


@pytest.mark.slow
def test_now_is_done_by_the_server_that_runs(beats, serve):
    person = beats.person
    person.config(agent={"evolve": {"prompt": "p"}}, model="scripted/x")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    child = serve()
    wait_until(
        lambda: json.loads(person.instar("heartbeat", "status", "--json").stdout)["process"] == child.pid
    )
    entry = json.loads(person.instar("heartbeat", "now", "--json").stdout)
    assert (entry["kind"], entry["asked"]) == ("ran", True)
    assert person.said() == ["[heartbeat] Look around."]


@pytest.mark.slow
def test_a_run_that_goes_on_does_not_go_on_with_the_heartbeats_session(beats):
    person = beats.person
    person.config(agent={"evolve": {"prompt": "p"}}, model="scripted/x")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    person.run("== turn\ntext: hello\n")
    entry = json.loads(person.instar("heartbeat", "now", "--json").stdout)
    mine, heart = sorted(
        json.loads(person.instar("session", "list", "--json").stdout), key=lambda one: one["title"] != "t"
    )
    assert (heart["id"], heart["time"]["updated"] > mine["time"]["updated"]) == (entry["session"], True)
    person.run(FINE, "-c")
    shown = json.loads(person.instar("session", "list", "--json").stdout)
    assert [one["id"] for one in shown] == [mine["id"], heart["id"]]


@pytest.mark.slow
def test_now_beats_itself_where_nobody_runs_and_status_tells_of_it(beats):
    person = beats.person
    person.config(agent={"evolve": {"prompt": "p"}}, model="scripted/x")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    ran = person.instar("heartbeat", "now")
    assert re.search(r"heartbeat 0 ran in [0-9.]+ s in ses_\w+, 120 tokens, \$0\.0000", ran.stdout), (
        ran.stdout
    )
    status = person.instar("heartbeat", "status").stdout
    assert "process    none: nobody beats until" in status
    assert "1 heartbeat, 120 tokens" in status
    said = json.loads(person.instar("heartbeat", "status", "--json").stdout)
    assert said["last"]["kind"] == "ran"
    assert said["next"] > time.time() * 1000


@pytest.mark.slow
def test_now_waits_for_the_sessions_that_an_action_of_the_beat_set_to_work(beats):
    person = beats.person
    person.config(agent={"evolve": {"prompt": "p"}}, model="scripted/x")
    person.shell("a.sh", discover=DISCOVER)
    person.run("== turn\ntext: hello\n")
    (mine,) = json.loads(person.instar("session", "list", "--json").stdout)
    action = {"type": "send", "session_id": mine["id"], "message": "ping"}
    person.shell("a.sh", discover=DISCOVER, heartbeat=json.dumps({"user": "go", "actions": [action]}))
    person.accept()
    person.tell('== when "ping"\ndelay: 3s\ntext: pong\n' + FINE)
    assert " ran " in person.instar("heartbeat", "now").stdout
    shown = json.loads(person.instar("export", mine["id"]).stdout)["messages"][-1]
    assert [part["text"] for part in shown["parts"] if part["type"] == "text"] == ["pong"]


@pytest.mark.slow
def test_a_beat_that_fails_by_hand_is_said_with_exit_code_1(beats):
    person = beats.person
    person.config(model="scripted/x")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    ran = person.instar("heartbeat", "now", code=1)
    assert "failed" in ran.stdout
    assert "there is no agent 'evolve'" in ran.stdout


@pytest.mark.slow
def test_pause_and_resume_by_hand(beats):
    person = beats.person
    person.config(agent={"evolve": {"prompt": "p"}}, model="scripted/x")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    assert ": on holiday" in person.instar("heartbeat", "pause", "--reason", "on holiday").stdout
    refused = person.instar("heartbeat", "now", code=1)
    assert "on holiday" in refused.stderr
    assert "instar heartbeat resume" in refused.stderr
    assert "on holiday" in person.instar("heartbeat", "status").stdout
    assert "resumed" in person.instar("heartbeat", "resume").stdout
    assert person.instar("heartbeat", "resume").stdout == "nothing was paused\n"
    assert " ran " in person.instar("heartbeat", "now").stdout


@pytest.mark.slow
def test_commands_that_only_pass_by_do_not_beat(beats):
    person = beats.person
    person.environment["EVOLVE_HEARTBEAT_MS"] = "20"
    person.config(agent={"evolve": {"prompt": "p"}}, model="scripted/x")
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    person.tell(FINE + '== generate\ndelay: 1s\ntext: {"name": "h", "description": "d", "prompt": "p"}\n')
    person.instar("agent", "create", "one that helps", code=None)
    assert beats.entries() == []
    assert (len(person.requests("generate")), person.requests()) == (1, [])


@pytest.mark.parametrize("word", ["now", "pause", "resume"])
def test_only_a_person_orders(beats, word):
    refused = beats.person.instar("heartbeat", word, code=1, INSTAR_RUN="1")
    assert f"instar heartbeat {word} is a person's" in refused.stderr


@pytest.mark.slow
def test_errors_say_what_to_do(beats, tmp_path):
    person = beats.person
    off = person.instar("heartbeat", "now", code=1, EVOLVE_HEARTBEAT_MS="-1")
    assert "heartbeats are off: heartbeat_ms is -1" in off.stderr
    assert "off (heartbeat_ms is -1)" in person.instar("heartbeat", "status", EVOLVE_HEARTBEAT_MS="-1").stdout
    nowhere = person.instar("heartbeat", "status", "--workspace", str(tmp_path / "no"), code=1)
    assert "there is no workspace at" in nowhere.stderr
    person.write("config/evolve.jsonc", '{"heartbeat_ms": "soon"}')
    broken = person.instar("heartbeat", "now", code=1, EVOLVE_HEARTBEAT_MS="")
    assert "evolve.jsonc:1:18: heartbeat_ms" in broken.stderr


@pytest.mark.slow
def test_a_run_does_not_wait_for_a_beat_and_one_that_it_cuts_short_is_written_down(beats):
    person = beats.person
    person.environment |= {"EVOLVE_HEARTBEAT_MS": "50", "EVOLVE_HEARTBEAT_SKIP_ACTIVE": "false"}
    person.shell("a.sh", discover=DISCOVER, heartbeat=BEAT)
    waits = "until [ -e beating ]; do sleep 0.02; done"
    person.run(
        '== when "heartbeat"\ntool: bash {"command": "touch beating; sleep 60"}\n'
        f'== turn\ntool: bash {{"command": "{waits}"}}\n== turn\ntext: done\n'
    )
    assert beats.entries("interrupted")
    assert beats.book.state.beat is None
