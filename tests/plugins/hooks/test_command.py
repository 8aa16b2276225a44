"""What programs and requests print and exit with, by dialect."""

import json
import time

import pytest
from tests.plugins.hooks.making import event, rule

from instar.plugins.hooks.external import Answered, read_answer
from instar.plugins.hooks.outcome import combine, settle
from instar.plugins.hooks.payload import views
from instar.plugins.hooks.rule import EVENTS

LS = {"tool": "bash", "input": {"command": "ls"}}


def outcome(code, output="", dialect="instar", name="PreToolUse", errors=b"", **keys):
    one = rule(name, dialect, **keys)
    happened = event(name, **LS) if EVENTS[name].tool else event(name)
    raw = output if isinstance(output, bytes) else output.encode()
    return settle(read_answer(Answered(code, raw, errors), one, happened), one)


DENY = '{"decision": "deny", "reason": "no"}'
SPECIFIC = '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}'


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["instar", "claude", "openhands"])
@pytest.mark.parametrize(
    "output",
    [
        DENY,
        SPECIFIC,
        '{"decision": "block", "reason": "no"}',
        '{"decision": " Deny ", "reason": "no"}',
        f"loading the model …\n{DENY}",
        f"{DENY}\nthat is all",
        f'{{"decision": "allow"}}\n{DENY}',
        '{"decision": "deny", "reason": "no", "decision": "allow"}',
        '{"decision": "allow", "reason": "no", "hookSpecificOutput": {"permissionDecision": "deny"}}',
        '{"continue": false, "stopReason": "no"}',
        '{\n  "decision": "deny",\n  "reason": "no"\n}',
        '{"decision": "deny", "reason": "no", "additionalContext": null, "systemMessage": 5}',
        '{"hookSpecificOutput": {"decision": {"behavior": "deny", "message": "no"}}}',
        '{"hookSpecificOutput": {"decision": "block", "reason": "no"}}',
        f"\ufeff{DENY}",
        '{"level": "info"}\n' * 1000 + DENY,
    ],
)
@pytest.mark.parametrize("code", [0, 1, 2, 127, -9])
def test_json_that_says_deny_denies_whatever_the_exit_code(code, output, dialect):
    found = outcome(code, output, dialect)
    assert (found.action, found.reason) == ("deny", "no")


@pytest.mark.parametrize("dialect", ["instar", "claude", "openhands"])
@pytest.mark.parametrize(
    "output",
    [
        "",
        '{"decision": "allow"}',
        '{"decision": "allow", "reason": "all is well"}',
        '{"decision": null}',
        '{"decision": 7}',
        '{"hookSpecificOutput": {"permissionDecision": "allow"}}',
        "[]",
        "null",
        '{"decision": "al',
        b"\xff\xfe{\x80",
        b"x" * (5 << 20),
    ],
)
def test_exit_2_denies_whatever_is_printed(output, dialect):
    found = outcome(2, output, dialect, errors=b"because \xff of it\n")
    assert (found.action, found.reason, found.undecided) == ("deny", "because � of it", False)


@pytest.mark.parametrize("dialect", ["instar", "claude", "openhands"])
@pytest.mark.parametrize(
    ("output", "action"),
    [
        ('{"decision": "allow"}', "allow"),
        ('{"decision": "approve"}', "allow"),
        ('{"decision": "ask", "reason": "sure?"}', "ask"),
        ('{"hookSpecificOutput": {"permissionDecision": "ask"}}', "ask"),
        ('{"hookSpecificOutput": {"permissionDecision": "defer"}}', "ask"),
        ('{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}', "allow"),
        ('{"decision": "ask"}\n{"decision": "allow"}', "ask"),
        ('{"decision": null, "reason": null, "continue": null, "hookSpecificOutput": null}', "none"),
        ('{"continue": true}', "none"),
        ('{"suppressOutput": true}', "none"),
        ("[]", "none"),
        ("null", "none"),
        ('  [{"decision": "deny"}]', "none"),
        (b"\xff\xfe", "none"),
        (b"x" * 100_000, "none"),
        ('nothing to {"decision": "deny"} see', "none"),
        ('{debug} loading\n{"decision": "allow"}', "allow"),
    ],
)
def test_exit_0_and_json_decides(output, action, dialect):
    found = outcome(0, output, dialect)
    assert (found.action, found.undecided) == (action, False)


@pytest.mark.parametrize(
    "output",
    [
        '{"decision": "maybe"}',
        '{"decision": ["allow"]}',
        '{"continue": "false"}',
        '{"hookSpecificOutput": []}',
        '{"decision": "allow", "hookSpecificOutput": {"decision": {"message": "no"}}}',
        '{"decision": "allow"',
        '{"reason": 5}',
        b"log\n" * (1 << 19),
    ],
)
def test_json_that_cannot_be_read_is_undecided(output):
    assert (outcome(0, output).action, outcome(0, output).undecided) == ("deny", True)
    found = outcome(0, output, "claude")
    assert (found.action, found.undecided, found.error != "") == ("none", True, True)


@pytest.mark.parametrize("dialect", ["instar", "claude", "openhands"])
@pytest.mark.parametrize("order", [("decision", "reason"), ("reason", "decision")])
def test_a_denial_that_is_longer_than_can_be_read_is_a_denial(dialect, order):
    said = {"decision": "deny", "reason": "no " * (1 << 20)}
    found = outcome(0, json.dumps({key: said[key] for key in order}), dialect)
    assert (found.action, found.reason != "") == ("deny", True)


@pytest.mark.parametrize(
    ("dialect", "action", "undecided"),
    [("claude", "allow", False), ("instar", "none", True), ("openhands", "none", True)],
)
def test_allow_beside_another_exit_code_counts_in_claude_codes_files_alone(dialect, action, undecided):
    found = outcome(1, '{"decision": "allow"}', dialect)
    assert (found.action, found.undecided) == (action, undecided)


@pytest.mark.parametrize(("dialect", "stop"), [("instar", True), ("claude", True), ("openhands", False)])
def test_continue_false_stops_what_the_dialect_says(dialect, stop):
    decision = combine([outcome(0, '{"continue": false, "stopReason": "enough"}', dialect), outcome(0)])
    assert (decision.action, decision.stop, decision.reasons) == ("deny", stop, ("enough",))
    over_any = combine([outcome(0, '{"continue": false, "decision": "allow"}', dialect)])
    assert (over_any.action, over_any.stop) == ("deny", stop)


@pytest.mark.parametrize("name", EVENTS)
def test_plain_text_becomes_context_where_the_dialect_has_it(name):
    contexts = {
        dialect: outcome(0, "use tabs\n", dialect, name).contexts
        for dialect in ("instar", "claude", "openhands")
    }
    expected = ("use tabs",) if name in ("UserPromptSubmit", "SessionStart") else ()
    assert contexts == {"instar": expected, "claude": expected, "openhands": ()}


def test_contexts_and_messages_are_taken_from_both_places_and_cut():
    found = outcome(
        0,
        json.dumps(
            {
                "systemMessage": "careful",
                "additionalContext": "a",
                "hookSpecificOutput": {"additionalContext": "b" * 20_000, "updatedToolOutput": {"x": 1}},
            }
        ),
        name="PostToolUse",
    )
    assert found.messages == ("careful",)
    assert found.contexts[0] == "a"
    assert found.contexts[1].endswith("b\n(10000 more characters were left out)")
    assert found.updated_output == {"x": 1}
    assert "None" not in str(outcome(0, '{"additionalContext": null}', name="SessionStart").contexts)


@pytest.mark.parametrize(
    ("dialect", "tool", "given", "told", "wrote", "got"),
    [
        ("instar", "bash", {"command": "a"}, {"command": "a"}, {"command": "b"}, {"command": "b"}),
        (
            "claude",
            "edit",
            {"filePath": "x.py", "oldString": "a", "newString": "b"},
            {"file_path": "/project/x.py", "old_string": "a", "new_string": "b"},
            {"file_path": "/project/y.py", "old_string": "a", "new_string": "c"},
            {"filePath": "/project/y.py", "oldString": "a", "newString": "c"},
        ),
        (
            "openhands",
            "write",
            {"filePath": "x.py", "content": "a"},
            {"command": "create", "path": "/project/x.py", "file_text": "a"},
            {"command": "create", "path": "/project/x.py", "file_text": "b"},
            {"filePath": "/project/x.py", "content": "b"},
        ),
        (
            "claude",
            "background",
            {"action": "start", "command": "a"},
            {"command": "a", "run_in_background": True},
            {"command": "b", "run_in_background": True},
            {"action": "start", "command": "b"},
        ),
    ],
)
def test_a_rewrite_is_read_by_the_names_that_the_rule_was_told(dialect, tool, given, told, wrote, got):
    one = rule(dialect=dialect)
    happened = event(tool=tool, input=given)
    (view,) = views(happened.tool, dialect, happened.directory)
    assert view.input == told
    output = json.dumps({"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": wrote}})
    found = read_answer(Answered(0, output.encode()), one, happened, view)
    assert found.updated_input == got


PATCH = "*** Begin Patch\n*** Add File: a.py\n+x\n*** Update File: b.py\n*** Move to: c.py\n@@\n-x\n+y\n*** End Patch"


def test_a_patch_is_told_to_foreign_rules_file_by_file():
    happened = event(tool="apply_patch", input={"patchText": PATCH})
    told = [
        (view.name, view.input["file_path"]) for view in views(happened.tool, "claude", happened.directory)
    ]
    assert told == [("Write", "/project/a.py"), ("Edit", "/project/b.py"), ("Write", "/project/c.py")]
    told = [view.input["path"] for view in views(happened.tool, "openhands", happened.directory)]
    assert told == ["/project/a.py", "/project/b.py", "/project/c.py"]
    assert [view.name for view in views(happened.tool, "instar", happened.directory)] == ["apply_patch"]


def test_a_file_of_a_patch_is_told_as_the_tool_reads_its_name():
    text = "*** Begin Patch\n*** Add File: \t.env \r\n+x\n*** End Patch"
    happened = event(tool="apply_patch", input={"patchText": text})
    (view,) = views(happened.tool, "claude", happened.directory)
    assert view.input["file_path"] == "/project/.env"


def test_a_patch_is_rewritten_by_its_text_alone():
    one = rule(dialect="claude")
    happened = event(tool="apply_patch", input={"patchText": PATCH})
    view = views(happened.tool, "claude", happened.directory)[0]

    def rewritten(**updated):
        output = json.dumps({"hookSpecificOutput": {"updatedInput": {**view.input, **updated}}})
        return read_answer(Answered(0, output.encode()), one, happened, view)

    assert rewritten(patchText="other").updated_input == {"patchText": "other"}
    refused = rewritten(file_path="/project/z.py")
    assert (refused.action, "rewritten in its patchText" in refused.reason) == ("deny", True)


@pytest.mark.parametrize("updated", ["x", [1], 5, True])
def test_a_rewrite_that_is_no_object_denies(updated):
    found = outcome(0, json.dumps({"hookSpecificOutput": {"updatedInput": updated}}), "claude")
    assert (found.action, found.updated_input, "no object" in found.reason) == ("deny", None, True)


@pytest.mark.parametrize(
    ("ended", "says"),
    [
        (Answered(1, b"", b"Traceback: boom"), "it exited with 1: Traceback: boom"),
        (Answered(-15), "it was ended by signal 15"),
        (Answered(137), "it was ended by signal 9"),
        (
            Answered(127, b"", b"sh: x: not found"),
            "its program is missing or may not be run: sh: x: not found; see hooks.json",
        ),
        (Answered(None, failure="it took longer than 60 s"), "it took longer than 60 s"),
        (
            Answered(None, failure="there is no ./check.sh"),
            "there is no ./check.sh",
        ),
    ],
)
def test_a_failure_is_one_clear_sentence(ended, says):
    one = rule(on_error="deny")
    found = settle(read_answer(ended, one, event(**LS)), one)
    assert says in found.error
    assert (
        found.reason.startswith("The hook ./check.sh (hooks.json) could not decide: it")
        or "there is no" in says
    )


def test_a_denial_that_was_printed_before_the_time_out_counts():
    one = rule(dialect="openhands")
    found = settle(
        read_answer(Answered(None, DENY.encode(), failure="it took longer than 60 s"), one, event(**LS)), one
    )
    assert found.action == "deny"


@pytest.mark.parametrize(("status", "action"), [(200, "deny"), (500, "deny"), (None, "deny")])
def test_the_answer_to_a_request_is_read_like_a_programs_output(status, action):
    one = rule(evaluator="http", dialect="claude")
    assert settle(read_answer(Answered(status, DENY.encode()), one, event(**LS)), one).action == action
    assert read_answer(Answered(204, b""), one, event(**LS)).undecided is False
    assert "answered 500" in read_answer(Answered(500, b""), one, event(**LS)).error


@pytest.mark.parametrize("line", ['{"a":', "{", '{"a": "', "[", '{"a": [{'])
def test_megabytes_of_broken_json_are_read_in_no_time(line):
    started = time.thread_time()
    for text in (line * 300_000, f"{line}\n" * 300_000):
        may_refuse = len(text) >= 1 << 20 and text.startswith("{")
        assert outcome(0, text, "claude").action == ("deny" if may_refuse else "none")
    assert outcome(2, (f"{line}\n" * 300_000), "claude").action == "deny"
    assert time.thread_time() - started < 5
