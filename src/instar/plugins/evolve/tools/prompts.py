"""Listing, reading, writing and editing prompts."""

from instar.plugin import ToolContext, ToolFailure, ToolResult, wire
from instar.plugins.evolve.candidate import Change
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.probation import prediction
from instar.plugins.evolve.tools.definition import ToolDefinition, tool
from instar.plugins.evolve.tools.files import (
    CONTENT,
    EDIT,
    NEW_FILE,
    OPTIONAL,
    WINDOW,
    Files,
    commit_text,
    editing,
    metadata,
    named,
    verdict_text,
)


def tools(engine: EvolveEngine) -> dict[str, ToolDefinition]:
    """Return the tools by name."""
    own = _Prompts(engine)
    names = engine.scripts.workspace.prompt_files()
    file = named("Which prompt.", names)
    written = NEW_FILE if engine.config.create == "allow" else file
    return {
        "prompt_list": tool("List the prompts of the workspace.", {}, own.list),
        "prompt_read": tool(
            "Read a prompt.", {"file": file, **WINDOW}, own.read, optional=OPTIONAL, about="file"
        ),
        "prompt_write": tool(
            "Replace a prompt by a new whole text. It is tried like a hook script first.",
            {"file": written, "content": CONTENT, "expect": prediction.SCHEMA},
            own.write,
            optional=OPTIONAL,
            about="file",
        ),
        "prompt_edit": tool(
            "Replace a text in a prompt that exists by another. It is tried like a hook script first.",
            {"file": file, **EDIT, "expect": prediction.SCHEMA},
            own.edit,
            optional=OPTIONAL,
            about="file",
        ),
    }


class _Prompts(Files):
    """The prompt tools' code."""

    folder = "prompts"

    async def list(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        names = self._engine.scripts.workspace.prompt_files()
        lines = [name if self._engine.version(f"prompts/{name}") else f"{name} (empty)" for name in names]
        return ToolResult("\n".join(lines), title="prompts/")

    async def write(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        return await self._told(args, "prompt_write", lambda text: str(args["content"]), context)

    async def edit(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        if not self._engine.version(self._path(args)):
            raise ToolFailure(f"there is no {self._path(args)}: write it whole")
        return await self._told(args, "prompt_edit", editing(args), context)

    async def _told(self, args: wire.Plain, name: str, change: Change, context: ToolContext) -> ToolResult:
        installed = await self._change(args, name, change, context)
        found = verdict_text(installed.verdict) if installed.verdict is not None else ""
        text = f"Wrote {installed.path}{commit_text(installed)}." + (f"\n{found}" if found else "")
        return ToolResult(text, installed.path, metadata(installed))
