"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.project import Project, ProjectBody, ProjectDirectory
from instar.client.connection import Connection
from instar.client.request import Request


class ProjectCalls:
    """``project``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def current(self) -> Project:
        """Get the directory's project."""
        answer: Project = self._connection.ask(Request("GET", "/project/current"), Project)
        return answer

    def init_git(self) -> Project:
        """Make the directory a git repository; one that lies in a repository stays as it is."""
        answer: Project = self._connection.ask(Request("POST", "/project/git/init"), Project)
        return answer

    def update(self, project_id: str, body: ProjectBody) -> Project:
        """Change a project's name, icon or commands; what is left out stays."""
        answer: Project = self._connection.ask(
            Request("PATCH", "/project/{}", (project_id,), body=body), Project
        )
        return answer

    def directories(self, project_id: str) -> list[ProjectDirectory]:
        """List the folders of a project's repository; none of one that nobody knows, or that git will not read."""
        answer: list[ProjectDirectory] = self._connection.ask(
            Request("GET", "/project/{}/directories", (project_id,)), list[ProjectDirectory]
        )
        return answer

    def list(self) -> list[Project]:
        """List the projects, last used first."""
        answer: list[Project] = self._connection.ask(Request("GET", "/project"), list[Project])
        return answer
