"""`instar evolve pending`, `approve` and `reject`: a person decides on what would reach more."""

import contextlib
import sqlite3

import pytest


@pytest.mark.slow
def test_what_would_reach_more_waits_with_its_diff_until_a_person_approves_it(hand):
    asked = hand.ask_for_more()
    assert '"permission"' in hand.bot
    listed = hand("pending").stdout
    assert f"{asked}  " in listed
    assert "waiting  hooks/bot.sh: " in listed
    shown = hand("pending", asked).stdout
    assert "it would reach more:" in shown
    assert (
        '+{"tools": [{"name": "greet", "description": "Greets.", "parameters": {"who": "Whom."}}]}' in shown
    )
    assert "Hello" in shown.partition("test:")[2]
    done = hand("approve", asked).stdout
    assert done.startswith("installed hooks/bot.sh (epoch 2, commit ")
    assert "hooks/bot.sh is on probation: " in done
    assert '"permission"' not in hand.bot
    assert hand("pending").stdout == "nothing waits\n"
    told = hand("log").stdout
    assert "approved: hooks/bot.sh" in told
    assert "person  @2 installed: evolve_hook_edit bot.sh" in told


@pytest.mark.slow
def test_what_was_approved_is_judged_once_more_and_refused_if_it_no_longer_passes(hand):
    asked = hand.ask_for_more()
    hand.write("tests/bot_test.sh", "#!/bin/sh\necho today it fails; exit 1\n")
    hand("accept", "--yes")
    refused = hand("approve", asked, code=1).stderr
    assert "today it fails" in refused
    assert '"permission"' in hand.bot


@pytest.mark.slow
def test_what_was_rejected_does_not_wait_and_just_this_is_not_asked_again(hand):
    asked = hand.ask_for_more()
    assert f"rejected {asked}" in hand("reject", asked, "--reason", "I want to be asked").stdout
    assert hand("pending").stdout == "nothing waits\n"
    assert "rejected  hooks/bot.sh" in hand("pending", "--all").stdout
    assert "rejected: hooks/bot.sh" in hand("log").stdout
    assert "I want to be asked" in hand("log").stdout
    with pytest.raises(Exception, match="a person has rejected just this"):
        hand.edit(', "permission": {"arg": "who"}', "")


@pytest.mark.parametrize("command", ["approve", "reject", "pending"])
def test_an_id_of_nothing_is_one_line_and_runs_nothing(hand, command):
    said = hand(command, "01234567", code=1)
    assert said.stderr.count("\n") == 1
    assert "nothing waits under the id '01234567'" in said.stderr
    assert not (hand.root / ".git").exists()


@pytest.mark.slow
def test_the_commands_print_structs_as_json(hand):
    asked = hand.ask_for_more()
    assert [one["id"] for one in hand.json("pending")["entries"]] == [asked]
    assert hand.json("pending", asked)["proposal"]["file"] == "hooks/bot.sh"
    (waits,) = hand.json("status")["waiting"]
    assert (waits["id"], waits["file"]) == (asked, "hooks/bot.sh")
    assert waits["raised"]
    made = hand.json("approve", asked)
    assert (made["files"], made["epoch"], made["problem"]) == (["hooks/bot.sh"], 2, "")
    assert made["commit"]


@pytest.mark.slow
def test_a_rejection_as_json_names_the_change_and_its_file(hand):
    asked = hand.ask_for_more()
    assert hand.json("reject", asked) == {"id": asked, "file": "hooks/bot.sh"}


ORDERS = [
    ["approve", "ID"],
    ["reject", "ID"],
    ["accept", "--yes"],
    ["restore", "--yes"],
    ["rollback"],
    ["pin", "hooks/bot.sh"],
    ["unpin", "prompts/chat.md"],
    ["freeze"],
    ["thaw"],
]


@pytest.fixture
def restless(hand):
    """Something for each order: a change that waits, one to take back, a pin, a file that departed, a freeze."""
    hand.edit("Hello!", "Hello, you!")
    hand.asked = hand.ask_for_more()
    hand("pin", "prompts/chat.md")
    hand.write("hooks/mine.sh", "#!/bin/sh\n")
    hand("freeze")
    return hand


def books(hand):
    """All that instar keeps, but for the lock files of a moment; of its databases what they hold."""
    kept = hand.folder / "data" / "plugin"
    return {
        path: held(path)
        for path in sorted(hand.folder.rglob("*"))
        if path.is_file() and (path.is_relative_to(hand.root) or path.is_relative_to(kept))
        if not path.name.endswith(("-wal", "-shm"))
    }


def held(path):
    data = path.read_bytes()
    if not data.startswith(b"SQLite format 3"):
        return data
    # Whoever closes it last writes its log into the file.
    with contextlib.closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order[0])
def test_an_order_is_not_taken_from_a_program_that_instar_started(restless, order):
    before = books(restless)
    said = restless(*(restless.asked if word == "ID" else word for word in order), code=1, INSTAR_RUN="x")
    assert said.stderr == (
        f"instar: instar evolve {order[0]} is a person's: it is not done for a program that instar started. "
        "Type it in a terminal of your own\n"
    )
    assert books(restless) == before


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order[0])
def test_an_order_from_behind_the_shield_changes_nothing_and_says_so(restless, order):
    words = [restless.asked if word == "ID" else word for word in order]
    before = books(restless)
    done = restless.behind_the_shield("evolve", "--workspace", str(restless.root), *words)
    assert done.code != 0, done
    said = done.stderr.decode()
    assert said.startswith("instar: ")
    assert said.count("\n") <= 2
    assert books(restless) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", [["rollback"], ["accept", "--yes"], ["restore", "--yes"], ["pin", "hooks"]], ids=str
)
def test_another_data_folder_behind_the_shield_reaches_nothing_of_the_workspace(restless, order):
    before = books(restless)
    words = ["evolve", "--workspace", str(restless.root), *order]
    restless.behind_the_shield(*words, INSTAR_DATA=str(restless.folder / "other"))
    assert books(restless) == before
