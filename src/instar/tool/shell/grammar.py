"""The grammar's tree of a script, mended where the grammar is known to read on into the next line."""

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node, Parser

MAX_NODES: Final = 10000
"""Nodes of a tree that is read: some two hundred lines of script are a tenth of that."""
MAX_TURNS: Final = 4
"""How often a script is mended: what is misread after that is in doubt."""

_ENDED: Final = re.compile(rb"[ \t]*(\n)[ \t\n]*")


def parsed(source: bytes) -> "tuple[bytes, Node]":
    """Return a script's tree, and the script as it was read: as long, with ``;`` for some newlines.

    Behind a pipeline of three commands the grammar takes a line with a redirection for more words of the last
    command. A newline between two words ends a command in every shell, so a semicolon in its place says
    the same. Where a comment or a heredoc could end at the newline nothing is mended.
    """
    for _ in range(MAX_TURNS):
        root = _parser().parse(source).root_node
        if b"\n" not in source or b"|" not in source or b"#" in source or b"<<" in source:
            break
        ends = list(_ends(source, root)) if root.descendant_count <= MAX_NODES else []
        if not ends:
            break
        mended = bytearray(source)
        for end in ends:
            mended[end : end + 1] = b";"
        source = bytes(mended)
    return source, root


def _ends(source: bytes, root: "Node") -> "Iterator[int]":
    """The newlines between two words of what the grammar takes for one command."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        for one, other in pairwise(node.children if node.type == "command" else ()):
            found = _ENDED.fullmatch(source, one.end_byte, other.start_byte)
            if found:
                yield found.start(1)


@lru_cache(maxsize=1)
def _parser() -> "Parser":
    # Imported with the first command that is judged: most runs start without one.
    import tree_sitter
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))
