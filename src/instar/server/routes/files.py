"""The routes of a directory's files: places, lists, contents, searches. Nothing outside of the directory is shown."""

from starlette.responses import Response

from instar import files
from instar.api.file import (
    File,
    FileContent,
    FileNode,
    FileSystemEntry,
    FindQuery,
    Kind,
    ListQuery,
    NameQuery,
    Path,
    PathQuery,
    Symbol,
    SymbolQuery,
    TextMatch,
    TextQuery,
)
from instar.api.location import Located, LocationInfo, ReferenceInfo
from instar.plugin.route import operation
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.location import located, location_of

_UNTOLD = 100
"""Names that opencode's newer route answers where the client names no number."""


class FileRoutes:
    """A directory's files in opencode's older form."""

    @operation("GET", "/path", "path.get")
    async def path(self, call: Call) -> Path:
        """Get the folders that matter: the home, instar's own, the repository's, the request's."""
        instance = (await call.runtime()).instance
        return Path(
            home=str(instance.paths.home),
            state=str(instance.paths.state),
            config=str(instance.paths.config),
            worktree=str(instance.project.worktree),
            directory=str(instance.project.directory),
        )

    @operation("GET", "/file", "file.list")
    async def nodes(self, call: Call, query: PathQuery) -> list[FileNode]:
        """List the files and folders in a folder; links are left out."""
        instance = (await call.runtime()).instance
        project = instance.project
        return await files.nodes(instance.processes, project, project.directory, query.path)

    @operation("GET", "/file/content", "file.read")
    async def read(self, call: Call, query: PathQuery) -> FileContent:
        """Read a file: its text, or its bytes in base64; of a file that is not there no text."""
        return await files.content((await call.runtime()).instance.project.directory, query.path)

    @operation("GET", "/file/status", "file.status")
    async def status(self, call: Call) -> list[File]:
        """List the changed files.

        Always empty, as in opencode 1.18: `vcs.status` has them.
        """
        await call.runtime()
        return []

    @operation("GET", "/find", "find.text")
    async def lines(self, call: Call, query: TextQuery) -> list[TextMatch]:
        """Find the first ten lines that match a regular expression, in the order of the files' names."""
        instance = (await call.runtime()).instance
        found = files.lines(instance.processes, instance.project.directory, query.pattern, files.LIMIT)
        return await call.attended(found)

    @operation("GET", "/find/file", "find.files")
    async def names(self, call: Call, query: NameQuery) -> list[str]:
        """Find files and folders whose path holds these letters in this order, best first.

        Without letters only files are listed, unless `type` asks for folders (as in opencode).
        """
        without = query.dirs == "false" or not query.query
        kind = query.type or ("file" if without else None)
        found = await _found(call, await call.runtime(), query, kind, files.LIMIT)
        return [entry.path for entry in found]

    @operation("GET", "/find/symbol", "find.symbols")
    async def symbols(self, call: Call, query: SymbolQuery) -> list[Symbol]:
        """Find symbols. Always empty: instar starts no language servers."""
        await call.runtime()
        return []


class FileSystemRoutes:
    """A directory's files in opencode's newer form."""

    @operation("GET", "/api/location", "v2.location.get")
    async def location(self, call: Call) -> LocationInfo:
        """Get the location that a request is about: its directory and its project."""
        return location_of(await call.runtime())

    @operation("GET", "/api/reference", "v2.reference.list")
    async def references(self, call: Call) -> Located[list[ReferenceInfo]]:
        """List the references. Always empty: instar has none."""
        return located(await call.runtime(), [])

    @operation("GET", "/api/fs/list", "v2.fs.list")
    async def entries(self, call: Call, query: ListQuery) -> Located[list[FileSystemEntry]]:
        """List the files and folders in a folder; links are left out."""
        runtime = await call.runtime()
        return located(runtime, await files.entries(runtime.instance.project.directory, query.path))

    @operation("GET", "/api/fs/find", "v2.fs.find")
    async def find(self, call: Call, query: FindQuery) -> Located[list[FileSystemEntry]]:
        """Find files and folders whose path holds these letters in this order, best first."""
        runtime = await call.runtime()
        return located(runtime, await _found(call, runtime, query, query.type, _UNTOLD))

    @operation("GET", "/api/fs/read/{path:path}", "v2.fs.read", media="application/octet-stream")
    async def data(self, call: Call, path: str) -> Response:
        """Read a file's bytes."""
        runtime = await call.runtime()
        data, mime = await files.data(runtime.instance.project.directory, path)
        # A page that a repository holds must not run as if it were the server's own.
        headers = {"Content-Security-Policy": "sandbox", "X-Content-Type-Options": "nosniff"}
        return Response(data, headers={**headers, "Content-Type": mime})


async def _found(
    call: Call, runtime: Runtime, query: NameQuery | FindQuery, kind: Kind | None, untold: int
) -> list[FileSystemEntry]:
    instance = runtime.instance
    directory, limit = instance.project.directory, query.limit or untold
    return await call.attended(files.fuzzy(instance.processes, directory, query.query, kind, limit))
