"""Committing what tool runs change in a workspace, but for what goes through the gate.

A guarded file that somebody changed is a departure (`ledger`), and is never
committed here.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path

import msgspec

from instar.plugins.evolve.history import trailers, tree
from instar.plugins.evolve.history.commits import History, WorkspaceCommit


class RecordedChange(msgspec.Struct):
    """What a tool run changed, and of it what a hook named; filled in when the run is over."""

    files: list[str] = msgspec.field(default_factory=list)
    named: list[str] = msgspec.field(default_factory=list)
    commit: WorkspaceCommit | None = None


class _Call:
    """A call that runs, and what hooks named in it. Ids of calls are the provider's: two sessions may have the same.

    `args` are its arguments as text.
    """

    def __init__(self, tool: str, session_id: str, call_id: str, args: str = "") -> None:
        self.tool = tool
        self.args = args
        self.session_id = session_id
        self.call_id = call_id
        self.named: dict[str, None] = {}
        self.before: tree.Scan = {}
        self.told: set[str] = set()

    def names(self, file: str) -> bool:
        """Whether a hook named the file in this call, or its arguments hold the file's name."""
        return file in self.named or Path(file).name in self.args


class ChangeRecorder:
    """Commits what tool runs change. `lock` is held while git works; `announce` tells of files that changed."""

    def __init__(
        self, history: History, lock: asyncio.Lock, announce: Callable[[list[str]], Awaitable[None]]
    ) -> None:
        self._history = history
        self._lock = lock
        self._announce = announce
        self._watched: dict[str, dict[str, _Call]] = {}
        self._running: list[_Call] = []
        self._within: ContextVar[_Call | None] = ContextVar("within", default=None)

    @asynccontextmanager
    async def recording(
        self, tool: str, session_id: str, call_id: str, args: str = ""
    ) -> AsyncIterator[RecordedChange]:
        """Commit what the body changes in the workspace, also when it fails."""
        call = _Call(tool, session_id, call_id, args)
        self._running.append(call)
        around = self._within.get()
        self._within.set(call)
        try:
            call.before = await asyncio.to_thread(self._history.scan)
            recorded = RecordedChange()
            try:
                yield recorded
            except asyncio.CancelledError:
                # No time for git now: the commit is made with the next one.
                self._owe(call)
                raise
            except BaseException:
                await self._record(call, recorded)
                raise
            await self._record(call, recorded)
        finally:
            self._within.set(around)
            self._running.remove(call)

    async def watch(self, tool: str, session_id: str, call_id: str, args: str = "") -> None:
        """Remember what stands in the workspace before a call of a tool that is not evolve's own."""
        call = _Call(tool, session_id, call_id, args)
        self._running.append(call)
        try:
            call.before = await asyncio.to_thread(self._history.scan)
        except BaseException:
            self._running.remove(call)
            raise
        calls = self._watched.setdefault(session_id, {})
        if call_id in calls:
            # It began and never came to its end.
            self._running.remove(calls[call_id])
        calls[call_id] = call

    async def watched(self, tool: str, session_id: str, call_id: str) -> None:
        """Commit what a call that was watched has changed."""
        call = self._watched.get(session_id, {}).pop(call_id, None)
        if call is not None:
            recorded = RecordedChange()
            await self._commit(call, recorded)
            await self._announce(recorded.named)
            self._running.remove(call)

    async def unwatch(self, session_id: str) -> None:
        """Take down what the calls of a turn that was aborted have changed, and make the commits that are owed."""
        for call in self._watched.pop(session_id, {}).values():
            self._running.remove(call)
            await asyncio.to_thread(self._owe, call)
        async with self._lock:
            await self._history.settle()

    async def named(self, session_id: str, call_id: str, files: list[str]) -> None:
        """A hook says that it changed these files: they belong to the call that is recorded.

        Where none is, they are only announced: what they hold may be work of the person's.
        """
        departed = self._history.guarded()
        names = dict.fromkeys(file for file in files if file not in departed)
        call = self._found(session_id, call_id)
        if call is not None:
            call.named.update(names)
        else:
            await self._announce(list(names))

    def _found(self, session_id: str, call_id: str) -> _Call | None:
        """The call of this id, else the one that is recorded around whoever asks."""
        within = self._within.get()
        same = [one for one in self._running if (one.session_id, one.call_id) == (session_id, call_id)]
        return same[-1] if same else within if within in self._running else None

    async def _record(self, call: _Call, recorded: RecordedChange) -> None:
        await self._commit(call, recorded)
        committed = recorded.commit.files if recorded.commit else []
        told = dict.fromkeys([*(committed or recorded.files), *recorded.named])
        # A call beside this one may have found the same change, and told of it.
        news = [file for file in told if file in committed or file not in call.told]
        for other in self._running:
            other.told.update(news)
        if news:
            await self._announce(news)

    async def _commit(self, call: _Call, recorded: RecordedChange) -> None:
        async with self._lock:
            found = await asyncio.to_thread(self._history.changed, call.before)
            # What a hook names and did not change may be work of the person's: it is announced, not committed.
            recorded.named = list(call.named)
            recorded.files = found
            if recorded.files:
                recorded.commit = await self._history.commit(recorded.files, self._message(call, found))
            else:
                await self._history.settle()

    def _owe(self, call: _Call) -> None:
        found = self._history.changed(call.before)
        self._history.owe(found, self._message(call, found))

    def _message(self, call: _Call, files: list[str]) -> str:
        """The message of a call's commit of these files.

        A change that is found may as well be that of a call beside it: those count that name the files, where some name
        them all, else all that run.
        """
        calls = [call, *(one for one in self._running if one is not call)]
        naming = [one for one in calls if any(map(one.names, files))]
        if naming and all(any(one.names(file) for one in naming) for file in files):
            calls = naming
        first, *others = calls
        tools = dict.fromkeys(one.tool for one in calls)
        beside = [f"{one.tool} {one.call_id}" for one in others]
        said = trailers.Trailers(session=first.session_id, call=first.call_id, beside=beside)
        return trailers.write(", ".join(tools), said)
