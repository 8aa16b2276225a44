"""Trust on several machines with one PostgreSQL database: what a person accepts at one of them holds at all."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.server.conftest import Served
from tests.server.test_cluster import ECHO, Workers, url, worker
from tests.waiting import wait_until

__all__ = ["url", "worker"]

TOOL = """description = "Says {word}."
args = {{}}


async def execute(args, ctx):
    return "{word}"
"""


def trust(server: Served, *arguments: str, code: int = 0, **variables: str) -> Any:
    """`instar trust` on the machine of a server, with ``--json``; what it said of its failure."""
    done = subprocess.run(
        [sys.executable, "-m", "instar", "trust", *arguments, "--json"],
        cwd=server.directory,
        env={**server.environment, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr if code else json.loads(done.stdout)


def tool(server: Served, word: str) -> Path:
    path = Path(server.directory) / ".opencode" / "tools" / "say.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TOOL.format(word=word))
    return path


def said(server: Served) -> str:
    """The description of the folder's tool at a server, "" where it has none. A turn takes up what was decided."""
    server.ask(server.session())
    answered = server.http.get("/experimental/tool", params={"provider": "scripted", "model": "test"})
    return next((one["description"] for one in answered.json() if one["id"] == "say"), "")


def changes(server: Served) -> list[str]:
    return [one["change"] for one in server.http.get("/instar/trust").json()["changes"]]


@pytest.mark.slow
def test_what_a_person_accepts_at_one_machine_runs_at_all_within_a_second(worker: Workers) -> None:
    servers = [worker(ECHO) for _ in range(2)]
    tool(servers[0], "hello")
    assert [said(one) for one in servers] == ["", ""]
    trust(servers[0])
    began = time.monotonic()
    wait_until(lambda: servers[1].http.get("/instar/trust").json()["trusted"])
    assert time.monotonic() - began < 2
    wait_until(lambda: [said(one) for one in servers] == ["Says hello."] * 2)
    # What changed since is heard at none, until it is accepted at any.
    tool(servers[0], "goodbye")
    wait_until(lambda: [changes(one) for one in servers] == [["changed"]] * 2)
    assert [said(one) for one in servers] == ["Says hello."] * 2
    shown = servers[1].http.get("/instar/trust").json()
    assert servers[1].http.post("/instar/trust", json={"version": shown["version"]}).status_code == 200
    wait_until(lambda: [said(one) for one in servers] == ["Says goodbye."] * 2)
    trust(servers[0], "--remove")
    wait_until(lambda: [said(one) for one in servers] == ["", ""])


def test_a_machine_that_joins_later_hears_the_accepted_version_whatever_stands_there(worker: Workers) -> None:
    first = worker(ECHO)
    path = tool(first, "hello")
    trust(first)
    tool(first, "evil")
    later = worker(ECHO)
    assert said(later) == "Says hello."
    assert changes(later) == ["changed"]
    # Its commands know it too, and what it decides reaches the one that decided first.
    assert trust(later, "--list") == [str(first.directory)]
    path.write_text(TOOL.format(word="hello"))
    wait_until(lambda: changes(later) == [])


def test_each_decision_is_taken_once_and_a_later_one_here_stays(worker: Workers, url: str) -> None:
    first, second = worker(ECHO), worker(ECHO)
    tool(first, "hello")
    trust(first)
    trust(second, "--remove")
    for _ in range(2):
        assert trust(first, "--list") == trust(second, "--list") == []
    with psycopg.connect(url) as database:
        kinds = database.execute("SELECT kind FROM instar_trust ORDER BY position").fetchall()
    assert kinds == [("remove",)]


def test_rows_that_cannot_be_read_change_nothing(worker: Workers, url: str) -> None:
    first, second = worker(ECHO), worker(ECHO)
    tool(first, "hello")
    trust(first)
    assert trust(second, "--list") == [str(first.directory)]
    with psycopg.connect(url) as database:
        database.execute(
            "INSERT INTO instar_trust (id, folder, kind, value) VALUES ('x', '/', 'add', 'no order at all')"
        )
    assert trust(second, "--list") == [str(first.directory)]


def test_without_the_database_a_decision_holds_here_and_says_that_others_were_not_told(
    worker: Workers, tmp_path: Path
) -> None:
    server = worker(ECHO)
    tool(server, "hello")
    away = {"INSTAR_DATABASE": "postgresql://nobody@127.0.0.1:1/none", "INSTAR_DATA": str(tmp_path / "alone")}
    told = trust(server, code=1, **away)
    assert "it holds on this machine, and others were not told" in told
    assert trust(server, "--list", **away) == [str(server.directory)]
