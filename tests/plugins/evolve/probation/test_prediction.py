"""A candidate's prediction: what may be said, and when it is met or broken."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugins.evolve.probation.prediction import (
    HOOKS,
    SCHEMA,
    CallEnd,
    Course,
    Finding,
    Prediction,
    Unfit,
    ends,
    judge,
    observe,
    parse,
)
from instar.tool.call import validate

MINUTE = 60_000


def say(**changed: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"hook": "idle", "field": "ms", "at_most": 200, "within": {"calls": 3}}
    said |= changed
    return {key: value for key, value in said.items() if value is not ...}


def run(prediction: Prediction, calls: Iterable[CallEnd], now: int = 0) -> Finding:
    course = Course(0)
    for call in calls:
        course = observe(prediction, course, call)
    return judge(prediction, course, now)


def answers(*values: Any) -> list[CallEnd]:
    return [CallEnd("idle", None, 5, value) for value in values]


@pytest.mark.parametrize(
    "given",
    [
        None,
        [],
        say(hok="idle"),
        say(hook="idel"),
        say(hook=["idle"]),
        say(field=3),
        say(at_most="fast"),
        say(at_most=True),
        say(within=...),
        say(within={"calls": 0}),
        say(within={"calls": 1001}),
        say(within={"calls": 2.5}),
        say(within={"calls": True}),
        say(within={"minutes": 0}),
        say(within={"minutes": 10**9}),
        say(within={"hours": 1}),
    ],
)
def test_a_prediction_of_another_form_does_not_fit_the_schema_that_a_call_is_held_to(given: Any) -> None:
    assert validate(given, SCHEMA)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (say(field="time"), 'expect.field must be "ms", "failures" or "answer.<path>"'),
        (say(field="answer."), "expect.field must be"),
        (say(field="answer.a..b"), "expect.field must be"),
        (say(at_most=...), "exactly one of at_most, at_least, equals; it holds 0"),
        (say(at_least=1), "it holds 2"),
        (say(within={}), "expect.within must hold calls, minutes or both"),
        (say(at_most=float("nan")), "must be a number"),
        (say(at_most=float("inf")), "must be a number"),
        (say(at_most=10**400), "must be a number"),
        (say(at_most=-1), "must be 0 or more"),
        (say(at_most=..., equals="fast"), "expect.equals must be a number for ms; it is fast"),
        (say(field="answer.x", at_most=..., equals="y" * 2000), "at most 1000 are compared"),
        (say(field="answer.x", at_most=..., equals=[float("nan")]), "must be a JSON value"),
        (say(field="answer.x", at_most=..., equals=["\ud800"]), "must be a JSON value"),
    ],
)
def test_what_cannot_be_checked_is_refused_with_what_would_be_right(given: Any, said: str) -> None:
    assert validate(given, SCHEMA) is None
    with pytest.raises(Unfit) as refused:
        parse(given)
    assert said in str(refused.value)


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(
                    ["hook", "field", "at_most", "at_least", "equals", "within", "calls", "minutes"]
                ),
                inner | st.sampled_from([*HOOKS, "ms", "failures", "answer.a"]),
            )
        ),
    )
)
def test_whatever_a_model_says_is_either_a_prediction_that_can_be_stored_or_refused(given: Any) -> None:
    if validate(given, SCHEMA):
        return
    try:
        found = parse(given)
    except Unfit:
        return
    assert msgspec.json.decode(msgspec.json.encode(found), type=Prediction) == found
    assert judge(found, Course(0), 0).outcome == "open"


def test_the_schema_names_just_what_may_be_said() -> None:
    assert set(SCHEMA["properties"]) == {"hook", "field", "at_most", "at_least", "equals", "within"}
    assert SCHEMA["properties"]["hook"]["enum"] == list(HOOKS)
    assert parse(say()) == Prediction("idle", "ms", "at_most", 200, 3, None)


MS = parse(say())
FAILURES = parse(say(field="failures", at_most=1))
NONE = parse(say(field="failures", at_most=..., equals=0))
SOME = parse(say(field="failures", at_most=..., at_least=2))
COUNT = parse(say(field="answer.count", at_most=4))
NAME = parse(say(field="answer.tools.0.name", at_most=..., equals="hello"))
ONE = parse(say(field="answer.x", at_most=..., equals=1))


def timed(*durations: float) -> list[CallEnd]:
    return [CallEnd("idle", None, ms) for ms in durations]


def ended(*kinds: str | None) -> list[CallEnd]:
    return [CallEnd("idle", kind, 1) for kind in kinds]


@pytest.mark.parametrize(
    ("prediction", "calls", "outcome", "said"),
    [
        (MS, timed(100, 900), "open", "idle ms at most 200 within 3 calls: open after 2 calls"),
        (MS, timed(100, 900, 150), "met", "the median of 3 calls was 150 ms"),
        (MS, timed(100, 900, 300), "broken", "the median of 3 calls was 300 ms"),
        (MS, [*timed(1, 2), CallEnd("tool_before", None, 3)], "open", ""),
        (FAILURES, ended("crash"), "open", ""),
        (FAILURES, ended("crash", "timeout"), "broken", "2 of 2 calls failed"),
        (FAILURES, ended("crash", None, None), "met", "1 of 3 calls failed"),
        (NONE, ended("crash"), "broken", "1 of 1 calls failed"),
        (NONE, ended(None, None, None), "met", ""),
        (SOME, ended("crash", "crash"), "open", ""),
        (SOME, ended("crash", None, None), "broken", "1 of 3 calls failed"),
        (COUNT, answers({"count": 4}, {"count": 1}, {}), "met", "2 answers kept it"),
        (COUNT, answers({"count": 5}), "broken", "an answer held 5"),
        (COUNT, answers({"count": "4"}), "broken", "an answer held 4"),
        (COUNT, answers({"count": True}), "broken", "an answer held true"),
        (COUNT, answers({}, {"count": {}}, {}), "broken", "an answer held {}"),
        (COUNT, answers({}, {}, {}), "broken", "none of 3 calls answered with it"),
        (COUNT, [*ended("crash")] * 3, "broken", "none of 3 calls answered with it"),
        (NAME, answers(*[{"tools": [{"name": "hello"}]}] * 3), "met", "3 answers kept it"),
        (NAME, answers({"tools": [{"name": "bye"}]}), "broken", "an answer held bye"),
        (NAME, answers({"tools": []}, {"tools": "hello"}, {"tools": [7]}), "broken", "none of 3 calls"),
        (ONE, answers(*[{"x": 1.0}] * 3), "met", ""),
        (ONE, answers({"x": True}), "broken", "an answer held true"),
    ],
)
def test_a_prediction_is_judged_by_the_calls_of_its_hook(
    prediction: Prediction, calls: list[CallEnd], outcome: str, said: str
) -> None:
    found = run(prediction, calls)
    assert (found.outcome, said in found.text) == (outcome, True), found.text


MINUTES = parse(say(field="answer.x", within={"minutes": 10}))
BOTH = parse(say(within={"minutes": 10, "calls": 2}))


@pytest.mark.parametrize(
    ("prediction", "calls", "now", "outcome"),
    [
        (MINUTES, [], 10 * MINUTE - 1, "open"),
        (MINUTES, [], 10 * MINUTE, "lapsed"),
        (MINUTES, answers({}), 10 * MINUTE, "broken"),
        (MINUTES, answers({"x": 1}), 10 * MINUTE, "met"),
        (BOTH, timed(1, 1), 0, "met"),
        (BOTH, timed(999), 10 * MINUTE, "broken"),
    ],
)
def test_minutes_end_a_prediction_and_one_whose_hook_was_never_called_lapses(
    prediction: Prediction, calls: list[CallEnd], now: int, outcome: str
) -> None:
    assert run(prediction, calls, now).outcome == outcome
    assert ends(prediction, Course(5)) == 10 * MINUTE + 5


@pytest.mark.parametrize("large", [10**400, "x" * 10_000, ["x" * 10_000], "\ud800"])
def test_an_answer_of_any_size_is_kept_in_few_bytes(large: Any) -> None:
    course = observe(COUNT, Course(0), answers({"count": large})[0])
    assert len(msgspec.json.encode(course)) < 1000
    assert judge(COUNT, course, 0).outcome == "broken"
    assert len(judge(COUNT, course, 0).text) < 500


def test_two_objects_are_equal_as_json_is() -> None:
    nested = parse(say(field="answer.x", at_most=..., equals={"a": [1, {"b": True}]}))
    assert run(nested, answers(*[{"x": {"a": [1.0, {"b": True}]}}] * 3)).outcome == "met"
    assert run(nested, answers({"x": {"a": [1, {"b": 1}]}})).outcome == "broken"
    assert run(nested, answers({"x": {"a": [1]}})).outcome == "broken"
