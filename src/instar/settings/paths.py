"""The places where instar keeps things, by the XDG rules, from an environment. Creates nothing."""

import hashlib
import os
import pwd
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

import msgspec

from instar.wire.pattern import late_pattern

DATA_VARIABLE: Final = "INSTAR_DATA"
DATABASE_VARIABLE: Final = "INSTAR_DATABASE"
PASSWORDS: Final = ".pgpass"
"""The file in the home folder that PostgreSQL's clients read passwords from."""
LOCAL: Final = "local"
"""The name of the database on instar's own server (``instar db start``)."""
_PLAIN_SOCKETS: Final = late_pattern(r"[\w./-]{1,85}", re.ASCII)
"""A folder that can hold a socket, whose whole path is at most 103 bytes long, and that a URL names as one."""


class Paths(msgspec.Struct, frozen=True):
    """The folders of one person. All paths are absolute.

    `config_homes` are the home configuration folders, in the order in which they are read: opencode's,
    instar's, then the ones in the home folder itself and ``$OPENCODE_CONFIG_DIR``. What stands in them is
    the person's own and needs no trust.
    """

    home: Path
    config_homes: tuple[Path, ...]
    data: Path
    state: Path
    cache: Path
    server: str = ""
    """The URL of the PostgreSQL database that has the store in place of a file, or ""."""
    server_ways: tuple[Path, ...] = ()
    """By what of this machine the server is reached: the file of passwords, the folder of its socket."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Paths":
        """Return the places for `environment`; a relative ``XDG_*`` value is ignored, as XDG asks."""
        home = Path(environment["HOME"]) if environment.get("HOME", "").startswith("/") else Path.home()
        config = _place(environment, "XDG_CONFIG_HOME", home / ".config")
        homes = [config / "opencode", config / "instar", home / ".opencode", home / ".instar"]
        named = environment.get("OPENCODE_CONFIG_DIR")
        if named:
            homes.append(Path(named).expanduser().absolute())
        data, server = environment.get(DATA_VARIABLE), environment.get(DATABASE_VARIABLE, "")
        passwords = Path(environment.get("PGPASSFILE") or home / PASSWORDS)
        place = (
            Path(data).expanduser().absolute()
            if data
            else _place(environment, "XDG_DATA_HOME", home / ".local/share") / "instar"
        )
        server = _local_url(place) if server == LOCAL else server
        return cls(
            home=home,
            config_homes=tuple(dict.fromkeys(homes)),
            data=place,
            state=_place(environment, "XDG_STATE_HOME", home / ".local/state") / "instar",
            cache=_place(environment, "XDG_CACHE_HOME", home / ".cache") / "instar",
            server=server,
            server_ways=(passwords, *_sockets(server)) if server else (),
        )

    @property
    def config(self) -> Path:
        """Instar's own home configuration folder."""
        return self.config_homes[1]

    @property
    def database(self) -> Path | str:
        """Where the store is: its SQLite file, or the URL of a PostgreSQL database."""
        return self.server or self.data / "instar.db"

    @property
    def local_server(self) -> Path:
        """The folder of instar's own PostgreSQL server."""
        return self.data / "postgresql"

    @property
    def local_sockets(self) -> Path:
        """The folder of that server's socket."""
        return _local_sockets(self.data)

    @property
    def local_database(self) -> str:
        """The URL of the database on that server."""
        return _local_url(self.data)

    @property
    def trust_file(self) -> Path:
        """The list of trusted folders."""
        return self.data / "trust.json"

    @property
    def password_file(self) -> Path:
        """The server's own password, mode 0600."""
        return self.data / "server-password"

    @property
    def servers(self) -> Path:
        """The folder in which servers that run are found by ``instar open``."""
        return self.data / "servers"

    @property
    def page_tickets(self) -> Path:
        """The folder of the tickets that log a browser in once."""
        return self.data / "page-tickets"

    def of_plugin(self, name: str) -> Path:
        """Return the folder for what the plugin `name` keeps in files; the plugin makes it."""
        return self.data / "plugin" / re.sub(r"[^A-Za-z0-9_.-]", "_", name).lstrip(".")

    @property
    def tool_output(self) -> Path:
        """The folder for tool output that was too long for the model."""
        return self.data / "tool-output"

    @property
    def aside(self) -> Path:
        """The folder of what was put aside of guarded places."""
        return self.data / "aside"

    @property
    def accepted(self) -> Path:
        """The folder of the accepted files that steer, laid out for children to read (`instar.settings.steering`)."""
        return self.data / "accepted"

    @property
    def plugins(self) -> Path:
        """The list of installed plugin folders (`instar.settings.plugin_folders`)."""
        return self.data / "plugins.json"

    @property
    def plugin_data(self) -> Path:
        """The folder of what the programs of plugin folders keep, which they may write."""
        return self.data / "plugin-data"

    @property
    def own_edits(self) -> Path:
        """The file that all instars share on the person's own edits (`instar.settings.own_edits`)."""
        return self.data / "own-edits.json"

    @property
    def worktrees(self) -> Path:
        """The folder of the git worktrees that instar makes for sessions."""
        return self.data / "worktrees"

    @property
    def log_file(self) -> Path:
        """The rotating log."""
        return self.state / "log" / "instar.log"


def _sockets(server: str) -> list[Path]:
    """The folders of the sockets that a PostgreSQL URL means: those it names, else Debian's."""
    parts = urlsplit(server)
    hosts = ",".join(parse_qs(parts.query).get("host", [unquote(parts.hostname or "")])).split(",")
    return [Path(host or "/run/postgresql") for host in hosts if not host or host.startswith("/")]


def _local_sockets(data: Path) -> Path:
    """The data folder's, else one that every process finds by the name of that: it is too long or too strange."""
    folder = data / "postgresql"
    if _PLAIN_SOCKETS.fullmatch(str(folder)):
        return folder
    name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    return Path(f"/tmp/instar-{os.geteuid()}-{name}")  # noqa: S108 - the server refuses one that is another user's


def _local_url(data: Path) -> str:
    """The password stands in a file, which children of the model cannot read; `requirepeer`: no other user answers."""
    try:
        user = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # nobody has that number; PostgreSQL says so
        user = str(os.geteuid())
    said = {
        "host": str(_local_sockets(data)),
        "port": "5432",
        "user": user,
        "requirepeer": user,
        "passfile": str(data / "postgresql" / "password"),
    }
    return f"postgresql:///instar?{urlencode(said, quote_via=quote, safe='/')}"


def _place(environment: Mapping[str, str], name: str, default: Path) -> Path:
    value = environment.get(name, "")
    return Path(value) if value.startswith("/") else default
