"""Storage that fails under a session: the N-th act of a kind fails, or power is lost at any moment.

What holds, whatever failed:

- the database is whole, opens, and its sessions answer;
- what a client was told is there: after a failed act and after a killed process always, after a loss of power where the
  settings say ``"storage": {"durability": "power"}``;
- a script of the workspace is one of its whole versions.

``python -m tests.campaign.storage --count 600 --seed 1``
"""

import asyncio
import contextlib
import logging
import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.campaign.campaign import given
from tests.campaign.corruption import MEMORY
from tests.campaign.disk import Disk, after_kill, after_power_loss
from tests.campaign.kills import BOT, SCRIPT

from instar.plugin import PromptBody
from instar.store import StoreError
from instar.store.store import open_store
from instar.testing import Machine, RuntimeUnderTest, said

KINDS = {"write": 60, "full": 60, "sync": 12, "truncate": 3, "rename": 12, "fsync": 30}
"""The kinds of act that fail, and up to which of them: a story does about so many."""
PATIENCE = 120.0
"""Seconds after which a prompt hangs; a change of a script takes long on a busy machine."""
PROMPTS = ("say one", "add two", "grow three", "file four")


class Story:
    """A machine on which a session works; `told` are its durable events, each with the acts of the disk before it."""

    def __init__(self, folder: Path, durability: str) -> None:
        self.machine = Machine(folder)
        self.disk = Disk(folder)
        self.told: list[tuple[int, str]] = []
        self.root = self.machine.workspace({"hooks/bot.sh": BOT})
        self.machine.says(SCRIPT)
        self.machine.settings(storage={"durability": durability})
        os.environ["HOME"] = self.machine.environment["HOME"]

    async def play(self) -> list[str]:
        """Prompt a session several times; return what is not as it should be even where the disk fails."""
        found = []
        try:
            runtime = await self._open()
            session = await runtime.session()
            for text in PROMPTS:
                # What is refused must not keep the next from being asked.
                with contextlib.suppress(StoreError):
                    async with asyncio.timeout(PATIENCE):
                        await runtime.client.prompt(session, PromptBody.text(text))
        except StoreError:
            pass
        except Exception as error:
            found.append(f"not said as an error of the store: {error!r}")
        try:
            await self.machine.close()
        except StoreError:
            pass
        except Exception as error:
            found.append(f"the end fails: {error!r}")
        return found

    async def _open(self) -> RuntimeUnderTest:
        runtime = await self.machine.open()
        runtime.runtime.instance.bus.observe(
            lambda event: self.told.append((len(self.disk.done), event.id)) if event.seq else None
        )
        return runtime

    async def check(self) -> list[str]:
        """Return what does not hold of what is left, once the disk is well."""
        told = {event for _, event in self.told}
        found = [*lost(self.machine.data / "instar.db", told)]
        try:
            runtime = await self.machine.open()
            session = (await runtime.client.list() or [None])[0]
            answer = await runtime.ask(session.id if session else await runtime.session(), "say again")
            if "said again" not in said(answer):
                found.append(f"a session does not answer: {answer}")
            text = (self.root / "hooks" / "bot.sh").read_text()
            if text not in (BOT, BOT.replace("version 0", "version three")):
                found.append(f"hooks/bot.sh is no version: {text!r}")
            await self.machine.close()
        except Exception as error:
            found.append(f"it does not open again: {error!r}")
        return found


def lost(database: Path, told: set[str]) -> Iterator[str]:
    """Yield what is wrong with a database, and which of the events that were told it does not have."""
    if not database.exists():
        if told:
            yield f"there is no database, and {len(told)} events were told"
        return
    try:
        with contextlib.closing(sqlite3.connect(database)) as store:
            if (damage := store.execute("PRAGMA integrity_check").fetchone()) != ("ok",):
                yield f"the database is damaged: {damage}"
            kept = {key for (key,) in store.execute("SELECT id FROM event")} if told else set()
        if told - kept:
            yield f"{len(told - kept)} of {len(told)} events that were told are lost"
    except sqlite3.Error as error:
        yield f"the database does not open: {error}"


def fault(folder: Path, chance: random.Random) -> list[str]:
    """Let one act of the disk fail, or all of a kind from one on, and return what does not hold."""
    kind, times = chance.choice(list(KINDS)), chance.choice((1, 1, 3, 1_000_000))
    number = chance.randint(1, KINDS[kind])
    story = Story(folder, chance.choice(("process", "power")))

    async def play() -> list[str]:
        with story.disk.in_use():
            story.disk.fail(kind, number, times)
            found = await story.play()
            story.disk.fail("", 0, 0)
            return [*found, *await story.check()]

    return [f"{one} (the {number}th {kind} and {times} in all)" for one in asyncio.run(play())]


class Outage:
    """A story that was played to its end, whose disk is then looked at as it was at any moment."""

    def __init__(self, folder: Path, durability: str) -> None:
        story = Story(folder, durability)
        with story.disk.in_use():
            found = asyncio.run(story.play())
        assert not found, found
        assert story.told
        assert "version three" in (story.root / "hooks" / "bot.sh").read_text()
        self._done, self._told = story.disk.done, story.told
        self._durability, self._database = durability, str(story.machine.data / "instar.db")
        self.lost = 0

    def cut(self, folder: Path, chance: random.Random, ends: str) -> list[str]:
        """Cut everything at one moment, by a ``kill`` or by a loss of ``power``; return what does not hold."""
        place = chance.randint(0, len(self._done))
        done = self._done[:place]
        files = after_kill(done) if ends == "kill" else after_power_loss(done, chance.choice((None, chance)))
        folder.mkdir()
        for name, data in files.items():
            if name.startswith(self._database):
                (folder / Path(name).name).write_bytes(data)
        told = {event for at, event in self._told if at <= place}
        promised = told if ends == "kill" or self._durability == "power" else set[str]()
        database = folder / "instar.db"
        found = list(lost(database, promised))
        if not found:
            self.lost += any(lost(database, told))
            found = asyncio.run(_opens(database))
        return [f"{one} ({ends} after {place} acts, durability {self._durability})" for one in found]


async def _opens(database: Path) -> list[str]:
    try:
        store = await open_store(database, lambda event: None)
        for session in await store.sessions():
            await store.messages(session.id)
        await store.close()
    except StoreError as error:
        return [f"it does not open: {error}"]
    return []


def main(arguments: list[str] | None = None) -> int:
    """Play the campaign; the exit code."""
    logging.disable()
    campaign, options = given("storage", arguments, count=3000)
    with tempfile.TemporaryDirectory(dir=MEMORY) as name:
        folder = Path(name)
        outages = {one: Outage(folder / one, one) for one in ("process", "power")}
        for number in campaign.numbers():
            chance = campaign.chance(number)
            here = folder / f"r{number}"
            if chance.random() < 0.1:
                found = fault(here, chance)
                campaign.counts["failed acts"] += 1
            else:
                durability, ends = chance.choice(list(outages)), chance.choice(("kill", "power"))
                found = outages[durability].cut(here, chance, ends)
                campaign.counts[f"cuts by {ends}, durability {durability}"] += 1
            for text in found:
                campaign.find(f"{text} (round {number})")
            shutil.rmtree(here)
        for durability, outage in outages.items():
            campaign.counts[f"cuts that lost something told, durability {durability}"] += outage.lost
    return campaign.end(options.json)


if __name__ == "__main__":
    sys.exit(main())
