"""How versions are held: what the book of grants keeps, and what a live script may not take back."""

from hashlib import sha256
from pathlib import Path

import pytest
from tests.plugins.evolve.living import bot, discover, living, workspace

from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.database import Database
from instar.plugins.evolve.gate.authority import Authority
from instar.plugins.evolve.gate.pending import Proposal
from instar.plugins.evolve.grants import GrantedVersion, ScriptGrants
from instar.plugins.evolve.install import ChangeCause
from instar.settings.accepted import blob_id

OWN = Authority("unbounded", actions=None)
SHIELD = Authority("shield")
TRIED = "test -d .git"
"""Fails in a trial, whose copy has no repository."""
SANDBOXED = discover(sandbox={"write": ["state"]})


@pytest.fixture
def grants(tmp_path: Path) -> ScriptGrants:
    return ScriptGrants(Database(tmp_path, durable=False))


def test_a_script_is_a_persons_until_a_version_of_the_agents_has_gone_live(grants):
    grants.expect("bot.sh", "its", GrantedVersion(SHIELD), "mine", OWN)
    assert grants.held("bot.sh", "mine") is None
    assert grants.held("bot.sh", "its").manifest.write == {"traits", "notes", "state"}
    grants.settle("bot.sh", SHIELD)
    assert grants.held("bot.sh", "mine") == GrantedVersion(SHIELD)
    assert grants.held("other.sh", "mine") is None


@pytest.mark.slow
def test_of_many_versions_the_newest_are_known_and_an_older_one_is_held_by_what_is_granted(grants):
    for number in range(230):
        grants.expect("bot.sh", f"v{number}", GrantedVersion(SHIELD, name=f"v{number}"), "mine", OWN)
    grants.settle("bot.sh", SHIELD)
    known = grants.of("bot.sh").versions
    assert list(known) == [f"v{number}" for number in range(30, 230)]
    assert grants.held("bot.sh", "v30").name == "v30"
    assert grants.held("bot.sh", "v29") == GrantedVersion(SHIELD)


@pytest.mark.slow
async def test_a_script_that_is_taken_back_to_its_persons_version_may_be_changed_without_a_sandbox_again(
    tmp_path,
):
    root = workspace(tmp_path / "ws")
    async with living(root) as live:
        await live.write(bot("# one", discover=SANDBOXED))
        await live.write(bot("# two", discover=SANDBOXED))
        assert "It waits for a person as" in await live.refused(bot("# free"))
        for change in ("HEAD", "HEAD~2"):
            await live.engine.rollback.roll_back(change, ChangeCause(by="person"))
        assert (root / "hooks" / "bot.sh").read_text() == bot()
        await live.write(bot("# free"))


@pytest.mark.slow
async def test_a_live_script_of_the_agents_cannot_take_the_name_that_it_had_not_in_its_trial(tmp_path):
    root = workspace(tmp_path / "ws")
    faces = f"if {TRIED}; then\n{discover(name='admin')}\nelse\n{discover()}\nfi"
    async with living(root) as live:
        await live.write(bot(discover=faces))
        await live.step()
        assert not [name for name in live.hooks["tool"] if name.startswith("admin")]
        assert any("it was tried as 'bot' and registers 'admin'" in one for one in live.problems)


@pytest.mark.slow
async def test_a_tool_that_asked_and_was_not_there_in_the_trial_does_not_come_back_live_asking_nothing(
    tmp_path,
):
    asking = [{"name": "greet", "parameters": {"who": "x"}, "permission": {"arg": "who"}}]
    silent, other = [{"name": "greet", "parameters": {"who": "x"}}], [{"name": "wave"}]
    root = workspace(tmp_path / "ws", bot(discover=discover(tools=asking)))
    faces = f"if {TRIED}; then\n{discover(tools=[*other, *silent])}\nelse\n{discover(tools=other)}\nfi"
    async with living(root) as live:
        await live.write(bot(discover=faces))
        await live.step()
        assert "bot_wave" in live.hooks["tool"]
        assert "bot_greet" not in live.hooks["tool"]
        assert any("bot_greet is left out: it does not ask about who" in one for one in live.problems)


@pytest.mark.parametrize(("sandbox", "tried"), [("require", False), ("auto", True)])
async def test_where_the_settings_require_a_sandbox_a_machine_without_one_tries_nothing(
    tmp_path, sandbox, tried
):
    root = workspace(tmp_path / "ws")
    async with living(root, level="none", config={"unsafe": True, "sandbox": sandbox}) as live:
        if tried:
            await live.engine.evolution.validate("hooks/bot.sh", bot(f"touch {tmp_path}/ran"))
        else:
            with pytest.raises(CandidateRefused, match=r"no sandbox|shield"):
                await live.engine.evolution.validate("hooks/bot.sh", bot(f"touch {tmp_path}/ran"))
    assert (tmp_path / "ran").exists() == tried


async def test_versions_that_an_instar_before_named_by_sha256_are_named_as_git_does(tmp_path):
    root = workspace(tmp_path / "ws")
    own, sha = blob_id(bot().encode()), sha256(bot().encode()).hexdigest()
    async with living(root) as live:
        storage = live.engine.storage
        storage.grants.expect("bot.sh", "its", GrantedVersion(SHIELD), sha, OWN)
        proposal = Proposal("hooks/bot.sh", sha, "new", ("it would write notes",))
        waits = storage.pending.put(proposal).id
        storage.keep("probation", {"files": {"hooks/bot.sh": {"kept": sha}}})
        storage.database.change(
            lambda connection: connection.execute("DELETE FROM note WHERE name = 'versions'")
        )
    async with living(root) as live:
        storage = live.engine.storage
        assert storage.grants.of("bot.sh").own == own
        assert storage.pending.get(waits).stale(own) is None
        assert storage.note("probation")["files"]["hooks/bot.sh"]["kept"] == own
