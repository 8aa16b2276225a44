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
            children = view.children
            for name in reversed(view.at):
                children = {name: Branch(view.doc, children)}
            top = _joined(top, children)
        self.top = {name: node for name, node in top.items() if not paths.is_blocked(name)}

    def find(self, names: Names) -> TreeNode | None:
        """Return where a path leads; None: no declared name begins it. Raises `PathNotFound`, `HiddenName`."""
        node: Node | None = None
        children: Mapping[str, Node] = self.top
        count = 0
        while count < len(names) and names[count] in children:
            node = children[names[count]]
            children = node.children if isinstance(node, Branch) else {}
            count += 1
        at, rest = names[:count], names[count:]
        # In the data of a value or of a runtime variable only Python's own names are refused.
        if node is None:
            hidden = paths.first(names[:1]) or paths.first(names[1:], paths.is_denied)
        else:
            hidden = paths.first(rest, paths.is_denied if isinstance(node, Value) else paths.is_blocked)
        if hidden:
            raise HiddenName(hidden)
        if node is None:
            return None
        if not rest or isinstance(node, Value):
            return TreeNode(node, at, rest)
        held = "is a method" if isinstance(node, Method) else f"has no {quoted(rest[0])}"
        whole = ".".join(names)
        raise PathNotFound(whole, f"'{'.'.join(at)}' {held}", self.nearest(whole))

    def at(self, path: str) -> Node | None:
        """Return the node that is declared at a path, None where there is none."""
        return next((found.node for found in self.walk() if found.path == path), None)

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


def _joined(first: Mapping[str, Node], second: Mapping[str, Node]) -> dict[str, Node]:
    """Return the nodes of both, branches of one name joined; any other name of `first` keeps its node."""
    joined = dict(first)
    for name, node in second.items():
        held = joined.setdefault(name, node)
        if held is not node and isinstance(held, Branch) and isinstance(node, Branch):
            joined[name] = Branch(held.doc, _joined(held.children, node.children))
    return joined


def _walk(at: Names, children: Mapping[str, Node]) -> Iterable[TreeNode]:
    for name, node in children.items():
        yield TreeNode(node, (*at, name))
        if isinstance(node, Branch):
            yield from _walk((*at, name), node.children)
