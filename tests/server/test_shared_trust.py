"""Trust on several machines with one PostgreSQL database: what a person accepts at one of them holds at all."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.server.conftest import Served
from tests.server.test_cluster import ECHO, Workers, url, worker
from tests.waiting import wait_until

from instar.opencode.bridge.plugins import read
from instar.process import Processes
from instar.server.instances import Instances
from instar.settings.paths import Paths
from instar.settings.trust import Trust, TrustError
from instar.store.trust import SharedTrust, trust_at

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


NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


Environments = Callable[..., Mapping[str, str]]
Machine = Callable[..., Trust]


@pytest.fixture
def environment(url: str, tmp_path: Path, clean_environment: Mapping[str, str]) -> Environments:
    """Give the environment of a machine by its name: its data folder is its own, the database in common."""

    def of(name: str, database: str = url) -> Mapping[str, str]:
        return {**clean_environment, "INSTAR_DATABASE": database, "INSTAR_DATA": str(tmp_path / name)}

    return of


@pytest.fixture
def machine(environment: Environments) -> Machine:
    """Give a person's trust at a machine, as a command has it that begins now."""

    def begun(name: str, **variables: str) -> Trust:
        found = environment(name, **variables)
        return trust_at(Paths.from_environment(found), found)

    return begun


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    (path / "opencode.json").write_text('{"plugin": ["evolve"]}')
    return path


def test_a_removal_that_others_did_not_hear_of_reaches_them_once_it_is_said_again(
    machine: Machine, folder: Path
) -> None:
    machine("here").add(folder)
    assert machine("there").is_trusted(folder)
    with pytest.raises(TrustError, match="others were not told"):
        machine("here", database=NOWHERE).remove(folder)
    here = machine("here")
    assert (here.is_trusted(folder), machine("there").is_trusted(folder)) == (False, True)
    assert here.remove(folder) is False
    assert not machine("there").is_trusted(folder)


def test_a_machine_that_was_away_while_a_folder_was_removed_and_then_refused_trusts_it_no_more(
    machine: Machine, folder: Path
) -> None:
    machine("here").add(folder)
    assert machine("away").is_trusted(folder)
    machine("here").remove(folder)
    machine("here").refuse(folder)
    away = machine("away")
    assert (away.is_trusted(folder), away.is_refused(folder)) == (False, True)
    # Nothing is refused that is trusted by then.
    machine("here").add(folder)
    away.refuse(folder)
    assert machine("away").is_trusted(folder) is machine("here").is_trusted(folder)


def test_a_folder_may_come_to_a_machine_after_it_was_accepted_at_another(
    machine: Machine, folder: Path
) -> None:
    machine("here").add(folder)
    elsewhere = folder.rename(folder.with_name("elsewhere"))
    assert machine("there").list() == [folder]
    elsewhere.rename(folder)
    there = machine("there")
    assert there.is_trusted(folder)
    assert there.view(folder).changes == ()


def test_a_list_that_cannot_be_used_takes_what_was_decided_elsewhere_once_it_is_mended(
    machine: Machine,
    environment: Environments,
    folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    there = environment("there")
    worker = SharedTrust(Paths.from_environment(there), there)
    machine("there").add(other)
    listed, taken = tmp_path / "there" / "trust.json", tmp_path / "there" / "shared" / "trust.json"
    machine("here").add(folder)
    listed.chmod(0o666)
    for _ in range(2):
        worker.refresh()
    assert caplog.text.count(f"is not taken: {listed}: others may write to it") == 1
    listed.chmod(0o600)
    taken.parent.rename(tmp_path / "aside")
    taken.parent.touch()
    worker.refresh()
    assert f"{taken.parent}" in caplog.text
    taken.parent.unlink()
    worker.refresh()
    assert Trust(Paths.from_environment(there), there).list() == [other, folder]


@pytest.mark.slow
def test_what_is_too_large_for_a_row_is_accepted_here_alone(machine: Machine, folder: Path) -> None:
    tools = folder / ".opencode" / "tools"
    tools.mkdir(parents=True)
    (tools / "large.bin").write_bytes(os.urandom(49 << 20))
    with pytest.raises(TrustError, match=r"others were not told .*more than 64 MiB"):
        machine("here").add(folder)
    assert (machine("here").is_trusted(folder), machine("there").is_trusted(folder)) == (True, False)


async def test_a_new_worker_lets_plugins_work_unasked_that_were_accepted_elsewhere(
    machine: Machine, folder: Path, environment: Environments
) -> None:
    machine("here").add(folder)
    made = Instances(folder, environment("new"))
    try:
        await made.listen()
        await made.stand_by()
        assert len(made.opened()) == 1
    finally:
        await made.close()


async def test_the_bridge_in_opencode_knows_what_was_accepted_elsewhere(
    machine: Machine, folder: Path, environment: Environments
) -> None:
    machine("here").add(folder)
    found = await read(folder, environment("there"), Processes())
    assert [plugin.target for plugin in found.settings.plugins] == ["evolve"]


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
    # Nor do they hold up what is decided after them.
    trust(first, "--remove")
    assert trust(second, "--list") == []


def test_without_the_database_a_decision_holds_here_and_says_that_others_were_not_told(
    worker: Workers, tmp_path: Path
) -> None:
    server = worker(ECHO)
    tool(server, "hello")
    away = {"INSTAR_DATABASE": NOWHERE, "INSTAR_DATA": str(tmp_path / "alone")}
    told = trust(server, code=1, **away)
    assert "it holds on this machine, and others were not told" in told
    assert trust(server, "--list", **away) == [str(server.directory)]
