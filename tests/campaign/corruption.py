"""Damage to a workspace and to evolve's ledger of it: `python -m tests.campaign.corruption [NUMBER] [--seed SEED]`.

Each round damages files in one to four ways, of the workspace, of the ledger, of the last good tree or of git's folder.
A running instar and one that starts anew must then both answer within two seconds, with an accepted version of every
file, and say what departed. At most one copy of a content can be wrong for each way, and there are two besides git's.
"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.history.repository import WorkspaceRepository
from instar.plugins.evolve.ledger import standing
from instar.plugins.evolve.ledger.goodtree import GoodTree, Served
from instar.plugins.evolve.ledger.install import Installer
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.process import Processes

FILES = {
    "hooks/bot.sh": 0o755,
    "hooks/lib/part.py": 0o644,
    "hooks/other.py": 0o755,
    "prompts/chat.md": 0o644,
    "tests/bot_test.sh": 0o755,
    "evals/score.sh": 0o755,
    "config/evolve.jsonc": 0o644,
}
ACTIONS = (
    "flip",
    "truncate",
    "append",
    "delete",
    "swap",
    "folder",
    "link",
    "pipe",
    "mode",
    "beside",
    "without folder",
)
SECONDS = 2.0
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where a round costs 5 ms and not 100."""


class File(msgspec.Struct, frozen=True):
    """New content of a file."""

    content: bytes
    mode: int


class Damage(NamedTuple):
    """What happens to which file; `target`, `other` and `at` are taken modulo what there is."""

    action: str
    target: int
    other: int
    at: int


class World:
    """A workspace below `folder`, with its ledger and last good tree, that is damaged and put right again and again."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.root, self.data = folder / "ws", folder / "data"
        self.home, self.good = self.data / "key", self.data / "good" / "key"
        self._pristine = folder / "pristine"
        self._repository = WorkspaceRepository(processes, self.root)
        self._history = History(processes, self.root)
        self._slowest = 0.0
        self.accepted: dict[str, set[tuple[bytes, bool]]] = {path: set() for path in FILES}

    async def make(self) -> None:
        """Make the workspace; two installs, so that the ledger has a past."""
        for path, mode in FILES.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            self._write(path, b"the first version of " + path.encode() + b"\n", mode)
        (self.root / "state").mkdir()
        await self._history.prepare()
        ledger, _ = await self.start()
        installer = Installer(ledger, self._repository, self._history.commit)
        for number in (2, 3):
            path = ("hooks/bot.sh", "prompts/chat.md")[number - 2]
            content = f"version {number} of {path}\n".encode()
            await installer.install({path: File(content, FILES[path])}, f"version {number}")
            self.accepted[path].add((content, bool(FILES[path] & 0o111)))
        (self.root / "hooks" / "extra").write_text("departed")
        await GoodTree(ledger, self._repository, self.good).serve()
        (self.root / "hooks" / "extra").unlink()
        for part in (self.root, self.data):
            shutil.copytree(part, self._pristine / part.name, symlinks=True)

    def reset(self, git: bool) -> None:
        """Put everything back; git's folder only if it was damaged."""
        for part in (self.root, self.data):
            kept = None if git or part == self.data else self.root / ".git"
            for path in part.iterdir() if part.is_dir() else []:
                if path != kept:
                    _remove(path)
            ignored = shutil.ignore_patterns(".git") if kept else None
            shutil.copytree(
                self._pristine / part.name, part, symlinks=True, dirs_exist_ok=True, ignore=ignored
            )

    async def start(self) -> tuple[Ledger, list[str]]:
        """Start anew: load the ledger, and mend what can be mended."""
        ledger = Ledger(self.home, self.root)
        return ledger, await Installer(ledger, self._repository, self._history.commit).open()

    async def play(self, damages: Iterable[Damage]) -> float:
        """Damage the world and check what a running instar and a new one make of it. Raises `AssertionError`.

        Returns the seconds that the slowest of their answers took.
        """
        self._slowest = 0.0
        running, _ = await self.start()
        running.check()
        done = [self.damage(one) for one in damages]
        try:
            await self._answer(running, done)
            fresh, _ = await self._timed(self.start())
            await self._answer(fresh, done)
        except AssertionError as error:
            raise AssertionError(f"{error}\nafter: {'; '.join(done)}") from None
        finally:
            self.reset(git=any("/.git/" in one for one in done))
        return self._slowest

    def damage(self, one: Damage) -> str:
        """Do it, and say what was done."""
        return damage(self._targets(), one)

    def _targets(self) -> list[Path]:
        """What may be damaged: all files and folders, of git's folder only HEAD, the index and our mark."""
        found = [self.root / name for name in sorted({*FILES, *standing.FOLDERS})]
        found += [path for path in sorted(self.data.rglob("*")) if path.name != "state"]
        return found + [self.root / ".git" / name for name in ("HEAD", "index", "instar-epoch")]

    async def _answer(self, ledger: Ledger, done: list[str]) -> None:
        served = await self._timed(GoodTree(ledger, self._repository, self.good).serve())
        assert isinstance(served, Served)
        self._check(ledger, served, done)

    async def _timed(self, doing: object) -> object:
        began = time.monotonic()
        found = await doing  # type: ignore[misc]
        self._slowest = max(self._slowest, time.monotonic() - began)
        return found

    def _check(self, ledger: Ledger, served: Served, done: list[str]) -> None:
        for path in served.files:
            found = (served.root / path).read_bytes(), os.access(served.root / path, os.X_OK)
            assert found in self.accepted.get(path, ()), (
                f"{path} is served as {found}, which was never accepted"
            )
        if not any("/.git/" in one for one in done):
            assert served.files == self.accepted.keys(), f"not served: {self.accepted.keys() - served.files}"
        assert served.root == self.root or standing.scan(served.root, caches=True).keys() == served.files
        named = {one.path for one in served.departures}
        for path in FILES:
            whole = self._whole(path)
            assert whole or path in named or ledger.notices, f"{path} is damaged, and nothing is said"
            assert served.root != self.root or whole, f"{path} is damaged, and the workspace serves"

    def _whole(self, path: str) -> bool:
        try:
            content = standing.read(self.root, path, keep=True)
        except (OSError, standing.NotPlain):
            return False
        return (content.data, bool(content.mode & 0o111)) in self.accepted[path]

    def _write(self, path: str, content: bytes, mode: int) -> None:
        (self.root / path).write_bytes(content)
        (self.root / path).chmod(mode)
        self.accepted[path].add((content, bool(mode & 0o111)))


def damage(targets: list[Path], one: Damage) -> str:
    """Damage one of `targets`, and say what was done."""
    path, other = targets[one.target % len(targets)], targets[one.other % len(targets)]
    with contextlib.suppress(OSError):  # it was done, or made impossible, by the damage before
        _damage(path, other, one)
    return f"{one.action} {path} ({other}, {one.at})"


def _damage(path: Path, other: Path, one: Damage) -> None:
    # A link is never followed: it may lead out of the world, and a campaign may run as root.
    is_link = path.is_symlink()
    if one.action == "mode" and not is_link:
        path.chmod((0o000, 0o444, 0o644, 0o755)[one.at % 4])
    elif one.action == "swap":
        between = path.with_name("between")
        path.rename(between)
        with contextlib.suppress(OSError):
            other.rename(path)
        between.rename(other)
    elif one.action == "beside":
        (path.parent / f"json{one.at % 3}.py").write_bytes(b"planted")
    elif one.action == "without folder":
        _remove(path.parent if path.parent.name not in ("data", "ws", ".git") else path)
    elif one.action in ("flip", "truncate", "append") and path.is_file() and not is_link:
        _overwrite(path, one)
    else:
        _remove(path)
        if one.action == "folder":
            path.mkdir()
        elif one.action == "link":
            outside = Path(tempfile.gettempdir(), "instar-campaign-outside")
            outside.write_text("what a link leads to, outside of all that is damaged\n")
            path.symlink_to(other if one.at % 2 else outside)
        elif one.action == "pipe":
            os.mkfifo(path)


def _overwrite(path: Path, one: Damage) -> None:
    info, data = path.stat(), bytearray(path.read_bytes())
    place = one.at % (len(data) or 1)
    if one.action == "flip" and data:
        data[place] ^= 1 << one.at % 8
    path.write_bytes({"truncate": data[:place], "append": data + b"!"}.get(one.action, data))
    if one.at % 2:  # also one that hides behind the old time
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, onerror=lambda *_: None)
    else:
        path.unlink(missing_ok=True)


def some(chance: random.Random) -> list[Damage]:
    """Return one to four random damages."""
    number = chance.choice((1, 1, 1, 2, 2, 3, 4))
    large = 1 << 30
    return [
        Damage(chance.choice(ACTIONS), *(chance.randrange(large) for _ in range(3))) for _ in range(number)
    ]


async def campaign(number: int, seed: int) -> int:
    """Make at least `number` damages and return how many rounds were not survived; each is printed."""
    chance, made, rounds, failed = random.Random(seed), 0, 0, 0
    processes = Processes()
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        world = World(Path(folder), processes)
        await world.make()
        while made < number:
            damages = some(chance)
            try:
                took = await world.play(damages)
                assert took < SECONDS, f"it took {took:.1f} s after: {damages}"
            except AssertionError as error:
                failed += 1
                print(error, file=sys.stderr)
            made += len(damages)
            rounds += 1
            if rounds % 500 == 0:
                print(f"{made} of {number} damages, {failed} not survived", file=sys.stderr)
    await processes.close()
    print(f"corruption: {made} damages in {rounds} rounds, {failed} not survived (seed {seed})")
    return failed


def main() -> None:
    """Run the campaign; exit code 1 where a round was not survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("number", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=5)
    chosen = parser.parse_args()
    sys.exit(1 if asyncio.run(campaign(chosen.number, chosen.seed)) else 0)


if __name__ == "__main__":
    main()
