"""Sessions go from the real opencode into instar and back, and the other way; the recorded data is made here.

``make real RECORD=1`` writes ``tests/data/opencode-export.json`` and ``opencode-db.sql`` anew.
"""

import json
import os
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parents[1] / "data"
TABLES = ("project", "session", "message", "part", "todo")
BEGAN = 1_735_689_600_000
"""The recorded session's first moment, long ago on every clock: 1 January 2025."""

HERS = "/home/ada/notes"
"""The recorded session's folder."""

STORY = (
    {
        "reasoning": "I had better look.",
        "text": "Let me look.",
        "tools": [
            ("read", {"filePath": "notes.txt"}),
            ("bash", {"command": "echo hi > new.txt", "description": "writes a file"}),
        ],
    },
    {
        "tools": [
            ("todowrite", {"todos": [{"content": "buy milk", "status": "pending", "priority": "high"}]}),
            ("read", {"filePath": "missing.txt"}),
        ]
    },
    {
        "tools": [
            ("task", {"description": "count", "prompt": "Count the words.", "subagent_type": "general"}),
        ]
    },
    {"text": "Two words."},
    {"text": "All done: buy milk, in two words."},
)


@pytest.fixture
def told(opencode, answers):
    """An opencode in which the story was told, and the session's id."""
    one = opencode("theirs")
    one.configure(answers(*STORY).settings())
    one.run("run", "What is in my notes? -- “quoted” 𝄞", "-f", "notes.txt")
    return one, one.sessions()[0]


class Instar:
    """Our program, with a home of its own, in the project of an opencode."""

    def __init__(self, folder: Path, project: Path, environment) -> None:
        self.project = project
        self.environment = {**environment, "XDG_DATA_HOME": str(folder / "instar-data")}

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "instar", *arguments],
            cwd=self.project,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def export(self, session_id: str) -> dict[str, Any]:
        return json.loads(self.run("export", session_id))


@pytest.fixture
def ours(tmp_path, clean_environment):
    return lambda project: Instar(tmp_path, project, clean_environment)


def test_a_session_of_opencode_comes_in_and_goes_back_with_every_part(told, ours, opencode, tmp_path):
    theirs, session_id = told
    original = theirs.export(session_id)
    file = tmp_path / "one.json"
    file.write_text(json.dumps(original))
    instar = ours(theirs.project)
    instar.run("import", str(file))
    here = instar.export(session_id)
    assert here == original
    file.write_text(json.dumps(here))
    other = opencode("other")
    other.run("import", str(file))
    back = other.export(session_id)
    assert back["messages"] == original["messages"]
    assert changed(original["info"], back["info"]) <= {"directory"}


def test_a_session_of_instar_goes_out_and_comes_back_with_every_part(ours, opencode, answers, tmp_path):
    theirs = opencode("theirs")
    instar = ours(theirs.project)
    path = Path(instar.environment["XDG_CONFIG_HOME"]) / "instar" / "instar.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(answers(*STORY).settings()))
    instar.run("run", "--auto", "What is in my notes?", "-f", "notes.txt")
    listed = json.loads(instar.run("session", "list", "--json"))
    made = next(one for one in listed if "parentID" not in one)
    file = tmp_path / "ours.json"
    instar.run("export", made["id"], "--children", "-o", str(file))
    original = json.loads(file.read_text())
    assert original["todos"]
    assert original["children"]
    theirs.run("import", str(file))
    back = theirs.export(made["id"])
    assert back["messages"] == original["messages"]
    assert changed(original["info"], back["info"]) <= {"path"}
    file.write_text(json.dumps(back))
    instar.run("import", "--replace", str(file))
    assert instar.export(made["id"])["messages"] == original["messages"]


def test_the_database_of_opencode_is_read_while_it_lies_there_and_left_as_it_is(told, ours):
    theirs, session_id = told
    before = {path.name: path.read_bytes() for path in theirs.database.parent.glob("opencode.db*")}
    instar = ours(theirs.project)
    assert session_id in instar.run("import", "--opencode-db", str(theirs.database))
    instar.run("import", "--opencode-db", str(theirs.database), "--all")
    after = {path.name: path.read_bytes() for path in theirs.database.parent.glob("opencode.db*")}
    assert {name: data for name, data in after.items() if not name.endswith("-shm")} == {
        name: data for name, data in before.items() if not name.endswith("-shm")
    }
    here = instar.export(session_id)
    assert here.pop("todos") == [{"content": "buy milk", "status": "pending", "priority": "high"}]
    assert here == theirs.export(session_id)
    assert json.loads(instar.run("export", session_id, "--children"))["children"]


def test_the_recorded_data_is_what_the_program_writes_today(told):
    theirs, session_id = told
    export = settled(theirs.export(session_id), theirs.project)
    dump = dumped(theirs.database, theirs.project)
    if os.environ.get("INSTAR_RECORD"):
        (DATA / "opencode-export.json").write_text(json.dumps(export, indent=2, ensure_ascii=False) + "\n")
        (DATA / "opencode-db.sql").write_text(dump)
    recorded = json.loads((DATA / "opencode-export.json").read_text())
    assert shape(export) == shape(recorded)
    kept = (DATA / "opencode-db.sql").read_text()
    assert created(dump) == created(kept)


def changed(one: dict[str, Any], other: dict[str, Any]) -> set[str]:
    return {key for key in {*one, *other} if one.get(key) != other.get(key)}


def settled(export: dict[str, Any], project: Path) -> dict[str, Any]:
    """An export with the recorded folder and times."""
    delta = export["info"]["time"]["created"] - BEGAN
    text = json.dumps(export, ensure_ascii=False).replace(str(project), HERS)
    return json.loads(re.sub(r"\b1[6-9]\d{11}\b", lambda found: str(int(found[0]) - delta), text))


def dumped(database: Path, project: Path) -> str:
    """The tables that instar reads, as SQL, with the recorded folder and times."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        (first,) = connection.execute("SELECT min(time_created) FROM session").fetchone()
        lines = [
            line
            for line in connection.iterdump()
            if re.match(rf'(CREATE TABLE|INSERT INTO) [`"]?({"|".join(TABLES)})[`"]?[ (]', line)
        ]
    text = "\n".join(lines).replace(str(project), HERS)
    return re.sub(r"\b1[6-9]\d{11}\b", lambda found: str(int(found[0]) - first + BEGAN), text) + "\n"


def created(dump: str) -> list[str]:
    return re.findall(r"CREATE TABLE[^;]*;", dump)


def shape(value: Any, key: str = "") -> Any:
    """A value without what differs from run to run: ids, times, the name of a session, snapshots, durations."""
    if isinstance(value, dict):
        return {name: shape(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item, key) for item in value]
    if key in ("slug", "snapshot", "hash", "created", "completed", "start", "end", "updated"):
        return type(value).__name__
    return re.sub(r"(ses|msg|prt)_\w+", r"\1", value) if isinstance(value, str) else value
