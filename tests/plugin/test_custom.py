"""A person's own tools from files, met in a session."""

import textwrap
from pathlib import Path

import pytest

from instar.plugin.custom import CustomTools, ToolFile, load_tools, tool_files
from instar.testing import Machine, results

pytest_plugins = ["tests.turn"]

SHORT = '''
    """Says hello to somebody."""
    parameters = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

    async def execute(args, ctx):
        return f"hello {args['name']}"
'''
LONG = """
    from instar.plugin import Tool

    async def _run(args, ctx):
        return "ran"

    tool = Tool("The file's own.", {"type": "object", "properties": {}}, _run)
    other = Tool("Another one.", {"type": "object", "properties": {}}, _run)
"""
SHORT_TOOL = SHORT.replace('"""Says hello to somebody."""', 'description = "Says hello to somebody."')


def put(folder: Path, name: str, source: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source), "utf-8")
    return path


async def test_a_projects_tool_file_can_be_called_by_the_model(house: Machine) -> None:
    put(house.folder, ".opencode/tool/greet.py", SHORT_TOOL)
    put(house.folder, ".instar/tools/long.py", LONG)
    house.says("""
        == turn
        expect_tool: greet
        expect_tool: long_other
        tool: greet {"name": "Ada"}
        tool: greet {}
        tool: long {}
        tool: long_other {}

        == turn
        text: done
    """)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "go")
    greeted, wrong, long, other = results(await door.stored(session))
    assert (greeted, long, other) == ("hello Ada", "ran", "ran")
    assert wrong.startswith("The greet tool was called with invalid arguments: ")
    assert door.runtime.notices == []


async def test_a_tool_of_a_folder_that_is_not_trusted_is_not_run_and_is_named(house: Machine) -> None:
    path = put(house.folder, ".opencode/tool/evil.py", f"open({str(house.folder / 'ran')!r}, 'w')")
    mine = put(house.home, "tools/mine.py", SHORT_TOOL)
    house.environment = {**house.environment, "INSTAR_TRUST": ""}
    house.says("== turn\ntext: done\n")
    door = await house.open()
    assert f"{path} was left out: an untrusted project may not run code" in door.runtime.untrusted
    assert not (house.folder / "ran").exists()
    assert mine.stem in await door.runtime.tools()


def loaded(*folders: Path) -> CustomTools:
    """Load the tools of configuration folders that may run."""
    return load_tools(ToolFile(path, path, True) for folder in folders for path in tool_files(folder))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("1 +", "SyntaxError"),
        ("raise RuntimeError('no key')", "RuntimeError: no key"),
        ("x = 1", "it makes no Tool, and has no async function `execute`"),
        ("def execute(args, ctx): ...", "it makes no Tool"),
        ("async def execute(args, ctx): ...", "has no description"),
        (
            "parameters = []\ndescription = 'd'\nasync def execute(args, ctx): ...",
            "no JSON Schema of an object",
        ),
    ],
)
def test_a_file_that_is_no_tool_is_named_and_its_neighbours_load(
    tmp_path: Path, source: str, said: str
) -> None:
    path = put(tmp_path, "tool/bad.py", source)
    put(tmp_path, "tool/greet.py", SHORT_TOOL)
    found = loaded(tmp_path)
    assert list(found.tools) == ["greet"]
    (notice,) = found.notices
    assert notice.startswith(f"tool {path} is skipped: ")
    assert said in notice


def test_of_two_tools_with_one_name_the_later_folder_counts(tmp_path: Path) -> None:
    put(tmp_path / "home", "tool/greet.py", SHORT_TOOL)
    put(tmp_path / "project", "tools/greet.py", SHORT)
    put(tmp_path / "project", "tools/_private.py", "raise SystemExit")
    found = loaded(tmp_path / "home", tmp_path / "project")
    assert found.notices == []
    assert found.tools["greet"].description == "Says hello to somebody."
    put(tmp_path / "project", "tools/bad name.py", SHORT_TOOL)
    (notice,) = loaded(tmp_path / "project").notices
    assert "'bad name' cannot be a tool's name" in notice
