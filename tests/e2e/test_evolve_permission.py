"""Tool permissions: the examples of opencode-evolve's README in the config decide what the model may do."""

import json

import pytest

SEED = {
    "persona_trait_delete": "deny",
    "persona_note_list": "allow",
    "persona_trait_write": {"SOUL.md": "deny", "*": "allow"},
    "persona_data_update": {".people.json": "deny", "*": "allow"},
    "evolve_hook_write": {"persona.py": "allow", "*": "deny"},
    "evolve_hook_edit": {"persona.py": "allow", "*": "deny"},
}
"""The README's agent config, in its order."""
FRONT_MATTER = """\
permission:
  # simple allow/deny all invocations
  persona_trait_delete: "deny"
  persona_note_list: "allow"

  # fine-grained by pattern (requires permission.arg in tool definition)
  persona_trait_write:
    "SOUL.md": "deny"
    "*": "allow"
  persona_data_update:
    ".people.json": "deny"
    "*": "allow"

  # restrict which hooks can be edited
  evolve_hook_write:
    "persona.py": "allow"
    "*": "deny"
  evolve_hook_edit:
    "persona.py": "allow"
    "*": "deny"
"""
"""The same as an agent's file has it, word for word with its comments."""

TOOLS = [
    {"name": "trait_delete", "parameters": {"trait": "t"}},
    {"name": "note_list"},
    {"name": "trait_write", "parameters": {"trait": "t"}, "permission": {"arg": "trait"}},
    {"name": "data_update", "parameters": {"file": "t"}, "permission": {"arg": "file"}},
    {
        "name": "trait_move",
        "parameters": {"old_trait": "from", "new_trait": "to"},
        "permission": {"arg": ["old_trait", "new_trait"]},
    },
]
PREVENTED = "prevents you from using this specific tool call"


def scripts(person) -> None:
    answers = {
        "discover": json.dumps({"name": "persona", "tools": TOOLS}),
        "execute_tool": '{"result": "ran"}',
    }
    person.shell("persona.py", **answers)
    person.shell("other.py", discover="{}")


def call(person, tool: str, **args: str) -> str:
    """What the model reads of one call."""
    person.run(f"== turn\ntool: {tool} {json.dumps(args)}\n== turn\ntext: done\n")
    return person.results()[-1]


def in_settings(person) -> None:
    person.config(agent={"build": {"permission": SEED}})


def in_an_agents_file(person) -> None:
    folder = person.project / ".opencode" / "agents"
    folder.mkdir(parents=True)
    (folder / "evolve.md").write_text(f"---\nmode: primary\n{FRONT_MATTER}---\n\nYou are Evolve.\n")
    person.config(default_agent="evolve")
    person.instar("trust", str(person.project))


PLACES = pytest.mark.parametrize("ruled", [in_settings, in_an_agents_file])


@pytest.mark.slow
@PLACES
def test_the_readmes_examples_decide_as_they_say(person, ruled):
    scripts(person)
    ruled(person)
    calls = [
        ("persona_trait_write", {"trait": "SOUL.md"}, False),
        ("persona_trait_write", {"trait": "HUMOR.md"}, True),
        ("persona_trait_write", {"trait": "./SOUL.md"}, False),
        ("persona_note_list", {}, True),
        ("persona_data_update", {"file": ".people.json"}, False),
        ("persona_data_update", {"file": "x.json"}, True),
    ]
    lines = "".join(f"tool: {tool} {json.dumps(args)}\n" for tool, args, _ in calls)
    person.run(f"== turn\n{lines}== turn\ntext: done\n")
    assert [result == "ran" for result in person.results()] == [allowed for *_, allowed in calls]
    assert PREVENTED in person.results()[0]
    assert len(person.calls("persona.py", "execute_tool")) == sum(allowed for *_, allowed in calls)
    offered = person.tools(0)
    assert "persona_trait_delete" not in offered
    assert {"persona_trait_write", "evolve_hook_write", "evolve_hook_edit"} <= offered.keys()
    assert any("You are Evolve." in text for text in person.systems()[0]) == (ruled is in_an_agents_file)


@pytest.mark.slow
@PLACES
def test_the_readmes_examples_for_hooks_allow_one_script_and_deny_the_others(person, ruled):
    scripts(person)
    before = person.files(person.root / "hooks")
    ruled(person)
    content = (person.root / "hooks" / "persona.py").read_text() + "# grown\n"
    lines = [
        f"tool: {tool} {json.dumps({'file': file} | args)}\n"
        for tool, args in (
            ("evolve_hook_write", {"content": content}),
            ("evolve_hook_edit", {"oldString": "# grown", "newString": "# more"}),
        )
        for file in ("other.py", "persona.py")
    ]
    person.run("".join(f"== turn\n{line}" for line in lines) + "== turn\ntext: done\n")
    first, second, third, fourth = person.results()
    assert PREVENTED in first
    assert PREVENTED in third
    assert "Installed hooks/persona.py" in second
    assert "Installed hooks/persona.py" in fourth
    assert (person.root / "hooks" / "persona.py").read_text().endswith("# more\n")
    assert person.files(person.root / "hooks")["other.py"] == before["other.py"]


@pytest.mark.slow
def test_a_rule_about_writing_a_script_decides_on_proposing_several_candidates_for_it(person):
    scripts(person)
    before = person.files(person.root / "hooks")
    person.config(permission=SEED)
    content = (person.root / "hooks" / "persona.py").read_text()
    several = [{"content": f"{content}# grown\n"}, {"content": f"{content}# grown\n# more\n"}]
    lines = [
        f"== turn\ntool: evolve_hook_propose {json.dumps({'hook': file, 'alternatives': several})}\n"
        for file in ("other.py", "persona.py")
    ]
    person.run("".join(lines) + "== turn\ntext: done\n")
    denied, installed = person.results()
    assert PREVENTED in denied
    assert "Installed hooks/persona.py" in installed
    assert "1. installed\n2. passed over: alternative 1 was preferred: it changes " in installed
    assert person.files(person.root / "hooks")["other.py"] == before["other.py"]


def test_proposing_is_not_offered_where_a_rule_denies_it(person):
    scripts(person)
    person.config(permission={"evolve_hook_propose": "deny"})
    person.run("== turn\ntext: done\n")
    assert "evolve_hook_propose" not in person.tools(0)
    assert "evolve_hook_write" in person.tools(0)


@pytest.mark.parametrize(("old", "new"), [("SOUL.md", "x.md"), ("x.md", "SOUL.md")])
def test_each_argument_that_permission_arg_names_counts(person, old, new):
    scripts(person)
    person.config(permission={"persona_trait_move": {"SOUL.md": "deny", "*": "allow"}})
    assert PREVENTED in call(person, "persona_trait_move", old_trait=old, new_trait=new)
    assert person.calls("persona.py", "execute_tool") == []


@pytest.mark.parametrize("ruled", ["persona_hook_read", "evolve_hook_read"])
def test_a_rule_and_a_call_under_a_scripts_prefix_mean_evolves_own_tool(person, ruled):
    scripts(person)
    person.config(permission={ruled: {"other.py": "deny", "*": "allow"}})
    calls = "".join(f'tool: {prefix}_hook_read {{"hook": "other.py"}}\n' for prefix in ("persona", "evolve"))
    person.run(f"== turn\n{calls}== turn\ntext: done\n")
    assert [PREVENTED in result for result in person.results()] == [True, True]


@pytest.mark.slow
def test_a_tool_without_a_permission_field_can_be_denied_only_as_a_whole(person):
    scripts(person)
    person.config(permission={"persona_note_list": {"x": "deny"}})
    assert call(person, "persona_note_list") == "ran"


@pytest.mark.slow
def test_what_needs_a_persons_answer_is_refused_without_one_and_allowed_by_auto(person):
    scripts(person)
    person.config(permission={"persona_trait_write": "ask"})
    assert "needs a person's answer" in call(person, "persona_trait_write", trait="a")
    assert person.calls("persona.py", "execute_tool") == []
    person.run('== turn\ntool: persona_trait_write {"trait": "a"}\n== turn\ntext: done\n', "--auto")
    assert person.results() == ["ran"]


ODD = [
    {"name": "move", "parameters": {"to": {"type": "any", "optional": True}}, "permission": {"arg": "to"}},
    {
        "name": "both",
        "parameters": {"a": {"type": "any"}, "b": {"type": "any"}},
        "permission": {"arg": ["a", "b"]},
    },
]
VALUES = [
    *(
        {},
        {"to": None},
        {"to": ""},
        {"to": []},
        {"to": [[]]},
        {"to": {"name": "SOUL.md"}},
        {"to": [{"a": 1}]},
    ),
    *(
        {"to": ["x.md", None]},
        {"to": "SOUL*"},
        {"to": ["x.md", ["SOUL.md"]]},
        {"to": 5},
        {"to": 5.0},
        {"to": True},
    ),
]


@pytest.mark.slow
def test_arguments_that_no_rule_can_name_are_never_more_than_asked_about(person):
    """Nobody is here to answer, so that what is asked about is refused."""
    person.shell(
        "bot.sh", discover=json.dumps({"name": "bot", "tools": ODD}), execute_tool='{"result": "ran"}'
    )
    person.config(permission={"bot_move": {"SOUL.md": "deny", "5": "deny", "true": "deny", "*": "allow"}})
    calls = [("bot_move", args) for args in [*VALUES, {"to": 7}, {"to": ["x.md", 7.5, False]}]]
    lines = "".join(f"tool: {tool} {json.dumps(args)}\n" for tool, args in calls)
    person.run(f"== turn\n{lines}== turn\ntext: done\n")
    *refused, number, several = person.results()
    assert (number, several) == ("ran", "ran")
    assert [text for text in refused if PREVENTED not in text and "needs a person's answer" not in text] == []
    assert [VALUES[at] for at, text in enumerate(refused) if PREVENTED in text] == [
        {"to": ["x.md", ["SOUL.md"]]},
        {"to": 5},
        {"to": 5.0},
        {"to": True},
    ]


@pytest.mark.slow
def test_arguments_that_no_rule_can_name_decide_as_the_rule_for_everything_where_it_is_the_only_one(person):
    person.shell(
        "bot.sh", discover=json.dumps({"name": "bot", "tools": ODD}), execute_tool='{"result": "ran"}'
    )
    person.config(permission={"bot_move": "allow", "bot_both": {"x": "allow", "*": "deny"}})
    calls = [("bot_move", {}), ("bot_move", {"to": {"a": 1}}), ("bot_both", {"a": "x", "b": "x"})]
    calls += [("bot_both", {"a": "x", "b": other}) for other in (None, [], {"a": "x"}, 3)]
    lines = "".join(f"tool: {tool} {json.dumps(args)}\n" for tool, args in calls)
    person.run(f"== turn\n{lines}== turn\ntext: done\n")
    results = person.results()
    assert results[:3] == ["ran", "ran", "ran"]
    assert [PREVENTED in text for text in results[3:]] == [True] * 4
