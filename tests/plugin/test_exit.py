"""A plugin that ends the program (``sys.exit``, ``KeyboardInterrupt``) has failed: instar and other plugins go on."""

import pytest
from tests.turn import house

from instar.testing import Machine, results, said

__all__ = ["house"]

SAID = "it called sys.exit(3), which would end instar: that is not done here"
INTERRUPTED = "it raised KeyboardInterrupt, which would end instar: that is not done here"
WAYS = [("sys.exit(3)", SAID), ("raise KeyboardInterrupt", INTERRUPTED)]
ECHO = '== turn\ntool: bash {"command": "echo hi"}\n== turn\ntext: {{tool}}\n'


@pytest.mark.parametrize(("way", "reason"), WAYS)
@pytest.mark.parametrize("at_load", [True, False])
async def test_one_that_exits_while_it_loads_is_one_line(
    house: Machine, at_load: bool, way: str, reason: str
) -> None:
    house.plugin("import sys\n" + (way if at_load else f"async def p(i, o=None):\n    {way}\n"), "a")
    house.plugin("async def p(i, o=None):\n    return {}\n", "b")
    door = await house.open()
    (notice,) = door.runtime.notices
    assert notice.endswith(f"Exited: {reason}")
    assert door.runtime.instance.plugins.names == ["b"]


@pytest.mark.parametrize("function", ["async def", "def"])
@pytest.mark.parametrize(("way", "reason"), WAYS)
async def test_a_hook_that_exits_changes_nothing_and_a_gate_that_does_refuses(
    house: Machine, way: str, reason: str, function: str
) -> None:
    house.says(ECHO)
    house.plugin(f"""
        import sys

        async def p(i, o=None):
            {function} leave(given, output):
                {way}
            {function} heard(event):
                {way}
            return {{"tool.execute.before": leave, "text.complete": leave, "event": heard}}
    """)
    door = await house.open()
    session = await door.session()
    assert reason in said(await door.ask(session, "hi"))
    (refused,) = results(await door.stored(session))
    assert reason in refused
    failed = await door.until(lambda event: event.type == "plugin.error")
    assert failed.to_plain()["properties"]["message"] == reason


@pytest.mark.parametrize(("way", "reason"), WAYS)
async def test_a_tool_that_exits_has_failed(house: Machine, way: str, reason: str) -> None:
    house.says("== turn\ntool: leave {}\n== turn\ntool: out {}\n== turn\ntext: done\n")
    house.plugin(f"""
        import sys
        from instar.plugin import Tool

        async def p(i, o=None):
            async def leave(args, context):
                {way}
            return {{"timeout": None, "tool": {{"leave": Tool("Leaves.", {{"type": "object"}}, leave)}}}}
    """)
    tools = house.folder / ".instar" / "tools"
    tools.mkdir()
    (tools / "out.py").write_text(f"import sys\n{way}\n")
    house.settings(permission={"*": "allow"})
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "hi")) == "done"
    left, unknown = results(await door.stored(session))
    assert reason in left
    assert "out" in unknown
    assert reason in "".join(door.runtime.notices)
