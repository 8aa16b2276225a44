"""The routes of projects, their worktrees, copies and workspaces, and of sessions that move between them."""

import asyncio
from pathlib import Path
from typing import Any

from instar.api.operation import operation
from instar.api.project import (
    CopyBody,
    CopyRemoveBody,
    MoveBody,
    NameBody,
    Named,
    Project,
    ProjectBody,
    ProjectCopy,
    ProjectDirectory,
    WarpBody,
    WorkspaceAdapterInfo,
    WorkspaceBody,
    WorkspaceID,
    WorkspaceStatus,
    Worktree,
    WorktreeCreateInput,
    WorktreeRemoveInput,
    WorktreeResetInput,
)
from instar.git import GitError
from instar.git.project import discover
from instar.plugin import Invalid, LocalTarget, NotFound, WorkspaceInfo
from instar.process import ProcessError
from instar.project import vcs
from instar.project.projects import Projects, UnknownProject
from instar.project.worktree import Copies, CopyError, Worktrees, name_for
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.errors import Formed
from instar.server.routes.files import refused
from instar.session.instance import Instance


class ProjectRoutes:
    """The projects that were worked in."""

    @operation("GET", "/project", "project.list")
    async def projects(self, instance: Instance) -> list[Project]:
        """List the projects, last used first."""
        return [*await Projects(instance).list()]

    @operation("GET", "/project/current", "project.current")
    async def current(self, instance: Instance) -> Project:
        """Get the directory's project."""
        return await Projects(instance).current()

    @operation("POST", "/project/git/init", "project.initGit")
    async def begin(self, call: Call, instance: Instance) -> Project:
        """Make the directory a git repository; one that lies in a repository stays as it is."""
        projects = Projects(instance)
        if instance.project.vcs is not None:
            return await projects.current()
        try:
            await projects.begin_repository()
        except (GitError, ProcessError) as error:
            raise Invalid(str(error)) from error
        # What an instance knows of its project holds for its life.
        await call.instances.dispose(str(instance.directory))
        return await Projects((await call.runtime()).instance).current()

    @operation("PATCH", "/project/{projectID}", "project.update", errors=(404,))
    async def update(self, instance: Instance, project_id: str, body: ProjectBody) -> Project:
        """Change a project's name, icon or commands; what is left out stays."""
        try:
            return await Projects(instance).update(project_id, body)
        except UnknownProject as error:
            tagged = {"_tag": "ProjectNotFoundError", "projectID": error.project_id, "message": str(error)}
            raise Formed(404, tagged) from error

    @operation("GET", "/project/{projectID}/directories", "project.directories")
    async def directories(self, instance: Instance, project_id: str) -> list[ProjectDirectory]:
        """List the folders of a project's repository; none of one that nobody knows, or that git will not read."""
        try:
            if project_id == instance.project.id:
                return await Copies(instance).folders(instance.project)
            worktree = Path((await Projects(instance).get(project_id)).worktree)
            project = await discover(worktree, instance.processes)
            return await Copies(instance).folders(project) if project.id == project_id else []
        except (UnknownProject, GitError, ProcessError):
            return []


class WorktreeRoutes:
    """Worktrees that instar makes in its own folder, each with a branch."""

    def __init__(self) -> None:
        self._beginning: set[asyncio.Task[None]] = set()

    @operation("GET", "/experimental/worktree", "worktree.list")
    async def worktrees(self, runtime: Runtime) -> list[str]:
        """List the worktrees' folders, oldest first."""
        return [one.directory for one in await _checkouts(runtime).list()]

    @operation("POST", "/experimental/worktree", "worktree.create")
    async def create(self, runtime: Runtime, body: WorktreeCreateInput | None = None) -> Worktree:
        """Make a worktree; the project's start command and the body's run in it once it is answered."""
        body = body or WorktreeCreateInput()
        if runtime.instance.project.vcs is None:
            raise _failed("NotGit", "Worktrees are only supported for git projects")
        try:
            made = await _checkouts(runtime).create(body.name)
        except Invalid as error:
            raise _failed("CreateFailed", error) from error
        commands = (await Projects(runtime.instance).current()).commands
        wanted = [commands.start if commands is not None else None, body.start_command]
        task = asyncio.create_task(_checkouts(runtime).begin(made, wanted), name="start command")
        self._beginning.add(task)
        task.add_done_callback(self._beginning.discard)
        return made

    @operation("DELETE", "/experimental/worktree", "worktree.remove")
    async def remove(self, call: Call, body: WorktreeRemoveInput) -> bool:
        """Remove a worktree with its branch and everything that is only in it. Nothing happens if it does not exist."""
        try:
            await _checkouts(await call.runtime()).remove(body.directory)
        except (Invalid, NotFound) as error:
            raise _failed("RemoveFailed", error) from error
        return True

    @operation("POST", "/experimental/worktree/reset", "worktree.reset")
    async def reset(self, call: Call, body: WorktreeResetInput) -> bool:
        """Make a worktree as the default branch is; all that was done in it is lost."""
        try:
            await _checkouts(await call.runtime()).reset(body.directory)
        except (Invalid, NotFound) as error:
            raise _failed("ResetFailed", error) from error
        return True


class CopyRoutes:
    """Copies of a project in folders that the person names, and sessions that move there."""

    @operation("POST", "/experimental/project/{projectID}/copy", "v2.projectCopy.create", order=True)
    async def create(self, instance: Instance, project_id: str, body: CopyBody) -> ProjectCopy:
        """Make a copy of the project's last commit in a new folder below the one that is named."""
        copies = _copies(instance, project_id)
        try:
            folder = await copies.create(body.strategy, Path(body.directory), body.name)
        except CopyError as error:
            raise _copy_failed(error) from error
        return ProjectCopy(directory=str(folder))

    @operation("DELETE", "/experimental/project/{projectID}/copy", "v2.projectCopy.remove", status=204)
    async def remove(self, instance: Instance, project_id: str, body: CopyRemoveBody) -> None:
        """Remove a copy; without `force` one that holds work of its own stays."""
        copies = _copies(instance, project_id)
        try:
            await copies.remove(Path(body.directory), force=body.force)
        except CopyError as error:
            raise _copy_failed(error) from error

    @operation(
        "POST",
        "/experimental/project/{projectID}/copy/refresh",
        "v2.projectCopy.refresh",
        status=204,
    )
    async def refresh(self, instance: Instance, project_id: str) -> None:
        """Refresh the list of copies. Does nothing: the list is made anew for each request."""
        _copies(instance, project_id)

    @operation(
        "POST",
        "/experimental/project/{projectID}/copy/generate-name",
        "experimental.projectCopy.generateName",
    )
    async def name(self, runtime: Runtime, project_id: str, body: NameBody) -> Named:
        """Make a name for a copy of the first words of what it is wanted for; no model is asked."""
        return Named(name=name_for(body.context))

    @operation(
        "POST",
        "/experimental/control-plane/move-session",
        "experimental.controlPlane.moveSession",
        status=204,
        scoped=False,
    )
    async def move(self, call: Call, body: MoveBody) -> None:
        """Let a session go on in another folder of its project; with `moveChanges` the changed files go along."""
        try:
            runtime = await call.of_session(body.session_id)
            changes: Any = "move" if body.move_changes else "stay"
            await runtime.sessions.move(body.session_id, Path(body.destination.directory), changes)
        except (Invalid, NotFound, vcs.ApplyError) as error:
            raise Formed(400, {"name": "MoveSessionError", "data": {"message": str(error)}}) from error


def _checkouts(runtime: Runtime) -> Worktrees:
    return Worktrees(runtime.instance, runtime.workspace)


def _failed(kind: str, why: object) -> Formed:
    return Formed(400, {"name": f"Worktree{kind}Error", "data": {"message": str(why)}})


def _copies(instance: Instance, project_id: str) -> Copies:
    if project_id != instance.project.id:
        text = f"Project copy source not found: {instance.project.directory} is of another project"
        raise _copy_failed(CopyError(text))
    return Copies(instance)


def _copy_failed(error: CopyError) -> Formed:
    forced = {} if error.forced is None else {"forceRequired": error.forced}
    return Formed(400, {"name": "ProjectCopyError", "data": {"message": str(error), **forced}})


class WorkspaceRoutes:
    """The workspaces of a directory's project."""

    @operation("GET", "/experimental/workspace/adapter", "experimental.workspace.adapter.list")
    async def adapters(self, runtime: Runtime) -> list[WorkspaceAdapterInfo]:
        """List the types of workspaces that there are."""
        found = await runtime.workspace.adapters()
        return [
            WorkspaceAdapterInfo(type=kind, name=name, description=description)
            for kind, (name, description) in found.items()
        ]

    @operation("GET", "/experimental/workspace", "experimental.workspace.list")
    async def workspaces(self, runtime: Runtime) -> list[WorkspaceInfo]:
        """List the workspaces, oldest first."""
        return [*await runtime.workspace.list()]

    @operation("POST", "/experimental/workspace", "experimental.workspace.create")
    async def create(self, runtime: Runtime, body: WorkspaceBody) -> WorkspaceInfo:
        """Make a workspace."""
        try:
            return await runtime.workspace.create(body.type, branch=body.branch, extra=body.extra)
        except (Invalid, NotFound) as error:
            raise Formed(400, {"name": "WorkspaceCreateError", "data": {"message": str(error)}}) from error

    @operation("POST", "/experimental/workspace/sync-list", "experimental.workspace.syncList", status=204)
    async def sync(self, runtime: Runtime) -> None:
        """Look again which workspaces there are. There is nothing to do: they are read each time."""

    @operation("GET", "/experimental/workspace/status", "experimental.workspace.status")
    async def status(self, runtime: Runtime) -> list[WorkspaceStatus]:
        """Say of each workspace whether it can be worked in."""
        return [await _status(runtime, info) for info in await runtime.workspace.list()]

    @operation("DELETE", "/experimental/workspace/{id}", "experimental.workspace.remove")
    async def remove(self, runtime: Runtime, id: WorkspaceID) -> WorkspaceInfo:  # noqa: A002 - the path's name
        """Remove a workspace with all that is only there."""
        try:
            return await runtime.workspace.remove(id, force=True)
        except (Invalid, NotFound) as error:
            raise Invalid(str(error)) from error

    @operation("POST", "/experimental/workspace/warp", "experimental.workspace.warp", status=204)
    async def warp(self, call: Call, body: WarpBody) -> None:
        """Let a session go on in a workspace, or, without one, in the project's own folder."""
        try:
            runtime = await call.of_session(body.session_id)
            if body.id is None:
                folder = runtime.instance.project.main_worktree
            else:
                folder = await runtime.workspace.enter(body.id)
            await runtime.sessions.move(
                body.session_id, Path(folder), "copy" if body.copy_changes else "stay"
            )
        except vcs.ApplyError as error:
            raise refused(error) from error
        except (Invalid, NotFound) as error:
            raise Formed(400, {"name": "WorkspaceWarpError", "data": {"message": str(error)}}) from error


async def _status(runtime: Runtime, info: WorkspaceInfo) -> WorkspaceStatus:
    try:
        target = await runtime.workspace.target(info.id)
    except (Invalid, NotFound):
        return WorkspaceStatus(workspace_id=info.id, status="error")
    if isinstance(target, LocalTarget):
        return WorkspaceStatus(
            workspace_id=info.id, status="connected" if target.directory.is_dir() else "error"
        )
    # Sessions here work in folders only; nobody has asked the other machine.
    return WorkspaceStatus(workspace_id=info.id, status="disconnected")
