"""The routes of a directory's files (lists, contents, searches) and of the repository that it lies in."""

import logging

from starlette.responses import Response

from instar.api.operation import operation
from instar.api.project import (
    Applied,
    ApplyBody,
    File,
    FileContent,
    FileNode,
    FileSystemEntry,
    Kind,
    NameQuery,
    Path,
    PathQuery,
    Symbol,
    SymbolQuery,
    TextMatch,
    TextQuery,
    VcsDiffQuery,
    VcsFileDiff,
    VcsFileStatus,
    VcsInfo,
)
from instar.git import GitError, head_branch
from instar.plugin import Invalid
from instar.process import ProcessError
from instar.project import files, vcs
from instar.project.vcs import Repository
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.errors import Formed
from instar.session.instance import Instance


class FileRoutes:
    """A directory's files. Nothing outside of the directory is shown."""

    @operation("GET", "/path", "path.get")
    async def path(self, instance: Instance) -> Path:
        """Get the folders that matter: the home, instar's own, the repository's, the request's."""
        return Path(
            home=str(instance.paths.home),
            state=str(instance.paths.state),
            config=str(instance.paths.config),
            worktree=str(instance.project.worktree),
            directory=str(instance.project.directory),
        )

    @operation("GET", "/file", "file.list")
    async def nodes(self, instance: Instance, query: PathQuery) -> list[FileNode]:
        """List the files and folders in a folder; links are left out."""
        project = instance.project
        return await files.nodes(instance.processes, project, project.directory, query.path)

    @operation("GET", "/file/content", "file.read")
    async def read(self, instance: Instance, query: PathQuery) -> FileContent:
        """Read a file: its text, or its bytes in base64; of a file that is not there no text."""
        return await files.content(instance.project.directory, query.path)

    @operation("GET", "/file/status", "file.status")
    async def status(self, runtime: Runtime) -> list[File]:
        """List the changed files.

        Always empty, as in opencode 1.18: `vcs.status` has them.
        """
        return []

    @operation("GET", "/find", "find.text")
    async def lines(self, call: Call, instance: Instance, query: TextQuery) -> list[TextMatch]:
        """Find the first ten lines that match a regular expression, in the order of the files' names."""
        found = files.lines(instance.processes, instance.project.directory, query.pattern, files.LIMIT)
        return await call.attended(found)

    @operation("GET", "/find/file", "find.files")
    async def names(self, call: Call, runtime: Runtime, query: NameQuery) -> list[str]:
        """Find files and folders whose path holds these letters in this order, best first.

        Without letters only files are listed, unless `type` asks for folders (as in opencode).
        """
        without = query.dirs == "false" or not query.query
        kind = query.type or ("file" if without else None)
        found = await search(call, runtime, query.query, kind, query.limit or files.LIMIT)
        return [entry.path for entry in found]

    @operation("GET", "/find/symbol", "find.symbols")
    async def symbols(self, runtime: Runtime, query: SymbolQuery) -> list[Symbol]:
        """Find symbols. Always empty: no language server is asked for symbols."""
        return []


async def search(
    call: Call, runtime: Runtime, letters: str, kind: Kind | None, limit: int
) -> list[FileSystemEntry]:
    """Return the files and folders whose path holds these letters in this order, best first."""
    instance = runtime.instance
    found = files.fuzzy(instance.processes, instance.project.directory, letters, kind, limit)
    return await call.attended(found)


log = logging.getLogger("instar.server")

_DIFF = "text/x-diff; charset=utf-8"


class VcsRoutes:
    """A repository for clients. Outside one there is no branch and no change."""

    @operation("GET", "/vcs", "vcs.get")
    async def get(self, instance: Instance) -> VcsInfo:
        """Get the branch that is checked out, and the default one.

        Of a repository that git will not read the branch alone is told, as its ``HEAD`` names it.
        """
        try:
            branch = await vcs.checked_out(instance.processes, instance.project)
            repository = await vcs.repository(instance.processes, instance.project)
            default = None if repository is None else await vcs.default_branch(repository)
        except (GitError, ProcessError) as error:
            log.warning("the branches of %s cannot be read: %s", instance.directory, error)
            return VcsInfo(branch=head_branch(instance.project.worktree))
        return VcsInfo(branch=branch, default_branch=default)

    @operation("GET", "/vcs/status", "vcs.status")
    async def status(self, call: Call, instance: Instance) -> list[VcsFileStatus]:
        """List the files of the directory that differ from the last commit, new ones too."""
        repository = await _repository(instance)
        if repository is None:
            return []
        try:
            return await call.attended(vcs.status(repository, instance.project.directory))
        except (GitError, ProcessError) as error:
            raise Invalid(str(error)) from error

    @operation("GET", "/vcs/diff", "vcs.diff")
    async def diff(self, call: Call, instance: Instance, query: VcsDiffQuery) -> list[VcsFileDiff]:
        """Show how the files of the directory differ from the last commit, or from where the branch began.

        On the default branch, or without one, nothing differs from where the branch began.
        """
        repository = await _repository(instance)
        if repository is None:
            return []
        try:
            since = await _beginning(instance, repository) if query.mode == "branch" else "HEAD"
            if since is None:
                return []
            base = None if since == "HEAD" else since
            found = vcs.diff(repository, instance.project.directory, base, query.context)
            return await call.attended(found)
        except (GitError, ProcessError) as error:
            raise Invalid(str(error)) from error

    @operation("GET", "/vcs/diff/raw", "vcs.diff.raw", media=_DIFF)
    async def raw(self, call: Call, instance: Instance) -> Response:
        """Get all that differs from the last commit as one patch, which `vcs.apply` takes."""
        repository = await _repository(instance)
        if repository is None:
            return Response(b"", headers={"Content-Type": _DIFF})
        try:
            patch = await call.attended(vcs.raw(repository, instance.project.directory))
        except (GitError, ProcessError) as error:
            raise Invalid(str(error)) from error
        return Response(patch, headers={"Content-Type": _DIFF})

    @operation("POST", "/vcs/apply", "vcs.apply", order=True)
    async def apply(self, instance: Instance, body: ApplyBody) -> Applied:
        """Apply a patch to the repository's files, whole or not at all."""
        repository = await _repository(instance)
        try:
            await vcs.apply(repository, body.patch.encode(errors="replace"))
        except vcs.ApplyError as error:
            raise refused(error) from error
        return Applied(applied=True)


def refused(error: vcs.ApplyError) -> Formed:
    """Return the answer of a patch that was not applied."""
    return Formed(400, {"name": "VcsApplyError", "data": {"message": str(error), "reason": error.reason}})


async def _repository(instance: Instance) -> Repository | None:
    try:
        return await vcs.repository(instance.processes, instance.project)
    except (GitError, ProcessError) as error:
        raise Invalid(str(error)) from error


async def _beginning(instance: Instance, repository: Repository) -> str | None:
    default = await vcs.default_branch(repository)
    branch = await vcs.checked_out(instance.processes, instance.project)
    return None if default is None or branch == default else await vcs.left_at(repository, default)
