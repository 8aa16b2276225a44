"""Markdown that streams: what of it is whole is rendered and printed, and never printed again."""

from typing import Final, NamedTuple

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.segment import Segment
from rich.syntax import Syntax

_PARSER: Final = MarkdownIt().enable("table").disable("inline")
"""Finds blocks; what stands in them is parsed once, when they are rendered."""
_GROWTH: Final = 1.05
"""How much a block that is not whole must grow until it is looked at again: else a long one costs its square."""


class Block(NamedTuple):
    """A block of Markdown; an item of a list is one of its own, so that a list streams item by item."""

    text: str
    is_item: bool = False


class Blocks:
    """Cuts Markdown that grows into blocks."""

    def __init__(self) -> None:
        self.rest = ""
        """What belongs to a block that may still grow."""
        self._seen = 0

    def feed(self, text: str) -> list[Block]:
        """Add text and return the blocks that it made whole."""
        self.rest += text
        if "\n" not in text or len(self.rest) < self._seen * _GROWTH:
            return []
        found = self._cut(keep_last=True)
        self._seen = len(self.rest)
        return found

    def close(self) -> list[Block]:
        """Return the blocks that are left."""
        return self._cut(keep_last=False)

    def _cut(self, *, keep_last: bool) -> list[Block]:
        starts = [
            (token.map[0], token.type == "list_item_open")
            for token in _PARSER.parse(self.rest)
            if token.map and token.nesting >= 0 and _begins(token.type, token.level)
        ]
        lines = self.rest.splitlines(keepends=True)
        ends = [start for start, _ in starts[1:]] + [len(lines)]
        found = [
            Block("".join(lines[start:end]).rstrip(), is_item)
            for (start, is_item), end in zip(starts, ends, strict=True)
        ]
        if keep_last and found:
            found.pop()
        whole = ends[len(found) - 1] if found else 0
        self.rest = "".join(lines[whole:]) if keep_last else ""
        return found


def _begins(kind: str, level: int) -> bool:
    if kind in ("bullet_list_open", "ordered_list_open"):
        return False
    return level == 0 or (level == 1 and kind == "list_item_open")


def rendered(block: Block, *, light: bool) -> Markdown:
    """Return what rich prints for a block. Links show their address: a model's must not hide where it leads."""
    return _Markdown(block.text, code_theme="ansi_light" if light else "ansi_dark", hyperlinks=False)


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _CodeBlock(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        yield Syntax(
            code,
            self.lexer_name,
            theme=self.theme,
            word_wrap=True,
            padding=(0, 2),
            background_color="default",
        )


class _Markdown(Markdown):
    elements = Markdown.elements | {"heading_open": _Heading, "fence": _CodeBlock, "code_block": _CodeBlock}

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # rich puts empty lines around a table, and whoever prints a block puts one before it.
        lines = list(Segment.split_lines(super().__rich_console__(console, options)))  # type: ignore[arg-type]
        written = [at for at, line in enumerate(lines) if any(one.text.strip() for one in line)]
        for line in lines[written[0] : written[-1] + 1] if written else []:
            yield from line
            yield Segment.line()
