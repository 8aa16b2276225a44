"""docs/reference/hooks.md's table of failures, row by row: event by evaluator by failure."""

import re
from pathlib import Path

import pytest
from tests.plugins.hooks.making import event, rule

from instar.plugins.hooks.external import Answered, read_answer
from instar.plugins.hooks.outcome import RuleOutcome, read_verdict, settle, undecided
from instar.plugins.hooks.payload import NAMES
from instar.plugins.hooks.rule import EVENTS, HookRule, on_error

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "hooks.md"
GATES = {"PreToolUse", "PermissionRequest", "UserPromptSubmit", "Evolve"}
WRONG = b'{"decision": 5}'


def table() -> list[list[str]]:
    text = PAGE.read_text("utf-8")
    block = text[text.index("<!-- begin failures") : text.index("<!-- end -->")]
    return [
        [cell.strip() for cell in row.strip("|").split("|")] for row in block.splitlines() if row[:1] == "|"
    ][2:]


def cases() -> list[tuple[str, str, str, str, str]]:
    spread = {"every": ("instar", "claude", "openhands")}
    return [
        (evaluator, dialect, failure, at_gate, other)
        for evaluator, dialects, failure, at_gate, other in table()
        for dialect in spread.get(dialects, tuple(dialects.split(", ")))
    ]


COMMANDS = {
    "exit 1": Answered(1, b"", b"oops"),
    "signal": Answered(-9),
    "time-out": Answered(None, failure="it took longer than 60 s"),
    "no JSON": Answered(0, b"[1]\nall is well"),
    "wrong JSON": Answered(0, WRONG),
    "missing program": Answered(127, b"", b"sh: check.sh: not found"),
    "exit 2": Answered(2, b'{"decision": "allow"}', b"no"),
}
ANSWERS = {
    "status 500": Answered(500),
    "time-out": Answered(None, failure="it did not answer within 60 s"),
    "no JSON": Answered(200, b"fine"),
    "wrong JSON": Answered(200, WRONG),
    "no answer": Answered(None, failure="it cannot be asked"),
}


def fail(one: HookRule, failure: str) -> RuleOutcome:
    name = one.event
    happened = event(name, "bash", input={"command": "ls"}) if EVENTS[name].tool else event(name)
    if one.evaluator in ("command", "http"):
        return read_answer((COMMANDS if one.evaluator == "command" else ANSWERS)[failure], one, happened)
    if failure in ("no JSON", "wrong JSON"):
        return read_verdict("I would allow it." if failure == "no JSON" else WRONG.decode(), one)
    return undecided(f"{failure}")


def words(outcome: RuleOutcome) -> str:
    if not outcome.undecided:
        return outcome.action
    return f"undecided, {'deny' if outcome.action == 'deny' else 'allow'}"


@pytest.mark.parametrize(("evaluator", "dialect", "failure", "at_gate", "other"), cases())
def test_a_failure_comes_to_what_the_table_says(evaluator, dialect, failure, at_gate, other):
    for name in EVENTS:
        one = rule(name, dialect, evaluator)
        outcome = settle(fail(one, failure), one)
        assert words(outcome) == (at_gate if name in GATES else other), name
        assert outcome.reason or outcome.action != "deny", "who is refused something is told why"
        assert not outcome.undecided or outcome.error


def test_the_table_has_every_evaluator_in_every_dialect():
    rows = {(evaluator, dialect) for evaluator, dialect, *_ in cases()}
    assert rows == {
        (evaluator, dialect)
        for evaluator in ("command", "http", "prompt", "agent")
        for dialect in ("instar", "claude", "openhands")
    }


@pytest.mark.parametrize("said", ["allow", "deny"])
@pytest.mark.parametrize(("evaluator", "dialect", "failure", "at_gate", "other"), cases())
def test_on_error_of_a_rule_replaces_every_undecided(evaluator, dialect, failure, at_gate, other, said):
    for name in EVENTS:
        one = rule(name, dialect, evaluator, on_error=said)
        usual = at_gate if name in GATES else other
        expected = f"undecided, {said}" if usual.startswith("undecided") else usual
        assert words(settle(fail(one, failure), one, "deny")) == expected


def test_the_setting_on_error_speaks_for_rules_that_say_nothing():
    one = rule("PostToolUse", "claude")
    assert words(settle(fail(one, "exit 1"), one, "deny")) == "undecided, deny"
    assert on_error(one) == "allow"


def test_the_pages_keys_are_those_that_are_read():
    text = PAGE.read_text("utf-8")
    rows = re.findall(r"^\| (command|http|prompt|agent) \| (`[^|]*) \|$", text, re.MULTILINE)
    from_page = {kind: set(re.findall(r"`(\w+)`", keys)) for kind, keys in rows}
    from instar.plugins.hooks import parse

    assert from_page == {kind: set(keys) for kind, keys in parse.KEYS.items()}
    every = re.search(r"keys beside ([^|]*) \|", text)
    assert every
    assert set(re.findall(r"`(\w+)`", every[1])) | {"description"} == set(parse.COMMON)


def test_the_page_has_every_name_of_every_tool():
    text = PAGE.read_text("utf-8")
    block = text[text.index("<!-- begin names") :]
    rows = re.findall(
        r"^\| `(\w+)` \| ([^|]*) \| ([^|]*) \|$", block[: block.index("<!-- end -->")], re.MULTILINE
    )
    page = {tool: tuple(tuple(re.findall(r"`(\w+)`", cell)) for cell in cells) for tool, *cells in rows}
    assert page == NAMES


def test_every_event_is_there_in_both_spellings():
    events = (
        "PreToolUse, PostToolUse, PostToolUseFailure, UserPromptSubmit, Stop, SubagentStart, SubagentStop, "
        "SessionStart, SessionEnd, PreCompact, PostCompact, Notification, PermissionRequest, Heartbeat, Evolve"
    )
    assert set(EVENTS) == set(events.split(", "))
    assert {EVENTS["PreToolUse"].snake, EVENTS["Stop"].snake} == {"pre_tool_use", "stop"}
    assert {name for name, kind in EVENTS.items() if kind.gate} == GATES
