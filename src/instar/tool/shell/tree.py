"""Reads a script: its simple commands, each with its words, redirections and the folders it may run in.

Built on the grammar of tree-sitter-bash, which is no shell: each piece of text is checked again
(`instar.tool.shell.word`), and a tree of a kind that is not known here is in doubt.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from instar.tool.shell.build import REDIRECTS, Builder, Heredocs, redirection, touching
from instar.tool.shell.programs import (
    SPECIAL,
    InnerCommand,
    inner_commands,
    program_name,
)
from instar.tool.shell.word import (
    BREAK,
    COMPARED,
    DASHED,
    GAP,
    SETTING,
    Atom,
    Chains,
    Redirect,
    SimpleCommand,
    Word,
    WordPiece,
    text,
)
from instar.wire.pattern import late_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node, Parser


MAX_NODES: Final = 10000
"""Nodes of a tree that is read: some two hundred lines of script are a tenth of that."""
MAX_TURNS: Final = 4
"""How often a script is mended: what is misread after that is in doubt."""

_ENDED: Final = late_pattern(rb"[ \t]*(\n)[ \t\n]*")


def parsed(source: bytes) -> "tuple[bytes, Node]":
    """Return a script's tree, and the script as parsed: of the same length, with ``;`` for some newlines.

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


MAX_CHAINS: Final = 16
"""Ways of changing the folder that are told apart."""
MOVING: Final = frozenset(["cd", "pushd", "popd"])
"""Builtins that change the folder."""
START: Final[Chains] = frozenset([()])
"""The folder that the script starts in."""


class Folders:
    """The folders that the next command may run in.

    `loops` counts the loops around it, `moved` says whether any `cd` was seen.
    """

    def __init__(self, chains: Chains = START) -> None:
        self.chains = chains
        self.loops = 0
        self.moved = False

    def move(self, words: Sequence[Word]) -> tuple[Chains, bool]:
        """Follow a `cd`: afterwards the folder is the old or the new one.

        Return the new one, and whether it is sure.
        """
        operands = [word for word in words[1:] if word.raw not in ("-L", "-P", "--")]
        home = Word("~", "~", tuple(text("~")))
        target = operands[0] if operands else home
        self.moved = True
        known = words[0].bare == "cd" and len(operands) <= 1 and not target.bare.startswith("-")
        new = frozenset((*chain, target) for chain in self.chains)
        self.chains |= new
        if len(self.chains) > MAX_CHAINS:
            self.chains = START
            return START, False
        return new, known and not self.loops


MAX_ATOMS: Final = 1000
"""Words and redirections of one command that are read."""
_ASSIGNMENTS: Final = frozenset(["variable_assignment", "variable_assignments"])
_EXPRESSIONS: Final = frozenset(
    ["binary_expression", "unary_expression", "parenthesized_expression", "negation_expression"]
)


MAX_TEXT: Final = 131072
"""Characters of a script that are read: Linux starts none with a longer argument."""
MAX_DEPTH: Final = 40
"""Commands inside one another that are followed."""


class ScriptReading:
    """What was read of a script: `found` are its simple commands in the order written.

    `doubt` says that a shell may read it differently. `names` are the words that the script gives each variable
    (None: not known); `evaluated` are the variables that are evaluated as expressions, harmless only if they hold
    numbers. `chains` are the folders that the script may start in.
    """

    def __init__(self, script: str, chains: Chains = START) -> None:
        readable = len(script) <= MAX_TEXT and not _STRANGE.search(script)
        source, root = parsed(script.encode(errors="replace") if readable else b"")
        self.found: list[SimpleCommand] = []
        self._builder = Builder(source, self._substitution)
        self._heredocs = Heredocs(self._builder)
        self._folders = Folders(chains)
        self._depth = 0
        self._functions = False
        self._fed = "?"
        if readable and root.descendant_count <= MAX_NODES:
            self._builder.require(not root.has_error)
            self._gap(0, root.start_byte)
            self._gap(root.end_byte, len(source))
            self._statement(root)
            self._builder.require(not (self._folders.moved and self._functions))
        else:
            self._builder.doubt = True
        self.doubt = self._builder.doubt
        self.names = self._builder.names
        self.evaluated = self._builder.evaluated

    def _gaps(self, node: "Node") -> None:
        dashed = node.type == "redirected_statement"
        for one, other in pairwise(node.children):
            self._gap(one.end_byte, other.start_byte, DASHED if dashed else BREAK)

    def _gap(self, start: int, end: int, allowed: re.Pattern[str] = BREAK) -> None:
        self._builder.require(allowed.fullmatch(self._builder.between(start, end)))

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
            self._command(node, redirects, silent=True)
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

    def _apart(self, node: "Node", redirects: "Sequence[Node]" = ()) -> Chains:
        """Read what runs in a shell of its own: the folder that it changes to is gone afterwards."""
        self._builder.require(node.type != "subshell" or not self._builder.text(node).startswith("(("))
        outer, loops, self._folders.loops = self._folders.chains, self._folders.loops, 0
        if node.type == "pipeline":
            first, fed = len(self.found), self._fed
            for child in node.named_children:
                self._folders.chains = outer
                self._statement(child, redirects if child == node.children[-1] else ())
                self._fed = self._printing(first)
            self._fed = fed
        else:
            self._container(node)
        self._folders.chains, self._folders.loops = outer, loops
        return outer

    def _negated(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        self._builder.require(re.match(r"!(?:[ \t]|\\\n)*[ \t]", self._builder.text(node)))
        return self._container(node, redirects)

    def _shell(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        return self._apart(node)

    def _substitution(self, node: "Node") -> str:
        """Read a substitution's commands, and return the names of those that print it (`WordPiece`)."""
        if self._depth > MAX_DEPTH:
            self._builder.doubt = True
            return "?"
        first = len(self.found)
        self._depth += 1
        self._gaps(node)
        redirects = [child for child in node.named_children if child.type in REDIRECTS]
        if redirects:
            self._command(node, redirects, silent=True)
        else:
            self._apart(node)
        self._depth -= 1
        return self._printing(first)

    def _printing(self, first: int) -> str:
        """The programs of the commands that were read since `first`; ``?`` for one that names a place outside."""
        found = [one for one in self.found[first:] if not one.silent]
        return " ".join(
            "?" if not one.plain or any(map(_leads_out, one.items)) else program_name(one.words[0])
            for one in found
            if one.words
        )

    def _list(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        """Read commands between && and ||: after && it is known that the one before succeeded."""
        rest: list[Node] = []
        while node.type == "list":
            self._builder.require(len(node.children) == 3)
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
            return self._command(node, [*own, *redirects])
        fed = self._fed
        for one in own:
            given = self._builder.text(one)
            if one.type != "file_redirect":
                self._fed = "?"
            elif given.startswith("<"):
                self._fed = " ".join(_FEEDING.findall(given) or ["cat"])
        chains = self._statement(body, [*own, *redirects])
        self._fed = fed
        return chains

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
        self._builder.require(body is not None and node.children[0].type == "for")
        for word in words:
            known = word.literal is not None or any(piece.kind != "text" for piece in word.pieces)
            listing = Word(word.raw, word.bare, (WordPiece("unknown", "ls", quoted=True),))
            self._builder.learn(name, None if word.braced else word if known else listing)
        if not words:
            self._builder.learn(name, None)
        atoms = [self._atom(child) for child in head]
        self._keep(atoms, plain=False)
        if body is not None:
            self._loop(body, ())
        return self._folders.chains

    def _counting(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        """``for ((...))``: three expressions."""
        body = node.child_by_field_name("body")
        inner = re.match(r"for\s*\(\(([^()]*)\)\)", self._builder.text(node))
        self._builder.require(inner and body)
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
        self._builder.require(raw.endswith("))"))
        self._builder.arithmetic(node, raw[2:-2])
        self._keep([Atom(node.start_byte, node.end_byte, as_written(raw))], plain=False)
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
                self._builder.require(word.literal and word.bare not in SPECIAL)
            elif child.type in REDIRECTS:
                self._command(node, [child], silent=True)
            else:
                self._loop(child, ()) if child.type == "do_group" else self._statement(child)
        return self._folders.chains

    def _comment(self, node: "Node", redirects: "Sequence[Node]" = ()) -> Chains:
        """See that a comment is one: in a word ``#`` is none, nor where an array ends."""
        before = self._builder.between(max(0, node.start_byte - 1), node.start_byte)
        self._builder.require(before in (*" \t\n;&|(", ""))
        return self._folders.chains

    def _test(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        """``[ ... ]`` and ``[[ ... ]]``: the operands of some operators are evaluated as expressions."""
        atoms = self._operands(node)
        words = [atom.item.raw for atom in atoms if isinstance(atom.item, Word)]
        if words[:1] == ["[["]:
            for left, operator, right in zip(words, words[1:], words[2:], strict=False):
                if COMPARED.fullmatch(operator):
                    self._number(left)
                    self._number(right)
            self._builder.require(not {"-v", "-R"} & set(words))
        else:
            self._builder.require(not {"<", ">", "&&", "||", "(", ")"} & set(words))
        blanks = BREAK if words[:1] == ["[["] else GAP
        return self._keep([*atoms, *self._redirects(redirects)], blanks=blanks, plain=words[:1] == ["["])

    def _number(self, operand: str) -> None:
        found = re.fullmatch(
            r'"?(?:-?\d+|\$(?:(?P<a>[A-Za-z_]\w*)|\{(?P<b>\w+)\}|[?#$!]|\{#.*\}))"?', operand
        )
        self._builder.require(found)
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
                atoms.append(self._atom(child))
        return atoms

    def _atom(self, node: "Node") -> Atom:
        """Return a node as a word; what the grammar takes for a sign stands for itself."""
        if not node.is_named:
            return Atom(node.start_byte, node.end_byte, as_written(self._builder.text(node)))
        if node.type == "command_name":
            self._builder.require(len(node.children) == 1)
            node = node.children[0]
        return Atom(node.start_byte, node.end_byte, self._builder.word(node))

    def _command(self, node: "Node", redirects: "Sequence[Node]", silent: bool = False) -> Chains:
        """Read a simple command; `silent` reads only the redirections that stand behind a compound one."""
        atoms: list[Atom] = []
        whole = silent or node.type == "redirected_statement"
        for child in [] if whole else node.children:
            if child.type in REDIRECTS:
                atoms += self._redirects([child])
            else:
                self._builder.require(child.is_named or node.type != "command" or child.type == "$")
                atoms.append(self._atom(child))
        atoms += self._redirects(redirects)
        if silent:
            self._builder.require(all(isinstance(atom.item, Redirect) for atom in atoms))
        return self._keep(atoms, plain=node.type not in _ASSIGNMENTS, silent=silent)

    def _assignments(self, node: "Node", redirects: "Sequence[Node]") -> Chains:
        """Read assignments that stand alone: they change how later commands run."""
        nodes = [node] if node.type == "variable_assignment" else node.children
        atoms = [self._atom(child) for child in nodes]
        return self._keep([*atoms, *self._redirects(redirects)], plain=False)

    def _redirects(self, nodes: "Sequence[Node]") -> list[Atom]:
        """Read redirections, and what the grammar takes into them: words, and a heredoc's whole line."""
        found: list[Atom] = []
        for node in nodes:
            if node.type == "comment":
                self._comment(node)
            elif node.type == "heredoc_redirect":
                atoms, statements = self._heredocs.read(node)
                found += atoms
                for statement in statements:
                    self._statement(statement)
            elif node.type in REDIRECTS:
                found += redirection(self._builder, node)
            else:
                self._builder.doubt = True
                self._builder.substitutions(node)
        return found

    def _keep(
        self,
        atoms: list[Atom],
        *,
        plain: bool,
        silent: bool = False,
        blanks: re.Pattern[str] = GAP,
    ) -> Chains:
        """Keep a simple command made of `atoms` (`SimpleCommand` says what `plain` and `silent` mean)."""
        self._builder.require(len(atoms) <= MAX_ATOMS)
        joined = touching(self._builder, atoms[:MAX_ATOMS], blanks)
        items = tuple(atom.item for atom in joined)
        found = SimpleCommand(items, self._folders.chains, plain, silent, self._fed)
        self.found.append(found)
        for one in inner_commands(found.words) if plain else ():
            if not isinstance(one, InnerCommand):
                continue
            name = program_name(found.words[one.start])
            for word in found.words[one.start + 1 : one.stop] if name in SETTING else ():
                self._builder.learn(word.bare, Word("", "", (WordPiece("unknown", self._fed, quoted=True),)))
            if name in MOVING:
                new, sure = self._folders.move(found.words[one.start : one.stop])
                self._builder.require(sure)
                return new
        return self._folders.chains


def as_written(raw: str) -> Word:
    """Return a word that the grammar knows: nothing in it expands."""
    return Word(raw, raw, tuple(text(raw, quoted=True)))


def _leads_out(item: Word | Redirect) -> bool:
    """True if a word leads to a place outside, or a text is handed to the command: it may print a path."""
    return re.match(r"[/~]|.*\.\.(?:/|$)|<<", item.bare) is not None


_FEEDING: Final = late_pattern(r"[(|]\s*([^\s()|&;]+)")
"""The programs of a process substitution."""
_STRANGE: Final = late_pattern(r"[\x00-\x08\x0b-\x1f\x7f]|[^\S \t\n]|[\ud800-\udfff]")
"""Control characters and blanks that the grammar and a shell take for different things, and half characters."""
_Read = Callable[["ScriptReading", "Node", Sequence["Node"]], Chains]
_STATEMENTS: "Final[dict[str, _Read]]" = {
    "program": ScriptReading._container,
    "list": ScriptReading._list,
    "pipeline": ScriptReading._apart,
    "negated_command": ScriptReading._negated,
    "redirected_statement": ScriptReading._redirected,
    "command": ScriptReading._command,
    "declaration_command": ScriptReading._command,
    "unset_command": ScriptReading._command,
    "variable_assignment": ScriptReading._assignments,
    "variable_assignments": ScriptReading._assignments,
    "test_command": ScriptReading._test,
    "subshell": ScriptReading._shell,
    "compound_statement": ScriptReading._compound,
    "do_group": ScriptReading._container,
    "if_statement": ScriptReading._container,
    "elif_clause": ScriptReading._container,
    "else_clause": ScriptReading._container,
    "while_statement": ScriptReading._loop,
    "for_statement": ScriptReading._for,
    "c_style_for_statement": ScriptReading._counting,
    "case_statement": ScriptReading._case,
    "case_item": ScriptReading._case,
    "function_definition": ScriptReading._function,
    "comment": ScriptReading._comment,
}
_TAKING: Final = frozenset(
    [
        ScriptReading._negated,
        ScriptReading._list,
        ScriptReading._apart,
        ScriptReading._redirected,
        ScriptReading._command,
        ScriptReading._assignments,
        ScriptReading._test,
    ]
)
"""What reads the redirections behind it itself; behind all else they belong to the whole."""
