"""Redirections: the file that one names, and where a heredoc ends."""

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from instar.tool.shell import leaf
from instar.tool.shell.build import EXPANDING, Builder
from instar.tool.shell.simple import Atom, Redirect
from instar.tool.shell.word import Word, text

if TYPE_CHECKING:
    from tree_sitter import Node

REDIRECTS: Final = frozenset(["file_redirect", "herestring_redirect", "heredoc_redirect"])
"""Nodes that are redirections."""
_OPERATORS: Final = frozenset([">", ">>", "<", "<>", ">|", "&>", "&>>", ">&", "<&", ">&-", "<&-"])


def touching(builder: Builder, atoms: list[Atom], blanks: re.Pattern[str]) -> list[Atom]:
    """Return the atoms in order, words that touch made one. In doubt when more than `blanks` is between."""
    found: list[Atom] = []
    for atom in sorted(atoms):
        if not found:
            found.append(atom)
            continue
        last = found[-1]
        between = builder.between(last.end, atom.start)
        if leaf.DASH.fullmatch(between):
            found.append(Atom(last.end, atom.start, Word("-", "-", tuple(text("-")))))
            between = " "
        builder.sure(blanks.fullmatch(between) and last.end <= atom.start)
        apart = between.replace("\\\n", "") != ""
        if apart or isinstance(atom.item, Redirect):
            # Digits that touch an operator name a descriptor; so does {name}.
            builder.sure(apart or not re.fullmatch(r"\d+|\{\w+\}", last.item.raw))
            found.append(atom)
        elif isinstance(last.item, Word):
            builder.sure(last.item.raw != "$")
            found[-1] = Atom(last.start, atom.end, last.item + atom.item)
        else:
            # What touches a redirection's target belongs to it.
            builder.doubt = True
            found.append(atom)
    return found


def plain(builder: Builder, node: "Node") -> list[Atom]:
    """Return a redirection to or from a file or a text, and the words that the grammar takes into it."""
    children = list(node.children)
    first = children.pop(0)
    if first.type == "file_descriptor" and children:
        before = builder.between(max(0, first.start_byte - 1), first.start_byte)
        builder.sure(first.end_byte == children[0].start_byte and not re.match(r"[^\s;&|()]", before))
        operator = children.pop(0)
    else:
        operator = first
    sign = builder.text(operator)
    known = sign == "<<<" if node.type == "herestring_redirect" else sign in _OPERATORS
    builder.sure(known and not operator.is_named)
    words = [Atom(child.start_byte, child.end_byte, builder.word(child)) for child in children]
    joined = touching(builder, words, leaf.GAP)
    if sign.endswith("-") or not joined:
        builder.sure(sign.endswith("-"))
        raw = builder.between(node.start_byte, operator.end_byte)
        return [Atom(node.start_byte, operator.end_byte, Redirect(sign, None, raw, raw)), *joined]
    target = joined[0]
    front = builder.between(node.start_byte, target.start)
    builder.sure(leaf.GAP.fullmatch(builder.between(operator.end_byte, target.start)))
    return [_named(node.start_byte, sign, front, target), *joined[1:]]


def _named(start: int, sign: str, front: str, target: Atom) -> Atom:
    assert isinstance(target.item, Word)
    words = " ".join(front.replace("\\\n", "").split()) + (" " if front[-1:].isspace() else "")
    names_file = sign != "<<<" and not (sign in (">&", "<&") and re.fullmatch(r"\d+-?|-", target.item.raw))
    word = target.item if names_file else None
    return Atom(start, target.end, Redirect(sign, word, words + target.item.raw, words + target.item.bare))


class Heredocs:
    """The heredocs of one script: each must end where a shell ends it."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._lines: set[int] = set()

    def read(self, node: "Node") -> "tuple[list[Atom], list[Node]]":
        """Return a heredoc as a redirection, with what else stands on its line, and the statements there."""
        builder, children = self._builder, node.children
        start = next((child for child in children if child.type == "heredoc_start"), None)
        if start is None:
            builder.doubt = True
            return [], []
        # A second heredoc on the same line would change where the first one's lines end.
        sign = builder.between(node.start_byte, start.start_byte).strip()
        builder.sure(start.start_point[0] not in self._lines and sign in ("<<", "<<-"))
        self._lines.add(start.start_point[0])
        raw = builder.between(node.start_byte, start.end_byte)
        atoms = [Atom(node.start_byte, start.end_byte, Redirect("<<", None, raw, raw))]
        statements: list[Node] = []
        others = [child for child in children if child.start_byte >= start.end_byte]
        rest = [child for child in others if child.type not in ("heredoc_body", "heredoc_end")]
        for one, other in pairwise([start, *rest]):
            builder.sure(not builder.between(one.end_byte, other.start_byte).strip(" \t"))
        for child in rest:
            if child.type in REDIRECTS - {"heredoc_redirect"}:
                atoms += plain(builder, child)
            elif child.is_named:
                statements.append(child)
            else:
                builder.sure(child.type in ("&&", "||", "|", "|&"))
        builder.sure(all(child.end_byte <= builder.line_end(start.end_byte) for child in rest))
        self._body(start, [child for child in others if child not in rest], tabs=sign == "<<-")
        return atoms, statements

    def _body(self, start: "Node", body: "list[Node]", *, tabs: bool) -> None:
        """See that the body ends at the first line that a shell takes for its end, and what expands in it."""
        builder = self._builder
        found = leaf.DELIMITER.fullmatch(builder.text(start))
        line = builder.line_end(start.end_byte)
        if found is None:
            builder.doubt = True
            return
        delimiter = next(group for group in found.groups() if group is not None)
        end = builder.delimited(line + 1, delimiter, tabs=tabs)
        ended = [child for child in body if child.type == "heredoc_end"]
        builder.sure(end is not None and len(ended) == 1)
        if end is None or not ended:
            return
        shift = builder.between(end, ended[0].start_byte)
        builder.sure(builder.text(ended[0]).strip() == delimiter and not shift.strip("\t"))
        inner = [part for child in body if child.type == "heredoc_body" for part in child.children]
        if found["plain"]:
            builder.spans([part for part in inner if part.type in EXPANDING], line + 1, end, leaf.HEREDOC)
