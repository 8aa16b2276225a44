"""Matchers by dialect, both dialects' names of tools, Claude Code's `if`, and expressions that would take for ever."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.plugins.hooks.making import event, read, rule
from tests.waiting import SOON

from instar.plugin import permission
from instar.plugins.hooks.match import matched

HOME = Path("/home/me")
ROOT = Path(__file__).parents[3]


def meets(one, happened):
    """True, False, or None: it runs in doubt."""
    found = matched([one], happened, HOME)
    return bool(found) if not found or not found[0].doubt else None


@pytest.mark.parametrize(
    ("matcher", "tool", "instar", "claude", "openhands"),
    [
        ("", "bash", True, True, True),
        ("*", "bash", True, True, True),
        ("bash", "bash", True, True, True),
        ("Bash", "bash", True, True, True),
        ("terminal", "bash", True, True, True),
        ("bas", "bash", False, False, False),
        ("BASH", "bash", False, False, False),
        ("Read|Bash", "bash", True, True, True),
        ("Read, Bash", "bash", True, True, True),
        ("Write", "edit", False, False, False),
        ("Edit|Write", "apply_patch", True, True, True),
        ("file_editor", "write", True, True, True),
        ("MultiEdit", "edit", True, True, True),
        ("Agent", "task", True, True, True),
        ("/ba.h/", "bash", True, False, False),
        ("/Ba.h/", "bash", True, True, False),
        ("term.*", "bash", True, False, True),
        ("B.s", "bash", False, True, False),
        ("^Ba", "bash", False, True, False),
        ("Edit.*", "multi_NotebookEdit_x", False, True, False),
        ("^(?!Bash$).*", "bash", True, False, True),
        ("mcp__.*", "github_create", False, False, False),
    ],
)
def test_a_matcher_follows_the_dialect_of_its_file(matcher, tool, instar, claude, openhands):
    expected = {"instar": instar, "claude": claude, "openhands": openhands}
    for dialect, fits in expected.items():
        assert meets(rule(dialect=dialect, matcher=matcher), event(tool=tool)) is fits, dialect


def test_a_tool_of_an_mcp_server_goes_by_claude_codes_name_of_it():
    happened = event(tool="github_create_issue", use={"server": "github"})
    for matcher in ("mcp__github__create_issue", "mcp__github__.*", "mcp__.*__create.*"):
        assert meets(rule(dialect="claude", matcher=matcher), happened) is True
    assert meets(rule(dialect="claude", matcher="mcp__gitlab__.*"), happened) is False


@pytest.mark.parametrize("matcher", ["Bash", "bash", "terminal", "background"])
def test_a_command_that_runs_on_is_a_shell_command_to_every_guard(matcher):
    start = event(tool="background", input={"action": "start", "command": "git push"})
    assert meets(rule(matcher=matcher), start) is True
    guard = rule(dialect="claude", matcher="Bash", **{"if": "Bash(git push *)"})
    assert meets(guard, start) is True
    assert meets(guard, event(tool="background", input={"action": "list"})) is False


@pytest.mark.parametrize(
    ("name", "fields", "matcher", "instar", "claude", "openhands"),
    [
        ("SessionStart", {"source": "startup"}, "startup|resume", True, True, False),
        ("SessionStart", {"source": "startup"}, "resume", False, False, False),
        ("SessionStart", {"source": "startup"}, ".*", True, True, True),
        ("SessionEnd", {"reason": "archived"}, "other", True, True, False),
        ("SessionEnd", {"reason": "archived"}, "archived", True, True, False),
        ("PreCompact", {"trigger": "auto"}, "auto", True, True, False),
        ("Notification", {"notification_type": "idle_prompt"}, "permission_prompt", False, False, False),
        ("SubagentStop", {"agent_type": "explore"}, "expl.*", True, True, False),
        ("Stop", {}, "whatever", True, True, False),
        ("UserPromptSubmit", {"prompt": "x"}, "whatever", True, True, False),
        ("Stop", {}, ".*", True, True, True),
        ("Stop", {}, "*", True, True, True),
        ("Evolve", {"files": ["hooks/a.py", "prompts/b.md"]}, "prompts/.*", True, True, False),
        ("Evolve", {"files": ["hooks/a.py"]}, "prompts/.*", False, False, False),
    ],
)
def test_where_there_is_no_tool_the_matcher_applies_to_what_the_dialect_says(
    name, fields, matcher, instar, claude, openhands
):
    expected = {"instar": instar, "claude": claude, "openhands": openhands}
    for dialect, fits in expected.items():
        assert meets(rule(name, dialect, matcher=matcher), event(name, fields=fields)) is fits, dialect


def test_a_catastrophic_expression_is_given_up_in_time_and_its_rule_runs():
    one = rule(matcher="(?:(?:x{1,9}){1,9}){1,9}y")
    happened = event(tool="x" * 300)
    started = time.monotonic()
    assert meets(one, happened) is None
    assert time.monotonic() - started < SOON
    started = time.monotonic()
    # Tried again each time it would take its 20 ms each time.
    for _ in range(2000):
        assert meets(one, happened) is None
    assert time.monotonic() - started < SOON, "it is not tried again"


def test_a_name_that_is_longer_than_any_runs_the_rule_in_doubt():
    assert meets(rule(matcher="a.*b"), event(tool="a" * 5000)) is None


def test_rules_of_an_agent_hold_in_its_turns_alone():
    (one,) = read({"PreToolUse": [{"hooks": [{"command": "x"}]}]}, agent="review").rules
    assert meets(one, event(tool="bash", agent="review")) is True
    assert meets(one, event(tool="bash", agent="build")) is False


def condition(text: str, tool: str = "bash", **given):
    use = {"commands": given.pop("commands")} if "commands" in given else {}
    happened = event(tool=tool, input=given, use=use)
    return meets(rule(dialect="claude", **{"if": text}), happened)


@pytest.mark.parametrize(
    ("text", "command", "fits"),
    [
        ("Bash(git push *)", "git push origin main", True),
        ("Bash(git push *)", "git push", True),
        ("Bash(git push:*)", "git push --force", True),
        ("Bash(git push *)", "git pushy", False),
        ("Bash(git push *)", "git status", False),
        ("Bash(git push *)", "cd /x && git push", True),
        ("Bash(git push *)", "ls; FOO=1 BAR='a b' git   push -f", True),
        ("Bash(git push *)", "(cd x; git push)", True),
        ("Bash(git push *)", "ls\ngit push", True),
        ("Bash(git push *)", "/usr/bin/git push", True),
        ("Bash(git push *)", "'git' \"push\" x", True),
        ("Bash(git push *)", "echo 'and then git push'", False),
        ("Bash(git push *)", 'git commit -m "git push; later"', False),
        ("Bash(git push *)", "git $SUB", None),
        ("Bash(git push *)", "$GIT push", None),
        ("Bash(git push *)", "echo $HOME", False),
        ("Bash(git push *)", "echo $(git push)", True),
        ("Bash(git push *)", "echo $(date)", None),
        ("Bash(git push *)", "echo `git push`", None),
        ("Bash(git push *)", "sudo git push", None),
        ("Bash(git push *)", "bash -c 'git push'", None),
        ("Bash(git push *)", "sudo ls", False),
        ("Bash(git push *)", "cat <<E\ngit push\nE", True),
        ("Bash(git push *)", 'git push "', True),
        ("Bash(git push *)", "echo 'x", None),
        ("Bash", "anything", True),
        ("Bash(*)", "anything", True),
        ("Bash(* --force)", "git push --force", True),
        ("Read", "cat x", False),
        ("bash(git *)", "git log", True),
    ],
)
def test_if_looks_at_each_simple_command(text, command, fits):
    assert condition(text, command=command) is fits


def test_if_goes_by_the_commands_that_a_parser_has_read():
    assert condition("Bash(rm *)", command="x", commands=("rm -rf /",)) is True
    assert condition("Bash(rm *)", command="$(rm)", commands=("echo hi",)) is False
    assert condition("Bash(rm *)", command="x", commands=(permission.DOUBT + "x",)) is None


@pytest.mark.parametrize(
    ("text", "tool", "given", "fits"),
    [
        ("Edit(src/**)", "edit", {"filePath": "src/a/b.py"}, True),
        ("Edit(src/**)", "write", {"filePath": "/project/src/b.py"}, True),
        ("Edit(src/**)", "edit", {"filePath": "docs/b.md"}, False),
        ("Edit(src/**)", "edit", {"filePath": "docs/../src/b.py"}, True),
        ("Edit(/src/**)", "edit", {"filePath": "src/b.py"}, True),
        ("Edit(*.ts)", "edit", {"filePath": "deep/down/b.ts"}, True),
        ("Edit(.env)", "edit", {"filePath": "a/.env"}, True),
        ("Edit(//etc/*)", "edit", {"filePath": "/etc/hosts"}, True),
        ("Edit(~/.ssh/**)", "edit", {"filePath": "/home/me/.ssh/config"}, True),
        ("Read(./secrets/**)", "read", {"filePath": "secrets/a"}, True),
        ("Read(secrets)", "read", {"filePath": "secrets/a"}, True),
        ("Read(*.env)", "grep", {"pattern": "x", "path": "src"}, None),
        ("Edit(src/**)", "read", {"filePath": "src/a"}, False),
        ("Write(src/**)", "write", {"filePath": "src/a"}, True),
        (
            "Edit(src/**)",
            "apply_patch",
            {"patchText": "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: src/b\n@@\n*** End Patch"},
            True,
        ),
        ("WebFetch(domain:example.com)", "webfetch", {"url": "https://EXAMPLE.com:8/x"}, True),
        ("WebFetch(domain:example.com)", "webfetch", {"url": "https://api.example.com"}, True),
        ("WebFetch(domain:example.com)", "webfetch", {"url": "https://example.com.evil.org"}, False),
        ("WebFetch(domain:*.org)", "webfetch", {"url": "https://a.org"}, True),
        ("WebFetch(domain:a.org)", "webfetch", {"url": "https://[x"}, None),
        ("Task(explore)", "task", {"subagent_type": "explore"}, True),
        ("Agent(explore)", "task", {"subagent_type": "build"}, False),
        ("Skill(release)", "skill", {"name": "release"}, True),
        ("mcp__*", "bash", {}, False),
        ("TodoWrite(x)", "todowrite", {}, None),
    ],
)
def test_if_looks_at_files_addresses_and_names(text, tool, given, fits):
    assert condition(text, tool, **given) is fits


def test_if_with_many_stars_does_not_take_long():
    started = time.thread_time()
    condition("Edit(" + "**/" * 100 + "*a" * 80 + ")", "edit", filePath="/".join(["a" * 100] * 40))
    assert time.thread_time() - started < 1


@pytest.mark.parametrize("matcher", ["(?R)|b", "(a(?1)?)*", "(?:foo){e<=5}", r"\L<words>"])
def test_expressions_that_only_one_library_has_are_refused(matcher):
    found = read({"PreToolUse": [{"matcher": matcher, "hooks": [{"command": "x"}]}]})
    assert (found.rules, "repeats itself or counts errors" in found.problems[0]) == ([], True)


@pytest.mark.slow
def test_the_library_of_expressions_is_loaded_for_a_rule_that_has_one_alone():
    program = (
        "import sys; from tests.plugins.hooks.making import event, rule;"
        "from tests.plugins.hooks.test_match import meets;"
        "meets(rule(matcher='Bash|Read'), event(tool='bash')); before = 'regex' in sys.modules;"
        "meets(rule(matcher='B.*'), event(tool='bash')); print(before, 'regex' in sys.modules)"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert found.stdout == "False True\n"
