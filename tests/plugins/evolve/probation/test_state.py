"""A version that was installed is watched: what keeps it, and what takes it back."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugins.evolve.probation import prediction
from instar.plugins.evolve.probation.prediction import CallEnd, Kind
from instar.plugins.evolve.probation.state import (
    Probation,
    ProbationLimits,
    ProbationPassed,
    RollBack,
    Verdict,
    called,
    describe,
    installed,
    owed,
    passed,
    placed,
    removed,
    rolled_back,
)

FILE = "hooks/x.py"
FINE = CallEnd("idle", None, 5, {"continue": "on"})
MINUTE = 60_000


def bad(kind: Kind = "crash", hook: str = "idle") -> CallEnd:
    return CallEnd(hook, kind, 5, why=f"ended with {kind}")


class Watch:
    """A workspace's probation as its owner keeps it: saved and read again after each step."""

    def __init__(self, **limits: int) -> None:
        self.limits = ProbationLimits(**limits)
        self.state = Probation()
        self.verdicts: list[Verdict] = []

    def install(self, before: str, version: str, expect: Any = None, file: str = FILE, now: int = 0) -> None:
        parsed = None if expect is None else prediction.parse(expect)
        self.keep(installed(self.state, file, before, version, now, parsed))

    def call(self, version: str, *calls: CallEnd, file: str = FILE, now: int = 0) -> list[Verdict]:
        given = []
        for one in calls:
            state, verdict = called(self.state, file, version, one, now, self.limits)
            given += [verdict] if verdict else []
            self.keep(state)
        self.verdicts += given
        return given

    def keep(self, state: Probation) -> None:
        self.state = msgspec.json.decode(msgspec.json.encode(state), type=Probation)


@pytest.fixture
def watch() -> Watch:
    found = Watch()
    found.call("v1", *[FINE] * 10)
    found.install("v1", "v2")
    return found


def test_a_version_that_does_well_is_kept_after_its_fiftieth_call(watch: Watch) -> None:
    assert watch.call("v2", *[FINE] * 49) == []
    assert watch.call("v2", FINE) == [
        ProbationPassed(FILE, "v2", "kept after 50 calls, of which 0 failed anew")
    ]
    assert describe(watch.state, FILE, 0, watch.limits) is None
    assert watch.state.files[FILE].kept == "v2"


@pytest.mark.parametrize("kind", ["crash", "signal", "timeout", "malformed", "flood", "unstarted", "silent"])
def test_the_fourth_failure_that_the_version_before_did_not_have_rolls_it_back(
    watch: Watch, kind: Kind
) -> None:
    assert watch.call("v2", bad(kind), FINE, bad(kind), bad(kind)) == []
    [verdict] = watch.call("v2", bad(kind))
    assert verdict == RollBack(
        FILE,
        "v2",
        "v1",
        "4 of its first 5 calls failed as the version before it did not (more than 3 of 50 may not): "
        f"idle {kind} (ended with {kind}) 4 times",
    )


def test_three_failures_are_borne(watch: Watch) -> None:
    watch.call("v2", *[bad()] * 3, *[FINE] * 47)
    assert [type(one) for one in watch.verdicts] == [ProbationPassed]


def test_failures_after_the_fiftieth_call_come_too_late(watch: Watch) -> None:
    watch.call("v2", *[FINE] * 50, *[bad()] * 20)
    assert [type(one) for one in watch.verdicts] == [ProbationPassed]


def test_failures_of_several_hooks_and_kinds_add_up(watch: Watch) -> None:
    [verdict] = watch.call("v2", bad(), bad("timeout"), bad("crash", "tool_before"), bad("signal", "recover"))
    assert isinstance(verdict, RollBack)
    assert "idle crash" in verdict.why
    assert "recover signal" in verdict.why


def test_a_failure_that_the_version_before_had_as_often_does_not_count() -> None:
    watch = Watch()
    watch.call("v1", *[bad("timeout"), FINE] * 10)
    watch.install("v1", "v2")
    watch.call("v2", *[FINE, bad("timeout")] * 25)
    assert [type(one) for one in watch.verdicts] == [ProbationPassed]


def test_one_failure_long_ago_does_not_excuse_a_version_that_always_fails() -> None:
    watch = Watch()
    watch.call("v1", bad("timeout"), *[FINE] * 99)
    watch.install("v1", "v2")
    assert [type(one) for one in watch.call("v2", *[bad("timeout")] * 5)] == [RollBack]


def test_the_same_kind_of_failure_on_another_hook_counts() -> None:
    watch = Watch()
    watch.call("v1", *[bad("timeout")] * 50)
    watch.install("v1", "v2")
    assert [type(one) for one in watch.call("v2", *[bad("timeout", "compacting")] * 4)] == [RollBack]


def test_a_hook_that_sometimes_answered_nothing_before_may_do_so_again() -> None:
    watch = Watch()
    watch.call("v1", FINE, CallEnd("idle", "silent"))
    watch.install("v1", "v2")
    watch.call("v2", *[CallEnd("idle", "silent")] * 50)
    assert [type(one) for one in watch.verdicts] == [ProbationPassed]


def test_a_hook_that_was_never_called_before_may_answer_nothing(watch: Watch) -> None:
    watch.call("v2", *[CallEnd("compacting", "silent")] * 25, *[CallEnd("compacting", "unknown")] * 25)
    assert [type(one) for one in watch.verdicts] == [ProbationPassed]


def test_a_hook_that_was_answered_and_is_not_known_any_more_rolls_back_at_once(watch: Watch) -> None:
    [verdict] = watch.call("v2", CallEnd("idle", "unknown"))
    assert isinstance(verdict, RollBack)
    assert "does not know the hook idle" in verdict.why


def test_a_rollback_is_said_once_and_owed_until_it_is_done(watch: Watch) -> None:
    watch.call("v2", *[bad()] * 20)
    assert [type(one) for one in watch.verdicts] == [RollBack]
    assert owed(watch.state) == watch.verdicts
    assert str(describe(watch.state, FILE, 0, watch.limits)).startswith("to be rolled back: 4 of its first 4")
    watch.keep(rolled_back(watch.state, FILE, "v2"))
    assert owed(watch.state) == []
    assert watch.call("v2", *[bad()] * 20) == []
    assert watch.state.files[FILE].kept == "v1"


def test_a_version_installed_over_one_on_trial_goes_back_to_the_last_that_was_kept(watch: Watch) -> None:
    watch.call("v2", *[bad()] * 3)
    watch.install("v2", "v3")
    assert watch.call("v2", *[bad()] * 9) == []
    [verdict] = watch.call("v3", *[bad()] * 4)
    assert isinstance(verdict, RollBack)
    assert (verdict.version, verdict.to) == ("v3", "v1")


def test_a_version_installed_while_a_rollback_is_owed_takes_its_place(watch: Watch) -> None:
    watch.call("v2", *[bad()] * 4)
    watch.install("v2", "v3")
    assert owed(watch.state) == []
    assert rolled_back(watch.state, FILE, "v2") == watch.state


def test_the_kept_version_put_back_is_not_tried_again(watch: Watch) -> None:
    watch.install("v2", "v1")
    assert describe(watch.state, FILE, 0, watch.limits) is None
    assert watch.call("v1", *[bad()] * 60) == []


def test_what_a_person_puts_there_is_kept_at_once(watch: Watch) -> None:
    watch.call("v2", *[bad()] * 4)
    watch.keep(placed(watch.state, FILE, "v9"))
    assert owed(watch.state) == []
    watch.install("v9", "v10")
    [verdict] = watch.call("v10", *[bad()] * 4)
    assert isinstance(verdict, RollBack)
    assert verdict.to == "v9"


def test_a_version_that_changed_without_us_is_what_the_next_one_goes_back_to(watch: Watch) -> None:
    watch.install("other", "v3")
    [verdict] = watch.call("v3", *[bad()] * 4)
    assert isinstance(verdict, RollBack)
    assert verdict.to == "other"


def test_several_files_are_on_trial_at_once_and_one_that_is_gone_is_forgotten(watch: Watch) -> None:
    watch.install("p1", "p2", file="prompts/chat.md")
    watch.call("v2", *[bad()] * 3)
    assert [type(one) for one in watch.call("p2", *[bad()] * 4, file="prompts/chat.md")] == [RollBack]
    assert [one.file for one in owed(watch.state)] == ["prompts/chat.md"]
    assert owed(removed(watch.state, "prompts/chat.md")) == []
    assert describe(watch.state, FILE, 0, watch.limits) == (
        "on probation: 3 of 50 calls, 3 of them failed anew"
    )


FAST = {"hook": "idle", "field": "ms", "at_most": 10, "within": {"calls": 2}}
SAID = {"hook": "idle", "field": "answer.continue", "equals": "on", "within": {"minutes": 10}}


def test_a_broken_prediction_rolls_back_with_the_numbers(watch: Watch) -> None:
    watch.install("v2", "v3", FAST)
    [verdict] = watch.call("v3", CallEnd("idle", None, 30), CallEnd("idle", None, 50))
    assert isinstance(verdict, RollBack)
    assert verdict.why == (
        "its prediction is broken: idle ms at most 10 within 2 calls: the median of 2 calls was 40 ms"
    )


def test_a_prediction_that_was_met_is_said_when_the_version_is_kept(watch: Watch) -> None:
    watch.install("v2", "v3", FAST)
    [verdict] = watch.call("v3", *[FINE] * 50)
    assert isinstance(verdict, ProbationPassed)
    assert "its prediction met: idle ms at most 10" in verdict.text


def test_a_version_stays_on_trial_until_its_prediction_is_decided(watch: Watch) -> None:
    watch.install("v2", "v3", SAID)
    assert watch.call("v3", *[FINE] * 60, *[bad()] * 20) == []
    assert passed(watch.state, 10 * MINUTE - 1, watch.limits) == (watch.state, [])
    state, verdicts = passed(watch.state, 10 * MINUTE, watch.limits)
    assert [type(one) for one in verdicts] == [ProbationPassed]
    assert state.files[FILE].kept == "v3"


def test_a_deadline_that_passes_without_the_answer_rolls_back_by_time_alone(watch: Watch) -> None:
    watch.install("v2", "v3", SAID)
    watch.call("v3", CallEnd("idle", None, 5, {"other": 1}))
    state, [verdict] = passed(watch.state, 10 * MINUTE, watch.limits)
    assert isinstance(verdict, RollBack)
    assert owed(state) == [verdict]
    assert passed(state, 11 * MINUTE, watch.limits) == (state, [])


def test_a_call_after_the_deadline_does_not_save_a_prediction(watch: Watch) -> None:
    watch.install("v2", "v3", SAID)
    watch.call("v3", CallEnd("idle", None, 5, {"other": 1}))
    assert [type(one) for one in watch.call("v3", FINE, now=10 * MINUTE)] == [RollBack]


CALLS = st.lists(
    st.builds(
        CallEnd,
        st.sampled_from(["idle", "tool_before"]),
        st.sampled_from([None, None, "crash", "timeout", "silent", "unknown"]),
    ),
    max_size=80,
)


@given(before=CALLS, after=CALLS, failures=st.integers(0, 5), calls=st.integers(1, 60))
def test_every_trial_ends_once_and_a_version_that_does_as_before_or_better_stays(
    before: list[CallEnd], after: list[CallEnd], failures: int, calls: int
) -> None:
    watch = Watch(failures=failures, calls=calls)
    watch.call("v1", *before)
    watch.install("v1", "v2")
    watch.call("v2", *after)
    assert len(watch.verdicts) <= 1
    if len(after) >= calls:
        assert len(watch.verdicts) == 1
    if not any(one.kind for one in after[:calls]):
        assert all(isinstance(one, ProbationPassed) for one in watch.verdicts)
    new = [one for one in after[:calls] if one.kind in ("crash", "timeout")]
    if len(new) > failures and not any(one.kind in ("crash", "timeout") for one in before):
        assert isinstance(watch.verdicts[0], RollBack)


def trial(chance: random.Random, before: float, after: float) -> Verdict:
    """A version whose calls failed with the rate `before`, followed by one whose calls fail with `after`."""
    state = Probation()
    for _ in range(200):
        state, _ = called(
            state, FILE, "v1", bad("timeout") if chance.random() < before else FINE, 0, ProbationLimits()
        )
    state = installed(state, FILE, "v1", "v2", 0)
    while True:
        ended = bad("timeout") if chance.random() < after else FINE
        state, verdict = called(state, FILE, "v2", ended, 0, ProbationLimits())
        if verdict is not None:
            return verdict


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "after", "least", "most"),
    [
        (0.0, 0.0, 0, 0),
        (0.05, 0.05, 0, 3),
        (0.2, 0.2, 0, 3),
        (0.6, 0.6, 0, 0),
        (1.0, 1.0, 0, 0),
        (0.3, 0.1, 0, 0),
        (0.0, 0.2, 95, 100),
        (0.05, 0.4, 95, 100),
        (0.2, 0.9, 95, 100),
    ],
)
def test_chance_seldom_takes_back_a_version_that_is_no_worse_nor_keeps_one_that_is(
    before: float, after: float, least: int, most: int
) -> None:
    verdicts = [trial(random.Random(seed), before, after) for seed in range(100)]
    assert least <= sum(isinstance(verdict, RollBack) for verdict in verdicts) <= most
