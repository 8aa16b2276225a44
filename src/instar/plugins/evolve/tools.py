"""evolve's own tools: the date, and listing, reading, writing, editing and validating hooks and prompts.

They work whatever state the scripts are in. Parameters and names: seed 000 "builtin tools", issue 2.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from instar.plugin import Ask, Tool, ToolContext, ToolFailure, ToolResult, wire
from instar.plugins.evolve import candidate, edit
from instar.plugins.evolve.discovery import PREFIX
from instar.plugins.evolve.evolution import Change, Evolution, Installed


def build(evolution: Evolution, prefixes: Sequence[str], taken: Sequence[str]) -> dict[str, Tool]:
    """Return evolve's own tools by full name.

    `prefixes` are the names of the scripts, under which each tool goes too unless that name is `taken` by
    a tool of a script. A tool that takes a hook file is left out while there is none.
    """
    made = _hook_tools(evolution) | _prompt_tools(evolution)
    made["datetime"] = _tool("Get the current date and time in UTC.", {}, _datetime)
    found: dict[str, Tool] = {}
    for name in sorted(made):
        full = f"{PREFIX}_{name}"
        tool = made[name]
        tool.aliases = tuple(
            alias for prefix in prefixes if (alias := f"{prefix}_{name}") != full and alias not in taken
        )
        tool.permissions = _permissions(full, tool)
        found[full] = tool
    return found


def _hook_tools(evolution: Evolution) -> dict[str, Tool]:
    own = _Hooks(evolution)
    tools = {"hook_list": _tool("List the hook scripts of the workspace.", {}, own.list)}
    files = [entry.name for entry in evolution.scripts.runnable()]
    if not files:
        return tools
    file = _enum("Which hook script.", files)
    return tools | {
        "hook_read": _tool("Read a hook script.", {"file": file, **_WINDOW}, own.read),
        "hook_write": _tool(
            "Replace a hook script by a new whole text. It is tried with the script's own test in a copy of "
            "the workspace first and installed only if that passes; its new tools can be called in the next "
            "step.",
            {"file": file, "content": _CONTENT},
            own.write,
        ),
        "hook_edit": _tool(
            "Replace a text in a hook script by another. The changed script is tried with its own test in a "
            "copy of the workspace first and installed only if that passes; its new tools can be called in "
            "the next step.",
            {"file": file, **_EDIT},
            own.edit,
        ),
        "hook_validate": _tool(
            "Try a new whole text of a hook script with its test, without installing it.",
            {"file": file, "content": _CONTENT},
            own.validate,
        ),
    }


def _prompt_tools(evolution: Evolution) -> dict[str, Tool]:
    own = _Prompts(evolution)
    file = _enum("Which prompt.", evolution.workspace.prompt_files())
    return {
        "prompt_list": _tool("List the prompts of the workspace.", {}, own.list),
        "prompt_read": _tool("Read a prompt.", {"file": file, **_WINDOW}, own.read),
        "prompt_write": _tool(
            "Replace a prompt that exists by a new whole text.",
            {"file": file, "content": _CONTENT},
            own.write,
        ),
        "prompt_edit": _tool(
            "Replace a text in a prompt that exists by another.", {"file": file, **_EDIT}, own.edit
        ),
    }


class _Hooks:
    """The hook tools' code; the core has validated the arguments."""

    def __init__(self, evolution: Evolution) -> None:
        self._evolution = evolution

    async def list(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        lines = [entry.problem or entry.name for entry in self._evolution.scripts.entries]
        return ToolResult("\n".join(lines) or "(no hook scripts)", title="hooks/")

    async def read(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        return _read(self._evolution.hook(args["file"]), args)

    async def write(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        return await self._change(args, "hook_write", lambda text: str(args["content"]), context)

    async def edit(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        return await self._change(args, "hook_edit", _edit(args), context)

    async def validate(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        file = str(args["file"])
        try:
            verdict = await self._evolution.try_hook(file, str(args["content"]))
        except candidate.Refused as error:
            return ToolResult(f"hooks/{file} would be refused: {error}", title=f"hooks/{file}: refused")
        metadata = {"file": file, "test_output": verdict.test_output}
        return ToolResult(
            f"hooks/{file} would be installed: {_verdict(verdict)}", f"hooks/{file}: passed", metadata
        )

    async def _change(self, args: wire.Plain, name: str, change: Change, context: ToolContext) -> ToolResult:
        scripts, file = self._evolution.scripts, str(args["file"])
        known = {tool.full for one in scripts.registrations if one.file == file for tool in one.tools}
        installed = await self._evolution.change_hook(file, change, f"{PREFIX}_{name}", context)
        assert installed.verdict is not None
        now = [tool.full for tool in installed.verdict.registration.tools]
        text = f"Installed hooks/{file}{_commit(installed)}: {_verdict(installed.verdict)}"
        fresh, gone = [tool for tool in now if tool not in known], sorted(known.difference(now))
        if fresh:
            text += f"\nNew tools, from the next step on: {', '.join(fresh)}"
        if gone:
            text += f"\nTools that are gone: {', '.join(gone)}"
        metadata = _metadata(installed) | {"test_output": installed.verdict.test_output, "tools": now}
        return ToolResult(text, f"hooks/{file}", metadata)


class _Prompts:
    """The prompt tools' code; the core has validated the arguments."""

    def __init__(self, evolution: Evolution) -> None:
        self._evolution = evolution

    async def list(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        names = self._evolution.workspace.prompt_files()
        lines = [name if self._evolution.prompt(name).exists() else f"{name} (empty)" for name in names]
        return ToolResult("\n".join(lines), title="prompts/")

    async def read(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        path = self._evolution.prompt(args["file"])
        return _read(path, args) if path.exists() else ToolResult("(empty)", title=path.name)

    async def write(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        return await self._change(args, "prompt_write", lambda text: str(args["content"]), context)

    async def edit(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        return await self._change(args, "prompt_edit", _edit(args), context)

    async def _change(self, args: wire.Plain, name: str, change: Change, context: ToolContext) -> ToolResult:
        file = str(args["file"])
        installed = await self._evolution.change_prompt(file, change, f"{PREFIX}_{name}", context)
        return ToolResult(
            f"Wrote prompts/{file}{_commit(installed)}.", f"prompts/{file}", _metadata(installed)
        )


_CONTENT: Final = {"type": "string", "description": "The new whole text of the file."}
_WINDOW: Final = {
    "offset": {"type": "integer", "minimum": 1, "description": "The line to start from, counted from 1."},
    "limit": {
        "type": "integer",
        "minimum": 1,
        "description": f"How many lines to read (default {edit.READ_LIMIT}).",
    },
}
_EDIT: Final = {
    "oldString": {"type": "string", "description": "The text to replace, exactly as it stands in the file."},
    "newString": {"type": "string", "description": "The text to put in its place, taken literally."},
    "replaceAll": {"type": "boolean", "description": "Replace every occurrence (default false)."},
}
_OPTIONAL: Final = ("offset", "limit", "replaceAll")


def _enum(description: str, files: Sequence[str]) -> wire.Plain:
    return {"type": "string", "enum": list(files), "description": description}


def _tool(description: str, properties: wire.Plain, execute: Any) -> Tool:
    schema: wire.Plain = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in _OPTIONAL],
        "additionalProperties": False,
    }
    return Tool(description=description, parameters=schema, execute=execute, exact_first=True)


def _permissions(full: str, tool: Tool) -> Any:
    def ask(args: wire.Plain, context: ToolContext) -> list[Ask]:
        patterns = [str(args["file"])] if "file" in tool.parameters["properties"] else ["*"]
        return [Ask(full, patterns, patterns, metadata=dict(args), aliases=tool.aliases)]

    return ask


async def _datetime(args: wire.Plain, context: ToolContext) -> ToolResult:
    return ToolResult(datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"))


def _read(path: Any, args: wire.Plain) -> ToolResult:
    try:
        text = path.read_bytes().decode(errors="replace")
        shown = edit.window(text, args.get("offset", 1), args.get("limit", edit.READ_LIMIT))
    except edit.NoEdit as error:
        raise ToolFailure(f"{path.name}: {error}") from None
    except OSError as error:
        raise ToolFailure(f"{path.name} cannot be read: {error.strerror}") from None
    return ToolResult(shown, title=f"{path.parent.name}/{path.name}")


def _edit(args: wire.Plain) -> Change:
    everywhere = bool(args.get("replaceAll", False))
    return lambda text: edit.replace(text, args["oldString"], args["newString"], everywhere=everywhere)[0]


def _verdict(verdict: candidate.Verdict) -> str:
    test = verdict.registration.test
    return (
        f"its test tests/{test} passed." if test else "it registers no test, so only its discover was tried."
    )


def _commit(installed: Installed) -> str:
    return (
        f" (commit {installed.commit.id})"
        if installed.commit
        else " (not committed: git failed, see the log)"
    )


def _metadata(installed: Installed) -> wire.Plain:
    return {
        "file": installed.file,
        "diff": installed.diff,
        "commit": installed.commit.id if installed.commit else None,
    }
