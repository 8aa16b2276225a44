"""The `apply_patch` tool: changes several files by one patch, all of them or none."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import msgspec

from instar import event
from instar.plugin.tool import Ask, Tool, ToolContext, ToolFailure, ToolResult
from instar.tool import diff, patch, place, seen, textfile
from instar.wire import Plain

log = logging.getLogger("instar.tool")

PARAMETERS: Final[Plain] = {
    "type": "object",
    "properties": {"patchText": {"type": "string", "description": "The whole patch"}},
    "required": ["patchText"],
}


class Effect(msgspec.Struct, frozen=True):
    """What becomes of one path: its bytes `before` and `after` (None: no file)."""

    path: Path
    before: bytes | None
    after: bytes | None


def permissions(args: Plain, ctx: ToolContext) -> Sequence[Ask]:
    """Return what the patch needs: `edit` for each path that it touches."""
    try:
        touched = _touched(patch.parse(args["patchText"]), ctx)
    except ToolFailure:
        return []  # it touches nothing: the call itself will say what is wrong
    found: list[Ask] = []
    for path in touched:
        name = place.shown(path, ctx)
        found += place.asks(
            "edit", path, ctx, {"filepath": str(path), "diff": _about(args["patchText"], name)}
        )
    return found


async def execute(args: Plain, ctx: ToolContext) -> ToolResult:
    """Apply it. Raises `ToolFailure` when any part does not fit; every file is then as it was."""
    changes = patch.parse(args["patchText"])
    async with AsyncExitStack() as stack:
        for path in sorted(_touched(changes, ctx), key=lambda path: str(place.real(path))):
            await stack.enter_async_context(place.alone(path, ctx))
        # In a thread, shielded: an abort must not leave some of the files changed.
        effects = await asyncio.to_thread(_effects, changes, ctx)
        await asyncio.shield(asyncio.to_thread(_write, effects))
        for effect in effects:
            seen.note(effect.path, ctx, seen.stamp(effect.path))
    for effect in effects:
        await ctx.client.publish(event.make(event.FileEdited(file=str(effect.path))))
    return _result(effects, ctx)


TOOL: Final = Tool(
    description=Path(__file__).with_suffix(".md").read_text(encoding="utf-8").strip(),
    parameters=PARAMETERS,
    execute=execute,
    permissions=permissions,
    permission="edit",
)


def _touched(changes: Sequence[patch.Change], ctx: ToolContext) -> list[Path]:
    names = [name for change in changes for name in (change.path, change.move) if name]
    by_place: dict[Path, Path] = {}
    for path in (place.locate(name, ctx) for name in names):
        by_place.setdefault(place.real(path), path)
    return list(by_place.values())


def _about(text: str, name: str) -> str:
    """The patch as a person is shown it."""
    return text if len(text) <= diff.LARGEST else f"(a patch of {len(text)} characters that changes {name})"


def _effects(changes: Sequence[patch.Change], ctx: ToolContext) -> list[Effect]:
    """What the patch does to each path, worked out in order. Raises `ToolFailure`; nothing is written."""
    first: dict[Path, bytes | None] = {}
    now: dict[Path, bytes | None] = {}

    def content(path: Path) -> bytes | None:
        if path not in now:
            seen.check(path, ctx)
            first[path] = now[path] = textfile.whole(path) if path.exists() or path.is_symlink() else None
        return now[path]

    for change in changes:
        path = place.locate(change.path, ctx)
        if change.kind == "add":
            if content(path) is not None:
                raise ToolFailure(f"{change.path} exists: a patch adds only new files. Use *** Update File:.")
            now[path] = textfile.encoded("".join(f"{line}\n" for line in change.text))
            continue
        before = content(path)
        if before is None:
            raise ToolFailure(textfile.missing(path))
        if change.kind == "delete":
            now[path] = None
            continue
        text = patch.updated(change.path, before.decode(errors="surrogateescape"), change.chunks)
        target = place.locate(change.move, ctx) if change.move else path
        if target != path and content(target) is not None:
            raise ToolFailure(f"{change.move} exists: {change.path} is not moved over it.")
        now[path] = None
        now[target] = text.encode(errors="surrogateescape")
    return [Effect(path, first[path], after) for path, after in now.items() if first[path] != after]


def _write(effects: Sequence[Effect]) -> None:
    """Put every file in its new state. When one cannot be, those before it are put back. Raises `ToolFailure`."""
    done: list[tuple[Effect, int | None]] = []
    try:
        # New and changed files first: nothing is deleted before what takes its place is there.
        for effect in sorted(effects, key=lambda effect: effect.after is None):
            mode = effect.path.stat().st_mode & 0o7777 if effect.before is not None else None
            done.append((effect, mode))
            _put(effect.path, effect.after)
    except (ToolFailure, OSError) as error:
        for effect, mode in reversed(done):
            _restore(effect, mode)
        reason = error if isinstance(error, ToolFailure) else f"{error.strerror}: {error.filename}"
        raise ToolFailure(f"{reason}\nThe patch was not applied; every file is as it was.") from None


def _put(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink()
    else:
        textfile.replace(path, data)


def _restore(effect: Effect, mode: int | None) -> None:
    try:
        if effect.before is not None:
            textfile.replace(effect.path, effect.before)
            effect.path.chmod(mode or 0o644)
        elif effect.path.exists():
            effect.path.unlink()
    except (ToolFailure, OSError) as error:
        log.error("patch not taken back file=%s error=%s", effect.path, error)


def _result(effects: Sequence[Effect], ctx: ToolContext) -> ToolResult:
    files: list[dict[str, Any]] = []
    lines = []
    for effect in effects:
        name = place.shown(effect.path, ctx)
        before, after = (
            data.decode(errors="replace") if data else "" for data in (effect.before, effect.after)
        )
        letter = "A" if effect.before is None else "D" if effect.after is None else "M"
        lines.append(f"{letter} {name}")
        files.append(diff.counted(name, before, after))
    text = "\n".join(["Success. Updated the following files:", *lines]) if lines else "Nothing changed."
    metadata = {
        "diff": "".join(file["diff"] for file in files),
        "files": [file["filediff"] for file in files],
    }
    return ToolResult(text, f"{len(effects)} file{'' if len(effects) == 1 else 's'}", metadata)
