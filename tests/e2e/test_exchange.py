"""Sessions come in and go out as a person does it: `instar import`, `instar export`, and who may run one."""

import asyncio
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests import started

from instar.session.import_export import LIMIT
from instar.testing import TIMEOUT, Machine

pytest_plugins = ["tests.turn"]

DATA = Path(__file__).parents[1] / "data"
RECORDED = json.loads((DATA / "opencode-export.json").read_text())
ID: str = RECORDED["info"]["id"]
FIRST: str = RECORDED["messages"][0]["info"]["id"]


class Ran:
    def __init__(self, code: int | None, out: bytes, err: bytes) -> None:
        self.code, self.out, self.err = code, out.decode(), err.decode()
        assert "Traceback" not in self.err, self.err


async def start(house: Machine, *arguments: str, cwd: Path | None = None) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "instar", *arguments),
        cwd=cwd or house.folder,
        env=house.environment,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def instar(house: Machine, *arguments: str, stdin: bytes = b"", cwd: Path | None = None) -> Ran:
    done = await asyncio.to_thread(
        started.run,
        [*arguments],
        cwd=cwd or house.folder,
        environment=house.environment,
        stdin=stdin,
        timeout=TIMEOUT,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


async def export(house: Machine, session_id: str) -> dict[str, Any]:
    return json.loads((await instar(house, "export", session_id)).out)


def file(house: Machine, plain: Any, name: str = "one.json") -> str:
    path = house.folder / name
    path.write_text(json.dumps(plain))
    return str(path)


def recorded(**changes: Any) -> dict[str, Any]:
    plain = json.loads(json.dumps(RECORDED))
    plain["info"] |= changes
    return plain


@pytest.fixture
async def database(tmp_path: Path) -> Path:
    """The recorded database of opencode."""
    path = tmp_path / "opencode.db"
    connection = sqlite3.connect(path)
    connection.executescript((DATA / "opencode-db.sql").read_text())
    connection.close()
    return path


@pytest.mark.slow
async def test_a_session_of_opencode_comes_in_and_goes_out_the_same_but_for_its_folder(house):
    done = await instar(house, "import", str(DATA / "opencode-export.json"))
    assert (done.code, done.out) == (0, f"imported {ID}  A talk  (5 messages)\n"), done.err
    here = await export(house, ID)
    assert here["messages"] == RECORDED["messages"]
    differ = {key for key in here["info"] if here["info"][key] != RECORDED["info"].get(key)}
    assert differ == {"projectID", "directory", "path"}
    assert here["info"]["directory"] == str(house.folder)
    assert ID in (await instar(house, "session", "list")).out


@pytest.mark.slow
async def test_an_imported_session_is_gone_on_with(house):
    await instar(house, "import", str(DATA / "opencode-export.json"))
    house.says("== turn\nexpect: and now\ntext: Now this.\n")
    done = await instar(house, "run", "-s", ID, "-m", "scripted/x", "--agent", "build", "and now?")
    assert done.out == "Now this.\n", done.err
    sent = house.requests()[-1]["messages"]
    assert any("All done: buy milk" in json.dumps(message) for message in sent)


@pytest.mark.slow
async def test_a_session_comes_in_through_stdin_and_the_last_one_goes_out_without_a_name(house):
    done = await instar(house, "import", "-", stdin=json.dumps(RECORDED).encode())
    assert done.code == 0, done.err
    out = await instar(house, "export")
    assert json.loads(out.out)["info"]["id"] == ID
    assert f"exporting the last session here: {ID}" in out.err


@pytest.mark.slow
async def test_the_same_session_twice_is_a_choice(house):
    name = file(house, RECORDED)
    await instar(house, "import", name)
    again = await instar(house, "import", name)
    assert again.code == 2
    assert "--replace" in again.err
    assert "--copy" in again.err
    shorter = recorded(title="Shorter")
    del shorter["messages"][1:]
    replaced = await instar(house, "import", "--replace", file(house, shorter, "shorter.json"))
    assert replaced.code == 0, replaced.err
    here = await export(house, ID)
    assert (here["info"]["title"], len(here["messages"])) == ("Shorter", 1)
    copied = await instar(house, "import", "--copy", name)
    assert copied.code == 0, copied.err
    made = copied.out.split()[1]
    assert made != ID
    assert len((await export(house, made))["messages"]) == 5
    assert len((await export(house, ID))["messages"]) == 1
    assert (await instar(house, "import", "--copy", "--replace", name)).code == 2


@pytest.mark.slow
async def test_a_file_cannot_take_another_sessions_messages(house):
    await instar(house, "import", file(house, RECORDED))
    stolen = json.loads(json.dumps(RECORDED).replace(ID, "ses_thief"))
    done = await instar(house, "import", file(house, stolen))
    assert done.code == 2
    assert "--copy" in done.err
    assert "Session not found" in (await instar(house, "session", "show", "ses_thief")).err
    assert (await export(house, ID))["messages"] == RECORDED["messages"]


@pytest.mark.slow
async def test_a_part_of_an_unknown_kind_is_kept_and_shown_as_it_is(house):
    odd = {
        "id": "prt_odd",
        "type": "hologram",
        "beam": "\x1b]0;owned\x07",
        "sessionID": ID,
        "messageID": FIRST,
    }
    plain = recorded()
    plain["messages"][0]["parts"].append(odd)
    assert (await instar(house, "import", file(house, plain))).code == 0
    assert odd in (await export(house, ID))["messages"][0]["parts"]
    shown = (await instar(house, "session", "show", ID)).out
    assert "[hologram] {" in shown
    assert '"beam":' in shown
    assert "\x1b" not in shown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{\n"info": {},\n', "one.json:3:1: not JSON"),
        (json.dumps(RECORDED)[:-9], "one.json:1:"),
        ('{"sessions": []}', "one.json: not an exported session"),
        (json.dumps(RECORDED).replace('"text": ', '"txt": ', 1), "one.json: messages[0].parts[0]"),
        (json.dumps(RECORDED).replace('"finish"', '"cost"'), "one.json: messages[1].info"),
    ],
)
async def test_a_broken_file_is_named_and_changes_nothing(house, text, words):
    (house.folder / "one.json").write_text(text)
    done = await instar(house, "import", "one.json")
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1
    assert (await instar(house, "session", "list")).err == "instar: no sessions here yet\n"


@pytest.mark.slow
async def test_a_file_that_is_too_large_is_refused_before_it_is_read_as_json(house):
    with (house.folder / "big.json").open("wb") as big:
        big.truncate(LIMIT + 1)
    done = await instar(house, "import", "big.json")
    assert done.code == 2
    assert "larger than 256 MB" in done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("import",), "name a FILE"),
        (("import", "missing.json"), "there is no file"),
        (("import", "https://opncd.ai/share/x"), "opencode export ID > FILE"),
        (("import", "--all"), "--opencode-db"),
        (("import", "--opencode-db", "missing.db"), "there is no such file"),
        (("import", "--opencode-db", "notes.txt"), "it must be opencode's database"),
        (("import", "--opencode-db", "x.db", "--all", "--session", "ses_1"), "one of --session"),
        (("export",), "there is no session here"),
        (("export", "ses_none"), "Session not found: ses_none"),
        (("export", "ses_none", "-o", "notes.txt"), "exists; name a new file"),
        (("export", "ses_none", "-o", "no/where.json"), "there is no folder"),
    ],
)
async def test_a_mistake_is_one_line_that_says_what_to_do(house, arguments, words):
    (house.folder / "notes.txt").write_text("not a database " * 100)
    done = await instar(house, *arguments)
    assert done.code in (1, 2)
    assert words in done.err
    assert done.err.count("\n") == 1
    assert (house.folder / "notes.txt").read_text() == "not a database " * 100


@pytest.mark.slow
async def test_an_export_into_a_file_is_the_persons_alone_and_can_be_sanitized(house):
    await instar(house, "import", str(DATA / "opencode-export.json"))
    assert (await instar(house, "export", ID, "-o", "out.json")).code == 0
    path = house.folder / "out.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text()) == await export(house, ID)
    clean = (await instar(house, "export", ID, "--sanitize")).out
    assert "buy milk" in path.read_text()
    assert "buy milk" not in clean
    assert str(house.folder) not in clean


@pytest.mark.slow
async def test_opencodes_database_is_listed_imported_with_children_and_left_alone(house, database):
    before = database.read_bytes()
    (house.folder / "sub").mkdir()
    moved = sqlite3.connect(database)
    moved.execute("UPDATE session SET directory = ?", (str(house.folder / "sub"),))
    moved.commit()
    moved.close()
    listed = await instar(house, "import", "--opencode-db", str(database))
    assert listed.out.startswith(ID)
    assert "(5 messages)" in listed.out
    assert listed.out.count("\n") == 1
    assert "1 of the database's 2 sessions are this folder's" in listed.err
    before = database.read_bytes()
    done = await instar(house, "import", "--opencode-db", str(database), "-s", ID)
    assert done.out.count("imported ses_") == 2, done.err
    assert database.read_bytes() == before
    assert [path.name for path in database.parent.glob("opencode.db*")] == ["opencode.db"]
    out = json.loads((await instar(house, "export", ID, "--children")).out)
    assert out["messages"] == RECORDED["messages"]
    assert out["todos"] == [{"content": "buy milk", "status": "pending", "priority": "high"}]
    assert [child["info"]["parentID"] for child in out["children"]] == [ID]
    assert out["info"]["directory"] == str(house.folder / "sub")
    again = await instar(house, "import", "--opencode-db", str(database), "--all")
    assert (again.code, again.out) == (0, "")
    assert f"session {ID} is here already" in again.err
    replaced = await instar(house, "import", "--opencode-db", str(database), "--project", ".", "--replace")
    assert replaced.out.count("imported ses_") == 2, replaced.err


async def test_a_database_that_opencode_writes_to_is_read_with_what_it_has_not_merged(house, database):
    writer = sqlite3.connect(database)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE session SET title = 'Just now' WHERE id = ?", (ID,))
    writer.commit()
    done = await instar(house, "import", "--opencode-db", str(database), "--session", ID)
    writer.close()
    assert f"imported {ID}  Just now" in done.out, done.err


@pytest.mark.slow
async def test_broken_rows_are_named_and_keep_no_others_out(house, database):
    connection = sqlite3.connect(database)
    part, message = RECORDED["messages"][1]["parts"][2]["id"], RECORDED["messages"][2]["info"]["id"]
    connection.execute("UPDATE part SET data = '{\"type\":' WHERE id = ?", (part,))
    connection.execute("UPDATE message SET data = 'x' WHERE id = ?", (message,))
    connection.execute("UPDATE session SET parent_id = NULL, permission = 'x' WHERE id <> ?", (ID,))
    connection.commit()
    connection.close()
    done = await instar(house, "import", "--opencode-db", str(database), "--all")
    assert done.code == 1
    assert done.out == f"imported {ID}  A talk  (4 messages)\n"
    assert "skipped messages[1].parts[2]" in done.err
    assert "skipped messages[2].info" in done.err
    assert "cannot be read" in done.err


@pytest.mark.slow
async def test_a_database_of_another_program_is_refused(house, tmp_path):
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE session (id text)")
    connection.close()
    done = await instar(house, "import", "--opencode-db", str(other), "--all")
    assert done.code == 1
    assert "not opencode's database: it has no table message" in done.err


@pytest.mark.slow
async def test_a_database_of_a_newer_instar_is_refused_with_the_version_and_untouched(house):
    await instar(house, "import", str(DATA / "opencode-export.json"))
    path = house.data / "instar.db"
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO instar_migration VALUES (9999, 'later', 'x', '9.9', 0)")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = path.read_bytes()
    for arguments in (("session", "list"), ("run", "-m", "scripted/x", "hi"), ("export",)):
        done = await instar(house, *arguments)
        assert done.code == 1
        assert "written by instar 9.9" in done.err
        assert done.err.count("\n") == 1
    assert path.read_bytes() == before


@pytest.mark.slow
async def test_a_session_whose_folder_is_gone_is_listed_shown_and_gone_on_with(house, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    await instar(house, "import", str(DATA / "opencode-export.json"), cwd=gone)
    gone.rmdir()
    assert f"({gone}, which is gone)" in (await instar(house, "session", "list")).out
    shown = await instar(house, "session", "show", ID)
    assert "its folder is gone" in shown.err
    assert "All done" in shown.out
    house.says("== turn\ntext: Here I am.\n")
    done = await instar(house, "run", "-s", ID, "-m", "scripted/x", "--agent", "build", "where?")
    assert done.out == "Here I am.\n", done.err
    assert "there is no folder" in (await instar(house, "session", "list", "--dir", str(gone))).err


LONG = """
    == turn
    tool: bash {"command": "echo $$ > pid.new; mv pid.new pid; sleep 60"}
    == title
    text: t
"""


@pytest.fixture
async def busy(house: Machine) -> AsyncIterator[str]:
    """The id of a session in which another process runs a turn."""
    house.says(LONG)
    child = await start(house, "run", "--auto", "-m", "scripted/x", "wait")
    assert child.stdin is not None
    child.stdin.close()
    async with asyncio.timeout(TIMEOUT):
        while not (house.folder / "pid").exists():
            await asyncio.sleep(0.01)
    yield json.loads((await instar(house, "session", "list", "--json")).out)[0]["id"]
    os.kill(child.pid, signal.SIGINT)
    await asyncio.wait_for(child.communicate(), TIMEOUT)


async def asked_over_http(house: Machine, session_id: str) -> httpx2.Response:
    """Ask for a turn through a server of its own, which is a third process."""
    house.environment["INSTAR_SERVER_PASSWORD"] = "x"
    child = await start(house, "serve", "--port", "0", "--grace", "0")
    assert child.stdout is not None
    try:
        line = (await asyncio.wait_for(child.stdout.readline(), TIMEOUT)).decode()
        body = {
            "parts": [{"type": "text", "text": "hi"}],
            "model": {"providerID": "scripted", "modelID": "x"},
        }
        async with httpx2.AsyncClient(auth=("opencode", "x"), timeout=TIMEOUT) as http:
            return await http.post(f"{line.split()[-1]}/session/{session_id}/message", json=body)
    finally:
        child.terminate()
        await asyncio.wait_for(child.communicate(), TIMEOUT)


@pytest.mark.slow
async def test_every_door_says_which_process_runs_a_session(house, busy):
    plain = json.loads(json.dumps(RECORDED).replace(ID, busy))
    for arguments in (
        ("run", "-s", busy, "-m", "scripted/x", "and I"),
        ("session", "delete", busy),
        ("import", "--replace", file(house, plain)),
    ):
        done = await instar(house, *arguments)
        assert done.code == 2, (arguments, done.err)
        assert f"session {busy} is running in another process" in done.err
    answer = await asked_over_http(house, busy)
    assert answer.status_code == 400
    assert f"session {busy} is running in another process" in answer.json()["data"]["message"]
    assert (await export(house, busy))["info"]["id"] == busy
    shown = (await instar(house, "session", "show", busy)).out
    assert "wait" in shown


@pytest.mark.slow
async def test_an_export_for_reading_is_markdown_with_what_calls_did(house):
    house.says(
        '== turn\ntext: I look.\ntool: bash {"command": "echo \'```\'; echo inside"}\n'
        'tool: write {"filePath": "a.txt", "content": "one\\n"}\n== turn\ntext: All **done**.\n'
    )
    assert (await instar(house, "run", "-m", "scripted/x", "please\nlook")).code == 0
    told = (await instar(house, "export", "--format", "markdown")).out
    assert told.startswith("# please")
    for text in (
        "\n## You\n\nplease\nlook\n",
        "\n## build (scripted/x)\n\nI look.\n",
        "\n**bash** ``echo '```'; echo inside``\n",
        "\n````text\n```\ninside\n````\n",
        "\n```diff\n",
        "\n+one\n",
        "\nAll **done**.\n",
    ):
        assert text in told
    refused = await instar(house, "export", "--format", "markdown", "--sanitize")
    assert (refused.code, "leave out --format markdown" in refused.err) == (2, True)
