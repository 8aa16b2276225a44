"""Damage to the database of a workspace: each round damages its files in one to four ways, as they stand after a crash.

A start must then work, or say in one line that names the file why not; a script is never granted more than it was, and
what is pinned stays so, unless the file is gone: the ledger then still tells the agent's versions from a person's.
"""

import contextlib
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.campaign.corruption import MEMORY, Damage, damage, some

from instar.plugins.evolve.database import BESIDE, FILE, Database
from instar.plugins.evolve.gate.authority import Authority
from instar.plugins.evolve.gate.pending import NotPending, Pending, Proposal
from instar.plugins.evolve.grants import GrantedVersion, ScriptGrants
from instar.plugins.evolve.heartbeat.book import HeartbeatBook
from instar.plugins.evolve.heartbeat.schedule import pause
from instar.plugins.evolve.history.audit_log import AuditEntry, AuditLog
from instar.plugins.evolve.history.pins import BadPin, Pins
from instar.plugins.evolve.notices import HookNotice, Notices

SHIELD = Authority("shield")
FILES = [f"{FILE}{ending}" for ending in BESIDE]


class StoresWorld:
    """A database below `folder` that is damaged and put right again and again."""

    def __init__(self, folder: Path) -> None:
        self.data, self._pristine = folder / "data", folder / "pristine"

    def make(self) -> None:
        """Fill every table; the newest rows stand in the log alone."""
        database = Database(self.data, durable=False)
        grants = ScriptGrants(database)
        grants.expect("bot.sh", "v", GrantedVersion(SHIELD), "mine", SHIELD)
        grants.settle("bot.sh", SHIELD)
        Pins(database).add("hooks/a.sh")
        _write(database)
        database.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        for _ in range(40):
            _write(database)
        shutil.copytree(self.data, self._pristine)
        database.close()

    def play(self, damages: Iterable[Damage]) -> None:
        """Damage the files, and check what a start makes of it. Raises `AssertionError`."""
        shutil.rmtree(self.data)
        shutil.copytree(self._pristine, self.data)
        targets = [self.data / name for name in FILES]
        done = [damage(targets, one) for one in damages]
        try:
            self._check()
        except AssertionError as error:
            raise AssertionError(f"{error}\nafter: {'; '.join(done)}") from None

    def _check(self) -> None:
        # A file that is gone cannot be told from one that was never made.
        whole = (self.data / FILE).exists()
        database = Database(self.data, durable=False)
        with contextlib.closing(database):
            said = _said(database, lambda: ScriptGrants(database).held("bot.sh", "v"))
            held = said is None or isinstance(said, str) or said.authority.hold == "shield"
            assert held, f"granted: {said}"
            pinned = _said(database, lambda: Pins(database).find("hooks/a.sh"))
            if whole:
                assert said is not None, "the grant is gone, and nothing is said"
                assert pinned or database.doubt(), "the pin is gone, and nothing is said"
            for act in (
                lambda: _write(database),
                lambda: AuditLog(database).read(),
                lambda: HeartbeatBook(database).entries(),
                lambda: Pending(database).list(),
                lambda: Notices(database).waiting(),
            ):
                _said(database, act)


def _write(database: Database) -> None:
    AuditLog(database).add(AuditEntry(kind="frozen", text="x" * 500))
    HeartbeatBook(database).change(lambda state: pause(state, 1, "a person"))
    Pending(database).put(Proposal("hooks/bot.sh", "", "text", ("more",)))
    Notices(database).notify([HookNotice("said")], ["ses_1"])
    database.keep("frozen", b"null")


def _said(database: Database, act: Callable[[], Any]) -> Any:
    """What `act` returns, or the one line in which it says that it cannot."""
    try:
        return act()
    except (OSError, BadPin, NotPending) as error:
        said = str(error)
    assert str(database.folder) in said, f"{said!r} does not say where"
    assert "\n" not in said, f"{said!r} is more than a line"
    return said


def main(number: int = 2_500, seed: int = 5) -> None:
    """Make at least `number` damages; exit code 1 where a round was not survived. Each is printed."""
    chance, made, failed = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        world = StoresWorld(Path(folder))
        world.make()
        while made < number:
            damages = some(chance)
            try:
                world.play(damages)
            except AssertionError as error:
                failed += 1
                print(error, file=sys.stderr)
            made += len(damages)
    print(f"stores: {made} damages, {failed} not survived (seed {seed})")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
