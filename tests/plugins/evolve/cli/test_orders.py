"""`instar evolve rollback`, `pin`, `unpin`, `pins`, `freeze` and `thaw`: what a person orders holds."""

import json

import pytest

from instar.plugins.evolve.install import NotChanged


@pytest.mark.slow
def test_a_rollback_takes_the_newest_change_back_by_a_new_commit(hand):
    before = hand.bot
    hand.edit("Hello!", "Hello, you!")
    commits = hand.json("log")["changes"]
    done = hand("rollback").stdout
    assert done.startswith("rolled back hooks/bot.sh (epoch 3, commit ")
    assert hand.bot == before
    after = hand.json("log")["changes"]
    assert [one["commit"] for one in after[1:]] == [one["commit"] for one in commits]
    assert (after[0]["by"], after[0]["rolls_back"]) == ("person", commits[0]["commit"])
    assert "rolled back by:" in hand("show", "@2").stdout


@pytest.mark.slow
def test_a_rollback_of_an_older_change_leaves_later_ones_of_other_files(hand):
    hand.edit("Hello!", "Hello, you!")
    hand.edit("Be brief.", "Be kind.", path="prompts/chat.md")
    assert hand.json("rollback", "@2")["files"] == ["hooks/bot.sh"]
    assert "Hello!" in hand.bot
    assert (hand.root / "prompts" / "chat.md").read_text() == "Be kind.\n"


@pytest.mark.slow
def test_a_rollback_where_the_agent_changed_nothing_is_refused(hand):
    hand.play(lambda engine: engine.history.prepare())
    assert "there is no change of the agent's to take back" in hand("rollback", code=1).stderr


@pytest.mark.slow
def test_a_pinned_file_is_the_agents_to_change_only_when_it_is_unpinned(hand):
    assert hand("pin", "hooks/bot.sh").stdout == "pinned hooks/bot.sh\n"
    assert hand("pins").stdout.startswith("hooks/bot.sh  (pinned by ")
    with pytest.raises(NotChanged, match="it is pinned by"):
        hand.edit("Hello!", "Hello, you!")
    assert hand("unpin", "hooks/bot.sh").stdout == "unpinned hooks/bot.sh\n"
    assert hand("pins").stdout == "nothing is pinned\n"
    hand.edit("Hello!", "Hello, you!")
    told = hand("log").stdout
    assert "pinned: hooks/bot.sh" in told
    assert "unpinned: hooks/bot.sh" in told


@pytest.mark.slow
def test_a_folder_is_pinned_with_all_in_it_and_a_file_need_not_be_there(hand):
    hand("pin", "prompts")
    assert "unpin that" in hand("unpin", "prompts/chat.md", code=1).stderr
    assert hand("pin", "hooks/later.sh").stdout == "pinned hooks/later.sh (there is no such file yet)\n"
    assert [one["file"] for one in hand.json("pins")] == ["prompts", "hooks/later.sh"]
    assert "prompts/recover.md is not pinned" in hand("unpin", "prompts/recover.md", code=1).stderr.replace(
        "is pinned with all that is in prompts: unpin that", "is not pinned"
    )


def test_a_file_may_be_named_from_the_folder_that_the_person_is_in(hand):
    done = hand.instar("evolve", "--workspace", hand.root, "pin", "ws/hooks/bot.sh", "--json")
    assert json.loads(done.stdout)["file"] == "hooks/bot.sh"
    done = hand.instar("evolve", "--workspace", hand.root, "pin", "../elsewhere.sh")
    assert done.returncode == 1
    assert done.stderr == (
        "instar: '../elsewhere.sh' is no path in the workspace: name one as it stands there, such as hooks/bot.py\n"
    )


def test_a_pin_of_the_settings_is_taken_away_there(hand):
    settings = hand.folder / "home" / ".config" / "instar" / "instar.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"evolve": {"pins": ["hooks/bot.sh"]}}')
    assert hand("pins").stdout == "hooks/bot.sh  (pinned by settings)\n"
    assert "pinned by the settings" in hand("unpin", "hooks/bot.sh", code=1).stderr


@pytest.mark.slow
def test_while_it_is_frozen_nothing_is_changed_and_a_thaw_ends_that(hand):
    frozen = hand("freeze", "--reason", "I am on holiday").stdout
    assert frozen == "changes are frozen: I am on holiday; a person can end it with: instar evolve thaw\n"
    with pytest.raises(NotChanged, match="I am on holiday"):
        hand.edit("Hello!", "Hello, you!")
    shown = hand.json("status")
    assert "I am on holiday" in shown["frozen"]
    assert shown["frozen"] in shown["problems"]
    assert hand("thaw").stdout == "thawed\n"
    assert hand.json("status")["frozen"] == ""
    hand.edit("Hello!", "Hello, you!")
    told = hand("log").stdout
    assert "frozen: I am on holiday" in told
    assert "thawed" in told


def test_a_thaw_says_what_still_freezes(hand):
    settings = hand.folder / "home" / ".config" / "instar" / "instar.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"evolve": {"frozen": true}}')
    assert '"frozen": true' in hand.json("thaw")["why"]
    assert hand("thaw").stdout.startswith("thawed, but changes are frozen by ")


@pytest.mark.slow
def test_a_person_may_roll_back_what_is_pinned_and_frozen(hand):
    hand.edit("Hello!", "Hello, you!")
    hand("pin", "hooks/bot.sh")
    hand("freeze")
    hand("rollback")
    assert "Hello!" in hand.bot
