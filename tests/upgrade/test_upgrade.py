"""What earlier versions left is opened, listed and continued: databases and evolve workspaces, which `make.py` kept."""

import json
import os
import sqlite3
import tarfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from tests import started

KEPT = sorted((Path(__file__).parents[1] / "data" / "upgrade").glob("*.tar.xz"))
STORY = "Write a note about what an instar is, and count the words in it."
LEARNED = "hello_note_count"
"""The tool that the agent gave itself in the story."""


class Home:
    """A home that an earlier version left, in another folder than it lay in."""

    def __init__(self, archive: Path, root: Path, environment: dict[str, str]) -> None:
        self.name = archive.name.partition(".")[0]
        with tarfile.open(archive) as packed:
            packed.extractall(root, filter="data")
        self.home = root / "home"
        self.project, self.workspace = self.home / "project", self.home / "workspace"
        self.record, self.script = root / "record.jsonl", root / "script.txt"
        self.environment = {
            **environment,
            "INSTAR_TRUST": "all",
            "INSTAR_SCRIPT": str(self.script),
            "INSTAR_SCRIPT_RECORD": str(self.record),
            "INSTAR_WORKSPACE": str(self.workspace),
        }
        self.move((self.home / "root").read_text(), str(root))

    def move(self, old: str, new: str) -> None:
        """Let what names the old folder name the new one: databases, and evolve's folder of the workspace."""
        for database in self.home.rglob("*.db"):
            with closing(sqlite3.connect(database)) as connection, connection:
                tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
                for (table,) in tables:
                    for _, column, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
                        connection.execute(
                            f"UPDATE {table} SET {column} = replace({column}, ?, ?) WHERE typeof({column}) = 'text'",
                            (old, new),
                        )
        kept = self.home / ".local/share/instar/plugin/evolve/workspaces"
        if kept.exists():
            (before,) = kept.iterdir()
            # By its path, as every version has named it.
            before.rename(
                kept / f"workspace-{sha256(os.fsencode(self.workspace.resolve())).hexdigest()[:16]}"
            )

    def instar(self, *words: str) -> str:
        """Run a command that succeeds; return what it printed, errors too."""
        done = started.run(list(words), cwd=self.project, environment=self.environment, timeout=60)
        printed = (done.stdout + done.stderr).decode()
        assert done.returncode == 0, printed
        return printed

    def sessions(self) -> dict[str, str]:
        """The ids of the sessions by what was asked first in them."""
        listed = json.loads(self.instar("session", "list", "--json"))
        asked = {}
        for session in listed:
            exported = json.loads(self.instar("export", session["id"]))
            first = exported["messages"][0]["parts"][0]["text"]
            asked[first] = session["id"]
        return asked

    def request(self) -> dict[str, object]:
        """What the model was sent last."""
        lines = [json.loads(line) for line in self.record.read_text().splitlines()]
        found: dict[str, object] = [line for line in lines if line["purpose"] == "turn"][-1]
        return found


@pytest.fixture(params=KEPT, ids=lambda archive: archive.name.partition(".")[0])
def left(request: pytest.FixtureRequest, tmp_path: Path, clean_environment: dict[str, str]) -> Home:
    return Home(request.param, tmp_path, clean_environment)


def test_sessions_are_listed_and_one_is_continued(left: Home) -> None:
    sessions = left.sessions()
    assert set(sessions) == {STORY, "What does the shell say?"}
    left.script.write_text('== when "And before"\ntext: It said heard.\n')
    assert "It said heard." in left.instar(
        "run", "--session", sessions["What does the shell say?"], "And before?"
    )
    sent = json.dumps(left.request()["messages"])
    for words in ("What does the shell say?", "heard", "The shell said heard.", "And before?"):
        assert words in sent


@pytest.mark.slow
def test_what_the_agent_learned_is_at_work_and_can_be_taken_back(left: Home) -> None:
    left.script.write_text(
        f'== when "Count again"\ntool: {LEARNED} {{"name": "instar"}}\n\n== when "8"\ntext: Eight words.\n'
    )
    sessions = left.sessions()
    printed = left.instar("run", "--auto", "--session", sessions[STORY], "Count again.")
    assert "Eight words." in printed, printed
    assert LEARNED in json.dumps(left.request()["tools"])
    assert "evolve_hook_edit hello.py" in left.instar("evolve", "log")
    # With schema 2 evolve kept no ledger: git has its changes, and takes them back.
    if left.name != "schema-2":
        left.instar("evolve", "rollback")
        assert "note_count" not in (left.workspace / "hooks" / "hello.py").read_text()
