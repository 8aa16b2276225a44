"""A PostgreSQL server for tests, with a folder and a socket of its own; Debian's `postgresql` must be installed.

With ``INSTAR_POSTGRESQL=1`` (`make test-cluster`) the stores of tests are on such a server.
"""

import atexit
import hashlib
import itertools
import os
import pwd
import shlex
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import psycopg


class Cluster:
    """A server that listens on a socket alone."""

    def __init__(self, programs: Path, folder: Path, settings: Sequence[str]) -> None:
        self._programs = programs
        self.folder = folder
        self.settings = settings
        self._names = map("test{}".format, itertools.count())

    def run(self, program: str, *arguments: str) -> None:
        """Run one of its programs; as root as somebody else, since the server refuses root."""
        user: dict[str, Any] = (
            {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
        )
        # In a file: the server keeps the pipe of whoever starts it.
        with (self.folder / "output.txt").open("w+") as output:
            done = subprocess.run(
                [self._programs / program, *arguments],
                **user,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=60,
            )
            output.seek(0)
            assert done.returncode == 0, output.read()

    def start(self) -> None:
        places = ("listen_addresses=", f"unix_socket_directories={self.folder}")
        options = [f"-c {shlex.quote(one)}" for one in (*self.settings, *places)]
        self.run(
            "pg_ctl", "-w", "-D", "data", "-l", str(self.folder / "log.txt"), "-o", " ".join(options), "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        self.run("pg_ctl", "-w", "-D", "data", "-m", mode, "stop")

    def shell(self, script: str) -> None:
        """Run commands in its folder as its own user, who finds its programs and it."""
        known = f"export PATH={self._programs}:$PATH PGHOST={self.folder} PGUSER=postgres\n"
        self.run("/bin/bash", "-euc", known + script)

    def database(self, name: str = "") -> str:
        """Make an empty schema, unless one with this name is there, and return the URL that names it."""
        name = name or next(self._names)
        url = f"postgresql:///postgres?host={self.folder}&user=postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
        return f"{url}&options=-csearch_path%3D{name}"


def programs() -> Path:
    """The folder of the server's programs, of its newest version."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda one: len(str(one)))
    assert found, "these tests need PostgreSQL (Debian: apt install postgresql)"
    return found[-1].parent


FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=16MB")
"""Settings of a server whose data need not outlive the machine."""


@cache
def cluster(settings: Sequence[str] = FAST) -> Cluster:
    """Return the server of this process with these settings, which ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if os.geteuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    made = Cluster(programs(), folder, settings)
    made.run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    made.start()
    atexit.register(shutil.rmtree, folder)
    atexit.register(made.stop)
    return made


def database_variable(root: Path) -> dict[str, str]:
    """The environment variable of those whose store is to be on the server: one schema for each folder."""
    if not os.environ.get("INSTAR_POSTGRESQL"):
        return {}
    return {
        "INSTAR_DATABASE": cluster().database("of_" + hashlib.sha256(str(root).encode()).hexdigest()[:24])
    }


def change(database: Path | str, statement: str) -> None:
    """Let another program change a store, be that a file or on a server."""
    if isinstance(database, Path):
        with closing(sqlite3.connect(database)) as file, file:
            file.execute(statement)
    else:
        with psycopg.connect(database) as server:
            server.execute(statement)
