"""Which program runs JavaScript here: bun where there is one, else node."""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin.load import LoadError
from instar.process import ProcessError, Processes

NEEDED: Final = 20
"""The oldest major version of node that will do (issue 11)."""
HOST: Final = Path(__file__).parent / "host" / "host.mjs"
"""The program that the child runs."""
_SOCKET: Final = "3"
# Programs that a plugin starts get its stdin: the socket must not be that.
_MOVED: Final = 'exec "$@" 3<&0 0</dev/null'


class Engine(msgspec.Struct, frozen=True):
    """A program that runs JavaScript, by its absolute `path`; `name` is ``bun`` or ``node``."""

    name: str
    path: str

    @property
    def argv(self) -> list[str]:
        """The command of the host, which finds its socket on stdin."""
        flags = ["--no-install"] if self.name == "bun" else ["--no-warnings"]
        return ["sh", "-c", _MOVED, "sh", self.path, *flags, str(HOST), _SOCKET]


def find_engine(environment: Mapping[str, str]) -> Engine:
    """Return what runs JavaScript on the person's ``PATH``. Raises `LoadError` when nothing does."""
    path = environment.get("PATH")
    for name in ("bun", "node"):
        if (found := shutil.which(name, path=path)) is not None:
            return Engine(name, found)
    raise LoadError(
        f"it is JavaScript, and there is neither bun nor node on PATH: install bun, or node {NEEDED} or newer"
    )


def demand_new(engine: Engine, version: str) -> None:
    """Raise `LoadError` for a node that is too old, by the `version` that it prints."""
    found = re.match(r"v(\d+)\.", version)
    if engine.name == "node" and (found is None or int(found[1]) < NEEDED):
        what = "no version" if found is None else f"version {found[1]}"
        raise LoadError(
            f"it is JavaScript, and {engine.path} has {what}: "
            f"install bun, or node {NEEDED} or newer, and put it on PATH"
        )


async def version_of(
    engine: Engine, environment: Mapping[str, str], processes: Processes, directory: Path
) -> str:
    """Return the version that a program prints, "" when it prints none. Asked when it did not come up."""
    try:
        said = await processes.run([engine.path, "--version"], cwd=directory, env=environment, timeout=10)
    except ProcessError:
        return ""
    return said.stdout.decode("utf-8", "replace").strip()
