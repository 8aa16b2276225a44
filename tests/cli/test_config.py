import json
import re
import subprocess
import sys

import jsonschema
import msgspec
import pytest

from instar.settings.builtin_plugins import sections
from instar.settings.config import Config

# -- show --------------------------------------------------------------------------------------------


def test_show_tells_of_each_value_where_it_was_written(machine):
    home = machine.write_home("instar.json", '{"model": "a/b", "agent": {"build": {"temperature": 1}}}')
    project = machine.write("opencode.json", '{"model": "c/d"}')
    machine.environment["INSTAR_CONFIG_CONTENT"] = '{"username": "Ada"}'
    shown = machine.instar("config", "show").stdout.splitlines()
    assert f'model = "c/d"  ({project})' in shown
    assert f"agent.build.temperature = 1  ({home})" in shown
    assert 'username = "Ada"  ($INSTAR_CONFIG_CONTENT)' in shown
    assert "max_iterations = 40  (default)" in shown


def test_show_of_a_key_prints_what_stands_under_it(machine):
    machine.write("instar.json", '{"model": "a/b", "limits": {"steps": 3, "day": {"cost": 1}}}')
    machine.instar("trust")
    shown = machine.instar("config", "show", "limits").stdout.splitlines()
    assert [line.partition(" ")[0] for line in shown] == ["limits.steps", "limits.day.cost"]


def test_show_of_a_key_that_trust_left_out_says_so(machine):
    machine.write("instar.json", '{"limits": {"steps": 3}}')
    done = machine.instar("config", "show", "limits")
    assert done.returncode == 1
    assert done.stderr.startswith("instar: limits is not set; left out, not trusted: ")


def test_show_names_the_nearest_key_for_one_that_is_not_there(machine):
    done = machine.instar("config", "show", "modle")
    assert (done.returncode, done.stderr) == (1, "instar: modle is not set; did you mean model?\n")


def test_show_as_json_has_settings_origins_and_what_was_left_out(machine):
    path = machine.write(
        "opencode.json", '{"model": "a/b", "plugin": ["x"], "instructions": ["A.md", "B.md"]}'
    )
    machine.instar("trust")
    told = json.loads(machine.instar("config", "show", "--json").stdout)
    assert told["config"]["model"] == "a/b"
    assert told["config"]["instructions"] == ["A.md", "B.md"]
    assert told["origins"]["plugin.0"] == str(path)
    assert told["left_out"] == []


def test_show_tells_what_guards_with_its_origin_and_the_rest_of_it_as_a_default(machine):
    home = machine.write_home("instar.json", '{"evolve": {"frozen": true}, "shield": {"env": ["GH_TOKEN"]}}')
    shown = machine.instar("config", "show").stdout.splitlines()
    assert f"evolve.frozen = true  ({home})" in shown
    assert f'shield.env = ["GH_TOKEN"]  ({home})' in shown
    assert {'evolve.sandbox = "auto"  (default)', 'shield.level = "auto"  (default)'} <= set(shown)
    told = json.loads(machine.instar("config", "show", "--json").stdout)
    assert (told["config"]["evolve"]["frozen"], told["origins"]["evolve.unsafe"]) == (True, "default")


def commanded(machine, command):
    """What a command of the model's printed."""
    call = json.dumps({"command": command})
    machine.script(f"== turn\ntool: bash {call}\n== turn\ntext: {{{{last.tool.output}}}}\n")
    return machine.run("--auto", "hi").stdout


@pytest.mark.slow
def test_a_variable_that_looks_like_a_secret_reaches_a_command_only_where_the_person_says_so(machine):
    machine.environment["GH_TOKEN"] = "handed-on"
    assert "handed-on" not in commanded(machine, "printenv GH_TOKEN")
    machine.write("instar.json", '{"shield": {"env": ["GH_TOKEN"]}}')
    assert "handed-on" not in commanded(machine, "printenv GH_TOKEN")
    machine.instar("trust")
    assert "handed-on" in commanded(machine, "printenv GH_TOKEN")


def test_the_shield_is_put_off_only_where_the_person_says_so(machine):
    machine.instar("trust")
    kept = machine.home / ".local/share/instar/trust.json"
    machine.write_home("instar.json", '{"shield": {"level": "none"}}')
    assert str(machine.project) in commanded(machine, f"cat {kept}")


def test_a_mistake_in_what_guards_stops_a_run_with_its_place(machine):
    path = machine.write("instar.json", '{\n  "evolve": {"snadbox": "require"}\n}')
    done = machine.run("hello")
    assert done.returncode == 2
    assert f"{path}:2:25: evolve.snadbox: there is no such setting; did you mean sandbox?" in done.stderr


def test_show_says_what_was_left_out_because_the_folder_is_not_trusted(machine):
    machine.write("opencode.json", '{"plugin": ["./mine.py"], "model": "a/b"}')
    shown = machine.instar("config", "show").stdout
    assert re.search(r"^left out, not trusted: .*plugin", shown, re.MULTILINE)
    assert "mine.py" not in shown.partition("left out")[0]


SECRETS = {
    "a key": '{"provider": {"p": {"options": {"apiKey": "tell-nobody"}}}}',
    "a key of a variable": '{"provider": {"p": {"options": {"apiKey": "{env:MINE}"}}}}',
    "a key beside a variable": '{"provider": {"p": {"options": {"apiKey": "tell-nobody{env:NONE}"}}}}',
    "a header": '{"provider": {"p": {"headers": {"X-Team": "tell-nobody"}}}}',
    "a header of a variable": '{"mcp": {"m": {"url": "http://x", "headers": {"X": "Bearer {env:MINE}"}}}}',
    "an environment": '{"mcp": {"m": {"command": ["x"], "environment": {"PIN": "tell-nobody"}}}}',
    "an argument of a variable": '{"mcp": {"m": {"command": ["x", "--pin", "{env:MINE}"]}}}',
    "a file": '{"username": "{file:key.txt}"}',
    "an address": '{"mcp": {"m": {"url": "https://me:tell-nobody@example.com/"}}}',
    "a plugin's option": '{"plugin": [["x", {"pin": "{env:MINE}"}]]}',
    "an option called token": '{"plugin": [["x", {"token": "tell-nobody"}]]}',
    "an instruction": '{"instructions": ["{file:key.txt}"]}',
}


@pytest.mark.slow
@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("place", ["file", "variable"])
def test_show_prints_no_secret(machine, text, place):
    machine.write("key.txt", "tell-nobody")
    machine.environment["MINE"] = "tell-nobody"
    if place == "file":
        machine.write("instar.json", text)
    else:
        machine.environment["INSTAR_CONFIG_CONTENT"] = text
    machine.instar("trust")
    for arguments in ([], ["--json"]):
        done = machine.instar("config", "show", *arguments)
        assert done.returncode == 0, done.stderr
        assert next(iter(json.loads(text))) in done.stdout
        assert "tell-nobody" not in done.stdout + done.stderr


def test_show_masks_a_known_key_wherever_a_definition_file_repeats_it(machine):
    machine.environment["OPENAI_API_KEY"] = "tell-nobody"
    machine.write_home("agent/x.md", "---\ndescription: uses tell-nobody\n---\nHello")
    shown = machine.instar("config", "show", "agent.x.description").stdout
    assert '"uses ***"' in shown


def test_show_of_settings_with_a_mistake_is_one_line(machine):
    machine.write("instar.json", '{"model": 3}')
    done = machine.instar("config", "show")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"instar: {machine.project}/instar.json:1:11: model: expected a string, found an integer\n"
    )


# -- check -------------------------------------------------------------------------------------------


def test_check_of_settings_without_a_mistake_is_one_line(machine):
    machine.write("instar.json", '{"model": "scripted/echo"}')
    done = machine.instar("config", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"all is well: 1 source of settings for {machine.project}\n"


def test_check_names_every_mistake_of_every_file_with_its_place(machine):
    home = machine.write_home("instar.json", '{\n  "limits": []\n}')
    project = machine.write(
        "opencode.json", '{"model": 3,\n "mcp": {"z": {"timeout": -1}},\n "agent": {"a": {"maxSteps": "x"}}}'
    )
    broken = machine.write(".instar/instar.jsonc", '{"model": }')
    agent = machine.write(".instar/agent/x.md", "---\nmode: sometimes\n---\nHello")
    machine.environment["INSTAR_CONFIG_CONTENT"] = '{"permission": "perhaps"}'
    done = machine.instar("config", "check")
    assert (done.returncode, done.stdout) == (2, "")
    told = done.stderr.splitlines()
    for start in (
        f"instar: {home}:2:13: limits: expected a map",
        f"instar: {project}:1:11: model: expected a string",
        f"instar: {project}:2:27: mcp.z.timeout: expected an integer >= 1",
        f"instar: {project}:3:17: agent.a.steps: expected an integer",
        f"instar: {broken}:1:11: ",
        f"instar: {agent}:2: mode: expected one of",
        "instar: $INSTAR_CONFIG_CONTENT:1:16: permission: expected allow, ask or deny",
    ):
        assert sum(line.startswith(start) for line in told) == 1, start
    assert len(told) == 7


NAMED = {
    '{"model": "openai/gpt-nothing"}': "1:11: model: unknown model",
    '{"small_model": "nobody/x"}': "1:17: small_model: unknown provider",
    '{"agent": {"a": {"model": "nobody/x"}}}': "1:27: agent.a.model: unknown provider",
    '{"agent": {"a": {"model": "no-such"}}}': "1:27: agent.a.model: the agent 'a' cannot be used",
    '{"default_agent": "biuld"}': "1:19: default_agent: there is no agent 'biuld'; there are: build",
    '{"command": {"c": {"template": "t", "agent": "biuld"}}}': "1:46: command.c.agent: there is no agent",
    '{"command": {"c": {"template": "t", "model": "nobody/x"}}}': "1:46: command.c.model: unknown provider",
    '{"command": {"c": {"description": "t"}}}': "1:19: the command c cannot be used",
    '{"limits": {"steps": -1}}': "1:22: limits.steps must be a number above 0",
    '{"limits": {"stepps": 1}}': "1:23: limits.stepps: there is no such setting; did you mean steps?",
    '{"limits": {"day": {"cots": 1}}}': "1:29: limits.day.cots: there is no such setting; did you mean cost?",
    '{"compaction": {"atuo": false}}': "1:25: compaction.atuo: there is no such setting; did you mean auto?",
    '{"permision": {"bash": "deny"}}': "1:15: permision: there is no such setting; did you mean permission?",
    '{"limts": {"steps": 1}}': "1:11: limts: there is no such setting; did you mean limits?",
    '{"modle": "x"}': "1:11: modle: there is no such setting; did you mean model?",
    '{"agent": {"a": {"permissions": {"bash": "deny"}}}}': "agent.a.permissions: there is no such setting; did",
    '{"agent": {"build": {"tool": {"bash": false}}}}': "agent.build.tool: there is no such setting; did you mean",
    '{"agent": {"plan": {"disabled": true}}}': "agent.plan.disabled: there is no such setting; did you",
    '{"agent": {"a": {"temperatur": 1}}}': "agent.a.temperatur: there is no such setting; did you",
    '{"command": {"c": {"template": "t", "agnet": "plan"}}}': "command.c.agnet: there is no such setting; did",
    '{"provider": {"openai": {"options": {"baseUrl": "x"}}}}': "options.baseUrl: there is no such setting; did",
    '{"agent": {"a": {"mode": "sub"}}}': "1:26: agent.a.mode: expected one of subagent, primary, all, found 'sub'",
    '{"mcp": {"m": {"type": "local"}}}': "1:15: mcp.m.command is missing",
    '{"mcp": {"m": {"type": "remote", "url": "x"}}}': "1:15: mcp.m.url is missing or is no http",
    '{"mcp": {"m": {"type": "stdio", "command": ["x"]}}}': "1:24: mcp.m.type: expected one of local, remote",
    '{"mcp": {"m": {"command": ["x", "y"], "timeout": 5}}}': "1:15: mcp.m.type is missing",
    '{"plugin": ["./gone.py"]}': "1:12: plugin: there is no file",
    '{"username": "{file:missing.txt}"}': "expected a file that {file:missing.txt} can read",
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "expected"), NAMED.items(), ids=NAMED)
def test_check_names_what_is_referred_to_and_is_not_there(machine, text, expected):
    path = machine.write("instar.json", text)
    machine.instar("trust")
    done = machine.instar("config", "check")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("note: ")]
    assert line.startswith(f"instar: {path}:")
    assert expected in line


NOTED = {
    '{"instructions": ["https://example.com/a.md"]}': "1:18: instructions: https://example.com/a.md is not fetched",
    '{"mcp": {"m": {"type": "local", "command": ["no-such"]}}}': "1:44: mcp.m.command: there is no program no-such",
    '{"plugin": ["no-such-plugin@1.0"]}': "1:12: plugin: there is no Python module 'no-such-plugin@1.0'; it is taken",
    '{"permission": {"bsah": "ask"}}': "1:25: no tool is called bsah; did you mean bash?",
    '{"tools": {"webfetc": false}}': "1:23: no tool is called webfetc; did you mean webfetch?",
    '{"agent": {"a": {"permission": {"edti": {"*": "ask"}}}}}': "1:41: no tool is called edti; did you mean edit?",
    '{"telemetry": true}': "1:15: telemetry: nothing reads this",
    '{"theme": "dark"}': "1:11: theme has no effect: it is for opencode's own interface",
    '{"share": "auto"}': "1:11: share has no effect: instar shares no session",
    '{"experimental": {"batch_tool": true, "continue_loop_on_deny": true}}': (
        "1:33: experimental.batch_tool has no effect: a model calls several tools in one answer"
    ),
    '{"provider": {"x": {"npm": "@ai-sdk/openai", "models": {"m": {"family": "y"}}}}}': (
        "provider.x.models.m.family has no effect: nothing depends on it"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "expected"), NOTED.items(), ids=NOTED)
def test_check_notes_what_does_nothing_and_that_is_no_mistake(machine, text, expected):
    path = machine.write("instar.json", text)
    machine.instar("trust")
    done = machine.instar("config", "check")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"no mistake: 1 source of settings for {machine.project}\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"note: {path}:")
    assert expected in line


QUIET = [
    {"share": "disabled", "autoshare": False, "autoupdate": False, "$schema": "x"},
    {"formatter": True, "lsp": {"pyright": {"disabled": True}}, "watcher": {"ignore": ["a"]}},
    {"permission": {"own_greet": "ask", "mymcp_*": "deny", "websearch": "ask", "doom_loop": "deny"}},
    {"mcp": {"bahs": {"enabled": False}}, "permission": {"bahs_x": "ask"}},
    {"plugin": ["evolve", "opencode-evolve@1.2", "json"]},
]


@pytest.mark.parametrize("data", QUIET, ids=json.dumps)
def test_check_says_nothing_of_what_is_opencodes_or_may_be_a_servers(machine, data):
    machine.write("opencode.json", json.dumps(data))
    machine.instar("trust")
    done = machine.instar("config", "check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("all is well")


def test_check_notes_formatters_of_yours_where_nobody_trusted_the_folder(machine):
    path = machine.write_home("instar.json", '{"formatter": true, "lsp": false}')
    done = machine.instar("config", "check")
    why = f"formatter runs nothing here: nobody trusted the folder (instar trust {machine.project})"
    assert (done.returncode, done.stderr) == (0, f"note: {path}:1:15: {why}\n")


def test_a_run_says_once_that_a_key_was_most_likely_mistyped_and_goes_on(machine):
    path = machine.write("instar.json", '{"modle": "x", "telemetry": true, "theme": "dark"}')
    machine.instar("trust")
    done = machine.instar("run", "-m", "scripted/echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    expected = f"instar: {path}:1:11: modle: there is no such setting; did you mean model?"
    assert [line for line in done.stderr.splitlines() if "instar.json" in line] == [expected]


def test_check_names_the_line_of_an_agent_file_whose_model_is_not_there(machine):
    path = machine.write_home("agent/x.md", "---\ndescription: d\nmodel: nobody/x\n---\nHello")
    assert f"instar: {path}:3: agent.x.model: unknown provider" in machine.instar("config", "check").stderr


def test_check_names_a_skill_with_a_mistake(machine):
    path = machine.write(".opencode/skill/s/SKILL.md", "---\nname: [\n---\nHello")
    assert f"instar: {path}:" in machine.instar("config", "check").stderr


def test_check_names_a_file_that_cannot_be_read_and_the_mistakes_of_others(machine):
    (machine.project / "instar.json").mkdir()
    home = machine.write_home("instar.json", '{"model": 3}')
    told = machine.instar("config", "check").stderr
    assert (
        f"{machine.project}/instar.json:1:1: expected a readable file: Is a directory; make it one, or move"
        in told
    )
    assert f"{home}:1:11: model" in told


def test_check_loads_no_plugin(machine):
    machine.instar("trust")
    machine.write(".instar/plugin/mine.py", "open('ran', 'w')")
    assert machine.instar("config", "check").returncode == 0
    assert not (machine.project / "ran").exists()


# -- schema ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schema():
    done = subprocess.run(
        [sys.executable, "-m", "instar", "config", "schema"], capture_output=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_the_schema_is_one(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


def test_the_schema_describes_every_key_and_no_other(schema):
    fields = {field.name for field in msgspec.structs.fields(Config)} - {"data", "foreign", "asked"}
    fields |= set(sections())
    assert set(schema["properties"]) - {"$schema"} == fields
    assert all(schema["properties"][name]["description"] for name in fields)


GOOD = [
    {"$schema": "https://opencode.ai/config.json", "model": "a/b", "theme": "dark"},
    {"permission": {"edit": "ask", "bash": {"git *": "allow"}, 'bash "ls"': "deny"}},
    {"permission": "allow", "plugin": ["evolve", ["x", {"a": 1}]]},
    {"agent": {"a": {"maxSteps": 3, "reasoningEffort": "high", "permission": {"edit": "deny"}}}},
    {"mcp": {"m": {"type": "local", "command": ["x"]}, "n": {"enabled": False}}},
    {"shield": {"level": "landlock", "env": ["GH_TOKEN"]}, "evolve": {"sandbox": "require", "pins": ["a"]}},
    {"storage": {"durability": "power"}},
]
BAD = [
    {"model": 3},
    {"permission": {"edit": "perhaps"}},
    {"agent": {"a": {"maxSteps": 0}}},
    {"agent": {"a": {"permission": "perhaps"}}},
    {"plugin": [3]},
    {"provider_retry_mode": "sometimes"},
    {"context_window_tokens": 10},
    {"shield": {"level": "off"}},
    {"storage": {"durability": "always"}},
    {"evolve": {"replay_seconds": 0}},
    {"evolve": {"frozen": "yes"}},
]


@pytest.mark.parametrize("data", GOOD, ids=json.dumps)
def test_the_schema_takes_what_instar_takes(schema, data):
    Config.from_data(data)
    jsonschema.validate(data, schema)


@pytest.mark.slow
@pytest.mark.parametrize("data", BAD, ids=json.dumps)
def test_the_schema_refuses_what_instar_refuses(schema, data):
    with pytest.raises(Exception, match="expected"):
        Config.from_data(data)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema)
