"""Registration: names, tools, permissions, collisions."""

import pytest

from instar.plugins.evolve import discovery

SEED = {
    "name": "persona",
    "test": "persona_test.py",
    "tools": [{"name": "my_tool", "description": "...", "parameters": {"arg": "description"}}],
}


def tool(name: str, **fields):
    return {"name": name, "description": "d", "parameters": {"trait": "t", "old": "o", "new": "n"}, **fields}


def test_the_readmes_example_registers_a_prefixed_tool_and_a_test():
    found = discovery.register("persona.py", SEED)
    assert (found.name, found.test, found.problems) == ("persona", "persona_test.py", ())
    assert [(one.name, one.full, one.description) for one in found.tools] == [
        ("my_tool", "persona_my_tool", "...")
    ]
    assert found.tools[0].parameters["properties"] == {
        "arg": {"type": "string", "description": "description"}
    }


def test_a_script_without_a_name_goes_by_its_files_stem():
    assert discovery.register("logger.py", {}).name == "logger"
    assert discovery.register("my.hook.py", {}).name == "my_hook"


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        (tool("t", parameters={"a": {"type": "strnig"}}), "parameter 'a': unknown type 'strnig'"),
        ("t", "expected an object"),
        ({"description": "d"}, "it has no name"),
        (tool("t" * 70), "longer than 64"),
        (tool("t", permission={"arg": "nope"}), "nope, which is no parameter"),
        (tool("t", permission={"arg": []}), "permission: expected"),
        (tool("t", permission="trait"), "permission: expected"),
        (tool("ok"), "defined twice"),
    ],
)
def test_a_tool_that_cannot_be_offered_is_left_out_with_a_reason_and_the_others_stay(definition, says):
    found = discovery.register("p.py", {"tools": [tool("ok"), definition, tool("fine")]})
    assert [one.full for one in found.tools] == ["p_ok", "p_fine"]
    (problem,) = found.problems
    assert problem.startswith("p.py: tool ")
    assert says in problem


@pytest.mark.parametrize("test", ["../x.py", "a/b.py", 3, ".."])
def test_a_test_that_is_not_a_bare_file_name_is_a_problem(test):
    found = discovery.register("p.py", {"test": test})
    assert found.test is None
    assert "bare name of a file in tests/" in found.problems[0]


@pytest.mark.parametrize(
    ("arg", "args", "patterns"),
    [
        (None, {"trait": "SOUL.md"}, ["*"]),
        ("trait", {"trait": "SOUL.md"}, ["SOUL.md"]),
        (["old", "new"], {"old": "a.md", "new": "b.md"}, ["a.md", "b.md"]),
        ("trait", {}, ["(not understood) trait: nothing"]),
        ("trait", {"trait": ["a", "b"]}, ["a", "b"]),
        ("trait", {"trait": True}, ["true"]),
        ("trait", {"trait": None}, ["(not understood) trait: nothing"]),
        ("trait", {"trait": ""}, ["(not understood) trait: nothing"]),
        ("trait", {"trait": []}, ["(not understood) trait: nothing"]),
        ("trait", {"trait": ["a", None]}, ["a", "(not understood) trait: nothing"]),
        ("trait", {"trait": [["a"], "b"]}, ["a", "b"]),
        ("trait", {"trait": {"a": 1}}, ['{"a":1}', '(not understood) trait: {"a":1}']),
        ("trait", {"trait": "SOUL*"}, ["SOUL*", "(not understood) trait: SOUL*"]),
        ("trait", {"trait": 5}, ["5"]),
        ("trait", {"trait": 5.0}, ["5.0", "5"]),
        ("trait", {"trait": 5.5}, ["5.5"]),
        (["old", "new"], {"old": "a.md"}, ["a.md", "(not understood) new: nothing"]),
        ("trait", {"trait": "./x/../SOUL.md"}, ["./x/../SOUL.md", "SOUL.md"]),
        ("trait", {"trait": "SOUL.md/"}, ["SOUL.md/", "SOUL.md"]),
        ("trait", {"trait": "SOUL.md/."}, ["SOUL.md/.", "SOUL.md"]),
        ("trait", {"trait": "a//b.md"}, ["a//b.md", "a/b.md"]),
        ("trait", {"trait": "//a/b.md"}, ["//a/b.md", "/a/b.md"]),
        ("trait", {"trait": "/a/b.md"}, ["/a/b.md"]),
        ("trait", {"trait": "/"}, ["/"]),
        ("trait", {"trait": "https://x/../y"}, ["https://x/../y"]),
    ],
)
def test_a_call_is_asked_about_by_the_arguments_that_its_permission_names(arg, args, patterns):
    fields = {"permission": {"arg": arg}} if arg else {}
    (one,) = discovery.register("p.py", {"tools": [tool("t", **fields)]}).tools
    assert discovery.patterns(one, args) == patterns


def test_two_scripts_with_one_name_are_an_error_that_names_both_and_both_lose_their_tools():
    twins = [discovery.register(file, {"name": "p", "tools": [tool(file[0])]}) for file in ("a.py", "b.py")]
    other = discovery.register("c.py", {"tools": [tool("t")]})
    dropped, (problem,) = discovery.collisions([*twins, other])
    assert dropped == {"p_a", "p_b"}
    assert "a.py and b.py both register the name 'p'" in problem


def test_two_tools_with_one_full_name_are_both_left_out():
    first = discovery.register("a.py", {"tools": [tool("b_c"), tool("d")]})
    second = discovery.register("x.py", {"name": "a_b", "tools": [tool("c")]})
    dropped, (problem,) = discovery.collisions([first, second])
    assert dropped == {"a_b_c"}
    assert "a.py and x.py both define the tool a_b_c" in problem


def test_no_script_takes_the_name_of_one_of_evolves_own_tools():
    found = discovery.register("evolve.py", {"tools": [tool("hook_write"), tool("mine")]})
    dropped, (problem,) = discovery.collisions([found])
    assert dropped == {"evolve_hook_write"}
    assert "evolve has a tool of that name" in problem


@pytest.mark.parametrize(
    ("names", "patterns", "kept"),
    [
        ([], ["*"], ["*"]),
        (["trait"], ["SOUL.md", "HUMOR.md"], ["SOUL.md", "HUMOR.md"]),
        (["trait"], ["*", "a?", "b"], ["b"]),
        (["trait"], ["*"], []),
    ],
)
def test_an_always_answer_covers_what_was_asked_about_and_no_wildcard_of_the_models(names, patterns, kept):
    assert discovery.remembered(names, patterns) == kept
