"""`instar evolve attempts` and `again`: what was tried at a file and is not live, and that it may be tried again."""

import pytest

from instar.plugins.evolve.candidate import CandidateRefused


def refused(hand, new: str = "Bye!") -> str:
    with pytest.raises(CandidateRefused) as raised:
        hand.edit("Hello!", new)
    return str(raised.value)


@pytest.mark.slow
def test_what_was_refused_is_listed_and_a_person_lets_it_be_tried_again(hand):
    hand("status")
    assert hand("attempts", "hooks/bot.sh").stdout == "nothing was tried at hooks/bot.sh that is not live\n"
    first = refused(hand)
    assert refused(hand, "Ciao!").startswith("its test")
    assert "just this was refused before, at the stage test" in refused(hand)
    newest, oldest = hand("attempts", "hooks/bot.sh").stdout.splitlines()
    assert (
        "  refused at test: its test tests/bot_test.sh failed: exit code 1 it must say Hello  changed: "
        in newest
    )
    assert "Ciao!" in newest
    assert "  refused at test (proposed 1 more time): " in oldest
    assert hand("attempts", "hooks/bot.sh", "-n", "1").stdout == newest + "\n"
    told = hand.json("attempts", "hooks/bot.sh")
    assert [(one["outcome"], one["stage"], one.get("repeated", 0)) for one in told] == [
        ("refused", "test", 0),
        ("refused", "test", 1),
    ]
    assert told[1]["changed"][1] == '+execute_tool) echo \'{"result": "Bye!"}\' ;;'
    assert hand("again", "hooks/bot.sh").stdout == "2 refused candidates of hooks/bot.sh may be tried again\n"
    assert refused(hand) == first
    assert "again: hooks/bot.sh" in hand("log").stdout


@pytest.mark.slow
def test_what_a_person_rejected_or_took_back_is_listed_and_what_they_approved_is_not(hand):
    asked = hand.ask_for_more()
    assert "  waits: it waits for a person as " in hand("attempts", "hooks/bot.sh").stdout
    hand("reject", asked, "--reason", "I want to be asked")
    assert f"  rejected: {asked} by " in hand("attempts", "hooks/bot.sh").stdout
    assert "I want to be asked" in hand("attempts", "hooks/bot.sh").stdout
    hand.edit("Hello!", "Hello there!")
    assert hand("attempts", "hooks/bot.sh").stdout.count("\n") == 1
    hand("rollback")
    newest, _ = hand("attempts", "hooks/bot.sh").stdout.splitlines()
    assert "  taken back: " in newest
    assert "Hello there!" in newest
    hand("approve", hand.ask_for_more(', "parameters": {"who": "Whom."}, "permission": {"arg": "who"}'))
    assert hand("attempts", "hooks/bot.sh").stdout.count("\n") == 2


@pytest.mark.slow
def test_a_candidate_that_a_person_takes_through_the_gate_by_hand_is_always_tried(hand):
    said = refused(hand)
    new = hand.folder / "bot.sh"
    new.write_text(hand.bot.replace("Hello!", "Bye!"))
    assert said.partition("\n")[0] in hand("validate", new, code=1).stderr


def test_only_a_person_lets_something_be_tried_again(hand):
    done = hand("again", "hooks/bot.sh", code=1, INSTAR_RUN="1")
    assert "instar evolve again is a person's" in done.stderr
