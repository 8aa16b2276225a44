"""Listing, reading, writing, editing and validating hook scripts."""

from typing import Final

from instar.plugin import ToolContext, ToolResult, wire
from instar.plugins.evolve.attempt import Installed
from instar.plugins.evolve.candidate import CandidateRefused, Change
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.install import NotChanged
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

_NEW: Final = {"type": "string", "description": "The script's file name; a new name makes a new script."}
_TEST: Final = {
    "type": "string",
    "description": "For a new script: the text of its test, which its discover registers as STEM_test.SUFFIX.",
}
_GATE: Final = (
    "It is tried first: its discover, its own test in a sandboxed copy, and past calls replayed; and it is installed "
    "only if that passes. New tools can be called in the next step."
)
_CREATES: Final = " A new script needs a test."


def tools(engine: EvolveEngine) -> dict[str, ToolDefinition]:
    """Return the tools by name."""
    own = _Hooks(engine)
    files = [entry.name for entry in engine.scripts.runnable()]
    creates = engine.config.create == "allow"
    # Providers refuse an empty list.
    only: wire.Plain = {"enum": files} if files else {}
    hook: wire.Plain = {"type": "string", **only, "description": "Which hook script."}
    written = _NEW if creates else hook
    test: wire.Plain = {"test": _TEST} if creates else {}
    return {
        "hook_list": tool("List the hook scripts of the workspace.", {}, own.list),
        "hook_read": own.tool("Read a hook script.", {"hook": hook, **WINDOW}, own.read),
        "hook_write": own.tool(
            f"Replace a hook script by a new whole text. {_GATE}{_CREATES if creates else ''}",
            {"hook": written, "content": CONTENT, **test, **own.terms()},
            own.write,
        ),
        "hook_edit": own.tool(
            f"Replace a text in a hook script by another. {_GATE}",
            {"hook": hook, **EDIT, **own.terms()},
            own.edit,
        ),
        "hook_propose": own.tool(
            f"Propose several candidates for a hook script at once. {PROPOSE}{_CREATES if creates else ''}",
            {"hook": written, "alternatives": ALTERNATIVES, **test, **own.terms()},
            own.propose,
            way="hook_write",
        ),
        "hook_validate": own.tool(
            "Take a new whole text of a hook script through the gate, without installing it.",
            {"hook": hook, "content": CONTENT},
            own.validate,
        ),
    }


class _Hooks(Files):
    """The hook tools' code."""

    kind = "hook"

    async def list(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        entries = self._engine.scripts.entries
        lines = [one.name if one.executable else f"{one.name} (not run: no run bit)" for one in entries]
        return ToolResult("\n".join(lines) or "(no hook scripts)", title="hooks/")

    async def write(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        return await self._told(args, "hook_write", lambda text: str(args["content"]), context)

    async def edit(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        return await self._told(args, "hook_edit", editing(args), context)

    async def propose(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        known = self._registered(args)
        installed, each = await self._propose(args, context)
        return _installed(installed, known, f"\n{each}")

    async def validate(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        path = self._path(args)
        try:
            verdict = await self._engine.evolution.validate(path, str(args["content"]))
        except (CandidateRefused, NotChanged) as error:
            return ToolResult(f"{path} would be refused: {error}", title=f"{path}: refused")
        metadata = {"file": str(args["hook"]), "test_output": verdict.test, "raises": list(verdict.raised)}
        would = "would wait for a person" if verdict.raised else "would be installed"
        return ToolResult(f"{path} {would}: {verdict_text(verdict)}", f"{path}: passed", metadata)

    async def _told(self, args: wire.Plain, name: str, change: Change, context: ToolContext) -> ToolResult:
        known = self._registered(args)
        return _installed(await self._change(args, name, change, context), known)

    def _registered(self, args: wire.Plain) -> set[str]:
        """The full names of the tools that the script has now."""
        file = str(args["hook"])
        return {
            tool.full for one in self._engine.scripts.registrations if one.file == file for tool in one.tools
        }


def _installed(installed: Installed, known: set[str], more: str = "") -> ToolResult:
    """The result of a change that went live; `known` are the tools that the script had, `more` is said at the end."""
    registration = installed.verdict.registration
    now = [tool.full for tool in registration.tools] if registration is not None else []
    text = f"Installed {installed.path}{commit_text(installed)}: {verdict_text(installed.verdict)}"
    fresh, gone = [tool for tool in now if tool not in known], sorted(known.difference(now))
    if fresh:
        text += f"\nNew tools, from the next step on: {', '.join(fresh)}"
    if gone:
        text += f"\nTools that are gone: {', '.join(gone)}"
    signed = ((f"+{len(fresh)}", fresh), (f"-{len(gone)}", gone))
    counts = [f"{number} tool{'s' if len(names) > 1 else ''}" for number, names in signed if names]
    return ToolResult(text + more, installed.path, metadata(installed, *counts) | {"tools": now})
