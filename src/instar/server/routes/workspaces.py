"""The routes of workspaces: folders apart in which sessions work."""

from pathlib import Path

from instar import vcs
from instar.api.workspace import WarpBody, WorkspaceAdapterInfo, WorkspaceBody, WorkspaceID, WorkspaceStatus
from instar.plugin import Invalid, LocalTarget, NotFound, WorkspaceInfo
from instar.plugin.route import operation
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.errors import Formed
from instar.server.routes.vcs import refused


class WorkspaceRoutes:
    """The workspaces of a directory's project."""

    @operation("GET", "/experimental/workspace/adapter", "experimental.workspace.adapter.list")
    async def adapters(self, call: Call) -> list[WorkspaceAdapterInfo]:
        """List the types of workspaces that there are."""
        found = await (await call.runtime()).workspace.adapters()
        return [
            WorkspaceAdapterInfo(type=kind, name=name, description=description)
            for kind, (name, description) in found.items()
        ]

    @operation("GET", "/experimental/workspace", "experimental.workspace.list")
    async def workspaces(self, call: Call) -> list[WorkspaceInfo]:
        """List the workspaces, oldest first."""
        return [*await (await call.runtime()).workspace.list()]

    @operation("POST", "/experimental/workspace", "experimental.workspace.create")
    async def create(self, call: Call, body: WorkspaceBody) -> WorkspaceInfo:
        """Make a workspace."""
        runtime = await call.runtime()
        try:
            return await runtime.workspace.create(body.type, branch=body.branch, extra=body.extra)
        except (Invalid, NotFound) as error:
            raise Formed(400, {"name": "WorkspaceCreateError", "data": {"message": str(error)}}) from error

    @operation("POST", "/experimental/workspace/sync-list", "experimental.workspace.syncList", status=204)
    async def sync(self, call: Call) -> None:
        """Look again which workspaces there are. There is nothing to do: they are read each time."""
        await call.runtime()

    @operation("GET", "/experimental/workspace/status", "experimental.workspace.status")
    async def status(self, call: Call) -> list[WorkspaceStatus]:
        """Say of each workspace whether it can be worked in."""
        runtime = await call.runtime()
        return [await _status(runtime, info) for info in await runtime.workspace.list()]

    @operation("DELETE", "/experimental/workspace/{id}", "experimental.workspace.remove")
    async def remove(self, call: Call, id: WorkspaceID) -> WorkspaceInfo:  # noqa: A002 - the path's name
        """Remove a workspace with all that is only there."""
        runtime = await call.runtime()
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
            await runtime.moves.move(body.session_id, Path(folder), "copy" if body.copy_changes else "stay")
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
