"""Evolving: installing a tested change of a hook script or a prompt, and committing what a tool run changed.

One evolution of a workspace at a time. The order is check, install (atomic), discover, commit; a candidate
that is refused leaves the workspace as it was, byte for byte.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from instar.plugin import Client, ToolContext, ToolFailure, document, event, process
from instar.plugins.evolve import candidate, discovery, edit, script, tree
from instar.plugins.evolve.history import Commit, History
from instar.plugins.evolve.scripts import Scripts
from instar.plugins.evolve.workspace import OutsideWorkspace, Workspace

log = logging.getLogger("instar.evolve")

Change = Callable[[str], str]
"""From a file's text to its new text; may raise `edit.NoEdit`."""


class Installed(msgspec.Struct, frozen=True):
    """An evolution: what it changed, what its test printed, and its commit (None: git failed)."""

    file: str
    diff: str
    verdict: candidate.Verdict | None
    commit: Commit | None


class Recorded(msgspec.Struct):
    """What a tool run changed; filled in when the run is over."""

    files: list[str] = msgspec.field(default_factory=list)
    commit: Commit | None = None


class Evolution:
    """Changes of one workspace. `refresh` is called when a script was installed."""

    def __init__(
        self,
        processes: process.Processes,
        workspace: Workspace,
        scripts: Scripts,
        history: History,
        client: Client,
        place: Callable[[], script.Place],
        refresh: Callable[[], Awaitable[None]],
    ) -> None:
        self._processes = processes
        self._client = client
        self._place = place
        self._refresh = refresh
        self._lock = asyncio.Lock()
        self._watched: dict[str, dict[str, tree.Scan]] = {}
        self._running: dict[str, str] = {}
        self.workspace = workspace
        self.scripts = scripts
        self.history = history

    async def try_hook(self, file: str, content: str) -> candidate.Verdict:
        """Check a candidate without installing it. Raises `candidate.Refused` and `ToolFailure`."""
        self._script(file)
        return await self._check(file, content)

    async def change_hook(self, file: str, change: Change, tool: str, context: ToolContext) -> Installed:
        """Change a hook script if its candidate passes. Raises `ToolFailure` otherwise."""
        async with self._lock:
            path = self._script(file)
            before, after = _changed(path, change)
            try:
                verdict = await self._check(file, after)
            except candidate.Refused as error:
                raise ToolFailure(
                    f"hooks/{file} was not changed: {error}\n\nThe workspace is as it was."
                ) from None
            commit = await self._install(path, before, after, tool, context)
            await self._refresh()
            return Installed(file, edit.diff(f"hooks/{file}", before, after), verdict, commit)

    async def change_prompt(self, file: str, change: Change, tool: str, context: ToolContext) -> Installed:
        """Change an existing prompt. Raises `ToolFailure`."""
        async with self._lock:
            path = self.prompt(file)
            before, after = _changed(path, change)
            commit = await self._install(path, before, after, tool, context)
            return Installed(file, edit.diff(f"prompts/{file}", before, after), None, commit)

    def prompt(self, file: str) -> Path:
        """Return the path of a prompt, which need not exist. Raises `ToolFailure`."""
        try:
            return self.workspace.resolve(self.workspace.prompts, file)
        except OutsideWorkspace as error:
            raise ToolFailure(str(error)) from None

    def hook(self, file: str) -> Path:
        """Return the path of a file in ``hooks/``. Raises `ToolFailure`."""
        try:
            return self.workspace.resolve(self.workspace.hooks, file)
        except OutsideWorkspace as error:
            raise ToolFailure(str(error)) from None

    @asynccontextmanager
    async def recording(self, tool: str, session_id: str, call_id: str) -> AsyncIterator[Recorded]:
        """Commit what the body changes in the workspace, also when it fails."""
        self._running[call_id] = tool
        try:
            before = await asyncio.to_thread(self.history.scan)
            recorded = Recorded()
            try:
                yield recorded
            except asyncio.CancelledError:
                # No time for git now: what is owed goes into the next commit.
                self.history.changed(before)
                raise
            except BaseException:
                await self._record(before, recorded, tool, session_id, call_id)
                raise
            await self._record(before, recorded, tool, session_id, call_id)
        finally:
            self._running.pop(call_id, None)

    async def watch(self, tool: str, session_id: str, call_id: str) -> None:
        """Remember what stands in the workspace before a call of a tool that is not evolve's own."""
        self._running[call_id] = tool
        self._watched.setdefault(session_id, {})[call_id] = await asyncio.to_thread(self.history.scan)

    async def watched(self, tool: str, session_id: str, call_id: str) -> None:
        """Commit what a call that was watched has changed (seed 000: "after tool execution")."""
        before = self._watched.get(session_id, {}).pop(call_id, None)
        if before is not None:
            await self._commit(before, Recorded(), tool, session_id, call_id)
        self._running.pop(call_id, None)

    async def unwatch(self, session_id: str) -> None:
        """Owe what the calls of a turn that was aborted have changed to the next commit."""
        for call_id, before in self._watched.pop(session_id, {}).items():
            self._running.pop(call_id, None)
            await asyncio.to_thread(self.history.changed, before)

    async def _record(
        self, before: tree.Scan, recorded: Recorded, tool: str, session_id: str, call_id: str
    ) -> None:
        await self._commit(before, recorded, tool, session_id, call_id)
        if recorded.files:
            await self._announce(recorded.commit.files if recorded.commit else recorded.files)

    async def _commit(
        self, before: tree.Scan, recorded: Recorded, tool: str, session_id: str, call_id: str
    ) -> None:
        async with self._lock:
            recorded.files = await asyncio.to_thread(self.history.changed, before)
            if recorded.files:
                text = message(tool, "", session_id, call_id, self._beside(call_id))
                recorded.commit = await self.history.commit([], text)

    def _beside(self, call_id: str) -> dict[str, str]:
        """The other calls that run now: a change that is found may as well be theirs."""
        return {other: tool for other, tool in self._running.items() if other != call_id}

    async def _check(self, file: str, content: str) -> candidate.Verdict:
        live = await self.scripts.live(file)
        attempt = candidate.Candidate(file, content, live)
        verdict = await candidate.check(self._processes, self.workspace, attempt, self._place())
        others = [one for one in self.scripts.registrations if one.file != file]
        _, problems = discovery.collisions([*others, verdict.registration])
        clashes = [problem for problem in problems if file in problem]
        if clashes:
            raise candidate.Refused("\n".join(clashes))
        return verdict

    async def _install(
        self, path: Path, before: str, after: str, tool: str, context: ToolContext
    ) -> Commit | None:
        """Put the new text in place and commit it; refuse when somebody changed the file meanwhile."""
        if _read(path) != before:
            raise ToolFailure(f"{path.name} was changed by somebody else meanwhile: read it again")
        try:
            document.atomic_write(path, after.encode())
        except OSError as error:
            raise ToolFailure(f"{path.name} could not be written: {error}; it is as it was") from None
        file = path.relative_to(self.workspace.root).as_posix()
        log.info("evolution=installed file=%s tool=%s session=%s", file, tool, context.session_id)
        commit = await self.history.commit(
            [file], message(tool, path.name, context.session_id, context.call_id)
        )
        await self._announce([file])
        return commit

    def _script(self, file: str) -> Path:
        path = self.hook(file)
        if not path.exists():
            raise ToolFailure(f"there is no hooks/{file}; new hook scripts cannot be created")
        if self.scripts.find(file) is None:
            raise ToolFailure(
                f"hooks/{file} is missing its run bit, so it is no hook script: chmod +x {path}"
            )
        return path

    async def _announce(self, files: list[str]) -> None:
        for file in files:
            properties = event.FileEdited(file=str(self.workspace.root / file))
            await self._client.publish(event.make(properties))


def message(
    tool: str, subject: str, session_id: str, call_id: str, beside: Mapping[str, str] | None = None
) -> str:
    """Return the message of a commit: which tool, on what, and in its body which session and call.

    `beside` are calls, by id with their tool, that ran at the same time and may have made the change.
    """
    others = beside or {}
    first = f"{', '.join(dict.fromkeys([tool, *others.values()]))} {subject}".strip()
    also = "".join(f"\nAlso running: {name} {other}" for other, name in others.items())
    return f"{first}\n\nSession: {session_id}\nCall: {call_id}{also}"


def _changed(path: Path, change: Change) -> tuple[str, str]:
    before = _read(path)
    try:
        after = change(before)
    except edit.NoEdit as error:
        raise ToolFailure(f"{path.name}: {error}") from None
    if after == before:
        raise ToolFailure(f"{path.name} already says exactly that: nothing to change")
    try:
        after.encode()
    except UnicodeEncodeError as error:
        raise ToolFailure(f"{path.name}: the new text is not valid Unicode: {error.reason}") from None
    return before, after


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        raise ToolFailure(
            f"there is no {path.parent.name}/{path.name}; evolve cannot create new files"
        ) from None
    except UnicodeDecodeError as error:
        raise ToolFailure(f"{path.name} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise ToolFailure(f"{path.name} cannot be read: {error.strerror}") from None
