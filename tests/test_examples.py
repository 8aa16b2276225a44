"""The example plugins do what they say, each in a session of its own."""

import json
import socket
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port

from instar.approval.permissions import relayed
from instar.message import text_of
from instar.plugin import SessionBody
from instar.testing import Machine, results

pytest_plugins = ["tests.turn"]

EXAMPLES = Path(__file__).parents[1] / "examples" / "plugins"
FILES = sorted(EXAMPLES.glob("*.py"))

TWO_STEPS = """
    == turn
    tool: bash {"command": "echo hi"}

    == turn
    text: done
"""


def use(house: Machine, name: str, **options: Any) -> None:
    """List an example in the person's settings."""
    house.settings(plugin=[[str(EXAMPLES / f"{name}.py"), options]], permission={"*": "allow"})


def displays(request: dict[str, Any]) -> list[str]:
    """The displays that one request to the model holds."""
    return [line for line in json.dumps(request["messages"]).split('"') if line.startswith("[HUD]")]


async def test_the_display_is_the_newest_message_of_each_step_and_leaves_no_trail(house: Machine) -> None:
    use(house, "hud")
    house.says(TWO_STEPS)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    first, second = house.requests()
    assert displays(first) == ["[HUD] steps: 0, tools: none, tokens: 0"]
    assert len(displays(second)) == 1
    assert displays(second)[0].startswith("[HUD] steps: 1, tools: bash, tokens: 1")
    assert "[HUD]" in json.dumps(second["messages"][-1])
    assert not any("[HUD]" in text_of(message) for message in await door.stored(session))


async def test_the_display_takes_one_of_an_earlier_step_away_where_it_is_still_there(house: Machine) -> None:
    use(house, "hud")
    house.says("== turn\ntext: ok\n")
    # The first of two gives the second what a host does that hands the same messages over again.
    house.plugin((EXAMPLES / "hud.py").read_text("utf-8"), "again")
    door = await house.open()
    await door.ask(await door.session(), "go")
    assert [len(displays(request)) for request in house.requests()] == [1]


@pytest.mark.slow
async def test_the_display_asks_its_own_model_server_which_ends_with_the_plugin(house: Machine) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/"
    server = [sys.executable, str(EXAMPLES / "model_server.py"), str(port)]
    use(house, "hud", model=server, url=url)
    house.says("== turn\ntext: ok\n")
    door = await house.open()
    session = await door.session()
    await until_it_answers(door, port)
    await door.ask(session, "go")
    assert "hint: begin by looking" in json.dumps(house.requests()[0]["messages"])
    await house.close()
    with socket.socket() as gone, pytest.raises(ConnectionRefusedError):
        gone.connect(("127.0.0.1", port))


async def until_it_answers(door: Any, port: int) -> None:
    """Wait until something listens on a port."""
    script = f"until (: < /dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.02; done"
    await door.runtime.instance.processes.run(["bash", "-c", script], cwd=Path("/"), timeout=10)


async def test_the_notifier_runs_its_command_when_a_session_is_done(house: Machine) -> None:
    use(house, "notifier", command='printf "%s\\n" "$1" >> told.txt')
    house.says('== when ""\ntext: ok\n')
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go; echo $HOME")
    await until(door, f"grep -q {session} told.txt")
    assert (house.folder / "told.txt").read_text() == f"project: session {session} is done\n"


async def test_the_notifier_tells_when_a_permission_is_asked(house: Machine) -> None:
    house.settings(
        plugin=[[str(EXAMPLES / "notifier.py"), {"command": 'echo "$1" >> told.txt'}]],
        permission={"bash": "ask"},
    )
    house.says(TWO_STEPS)

    door = await house.open(person=relayed)
    session = await door.session()
    await door.start(session, "go")
    event = await door.until(lambda event: event.type == "permission.asked")
    await until(door, "grep -q 'needs your permission' told.txt")
    await door.runtime.permission.reply(event.properties.id, "once")  # type: ignore[attr-defined]
    await door.idle(session)


async def until(door: Any, command: str) -> None:
    """Wait until a command of the project succeeds."""
    script = f"until {command} 2>/dev/null; do sleep 0.02; done"
    folder = door.runtime.instance.directory
    done = await door.runtime.instance.processes.run(["bash", "-c", script], cwd=folder, timeout=10)
    assert not done.timed_out, command


def database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("create table bug (id integer, title text)")
        connection.executemany("insert into bug values (?, ?)", [(n, f"bug {n}") for n in range(150)])
    connection.close()


@pytest.mark.parametrize(
    ("query", "file", "answer"),
    [
        ("select id, title from bug limit 2", "bugs.db", "id\ttitle\n0\tbug 0\n1\tbug 1"),
        ("select id from bug", "bugs.db", "99\n(more rows were left out)"),
        ("delete from bug", "bugs.db", "SQLite says: not authorized"),
        ("attach 'other.db' as other", "bugs.db", "SQLite says: not authorized"),
        ("select * from gone", "bugs.db", "SQLite says: no such table"),
        ("select 1", "../outside.db", "there is no database ../outside.db below"),
        (
            "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n",
            "bugs.db",
            "SQLite says: interrupted",
        ),
    ],
)
async def test_the_query_tool_reads_and_does_nothing_else(
    house: Machine, monkeypatch: pytest.MonkeyPatch, query: str, file: str, answer: str
) -> None:
    database(house.folder / "bugs.db")
    database(house.folder.parent / "outside.db")
    use(house, "sql_query")
    call = json.dumps({"database": file, "query": query})
    house.says(f"== turn\ntool: sql_query {call}\n\n== turn\ntext: done\n")
    door = await house.open()
    module = next(sys.modules[name] for name in sys.modules if name.startswith("instar_plugin_sql_query"))
    if "interrupted" in answer:
        monkeypatch.setattr(module, "SECONDS", 0.1)
    session = await door.session()
    await door.ask(session, "go")
    (output,) = results(await door.stored(session))
    assert answer in output
    with sqlite3.connect(house.folder / "bugs.db") as connection:
        assert connection.execute("select count(*) from bug").fetchone() == (150,)
    connection.close()


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("git push origin main", True),
        ("cd . && git push -f origin HEAD:refs/heads/main", True),
        ("git push", True),
        ("git push origin topic", False),
        ("cat tls/server.pem", True),
        ("base64 <'server.PEM'", True),
        ("echo pem", False),
    ],
)
async def test_the_policy_refuses_pushes_to_main_and_private_keys(
    house: Machine, command: str, refused: bool
) -> None:
    use(house, "policy")
    # Ours comes first on the path, so that nothing is ever pushed.
    fake = house.folder / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho pushed\n")
    fake.chmod(0o755)
    house.environment["PATH"] = f"{fake.parent}:{house.environment['PATH']}"
    house.says(f"== turn\ntool: bash {json.dumps({'command': command})}\n\n== turn\ntext: done\n")
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    call = [part for message in await door.stored(session) for part in message.parts if part.type == "tool"]
    assert (call[0].state.status == "error") is refused, results(await door.stored(session))


async def test_the_folder_adapter_gives_a_session_a_copy_of_a_project_without_git(house: Machine) -> None:
    use(house, "folder", into=str(house.folder.parent / "copies"))
    (house.folder / "a.txt").write_text("one")
    house.says('== turn\ntool: bash {"command": "echo two >> a.txt"}\n\n== turn\ntext: done\n')
    door = await house.open()
    made = await door.runtime.workspace.create("folder", name="try")
    assert (await door.runtime.workspace.types())["folder"] == "A copy of the project's folder."
    session = await door.client.create(SessionBody(title="named", workspace_id=made.id))
    house.folder = Path(session.directory)
    inside = await house.open()
    await inside.ask(session.id, "change it")
    assert (Path(session.directory) / "a.txt").read_text() == "onetwo\n"
    assert (door.runtime.instance.directory / "a.txt").read_text() == "one"
    await door.runtime.workspace.remove("try")
    assert not Path(session.directory).exists()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_example_is_short_and_uses_the_public_door_alone(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 60
    imports = [line for line in text.splitlines() if line.startswith(("import instar", "from instar"))]
    assert all(line.startswith("from instar.plugin import ") for line in imports)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_example_stands_in_the_table(path: Path) -> None:
    assert f"| `{path.name}` |" in (EXAMPLES / "README.md").read_text("utf-8")
