"""The `grep` tool: searches what files hold."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin.tool import Ask, PermissionDenied, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import description, files, parameters, search
from instar.tool.glob import truncation_note
from instar.wire import Plain

PARAMETERS: Final[Plain] = parameters(
    {"pattern": {"type": "string", "minLength": 1, "description": "The regular expression to search for"}},
    {
        "path": "The folder or file to search (default: the working directory)",
        "include": "A glob for the files to search, such as *.py",
    },
)


def permissions(args: Plain, ctx: ToolContext) -> list[Ask]:
    """Return what this search needs; to search one named file is also to read it."""
    path = files.locate(args.get("path") or ".", ctx)
    ask = Ask("grep", [args["pattern"]], ["*"], {**args, "path": str(path)})
    if path.is_file():
        return [*files.asks("read", path, ctx, {"filepath": str(path)}), ask]
    return [*files.outside(path, ctx), ask]


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Search. Raises `ToolFailure` for a missing path or an invalid regular expression."""
    root = files.locate(args.get("path") or ".", ctx)
    if not root.exists():
        raise ToolFailure(files.missing(root))
    if not root.is_file() and not root.is_dir():
        raise ToolFailure(f"Cannot search {root}: it is a pipe or device")
    found = await search.lines(root, args["pattern"], args.get("include"), ctx)
    found, hidden = await _readable(found, ctx)
    shown = sum(len(matches) for _, matches in found.files)
    output = (
        "\n".join(_listed(found, shown))
        if found.total
        else "\n".join(["No matches found", *truncation_note(found, 0)])
    )
    if hidden:
        output += f"\n\n(Files with matches that may not be read were left out: {hidden}.)"
    metadata = {"matches": found.total, "truncated": found.total > shown}
    return ToolResult(output, args["pattern"], metadata)


TOOL: Final = Tool(description("grep"), PARAMETERS, execute, permissions, idempotent=True)


async def _readable(found: search.SearchResult, ctx: ToolContext) -> tuple[search.SearchResult, int]:
    """What was found in files that may be read, and how many files may not.

    To show a line is to read it: a rule for ``*.env`` holds also where a whole folder was searched.
    """
    readable, lines, hidden = [], 0, 0
    for path, matches in found.files:
        try:
            *_, ask = files.asks("read", Path(path), ctx, {"filepath": path})
            await ctx.ask(ask)
        except ToolFailure as refusal:
            if isinstance(refusal, PermissionDenied) and refusal.stop:
                raise
            hidden, lines = hidden + 1, lines + len(matches)
        else:
            readable.append((path, matches))
    return msgspec.structs.replace(found, files=readable, total=found.total - lines), hidden


def _listed(found: search.SearchResult, shown: int) -> Iterator[str]:
    yield f"Found {found.total} match{'' if found.total == 1 else 'es'}"
    for path, matches in found.files:
        yield f"\n{path}:"
        yield from (f"  Line {match.number}: {match.text}" for match in matches)
    yield from truncation_note(found, shown)
