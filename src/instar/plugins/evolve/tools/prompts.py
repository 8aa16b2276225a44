"""Listing, reading, writing and editing prompts."""

from typing import Final

from instar.plugin import ToolContext, ToolFailure, ToolResult, wire
from instar.plugins.evolve.attempt import Installed
from instar.plugins.evolve.candidate import MAY_NOT_CREATE, Change
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.tools.definition import ToolDefinition, tool
from instar.plugins.evolve.tools.files import (
    ALTERNATIVES,
    CONTENT,
    EDIT,
    PROPOSE,
    WINDOW,
    Files,
    commit_text,
    editing,
    metadata,
    verdict_text,
)
from instar.plugins.evolve.workspace import PROMPTS

_CONTRACT: Final = (
    "The contract says which file serves which stage: preamble.md goes before heartbeat.md and recover.md, chat.md is "
    "for sessions, heartbeat.md for heartbeats, compaction.md for summaries, recover.md for failures of hook scripts. "
    "Files outside the contract are not read."
)
_PROMPT: Final[wire.Plain] = {
    "type": "string",
    "enum": list(PROMPTS),
    "description": f"Which prompt. {_CONTRACT}",
}


def tools(engine: EvolveEngine) -> dict[str, ToolDefinition]:
    """Return the tools by name."""
    own = _Prompts(engine)
    return {
        "prompt_list": tool("List the prompts of the workspace.", {}, own.list),
        "prompt_read": own.tool("Read a prompt.", {"prompt": _PROMPT, **WINDOW}, own.read),
        "prompt_write": own.tool(
            "Replace a prompt by a new whole text. It is tried like a hook script first.",
            {"prompt": _PROMPT, "content": CONTENT, **own.terms()},
            own.write,
        ),
        "prompt_edit": own.tool(
            "Replace a text in a prompt that exists by another. It is tried like a hook script first.",
            {"prompt": _PROMPT, **EDIT, **own.terms()},
            own.edit,
        ),
        "prompt_propose": own.tool(
            f"Propose several candidates for a prompt at once. {PROPOSE}",
            {"prompt": _PROMPT, "alternatives": ALTERNATIVES, **own.terms()},
            own.propose,
            way="prompt_write",
        ),
    }


class _Prompts(Files):
    """The prompt tools' code."""

    kind = "prompt"

    async def list(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        there = self._engine.scripts.workspace.prompt_files()
        lines = [name if name in PROMPTS else f"{name} (not read: it serves no stage)" for name in there]
        missing = ", ".join(name for name in PROMPTS if name not in there)
        if missing and self._creates:
            lines.append(f"(evolve_prompt_write can make {missing})")
        elif missing:
            lines.append(f"(not there: {missing}; {MAY_NOT_CREATE})")
        return ToolResult("\n".join(lines), title="prompts/")

    async def write(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        return await self._told(args, "prompt_write", lambda text: str(args["content"]), context)

    async def edit(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        path = self._path(args)
        if not self._engine.version(path):
            todo = "write it whole with evolve_prompt_write" if self._creates else MAY_NOT_CREATE
            raise ToolFailure(f"there is no {path}: {todo}")
        return await self._told(args, "prompt_edit", editing(args), context)

    async def propose(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        installed, each = await self._propose(args, context)
        return _wrote(installed, f"\n{each}")

    async def _told(self, args: wire.Plain, name: str, change: Change, context: ToolContext) -> ToolResult:
        return _wrote(await self._change(args, name, change, context))


def _wrote(installed: Installed, more: str = "") -> ToolResult:
    """The result of a change that went live; `more` is said at the end."""
    found = verdict_text(installed.verdict)
    text = f"Wrote {installed.path}{commit_text(installed)}." + (f"\n{found}" if found else "")
    return ToolResult(text + more, installed.path, metadata(installed))
