"""What an earlier version left, and who goes on with it."""

import json
import os
import sqlite3
import tarfile
from contextlib import closing
from hashlib import sha256
from pathlib import Path

from tests import started

FOLDER = Path(__file__).parents[1] / "data" / "upgrade"
QUESTION = "What does the shell say?"


class Person:
    """Who goes on with what was left: runs commands in `project`, with the scripted model."""

    def __init__(self, root: Path, environment: dict[str, str]) -> None:
        self.project = root / "home" / "project"
        self.record, self.script = root / "record.jsonl", root / "script.txt"
        self.environment = {
            **environment,
            "INSTAR_TRUST": "all",
            "INSTAR_SCRIPT": str(self.script),
            "INSTAR_SCRIPT_RECORD": str(self.record),
        }

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

    def goes_on(self) -> None:
        """Go on with the everyday session: the model reads what was said before."""
        self.script.write_text('== when "And before"\ntext: It said heard.\n')
        assert "It said heard." in self.instar("run", "--session", self.sessions()[QUESTION], "And before?")
        sent = json.dumps(self.request()["messages"])
        for words in (QUESTION, "heard", "The shell said heard.", "And before?"):
            assert words in sent


class Home(Person):
    """A home that an earlier version left, in another folder than it lay in."""

    def __init__(self, archive: Path, root: Path, environment: dict[str, str]) -> None:
        self.name = archive.name.partition(".")[0]
        with tarfile.open(archive) as packed:
            packed.extractall(root, filter="data")
        super().__init__(root, environment)
        self.home, self.workspace = root / "home", root / "home" / "workspace"
        self.environment["INSTAR_WORKSPACE"] = str(self.workspace)
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
