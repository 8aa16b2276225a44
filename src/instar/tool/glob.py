"""The `glob` tool: finds files by name."""

import os
from pathlib import Path
from typing import Final

from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description, files, parameters, search
from instar.wire import Plain
from instar.wire.pattern import late_pattern

PARAMETERS: Final[Plain] = parameters(
    {"pattern": {"type": "string", "minLength": 1, "description": "The glob that the files' paths must fit"}},
    {"path": "The folder to look in (default: the working directory)"},
)


def permissions(args: Plain, ctx: ToolContext) -> list[Ask]:
    """Return what this search needs."""
    root, _ = rooted(args["pattern"], files.locate(args.get("path") or ".", ctx), ctx)
    ask = Ask("glob", [args["pattern"]], ["*"], {"pattern": args["pattern"], "path": str(root)})
    return [*files.outside(root, ctx), ask]


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Find files. Raises `ToolFailure` for a folder that is missing or a glob that means nothing."""
    base = files.locate(args.get("path") or ".", ctx)
    if not base.is_dir():
        raise ToolFailure(f"Not a folder: {base}" if base.exists() else files.missing(base))
    root, pattern = rooted(args["pattern"], base, ctx)
    found = await search.files(root, pattern, ctx) if root.is_dir() else search.SearchResult([], 0, True)
    paths = [path for path, _ in found.files]
    lines = [*(paths or ["No files found"]), *truncation_note(found, len(paths))]
    metadata = {"count": len(paths), "truncated": found.total > len(paths)}
    return ToolResult("\n".join(lines), files.shown(root, ctx), metadata, truncate=False)


def rooted(pattern: str, base: Path, ctx: ToolContext) -> tuple[Path, str]:
    """Return the folder that a pattern starts in, and the rest of it: ``src/**/*.py`` starts in ``src``.

    So a pattern may be absolute or lead upwards, and a folder that it names is searched even if ignored.
    """
    if pattern.endswith("/"):
        pattern += "**"
    parts = pattern.split("/")
    if len(parts) == 1:
        return base, pattern
    literal = next((index for index, part in enumerate(parts) if _WILD.search(part)), len(parts))
    literal = min(literal, len(parts) - 1)
    start = "/".join(parts[:literal]) or ("/" if pattern.startswith("/") else ".")
    root = files.locate(start if start.startswith(("/", "~")) else os.path.join(base, start), ctx)  # noqa: PTH118
    return root, "/" + "/".join(parts[literal:])


def truncation_note(found: search.SearchResult, shown: int) -> list[str]:
    """Return what to say below a list that does not hold all there is."""
    lines = []
    if found.total > shown:
        lines.append(
            f"(Showing {shown} of {found.total}, newest files first. Use a more specific pattern or path.)"
        )
    if not found.complete:
        lines.append(f"(The search was ended after {search.SECONDS:g} s; there may be more. Narrow it down.)")
    return ["", *lines] if lines else []


TOOL: Final = Tool(description("glob"), PARAMETERS, execute, permissions, idempotent=True)

_WILD: Final = late_pattern(r"[*?\[{\\]")
