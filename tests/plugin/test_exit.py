"""A plugin that ends the program (``sys.exit``) has failed, and ends nothing: neither instar nor another plugin."""

import pytest
from tests.turn import house

from instar.testing import Machine, results, said

__all__ = ["house"]

SAID = "it called sys.exit(3), which would end instar: that is not done here"
ECHO = '== turn\ntool: bash {"command": "echo hi"}\n== turn\ntext: {{tool}}\n'


@pytest.mark.parametrize("at_load", [True, False])
async def test_one_that_exits_while_it_loads_is_one_line(house: Machine, at_load: bool) -> None:
    house.plugin(
        "import sys\n" + ("sys.exit(3)" if at_load else "async def p(i, o=None):\n    sys.exit(3)\n"), "a"
    )
    house.plugin("async def p(i, o=None):\n    return {}\n", "b")
    door = await house.open()
    (notice,) = door.runtime.notices
    assert notice.endswith(f"Exited: {SAID}")
    assert door.runtime.instance.plugins.names == ["b"]


async def test_a_hook_that_exits_changes_nothing_and_a_gate_that_does_refuses(house: Machine) -> None:
    house.says(ECHO)
    house.plugin("""
        import sys

        async def p(i, o=None):
            async def leave(given, output):
                sys.exit(3)
            async def heard(event):
                sys.exit(3)
            return {"tool.execute.before": leave, "text.complete": leave, "event": heard}
    """)
    door = await house.open()
    session = await door.session()
    assert SAID in said(await door.ask(session, "hi"))
    (refused,) = results(await door.stored(session))
    assert SAID in refused
    failed = await door.until(lambda event: event.type == "plugin.error")
    assert failed.to_plain()["properties"]["message"] == SAID


async def test_a_tool_that_exits_has_failed(house: Machine) -> None:
    house.says("== turn\ntool: leave {}\n== turn\ntool: out {}\n== turn\ntext: done\n")
    house.plugin("""
        import sys
        from instar.plugin import Tool

        async def p(i, o=None):
            async def leave(args, context):
                sys.exit(3)
            return {"timeout": None, "tool": {"leave": Tool("Leaves.", {"type": "object"}, leave)}}
    """)
    tools = house.folder / ".instar" / "tools"
    tools.mkdir()
    (tools / "out.py").write_text("import sys\nsys.exit(3)\n")
    house.settings(permission={"*": "allow"})
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "hi")) == "done"
    left, unknown = results(await door.stored(session))
    assert SAID in left
    assert "out" in unknown
    assert SAID in "".join(door.runtime.notices)
