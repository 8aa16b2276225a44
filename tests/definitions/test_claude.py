"""What Claude Code's lists of tools mean as rules: never more than they say."""

import pytest

from instar.definitions.claude import denied, granted, named_model


@pytest.mark.parametrize(
    ("written", "rules"),
    [
        ("Bash(git add:*), Read", [("bash", "git add *"), ("read", "*")]),
        ("Bash(git:*) Bash(jq .) Glob", [("bash", "git *"), ("bash", "jq ."), ("glob", "*")]),
        (["Bash(npm run test)", "WebFetch(domain:example.org)"], [("bash", "npm run test"), ("webfetch", "https://example.org/*")]),
        ("Edit(./src/**), Write(notes.md)", [("edit", "src/*"), ("edit", "notes.md")]),
        ("mcp__plugin_weather_near__now mcp__files", [("weather_near_now", "*"), ("files_*", "*")]),
        # A part of what is not understood counts for nothing.
        ("Bash(echo $(Bash) Read", []),
        ("Bash(a)b, Bash)", []),
        ("*", []),
        ("e* b* *", []),
        ("external_directory, doom_loop, keep, mcp__external__directory, mcp__external, mcp__*, mcp__e*", []),
        ("bash(ls), Bash*", [("bash", "ls")]),
        ("Edit(/etc/**), Edit(../x), Read(~/.ssh/*), WebFetch(url:x)", []),
        (None, []),
        (True, []),
        ([1, {"Bash": True}], []),
    ],
)  # fmt: skip
def test_what_is_allowed_unasked(written: object, rules: list[tuple[str, str]]) -> None:
    assert [(rule.permission, rule.pattern) for rule in granted(written)] == rules


def test_brackets_in_brackets_stay_one_pattern() -> None:
    (rule,) = granted("Bash(git commit -m $(cat x):*)")
    assert rule.pattern == "git commit -m $(cat x) *"


def test_an_agent_is_denied_the_tools_that_it_does_not_name() -> None:
    assert {"bash", "edit", "webfetch"} <= denied("Read, Grep", None).keys()
    assert denied("*", "Bash, Edit") == {"bash": "deny", "edit": "deny"}
    assert denied(None, None) == {}


@pytest.mark.parametrize(
    ("written", "model"),
    [("sonnet", None), ("opus[1m]", None), ("inherit", None), ("a/b", "a/b"), ("claude-x-1", "claude-x-1"), (3, None)],
)  # fmt: skip
def test_the_name_of_a_vendors_newest_model_leaves_the_conversations(
    written: object, model: str | None
) -> None:
    assert named_model(written) == model
