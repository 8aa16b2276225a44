"""What the tests of a session's past share: turns that change files of a repository, as their steps would.

Use it with ``pytest_plugins = ["tests.turn"]``.
"""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from instar.message import WithParts
from instar.plugin import Tool
from instar.session import changes
from instar.testing import Machine, RuntimeUnderTest


def repository(house: Machine) -> Path:
    """Make the house's project a git repository with one file."""
    subprocess.run(["git", "init", "-q"], cwd=house.folder, check=True)
    (house.folder / "a.txt").write_text("one\n")
    return house.folder


async def works(
    door: RuntimeUnderTest, session_id: str, text: str, files: Mapping[str, str | None], tool: str = "bash"
) -> tuple[str, WithParts]:
    """Let a turn answer `text`, and its one step change files (None deletes one); return the prompt's id too."""
    answer = (await door.ask(session_id, text)).info.id
    live = await door.live(session_id)
    instance = door.runtime.instance
    await instance.sessions.hold(live)
    holder = live.find(answer)
    assert holder is not None
    await changes.before(instance, holder, [(tool, instance.tools.get(tool))])
    for name, content in files.items():
        path = instance.project.worktree / name
        if content is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
    await changes.close(instance, holder)
    await changes.summarise(instance, live)
    await instance.sessions.let_go(live)
    return holder.info.parent_id, holder  # type: ignore[union-attr]


def other_tool(tool: Tool) -> Tool:
    """A plugin's tool in the place of a built-in one."""

    async def execute(args: object, context: object) -> str:
        return ""

    return Tool(description="mine", parameters=tool.parameters, execute=execute)
