"""Several servers on one PostgreSQL database, as `make test-cluster` runs them: their clients hear of one another."""

import itertools
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from tests.collector import Collector
from tests.postgresql import cluster
from tests.server.conftest import Served
from tests.waiting import wait_until

from instar.store import postgresql

ECHO = '== when ""\ntext: {{user}}\n'
TALK = '== turn\nreasoning: hm\ntext: I look.\ntool: bash {"command": "echo hi"}\n== turn\ntext: Done, as you see.\n'

Workers = Callable[..., Served]


@pytest.fixture
def url() -> str:
    return cluster().database()


@pytest.fixture
def worker(serve: Workers, url: str, tmp_path: Any) -> Workers:
    """Start a server as on a machine of its own: it has the project's folder and the database in common."""
    numbers = itertools.count()

    def start(script: str = TALK, url: str = url, grace: int = 0, **variables: str) -> Served:
        own = {"INSTAR_DATABASE": url, "INSTAR_DATA": str(tmp_path / f"data{next(numbers)}"), **variables}
        return serve("--grace", str(grace), script=script, environment=own)

    return start


def until_idle(events: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of sessions, up to the end of a turn."""
    heard = []
    for event in events:
        if "sessionID" in event.get("properties", {}):
            heard.append(event)
        if event["type"] == "session.idle":
            break
    return heard


def test_clients_of_every_server_hear_the_same_in_the_same_order(worker: Workers) -> None:
    here, there = worker(), worker()
    session = here.session()
    with here.events() as near, there.events() as far:
        here.ask(session)
        heard = until_idle(near)
        passed_on = until_idle(far)
    ids = [event["id"] for event in heard]
    # The second began to listen after the session was made, or before.
    passed_on = [event for event in passed_on if event["id"] in ids]
    assert passed_on == heard[heard.index(passed_on[0]) :]
    assert "message.part.delta" in {event["type"] for event in heard}
    assert len(set(ids)) == len(ids)


def test_no_prompt_to_one_session_at_three_servers_is_refused_or_lost(worker: Workers) -> None:
    servers = [worker(ECHO) for _ in range(3)]
    session = servers[0].session()
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda number: servers[number % 3].ask(session, f"n{number}"), range(9)))
    assert [one.text for one in answers if one.status_code != 200] == []
    for server in servers:
        messages = server.http.get(f"/session/{session}/message").json()
        texts = [
            (one["info"]["role"], [part["text"] for part in one["parts"] if part["type"] == "text"])
            for one in messages
        ]
        asked = [text for role, (text, *_) in texts if role == "user"]
        assert sorted(asked) == sorted(f"n{number}" for number in range(9))
        # The model reads together what waits together.
        assert messages[-1]["info"]["role"] == "assistant"


def test_prompts_that_are_sent_one_after_the_other_at_three_servers_keep_their_order(worker: Workers) -> None:
    servers = [worker(ECHO) for _ in range(3)]
    session = servers[0].session()
    sent = [f"n{number}" for number in range(12)]
    for number, text in enumerate(sent):
        assert servers[number % 3].ask(session, text, "prompt_async").status_code == 204

    def asked() -> list[str]:
        messages = servers[0].http.get(f"/session/{session}/message").json()
        return [one["parts"][0]["text"] for one in messages if one["info"]["role"] == "user"]

    wait_until(lambda: len(asked()) == len(sent))
    assert asked() == sent


STEPS = """== turn
tool: bash {"command": "echo call >> calls.txt; sleep 1"}
== turn
text: over
"""


def ended(server: Served, session: str) -> list[dict[str, Any]]:
    """The messages of a session, once no worker runs it and its last prompt is answered."""

    def answered() -> bool:
        messages = server.http.get(f"/session/{session}/message").json()
        return bool(messages) and messages[-1]["info"].get("finish") == "stop"

    wait_until(answered)
    found: list[dict[str, Any]] = server.http.get(f"/session/{session}/message").json()
    return found


def runner_first(servers: list[Served], url: str) -> list[Served]:
    """The servers, the one that runs the only turn first."""
    with psycopg.connect(url) as database:
        ((owner,),) = database.execute("SELECT owner FROM instar_lease WHERE time_expires > 0").fetchall()
    return sorted(servers, key=lambda one: one.process.pid != int(owner.split(":")[1]))


@pytest.fixture
def short(url: str) -> str:
    return f"{url}%20-cinstar.lease_seconds%3D1"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_another_server_goes_on_with_the_turn_of_one_that_is_lost(
    worker: Workers, short: str, tmp_path: Path, number: signal.Signals
) -> None:
    servers = [worker(STEPS, url=short) for _ in range(2)]
    session = servers[0].session()
    servers[0].ask(session, "go", "prompt_async")
    calls = tmp_path / "project" / "calls.txt"
    wait_until(calls.exists)
    lost, other = runner_first(servers, short)
    lost.process.send_signal(number)
    began = time.monotonic()
    messages = ended(other, session)
    took = time.monotonic() - began
    if number == signal.SIGSTOP:
        lost.process.send_signal(signal.SIGCONT)
        time.sleep(2)
        after = other.http.get(f"/session/{session}/message").json()
        assert [one["parts"] for one in after] == [one["parts"] for one in messages]
    assert calls.read_text() == "call\n"
    (state,) = [part["state"] for one in messages for part in one["parts"] if part["type"] == "tool"]
    assert state["status"] == "error"
    assert "interrupted" in state["error"]
    assert messages[-1]["parts"][-2]["text"] == "over"
    assert took < 4


HALF = """== when ""
text: half,
delay: 2s
text: whole
"""


@pytest.mark.slow
def test_an_answer_that_was_half_written_when_its_server_was_lost_is_written_once(
    worker: Workers, short: str
) -> None:
    servers = [worker(HALF, url=short) for _ in range(2)]
    session = servers[0].session(title="t")
    with servers[0].events() as heard:
        servers[0].ask(session, "go", "prompt_async")
        next(event for event in heard if event["type"] == "message.part.delta")
        lost, other = runner_first(servers, short)
        lost.process.kill()
    began = time.monotonic()
    messages = ended(other, session)
    took = time.monotonic() - began
    assert [one["info"]["role"] for one in messages] == ["user", "assistant"]
    texts = [part["text"] for part in messages[1]["parts"] if part["type"] == "text"]
    assert texts == ["half,whole"]
    assert "error" not in messages[1]["info"]
    # Three leases, and the answer itself.
    assert took < 3 + 2 + 1


@pytest.mark.slow
def test_a_server_that_is_slowed_down_finishes_its_turn_or_another_does_but_not_both(
    worker: Workers, short: str, tmp_path: Path
) -> None:
    servers = [worker(STEPS, url=short) for _ in range(2)]
    session = servers[0].session(title="t")
    servers[0].ask(session, "go", "prompt_async")
    calls = tmp_path / "project" / "calls.txt"
    wait_until(calls.exists)
    slow, other = runner_first(servers, short)
    for _ in range(5):
        slow.process.send_signal(signal.SIGSTOP)
        time.sleep(0.4)
        slow.process.send_signal(signal.SIGCONT)
        time.sleep(0.3)
    messages = ended(other, session)
    assert calls.read_text() == "call\n"
    assert [one["info"]["role"] for one in messages] == ["user", "assistant", "assistant"]
    assert [part["text"] for part in messages[2]["parts"] if part["type"] == "text"] == ["over"]
    (state,) = [part["state"] for part in messages[1]["parts"] if part["type"] == "tool"]
    assert state["status"] in ("completed", "error")


def tool_state(messages: list[dict[str, Any]]) -> Any:
    """The state of the only tool call."""
    (state,) = [part["state"] for one in messages for part in one["parts"] if part["type"] == "tool"]
    return state


def begun(servers: list[Served], url: str) -> tuple[str, Served, Served]:
    """Begin the turn of a session; return the session, who runs it, and the other."""
    session = servers[0].session(title="t")
    with servers[0].events() as heard:
        servers[0].ask(session, "go", "prompt_async")
        next(event for event in heard if event["type"] == "message.part.delta")
        runs, other = runner_first(servers, url)
    return session, runs, other


def test_a_server_that_ends_hands_its_answer_over(worker: Workers, url: str) -> None:
    servers = [worker(HALF) for _ in range(2)]
    session, ending, other = begun(servers, url)
    with other.events() as heard:
        told = time.monotonic()
        assert ending.stop() == 0
        events = until_idle(heard)
        took = time.monotonic() - told
    messages = ended(other, session)
    assert [one["info"]["role"] for one in messages] == ["user", "assistant"]
    assert [part["text"] for part in messages[1]["parts"] if part["type"] == "text"] == ["half,whole"]
    assert "error" not in messages[1]["info"]
    assert "session.error" not in {event["type"] for event in events}
    # Clients hear that it is idle when it is, not when the first one left it; far sooner than a lease ends.
    assert [one["info"]["id"] for one in messages[1:]] == [_answered(events)]
    assert took < 2 + 3


def _answered(events: list[dict[str, Any]]) -> str:
    infos = [event["properties"]["info"] for event in events if event["type"] == "message.updated"]
    (finished,) = {one["id"] for one in infos if one.get("finish") == "stop"}
    return str(finished)


@pytest.mark.slow
def test_a_server_that_ends_finishes_the_step_and_leaves_the_next_to_another(
    worker: Workers, url: str, tmp_path: Path
) -> None:
    script = STEPS.replace("tool", "text: I look.\ntool").replace("text: over", "delay: 6s\ntext: over")
    servers = [worker(script, grace=20) for _ in range(2)]
    session, ending, other = begun(servers, url)
    wait_until((tmp_path / "project" / "calls.txt").exists)
    told = time.monotonic()
    assert ending.stop() == 0
    assert time.monotonic() - told < 6
    messages = ended(other, session)
    assert tool_state(messages)["status"] == "completed"
    assert (tmp_path / "project" / "calls.txt").read_text() == "call\n"
    assert messages[-1]["parts"][-2]["text"] == "over"


@pytest.mark.slow
def test_a_call_that_runs_when_a_server_ends_is_interrupted_and_the_next_one_goes_on(
    worker: Workers, url: str, tmp_path: Path
) -> None:
    first = worker(LONG)
    session = first.session(title="t")
    first.ask(session, "go", "prompt_async")
    wait_until((tmp_path / "project" / "begun.txt").exists)
    first.stop()
    # Nobody was there: the turn waits for the next server.
    messages = ended(worker(LONG), session)
    assert "interrupted" in tool_state(messages)["error"]
    assert messages[-1]["parts"][-2]["text"] == "over"


@pytest.mark.slow
def test_who_waits_for_an_answer_at_a_server_that_ends_is_told_that_it_goes_on(
    worker: Workers, url: str
) -> None:
    first = worker(HALF)
    session = first.session(title="t")
    with ThreadPoolExecutor() as pool, first.events() as heard:
        answer = pool.submit(first.ask, session, "go")
        next(event for event in heard if event["type"] == "message.part.delta")
        first.process.send_signal(signal.SIGTERM)
        response = answer.result()
    assert response.status_code == 503, response.text
    assert "goes on" in response.text
    ended(worker(HALF), session)


LOOKS = """import asyncio

from instar.plugin import Tool


async def execute(args, ctx):
    with (ctx.directory / "looks.txt").open("a") as file:
        file.write("look\\n")
    await asyncio.sleep(1)
    return "seen"


tool = Tool("Looks.", {"type": "object", "properties": {}}, execute, idempotent=True)
"""

GAZES = """import { appendFileSync } from "node:fs"

export default {
  description: "Gazes.",
  args: {},
  idempotent: true,
  async execute(args, context) {
    appendFileSync(`${context.directory}/gazes.txt`, "gaze\\n")
    await new Promise((done) => setTimeout(done, 1000))
    return "gazed"
  },
}
"""


@pytest.mark.slow
def test_a_lost_call_of_an_idempotent_tool_is_made_again_and_no_other(
    worker: Workers, short: str, tmp_path: Path
) -> None:
    own = tmp_path / "home" / ".config" / "instar" / "tools"
    own.mkdir(parents=True)
    (own / "look.py").write_text(LOOKS)
    (own / "gaze.js").write_text(GAZES)
    script = STEPS.replace("tool:", "tool: look {}\ntool: gaze {}\ntool:")
    servers = [worker(script, url=short) for _ in range(2)]
    session = servers[0].session(title="t")
    servers[0].ask(session, "go", "prompt_async")
    notes = [tmp_path / "project" / name for name in ("calls.txt", "looks.txt", "gazes.txt")]
    wait_until(lambda: all(one.exists() for one in notes))
    lost, other = runner_first(servers, short)
    lost.process.kill()
    messages = ended(other, session)
    assert [one.read_text() for one in notes] == ["call\n", "look\nlook\n", "gaze\ngaze\n"]
    states = {part["tool"]: part["state"] for part in messages[1]["parts"] if part["type"] == "tool"}
    assert [states[name]["output"] for name in ("look", "gaze")] == ["seen", "gazed"]
    assert "interrupted" in states["bash"]["error"]
    assert [one["info"]["role"] for one in messages] == ["user", "assistant", "assistant"]
    assert messages[-1]["parts"][-2]["text"] == "over"


@pytest.mark.slow
def test_a_command_that_shows_a_session_leaves_its_turn_to_the_next_worker(
    worker: Workers, url: str, tmp_path: Path
) -> None:
    servers = [worker(STEPS) for _ in range(2)]
    session = servers[0].session()
    servers[0].ask(session, "go", "prompt_async")
    wait_until((tmp_path / "project" / "calls.txt").exists)
    lost, other = runner_first(servers, url)
    lost.process.kill()
    lost.process.wait()
    environment = {**other.environment, "INSTAR_DATA": str(tmp_path / "own")}
    command = [sys.executable, "-m", "instar", "session", "show", session]
    shown = subprocess.run(command, cwd=other.directory, env=environment, capture_output=True, text=True)
    assert "bash echo call" in shown.stdout
    assert "interrupted" not in shown.stdout
    assert ended(other, session)[-1]["parts"][-2]["text"] == "over"


def test_a_client_goes_on_at_another_server_where_it_was(worker: Workers) -> None:
    here, there = worker(), worker()
    session = here.session()
    with here.events() as near:
        here.ask(session)
        heard = until_idle(near)
    for place, event in enumerate(heard):
        with there.http.stream("GET", "/event", headers={"Last-Event-ID": event["id"]}) as response:
            assert response.headers["Instar-Resumed"] == "all"
            rest = itertools.islice(_of(response), len(heard) - place - 1)
            assert [one["id"] for one in rest] == [one["id"] for one in heard[place + 1 :]]


def _of(response: httpx2.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data: ") and "sessionID" in line:
            yield json.loads(line[6:])


@pytest.mark.slow
def test_an_event_of_one_server_alone_is_no_place_to_come_back_to_at_another(
    worker: Workers, url: str
) -> None:
    here, there = worker(ECHO), worker(ECHO)
    here.session()
    with (
        here.http.stream("GET", "/event") as response,
        psycopg.connect(url, autocommit=True) as database,
        ThreadPoolExecutor() as beside,
    ):
        lines = response.iter_lines()
        # What is told while nobody can write was made before the place, and is stored behind it.
        database.execute(
            "SELECT pg_advisory_lock(%s, hashtext(current_schema()::text))", (postgresql._WRITING,)
        )
        made = beside.submit(there.session)
        time.sleep(1)
        here.http.post("/tui/append-prompt", json={"text": "hm"})
        next(line for line in lines if "tui.prompt.append" in line)
        place = next(line for line in lines if line.startswith("id: "))[4:]
        database.execute("SELECT pg_advisory_unlock_all()")
        session = made.result()
    there.session()
    with there.http.stream("GET", "/event", headers={"Last-Event-ID": place}) as response:
        heard = next(_of(response))
    assert heard["properties"]["sessionID"] == session


LONG = """== turn
tool: bash {"command": "touch begun.txt; sleep 60"}
== turn
text: over
"""


def test_a_turn_is_seen_and_ended_at_any_server(worker: Workers, url: str, tmp_path: Path) -> None:
    servers = [worker(LONG) for _ in range(2)]
    session = servers[0].session()
    servers[0].ask(session, "go", "prompt_async")
    wait_until((tmp_path / "project" / "begun.txt").exists)
    for server in servers:
        assert server.http.get("/session/status").json() == {session: {"type": "busy"}}
        shown = server.http.get(f"/session/{session}/message").json()
        assert shown[-1]["parts"][-1]["state"]["status"] == "running"
    _, other = runner_first(servers, url)
    began = time.monotonic()
    assert other.http.post(f"/session/{session}/abort").json() is True
    wait_until(lambda: other.http.get("/session/status").json() == {})
    assert time.monotonic() - began < 1.5
    messages = other.http.get(f"/session/{session}/message").json()
    assert messages[-1]["parts"][-1]["state"]["status"] == "error"


QUEUED = """== when "^go"
tool: bash {"command": "touch begun.txt; sleep 60"}

== when ""
text: {{user}}
"""


def test_what_waits_behind_a_turn_that_a_person_ends_is_answered(
    worker: Workers, url: str, tmp_path: Path
) -> None:
    servers = [worker(QUEUED) for _ in range(2)]
    session = servers[0].session()
    servers[0].ask(session, "go", "prompt_async")
    wait_until((tmp_path / "project" / "begun.txt").exists)
    runs, other = runner_first(servers, url)
    for number, server in enumerate((other, runs, other, runs)):
        assert server.ask(session, f"n{number}", "prompt_async").status_code == 204
    with psycopg.connect(url, autocommit=True) as database:
        ((queue,),) = database.execute("SELECT left(md5(current_schema()), 16)").fetchall()
        held = f"SELECT count(*) FROM absurd.r_instar_{queue} WHERE state = 'running' AND claimed_by LIKE %s"
        # Who finds the session busy puts its task back: in the end all of them wait where the turn runs.
        mine = f"%:{runs.process.pid}:%"
        wait_until(lambda: database.execute(held, (mine,)).fetchall() == [(5,)])  # type: ignore[arg-type]
    other.http.post(f"/session/{session}/abort")

    def asked() -> list[str]:
        messages = other.http.get(f"/session/{session}/message").json()
        return [one["parts"][0]["text"] for one in messages if one["info"]["role"] == "user"]

    wait_until(lambda: asked() == ["go", "n0", "n1", "n2", "n3"])


@pytest.mark.slow
@pytest.mark.parametrize("still_runs", [True, False])
def test_a_server_that_wakes_up_queues_the_prompts_that_wait_for_it(
    worker: Workers, short: str, tmp_path: Path, still_runs: bool
) -> None:
    lasts = "delay: 3s\n" if still_runs else ""
    script = f'== when "interrupted"\n{lasts}text: over\n' + QUEUED
    servers = [worker(script, url=short) for _ in range(2)]
    session = servers[0].session(title="t")
    servers[0].ask(session, "go", "prompt_async")
    wait_until((tmp_path / "project" / "begun.txt").exists)
    woken, other = runner_first(servers, short)
    woken.process.send_signal(signal.SIGSTOP)
    with ThreadPoolExecutor() as pool:
        sent = [pool.submit(woken.ask, session, f"n{number}", "prompt_async") for number in range(8)]
        if still_runs:
            wait_until(lambda: runner_first(servers, short)[0] is other)
        else:
            ended(other, session)
        woken.process.send_signal(signal.SIGCONT)
        answers = [one.result() for one in sent]
    assert [one.text for one in answers if one.status_code != 204] == []

    def asked() -> list[str]:
        messages = other.http.get(f"/session/{session}/message").json()
        return [one["parts"][0]["text"] for one in messages if one["info"]["role"] == "user"]

    wait_until(lambda: len(asked()) == 9)
    assert sorted(asked()) == ["go", *sorted(f"n{number}" for number in range(8))]


@pytest.mark.slow
def test_a_prompt_is_queued_whose_session_another_server_had_meanwhile_and_has_left(
    worker: Workers, url: str, tmp_path: Path
) -> None:
    server = worker(QUEUED)
    session = server.session(title="t")
    server.ask(session, "go", "prompt_async")
    wait_until((tmp_path / "project" / "begun.txt").exists)
    # Before the server renews its lease, and so hears of it.
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("UPDATE instar_lease SET owner = 'vm:1:x', fence = fence + 1, time_expires = 0")
    answer = server.ask(session, "next", "prompt_async")
    assert answer.status_code == 204, answer.text

    def answers() -> list[str]:
        messages = server.http.get(f"/session/{session}/message").json()
        parts = [part for one in messages if one["info"]["role"] == "assistant" for part in one["parts"]]
        return [part["text"] for part in parts if part["type"] == "text"]

    wait_until(lambda: answers()[-1:] == ["next"])


def limits(tmp_path: Path, **limits: Any) -> None:
    """Set limits for all servers."""
    folder = tmp_path / "home" / ".config" / "instar"
    folder.mkdir(parents=True)
    (folder / "instar.json").write_text(json.dumps({"limits": limits}))


@pytest.mark.slow
def test_a_person_who_prompts_at_another_server_lets_the_calls_in_a_row_begin_anew(
    worker: Workers, url: str, tmp_path: Path
) -> None:
    limits(tmp_path, calls=2)
    servers = [worker(QUEUED.replace("sleep 60", "sleep 2")) for _ in range(2)]
    session = servers[0].session(title="t")
    servers[0].ask(session, "go", "prompt_async")
    wait_until((tmp_path / "project" / "begun.txt").exists)
    _, other = runner_first(servers, url)
    # Two calls for the first prompt, and one for each that waits behind it.
    for number in range(3):
        assert other.ask(session, f"n{number}", "prompt_async").status_code == 204

    def texts() -> list[str]:
        messages = other.http.get(f"/session/{session}/message").json()
        return [part["text"] for one in messages for part in one["parts"] if part["type"] == "text"]

    wait_until(lambda: texts()[-2:] == ["n2", "n2"])
    messages = other.http.get(f"/session/{session}/message").json()
    assert [one["info"]["error"] for one in messages if "error" in one["info"]] == []


FAILS = """== when "^bad"
error: auth wrong key

== when ""
text: {{user}}
"""


def test_a_provider_that_refuses_pauses_at_every_server_until_one_gets_an_answer(
    worker: Workers, tmp_path: Path
) -> None:
    limits(tmp_path, failures=2)
    servers = [worker(FAILS) for _ in range(2)]

    def paused() -> list[list[str]]:
        return [list(server.http.get("/instar/limits").json()["waiting"]) for server in servers]

    for server in servers:
        server.ask(server.session(title="t"), "bad")
    wait_until(lambda: paused() == [["scripted"]] * 2)
    servers[0].ask(servers[0].session(title="t"), "good")
    wait_until(lambda: paused() == [[]] * 2)


ASKS = """== turn
tool: bash {"command": "echo hi"}
tool: question {"questions": [{"question": "Which?", "header": "h", "options": [
  {"label": "a", "description": "A"}, {"label": "b", "description": "B"}]}]}
== turn
text: over
""".replace("[\n ", "[")


REPLIES = {"permission": {"reply": "once"}, "question": {"answers": [["b"]]}}


@pytest.mark.parametrize(
    ("kind", "body", "by"),
    [(kind, body, by) for by in (0, 1) for kind, body in REPLIES.items()],
)
def test_what_is_asked_is_answered_at_any_server(
    worker: Workers, tmp_path: Path, kind: str, body: dict[str, Any], by: int
) -> None:
    (tmp_path / "project").mkdir()
    asks = {"permission": {"bash": "ask" if kind == "permission" else "allow"}}
    (tmp_path / "project" / "opencode.json").write_text(json.dumps(asks))
    servers = [
        worker(ASKS.replace("tool: question", "tool: no") if kind == "permission" else ASKS) for _ in "12"
    ]

    def waiting() -> list[Any]:
        return [server.http.get(f"/{kind}").json() for server in servers]

    assert waiting() == [[], []]
    session = servers[0].session()
    servers[0].ask(session, "go", "prompt_async")
    ((one,), (other,)) = wait_until(lambda: all(found := waiting()) and found)
    assert one == other
    reply = f"/{kind}/{one['id']}/reply"
    assert servers[by].http.post(reply, json=body).json() is True
    wait_until(lambda: waiting() == [[], []])
    assert servers[1 - by].http.post(reply, json=body).status_code == 404
    parts = [part for one in ended(servers[1], session) for part in one["parts"]]
    tools = {part["tool"]: part["state"]["status"] for part in parts if part["type"] == "tool"}
    assert tools["bash" if kind == "permission" else "question"] == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("kind", REPLIES)
def test_what_was_asked_is_known_to_a_server_that_opens_the_folder_later_and_gone_with_the_server_that_asked(
    worker: Workers, short: str, tmp_path: Path, kind: str
) -> None:
    (tmp_path / "project").mkdir()
    asks = {"permission": {"bash": "ask" if kind == "permission" else "allow"}}
    (tmp_path / "project" / "opencode.json").write_text(json.dumps(asks))
    script = ASKS.replace("tool: question", "tool: no") if kind == "permission" else ASKS
    first = worker(script, url=short)
    session = first.session(title="t")
    first.ask(session, "go", "prompt_async")
    (asked,) = wait_until(lambda: first.http.get(f"/{kind}").json())
    later = worker(script, url=short)
    assert later.http.get(f"/{kind}").json() == [asked]
    first.process.kill()
    messages = ended(later, session)
    assert later.http.get(f"/{kind}").json() == []
    reply = later.http.post(f"/{kind}/{asked['id']}/reply", json=REPLIES[kind])
    assert (reply.status_code, reply.elapsed.total_seconds() < 1) == (404, True)
    errors = [
        part["state"].get("error") for one in messages for part in one["parts"] if part["type"] == "tool"
    ]
    assert any("interrupted" in str(error) for error in errors)


def children(process: int) -> list[int]:
    """The numbers of a process' children."""
    return [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def test_several_workers_share_a_port_and_one_that_dies_is_started_again(serve: Workers, url: str) -> None:
    server = serve("--workers", "2", "--database", url, script=ECHO)
    workers = children(server.process.pid)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    session = server.session()
    assert server.ask(session, "one").status_code == 200
    wait_until(lambda: len(children(server.process.pid)) == 2)
    assert server.stop() == 0
    assert "a worker ended (-9); another one starts in 1 s" in server.errors
    assert not [one for one in workers if Path(f"/proc/{one}").exists()]


def test_workers_end_with_the_process_that_keeps_them(serve: Workers, url: str) -> None:
    server = serve("--workers", "2", "--database", url)
    workers = children(server.process.pid)
    server.stop(signal.SIGKILL)
    wait_until(lambda: not [one for one in workers if Path(f"/proc/{one}").exists()])


def test_several_workers_need_a_database_that_they_share(serve: Workers) -> None:
    with pytest.raises(AssertionError, match="name it with --database URL"):
        serve("--workers", "2")


@pytest.mark.slow
def test_a_turn_ends_although_the_servers_lose_their_connections(
    worker: Workers, short: str, tmp_path: Path
) -> None:
    servers = [worker(STEPS, url=short) for _ in range(2)]
    session = servers[0].session()
    servers[0].ask(session, "go", "prompt_async")
    calls = tmp_path / "project" / "calls.txt"
    wait_until(calls.exists)
    with psycopg.connect(short, autocommit=True) as database:
        database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

    def shown(server: Served) -> Any:
        # What is asked of a connection that was cut fails once.
        response = server.http.get(f"/session/{session}/message")
        messages = response.json() if response.status_code == 200 else []
        return messages if messages and messages[-1]["info"].get("finish") == "stop" else None

    for server in servers:
        messages = wait_until(lambda server=server: shown(server))
        assert [one["info"]["role"] for one in messages].count("user") == 1
    assert calls.read_text() == "call\n"


CUT = """== when "^go"
tool: bash {"command": "echo call >> calls.txt"}
delay: 2s
== when ""
text: over
"""


@pytest.mark.slow
def test_what_a_turn_left_open_when_nothing_could_be_saved_is_closed_before_it_goes_on(
    worker: Workers, url: str
) -> None:
    server = worker(CUT)
    session = server.session()
    server.ask(session, "go", "prompt_async")

    def parts() -> list[dict[str, Any]]:
        messages = server.http.get(f"/session/{session}/message").json()
        return [part for one in messages for part in one["parts"]]

    wait_until(lambda: any(part["type"] == "tool" for part in parts()))
    # A second task of the session waits at the same server.
    server.ask(session, "and more", "prompt_async")
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(
            "SELECT pg_advisory_lock(%s, hashtext(current_schema()::text))", (postgresql._WRITING,)
        )
        time.sleep(8)
    messages = ended(server, session)
    assert [one["info"]["id"] for one in messages if one["info"]["role"] == "assistant"]
    open_ones = [one["info"]["id"] for one in messages if "completed" not in one["info"]["time"]]
    assert open_ones == [one["info"]["id"] for one in messages if one["info"]["role"] == "user"]
    states = [part["state"]["status"] for part in parts() if part["type"] == "tool"]
    assert not {"pending", "running"} & set(states)


def test_a_prompt_to_the_server_that_runs_the_session_has_a_task_of_its_own(
    worker: Workers, url: str, tmp_path: Path
) -> None:
    server = worker(STEPS)
    session = server.session()
    server.ask(session, "go", "prompt_async")
    wait_until((tmp_path / "project" / "calls.txt").exists)
    server.ask(session, "and more", "prompt_async")
    with psycopg.connect(url) as database:
        ((queue,),) = database.execute("SELECT 'instar_' || left(md5(current_schema()), 16)").fetchall()
        ((count,),) = database.execute(f"SELECT count(*) FROM absurd.t_{queue}").fetchall()
    assert count == 2


def stopped(server: Served, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`instar stop` on the machine of a server."""
    return subprocess.run(
        [sys.executable, "-m", "instar", "stop", *arguments],
        cwd=server.directory,
        env=server.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


NAPS = """== when "go"
tool: bash {"command": "touch began-$$; sleep 60"}
== when ""
text: after
"""


@pytest.mark.slow
def test_a_stop_on_one_machine_ends_the_turns_of_all_and_holds_back_none_that_a_person_asks_for(
    worker: Workers, url: str, tmp_path: Path
) -> None:
    servers = [worker(NAPS) for _ in range(3)]
    sessions = [server.session() for server in servers]
    for server, session in zip(servers, sessions, strict=True):
        server.ask(session, "go", "prompt_async")
    wait_until(lambda: len(list((tmp_path / "project").glob("began-*"))) == 3)
    done = stopped(servers[0], "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert {one["id"]: one["ended"] for one in report["sessions"]} == dict.fromkeys(sessions, True)
    assert report.get("problem", "") == ""
    for server in servers:
        assert server.http.get("/session/status").json() == {}
        # Its own turn may have run elsewhere: then it reads the stop a moment later.
        wait_until(lambda server=server: made_stops(server) == [report["stop"]["id"]])
    # Whichever worker takes the prompt up.
    for number in range(9):
        answer = servers[number % 3].ask(sessions[(number + 1) % 3], f"n{number}")
        assert [part["text"] for part in answer.json()["parts"] if part["type"] == "text"] == ["after"]
    assert servers[1].http.get("/instar/stop").json()["halted"]
    assert stopped(servers[2], "--resume").returncode == 0
    for server in servers:
        wait_until(lambda server=server: server.http.get("/instar/stop").json()["halted"] == 0)


def made_stops(server: Served) -> list[str]:
    return [one["id"] for one in server.http.get("/instar/stop").json()["stops"]]


@pytest.mark.slow
def test_a_stop_is_heard_within_a_second_also_by_a_command_that_is_no_worker(
    worker: Workers, url: str, tmp_path: Path, clean_environment: Mapping[str, str]
) -> None:
    server = worker(NAPS)
    own = {"INSTAR_DATABASE": url, "INSTAR_DATA": str(tmp_path / "other")}
    command = [sys.executable, "-m", "instar", "run", "--auto", "--model", "scripted/x", "go"]
    environment = {**server.environment, **own}
    with subprocess.Popen(command, cwd=server.directory, env=environment, stderr=subprocess.PIPE) as run:
        wait_until(lambda: list((tmp_path / "project").glob("began-*")))
        began = time.monotonic()
        assert server.http.post("/instar/stop", json={}).status_code == 200
        run.wait(10)
        took = time.monotonic() - began
    assert run.returncode == 1
    assert took < 2


def test_a_machine_that_joins_later_knows_what_was_stopped(worker: Workers) -> None:
    first = worker(ECHO)
    assert stopped(first).returncode == 0
    later = worker(ECHO)
    report = later.http.get("/instar/stop").json()
    assert [one["scope"] for one in report["stops"]] == [str(first.directory)]
    assert report["halted"]


@pytest.mark.slow
def test_no_call_is_made_while_nobody_can_tell_what_was_stopped(
    worker: Workers, url: str, tmp_path: Path
) -> None:
    server = worker(
        """== turn
tool: bash {"command": "touch begun.txt; until test -e gone.txt; do sleep 0.1; done; sleep 11"}
== turn
tool: bash {"command": "touch next.txt"}
== turn
text: over
"""
    )
    project = tmp_path / "project"
    session = server.session()
    server.ask(session, "go", "prompt_async")
    wait_until((project / "begun.txt").exists)
    with psycopg.connect(url, autocommit=True) as database:
        database.execute("ALTER TABLE instar_stop RENAME TO gone")
        (project / "gone.txt").touch()
        refused = "the database did not say what was stopped"
        log = tmp_path / "home" / ".local" / "state" / "instar" / "log" / "instar.log"
        wait_until(lambda: refused in log.read_text())
        time.sleep(2)
        assert not (project / "next.txt").exists()
        database.execute("ALTER TABLE gone RENAME TO instar_stop")
    # A turn that the store failed is gone on with.
    wait_until((project / "next.txt").exists)
    ended(server, session)


SLOW = """== when "go"
delay: 1s
text: spent
"""


@pytest.mark.slow
@pytest.mark.parametrize("lost", [False, True])
def test_a_limit_is_not_spent_twice_by_two_servers_at_once(
    worker: Workers, short: str, tmp_path: Path, lost: bool
) -> None:
    folder = tmp_path / "home" / ".config" / "instar"
    folder.mkdir(parents=True)
    prices = {"input": 10_000, "output": 10_000}
    model = {"cost": prices, "limit": {"context": 1000, "output": 100}}
    settings = {
        "provider": {"scripted": {"models": {"test": model}}},
        "limits": {"day": {"cost": 1.0}},
    }
    (folder / "instar.json").write_text(json.dumps(settings))
    servers = [worker(SLOW, url=short) for _ in range(2)]
    sessions = [servers[number % 2].session(title="t") for number in range(6)]
    for number, session in enumerate(sessions):
        servers[number % 2].ask(session, "go", "prompt_async")
    with psycopg.connect(short, autocommit=True) as database:
        wait_until(lambda: database.execute("SELECT 1 FROM instar_reserved").fetchall())
        if lost:
            ((owner,),) = database.execute(
                "SELECT DISTINCT l.owner FROM instar_lease l JOIN message m ON m.session_id = l.session_id"
                " WHERE l.time_expires > 0 LIMIT 1"
            ).fetchall()
            (gone,) = [one for one in servers if one.process.pid == int(owner.split(":")[1])]
            gone.process.kill()
            servers.remove(gone)
        ((queue,),) = database.execute("SELECT left(md5(current_schema()), 16)").fetchall()
        waiting = f"SELECT 1 FROM absurd.t_instar_{queue} WHERE state IN ('pending', 'running', 'sleeping')"
        wait_until(lambda: not database.execute(waiting).fetchall())
        ((calls,),) = database.execute("SELECT calls FROM instar_spent WHERE scope = 'day'").fetchall()
        assert calls == 1
        wait_until(lambda: not database.execute("SELECT 1 FROM instar_reserved").fetchall())


@pytest.mark.slow
def test_doctor_says_which_servers_share_the_database(worker: Workers, short: str) -> None:
    servers = [worker(ECHO, url=short) for _ in range(2)]
    command = [sys.executable, "-m", "instar", "doctor", "--json"]
    done = subprocess.run(
        command,
        cwd=servers[0].directory,
        env=servers[0].environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (said,) = [one["text"] for one in json.loads(done.stdout)["lines"] if one["name"] == "workers"]
    names = sorted(f"{platform.node()}:{server.process.pid}" for server in servers)
    assert said.startswith(f"2: {', '.join(names)}; 0 sessions run; a lease lasts 1 s; absurd 0.")


TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Where the servers of a test send their spans."""
    with Collector() as made:
        yield made


@pytest.fixture
def traced(worker: Workers, short: str, collector: Collector) -> list[Served]:
    return [worker(STEPS, url=short, **collector.environment, INSTAR_TRUST="all") for _ in range(2)]


@pytest.mark.slow
def test_a_turn_is_in_the_trace_of_its_request_whichever_server_runs_it(
    traced: list[Served], collector: Collector, short: str, tmp_path: Path
) -> None:
    runs = set()
    for number in range(20):
        session = traced[0].session(title="t")
        traced[0].http.headers.update(PARENT)
        assert traced[0].ask(session, "go").status_code == 200
        wait_until(lambda number=number: len(collector.named("invoke_agent build")) > number)
        runs = {one.worker for one in collector.named("invoke_agent build")}
        if len(runs) == 2:
            break
    assert len(runs) == 2
    assert {one.trace for one in collector.spans} == {TRACE}


@pytest.mark.slow
def test_a_turn_that_another_server_goes_on_with_stays_in_its_trace(
    traced: list[Served], collector: Collector, short: str, tmp_path: Path
) -> None:
    session = traced[0].session(title="t")
    traced[0].http.headers.update(PARENT)
    traced[0].ask(session, "go", "prompt_async")
    wait_until((tmp_path / "project" / "calls.txt").exists)
    lost, other = runner_first(traced, short)
    # What the lost one has sent by then: its model call. Its turn's span it never ends.
    lost.process.send_signal(signal.SIGKILL)
    ended(other, session)
    other.stop()
    (turn,) = collector.named("invoke_agent build")
    assert turn.worker.endswith(f":{other.process.pid}")
    assert {one.trace for one in collector.spans} == {TRACE}
    assert [one.parent for one in collector.named("step") if one.worker == turn.worker] == [turn.id]
