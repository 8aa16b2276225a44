"""Predictions: what a candidate says it will do, and whether it did (`expect`). Pure; time is an argument.

A prediction names a hook, a field of its calls, a bound and a deadline::

    {"hook": "tool_before", "field": "ms", "at_most": 200, "within": {"calls": 20}}

Fields:

- ``ms``: the median of the calls' durations, judged at the deadline;
- ``failures``: how many calls failed; a number that can only break the bound from then on breaks it at once;
- ``answer.<path>``: the value at a path of keys (and positions in lists) in the answer. Each answer that holds the path
  must keep the bound; the first that does not breaks it.

The deadline is a number of calls of that hook, or minutes since the install, whichever comes first where both are
given. At the deadline a prediction is met, or broken. One for an answer is broken too when the hook was called and no
answer held the path. It has *lapsed* when the hook was not called once in its minutes: nothing is known then, and a
quiet night must not take a change back.
"""

import math
import statistics
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeGuard

import msgspec

from instar.plugins.evolve.history.trailers import counted

Bound = Literal["at_most", "at_least", "equals"]
Outcome = Literal["met", "broken", "open", "lapsed"]

BOUNDS: Final[tuple[Bound, ...]] = ("at_most", "at_least", "equals")
Kind = Literal["crash", "signal", "timeout", "malformed", "flood", "unstarted", "silent", "unknown"]
"""How a call ended that gave nothing of use. `crash` is an exit code other than 0, `flood` too much output."""

FAILURES: Final = frozenset({"crash", "signal", "timeout", "malformed", "flood", "unstarted"})
"""The kinds of `Kind` that are a failure whatever the version before did."""

MAX_CALLS: Final = 1000
MAX_MINUTES: Final = 7 * 24 * 60
HOOKS: Final = (
    *("discover", "mutate_request", "observe_message", "idle", "execute_tool", "tool_before", "tool_after"),
    *("compacting", "recover", "heartbeat", "format_notification"),
)
"""The hooks of the protocol (docs/reference/hook-protocol.md)."""

_FIELDS: Final = ("ms", "failures")
_PATH: Final = "answer."
_VALUE: Final = 1000
_MINUTE: Final = 60_000
_LARGEST: Final = 1e15
_EXAMPLE: Final = '{"hook": "tool_before", "field": "ms", "at_most": 200, "within": {"calls": 20}}'

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "description": (
        "A prediction, checked while the change is on probation; one that is broken takes the change back. For example "
        + _EXAMPLE
    ),
    "properties": {
        "hook": {"type": "string", "enum": list(HOOKS)},
        "field": {
            "type": "string",
            "description": "ms (median duration), failures (their number), or answer.<path> of a value in the answer",
        },
        "at_most": {"type": "number"},
        "at_least": {"type": "number"},
        "equals": {"description": "A JSON value."},
        "within": {
            "type": "object",
            "properties": {
                "calls": {"type": "integer", "minimum": 1, "maximum": MAX_CALLS},
                "minutes": {"type": "number", "exclusiveMinimum": 0, "maximum": MAX_MINUTES},
            },
            "additionalProperties": False,
        },
    },
    "required": ["hook", "field", "within"],
    "additionalProperties": False,
}
"""JSON Schema of a tool's parameter that takes a prediction, to which the core holds a call."""


class Unfit(ValueError):
    """A prediction that cannot be checked; the text says what is wrong and what would be right."""


class Prediction(msgspec.Struct, frozen=True):
    """What is expected. `calls` and `minutes` are the deadline, at least one is set."""

    hook: str
    field: str
    bound: Bound
    value: Any
    calls: int | None = None
    minutes: float | None = None


class CallEnd(msgspec.Struct, frozen=True):
    """How one call of a script ended: `kind` None is a call that answered; `why` is for people."""

    hook: str
    kind: Kind | None = None
    ms: float = 0.0
    answer: Mapping[str, Any] = {}
    why: str = ""


class Course(msgspec.Struct, frozen=True):
    """What was seen of a prediction since `since` (ms of the wall clock): JSON-able.

    `seen` counts the answers that held the path, `wrong` is the first value that did not keep the bound.
    """

    since: int
    calls: int = 0
    failures: int = 0
    times: tuple[float, ...] = ()
    seen: int = 0
    wrong: tuple[Any, ...] = ()


class Finding(msgspec.Struct, frozen=True):
    """How a prediction stands, with the numbers in words."""

    outcome: Outcome
    text: str


def parse(given: Mapping[str, Any]) -> Prediction:
    """Return the prediction that a model has written, which fits `SCHEMA`. Raises `Unfit` for what that cannot say."""
    field = given["field"]
    if not _is_field(field):
        raise Unfit('expect.field must be "ms", "failures" or "answer.<path>", such as "answer.system.0"')
    bounds = [bound for bound in BOUNDS if bound in given]
    if len(bounds) != 1:
        raise Unfit(f"expect must hold exactly one of {', '.join(BOUNDS)}; it holds {len(bounds)}")
    value = _value(field, bounds[0], given[bounds[0]])
    within = given["within"]
    if not within:
        raise Unfit("expect.within must hold calls, minutes or both")
    return Prediction(given["hook"], field, bounds[0], value, within.get("calls"), within.get("minutes"))


def observe(prediction: Prediction, course: Course, call: CallEnd) -> Course:
    """Return the course after one more call of the script."""
    if call.hook != prediction.hook or course.calls >= (prediction.calls or math.inf):
        return course
    seen, wrong = course.seen, course.wrong
    failed = call.kind in FAILURES
    if prediction.field.startswith(_PATH) and not failed:
        for found in _at(call.answer, prediction.field[len(_PATH) :].split(".")):
            seen += 1
            if not wrong and not _keeps(prediction, found):
                wrong = (_kept(found),)
    return Course(
        course.since,
        course.calls + 1,
        course.failures + failed,
        (*course.times, call.ms)[-MAX_CALLS:] if prediction.field == "ms" else (),
        seen,
        wrong,
    )


def judge(prediction: Prediction, course: Course, now: int) -> Finding:
    """Return how the prediction stands at `now`, in ms of the wall clock."""
    over = _over(prediction, course, now)
    said = _said(prediction)
    if course.wrong:
        return Finding("broken", f"{said}: an answer held {_short(course.wrong[0])}")
    if prediction.field == "failures" and _hopeless(prediction, course.failures):
        return Finding("broken", f"{said}: {course.failures} of {course.calls} calls failed")
    if not over:
        return Finding("open", f"{said}: open after {counted(course.calls, 'call')}")
    if course.calls == 0:
        return Finding("lapsed", f"{said}: the hook was not called in that time")
    return _final(prediction, course, said)


def ends(prediction: Prediction, course: Course) -> int | None:
    """Return when its minutes are over, in ms of the wall clock; None where it has only calls."""
    return None if prediction.minutes is None else course.since + round(prediction.minutes * _MINUTE)


def _final(prediction: Prediction, course: Course, said: str) -> Finding:
    if prediction.field == "ms":
        found: float = statistics.median(course.times)
        text = f"the median of {counted(len(course.times), 'call')} was {found:.6g} ms"
    elif prediction.field == "failures":
        found = course.failures
        text = f"{course.failures} of {course.calls} calls failed"
    elif course.seen:
        return Finding("met", f"{said}: {counted(course.seen, 'answer')} kept it")
    else:
        return Finding("broken", f"{said}: none of {course.calls} calls answered with it")
    return Finding("met" if _keeps(prediction, found) else "broken", f"{said}: {text}")


def _over(prediction: Prediction, course: Course, now: int) -> bool:
    end = ends(prediction, course)
    return course.calls >= (prediction.calls or math.inf) or (end is not None and now >= end)


def _hopeless(prediction: Prediction, failures: int) -> bool:
    """Whether a count that only rises can no longer keep the bound."""
    return prediction.bound != "at_least" and failures > prediction.value


def _keeps(prediction: Prediction, found: Any) -> bool:
    if prediction.bound == "equals":
        return _equal(found, prediction.value)
    if not _number(found):
        return False
    value = prediction.value
    return bool(found <= value if prediction.bound == "at_most" else found >= value)


def _equal(one: Any, other: Any) -> bool:
    """JSON's equality: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    return bool(one == other)


def _at(value: Any, path: list[str]) -> list[Any]:
    """The value at the path as a list of one; an empty list where the answer has none."""
    for part in path:
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and len(part) < 9 and int(part) < len(value):
            value = value[int(part)]
        else:
            return []
    return [value]


def _is_field(field: str) -> bool:
    if field in _FIELDS:
        return True
    parts = field.removeprefix(_PATH).split(".")
    return field.startswith(_PATH) and all(parts) and len(parts) <= 16 and len(field) <= 200


def _value(field: str, bound: Bound, value: Any) -> Any:
    if field in _FIELDS or bound != "equals":
        if not _number(value):
            raise Unfit(f"expect.{bound} must be a number for {field}; it is {_short(value)}")
        if field in _FIELDS and value < 0:
            raise Unfit(f"expect.{bound} must be 0 or more for {field}; it is {_short(value)}")
        return value
    try:
        encoded = msgspec.json.encode(value)
        # NaN and integers of any length can be given, but not stored.
        kept = _equal(msgspec.json.decode(encoded), value)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise Unfit(f"expect.equals must be a JSON value ({error})") from None
    if not kept:
        raise Unfit("expect.equals must be a JSON value, with numbers that are finite and not too long")
    size = len(encoded)
    if size > _VALUE:
        raise Unfit(f"expect.equals is {size} bytes long; at most {_VALUE} are compared")
    return value


def _number(value: Any) -> TypeGuard[int | float]:
    """Whether it is a number that a state can hold: JSON in Python has integers of any length."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= _LARGEST


def _said(prediction: Prediction) -> str:
    bound = prediction.bound.replace("_", " ")
    parts = [counted(prediction.calls, "call")] if prediction.calls is not None else []
    parts += [counted(prediction.minutes, "minute")] if prediction.minutes is not None else []
    within = " or ".join(parts)
    return f"{prediction.hook} {prediction.field} {bound} {_short(prediction.value)} within {within}"


def _kept(value: Any) -> Any:
    """A value that is small enough to be kept: what stands in a state must not grow with an answer."""
    return value if _number(value) or value is None or isinstance(value, bool) else _short(value)


def _short(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    except (ValueError, TypeError, RecursionError, OverflowError):
        text = f"a value that cannot be shown ({type(value).__name__})"
    # Half a surrogate pair, which a model may write, cannot be stored.
    text = text.encode(errors="replace").decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
