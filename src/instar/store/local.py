"""instar's own PostgreSQL server (``instar db start``): in the data folder, for its owner alone, on a socket.

It runs until it is stopped, whoever started it, so it is no child of `Processes`, which leave nothing behind.
"""

import asyncio
import fcntl
import os
import re
import secrets
import shutil
import stat
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.settings.paths import Paths
from instar.store import StoreError
from instar.wire.document import atomic_write, locked

_FOLDERS: Final = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)
"""Where systems put the programs of the server, which are in few people's PATH."""
_PATIENCE: Final = 120.0
_LARGE: Final = 10 << 20
"""Bytes of a log that is put away at the next start."""
_ROOT: Final = (
    "PostgreSQL does not run as root. Be another user for `instar db start` and for what uses that database, or "
    "name the database of a server that runs anyway: --database postgresql://USER@HOST/NAME"
)
_ABSENT: Final = (
    "PostgreSQL{} is not installed here: apt install postgresql{} (Debian, Ubuntu), dnf install postgresql-server "
    "(Fedora), brew install postgresql@{} (macOS)"
)
_SETTINGS: Final = """
# Of instar:
listen_addresses = ''
unix_socket_permissions = 0700
max_connections = 300
log_checkpoints = off
"""


class ServerState(msgspec.Struct, frozen=True):
    """What ``instar db status`` says; `connections` are those that instar has."""

    running: bool
    made: bool
    folder: str
    log: str
    url: str
    pid: int | None = None
    version: str = ""
    size: int = 0
    connections: int = 0
    workers: int = 0
    turns: dict[str, str] = {}


class LocalServer:
    """The server of a data folder. Raises `StoreError`, which says what to do."""

    def __init__(self, paths: Paths, environment: Mapping[str, str]) -> None:
        self._paths = paths
        self._folder = paths.local_server
        self._data = self._folder / "data"
        self._log = self._folder / "server.log"
        # Keys of the person are nothing to a server that outlives this command.
        kept = ("PATH", "HOME", "TZ", "LD_LIBRARY_PATH")
        self._environment = {name: environment[name] for name in kept if name in environment}

    async def start(self) -> bool:
        """Start it, made if need be; False if it ran."""
        if os.geteuid() == 0:
            raise StoreError(_ROOT)
        with locked(self._folder):
            lock = self._locked()
            if lock is None:
                return False
            try:
                programs = await self._programs()
                if not self._data.exists():
                    await self._make(programs)
                self._make_sockets()
                self._clear()
                await self._launch(programs, lock)
            finally:
                os.close(lock)
            self._make_database()
            return True

    async def stop(self) -> bool:
        """End it, and the connections to it; False if it did not run."""
        if self._pid() is None:
            return False
        with locked(self._folder):
            command = (await self._programs() / "pg_ctl", "stop", "-w", "-m", "fast", "-D", "data")
            await self._output(*command)
        return True

    def state(self) -> ServerState:
        """Return how it is."""
        lock = self._locked() if self._data.exists() else -1
        places = (str(self._folder), str(self._log), self._paths.local_database)
        state = ServerState(lock is None, self._data.exists(), *places)
        if lock is not None:
            if lock >= 0:
                os.close(lock)
            return state
        import psycopg

        try:
            with psycopg.connect(self._paths.local_database, connect_timeout=5) as connection:
                row = connection.execute(
                    "SELECT current_setting('server_version'), pg_database_size(current_database()), count(*),"
                    " count(DISTINCT application_name) FILTER (WHERE application_name LIKE 'instar worker %'),"
                    " to_regclass('instar_lease')::text"
                    " FROM pg_stat_activity WHERE application_name ~ '^instar( |$)'"
                ).fetchone()
                assert row is not None
                version, size, connections, workers, leases = row
                now = "extract(epoch FROM now()) * 1000"
                held = f"SELECT session_id, owner FROM instar_lease WHERE time_expires > {now}"  # noqa: S608 - our own
                turns = dict[str, str](connection.execute(held).fetchall() if leases else ())
        except psycopg.Error as error:
            raise StoreError(f"{self._folder}: {' '.join(str(error).split())}; see {self._log}") from error
        return msgspec.structs.replace(
            state,
            pid=self._pid(),
            version=version.split()[0],
            size=size,
            connections=connections,
            workers=workers,
            turns={one: owner.rpartition(":")[0] for one, owner in turns.items()},
        )

    def _locked(self) -> int | None:
        """Take the lock that all processes of a server hold as long as they live; None where they do."""
        lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        return lock

    def _pid(self) -> int | None:
        """The process of the server, by its file; None where the file is one that was left behind."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().split("\n")[0])
            os.kill(pid, 0)
            if Path("/proc/self").exists() and not Path(f"/proc/{pid}/cwd").samefile(self._data):
                return None
        except (OSError, ValueError):
            return None
        return pid

    def _clear(self) -> None:
        """Remove what a server left behind that was killed: it takes any process with its number for itself."""
        if self._pid() is None:
            for one in (self._data / "postmaster.pid", *self._paths.local_sockets.glob(".s.PGSQL.5432*")):
                one.unlink(missing_ok=True)

    async def _launch(self, programs: Path, lock: int) -> None:
        log = self._log
        if log.exists() and log.stat().st_size > _LARGE:
            log.replace(log.with_suffix(".log.1"))
        began = log.stat().st_size if log.exists() else 0
        # These go through a shell: the folder is named as one that needs no quotes, or from within.
        settings = f"-c unix_socket_directories={self._paths.local_sockets} -c port=5432"
        command = (programs / "pg_ctl", "start", "-w", "-D", "data", "-l", log.name, "-o", settings)
        try:
            await self._output(*command, keep=[lock])
        except StoreError as error:
            said = log.read_bytes()[began:].decode(errors="replace") if log.exists() else ""
            reason = next(iter(re.findall(r"FATAL: +(.*)", said)), str(error))
            raise StoreError(f"{reason}; see {log}") from error

    async def _programs(self) -> Path:
        """Return the folder of the programs: of the version that made the data, else of the newest."""
        made = self._data / "PG_VERSION"
        wanted = made.read_text().strip() if made.exists() else ""
        path = self._environment.get("PATH")
        folders = _installed(path)
        if config := shutil.which("pg_config", path=path):
            folders.append(Path((await self._output(config, "--bindir")).strip()))
        found: dict[str, Path] = {}
        for folder in folders:
            if all((folder / name).exists() for name in ("initdb", "pg_ctl", "postgres")):
                said = await self._output(str(folder / "postgres"), "--version")
                if version := re.search(r"\) (\d+)", said):
                    found[version[1]] = folder
        if wanted in found:
            return found[wanted]
        if wanted or not found:
            raise StoreError(_ABSENT.format(f" {wanted}".rstrip(), f"-{wanted}".rstrip("-"), wanted or "17"))
        return found[max(found, key=int)]

    async def _make(self, programs: Path) -> None:
        new, password = self._folder / "data.new", secrets.token_urlsafe(24)
        shutil.rmtree(new, ignore_errors=True)  # of a start that was cut short
        plain = self._folder / "password.new"
        atomic_write(plain, f"{password}\n".encode(), 0o600)
        try:
            options = ["-A", "scram-sha-256", "--pwfile", plain.name, "-E", "UTF8", "--no-locale"]
            await self._output(programs / "initdb", "-D", new.name, *options)
        finally:
            plain.unlink()
        atomic_write(self._folder / "password", f"*:*:*:*:{password}\n".encode(), 0o600)
        with (new / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS)
        new.replace(self._data)

    def _make_sockets(self) -> None:
        """Make the folder of the socket. Raises `StoreError` where it is another user's: that one would hear us."""
        place = self._paths.local_sockets
        place.mkdir(mode=0o700, exist_ok=True)
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise StoreError(
                f"{place} is to hold the server's socket, and others can write there; remove it, or name another "
                "data folder: INSTAR_DATA=FOLDER"
            )

    def _make_database(self) -> None:
        import psycopg

        url = self._paths.local_database.replace("///instar?", "///postgres?")
        with psycopg.connect(url, autocommit=True) as connection:
            there = connection.execute("SELECT 1 FROM pg_database WHERE datname = 'instar'").fetchone()
            if there is None:
                connection.execute("CREATE DATABASE instar")

    async def _output(self, *command: str | Path, keep: Sequence[int] = ()) -> str:
        """Run a program to its end and return what it printed."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self._folder,
                env=self._environment,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                pass_fds=keep,
            )
            said, _ = await asyncio.wait_for(process.communicate(), _PATIENCE)
        except (OSError, TimeoutError) as error:
            raise StoreError(f"{command[0]}: {error or 'it does not end'}") from error
        text = said.decode(errors="replace")
        if process.returncode:
            raise StoreError(f"{command[0]}: {' '.join(text.split())}")
        return text


def _installed(path: str | None) -> list[Path]:
    """The folders in which systems put the server's programs."""
    folders = [one for pattern in _FOLDERS for one in Path("/").glob(pattern)]
    return [*folders, *(Path(one).parent for one in [shutil.which("initdb", path=path)] if one)]
