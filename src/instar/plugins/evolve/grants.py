"""Grants: what each script was granted, and how each of its versions is held, kept outside the workspace.

A version that the agent made is known here by its hash before it is installed; every other one is a person's own.
"""

from collections.abc import Callable, Iterable
from sqlite3 import Connection
from typing import Final

import msgspec

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.discovery import Registration
from instar.plugins.evolve.gate.authority import Authority
from instar.plugins.evolve.gate.manifest import Manifest, unasked

_MOST: Final = 200
"""Versions of one file that are remembered; older ones are taken for the agent's without a manifest."""


class GrantedVersion(msgspec.Struct, frozen=True):
    """How a version is held: its authority, and the manifest that its script asked for. None: the shield.

    `name` and `test` are what it registered in its trial; an empty name: it had none.
    """

    authority: Authority
    manifest: Manifest | None = None
    name: str = ""
    test: str | None = None

    def keeps(self, said: Registration, grants: Iterable[Authority]) -> Registration:
        """Return what the live version registers, as far as it is what was judged.

        A script can tell a trial from a session, and register otherwise there: it keeps the name and the test of its
        trial, and a tool that asks about less than in it, or less than one of that name in `grants` where the trial had
        none, is left out. Authority is never what `discover` says.
        """
        if not self.name:
            return said
        if said.name != self.name:
            problem = f"{said.file}: it was tried as {self.name!r} and registers {said.name!r}: its tools are left out"
            return Registration(said.file, self.name, self.test, (), (*said.problems, problem))
        kept, problems = [], [*said.problems]
        for tool in said.tools:
            silent = self._asked(tool.full, grants) - set(tool.patterns)
            if silent:
                asked = ", ".join(sorted(silent))
                problems.append(
                    f"{said.file}: tool {tool.full} is left out: it does not ask about {asked}, as it must"
                )
            else:
                kept.append(tool)
        return Registration(said.file, said.name, self.test, tuple(kept), tuple(problems), said.note)

    def _asked(self, tool: str, grants: Iterable[Authority]) -> frozenset[str]:
        judged = self.authority.tools.get(tool)
        if judged is not None:
            return judged
        return frozenset().union(*(one.tools.get(tool, frozenset()) for one in grants))


class Granted(msgspec.Struct, frozen=True):
    """One script: what it was granted last, the newest version that a person made, and those of the agent's.

    `touched` once a version of the agent's has gone live.
    """

    grant: Authority
    own: str | None = None
    versions: dict[str, GrantedVersion] = {}
    touched: bool = False


class ScriptGrants:
    """The grants of one workspace. Methods raise `OSError` when they cannot be read: nothing may be assumed then."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, script: str) -> Granted | None:
        """Return what is known of ``hooks/SCRIPT``; None: the agent never changed it."""
        found = self._database.rows("SELECT value FROM granted WHERE script = ?", script)
        if not found:
            if doubt := self._database.doubt():
                raise OSError(doubt)
            return None
        return self._granted(script, found[0][0])

    def others(self, script: str) -> list[Authority]:
        """Return the grants of the workspace's other scripts."""
        found = self._database.rows("SELECT script, value FROM granted WHERE script <> ?", script)
        return [self._granted(name, value).grant for name, value in found]

    def all(self) -> list[Authority]:
        """Return the grants of all scripts."""
        return self.others("")

    def held(self, script: str, version: str) -> GrantedVersion | None:
        """Return how this version is held; None where it is a person's own and was never the agent's to change."""
        known = self.of(script)
        if known is None:
            return None
        found = known.versions.get(version)
        if found is None:
            shielded = GrantedVersion(msgspec.structs.replace(known.grant, hold="shield"))
            return shielded if known.touched else None
        mine = found.authority
        return msgspec.structs.replace(
            found, manifest=found.manifest or unasked(mine.env, mine.actions or ())
        )

    def expect(self, script: str, version: str, held: GrantedVersion, live: str, grant: Authority) -> None:
        """Know a version before it is installed, in the place of `live`, which was granted `grant`."""

        def change(known: Granted | None) -> Granted:
            versions = {} if known is None else dict(known.versions)
            mine = live if known is None or live not in versions else known.own
            versions.pop(version, None)
            newest = list(versions.items())[-(_MOST - 1) :]
            kept = grant if known is None else known.grant
            touched = known is not None and known.touched
            return Granted(kept, mine or None, {**dict(newest), version: held}, touched)

        self._change(script, change)

    def settle(self, script: str, grant: Authority) -> None:
        """Take note of what a script is granted now that its version is live."""
        self._change(
            script,
            lambda known: msgspec.structs.replace(known or Granted(grant), grant=grant, touched=True),
        )

    def take(self, script: str, granted: Granted) -> None:
        """Take over what another worker knows of a script."""
        self._change(script, lambda known: granted)

    def _change(self, script: str, change: Callable[[Granted | None], Granted]) -> None:
        def turn(connection: Connection) -> None:
            found = connection.execute("SELECT value FROM granted WHERE script = ?", (script,)).fetchone()
            value = msgspec.json.encode(change(self._granted(script, found[0]) if found else None))
            connection.execute("INSERT OR REPLACE INTO granted VALUES (?, ?)", (script, value))

        self._database.change(turn)

    def _granted(self, script: str, value: bytes) -> Granted:
        try:
            return msgspec.json.decode(value, type=Granted)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, TypeError) as error:
            raise OSError(
                f"{self._database.path}: the grants of hooks/{script} are damaged ({error}): take the file away, "
                "start instar and accept the scripts that you trust"
            ) from None
