"""Reads a script: its simple commands, each with its words, redirections and the folders it may run in.

Built on the grammar of tree-sitter-bash, which is no shell: each piece of text is checked again
(`instar.tool.shell.leaf`), and a tree of a kind that is not known here is in doubt.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from instar.tool.shell import leaf, wrapper
from instar.tool.shell.build import Builder
from instar.tool.shell.commands import Commands, as_written
from instar.tool.shell.folders import START, Folders
from instar.tool.shell.grammar import MAX_NODES, parsed
from instar.tool.shell.redirect import REDIRECTS
from instar.tool.shell.simple import Atom, Chains, Simple
from instar.tool.shell.word import Word

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_TEXT: Final = 131072
"""Characters of a script that are read: Linux starts none with a longer argument."""
MAX_DEPTH: Final = 40
"""Commands inside one another that are followed."""


class Reading:
    """What was read of a script: `found` are its simple commands in the order written.

    `doubt` says that a shell may read it differently. `chains` are the folders that it may start in.
    """

    def __init__(self, script: str, chains: Chains = START) -> None:
        readable = len(script) <= MAX_TEXT and not _STRANGE.search(script)
        source, root = parsed(script.encode(errors="replace") if readable else b"")
        self._builder = Builder(source, self._substitution)
        self._folders = Folders(chains)
        self._commands = Commands(self._builder, self._folders, self._statement)
        self._depth = 0
        self._functions = False
        if not readable or root.descendant_count > MAX_NODES:
            self._builder.doubt = True
            return
        self._builder.sure(not root.has_error)
        self._gap(0, root.start_byte)
        self._gap(root.end_byte, len(source))
        self._statement(root)
        self._builder.sure(not (self._folders.moved and self._functions))

    @property
    def found(self) -> list[Simple]:
        """The simple commands."""
        return self._commands.found

    @property
    def doubt(self) -> bool:
        """Whether a shell may read the script differently."""
        return self._builder.doubt

    @property
    def names(self) -> dict[str, list[Word] | None]:
        """The words that the script gives each variable; None for what cannot be known."""
        return self._builder.names

    @property
    def evaluated(self) -> set[str]:
        """The variables that are evaluated as expressions: harmless only if they hold numbers."""
        return self._builder.evaluated

    def _gaps(self, node: "Node") -> None:
        dashed = node.type == "redirected_statement"
        for one, other in pairwise(node.children):
            self._gap(one.end_byte, other.start_byte, leaf.DASHED if dashed else leaf.BREAK)

    def _gap(self, start: int, end: int, allowed: re.Pattern[str] = leaf.BREAK) -> None:
        self._builder.sure(allowed.fullmatch(self._builder.between(start, end)))

    def _statement(self, node: "Node", redirects: "Sequence[Node]" = ()) -> Chains:
        """Read a statement; return the folders that it may leave the script in when it succeeds."""
        self._depth += 1
        read = _STATEMENTS.get(node.type)
        self._gaps(node)
        if self._depth > MAX_DEPTH or read is None:
            self._builder.doubt = True
            if read is None and self._depth <= MAX_DEPTH:
                self._parts(node)
        elif read in _TAKING or not redirects:
            taken = read(self, node, redirects)
            self._depth -= 1
            return taken
        else:
            read(self, node, ())
            self._commands.command(node, redirects, silent=True)
        self._depth -= 1
        return self._folders.chains

    def _parts(self, node: "Node") -> None:
        for child in node.named_children:
            if child.type in _STATEMENTS:
                self._statement(child)
            else:
                self._builder.substitutions(child)

    def _container(self, node: "Node", redirects: "Sequence[Node]" = ()) -> Chains:
        """Read statements that follow each other; the last takes the redirections."""
        for child in node.children:
            if child.is_named:
                self._statement(child, redirects if child == node.children[-1] else ())
        return self._folders.chains

    def _simple(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        return self._commands.command(node, redirects)

    def _assigned(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        return self._commands.assignments(node, redirects)

    def _tested(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        return self._commands.test(node, redirects)

    def _comment(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        self._commands.comment(node)
        return self._folders.chains

    def _apart(self, node: "Node", redirects: "Sequence[Node]" = ()) -> Chains:
        """Read what runs in a shell of its own: the folder that it changes to is gone afterwards."""
        self._builder.sure(node.type != "subshell" or not self._builder.text(node).startswith("(("))
        kept, loops, self._folders.loops = self._folders.chains, self._folders.loops, 0
        if node.type == "pipeline":
            for child in node.named_children:
                self._folders.chains = kept
                self._statement(child, redirects if child == node.children[-1] else ())
        else:
            self._container(node)
        self._folders.chains, self._folders.loops = kept, loops
        return kept

    def _negated(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        self._builder.sure(re.match(r"!(?:[ \t]|\\\n)*[ \t]", self._builder.text(node)))
        return self._container(node, redirects)

    def _shell(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        return self._apart(node)

    def _block(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        return self._container(node)

    def _substitution(self, node: "Node") -> None:
        if self._depth > MAX_DEPTH:
            self._builder.doubt = True
            return
        self._depth += 1
        self._gaps(node)
        redirects = [child for child in node.named_children if child.type in REDIRECTS]
        if redirects:
            self._commands.command(node, redirects, silent=True)
        else:
            self._apart(node)
        self._depth -= 1

    def _list(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        """Read commands between && and ||: after && it is known that the one before succeeded."""
        rest: list[Node] = []
        while node.type == "list":
            self._builder.sure(len(node.children) == 3)
            left, *others = node.children
            self._gap(left.end_byte, others[0].start_byte)
            self._gap(others[0].end_byte, others[-1].start_byte)
            rest += reversed(others)
            node = left
        good = self._statement(node)
        operator = ""
        for child in reversed(rest):
            if not child.is_named:
                operator = self._builder.text(child)
                continue
            before = self._folders.chains
            self._folders.chains = good if operator == "&&" else before
            then = self._statement(child, redirects if child == rest[0] else ())
            good = then if operator == "&&" else good | then
            self._folders.chains |= before
        return good

    def _redirected(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        body = node.child_by_field_name("body")
        own = [child for child in node.named_children if child != body]
        if body is None:
            return self._commands.command(node, [*own, *redirects])
        return self._statement(body, [*own, *redirects])

    def _loop(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        self._folders.loops += 1
        chains = self._container(node)
        self._folders.loops -= 1
        return chains

    def _for(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        """``for name in words``: its head counts as a command of its own, as it sets a variable."""
        body = node.child_by_field_name("body")
        variable = node.child_by_field_name("variable")
        head = [child for child in node.children if child != body and child.type not in (";", "comment")]
        words = [self._builder.word(child) for child in node.children_by_field_name("value")]
        name = self._builder.text(variable) if variable else ""
        self._builder.sure(body is not None and node.children[0].type == "for")
        for word in words:
            self._builder.learn(name, None if word.braced or word.literal is None else word)
        if not words:
            self._builder.learn(name, None)
        atoms = [self._commands.atom(child) for child in head]
        self._commands.keep(atoms, plain=False)
        if body is not None:
            self._loop(body, ())
        return self._folders.chains

    def _counting(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        """``for ((...))``: three expressions."""
        body = node.child_by_field_name("body")
        inner = re.match(r"for\s*\(\(([^()]*)\)\)", self._builder.text(node))
        self._builder.sure(inner and body)
        for child in node.children:
            if child == body:
                self._loop(child, ())
            else:
                self._builder.substitutions(child)
        if inner:
            self._builder.arithmetic(node.children[0], inner[1])
        return self._folders.chains

    def _compound(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        """``{ ...; }``, or an expression in ``((...))``."""
        raw = self._builder.text(node)
        if not raw.startswith("(("):
            return self._container(node)
        self._builder.sure(raw.endswith("))"))
        self._builder.arithmetic(node, raw[2:-2])
        self._commands.keep([Atom(node.start_byte, node.end_byte, as_written(raw))], plain=False)
        return self._folders.chains

    def _case(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        values = set(node.children_by_field_name("value"))
        for child in node.children:
            if child in values:
                self._builder.word(child)
            elif child.is_named:
                self._statement(child)
        return self._folders.chains

    def _function(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        name = node.child_by_field_name("name")
        self._functions = True
        for child in node.named_children:
            if child == name:
                word = self._builder.word(child)
                self._builder.sure(word.literal and word.bare not in wrapper.SPECIAL)
            elif child.type in REDIRECTS:
                self._commands.command(node, [child], silent=True)
            else:
                self._loop(child, ()) if child.type == "do_group" else self._statement(child)
        return self._folders.chains


_STRANGE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]|[^\S \t\n]|[\ud800-\udfff]")
"""Control characters and blanks that the grammar and a shell take for different things, and half characters."""
_Read = Callable[["Reading", "Node", Sequence["Node"]], Chains]
_STATEMENTS: "Final[dict[str, _Read]]" = {
    "program": Reading._container,
    "list": Reading._list,
    "pipeline": Reading._apart,
    "negated_command": Reading._negated,
    "redirected_statement": Reading._redirected,
    "command": Reading._simple,
    "declaration_command": Reading._simple,
    "unset_command": Reading._simple,
    "variable_assignment": Reading._assigned,
    "variable_assignments": Reading._assigned,
    "test_command": Reading._tested,
    "subshell": Reading._shell,
    "compound_statement": Reading._compound,
    "do_group": Reading._block,
    "if_statement": Reading._block,
    "elif_clause": Reading._block,
    "else_clause": Reading._block,
    "while_statement": Reading._loop,
    "for_statement": Reading._for,
    "c_style_for_statement": Reading._counting,
    "case_statement": Reading._case,
    "case_item": Reading._case,
    "function_definition": Reading._function,
    "comment": Reading._comment,
}
_TAKING: Final = frozenset(
    [
        Reading._negated,
        Reading._list,
        Reading._apart,
        Reading._redirected,
        Reading._simple,
        Reading._assigned,
        Reading._tested,
    ]
)
"""What reads the redirections behind it itself; behind all else they belong to the whole."""
