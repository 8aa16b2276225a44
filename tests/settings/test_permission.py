import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.message import Rule
from instar.settings.permission import (
    DEFAULTS,
    DOUBT,
    decide,
    denied_outright,
    evaluate,
    exact_over_wildcards,
    from_config,
    matches,
)

HOME = str(Path.home())


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("*", "anything at all/with\nlines", True),
        ("", "", True),
        ("", "a", False),
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git status", "git", False),
        ("git *", "git push origin", True),
        ("git *", "git", True),
        ("git *", "git ", True),
        ("git *", "gitk", False),
        ("git*", "gitk", True),
        ("git * --force *", "git push --force", True),
        ("git * --force *", "git push origin --force now", True),
        ("git * --force *", "git push", False),
        (" *", "", True),
        (" *", " x", True),
        ("src/*", "src/a/b/c.py", True),
        ("src/*", "src", False),
        ("*/test/*", "a/b/test/c/d", True),
        ("**/x", "a/b/x", True),
        ("*.env", ".env", True),
        ("*.env", "a/b/.env", True),
        ("*.env", ".env.local", False),
        ("*.env.*", "config/.env.local", True),
        ("?", "a", True),
        ("?", "", False),
        ("?", "ab", False),
        ("a?c", "a/c", True),
        ("a?c", "a\nc", True),
        ("a[bc]d", "a[bc]d", True),
        ("a[bc]d", "abd", False),
        ("a.c", "abc", False),
        ("a+", "aa", False),
        ("(a|b)", "a", False),
        ("a{1,2}", "a{1,2}", True),
        ("$x^", "$x^", True),
        ("dir\\*", "dir/file", True),
        ("dir/*", "dir\\file", True),
        ("*a*b*c", "xaybzc", True),
        ("*a*b*c", "xaybz", False),
        ("a*a", "a", False),
        ("a*a", "aa", True),
        ("*ab*ab*", "abab", True),
        ("*ab*ab*", "aab", False),
        ("Git *", "git x", False),
        ("mcp_*", "mcp_server_tool", True),
    ],
)
def test_a_wildcard_fits_whole_texts(pattern: str, text: str, expected: bool) -> None:
    assert matches(text, pattern) is expected


CASES: list[tuple[Any, str, str, str]] = [
    # The last rule that matches decides, in one map and over several.
    ({"bash": {"*": "ask", "git *": "allow"}}, "bash", "git push", "allow"),
    ({"bash": {"*": "ask", "git *": "allow"}}, "bash", "ls", "ask"),
    ({"bash": {"git *": "allow", "*": "ask"}}, "bash", "git push", "ask"),
    ({"bash": {"git *": "allow", "git push *": "deny"}}, "bash", "git push origin", "deny"),
    ({"bash": {"git *": "allow", "git push *": "deny"}}, "bash", "git push", "deny"),
    ({"bash": {"git *": "allow", "git push *": "deny"}}, "bash", "git pull", "allow"),
    ({"*": "deny", "bash": "allow"}, "bash", "x", "allow"),
    ({"bash": "allow", "*": "deny"}, "bash", "x", "deny"),
    ({"bash": "allow", "ba*": "deny"}, "bash", "x", "deny"),
    ({"bash": "allow", "*": {"rm *": "deny"}}, "bash", "rm x", "deny"),
    ({"bash": "allow", "*": {"rm *": "deny"}}, "bash", "ls", "allow"),
    # An action for everything; nothing that matches asks.
    ("allow", "bash", "x", "allow"),
    ("deny", "read", "x", "deny"),
    ("ask", "whatever", "x", "ask"),
    ({}, "bash", "x", "ask"),
    ({"edit": "allow"}, "bash", "x", "ask"),
    ({"bash": {}}, "bash", "x", "ask"),
    ({"bash": {"git *": "allow"}}, "bash", "ls", "ask"),
    # Names may have wildcards.
    ({"evolve_*": "deny"}, "evolve_hook_write", "persona.py", "deny"),
    ({"evolve_*": "deny", "evolve_hook_read": "allow"}, "evolve_hook_read", "persona.py", "allow"),
    ({"mcp_?": "deny"}, "mcp_10", "x", "ask"),
    # Paths.
    ({"edit": {"*": "deny", "src/*": "allow"}}, "edit", "src/a/b.py", "allow"),
    ({"edit": {"*": "deny", "src/*": "allow"}}, "edit", "lib/a.py", "deny"),
    ({"edit": {"*": "deny", "src/*": "allow"}}, "edit", "../src/a.py", "deny"),
    ({"external_directory": {"~/notes/*": "allow"}}, "external_directory", f"{HOME}/notes/*", "allow"),
    ({"external_directory": {"$HOME/notes/*": "allow"}}, "external_directory", f"{HOME}/notes/x", "allow"),
    ({"external_directory": {"~/*": "deny"}}, "external_directory", "/etc/*", "ask"),
    ({"read": {"~": "deny"}}, "read", HOME, "deny"),
    ({"read": {"$HOME": "deny"}}, "read", HOME, "deny"),
    ({"read": {"a~/b": "deny"}}, "read", "a~/b", "deny"),
    ({"read": {"~x/b": "deny"}}, "read", "~x/b", "deny"),
    ({"read": {"$HOMER": "deny"}}, "read", "$HOMER", "deny"),
]


@pytest.mark.parametrize(("block", "permission", "pattern", "expected"), CASES)
def test_a_configs_block_decides(block: Any, permission: str, pattern: str, expected: str) -> None:
    assert evaluate(permission, pattern, from_config(block)).action == expected
    assert decide([permission], [pattern], from_config(block)).action == expected


@pytest.mark.parametrize(
    ("permission", "pattern", "expected"),
    [
        ("bash", "rm -rf /", "allow"),
        ("read", "src/a.py", "allow"),
        ("read", ".env", "ask"),
        ("read", "a/.env", "ask"),
        ("read", ".env.local", "ask"),
        ("read", "a/prod.env", "ask"),
        ("read", ".env.example", "allow"),
        ("read", "a/.env.example", "allow"),
        ("read", ".environment", "allow"),
        ("edit", ".env", "allow"),
        ("external_directory", "/etc/*", "ask"),
        ("doom_loop", "bash", "ask"),
        ("a_plugins_tool", "*", "allow"),
    ],
)
def test_the_defaults_let_work_and_ask_about_secrets(permission: str, pattern: str, expected: str) -> None:
    assert evaluate(permission, pattern, DEFAULTS).action == expected


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [
        ([{"bash": "deny"}, {"bash": "allow"}], "allow"),
        ([{"bash": "allow"}, {"bash": "deny"}], "deny"),
        ([{"bash": {"ls": "deny"}}, {"*": "allow"}], "allow"),
        ([{"bash": {"ls": "deny"}}, {"edit": "allow"}], "deny"),
        ([{}, {"bash": {"l?": "allow"}}, {}], "allow"),
    ],
)
def test_a_later_set_of_rules_beats_an_earlier_one(blocks: list[Any], expected: str) -> None:
    assert evaluate("bash", "ls", *map(from_config, blocks)).action == expected


@pytest.mark.parametrize(
    ("permissions", "patterns", "block", "expected"),
    [
        (["bash"], ["ls", "rm x"], {"bash": {"*": "allow", "rm *": "deny"}}, "deny"),
        (["bash"], ["rm x", "ls"], {"bash": {"*": "allow", "rm *": "deny"}}, "deny"),
        (["bash"], ["ls", "cat x"], {"bash": {"*": "allow", "cat *": "ask"}}, "ask"),
        (["bash"], ["rm x", "cat x"], {"bash": {"*": "allow", "cat *": "ask", "rm *": "deny"}}, "deny"),
        (["bash"], ["ls", "pwd"], {"bash": {"*": "allow"}}, "allow"),
        (["bash"], ["ls", "pwd"], {"bash": {"ls": "allow"}}, "ask"),
        (["bash"], [], {"bash": {"*": "allow"}}, "allow"),
        (["bash"], [], {"bash": {"ls": "allow"}}, "ask"),
        # Aliases: a rule on any name is a rule on the tool, and the last of all counts.
        (["evolve_hook_write", "persona_hook_write"], ["a"], {"persona_hook_write": "deny"}, "deny"),
        (["evolve_hook_write", "persona_hook_write"], ["a"], {"evolve_hook_write": "deny"}, "deny"),
        (["evolve_x", "persona_x"], ["a"], {"evolve_x": "deny", "persona_x": "allow"}, "allow"),
        (["evolve_x", "persona_x"], ["a"], {"persona_x": "allow", "evolve_x": "deny"}, "deny"),
        (["evolve_x", "persona_x"], ["a"], {"persona_x": "deny", "*": "allow"}, "allow"),
        (["evolve_x", "persona_x"], ["a", "b"], {"evolve_x": "allow", "persona_x": {"b": "deny"}}, "deny"),
        (["evolve_x", "persona_x"], ["a"], {}, "ask"),
    ],
)
def test_the_most_severe_of_several_patterns_decides(
    permissions: list[str], patterns: list[str], block: Any, expected: str
) -> None:
    assert decide(permissions, patterns, from_config(block)).action == expected


def test_a_decision_without_a_rule_names_the_tools_own_permission() -> None:
    assert decide(["evolve_x", "persona_x"], ["a"]) == Rule(permission="evolve_x", pattern="*", action="ask")


@pytest.mark.parametrize(
    ("names", "block", "expected"),
    [
        (["bash"], {"bash": "deny"}, True),
        (["bash"], {"*": "deny"}, True),
        (["bash"], "deny", True),
        (["bash"], {"b*": "deny"}, True),
        (["bash"], {"bash": {"*": "deny"}}, True),
        (["bash"], {"bash": {"*": "deny", "ls": "allow"}}, False),
        (["bash"], {"bash": {"rm *": "deny"}}, False),
        (["bash"], {"bash": {"ls": "allow", "*": "deny"}}, True),
        (["bash"], {"bash": "deny", "*": "allow"}, False),
        (["bash"], {"*": "deny", "bash": "ask"}, False),
        (["bash"], {"edit": "deny"}, False),
        (["bash"], {}, False),
        (["edit"], {"edit": "deny"}, True),
        (["evolve_x", "persona_x"], {"persona_x": "deny"}, True),
        (["evolve_x", "persona_x"], {"evolve_x": "deny", "persona_x": "allow"}, False),
    ],
)
def test_a_tool_is_taken_away_when_its_last_rule_denies_everything(
    names: list[str], block: Any, expected: bool
) -> None:
    assert denied_outright(names, from_config(block)) is expected


# Exact patterns beside a wildcard, which stands first in one block and last in another.
AGENT_RULES = {
    "persona_trait_delete": "deny",
    "persona_note_list": "allow",
    "persona_trait_write": {"SOUL.md": "deny", "*": "allow"},
    "persona_data_update": {".people.json": "deny", "*": "allow"},
    "evolve_hook_write": {"persona.py": "allow", "*": "deny"},
    "evolve_hook_edit": {"persona.py": "allow", "*": "deny"},
}


@pytest.mark.parametrize(
    ("permission", "patterns", "expected"),
    [
        ("persona_trait_delete", ["*"], "deny"),
        ("persona_note_list", ["*"], "allow"),
        ("persona_trait_write", ["SOUL.md"], "deny"),
        ("persona_trait_write", ["MIND.md"], "allow"),
        ("persona_trait_write", ["MIND.md", "SOUL.md"], "deny"),
        ("persona_data_update", [".people.json"], "deny"),
        ("persona_data_update", ["people.json"], "allow"),
        ("evolve_hook_write", ["persona.py"], "allow"),
        ("evolve_hook_write", ["logger.py"], "deny"),
        ("evolve_hook_write", ["*"], "deny"),
        ("evolve_hook_edit", ["persona.py"], "allow"),
        ("evolve_hook_edit", ["persona.py", "logger.py"], "deny"),
    ],
)
def test_opencode_evolves_examples_decide_as_they_are_written(
    permission: str, patterns: list[str], expected: str
) -> None:
    rules = from_config(AGENT_RULES, exact_first=lambda name: name.startswith(("evolve_", "persona_")))
    assert decide([permission], patterns, rules).action == expected
    assert decide([permission], patterns, exact_over_wildcards(from_config(AGENT_RULES))).action == expected


def test_an_exact_pattern_beats_a_wildcard_only_where_it_is_asked_for() -> None:
    block = {"bash": {"ls": "deny", "*": "allow"}, "persona_x": {"ls": "deny", "*": "allow"}}
    rules = from_config(block, exact_first=lambda name: name == "persona_x")
    assert evaluate("bash", "ls", rules).action == "allow"
    assert evaluate("persona_x", "ls", rules).action == "deny"


def test_reordering_keeps_the_order_of_maps_of_wildcards_and_of_exact_patterns() -> None:
    rules = from_config(
        {"a": {"x": "deny", "*": "ask", "y": "allow", "b*": "deny"}, "b": {"z": "deny", "?": "ask"}}
    )
    found = [(rule.permission, rule.pattern) for rule in exact_over_wildcards(rules)]
    assert found == [("a", "*"), ("a", "b*"), ("a", "x"), ("a", "y"), ("b", "?"), ("b", "z")]


def test_a_tool_whose_map_ends_in_deny_is_still_offered_for_its_exact_pattern() -> None:
    assert denied_outright(["evolve_hook_write"], from_config(AGENT_RULES)) is True
    assert denied_outright(["evolve_hook_write"], exact_over_wildcards(from_config(AGENT_RULES))) is False


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (None, "permission: expected a map"),
        ([], "permission: expected a map"),
        (5, "permission: expected a map"),
        ("yes", r"permission.\*.\*: expected allow, ask or deny, not 'yes'"),
        ({"bash": "Allow"}, r"permission.bash.\*: expected allow, ask or deny, not 'Allow'"),
        ({"bash": True}, r"permission.bash.\*: .*not True"),
        ({"bash": None}, r"permission.bash.\*: .*not None"),
        ({"bash": ["ls"]}, r"permission.bash.\*: .*not \['ls'\]"),
        ({"bash": {"ls": {"x": "allow"}}}, r"permission.bash.ls: .*not \{'x': 'allow'\}"),
        ({"bash": {1: "allow"}}, "permission.bash: expected names and patterns to be text, not 1"),
        ({False: "allow"}, "permission.False: expected names and patterns to be text, not False"),
    ],
)
def test_a_block_with_a_mistake_names_its_key(block: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_config(block)


def test_a_hostile_pattern_takes_no_exponential_time() -> None:
    started = time.process_time()
    assert matches("a" * 100_000, "*a" * 50 + "b") is False
    assert matches("ab" * 20_000, "*ab?" * 30 + "*x *") is False
    assert time.process_time() - started < 0.5


@settings(deadline=None)
@given(st.text(alphabet="ab /*?\n", max_size=12), st.text(alphabet="ab /*?", max_size=8))
def test_matching_is_that_of_the_plain_definition(text: str, pattern: str) -> None:
    def plain(text: str, pattern: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return any(plain(text[at:], pattern[1:]) for at in range(len(text) + 1))
        return bool(text) and pattern[0] in ("?", text[0]) and plain(text[1:], pattern[1:])

    expected = plain(text, pattern) or (pattern.endswith(" *") and plain(text, pattern[:-2]))
    assert matches(text, pattern) is expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("allow", "allow"),
        ("ask", "ask"),
        ("deny", "deny"),
        ({"bash": {"**": "allow"}}, "allow"),
        ({"bash": {"git *": "allow"}}, "ask"),
        ({"bash": {"*": "ask", "*x*": "allow"}}, "ask"),
        ({"bash": {"*": "deny", "git *": "allow"}}, "deny"),
        ({"bash": {"*": "allow", "git *": "allow"}}, "allow"),
        ({"bash": {"*": "allow", "rm *": "deny"}}, "ask"),
        ({"bash": {"*": "allow", "rm *": "ask"}}, "ask"),
        ({"bash": {"*": "deny", "rm *": "ask"}}, "deny"),
        ({"bash": {"rm *": "deny", "*": "allow"}}, "allow"),
        ({"*": "allow", "bash": {"rm *": "deny"}}, "ask"),
        ({"bash": {"rm *": "deny"}, "*": "allow"}, "allow"),
        ({"bash": "allow", "edit": {"*.lock": "deny"}}, "allow"),
        ({"bash": "allow", "ba*": {"rm *": "deny"}}, "ask"),
    ],
)
def test_a_text_in_doubt_is_asked_about_where_some_texts_are_not_allowed(block: Any, expected: str) -> None:
    assert decide(["bash"], [f"{DOUBT}eval $x"], from_config(block)).action == expected
