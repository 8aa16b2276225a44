"""A PostgreSQL server for tests, with a folder and a socket of its own; Debian's `postgresql` must be installed."""

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg


class Cluster:
    """A server that listens on a socket alone."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self.folder = folder
        self._names = map("test{}".format, itertools.count())

    def run(self, program: str, *arguments: str) -> None:
        """Run one of its programs; as root as somebody else, since the server refuses root."""
        user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
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
        fast = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=16MB")
        options = [
            f"-c {one}" for one in (*fast, "listen_addresses=", f"unix_socket_directories={self.folder}")
        ]
        self.run(
            "pg_ctl", "-w", "-D", "data", "-l", str(self.folder / "log.txt"), "-o", " ".join(options), "start"
        )

    def stop(self, mode: str = "immediate") -> None:
        self.run("pg_ctl", "-w", "-D", "data", "-m", mode, "stop")

    def database(self) -> str:
        """Make an empty schema, and return the URL that names it."""
        name = next(self._names)
        url = f"postgresql:///postgres?host={self.folder}&user=postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")  # type: ignore[arg-type]
        return f"{url}&options=-csearch_path%3D{name}"


def programs() -> Path:
    """The folder of the server's programs, of its newest version."""
    found: Sequence[Path] = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda one: len(str(one))
    )
    assert found, "these tests need PostgreSQL (Debian: apt install postgresql)"
    return found[-1].parent


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a server, and end it with its folder."""
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if os.geteuid() == 0:
        owner = pwd.getpwnam("postgres")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    made = Cluster(programs(), folder)
    made.run("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
    made.start()
    try:
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder)
