"""What happened to the workspace: its log, taking a change of one's own back, and what waits for a person."""

import asyncio
from collections.abc import Callable
from typing import Final

from instar.plugin import Ask, ToolContext, ToolFailure, ToolResult, git, process, wire
from instar.plugins.evolve.discovery import PREFIX, remembered
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.gate import attempts, pending
from instar.plugins.evolve.history import timeline
from instar.plugins.evolve.history.repository import NoSuchChange, Revision
from instar.plugins.evolve.history.timeline import TimelinePage
from instar.plugins.evolve.history.trailers import counted, one_line
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.rollback import AgentRollback
from instar.plugins.evolve.tools.definition import ToolDefinition, cause_of, tool

_SHOWN: Final = 20
_MOST: Final = 100
_REF: Final = {
    "type": "string",
    "description": "The change: the start of a commit's id, or an epoch such as @12, as evolve_log has them (default: "
    "your newest one).",
}
_FILE: Final = {"type": "string", "description": "Only changes of this file, such as hooks/bot.py."}
_LIMIT: Final = {
    "type": "integer",
    "minimum": 1,
    "maximum": _MOST,
    "description": f"How many (default {_SHOWN}, at most {_MOST}).",
}
_TRIED: Final = {"type": "string", "description": "Which file, such as hooks/bot.py."}
_ATTEMPTS: Final = {**_LIMIT, "description": f"How many (default {attempts.SHOWN}, at most {_MOST})."}
_ID: Final = {"type": "string", "description": "Show this one with its diff, by the id that the list has."}
_UNREADABLE: Final = (git.GitError, process.ProcessError)


def tools(engine: EvolveEngine, aliases: Callable[[str], tuple[str, ...]]) -> dict[str, ToolDefinition]:
    """Return the tools by name; `aliases` gives the other full names of a tool of evolve's."""
    own = _Past(engine, aliases)
    return {
        "log": tool(
            "List what happened to the workspace, newest first: changes, refusals, rollbacks, a person's orders.",
            {"file": _FILE, "limit": _LIMIT},
            own.log,
            optional=["file", "limit"],
        ),
        "attempts": tool(
            "List what was tried at a file and is not live: what was refused, passed over, rejected or taken back, and "
            "why. Look before you propose again.",
            {"file": _TRIED, "limit": _ATTEMPTS},
            own.attempts,
            optional=["limit"],
        ),
        "rollback": tool(
            "Take back a change that you made: its files become what they were before it. It is refused where a "
            "person changed them since, and where the version before would reach more than you may.",
            {"ref": _REF},
            own.rollback,
            optional=["ref"],
        ),
        "pending": tool(
            "List the changes that wait for a person since they would reach more, with what they raise; or show one.",
            {"id": _ID},
            own.pending,
            optional=["id"],
        ),
    }


class _Past:
    """The tools' code."""

    def __init__(self, engine: EvolveEngine, aliases: Callable[[str], tuple[str, ...]]) -> None:
        self._engine = engine
        self._aliases = aliases
        self._agent_rollback = AgentRollback(engine.storage, engine.evolution)

    async def log(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        file, limit = str(args.get("file", "")).removeprefix("./"), args.get("limit", _SHOWN)
        storage = self._engine.storage
        told = await timeline.page(storage.revisions, storage.audit_log, TimelinePage(limit, file=file))
        what = f"change of {file}" if file else "change"
        return ToolResult(told.text() or f"(no {what} is known)", counted(len(told.changes), "change"))

    async def attempts(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        file, limit = str(args["file"]).removeprefix("./"), args.get("limit", attempts.SHOWN)
        storage = self._engine.storage
        try:
            found = await asyncio.to_thread(attempts.past, storage.audit_log, storage.reports, file, limit)
        except OSError as error:
            raise ToolFailure(f"what was tried at {file} cannot be read: {error}") from None
        text = attempts.text(found) or f"(nothing was tried at {file} that is not live)"
        return ToolResult(text, counted(len(found), "attempt"))

    async def rollback(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        cause = cause_of("rollback", context)
        try:
            revision = await self._agent_rollback.find(str(args.get("ref", "")))
            await self._ask(revision, context)
            changed = await self._engine.rollback.roll_back(revision.id, cause, self._agent_rollback.check)
        except (NotChanged, NoSuchChange) as error:
            raise ToolFailure(f"nothing was rolled back: {error}") from None
        except _UNREADABLE as error:
            raise ToolFailure(f"nothing was rolled back: git failed: {error}") from None
        commit = changed.commit
        files, epoch = ", ".join(changed.files), changed.epoch
        text = f"Rolled back {revision.short} ({one_line(revision.subject)}): {files} as before it, epoch {epoch}."
        metadata = {"files": changed.files, "epoch": epoch, "commit": commit.id if commit else None}
        return ToolResult(text, files, metadata)

    async def pending(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        if args.get("id") is not None:
            try:
                entry = await asyncio.to_thread(self._engine.storage.pending.get, str(args["id"]))
            except pending.NotPending as error:
                raise ToolFailure(str(error)) from None
            return ToolResult(f"{_line(entry)}\n\n{entry.proposal.diff}", entry.proposal.file)
        listed = await asyncio.to_thread(self._engine.storage.pending.list)
        waiting = [one for one in listed.entries if one.state != "rejected"]
        lines = [*map(_line, waiting), *(f"problem: {one}" for one in listed.problems)]
        return ToolResult("\n".join(lines) or "(nothing waits)", f"{len(waiting)} waiting")

    async def _ask(self, revision: Revision, context: ToolContext) -> None:
        """A rollback is a change of these files: whoever may not write one may not take a change of it back."""
        for kind in ("hook", "prompt"):
            folder, name = f"{kind}s/", f"{kind}_write"
            files = [path.removeprefix(folder) for path in revision.files if path.startswith(folder)]
            if files:
                shown = {kind: ", ".join(files), "rollback": revision.short}
                await context.ask(
                    Ask(f"{PREFIX}_{name}", files, remembered([kind], files), shown, self._aliases(name))
                )


def _line(one: pending.PendingEntry) -> str:
    raised = "".join(f"\n  - {one_line(sentence)}" for sentence in one.proposal.raised)
    when = timeline.moment(one.time)
    return f"{one.id}  {when}  {one.state}  {one_line(one.proposal.file)} {one.proposal.would}:{raised}"
