"""opencode with the plugin opencode-evolve in a world: each proposal is one `opencode run` against a scripted model.

The plugin is no package of npm: clone it, and name its entry (``…/src/index.ts``). Any program that speaks opencode's
settings and `run`, and has the plugin's tools, can stand in opencode's place.
"""

import asyncio
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.contender import House, Program, modelled, settings

from evobench.arena import Decision
from evobench.proposer import Edit
from evobench.worlds import CALLS, EVAL, PATH, TABLE, World

_SECONDS: Final = 300
_FILES: Final = 3


class ProgramFailed(Exception):
    """The program ended with another exit code than 0, or not in time; the text is what it printed."""


class OpencodeEvolve:
    """An `arena.Agent`: a program with opencode's command line. `tool` is the plugin's tool that edits a hook."""

    def __init__(self, house: House, root: Path, tool: str) -> None:
        self._house = house
        self._root = root
        self._tool = tool

    def text(self) -> str:
        """Return the harness that is live."""
        return (self._root / PATH).read_text("utf-8")

    async def propose(self, proposal: Edit) -> Decision:
        """Let the model propose an edit. Raises `ProgramFailed`."""
        before = self.text()
        arguments = {"hook": Path(PATH).name, "oldString": proposal.old, "newString": proposal.new}
        await self._run([(self._tool, arguments)])
        return Decision("refused", "test") if self.text() == before else Decision("installed")

    async def use(self) -> bool:
        """Call the tool of the harness `CALLS` times. Raises `ProgramFailed`."""
        before = self.text()
        await self._run([("agent_look", {"n": str(number)}) for number in range(1, CALLS + 1)])
        return self.text() != before

    async def _run(self, calls: Sequence[tuple[str, dict[str, str]]]) -> None:
        prompt = "\n".join(f"call {name} {json.dumps(arguments)}" for name, arguments in calls)
        process = await asyncio.create_subprocess_exec(
            *self._house.program.command,
            "run",
            prompt,
            cwd=self._house.project,
            env=self._house.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            printed, _ = await asyncio.wait_for(process.communicate(), _SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise ProgramFailed(f"it took longer than {_SECONDS} s") from None
        if process.returncode:
            raise ProgramFailed(printed.decode(errors="replace"))


@contextmanager
def opened(
    world: World, folder: Path, program: Program, plugin: str, *, tool: str = "evolve_hook_edit", **more: Any
) -> Iterator[OpencodeEvolve]:
    """Open a program in a world, in a new folder. `plugin` is what its settings list, `more` are further settings.

    The plugin knows no evals: the workspace has none.
    """
    root = folder / "workspace"
    for name, text in world.files().items():
        if name not in (EVAL, TABLE):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            path.chmod(0o755)
    with modelled() as url:
        given = {**settings(url, snapshot=False), "plugin": [plugin], **more}
        house = House(folder, program, given, _FILES)
        house.environment |= {
            "OPENCODE_EVOLVE_WORKSPACE": str(root),
            "EVOLVE_HEARTBEAT_MS": "-1",
        }
        yield OpencodeEvolve(house, root, tool)
