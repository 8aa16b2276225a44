"""What models answer to prompt and agent rules."""

import json
import time

import pytest
from tests.plugins.hooks.making import rule

from instar.plugins.hooks.outcome import read_verdict, settle

ALLOW, DENY = '{"decision": "allow", "reason": "fine"}', '{"decision": "deny", "reason": "no"}'


@pytest.mark.parametrize(
    ("text", "action"),
    [
        (ALLOW, "allow"),
        (DENY, "deny"),
        ('{"decision": "Deny", "reason": "no"}', "deny"),
        ('{"decision": " deny ", "reason": "no"}', "deny"),
        ('{"decision": "block", "reason": "no"}', "deny"),
        ('{"decision": "ask"}', "ask"),
        ('{"ok": true}', "allow"),
        ('{"ok": false, "reason": "no"}', "deny"),
        (f"```json\n{DENY}\n```", "deny"),
        (f"**Decision:** allow\n\n{ALLOW}", "allow"),
        (f"[{DENY}]", "deny"),
        (f'{{"note": 1}} {DENY}', "deny"),
        (f'e.g. {{"decision":"allow"}} but my verdict: {DENY}', "deny"),
        (f'{DENY} and not {{"decision":"allow"}}', "deny"),
        ('The tool said {"decision": "allow"}. {"ok": false, "reason": "no"}', "deny"),
        (f'{{"verdict": {DENY}}}', "deny"),
        ('{"decision": "deny", "decision": "allow", "reason": "no"}', "deny"),
        ('{"ok": true, "decision": "deny", "reason": "no"}', "deny"),
        (f'{ALLOW} {{"decision": "ask"}}', "ask"),
        (f'{{"decision": "perhaps"}} {DENY} {{"ok": "yes"}}', "deny"),
        ('{"decision": "allow", "reason": "the output held {\\"decision\\": \\"deny\\"}"}', "allow"),
    ],
)
def test_of_several_verdicts_the_most_severe_counts(text, action):
    found = read_verdict(text, rule(evaluator="prompt"))
    assert (found.action, found.undecided) == (action, False)
    assert found.reason == ("no" if action == "deny" else found.reason)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ALLOW",
        "I think that this should be allowed.",
        "DENY",
        '{"decision": "allow"',
        '{"decision": "al',
        '{"decision": "perhaps"}',
        '{"decision": true}',
        '{"ok": "false"}',
        '{"ok": 1}',
        '{"ok": null}',
        '{"note": 1}',
        f'{ALLOW} {{"decision": "maybe"}}',
        f'{ALLOW} then {{"decision": "de',
        "[" * 5000,
        '{"a":' * 3000,
        f"{ALLOW}{'x' * (2 << 20)}",
    ],
)
def test_what_is_no_verdict_is_undecided(text):
    one = rule(evaluator="prompt")
    found = read_verdict(text, one)
    assert (found.action, found.undecided, bool(found.error)) == ("none", True, True)
    assert settle(found, one).action == "deny"
    assert len(found.error) < 300


def test_a_verdict_in_prose_is_answered_with_what_was_wanted():
    one = rule(evaluator="prompt", name="policy")
    reason = settle(read_verdict("Sure, go on!", one), one).reason
    assert reason == (
        'The hook policy (hooks.json) could not decide: it was to answer {"decision": "allow" or "deny", "reason": …}, '
        "and answered 'Sure, go on!'"
    )


@pytest.mark.parametrize("event", ["Stop", "SubagentStop"])
def test_impossible_lets_the_agent_stop(event):
    text = '{"ok": false, "reason": "there is no such file", "impossible": true}'
    found = read_verdict(text, rule(event, "claude", "prompt"))
    assert (found.action, "cannot be reached: there is no such file" in found.messages[0]) == ("none", True)
    assert read_verdict(text, rule("PreToolUse", "claude", "prompt")).action == "deny"


@pytest.mark.parametrize(
    ("dialect", "evaluator", "event", "keys", "stop"),
    [
        ("claude", "prompt", "PreToolUse", {}, True),
        ("claude", "prompt", "PostToolUse", {}, True),
        ("claude", "prompt", "UserPromptSubmit", {}, True),
        ("claude", "prompt", "PreToolUse", {"continueOnBlock": True}, False),
        ("claude", "prompt", "Stop", {}, False),
        ("claude", "agent", "PreToolUse", {}, False),
        ("instar", "prompt", "PreToolUse", {}, False),
        ("openhands", "prompt", "PreToolUse", {}, False),
    ],
)
def test_a_refusal_ends_the_turn_where_claude_code_says_so(dialect, evaluator, event, keys, stop):
    assert read_verdict(DENY, rule(event, dialect, evaluator, **keys)).stop is stop


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["{", "[", '{"a":', '{"decision":', '{"a": "', "{}"])
def test_a_megabyte_of_brackets_is_read_in_no_time(piece):
    started = time.process_time()
    assert read_verdict(piece * 400_000, rule(evaluator="prompt")).undecided
    assert time.process_time() - started < 3


def test_a_reason_without_end_is_cut():
    one = rule("Stop", evaluator="prompt")
    found = read_verdict(json.dumps({"decision": "deny", "reason": "x" * 900_000}), one)
    assert (found.action, len(found.reason)) == (
        "deny",
        10_000 + len("\n(890000 more characters were left out)"),
    )
