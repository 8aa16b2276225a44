"""A workspace whose ledger an instar of before kept: a file with a checksum, contents by SHA-256, and ``own.json``."""

import json
from hashlib import sha256

import pytest

from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.history.repository import WorkspaceRepository
from instar.plugins.evolve.ledger.install import Installer
from instar.plugins.evolve.ledger.ledger import Ledger

OLD, NEW = b"#!/bin/sh\necho old\n", b"#!/bin/sh\necho new\n"


class Before:
    """A workspace that an instar of before has left."""

    def __init__(self, root, home):
        self.root, self.home, self.old = root, home, home / "ledger"

    def keep(self, data, mode=0o755):
        sha = sha256(data).hexdigest()
        path = self.old / "objects" / sha[:2] / sha
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return {"sha": sha, "mode": mode, "size": len(data), "link": None}

    def write(self, name, value):
        body = json.dumps(value).encode()
        (self.old / name).write_bytes(sha256(body).hexdigest().encode() + b"\n" + body)


@pytest.fixture
async def before(root, tmp_path, kit, processes):
    kit.script(root / "hooks", "bot.sh", NEW.decode())
    kit.script(root / "hooks", "made.sh", "made")
    kit.script(root / "prompts", "chat.md", "be good", 0o644)
    await History(processes, root).prepare()
    before = Before(root, tmp_path / "data")
    files = {
        "hooks/bot.sh": before.keep(NEW),
        "hooks/made.sh": before.keep(b"made"),
        "prompts/chat.md": before.keep(b"be good", 0o600),
    }
    before.write("ledger", {"serial": 9, "epoch": 7, "files": files})
    (before.home / "own").mkdir()
    own = {"changed": {"hooks/bot.sh": before.keep(OLD), "hooks/made.sh": None}, "asked": True}
    (before.home / "own" / "own.json").write_text(json.dumps(own))
    return before


async def start(before, processes):
    ledger = Ledger(before.home, before.root)
    history, repository = History(processes, before.root), WorkspaceRepository(processes, before.root)
    return ledger, await Installer(ledger, repository, history.commit).open()


async def test_what_was_accepted_and_what_a_person_left_are_taken_over_with_the_epoch(before, processes):
    ledger, (said,) = await start(before, processes)
    assert "was taken over" in said
    assert "ledger.before" in said
    assert ledger.check() == []
    assert ledger.epoch == 7
    assert ledger.kept.content(ledger.left["hooks/bot.sh"].blob) == OLD
    assert "hooks/made.sh" not in ledger.left
    assert ledger.left["prompts/chat.md"] == ledger.files["prompts/chat.md"]
    assert ledger.is_told
    assert sorted(path.name for path in before.home.iterdir()) == [
        "accepted.git",
        "change",
        "ledger.before",
        "own.before",
    ]
    assert (await start(before, processes))[1] == []


async def test_what_departed_before_has_departed_still_and_what_no_copy_is_left_of_is_named(
    before, processes
):
    (before.root / "hooks" / "bot.sh").write_text("by hand")
    (before.root / "hooks" / "made.sh").unlink()
    sha = sha256(b"made").hexdigest()
    (before.old / "objects" / sha[:2] / sha).unlink()
    (before.old / "journal").touch()
    ledger, (said,) = await start(before, processes)
    assert "no copy is left of hooks/made.sh" in said
    assert "a change that was cut short has departed" in said
    assert [(one.path, one.kind) for one in ledger.check()] == [("hooks/bot.sh", "changed")]
    assert ledger.good("hooks/bot.sh") == NEW


async def test_a_damaged_ledger_of_before_leaves_the_generation_before_it_and_then_gits_head(
    before, processes
):
    (before.old / "ledger").rename(before.old / "ledger.previous")
    (before.old / "ledger").write_text("garbage")
    (before.root / "hooks" / "bot.sh").write_text("by hand")
    ledger, (said,) = await start(before, processes)
    assert "was taken over" in said
    assert ledger.good("hooks/bot.sh") == NEW


async def test_a_ledger_of_before_that_cannot_be_read_at_all_leaves_gits_head(before, processes):
    (before.old / "ledger").write_text("garbage")
    (before.root / "hooks" / "bot.sh").write_text("by hand")
    ledger, (said,) = await start(before, processes)
    assert "git's HEAD" in said
    assert [(one.path, one.kind) for one in ledger.check()] == [("hooks/bot.sh", "changed")]
