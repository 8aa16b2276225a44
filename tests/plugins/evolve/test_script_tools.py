"""The tools that hook scripts define."""

import pytest

from instar import event
from instar.plugin import ToolFailure

TOOLS = """{"name": "p", "tools": [
{"name": "greet", "description": "Greet.", "parameters": {"who": "whom"}, "permission": {"arg": "who"}},
{"name": "bad", "parameters": {"x": {"type": "strnig"}}}]}""".replace("\n", "")


async def test_a_tool_goes_only_to_the_script_that_owns_it_under_its_own_name(kit, start, root):
    kit.shell(root, "a.sh", discover=TOOLS, execute_tool='{"result": "hi Ada", "notify": [{"type": "t"}]}')
    kit.shell(root, "b.sh", execute_tool='{"result": "wrong"}')
    running = await start(root)
    tool = running.tools["p_greet"]
    assert (tool.description, tool.parameters["required"]) == ("Greet.", ["who"])
    result = await running.call("p_greet", who="Ada")
    assert (result.output, result.metadata) == ("hi Ada", {"notify": [{"type": "t"}]})
    (given,) = kit.calls(root, "a.sh", "execute_tool")
    assert (given["tool"], given["args"]) == ("greet", {"who": "Ada"})
    assert given["session"] == {"id": "ses_1", "agent": "build"}
    assert kit.calls(root, "b.sh", "execute_tool") == []
    ask = running.asks("p_greet", who="Ada")
    assert (ask.permission, list(ask.patterns), list(ask.always)) == ("p_greet", ["Ada"], ["Ada"])
    assert "p_bad" not in running.tools
    assert "tool 'bad' is left out: parameter 'x': unknown type 'strnig'" in running.problems[0]


@pytest.mark.parametrize(
    ("printed", "output"), [("{}", "done"), ('{"result": ""}', ""), ('{"result": {"a": 1}}', '{"a":1}')]
)
async def test_a_result_is_text_for_the_model(kit, start, root, printed, output):
    kit.shell(root, "a.sh", discover='{"tools": [{"name": "t"}]}', execute_tool=printed)
    assert (await (await start(root)).call("a_t")).output == output


async def test_an_error_answer_and_a_script_that_does_not_execute_tools_are_failures_of_the_call(
    kit, start, root
):
    kit.shell(root, "a.sh", discover='{"tools": [{"name": "t"}]}', execute_tool='{"error": "no such note"}')
    kit.shell(root, "b.sh", discover='{"tools": [{"name": "t"}]}')
    running = await start(root)
    with pytest.raises(ToolFailure, match="no such note"):
        await running.call("a_t")
    with pytest.raises(ToolFailure, match=r"b\.sh does not answer execute_tool"):
        await running.call("b_t")
    assert running.client.session.follow_ups == []


async def test_what_a_tool_run_changed_is_committed_and_published(kit, start, root):
    kit.script(
        root / "hooks",
        "a.sh",
        """\
        #!/bin/sh
        case "$1" in
        discover) echo '{"tools": [{"name": "t"}]}';;
        *) mkdir -p traits; date +%N >traits/SOUL.md; echo '{"result": "ok", "modified": ["SOUL.md"]}';;
        esac
        """,
    )
    running = await start(root)
    result = await running.call("a_t")
    assert result.metadata["commit"] == kit.git(root, "rev-parse", "--short", "HEAD").strip()
    assert kit.git(root, "log", "--format=%s").split() == ["a_t", "initial"]
    assert "Session: ses_1\nCall: call_1" in kit.git(root, "log", "-1", "--format=%b")
    (published,) = running.client.published
    assert published.type == "file.edited"
    assert published.properties == event.FileEdited(file=str(root / "traits" / "SOUL.md"))
