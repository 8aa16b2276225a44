"""The project's workspaces: made, listed and removed through their adapters, and entered by sessions.

A workspace is saved as not ready before its adapter makes it, and as ready afterwards. What a crash leaves behind is
removed before the project's next workspace is made. One process at a time makes or removes workspaces of a project.
"""

import asyncio
import difflib
import logging
import os
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import msgspec

from instar import wire
from instar.git import GitError
from instar.plugin import (
    Careful,
    Invalid,
    LocalTarget,
    NotFound,
    Registry,
    RemoteTarget,
    Target,
    WorkspaceAdapter,
    WorkspaceInfo,
)
from instar.process import ProcessError
from instar.session.instance import Instance
from instar.session.sessions import slug
from instar.session.state import now
from instar.store import PutValue
from instar.store.lease import is_dead
from instar.wire import ids
from instar.wire.document import locked_within
from instar.wire.pattern import late_pattern

log = logging.getLogger("instar.workspace")

T = TypeVar("T")

_PLUGIN: Final = "instar"
_NAME: Final = late_pattern(r"[A-Za-z0-9](?:[A-Za-z0-9_-]|\.(?!\.)){0,63}(?<!\.)(?<!\.lock)")
SHORT: Final = 60.0
"""Seconds in which an adapter answers."""
LONG: Final = 900.0
"""Seconds in which an adapter makes or removes a workspace."""
_WAIT: Final = 30.0
"""Seconds for which a lock that another process holds is waited for."""


@runtime_checkable
class Resets(Protocol):
    """An adapter that can also reset a workspace."""

    async def reset(self, info: WorkspaceInfo) -> None:
        """Drop all that was done in the workspace."""
        ...


class Workspaces:
    """The workspaces of the instance's project (`instar.plugin.WorkspaceClient`).

    `own` are the built-in adapters by type; a plugin's adapter of the same type takes its place.
    """

    def __init__(self, instance: Instance, registry: Registry, own: Mapping[str, WorkspaceAdapter]) -> None:
        self._store = instance.store
        self._project = instance.project
        self._directory = instance.directory.resolve()
        self._folder = instance.paths.worktrees
        self._registry = registry
        self._own = own

    async def types(self) -> Mapping[str, str]:
        """Return the types that there are, each with its description."""
        return {kind: about for kind, (_, about) in (await self.adapters()).items()}

    async def adapters(self) -> Mapping[str, tuple[str, str]]:
        """Return the types that there are, each with its name for people and its description."""
        known = self._adapters().items()
        return {kind: (str(one.name), str(getattr(one, "description", ""))) for kind, one in known}

    async def list(self) -> Sequence[WorkspaceInfo]:
        """Return the project's workspaces, oldest first."""
        return [info for info, ready in await self._saved() if ready]

    async def get(self, named: str) -> WorkspaceInfo:
        """Return the workspace with this id or name. Raises `NotFound`."""
        known = await self.list()
        for info in known:
            if named in (info.id, info.name):
                return info
        near = difflib.get_close_matches(named, [info.name for info in known], n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        raise NotFound(f"Workspace not found: {named}{meant}")

    async def create(
        self,
        kind: str = "worktree",
        *,
        name: str | None = None,
        branch: str | None = None,
        extra: Any = None,
        from_id: str | None = None,
    ) -> WorkspaceInfo:
        """Make a workspace. Raises `Invalid`, and `NotFound` when there is no workspace `from_id`."""
        adapter = self._adapter(kind)
        from_ = await self.get(from_id) if from_id is not None else None
        async with self._locked():
            await self._remove_unfinished()
            taken = {info.name for info in await self.list()}
            asked = WorkspaceInfo(
                id=ids.new("wrk"),
                type=kind,
                name=_checked_name(name, taken),
                branch=branch,
                extra=extra,
                project_id=self._project.id,
                time_used=now(),
            )
            info = await _answer(asked, adapter.configure(wire.copy(asked)), WorkspaceInfo)
            _check_configured(asked, info)
            await self._save(info, ready=False)
            try:
                await _answer(
                    info,
                    adapter.create(wire.copy(info), {"INSTAR_WORKSPACE_ID": info.id}, from_),
                    None,
                    long=True,
                )
            except BaseException:
                await self._discard(info)
                raise
            await self._save(info, ready=True)
        return info

    async def remove(self, named: str, *, force: bool = False) -> WorkspaceInfo:
        """Remove a workspace. Raises `NotFound`, and `Invalid` when it is in use or holds unsaved work."""
        async with self._locked():
            info = await self.get(named)
            await self._check_rest(info)
            if force and info.type not in self._adapters():
                log.warning("forgot a workspace whose adapter is gone type=%s name=%s", info.type, info.name)
            else:
                await self._take_down(info, force=force)
            await self._drop(info)
        return info

    async def reset(self, named: str) -> None:
        """Make a workspace as a new one would be. Raises `NotFound`, and `Invalid` when it is in use."""
        async with self._locked():
            info = await self.get(named)
            await self._check_rest(info)
            adapter = self._adapter(info.type)
            if not isinstance(adapter, Resets):
                raise Invalid(f"a workspace of type {info.type!r} cannot be reset: make a new one")
            await _answer(info, adapter.reset(wire.copy(info)), None, long=True)

    async def target(self, named: str) -> Target:
        """Return where a workspace is. Raises `NotFound` and `Invalid`."""
        info = await self.get(named)
        found = await _answer(
            info, self._adapter(info.type).target(wire.copy(info)), LocalTarget | RemoteTarget
        )
        if isinstance(found, LocalTarget) and not found.directory.is_absolute():
            raise Invalid(f"the adapter {info.type!r} gave a relative folder: {found.directory}")
        return found

    async def enter(self, workspace_id: str) -> Path:
        """Return the folder of the workspace in which a session is created, and record that it was used now.

        Raises `NotFound`, and `Invalid` for a workspace on another machine or whose folder is gone.
        """
        info = await self.get(workspace_id)
        # The plugin that brings the adapter may not be there in the workspace itself.
        target = LocalTarget(self._directory) if self._is_here(info) else await self.target(info.id)
        if isinstance(target, RemoteTarget):
            raise Invalid(
                f"workspace {info.name} is on another machine ({target.url}): sessions here work in folders only"
            )
        if not target.directory.is_dir():
            raise Invalid(
                f"the folder of workspace {info.name} is gone ({target.directory}):"
                f" instar workspace remove --force {info.name}, then make it again"
            )
        directory = target.directory.resolve()
        await self._save(wire.replace(info, time_used=now(), directory=str(directory)), ready=True)
        return directory

    def _adapters(self) -> dict[str, WorkspaceAdapter]:
        return {**self._own, **self._registry.workspaces}

    def _adapter(self, kind: str) -> WorkspaceAdapter:
        found = self._adapters().get(kind)
        if found is None:
            raise Invalid(f"no workspace can be of type {kind!r}; there are: {', '.join(self._adapters())}")
        return found

    async def _take_down(self, info: WorkspaceInfo, *, force: bool) -> None:
        adapter = self._adapter(info.type)
        if not force and isinstance(adapter, Careful):
            unsaved = await _answer(info, adapter.unsaved(wire.copy(info)), str | None)
            if unsaved:
                raise Invalid(
                    f"workspace {info.name} holds {unsaved}: keep that first, or remove it with --force"
                )
        await _answer(info, adapter.remove(wire.copy(info)), None, long=True)

    async def _remove_unfinished(self) -> None:
        """Remove what a process that ended left unfinished. The lock is held: nobody else works on it."""
        for info, ready in await self._saved():
            if not ready:
                await self._discard(info)

    async def _discard(self, info: WorkspaceInfo) -> None:
        """Remove an unfinished workspace, but no work in it; then delete its record."""
        try:
            await self._take_down(info, force=False)
        except Invalid as error:
            log.warning(
                "left a half made workspace name=%s directory=%s: %s", info.name, info.directory, error
            )
        await self._drop(info)

    async def _check_rest(self, info: WorkspaceInfo) -> None:
        for session in await self._store.sessions(info.project_id, archived=True):
            holder = await self._store.holder(session.id) if session.workspace_id == info.id else None
            if holder is not None and not is_dead(holder.owner):
                raise Invalid(
                    f"session {session.id} works in workspace {info.name}: wait for it, or abort it"
                )

    async def _saved(self) -> Sequence[tuple[WorkspaceInfo, bool]]:
        """The project's workspaces, oldest first, each with True if it is ready. Unreadable records are logged."""
        found = []
        for key, value in sorted((await self._store.values(_PLUGIN, "workspace:")).items()):
            try:
                info, ready = wire.decode(value["info"], WorkspaceInfo), bool(value["ready"])
            except (msgspec.ValidationError, KeyError, TypeError) as error:
                log.warning("unreadable workspace key=%s: %s", key, error)
                continue
            # A workspace that is no repository, or another one, is of another project than the one it was made for.
            if info.project_id == self._project.id or self._is_here(info):
                found.append((info, ready))
        return found

    def _is_here(self, info: WorkspaceInfo) -> bool:
        return info.directory is not None and Path(info.directory).resolve() == self._directory

    async def _save(self, info: WorkspaceInfo, *, ready: bool) -> None:
        record = {"info": wire.to_plain(info), "ready": ready}
        await self._store.commit([PutValue(_PLUGIN, f"workspace:{info.id}", record)])

    async def _drop(self, info: WorkspaceInfo) -> None:
        await self._store.commit([PutValue(_PLUGIN, f"workspace:{info.id}", None)])

    def _locked(self) -> AbstractAsyncContextManager[None]:
        """Hold the lock of the workspaces' folder. It ends with the process. Raises `Invalid` if another has it."""
        late = Invalid("another process is making or removing a workspace: try again later")
        return locked_within(self._folder, _WAIT, late)


def _checked_name(name: str | None, taken: set[str]) -> str:
    """A name that is free: the one that was asked for, or a new one. Raises `Invalid`."""
    if name is None:
        made = slug()
        return made if made not in taken else f"{made}-{os.urandom(2).hex()}"
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot be a workspace's name: up to 64 letters, digits, dots, dashes and underscores,"
            " a letter or digit first"
        )
    if name in taken:
        raise Invalid(f"there is a workspace {name} already: choose another name, or remove it first")
    return name


def _check_configured(asked: WorkspaceInfo, info: WorkspaceInfo) -> None:
    """Raise `Invalid` if an adapter changed a field that identifies the workspace."""
    same = ("id", "type", "name", "project_id")
    changed = [field for field in same if getattr(asked, field) != getattr(info, field)]
    if changed:
        raise Invalid(f"the adapter {asked.type!r} changed the workspace's {changed[0]}, which it may not")


async def _answer(info: WorkspaceInfo, asked: Awaitable[T], kind: Any, *, long: bool = False) -> T:
    """Await an adapter's answer. A timeout, what the adapter raises, and an answer of another type become `Invalid`."""
    seconds = LONG if long else SHORT
    where = f"the adapter {info.type!r} failed on workspace {info.name}"
    try:
        async with asyncio.timeout(seconds):
            answer = await asked
    except (Invalid, NotFound):
        raise
    except TimeoutError:
        raise Invalid(f"{where}: it did not answer within {seconds:g} s") from None
    except (GitError, ProcessError) as error:
        raise Invalid(str(error)) from error
    except Exception as error:
        log.error("workspace adapter failed type=%s", info.type, exc_info=error)
        raise Invalid(f"{where}: {type(error).__name__}: {error}") from error
    if kind is not None and not isinstance(answer, kind):
        raise Invalid(f"{where}: it answered {type(answer).__name__}")
    return answer
