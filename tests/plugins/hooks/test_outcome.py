"""`combine`: the law of several outcomes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plugins.hooks.making import rule

from instar.plugins.hooks.outcome import SEVERITY, RuleOutcome, combine, settle, undecided

texts = st.text(max_size=5)
outcomes = st.builds(
    RuleOutcome,
    action=st.sampled_from(list(SEVERITY)),
    reason=texts,
    updated_input=st.none() | st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), max_size=3),
    contexts=st.lists(texts, max_size=2).map(tuple),
    messages=st.lists(texts, max_size=2).map(tuple),
    stop=st.booleans(),
    stop_reason=texts,
)
lists = st.lists(outcomes, max_size=6)


def severity(found):
    return SEVERITY[combine(found).action]


@pytest.mark.slow
@given(lists, st.randoms(use_true_random=False))
def test_the_action_and_the_stop_do_not_depend_on_the_order(found, random):
    shuffled = list(found)
    random.shuffle(shuffled)
    assert (combine(shuffled).action, combine(shuffled).stop) == (combine(found).action, combine(found).stop)


@pytest.mark.slow
@given(lists, outcomes, st.integers(0, 6))
def test_one_outcome_more_never_loosens(found, more, at):
    assert severity([*found[:at], more, *found[at:]]) >= severity(found)
    assert combine([*found, more]).stop >= combine(found).stop


@pytest.mark.slow
@given(lists)
def test_nothing_that_one_rule_denies_is_allowed_or_rewritten(found):
    decision = combine(found, {"a": 0})
    if any(one.action == "deny" or one.stop for one in found):
        assert (decision.action, decision.updated_input) == ("deny", None)


@pytest.mark.slow
@given(lists, lists)
def test_contexts_and_messages_join_in_order(first, second):
    together, one, two = combine([*first, *second]), combine(first), combine(second)
    assert together.contexts == one.contexts + two.contexts
    assert together.messages == one.messages + two.messages


@pytest.mark.slow
@given(st.lists(outcomes.filter(lambda one: one.action != "deny" and not one.stop), max_size=4))
def test_the_reasons_are_those_of_the_most_severe(found):
    decision = combine(found)
    assert set(decision.reasons) == {
        one.reason for one in found if one.action == decision.action and one.reason
    }


def test_rewrites_of_two_rules_join_key_by_key_and_the_later_wins():
    start = {"command": "ls", "timeout": 5, "workdir": "."}
    first = RuleOutcome(updated_input={**start, "command": "ls -a"})
    second = RuleOutcome(updated_input={**start, "timeout": 9})
    third = RuleOutcome(updated_input={"command": "ls -l", "timeout": 5})
    assert combine([first, second], start).updated_input == {"command": "ls -a", "timeout": 9, "workdir": "."}
    assert combine([first, third], start).updated_input == {"command": "ls -l", "timeout": 5}
    assert combine([first], start).updated_input == {**start, "command": "ls -a"}
    assert start == {"command": "ls", "timeout": 5, "workdir": "."}


def test_a_rewrite_to_an_equal_value_of_another_type_counts():
    assert combine([RuleOutcome(updated_input={"all": 1})], {"all": True}).updated_input == {"all": 1}
    found = combine([RuleOutcome(updated_input={"all": 1})], {"all": True}).updated_input
    assert found is not None
    assert found["all"] is not True


def test_no_rules_decide_nothing():
    assert combine([]).action == "none"
    assert combine([], {"a": 1}).updated_input is None


def test_what_ran_in_doubt_neither_allows_nor_rewrites_but_refuses():
    one = rule()
    allowed = settle(RuleOutcome(action="allow", updated_input={"a": 1}, contexts=("c",)), one, doubt=True)
    assert (allowed.action, allowed.updated_input, allowed.contexts) == ("none", None, ("c",))
    for action in ("ask", "deny"):
        assert settle(RuleOutcome(action=action), one, doubt=True).action == action


def test_settling_keeps_that_it_was_undecided_and_why():
    for said in ("allow", "deny"):
        one = rule("Stop", evaluator="agent", on_error=said)
        found = settle(undecided("no model answers"), one)
        assert (found.undecided, found.error) == (True, "no model answers")
        assert found.action == ("deny" if said == "deny" else "none")


def test_a_refusal_without_a_reason_names_its_rule():
    assert (
        settle(RuleOutcome(action="deny"), rule(name="guard")).reason
        == "Refused by the hook guard (hooks.json)."
    )
