"""Queries and answers of the routes of files: lists, contents, searches. Paths are relative to the directory."""

from typing import Annotated, Literal

import msgspec

from instar.wire import Wire

Kind = Literal["file", "directory"]
Count = Annotated[int, msgspec.Meta(ge=0)]


class PathQuery(Wire):
    """Names a file or folder of the directory; empty: the directory itself."""

    path: str


class TextQuery(Wire):
    """A regular expression that is looked for in files, as ripgrep understands it."""

    pattern: str


class NameQuery(Wire):
    """Letters that a name holds in this order. `dirs` lists folders too, unless `type` names what is wanted."""

    query: str
    dirs: Literal["true", "false"] | None = None
    type: Kind | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None


class SymbolQuery(Wire):
    """A part of a symbol's name."""

    query: str


class ListQuery(Wire):
    """Names a folder of the location; none: the location itself."""

    path: str = ""


class FindQuery(Wire):
    """As `NameQuery`, for opencode's newer route."""

    query: str
    type: Kind | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] | None = None


class Path(Wire):
    """The folders that matter to a client: the person's home, instar's own, the repository's, the request's."""

    home: str
    state: str
    config: str
    worktree: str
    directory: str


class FileNode(Wire):
    """An entry of a folder; a folder's `path` ends in a slash. `ignored`: git does not look at it."""

    name: str
    path: str
    absolute: str
    type: Kind
    ignored: bool


class FileContent(Wire):
    """What a file holds: its text, or its bytes in base64 with their type."""

    type: Literal["text", "binary"]
    content: str
    encoding: Literal["base64"] | None = None
    mime_type: str | None = None


class File(Wire):
    """A changed file and how many lines of it."""

    path: str
    added: Count
    removed: Count
    status: Literal["added", "deleted", "modified"]


class Text(Wire):
    """A text in ripgrep's form."""

    text: str


class Submatch(Wire):
    """A place in a line, in bytes from its start."""

    match: Text
    start: Count
    end: Count


class TextMatch(Wire):
    """A line that matches; `absolute_offset` counts the file's bytes before it."""

    path: Text
    lines: Text
    line_number: Count = msgspec.field(name="line_number")
    absolute_offset: Count = msgspec.field(name="absolute_offset")
    submatches: list[Submatch]


class Position(Wire):
    """A place in a file: line and character, from 0."""

    line: Count
    character: Count


class Range(Wire):
    """A stretch of a file."""

    start: Position
    end: Position


class SymbolLocation(Wire):
    """Where a symbol stands."""

    uri: str
    range: Range


class Symbol(Wire):
    """A symbol, as a language server names it; instar starts none."""

    name: str
    kind: Count
    location: SymbolLocation


class FileSystemEntry(Wire):
    """A file or folder; a folder's path ends in a slash."""

    path: str
    type: Kind
