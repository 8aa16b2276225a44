"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.workspace import WarpBody, WorkspaceAdapterInfo, WorkspaceBody, WorkspaceInfo, WorkspaceStatus
from instar.client.connection import Connection
from instar.client.request import Request


class ExperimentalWorkspaceAdapterCalls:
    """``experimental.workspace.adapter``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> list[WorkspaceAdapterInfo]:
        """List the types of workspaces that there are."""
        answer: list[WorkspaceAdapterInfo] = self._connection.ask(
            Request("GET", "/experimental/workspace/adapter"), list[WorkspaceAdapterInfo]
        )
        return answer


class ExperimentalWorkspaceCalls:
    """``experimental.workspace``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.adapter = ExperimentalWorkspaceAdapterCalls(connection)

    def create(self, body: WorkspaceBody) -> WorkspaceInfo:
        """Make a workspace."""
        answer: WorkspaceInfo = self._connection.ask(
            Request("POST", "/experimental/workspace", body=body), WorkspaceInfo
        )
        return answer

    def sync_list(self) -> None:
        """Look again which workspaces there are. There is nothing to do: they are read each time."""
        self._connection.ask(Request("POST", "/experimental/workspace/sync-list"), None)

    def status(self) -> list[WorkspaceStatus]:
        """Say of each workspace whether it can be worked in."""
        answer: list[WorkspaceStatus] = self._connection.ask(
            Request("GET", "/experimental/workspace/status"), list[WorkspaceStatus]
        )
        return answer

    def remove(self, id: str) -> WorkspaceInfo:
        """Remove a workspace with all that is only there."""
        answer: WorkspaceInfo = self._connection.ask(
            Request("DELETE", "/experimental/workspace/{}", (id,)), WorkspaceInfo
        )
        return answer

    def warp(self, body: WarpBody) -> None:
        """Let a session go on in a workspace, or, without one, in the project's own folder."""
        self._connection.ask(Request("POST", "/experimental/workspace/warp", body=body), None)

    def list(self) -> list[WorkspaceInfo]:
        """List the workspaces, oldest first."""
        answer: list[WorkspaceInfo] = self._connection.ask(
            Request("GET", "/experimental/workspace"), list[WorkspaceInfo]
        )
        return answer
