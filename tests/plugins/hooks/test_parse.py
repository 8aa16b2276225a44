"""Files of rules in both dialects: what is read, and what is said of the rest."""

import json

import pytest
from tests.plugins.hooks.making import read

from instar.plugin import document
from instar.plugins.hooks.rule import AgentRule, CommandRule, HttpRule, PromptRule

SEED = """{
  "stop": [
    {
      "matcher": "*",
      "hooks": [
        {
          "type": "agent",
          "prompt": "Read TASKS.json and verify every pending item has been addressed. Respond with ALLOW or DENY plus any remaining items.",
          "model": "claude-sonnet-4-6",
          "tools": ["file_editor", "terminal"],
          "timeout": 60
        }
      ]
    }
  ]
}
"""  # noqa: E501 - as it stands in the source
"""The configuration of the request for agent hooks in OpenHands."""


def text(source: str, dialect: str = "instar"):
    data = document.parse_jsonc(source, "hooks.json")
    return read(data, dialect, place=lambda keys: document.locate(source, keys))


@pytest.mark.parametrize("dialect", ["instar", "openhands"])
def test_the_example_of_an_agent_rule_is_understood_whole(dialect):
    found = text(SEED, dialect)
    (rule,) = found.rules
    assert not found.problems
    assert (rule.event, rule.evaluator, rule.timeout, rule.line) == ("Stop", "agent", 60.0, 6)
    assert isinstance(rule.settings, AgentRule)
    assert rule.settings.prompt.startswith("Read TASKS.json and verify every pending item")
    assert rule.settings.model == "claude-sonnet-4-6"
    assert rule.settings.tools == ("file_editor", "terminal")
    assert not rule.settings.write
    assert not rule.settings.network


def test_a_settings_file_of_claude_code_is_taken_as_it_stands():
    found = text(
        """{
          "$schema": "https://json.schemastore.org/claude-code-settings.json",
          "permissions": {"allow": ["Bash(npm run lint)"], "deny": ["Read(./.env)"]},
          "env": {"FOO": "bar"}, "model": "opus", "statusLine": {"type": "command", "command": "x"},
          "hooks": {
            "PreToolUse": [
              {"matcher": "Bash", "hooks": [
                {"type": "command", "if": "Bash(rm *)", "command": "\\"$CLAUDE_PROJECT_DIR\\"/.claude/hooks/rm.sh"},
                {"type": "command", "command": "node", "args": ["${CLAUDE_PROJECT_DIR}/check.js"], "statusMessage": "…"}
              ]},
              {"matcher": "Edit|Write", "hooks": [{"type": "http", "url": "http://localhost:8080/hooks/pre",
                "timeout": 30, "headers": {"Authorization": "Bearer $MY_TOKEN"}, "allowedEnvVars": ["MY_TOKEN"]}]},
              {"matcher": "mcp__memory__.*", "hooks": [{"type": "command", "command": "echo x >> ~/log"}]}
            ],
            "Stop": [{"hooks": [{"type": "prompt", "prompt": "Is it done? $ARGUMENTS", "timeout": 30}]}],
            "PostToolUse": [{"hooks": [{"type": "agent", "prompt": "Do the tests pass? $ARGUMENTS", "timeout": 120}]}],
            "SessionStart": [{"matcher": "startup|resume", "hooks": [
              {"type": "command", "command": "./context.sh", "async": true}]}]
          }
        }""",
        "claude",
    )
    assert not found.problems
    events = [(rule.event, rule.evaluator, rule.matcher, rule.timeout) for rule in found.rules]
    assert events == [
        ("PreToolUse", "command", "Bash", 600),
        ("PreToolUse", "command", "Bash", 600),
        ("PreToolUse", "http", "Edit|Write", 30),
        ("PreToolUse", "command", "mcp__memory__.*", 600),
        ("Stop", "prompt", "", 30),
        ("PostToolUse", "agent", "", 120),
        ("SessionStart", "command", "startup|resume", 600),
    ]
    first, second, request, *_ = found.rules
    assert first.condition == "Bash(rm *)"
    assert second.settings == CommandRule("node", ("${CLAUDE_PROJECT_DIR}/check.js",))
    assert request.settings == HttpRule(
        "http://localhost:8080/hooks/pre", {"Authorization": "Bearer $MY_TOKEN"}, ("MY_TOKEN",)
    )
    assert found.rules[-1].background


def test_a_hooks_file_of_openhands_is_taken_as_it_stands():
    found = text(
        """{
          "pre_tool_use": [{"matcher": "terminal", "hooks": [
            {"type": "command", "command": ".openhands/hooks/block.sh", "timeout": 10}]}],
          "post_tool_use": [{"matcher": "*", "hooks": [{"command": "log.sh", "async": true, "name": "log"}]}],
          "user_prompt_submit": [{"hooks": [{"type": "prompt", "prompt": "No secrets.", "timeout": 20}]}],
          "session_start": [{"hooks": [{"command": "a"}]}], "session_end": [{"hooks": [{"command": "b"}]}],
          "stop": [{"hooks": [
            {"type": "agent", "system_prompt": "You check.", "tools": ["file_editor"], "max_iterations": 3}]}]
        }""",
        "openhands",
    )
    assert not found.problems
    assert [rule.event for rule in found.rules] == [
        *("PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "SessionEnd", "Stop"),
    ]
    assert found.rules[1].label == "log (hooks.json:4:56)"
    assert found.rules[2].settings == PromptRule("No secrets.")
    assert isinstance(found.rules[5].settings, AgentRule)
    assert (found.rules[5].settings.system_prompt, found.rules[5].settings.max_iterations) == (
        "You check.",
        3,
    )


@pytest.mark.parametrize(("wrapped", "dialect"), [(True, "instar"), (False, "instar"), (True, "claude")])
@pytest.mark.parametrize("name", ["PreToolUse", "pre_tool_use"])
def test_both_spellings_of_an_event_with_the_wrapper_or_without(name, wrapped, dialect):
    events = {name: [{"hooks": [{"command": "x"}]}], "Stop": [{"hooks": [{"command": "y"}]}]}
    found = read({"hooks": events} if wrapped else events, dialect)
    assert ([rule.event for rule in found.rules], found.problems) == (["PreToolUse", "Stop"], [])


def test_both_spellings_of_one_event_join():
    group = [{"hooks": [{"command": "x"}]}]
    assert len(read({"PreToolUse": group, "pre_tool_use": group}).rules) == 2


ARMED = {"hooks": [{"command": "guard.sh"}]}


@pytest.mark.parametrize(
    ("events", "place", "says"),
    [
        ({"PreTolUse": [ARMED]}, "hooks.PreTolUse", "there is no such event; did you mean PreToolUse?"),
        ({"before": [ARMED]}, "hooks.before", "known are PreToolUse, PostToolUse,"),
        ({"TaskCreated": [ARMED]}, "hooks.TaskCreated", "there is no such event; "),
        ({"Stop": ARMED}, "hooks.Stop", "expected a list of groups, found {"),
        ({"Stop": ["x"]}, "hooks.Stop.0", 'expected {"matcher": …, "hooks": […]}, found'),
        ({"Stop": [{"command": "x"}]}, "hooks.Stop.0.hooks", 'expected "hooks": [rule, …], found None'),
        ({"Stop": [{"hooks": "x"}]}, "hooks.Stop.0.hooks", 'expected "hooks": [rule, …], found'),
        ({"Stop": [{"hooks": ["x"]}]}, "hooks.Stop.0.hooks.0", "expected a rule (a map), found 'x'"),
        ({"Stop": [{"matcher": 3, **ARMED}]}, "hooks.Stop.0.matcher", "Expected `str`, got `int`"),
        ({"Stop": [{"matcher": "(", **ARMED}]}, "hooks.Stop.0.matcher", "is no regular expression"),
        ({"Stop": [{"matcher": "a{9}{999}", **ARMED}]}, "hooks.Stop.0.matcher", "at most 1000 repeats"),
        (
            {"Stop": [{"matcher": "." * 501, **ARMED}]},
            "hooks.Stop.0.matcher",
            "expected at most 500 characters",
        ),
        (
            {"Stop": [{"hooks": [{"type": "comand"}]}]},
            "hooks.Stop.0.hooks.0.type",
            "expected one of command, http",
        ),
        (
            {"Stop": [{"hooks": [{"type": "mcp_tool"}]}]},
            "hooks.Stop.0.hooks.0.type",
            "found 'mcp_tool'; the rule",
        ),
        ({"Stop": [{"hooks": [{"type": ["x"]}]}]}, "hooks.Stop.0.hooks.0.type", "expected one of"),
        ({"Stop": [{"hooks": [{}]}]}, "hooks.Stop.0.hooks.0.command", "it is not there"),
        (
            {"Stop": [{"hooks": [{"command": ""}]}]},
            "hooks.Stop.0.hooks.0.command",
            "Expected `str` of length >= 1",
        ),
        ({"Stop": [{"hooks": [{"type": "prompt"}]}]}, "hooks.Stop.0.hooks.0.prompt", "it is not there"),
        (
            {"Stop": [{"hooks": [{"type": "agent", "prompt": 1}]}]},
            "hooks.Stop.0.hooks.0.prompt",
            "got `int`",
        ),
        (
            {"Stop": [{"hooks": [{"type": "http", "url": "ftp://x"}]}]},
            "hooks.Stop.0.hooks.0.url",
            "matching regex '^https?://'",
        ),
        (
            {"Stop": [{"hooks": [{"command": "x", "args": "y"}]}]},
            "hooks.Stop.0.hooks.0.args",
            "Expected `array | null`, got `str`",
        ),
        (
            {"Stop": [{"hooks": [{"command": "x", "shell": "powershell"}]}]},
            "hooks.Stop.0.hooks.0.shell",
            "expected bash or sh",
        ),
        (
            {"PreToolUse": [{"hooks": [{"command": "x", "if": "Bash(("}]}]},
            "hooks.PreToolUse.0.hooks.0.if",
            "permission rule",
        ),
        (
            {"PreToolUse": [{"hooks": [{"command": "x", "if": 1}]}]},
            "hooks.PreToolUse.0.hooks.0.if",
            "Expected `str`, got `int`",
        ),
    ],
)
def test_what_is_not_understood_is_named_and_its_neighbours_hold(events, place, says):
    neighbour = {"PostToolUse": [{"hooks": [{"command": "neighbour.sh"}]}]}
    source = json.dumps({"hooks": {**neighbour, **events}}, indent=1)
    found = text(source)
    assert [rule.event for rule in found.rules] == ["PostToolUse"]
    (fault,) = found.problems
    assert f" {place}: " in fault
    assert says in fault
    keys = [int(key) if key.isdigit() else key for key in place.split(".")]
    assert fault.startswith("hooks.json:{}:{}: ".format(*document.locate(source, keys)))


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"timout": 5}, "means nothing for a rule of type command; did you mean timeout?"),
        ({"timeout": 0}, "Expected `float` > 0.0; it counts as not set"),
        ({"timeout": -1}, "Expected `float` > 0.0"),
        ({"timeout": "5"}, "Expected `float`, got `str`"),
        ({"timeout": True}, "Expected `float`, got `bool`"),
        ({"timeout": 1e300}, "Expected `float` <= 86400.0"),
        ({"async": "yes"}, "Expected `bool`, got `str`; it counts as not set"),
        ({"name": 5}, "Expected `str`, got `int`"),
        ({"tools": ["bash"]}, "means nothing for a rule of type command"),
        ({"on_error": ""}, "Invalid enum value '', expected allow or deny; it counts as \"deny\""),
        ({"on_error": "block"}, "Invalid enum value 'block', expected allow or deny; it counts as \"deny\""),
    ],
)
def test_a_guard_holds_without_a_key_that_is_not_understood(keys, says):
    found = read({"PreToolUse": [{"hooks": [{"command": "guard.sh", **keys}]}]})
    (rule,) = found.rules
    (fault,) = found.problems
    assert says in fault
    assert rule.timeout == 60
    assert rule.on_error == ("deny" if "on_error" in keys else None)


def test_an_unknown_key_of_a_group_is_named_and_its_rules_hold():
    found = read({"PreToolUse": [{"matchr": "Bash", "hooks": [{"command": "guard.sh"}]}]})
    assert [rule.matcher for rule in found.rules] == [""]
    assert "did you mean matcher?" in found.problems[0]


def test_an_agents_tools_that_cannot_be_read_allow_none():
    found = read({"Stop": [{"hooks": [{"type": "agent", "prompt": "p", "tools": "bash", "write": "true"}]}]})
    settings = found.rules[0].settings
    assert isinstance(settings, AgentRule)
    assert (settings.tools, settings.write, len(found.problems)) == ((), False, 2)


def test_if_on_an_event_without_a_tool_is_said_to_never_run():
    found = read({"Stop": [{"hooks": [{"command": "x", "if": "Bash(git *)"}]}]})
    assert "Stop has no tool, so the rule never runs" in found.problems[0]


@pytest.mark.parametrize("data", [[], "x", None, 3, {"hooks": []}, {"hooks": "x"}])
def test_a_value_that_is_no_map_of_events_is_one_fault(data):
    found = read(data)
    assert (found.rules, len(found.problems)) == ([], 1)


def test_events_of_a_claude_code_file_outside_hooks_are_said_not_to_be_heard():
    found = read({"model": "opus", "PreToolUse": [ARMED]}, "claude")
    assert (found.rules, 'inside "hooks"' in found.problems[0]) == ([], True)
    assert not read({"model": "opus"}, "claude").problems


def test_rules_beyond_the_bound_are_named_once():
    found = read({"Stop": [{"hooks": [{"command": "x"}] * 500}]})
    assert len(found.rules) == 200
    assert found.problems == [
        "hooks.json: more than 200 rules in one file: x (hooks.json) and those after it are not armed"
    ]


def test_an_agents_own_rules_hold_for_it_and_stop_means_that_it_stops():
    found = read({"Stop": [ARMED]}, agent="reviewer")
    assert [(rule.event, rule.agent) for rule in found.rules] == [("SubagentStop", "reviewer")]


@pytest.mark.parametrize(
    ("dialect", "event", "keys", "seconds"),
    [
        ("instar", "PreToolUse", {"command": "x"}, 60),
        ("openhands", "PreToolUse", {"command": "x"}, 60),
        ("claude", "PreToolUse", {"command": "x"}, 600),
        ("claude", "UserPromptSubmit", {"command": "x"}, 30),
        ("claude", "PreToolUse", {"type": "http", "url": "http://x"}, 600),
        ("instar", "Stop", {"type": "prompt", "prompt": "p"}, 30),
        ("openhands", "Stop", {"type": "prompt", "prompt": "p"}, 30),
        ("instar", "Stop", {"type": "agent", "prompt": "p"}, 60),
        ("openhands", "Stop", {"type": "agent", "prompt": "p"}, 60),
        ("claude", "Stop", {"type": "agent", "prompt": "p"}, 60),
        ("claude", "Stop", {"type": "agent", "prompt": "p", "timeout": 0.5}, 0.5),
    ],
)
def test_a_rule_that_says_no_timeout_has_its_dialects(dialect, event, keys, seconds):
    assert read({"hooks": {event: [{"hooks": [keys]}]}}, dialect).rules[0].timeout == seconds
