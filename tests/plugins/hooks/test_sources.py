"""Which files rules come from, in which order, and what is said of those that are not read."""

import json
import os
import time
from pathlib import Path

import pytest

from instar.plugins.hooks.config import HookSettings, read
from instar.plugins.hooks.parse import RuleSource
from instar.plugins.hooks.seen import FILES
from instar.plugins.hooks.sources import find


def write(folder: Path, name: str, command: str, event: str = "Stop") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hooks": {event: [{"hooks": [{"type": "command", "command": command}]}]}}))
    return path


@pytest.fixture
def place(tmp_path):
    for name in ("project/below", "home"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def look(place: Path, *, config=None, trusted=lambda _folder: True, more=(), origins=None):
    folders = [place / "project", place / "project/below"]
    return find(config or {}, folders, place / "home", trusted, more, origins or {})


def commands(found) -> list[str]:
    return [rule.settings.command for rule in found.rules]


def test_rules_come_in_order_each_with_its_file_and_dialect(place):
    for folder in ("project", "home"):
        for name, _ in FILES:
            write(place / folder, name, f"{folder}/{name}")
    more = [
        RuleSource({"Stop": [{"hooks": [{"command": "agent"}]}]}, "review.md", agent="review"),
        RuleSource({"hooks": {"Stop": [{"hooks": [{"command": "plugin"}]}]}}, "a plugin", "claude"),
    ]
    config = {"hooks": {"Stop": [{"hooks": [{"command": "config"}]}]}}
    found = look(place, config=config, more=more)
    assert commands(found) == [
        "config",
        *("project/.instar/hooks.json", "home/.instar/hooks.json"),
        *("project/.openhands/hooks.json", "home/.openhands/hooks.json"),
        *("project/.claude/settings.json", "project/.claude/settings.local.json"),
        *("home/.claude/settings.json", "home/.claude/settings.local.json"),
        *("agent", "plugin"),
    ]
    assert [rule.dialect for rule in found.rules] == [
        *("instar", "instar", "instar", "openhands", "openhands"),
        *("claude", "claude", "claude", "claude", "instar", "claude"),
    ]
    assert found.rules[1].place == f"{place}/project/.instar/hooks.json:1:32"
    assert not found.problems


def test_a_folder_below_the_worktree_adds_its_own(place):
    write(place / "project", ".instar/hooks.json", "outer")
    write(place / "project/below", ".instar/hooks.json", "inner")
    assert commands(look(place)) == ["outer", "inner"]


def test_files_of_an_untrusted_project_are_not_read_and_that_is_said(place):
    for name, _ in FILES:
        write(place / "project", name, "evil")
    write(place / "home", ".claude/settings.json", "mine")
    found = look(place, trusted=lambda _folder: False)
    assert commands(found) == ["mine"]
    assert len(found.problems) == len(FILES)
    why = f"nobody trusted the folder (instar trust {place}/project)"
    assert found.problems[0] == f"{place}/project/.instar/hooks.json was not read: {why}"


def test_the_home_folder_as_project_is_read_once(place):
    write(place / "home", ".claude/settings.json", "mine")
    found = find({}, [place / "home"], place / "home", lambda _folder: False)
    assert (commands(found), found.problems) == (["mine"], [])


def test_a_rule_that_stands_in_two_files_of_claude_code_runs_once(place):
    for folder in ("project", "home"):
        for name in (".claude/settings.json", ".instar/hooks.json"):
            path = write(place / folder, name, "same")
            data = json.loads(path.read_text())
            data["hooks"]["Stop"] *= 2
            path.write_text(json.dumps(data))
    found = look(place)
    assert [rule.dialect for rule in found.rules] == ["instar"] * 4 + ["claude"]


def test_disable_all_hooks_switches_off_the_rules_of_its_file(place):
    path = write(place / "project", ".claude/settings.json", "off")
    path.write_text(json.dumps({"disableAllHooks": True, **json.loads(path.read_text())}))
    write(place / "home", ".claude/settings.json", "on")
    found = look(place)
    assert commands(found) == ["on"]
    assert found.problems == [f"{path}: disableAllHooks is true: its rules are not armed"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", ":1:1: expected a value"),
        (b'{"hooks": {\n  oops\n}}', ":2:3: expected a key in double quotes"),
        (b'{"hooks": "\xff"}', ":1:12: expected UTF-8 text"),
        (b"[]", ":1:1: expected a map of events, found []"),
        (b"x" * (257 << 10), "expected at most 256 KiB, found more"),
        (b"[" * 200_000, "expected"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_and_the_others_hold(place, text, says):
    path = write(place / "project", ".instar/hooks.json", "x")
    path.write_bytes(text)
    write(place / "project", ".openhands/hooks.json", "neighbour")
    found = look(place)
    assert commands(found) == ["neighbour"]
    (fault,) = found.problems
    assert str(path) in fault
    assert says in fault


def test_an_event_that_stands_twice_is_said_since_the_last_one_alone_counts(place):
    path = write(place / "project", ".instar/hooks.json", "x")
    path.write_text(
        '{"Stop": [{"hooks": [{"command": "x"}]}], // mine\n "Stop": [{"hooks": [{"command": "y"}]}]}'
    )
    found = look(place)
    assert commands(found) == ["y"]
    assert found.problems == [
        f"{path}: Stop: stands twice in one map: what stands under the last one counts alone"
    ]


def test_comments_and_trailing_commas_are_taken(place):
    path = write(place / "project", ".instar/hooks.json", "x")
    path.write_text('{ // mine\n "Stop": [{"hooks": [{"command": "x",},]},],\n}')
    assert (commands(look(place)), look(place).problems) == (["x"], [])


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(place):
    path = place / "project/.instar/hooks.json"
    path.parent.mkdir()
    os.mkfifo(path)
    assert "found a pipe or device" in str(look(place).problems[0])


def test_a_folder_and_a_dangling_link_in_the_place_of_a_file_are_no_rules(place):
    (place / "project/.instar/hooks.json").mkdir(parents=True)
    (place / "project/.claude").symlink_to(place / "nowhere")
    found = look(place)
    assert (found.rules, found.problems) == ([], [])


def test_a_mistake_in_the_settings_names_the_key(place):
    found = look(place, config={"hooks": {"Stpo": []}}, origins={"hooks.Stpo": "the settings"})
    assert str(found.problems[0]).startswith(
        "the settings: hooks.Stpo: there is no such event; did you mean Stop?"
    )


@pytest.mark.slow
def test_two_hundred_rules_on_one_event_hold_and_are_said(place):
    rules = [{"type": "command", "command": f"check {number}"} for number in range(200)]
    path = write(place / "project", ".instar/hooks.json", "x")
    path.write_text(json.dumps({"PreToolUse": [{"hooks": rules}]}, indent=1))
    started = time.thread_time()
    found = look(place)
    assert time.thread_time() - started < 5
    assert len(found.rules) == 200
    assert found.problems == ["200 rules wait for PreToolUse: each makes it slower"]


def test_without_rules_it_takes_no_time(place):
    started = time.thread_time()
    for _ in range(100):
        assert look(place).rules == []
    assert time.thread_time() - started < 1


def test_the_settings_of_hooks_have_deproblems_that_are_read_from_their_block():
    assert read({}) == HookSettings()
    assert (HookSettings().agent_pre_tool_use, HookSettings().on_error) == (False, "dialect")
    assert read({"hook_settings": {"agent_pre_tool_use": True}}).agent_pre_tool_use
