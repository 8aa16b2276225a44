"""Makes words and redirections of the nodes of a tree, and tells which substitutions stand in them."""

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from instar.tool.shell.word import (
    ARITHMETIC,
    BRACED,
    CHOOSING,
    CUT,
    DASH,
    DEFAULT,
    DELIMITER,
    GAP,
    HARMLESS,
    HEREDOC,
    INTEGERS,
    MADE,
    NAME,
    NUMBER,
    OPENED,
    PATTERN,
    PLAIN,
    RAW,
    RULING,
    STEERING,
    VARIABLE,
    WORD,
    Atom,
    Redirect,
    Word,
    WordPiece,
    ansi,
    text,
    unescaped,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tree_sitter import Node


EXPANDING: Final = frozenset(
    ["command_substitution", "process_substitution", "simple_expansion", "expansion", "arithmetic_expansion"]
)
"""Nodes that stand for something else when the script runs."""
MAX_DEPTH: Final = 40
"""Words inside one another that are read."""
_Built = tuple[str, tuple[WordPiece, ...]]


class Builder:
    """Builds the words of one script; `doubt` when the tree and a shell may read one differently.

    `names` are the words that the script gives each variable, `evaluated` the variables whose value is
    evaluated as an expression: anything but a number in them could run a command.
    """

    def __init__(self, source: bytes, substituted: "Callable[[Node], str]") -> None:
        self.doubt = False
        self.names: dict[str, list[Word] | None] = {}
        self.evaluated: set[str] = set()
        self._source = source
        self._depth = 0
        self._substituted = substituted

    def text(self, node: "Node") -> str:
        """Return a node's text. In a string the grammar takes blanks before an expansion into it."""
        found = self.between(node.start_byte, node.end_byte)
        return found.lstrip(" \t\n") if node.type in EXPANDING else found

    def between(self, start: int, end: int) -> str:
        """Return the script's text between two places, in bytes."""
        return self._source[start:end].decode()

    def line_end(self, at: int) -> int:
        """Return where the line ends that a place, in bytes, stands in."""
        end = self._source.find(b"\n", at)
        return end if end >= 0 else len(self._source)

    def delimited(self, at: int, delimiter: str, *, tabs: bool) -> int | None:
        """Return where the line starts that ends a heredoc; None if there is none, or a line that begins like it."""
        wanted = delimiter.encode()
        while at < len(self._source):
            line = self._source[at : self.line_end(at)]
            line = line.lstrip(b"\t") if tabs else line
            if line.startswith(wanted):
                return at if line == wanted else None
            at = self.line_end(at) + 1
        return None

    def word(self, node: "Node") -> Word:
        """Return the word that a node is."""
        raw = self.text(node)
        self._depth += 1
        self.require(not raw.startswith("#") and self._depth <= MAX_DEPTH)
        kind = _KINDS.get(node.type, Builder._strange) if self._depth <= MAX_DEPTH else Builder._deep
        bare, pieces = kind(self, node)
        self._depth -= 1
        return Word(raw if set("'\"") & set(raw) else raw.replace("\\\n", ""), bare, pieces)

    def require(self, condition: object) -> None:
        """Set `doubt` unless the condition holds."""
        self.doubt = self.doubt or not condition

    def learn(self, name: str, word: Word | None, *, assigned: bool = False) -> None:
        """Record the word that a variable is given; None if it is not known. `assigned`: by ``name=``."""
        self.require((assigned or name not in RULING) and not STEERING.fullmatch(name))
        self.require(not CHOOSING.fullmatch(name) or (word is not None and word.literal in HARMLESS))
        if name in INTEGERS:
            self.evaluated.add(name)
        known = self.names.setdefault(name, [])
        if word is None or known is None:
            self.names[name] = None
        else:
            known.append(word)

    def substitutions(self, node: "Node") -> None:
        """Read the commands of every substitution below a node."""
        waiting = list(reversed(node.children))
        while waiting:
            child = waiting.pop()
            if child.type in ("command_substitution", "process_substitution"):
                self._substituted(child)
            else:
                waiting += reversed(child.children)

    def arithmetic(self, node: "Node", inner: str) -> None:
        """Look at an expression: each name in it must hold a number, else what it holds is evaluated too."""
        plain = re.sub(r"\$(?:[?#$!]|\{#\w+(?:\[[@*]\])?\})", "0", inner)
        plain = re.sub(r"\$(?:(\w+)|\{(\w+)\})", lambda found: found[1] or found[2], plain)
        self.require(ARITHMETIC.fullmatch(plain))
        for name in re.findall(r"([A-Za-z_]\w*)\s*=(?!=)", plain):
            self.learn(name, Word("0", "0", NUMBER))
        self.evaluated |= set(NAME.findall(plain))
        self.substitutions(node)

    def spans(self, nodes: "Iterable[Node]", start: int, end: int, plain: re.Pattern[str]) -> _Built:
        """Read quoted text from `start` to `end`, in which only `nodes` expand."""
        bare, pieces, at = "", list[WordPiece](), start
        for node in nodes:
            begin = node.end_byte - len(self.text(node).encode())
            if begin < at or node.end_byte > end:
                self.doubt = True
                continue
            bare, pieces = self._plain(bare, pieces, self.between(at, begin), plain)
            word = self.word(node)
            bare += word.bare
            pieces += [piece._replace(quoted=True) for piece in word.pieces]
            at = node.end_byte
        bare, pieces = self._plain(bare, pieces, self.between(at, end), plain)
        return bare, tuple(pieces)

    def _plain(
        self, bare: str, pieces: list[WordPiece], raw: str, plain: re.Pattern[str]
    ) -> tuple[str, list[WordPiece]]:
        self.require(plain.fullmatch(raw))
        value = re.sub(r"\\(?:\n|([\"\\$`]))", lambda found: found[1] or "", raw)
        return bare + value, pieces + text(value, quoted=True)

    def _word(self, node: "Node") -> _Built:
        raw = self.text(node)
        self.require(WORD.fullmatch(raw))
        pieces = tuple(unescaped(raw))
        return "".join(piece.text for piece in pieces), pieces

    def _pattern(self, node: "Node") -> _Built:
        raw = self.text(node)
        self.require(PATTERN.fullmatch(raw))
        return raw, MADE

    def _raw(self, node: "Node") -> _Built:
        raw = self.text(node)
        self.require(RAW.fullmatch(raw))
        return raw[1:-1], tuple(text(raw[1:-1], quoted=True))

    def _ansi(self, node: "Node") -> _Built:
        value = ansi(self.text(node))
        self.require(value is not None)
        return value or "", tuple(text(value or "", quoted=True))

    def _string(self, node: "Node") -> _Built:
        inner = [child for child in node.children if child.type in EXPANDING]
        self.require(self.text(node).startswith('"') and self.text(node).endswith('"'))
        bare, pieces = self.spans(inner, node.start_byte + 1, node.end_byte - 1, PLAIN)
        return bare, pieces or tuple(text("", quoted=True))

    def _simple_expansion(self, node: "Node") -> _Built:
        raw = self.text(node)
        found = VARIABLE.fullmatch(raw)
        self.require(found)
        if found and found["name"]:
            return raw, (WordPiece("name", found["name"]),)
        return raw, NUMBER if raw in ("$?", "$#", "$$", "$!") else MADE

    def _expansion(self, node: "Node") -> _Built:
        raw = self.text(node)
        found = BRACED.fullmatch(raw)
        assigned = re.match(r"\$\{(\w+):?=", raw)
        if assigned:
            self.learn(assigned[1], None)
        if found:
            simple = found["name"] and raw == f"${{{found['name']}}}"
            if simple:
                return raw, (WordPiece("name", found["name"]),)
            kept = CUT.match(raw)
            return raw, (WordPiece("unknown", f"${kept[1]}"),) if kept else MADE
        opened = OPENED.match(raw)
        if opened is None:
            self.doubt = True
            self.substitutions(node)
        else:
            inner = [child for child in node.children if child.type in {*EXPANDING, "string", "raw_string"}]
            # Within double quotes and a heredoc single ones quote nothing: what stands in them expands.
            self.require(not any(child.type == "raw_string" for child in inner))
            start = node.end_byte - len(raw.encode()) + len(opened[0].encode())
            self.spans(inner, start, node.end_byte - 1, DEFAULT)
        return raw, MADE

    def _arithmetic_expansion(self, node: "Node") -> _Built:
        raw = self.text(node)
        self.require(raw.startswith("$((") and raw.endswith("))"))
        self.arithmetic(node, raw[3:-2])
        return raw, NUMBER

    def _substitution(self, node: "Node") -> _Built:
        raw = self.text(node)
        self.require(not raw.startswith("$((") and not (raw.startswith("`") and "\\" in raw))
        return raw, (WordPiece("unknown", self._substituted(node)),)

    def _process(self, node: "Node") -> _Built:
        self._substituted(node)
        return self.text(node), tuple(text("/dev/fd/63", quoted=True))

    def _assignment(self, node: "Node") -> _Built:
        name, *rest = node.children
        at = name.end_byte
        for child in rest:
            self.require(child.start_byte == at)
            at = child.end_byte
        operator = self.text(rest[0]) if rest else ""
        value = self.word(rest[1]) if len(rest) == 2 else Word("", "", ())
        self.require(operator in ("=", "+=") and len(rest) <= 2)
        subscript = re.fullmatch(r"(\w+)(\[\d+\])?", self.text(name))
        if subscript is None:
            self.doubt = True
            self.substitutions(name)
        else:
            whole = operator == "=" and subscript[2] is None and (len(rest) < 2 or rest[1].type != "array")
            self.learn(subscript[1], value if whole else None, assigned=True)
        front = self.text(name) + operator
        return front + value.bare, (*text(front, quoted=True), *value.pieces)

    def _array(self, node: "Node") -> _Built:
        for child in node.children:
            if child.is_named and child.type != "comment":
                self.word(child)
            else:
                self.require(child.type in "()")
        self.require("[" not in self.text(node))
        return self.text(node), MADE

    def _concatenation(self, node: "Node") -> _Built:
        bare, pieces, at = "", tuple[WordPiece, ...](), node.start_byte
        for child in node.children:
            self.require(not self.between(at, child.start_byte).replace("\\\n", ""))
            found = _KINDS.get(child.type, Builder._strange)(self, child)
            bare, pieces, at = bare + found[0], pieces + found[1], child.end_byte
        return bare, pieces

    def _deep(self, node: "Node") -> _Built:
        return self.text(node), MADE

    def _strange(self, node: "Node") -> _Built:
        self.doubt = True
        self.substitutions(node)
        return self.text(node), MADE


_KINDS: "Final[dict[str, Callable[[Builder, Node], _Built]]]" = {
    "word": Builder._word,
    "number": Builder._word,
    "variable_name": Builder._word,
    "test_operator": Builder._word,
    "brace_expression": Builder._word,
    "extglob_pattern": Builder._pattern,
    "regex": Builder._pattern,
    "raw_string": Builder._raw,
    "ansi_c_string": Builder._ansi,
    "string": Builder._string,
    "simple_expansion": Builder._simple_expansion,
    "expansion": Builder._expansion,
    "arithmetic_expansion": Builder._arithmetic_expansion,
    "command_substitution": Builder._substitution,
    "process_substitution": Builder._process,
    "variable_assignment": Builder._assignment,
    "array": Builder._array,
    "concatenation": Builder._concatenation,
}


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
        if DASH.fullmatch(between):
            found.append(Atom(last.end, atom.start, Word("-", "-", tuple(text("-")))))
            between = " "
        builder.require(blanks.fullmatch(between) and last.end <= atom.start)
        apart = between.replace("\\\n", "") != ""
        if apart or isinstance(atom.item, Redirect):
            # Digits that touch an operator name a descriptor; so does {name}.
            builder.require(apart or not re.fullmatch(r"\d+|\{\w+\}", last.item.raw))
            found.append(atom)
        elif isinstance(last.item, Word):
            builder.require(last.item.raw != "$")
            found[-1] = Atom(last.start, atom.end, last.item + atom.item)
        else:
            # What touches a redirection's target belongs to it.
            builder.doubt = True
            found.append(atom)
    return found


def redirection(builder: Builder, node: "Node") -> list[Atom]:
    """Return a redirection to or from a file or a text, and the words that the grammar takes into it."""
    children = list(node.children)
    first = children.pop(0)
    if first.type == "file_descriptor" and children:
        before = builder.between(max(0, first.start_byte - 1), first.start_byte)
        builder.require(first.end_byte == children[0].start_byte and not re.match(r"[^\s;&|()]", before))
        operator = children.pop(0)
    else:
        operator = first
    sign = builder.text(operator)
    known = sign == "<<<" if node.type == "herestring_redirect" else sign in _OPERATORS
    builder.require(known and not operator.is_named)
    words = [Atom(child.start_byte, child.end_byte, builder.word(child)) for child in children]
    joined = touching(builder, words, GAP)
    if sign.endswith("-") or not joined:
        builder.require(sign.endswith("-"))
        raw = builder.between(node.start_byte, operator.end_byte)
        return [Atom(node.start_byte, operator.end_byte, Redirect(sign, None, raw, raw)), *joined]
    target = joined[0]
    front = builder.between(node.start_byte, target.start)
    builder.require(GAP.fullmatch(builder.between(operator.end_byte, target.start)))
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
        builder.require(start.start_point[0] not in self._lines and sign in ("<<", "<<-"))
        self._lines.add(start.start_point[0])
        raw = builder.between(node.start_byte, start.end_byte)
        atoms = [Atom(node.start_byte, start.end_byte, Redirect("<<", None, raw, raw))]
        statements: list[Node] = []
        others = [child for child in children if child.start_byte >= start.end_byte]
        rest = [child for child in others if child.type not in ("heredoc_body", "heredoc_end")]
        for one, other in pairwise([start, *rest]):
            builder.require(not builder.between(one.end_byte, other.start_byte).strip(" \t"))
        for child in rest:
            if child.type in REDIRECTS - {"heredoc_redirect"}:
                atoms += redirection(builder, child)
            elif child.is_named:
                statements.append(child)
            else:
                builder.require(child.type in ("&&", "||", "|", "|&"))
        builder.require(all(child.end_byte <= builder.line_end(start.end_byte) for child in rest))
        self._body(start, [child for child in others if child not in rest], tabs=sign == "<<-")
        return atoms, statements

    def _body(self, start: "Node", body: "list[Node]", *, tabs: bool) -> None:
        """See that the body ends at the first line that a shell takes for its end, and what expands in it."""
        builder = self._builder
        found = DELIMITER.fullmatch(builder.text(start))
        line = builder.line_end(start.end_byte)
        if found is None:
            builder.doubt = True
            return
        delimiter = next(group for group in found.groups() if group is not None)
        end = builder.delimited(line + 1, delimiter, tabs=tabs)
        ended = [child for child in body if child.type == "heredoc_end"]
        builder.require(end is not None and len(ended) == 1)
        if end is None or not ended:
            return
        shift = builder.between(end, ended[0].start_byte)
        builder.require(builder.text(ended[0]).strip() == delimiter and not shift.strip("\t"))
        inner = [part for child in body if child.type == "heredoc_body" for part in child.children]
        if found["plain"]:
            builder.spans([part for part in inner if part.type in EXPANDING], line + 1, end, HEREDOC)
