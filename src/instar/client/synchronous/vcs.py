"""Made by tests/client/generator.py from the server's operations; change those instead."""

from typing import Literal

from instar.api.vcs import Applied, ApplyBody, VcsFileDiff, VcsFileStatus, VcsInfo
from instar.client.connection import Connection
from instar.client.request import Request


class VcsCalls:
    """``vcs``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def get(self) -> VcsInfo:
        """Get the branch that is checked out, and the default one."""
        answer: VcsInfo = self._connection.ask(Request("GET", "/vcs"), VcsInfo)
        return answer

    def status(self) -> list[VcsFileStatus]:
        """List the files of the directory that differ from the last commit, new ones too."""
        answer: list[VcsFileStatus] = self._connection.ask(Request("GET", "/vcs/status"), list[VcsFileStatus])
        return answer

    def diff(self, *, mode: Literal["git", "branch"], context: int | None = None) -> list[VcsFileDiff]:
        """Show how the files of the directory differ from the last commit, or from where the branch began."""
        answer: list[VcsFileDiff] = self._connection.ask(
            Request("GET", "/vcs/diff", query={"mode": mode, "context": context}), list[VcsFileDiff]
        )
        return answer

    def diff_raw(self) -> str:
        """Get all that differs from the last commit as one patch, which `vcs.apply` takes."""
        answer: str = self._connection.ask(Request("GET", "/vcs/diff/raw"), str)
        return answer

    def apply(self, body: ApplyBody) -> Applied:
        """Apply a patch to the repository's files, whole or not at all."""
        answer: Applied = self._connection.ask(Request("POST", "/vcs/apply", body=body), Applied)
        return answer
