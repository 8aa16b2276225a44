"""What grows with the turns of a server, and what does not."""

import json
import sqlite3
from pathlib import Path

import pytest

pytest_plugins = ["tests.turn"]


def memory(pid: int) -> float:
    """The MiB that a process has in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_turns_of_many_sessions(serve):
    served = serve(script='== when "hi"\ntext: hello there\n')
    sessions = [served.session() for _ in range(300)]
    found = []
    for number in range(1200):
        assert served.ask(sessions[number % 300]).status_code == 200
        if number in (799, 1199):
            found.append(memory(served.process.pid))
    assert found[1] - found[0] < 3, "400 turns took 3.5 MB and more when each message stayed"


async def test_a_session_that_was_let_go_of_goes_on_as_it_was(house, monkeypatch):
    monkeypatch.setattr("instar.session.sessions._KEPT", 0)
    house.says('== when "hi"\ntext: {{turn}}\n')
    door = await house.open()
    sessions = [await door.session() for _ in range(3)]
    for number in range(3):
        for session in sessions:
            await door.ask(session, f"hi {number}")
    present = {live.id for live in door.runtime.instance.sessions.present()}
    assert present == set(sessions[1:]), "two that are used in turn stay, however long they are"
    assert [len(await door.stored(session)) for session in sessions] == [6, 6, 6]


def test_events_of_last_week_go_and_a_client_that_comes_back_finds_its_place(serve, tmp_path):
    database = tmp_path / "data" / "instar.db"
    served = serve(environment={"INSTAR_DATA": str(database.parent)})
    session = served.session()
    served.ask(session)
    assert served.stop() == 0
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT rowid, id FROM event ORDER BY rowid").fetchall()
        for place, made in rows:
            connection.execute("UPDATE event SET id = ? WHERE rowid = ?", (aged(made, days=8), place))
    connection.close()
    served = serve(environment={"INSTAR_DATA": str(database.parent)})
    second = served.session()
    served.ask(second)
    with sqlite3.connect(database) as connection:
        left = connection.execute("SELECT count(*) FROM event WHERE aggregate_id = ?", (session,)).fetchone()
        newest = connection.execute("SELECT max(seq) FROM event WHERE aggregate_id = ?", (second,)).fetchone()
    connection.close()
    assert left == (1,), "the newest stays until there is a newer one"
    lost = aged(rows[-1][1], days=8)
    with served.http.stream("GET", "/event", headers={"Last-Event-ID": lost}) as stream:
        missed = []
        for line in stream.iter_lines():
            if line.startswith("data: "):
                missed.append(json.loads(line[6:]))
            if len(missed) > newest[0]:
                break
    assert {one["type"] for one in missed} >= {"session.created", "message.updated"}
    assert all(second in json.dumps(one) for one in missed if one["type"] != "server.connected")


def aged(made: str, *, days: int) -> str:
    """An event's id as it would be had the event happened so many days earlier."""
    stamp = int(made[4:16], 16) - days * 24 * 3600 * 1000 * 4096
    return f"evt_{stamp % (1 << 48):012x}{made[16:]}"
