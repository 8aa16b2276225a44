"""The tree: the views of the core and of all plugins joined. A path leads to declared nodes only."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from instar.plugin import Branch, Method, Node, Value, View
from instar.plugins.self import paths
from instar.plugins.self.messages import HiddenName, PathNotFound, quoted
from instar.plugins.self.paths import Names

NEAREST: Final = 3
"""Paths that are named where one leads nowhere."""
_ALIKE: Final = 0.6


class TreeNode(NamedTuple):
    """Where a path leads: the node, the names of its path, and the names that go on into its data."""

    node: Node
    at: Names
    rest: Names = ()

    @property
    def path(self) -> str:
        """The whole path."""
        return ".".join((*self.at, *self.rest))


class SelfTree:
    """What is declared now. Blocked names are left out at the top level."""

    def __init__(self, views: Iterable[View]) -> None:
        top: dict[str, Node] = {}
        for view in views:
            if not (view.at and paths.is_blocked(view.at[0])):
                _graft(top, view.at, view.children, view.doc)
        self.top = {name: node for name, node in top.items() if not paths.is_blocked(name)}

    def find(self, names: Names) -> TreeNode | None:
        """Return where a path leads; None: no declared name begins it. Raises `PathNotFound`, `HiddenName`."""
        node = self.top.get(names[0])
        if node is None:
            # What follows is a runtime variable's data, where only Python's own names are refused.
            hidden = names[0] if paths.is_blocked(names[0]) else _denied(names[1:])
            if hidden:
                raise HiddenName(hidden)
            return None
        for count, name in enumerate(names[1:], 1):
            if isinstance(node, Branch) and name in node.children:
                node = node.children[name]
                continue
            return self._beyond(node, names, count)
        return TreeNode(node, names)

    def _beyond(self, node: Node, names: Names, count: int) -> TreeNode:
        rest = names[count:]
        hidden = paths.first_blocked(rest) if isinstance(node, Branch | Method) else _denied(rest)
        if hidden:
            raise HiddenName(hidden)
        if isinstance(node, Value):
            return TreeNode(node, names[:count], rest)
        holder = ".".join(names[:count])
        held = "is a method" if isinstance(node, Method) else f"has no {quoted(rest[0])}"
        whole = ".".join(names)
        raise PathNotFound(whole, f"'{holder}' {held}", self.nearest(whole))

    def unknown(self, names: Names) -> PathNotFound:
        """Return the refusal of a path that begins with no declared name."""
        whole = ".".join(names)
        return PathNotFound(whole, f"there is no {quoted(names[0])} at the top", self.nearest(whole))

    def nearest(self, path: str) -> list[str]:
        """Return up to 3 declared paths that resemble one or end on the same name, the best first."""
        known = [".".join(found.at) for found in self.walk()]
        near = difflib.get_close_matches(path, known, n=NEAREST, cutoff=_ALIKE)
        tail = path.rpartition(".")[2]
        ends = [one for one in known if one.rpartition(".")[2] == tail and one != path]
        return list(dict.fromkeys([*near, *ends]))[:NEAREST]

    def walk(self) -> Iterable[TreeNode]:
        """Yield every declared node, branches before what they hold."""
        return _walk((), self.top)


def _graft(top: dict[str, Node], at: Names, children: Mapping[str, Node], doc: str) -> None:
    """Add the nodes of a view to the tree; what another view declared first stays."""
    if not at:
        for name, node in children.items():
            held = top.get(name)
            if isinstance(held, Branch) and isinstance(node, Branch):
                joined = dict(held.children)
                _graft(joined, (), node.children, node.doc)
                top[name] = Branch(held.doc, joined)
            else:
                top.setdefault(name, node)
        return
    held = top.get(at[0])
    if held is not None and not isinstance(held, Branch):
        return
    inner = dict(held.children) if held is not None else {}
    _graft(inner, at[1:], children, doc)
    top[at[0]] = Branch(held.doc if held is not None else doc, inner)


def _walk(at: Names, children: Mapping[str, Node]) -> Iterable[TreeNode]:
    for name, node in children.items():
        yield TreeNode(node, (*at, name))
        if isinstance(node, Branch):
            yield from _walk((*at, name), node.children)


def _denied(names: Names) -> str | None:
    return next((name for name in names if paths.is_denied(name)), None)
