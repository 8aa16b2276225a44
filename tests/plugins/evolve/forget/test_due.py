"""Which of the agent's changes are due: the table, with time and counts given."""

from typing import Any

import pytest

from instar.plugins.evolve.forget import evidence
from instar.plugins.evolve.forget.due import ForgetTerms, LiveChange, due, weight
from instar.plugins.evolve.forget.uses import DAY, CountedUses, PartUse

FILE = "hooks/bot.sh"
NOW = 1000 * DAY
UNUSED = "it was not used for 30 days (last on 1972-08-27)"


def change(name: str, days: float, *lines: str, kept: float | None = None) -> LiveChange:
    """A change that was accepted `days` ago for what these lines say."""
    passed = 0 if kept is None else round(NOW - kept * DAY)
    return LiveChange(name, None, round(NOW - days * DAY), evidence.read(list(lines)), passed)


def use(last: float | None, calls: int = 9, used: int = 9, ms: float = 9.0) -> PartUse:
    """Calls of a part, the last of use `last` days ago."""
    return PartUse(calls, used, ms, 0 if last is None else round(NOW - last * DAY))


OLD = [change("one", 90)]
USED = {"execute_tool greet": use(1)}
GREET = "tool greet"


@pytest.mark.parametrize(
    ("stack", "parts", "more", "found"),
    [
        pytest.param(OLD, {"idle": use(31)}, {}, ("one", 1, UNUSED), id="not used for its days"),
        pytest.param(OLD, USED, {}, None, id="used yesterday"),
        pytest.param(OLD, {}, {}, ("one", 1, "it was not used for 30 days (never since"), id="never used"),
        pytest.param([change("one", 29)], {}, {}, None, id="younger than its days"),
        pytest.param(OLD, {}, {"since": 20}, None, id="nothing was counted before"),
        pytest.param(OLD, {}, {"worked": 2}, None, id="nobody worked meanwhile"),
        pytest.param(
            OLD,
            {},
            {"file": "prompts/recover.md", "terms": ForgetTerms(30, 0)},
            None,
            id="read after failures only",
        ),
        pytest.param(OLD, {"idle": use(31)}, {"terms": ForgetTerms(0)}, None, id="no matter how long"),
        pytest.param(
            [change("two", 40), *OLD],
            {"idle": use(31)},
            {},
            ("one", 2, UNUSED),
            id="a file goes with all its changes",
        ),
        pytest.param(
            OLD,
            {"idle": use(1, used=2)},
            {"tokens": 3000},
            ("one", 1, "carried 3000 tokens of it"),
            id="dear in tokens",
        ),
        pytest.param(OLD, {"idle": use(1, used=3)}, {"tokens": 3000}, None, id="as dear as it may be"),
        pytest.param(
            OLD, {"idle": use(1, used=2, ms=80_000)}, {}, ("one", 1, "each use took 40 s"), id="dear in time"
        ),
        pytest.param(
            [change("one", 1, "eval speed: 1 to 2")],
            USED,
            {},
            ("one", 1, "is gone: eval speed"),
            id="its eval is gone",
        ),
        pytest.param(
            [change("one", 90, "eval speed")],
            USED,
            {"terms": ForgetTerms(evals=frozenset({"speed"}))},
            None,
            id="its eval is there",
        ),
        pytest.param(
            [change("one", 90, "calls idle: 3 answered otherwise")],
            USED | {"idle": use(31)},
            {},
            ("one", 1, "is gone: calls idle"),
            id="the calls that it was for came no more",
        ),
        pytest.param(
            [change("one", 90, "eval speed", "calls idle")],
            USED | {"idle": use(29)},
            {},
            None,
            id="one thing is left",
        ),
        pytest.param(
            [change("two", 90, "tool bye"), change("one", 91, GREET)],
            USED,
            {},
            ("two", 1, "is gone: tool bye"),
            id="only the newest is due",
        ),
        pytest.param(
            [change("two", 90, GREET), change("one", 91, "tool bye")],
            USED,
            {},
            None,
            id="one that is due below others",
        ),
        pytest.param(
            [change("one", 61, "approval ada", kept=61)],
            {"idle": use(61, calls=0, used=0)},
            {"terms": ForgetTerms(0)},
            ("one", 1, "nothing has spoken for it since"),
            id="faded below a quarter",
        ),
        pytest.param(
            [change("one", 90, "approval ada", kept=59)], {}, {"terms": ForgetTerms(0)}, None, id="kept since"
        ),
        pytest.param(
            [change("one", 90, "approval ada")], USED, {"terms": ForgetTerms(0)}, None, id="a use of its file"
        ),
        pytest.param(
            [change("one", 90, "approval ada", "tool bye")],
            USED,
            {"terms": ForgetTerms(0)},
            ("one", 1, "nothing has spoken for it since"),
            id="uses of its file are not those of its tool",
        ),
        pytest.param(
            [change("one", 90, "approval ada")], {}, {"terms": ForgetTerms(0, 0)}, None, id="never fades"
        ),
    ],
)
def test_a_change_is_due_when_nothing_speaks_for_it(
    stack: list[LiveChange],
    parts: dict[str, PartUse],
    more: dict[str, Any],
    found: tuple[str, int, str] | None,
) -> None:
    file, since, worked = more.get("file", FILE), more.get("since", 400), more.get("worked", 10)
    counted = CountedUses(round(NOW - since * DAY), {file: parts}, 100, worked)
    result = due(
        {file: stack}, counted, {file: more.get("tokens", 100)}, NOW, more.get("terms", ForgetTerms())
    )
    if found is None:
        assert not result
        return
    (one,) = result
    assert (one.file, one.commit, one.changes) == (file, *found[:2])
    assert found[2] in one.why


def test_evidence_halves_with_every_half_life() -> None:
    assert [weight(days, 30) for days in (-1, 0, 30, 60, 90)] == [1, 1, 0.5, 0.25, 0.125]


def test_a_line_that_says_nothing_known_is_no_evidence() -> None:
    assert evidence.read(["moon full", "eval", "tool", ""]) == ()
    assert [(one.kind, one.name) for one in evidence.read(["eval a b: 1 to 2", "approval ada"])] == [
        ("eval", "a b"),
        ("approval", "ada"),
    ]
