"""Makes simple commands of nodes: their words and redirections, wherever the grammar puts them."""

import re
from typing import TYPE_CHECKING, Final

from instar.tool.shell import folders, leaf, redirect, wrapper
from instar.tool.shell.simple import Atom, Chains, Redirect, Simple
from instar.tool.shell.word import Word, text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tree_sitter import Node

    from instar.tool.shell.build import Builder

MAX_ATOMS: Final = 1000
"""Words and redirections of one command that are read."""
_ASSIGNMENTS: Final = frozenset(["variable_assignment", "variable_assignments"])
_EXPRESSIONS: Final = frozenset(
    ["binary_expression", "unary_expression", "parenthesized_expression", "negation_expression"]
)


class Commands:
    """Collects the simple commands of one script in `found`; each method returns what it may leave the folder at.

    `statement` reads a statement that the grammar puts into a heredoc's line.
    """

    def __init__(
        self, builder: "Builder", where: folders.Folders, statement: "Callable[[Node], object]"
    ) -> None:
        self.found: list[Simple] = []
        self._builder = builder
        self._folders = where
        self._statement = statement
        self._heredocs = redirect.Heredocs(builder)

    def comment(self, node: "Node") -> None:
        """See that a comment is one: in a word ``#`` is none, nor where an array ends."""
        before = self._builder.between(max(0, node.start_byte - 1), node.start_byte)
        self._builder.sure(before in (*" \t\n;&|(", ""))

    def test(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        """``[ ... ]`` and ``[[ ... ]]``: the operands of some operators are evaluated as expressions."""
        atoms = self._operands(node)
        words = [atom.item.raw for atom in atoms if isinstance(atom.item, Word)]
        if words[:1] == ["[["]:
            for left, operator, right in zip(words, words[1:], words[2:], strict=False):
                if leaf.COMPARED.fullmatch(operator):
                    self._number(left)
                    self._number(right)
            self._builder.sure(not {"-v", "-R"} & set(words))
        else:
            self._builder.sure(not {"<", ">", "&&", "||", "(", ")"} & set(words))
        blanks = leaf.BREAK if words[:1] == ["[["] else leaf.GAP
        return self.keep([*atoms, *self.redirects(redirects)], blanks=blanks, plain=words[:1] == ["["])

    def _number(self, operand: str) -> None:
        found = re.fullmatch(
            r'"?(?:-?\d+|\$(?:(?P<a>[A-Za-z_]\w*)|\{(?P<b>\w+)\}|[?#$!]|\{#.*\}))"?', operand
        )
        self._builder.sure(found)
        if found and (found["a"] or found["b"]):
            self._builder.evaluated.add(found["a"] or found["b"])

    def _operands(self, node: "Node") -> list[Atom]:
        atoms: list[Atom] = []
        waiting = list(reversed(node.children))
        while waiting:
            child = waiting.pop()
            if child.type in _EXPRESSIONS:
                waiting += reversed(child.children)
            else:
                atoms.append(self.atom(child))
        return atoms

    def atom(self, node: "Node") -> Atom:
        """Return a node as a word; what the grammar takes for a sign stands for itself."""
        if not node.is_named:
            return Atom(node.start_byte, node.end_byte, as_written(self._builder.text(node)))
        if node.type == "command_name":
            self._builder.sure(len(node.children) == 1)
            node = node.children[0]
        return Atom(node.start_byte, node.end_byte, self._builder.word(node))

    def command(self, node: "Node", redirects: "Sequence[Node]", silent: bool = False) -> Chains:
        """Read a simple command; `silent` reads only the redirections that stand behind a compound one."""
        atoms: list[Atom] = []
        whole = silent or node.type == "redirected_statement"
        for child in [] if whole else node.children:
            if child.type in redirect.REDIRECTS:
                atoms += self.redirects([child])
            else:
                self._builder.sure(child.is_named or node.type != "command" or child.type == "$")
                atoms.append(self.atom(child))
        atoms += self.redirects(redirects)
        if silent:
            self._builder.sure(all(isinstance(atom.item, Redirect) for atom in atoms))
        return self.keep(atoms, plain=node.type not in _ASSIGNMENTS, silent=silent)

    def assignments(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        """Read assignments that stand alone: they change how later commands run."""
        nodes = [node] if node.type == "variable_assignment" else node.children
        atoms = [self.atom(child) for child in nodes]
        return self.keep([*atoms, *self.redirects(redirects)], plain=False)

    def redirects(self, nodes: "Sequence[Node]") -> list[Atom]:
        """Read redirections, and what the grammar takes into them: words, and a heredoc's whole line."""
        found: list[Atom] = []
        for node in nodes:
            if node.type == "comment":
                self.comment(node)
            elif node.type == "heredoc_redirect":
                atoms, statements = self._heredocs.read(node)
                found += atoms
                for statement in statements:
                    self._statement(statement)
            elif node.type in redirect.REDIRECTS:
                found += redirect.plain(self._builder, node)
            else:
                self._builder.doubt = True
                self._builder.substitutions(node)
        return found

    def keep(
        self,
        atoms: list[Atom],
        *,
        plain: bool,
        silent: bool = False,
        blanks: re.Pattern[str] = leaf.GAP,
    ) -> Chains:
        """Keep a simple command made of `atoms` (`Simple` says what `plain` and `silent` mean)."""
        self._builder.sure(len(atoms) <= MAX_ATOMS)
        joined = redirect.touching(self._builder, atoms[:MAX_ATOMS], blanks)
        items = tuple(atom.item for atom in joined)
        found = Simple(items, self._folders.chains, plain, silent)
        self.found.append(found)
        for one in wrapper.inner(found.words) if plain else ():
            if not isinstance(one, wrapper.Inner):
                continue
            name = wrapper.program(found.words[one.start])
            for word in found.words[one.start + 1 : one.stop] if name in leaf.SETTING else ():
                self._builder.learn(word.bare, None)
            if name in folders.MOVING:
                new, sure = self._folders.move(found.words[one.start : one.stop])
                self._builder.sure(sure)
                return new
        return self._folders.chains


def as_written(raw: str) -> Word:
    """Return a word that the grammar knows: nothing in it expands."""
    return Word(raw, raw, tuple(text(raw, quoted=True)))
