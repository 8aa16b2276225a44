"""A workspace that somebody wrote for opencode-evolve, unmodified: what the model is sent, byte by byte.

Everything comes in through `instar run` and is read from the
record of the scripted model.
"""

import json

import pytest

PERSONA = """\
#!/usr/bin/env python3
import json, sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

TOOLS = [
    {"name": "trait_list", "description": "List the traits."},
    {"name": "trait_read", "description": "Read a trait.", "parameters": {"trait": "file name"}},
    {"name": "trait_write", "description": "Write a trait.",
     "parameters": {"trait": "file name", "content": {"type": "string", "description": "the text"}},
     "permission": {"arg": "trait"}},
    {"name": "trait_move", "description": "Rename a trait.",
     "parameters": {"old_trait": "from", "new_trait": "to"},
     "permission": {"arg": ["old_trait", "new_trait"]}},
    {"name": "trait_delete", "description": "Delete a trait.", "parameters": {"trait": "file name"},
     "permission": {"arg": "trait"}},
    {"name": "every_form", "description": "Takes everything.", "parameters": {
        "s": {"type": "string", "description": "a string"},
        "n": {"type": "number", "description": "a number", "optional": True},
        "b": {"type": "boolean", "description": "a boolean", "optional": True},
        "o": {"type": "object", "description": "an object", "optional": True},
        "a": {"type": "array", "description": "an array", "optional": True},
        "x": {"type": "any", "description": "anything", "optional": True},
        "at": {"type": "array[number]", "description": "numbers", "optional": True},
        "ok": {"type": "object[string, array[any]]", "description": "lists by name", "optional": True},
        "e": {"type": "string", "description": "a mood", "enum": ["calm", "urgent"], "optional": True},
        "bare": {"optional": True},
    }},
]

def discover(ctx):
    return {"name": "persona", "test": "persona_test.py", "tools": TOOLS}

def mutate_request(ctx):
    return {"system": ["You are Persona.", (ROOT / "prompts" / "chat.md").read_text()]}

def execute_tool(ctx):
    args = ctx["args"]
    if ctx["tool"] == "every_form":
        return {"result": json.dumps(args, sort_keys=True)}
    if ctx["tool"] == "trait_write":
        (ROOT / "traits").mkdir(exist_ok=True)
        (ROOT / "traits" / args["trait"]).write_text(args["content"])
        return {"result": "wrote " + args["trait"], "modified": ["traits/" + args["trait"]]}
    return {"result": f"{ctx['tool']} {json.dumps(args)}"}

if __name__ == "__main__":
    h = globals().get(sys.argv[1])
    if not h:
        print(json.dumps({"error": f"unknown hook: {sys.argv[1]}"}))
        sys.exit(1)
    for key, value in h(json.loads(sys.stdin.read() or "{}")).items():
        print(json.dumps({key: value}), flush=True)
"""

ARGS = {"s": "$&", "n": 1.5, "b": False, "o": {"k": [1, None]}, "a": ["x", 2], "x": None, "at": [1, 2]}
ARGS |= {"ok": {"k": ["v"]}, "e": "calm"}
STORY = f"""\
== turn
tool: persona_every_form {json.dumps(ARGS)}
tool: mybot_datetime {{}}
== turn
text: done
"""

JSON = {"$ref": "#/$defs/json"}


@pytest.fixture(scope="module")
def theirs(persona, minimal_hook):
    """Two scripts, prompts and tests, as somebody else would have them, after one run of `STORY`."""
    write(persona, minimal_hook)
    persona.run(STORY)
    return persona


def write(person, minimal_hook) -> None:
    person.script("mybot.py", minimal_hook)
    person.script("persona.py", PERSONA)
    person.write("prompts/chat.md", "Be kind: $& stays $&.\n")
    for name in ("mybot_test.py", "persona_test.py"):
        person.write(f"tests/{name}", "#!/usr/bin/env python3\nprint('ok')\n", 0o755)
    person.write("prompts/mood.md", "m")
    person.write(
        "config/evolve.jsonc", '{\n  // as in the README\n  "model": null,\n  "heartbeat_ms": 1800000\n}\n'
    )


@pytest.mark.slow
def test_the_model_is_sent_the_scripts_system_prompt_and_nothing_else(theirs):
    wanted = ["you are a helpful assistant.", "You are Persona.", "Be kind: $& stays $&.\n"]
    assert theirs.systems() == [wanted, wanted]


def test_the_model_is_sent_each_tool_with_its_prefix_and_its_schema_word_for_word(theirs):
    tools = theirs.tools()
    assert sorted(name for name in tools if name.startswith("persona_")) == [
        "persona_every_form",
        "persona_trait_delete",
        "persona_trait_list",
        "persona_trait_move",
        "persona_trait_read",
        "persona_trait_write",
    ]
    read = tools["persona_trait_read"]
    assert read["description"] == "Read a trait."
    assert read["parameters"] == {
        "type": "object",
        "properties": {"trait": {"type": "string", "description": "file name"}},
        "required": ["trait"],
        "additionalProperties": False,
    }
    assert tools["persona_trait_list"]["parameters"]["properties"] == {}
    form = tools["persona_every_form"]["parameters"]
    assert form["required"] == ["s"]
    assert form["properties"] == {
        "s": {"type": "string", "description": "a string"},
        "n": {"type": "number", "description": "a number"},
        "b": {"type": "boolean", "description": "a boolean"},
        "o": {"type": "object", "additionalProperties": JSON, "description": "an object"},
        "a": {"type": "array", "items": JSON, "description": "an array"},
        "x": {**JSON, "description": "anything"},
        "at": {"type": "array", "items": {"type": "number"}, "description": "numbers"},
        "ok": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": JSON},
            "description": "lists by name",
        },
        "e": {"type": "string", "enum": ["calm", "urgent"], "description": "a mood"},
        "bare": {"type": "string", "description": "bare of persona_every_form"},
    }
    union = [branch["type"] for branch in form["$defs"]["json"]["anyOf"]]
    assert union == ["string", "number", "boolean", "null", "array", "object"]


def test_every_property_of_every_tool_is_described_and_every_reference_resolves(theirs):
    for name, tool in theirs.tools().items():
        schema = tool["parameters"]
        assert tool["description"], name
        for key, property_ in schema["properties"].items():
            assert property_.get("description"), f"{name}.{key}"
        for reference in references(schema):
            assert reference.startswith("#/$defs/"), name
            assert reference.removeprefix("#/$defs/") in schema["$defs"], name


def references(value) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [one for item in value.values() for one in references(item)]
    return [one for item in value for one in references(item)] if isinstance(value, list) else []


def test_evolves_own_tools_are_shown_once_and_also_answer_to_a_scripts_prefix(theirs):
    tools = theirs.tools()
    names = [tool["function"]["name"] for tool in theirs.requests()[0]["tools"]]
    assert len(names) == len(set(names))
    assert [name for name in names if name.endswith(("_datetime", "_hook_write"))] == [
        "evolve_datetime",
        "evolve_hook_write",
    ]
    assert tools["evolve_datetime"]["description"].endswith(
        "It is also called mybot_datetime, persona_datetime."
    )
    form, date = theirs.results()
    assert json.loads(form) == ARGS
    assert date.startswith("20")
    assert date.endswith("Z")


def test_the_file_arguments_name_what_they_may_touch(theirs):
    tools = theirs.tools()

    def properties(name):
        return tools[name]["parameters"]["properties"]

    assert properties("evolve_hook_edit")["hook"]["enum"] == ["mybot.py", "persona.py"]
    stages = [f"{stage}.md" for stage in ("preamble", "chat", "heartbeat", "compaction", "recover")]
    for verb in ("read", "write", "edit"):
        prompt = properties(f"evolve_prompt_{verb}")["prompt"]
        assert prompt["enum"] == stages
        assert "contract" in prompt["description"]
    edit = properties("evolve_prompt_edit")
    assert list(edit) == ["prompt", "oldString", "newString", "replaceAll", "expect"]
    assert list(properties("evolve_hook_read")) == ["hook", "offset", "limit"]


@pytest.mark.slow
def test_what_the_model_is_sent_has_the_same_bytes_at_every_step_turn_and_after_a_restart(
    person, minimal_hook
):
    write(person, minimal_hook)
    person.run(STORY)
    person.script("mybot.py", (person.root / "hooks/mybot.py").read_text().replace("helpful", "changed"))
    person.write("prompts/chat.md", "changed\n")
    person.accept()
    person.run(STORY + "== turn\ntext: again\n", "--continue")
    first, second, third = person.requests()
    assert first["session"] == third["session"]
    assert first["system"] == second["system"] == third["system"]
    assert json.dumps(first["tools"]) == json.dumps(second["tools"]) == json.dumps(third["tools"])
    assert third["messages"][: len(second["messages"])] == second["messages"]
    person.run(STORY)
    assert person.systems()[-1][0] == "you are a changed assistant."


@pytest.mark.slow
def test_an_empty_answer_leaves_the_sessions_own_prompt_alone(person):
    person.run("== turn\ntext: a\n")
    person.shell("a.sh", discover="{}", mutate_request="{}")
    person.run("== turn\ntext: a\n")
    without, with_it = person.systems()
    assert with_it == without
    assert "Working directory" in without[0]


OUTSIDE_THE_SCHEMA = [
    ({"s": "x", "e": "angry"}, "calm"),
    ({"s": 1}, "expected string"),
    ({}, "s: missing"),
    ({"s": "x", "at": ["one"]}, "expected number"),
    ({"s": "x", "unknown": 1}, "unknown"),
]


@pytest.mark.slow
def test_arguments_outside_the_schema_are_errors_in_the_results_and_the_script_is_not_called(person):
    parameters = {
        "s": "a string",
        "e": {"type": "string", "enum": ["calm", "urgent"], "optional": True},
        "at": {"type": "array[number]", "optional": True},
    }
    tool = {"name": "form", "parameters": parameters}
    person.shell("a.sh", discover=json.dumps({"tools": [tool]}), execute_tool='{"result": "ran"}')
    calls = "".join(f"tool: a_form {json.dumps(args)}\n" for args, _ in OUTSIDE_THE_SCHEMA)
    person.run(f"== turn\n{calls}== turn\ntext: done\n")
    for result, (_, said) in zip(person.results(), OUTSIDE_THE_SCHEMA, strict=True):
        assert "invalid arguments" in result
        assert said in result
    assert person.calls("a.sh", "execute_tool") == []


@pytest.mark.slow
def test_a_tool_call_goes_only_to_the_script_that_owns_it_under_the_unprefixed_name(person):
    for name in ("a", "b"):
        person.shell(
            f"{name}.sh",
            discover='{"tools": [{"name": "t", "parameters": {"arg": "description"}}]}',
            execute_tool=json.dumps({"result": f"from {name}"}),
        )
    person.run('== turn\ntool: b_t {"arg": "value"}\n== turn\ntext: done\n')
    assert person.results() == ["from b"]
    assert person.calls("a.sh", "execute_tool") == []
    (given,) = person.calls("b.sh", "execute_tool")
    assert (given["hook"], given["tool"], given["args"]) == ("execute_tool", "t", {"arg": "value"})


@pytest.mark.slow
def test_two_scripts_of_one_name_lose_their_tools_and_the_log_names_both(person):
    for name in ("a.sh", "b.sh"):
        person.shell(name, discover='{"name": "same", "tools": [{"name": "t"}]}')
    ran = person.run("== turn\ntext: done\n")
    assert "same_t" not in person.tools()
    assert ran.logged("a.sh and b.sh", "same")


@pytest.mark.slow
def test_a_tool_without_an_answer_for_its_result_shows_its_error_or_that_it_is_done(person):
    person.shell(
        "a.sh",
        discover='{"tools": [{"name": "quiet"}, {"name": "fails"}]}',
        execute_tool="""$ cat >/dev/null; echo '{"error": "no such trait"}'""",
    )
    person.shell("b.sh", discover='{"tools": [{"name": "t"}]}', execute_tool="{}")
    person.run("== turn\ntool: a_fails {}\ntool: b_t {}\n== turn\ntext: done\n")
    assert person.results() == ["no such trait", "done"]


# -- which workspace, and trust ------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("named", ["flag", "INSTAR_WORKSPACE", "OPENCODE_EVOLVE_WORKSPACE"])
def test_the_workspace_is_named_by_the_flag_or_the_environment(person, named):
    del person.environment["INSTAR_WORKSPACE"]
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["managed"]}')
    given = ["--workspace", str(person.root)] if named == "flag" else []
    environment = {} if named == "flag" else {named: str(person.root)}
    person.run("== turn\ntext: done\n", *given, **environment)
    assert person.systems() == [["managed"]]


@pytest.mark.slow
@pytest.mark.parametrize("plugin", ["evolve", "opencode-evolve"])
def test_the_config_switches_it_on_and_its_default_workspace_must_be_trusted(person, plugin):
    del person.environment["INSTAR_WORKSPACE"]
    person.shell("a.sh", discover="{}", mutate_request='{"system": ["managed"]}')
    person.root.rename(person.home / "workspace")
    person.config(plugin=[plugin])
    ran = person.run("== turn\ntext: done\n")
    assert ran.logged("is not trusted", "instar trust")
    assert person.calls("a.sh", "discover") == []
    assert person.systems()[0] != ["managed"]
    person.instar("trust", str(person.home / "workspace"))
    person.run("== turn\ntext: done\n")
    assert person.systems()[1] == ["managed"]


@pytest.mark.slow
def test_without_a_plugin_or_a_name_evolve_is_off(person):
    del person.environment["INSTAR_WORKSPACE"]
    person.run("== turn\ntext: done\n")
    assert not [name for name in person.tools() if name.startswith("evolve_")]
