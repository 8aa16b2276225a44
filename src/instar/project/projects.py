"""The projects that were worked in, with the names, icons and commands that a person gave them."""

from collections.abc import Sequence

import msgspec

from instar import wire
from instar.api.project import Project, ProjectBody
from instar.api.session import NotFound
from instar.event import ProjectUpdated, make
from instar.git import git_bytes
from instar.plugin import WorkspaceInfo
from instar.session.instance import Instance
from instar.session.state import now
from instar.store import PutProject


class UnknownProject(NotFound):
    """No project has this id."""

    def __init__(self, project_id: str) -> None:
        super().__init__(f"Project not found: {project_id}")
        self.project_id = project_id


def project_updated(project: Project) -> ProjectUpdated:
    """Return the event that tells clients of a project whose fields changed: it holds all of them."""
    plain = wire.to_plain(project)
    changed = {"icon": plain.get("icon"), "commands": plain.get("commands")}
    return ProjectUpdated(**{**msgspec.structs.asdict(project), **changed})


class Projects:
    """The projects of the store, as seen from one instance."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._store = instance.store

    async def current(self) -> Project:
        """Return the instance's project; it is known from now on."""
        found = self._instance.project
        known = await self._store.projects(found.id)
        if not known:
            row = PutProject(found.id, str(found.main_worktree), found.vcs, now())
            await self._store.commit([row])
            known = await self._store.projects(found.id)
        (project,) = await self._filled(known)
        # What is there now counts: folders without a commit share one row.
        return wire.replace(project, worktree=str(found.main_worktree), vcs=found.vcs)

    async def list(self) -> Sequence[Project]:
        """Return the projects that were worked in, last used first."""
        return await self._filled(await self._store.projects())

    async def get(self, project_id: str) -> Project:
        """Return a project. Raises `UnknownProject`."""
        if project_id == self._instance.project.id:
            return await self.current()
        return await self._known(project_id)

    async def update(self, project_id: str, body: ProjectBody) -> Project:
        """Change a project's name, icon or commands; what `body` leaves out stays. Raises `UnknownProject`."""
        if project_id == self._instance.project.id:
            await self.current()
        known = await self._known(project_id)
        row = PutProject(known.id, known.worktree, known.vcs, now(), body.name, body.icon, body.commands)
        changed = _merged(known, row)
        await self._store.commit([row], [make(project_updated(changed))])
        return await self.get(project_id)

    async def begin_repository(self) -> None:
        """Make the directory a git repository, if it lies in none. Raises `GitError` and `ProcessError`."""
        if self._instance.project.vcs is None:
            await git_bytes(
                self._instance.processes, self._instance.directory, "init", "--quiet", "--template="
            )

    async def _known(self, project_id: str) -> Project:
        known = await self._filled(await self._store.projects(project_id))
        if not known:
            raise UnknownProject(project_id)
        return known[0]

    async def _filled(self, projects: Sequence[Project]) -> Sequence[Project]:
        """Projects with the folders of their workspaces."""
        records = (await self._store.values("instar", "workspace:")).values()
        infos = [info for value in records if (info := _workspace(value)) is not None]
        for project in projects:
            project.sandboxes = [
                info.directory for info in infos if info.project_id == project.id and info.directory
            ]
        return projects


def _workspace(value: object) -> WorkspaceInfo | None:
    try:
        return msgspec.convert(value["info"], WorkspaceInfo) if isinstance(value, dict) else None
    except (msgspec.ValidationError, KeyError):  # whoever works with workspaces says so
        return None


def _merged(known: Project, row: PutProject) -> Project:
    changed = wire.copy(known)
    changed.time.updated = row.now
    changed.name = known.name if row.name is None else row.name
    changed.commands = row.commands or known.commands
    if row.icon is not None:
        given = {name: value for name, value in msgspec.structs.asdict(row.icon).items() if value is not None}
        changed.icon = row.icon if known.icon is None else msgspec.structs.replace(known.icon, **given)
    return changed
