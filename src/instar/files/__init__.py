"""A directory's files as a client may see them: lists, contents, searches. Nothing outside of the directory."""

from instar.files.contents import content, data, entries, nodes
from instar.files.find import LIMIT, fuzzy, lines
from instar.files.place import LARGEST, locate

__all__ = ["LARGEST", "LIMIT", "content", "data", "entries", "fuzzy", "lines", "locate", "nodes"]
