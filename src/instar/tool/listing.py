"""The `list` tool: the files below a folder, as a tree."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description, files, glob, parameters, search
from instar.wire import Plain

PARAMETERS: Final[Plain] = parameters(
    {},
    {
        "path": "The folder to list (default: the working directory)",
        "ignore": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Globs of files to leave out, as *.lock or docs/**",
        },
    },
)


def permissions(args: Plain, ctx: ToolContext) -> list[Ask]:
    """Return what listing this folder needs."""
    root = files.locate(args.get("path") or ".", ctx)
    return [*files.outside(root, ctx), Ask("list", [files.shown(root, ctx)], ["*"], {"path": str(root)})]


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """List. Raises `ToolFailure` for a folder that is missing or a glob that means nothing."""
    root = files.locate(args.get("path") or ".", ctx)
    if not root.is_dir():
        raise ToolFailure(f"Not a folder: {root}" if root.exists() else files.missing(root))
    found = await search.files(root, "**", ctx, without=args.get("ignore") or ())
    paths = sorted(Path(path).relative_to(root).parts for path, _ in found.files)
    lines = [f"{root}/", *_tree(paths)] if paths else ["No files found"]
    lines += glob.truncation_note(found, len(paths))
    metadata = {"count": len(paths), "truncated": found.total > len(paths)}
    return ToolResult("\n".join(lines), files.shown(root, ctx), metadata, truncate=False)


TOOL: Final = Tool(description("listing"), PARAMETERS, execute, permissions, idempotent=True)


def _tree(paths: Sequence[tuple[str, ...]], depth: int = 1) -> Iterator[str]:
    """The folders first, then the files, each indented by two spaces a level."""
    folders: dict[str, list[Any]] = {}
    for path in paths:
        if len(path) > 1:
            folders.setdefault(path[0], []).append(path[1:])
    for name, inner in folders.items():
        yield f"{'  ' * depth}{name}/"
        yield from _tree(inner, depth + 1)
    yield from (f"{'  ' * depth}{path[0]}" for path in paths if len(path) == 1)
