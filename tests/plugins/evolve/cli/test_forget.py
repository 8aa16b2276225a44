"""`instar evolve unused` and `forget`: what nothing speaks for is proposed for removal; a person decides."""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instar.plugin import PromptBody, SessionBody
from instar.plugins.evolve.database import FILE, Database
from instar.plugins.evolve.gate.pending import Pending, PendingEntry
from instar.plugins.evolve.install import ChangeCause
from instar.plugins.evolve.trial import TrialFile
from instar.runtime import Options, Runtime

OLD = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "old", "test": "old_test.sh", "tools": [{"name": "dig", "description": "Digs."}]}' ;;
execute_tool) echo '{"result": "dug"}' ;;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""
SAY = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "say"}' ;;
mutate_request) if grep -q "Be kind"; then echo '{"system": ["kind"]}'; fi ;;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""
OLD_TEST = "#!/bin/sh\necho '{}' | hooks/old.sh execute_tool | grep dug\n"
CAUSE = ChangeCause(tool="evolve_hook_write", session="ses_1", call="call_1", agent="build")
QUIET = '== when ""\ntext: done\n'
DIG = "== turn\ntool: old_dig {}\n== turn\ntext: done\n"


class Days:
    """The machine's clock, which a test moves on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._ahead = 0.0
        now, now_ns = time.time, time.time_ns
        monkeypatch.setattr(time, "time", lambda: now() + self._ahead)
        monkeypatch.setattr(time, "time_ns", lambda: now_ns() + round(self._ahead * 1e9))

    def later(self, days: float) -> None:
        """Let days go by."""
        self._ahead += days * 86_400


@pytest.fixture
def days(monkeypatch: pytest.MonkeyPatch) -> Days:
    return Days(monkeypatch)


@pytest.fixture
def talk(hand: Any, tmp_path: Path) -> Callable[..., None]:
    """Have sessions with a scripted model; `until` is waited for before instar ends."""
    project, story = tmp_path / "project", tmp_path / "story.txt"
    project.mkdir()

    async def one(text: str, until: Callable[[], bool], summarise: bool) -> None:
        story.write_text(text)
        flags = {"model": "scripted/x", "workspace": str(hand.root)}
        runtime = await Runtime.open(
            Options(project, {**hand.environment, "INSTAR_SCRIPT": str(story)}, flags)
        )
        session = await runtime.session.create(SessionBody(title="t"))
        await runtime.session.prompt(session.id, PromptBody.text("hi"))
        if summarise:
            await runtime.session.summarize(session.id)
        async with asyncio.timeout(30):
            while not until():
                await asyncio.sleep(0.05)
        await runtime.close()

    return lambda text=QUIET, until=lambda: True, summarise=False: asyncio.run(one(text, until, summarise))


def settings(hand: Any, **evolve: Any) -> None:
    file = Path(hand.environment["XDG_CONFIG_HOME"]) / "instar" / "instar.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"evolve": evolve}))


def waiting(hand: Any) -> list[PendingEntry]:
    """What waits, read beside an instar that runs."""
    (file,) = Path(hand.environment["INSTAR_DATA"]).rglob(FILE)
    with contextlib.closing(Database(file.parent)) as database:
        return Pending(database).list().entries


def make_old(hand: Any) -> None:
    """Let the agent make a script with a tool and its test."""
    settings(hand, create="allow")
    also = {"tests/old_test.sh": TrialFile(OLD_TEST.encode(), 0o755)}
    hand.play(lambda engine: engine.evolution.change("hooks/old.sh", lambda _: OLD, CAUSE, also=also))


def work(talk: Callable[..., None], days: Days) -> None:
    """Let 33 days go by, with work on the last three."""
    days.later(30)
    for _ in range(3):
        days.later(1)
        talk()


@pytest.mark.slow
def test_a_script_that_is_not_used_is_proposed_for_removal_and_gone_once_a_person_agrees(hand, talk, days):
    make_old(hand)
    talk(DIG)
    assert hand("unused").stdout == "nothing is due\n"
    work(talk, days)
    told = hand("unused").stdout
    assert "hooks/old.sh" in told
    assert "why: it was not used for 30 days (last on 2" in told
    assert "execute_tool dig" in told
    assert "hooks/bot.sh" not in told
    assert "hooks/old.sh: it waits for a person as " in hand("forget").stdout
    (waits,) = hand.json("pending")["entries"]
    assert f"waits as {waits['id']}" in hand("unused").stdout
    assert hand("forget").stdout == "nothing is due\n"
    shown = hand("pending", waits["id"]).stdout
    assert "it would take back" in shown
    assert "-#!/bin/sh" in shown
    assert "tests/bot_test.sh" not in shown.partition("diff:")[2].partition("test:")[0]
    done = hand("approve", waits["id"]).stdout
    assert done.startswith("took back hooks/old.sh, tests/old_test.sh (epoch 3, commit ")
    assert not (hand.root / "hooks/old.sh").exists()
    assert not (hand.root / "tests/old_test.sh").exists()
    assert hand("pending").stdout == hand("pending", "--all").stdout == "nothing waits\n"
    assert hand("unused").stdout == "nothing is due\n"


@pytest.mark.slow
def test_once_a_day_a_session_proposes_it_by_itself(hand, talk, days):
    make_old(hand)
    talk(DIG)
    work(talk, days)
    days.later(1)
    talk(until=lambda: bool(waiting(hand)))
    (waits,) = waiting(hand)
    assert waits.proposal.file == "hooks/old.sh"
    assert "its removal (it was not used for 30 days" in hand("log").stdout


@pytest.mark.slow
def test_what_a_person_wrote_comes_back_as_they_left_it(hand, talk, days):
    hand.write("hooks/old.sh", OLD)
    hand.write("tests/old_test.sh", OLD_TEST)
    hand.edit("Digs.", "Digs deep.", "hooks/old.sh")
    hand.edit("dug", "dug deep", "hooks/old.sh")
    talk(DIG)
    work(talk, days)
    (row,) = hand.json("unused")["files"]
    assert [len(row["changes"]), row["used"], row["agent"]] == [2, 0, True]
    (made,) = hand.json("forget")
    hand("approve", made["id"])
    assert (hand.root / "hooks/old.sh").read_text() == OLD
    assert (hand.root / "tests/old_test.sh").exists()
    rows = {one["file"]: one for one in hand.json("unused", "--all")["files"]}
    assert [one["agent"] for one in rows.values()] == [False] * 3
    assert "yours" in hand("unused", "--all").stdout


@pytest.mark.slow
def test_what_the_gate_misses_stays_and_is_not_proposed_again_for_a_half_life(hand, talk, days):
    make_old(hand)
    hand.write("tests/bot_test.sh", OLD_TEST)
    hand("accept", "--yes")
    talk(DIG)
    work(talk, days)
    assert "the gate refused it at test: " in hand("forget", code=1).stdout
    assert hand("pending").stdout == "nothing waits\n"
    assert "the gate refused it (test); it is not proposed until " in hand("unused").stdout
    assert hand("forget").stdout == "nothing is due\n"
    days.later(28)
    work(talk, days)
    assert "the gate refused it at test: " in hand("forget", code=1).stdout


@pytest.mark.slow
def test_what_a_person_rejects_is_not_proposed_again_for_a_half_life(hand, talk, days):
    make_old(hand)
    talk(DIG)
    work(talk, days)
    (first,) = hand.json("forget")
    hand("reject", first["id"])
    assert "a person rejected it; it is not proposed until " in hand("unused").stdout
    assert hand("forget").stdout == "nothing is due\n"
    days.later(28)
    work(talk, days)
    (second,) = hand.json("forget")
    assert second["id"] not in ("", first["id"])
    assert [one["id"] for one in hand.json("pending", "--all")["entries"]] == [second["id"]]


@pytest.mark.slow
def test_a_change_is_due_at_once_when_the_eval_that_measured_it_is_gone(hand):
    hand.write("evals/brief", "#!/bin/sh\ngrep -c brief prompts/chat.md\n")
    hand.edit("Be brief.", "Be brief.\nAlways be brief.", "prompts/chat.md")
    assert "evidence: eval brief: 1 to 2" in hand("show").stdout
    assert hand("unused").stdout == "nothing is due\n"
    (hand.root / "evals/brief").unlink()
    hand("accept", "--yes")
    assert "what it was accepted for is gone: eval brief" in hand("unused").stdout
    (made,) = hand.json("forget")
    hand("approve", made["id"])
    assert (hand.root / "prompts/chat.md").read_text() == "Be brief.\n"


@pytest.mark.slow
def test_what_was_taken_back_is_no_change_that_could_be_due(hand):
    hand.edit("Be brief.", "Be kind.", "prompts/chat.md")
    hand.edit("Be kind.", "Be kind and brief.", "prompts/chat.md")
    hand("rollback")
    (row,) = [one for one in hand.json("unused", "--all")["files"] if one["agent"]]
    assert (row["file"], [one["epoch"] for one in row["changes"]]) == ("prompts/chat.md", [2])
    hand("rollback", "@2")
    assert not [one for one in hand.json("unused", "--all")["files"] if one["agent"]]


@pytest.mark.slow
def test_a_person_may_ask_for_a_removal_and_the_file_may_change_until_they_agree(hand):
    hand.edit("Be brief.", "Be kind.", "prompts/chat.md")
    (made,) = hand.json("forget", "prompts/chat.md")
    assert made["text"].endswith("a person asked for it")
    hand.edit("Be kind.", "Be kind and brief.", "prompts/chat.md")
    assert "is out of date: prompts/chat.md changed since" in hand("approve", made["id"], code=1).stderr
    assert (hand.root / "prompts/chat.md").read_text() == "Be kind and brief.\n"


@pytest.mark.slow
def test_a_test_that_a_person_changed_since_is_not_taken_away(hand):
    make_old(hand)
    hand.write("tests/old_test.sh", f"{OLD_TEST}# mine\n")
    hand("accept", "--yes")
    assert "a person changed tests/old_test.sh since" in hand("forget", "hooks/old.sh", code=1).stdout
    assert (hand.root / "hooks/old.sh").exists()


@pytest.mark.slow
def test_what_may_not_change_is_not_proposed_and_what_is_yours_neither(hand):
    hand.edit("Be brief.", "Be kind.", "prompts/chat.md")
    hand("pin", "prompts/chat.md")
    assert "it is pinned by " in hand("forget", "prompts/chat.md", code=1).stdout
    said = hand("forget", "hooks/bot.sh", code=1).stderr
    assert (
        said
        == "instar: nothing of hooks/bot.sh is the agent's: what is yours you delete and accept yourself\n"
    )


@pytest.mark.slow
def test_nothing_is_due_where_a_person_switched_it_off(hand, talk, days):
    make_old(hand)
    settings(hand, create="allow", forget_days=0, half_life_days=0)
    talk(DIG)
    work(talk, days)
    assert hand("unused").stdout == "nothing is due\n"
    assert "hooks/old.sh" in hand("unused", "--days", "20").stdout


@pytest.mark.slow
def test_a_prompt_that_no_script_asks_for_counts_as_used_where_it_is_read(hand, talk):
    hand.write("prompts/compaction.md", "Say it in one line.\n", 0o644)
    talk()
    rows = {one["file"]: one for one in hand.json("unused", "--all")["files"]}
    assert (rows["prompts/compaction.md"]["used"], rows["prompts/chat.md"]["used"]) == (0, 1)
    talk(summarise=True)
    rows = {one["file"]: one for one in hand.json("unused", "--all")["files"]}
    assert (rows["prompts/compaction.md"]["used"], rows["prompts/chat.md"]["used"]) == (1, 2)


@pytest.mark.slow
def test_calls_of_today_keep_a_prompt_in_the_gate_and_old_ones_do_not(hand, talk, days):
    hand.write("hooks/say.sh", SAY)
    hand.write("prompts/chat.md", "", 0o644)
    hand.play(lambda engine: engine.evolution.change("prompts/chat.md", lambda _: "Be kind.\n", CAUSE))
    talk()
    assert "the gate refused it at replay: " in hand("forget", "prompts/chat.md", code=1).stdout
    days.later(31)
    assert "it waits for a person as " in hand("forget", "prompts/chat.md").stdout


@pytest.mark.slow
def test_a_workspace_that_workers_share_is_not_looked_at_by_itself(hand, talk, days):
    make_old(hand)
    talk(DIG)
    work(talk, days)
    settings(hand, remote=str(hand.folder / "none.git"))
    hand.play(lambda engine: engine.forgetting.daily())
    assert not waiting(hand)
    settings(hand)
    hand.play(lambda engine: engine.forgetting.daily())
    assert len(waiting(hand)) == 1
