"""``instar docs``: the pages of the documentation, as they came with this version."""

import os
import re
import sys
from pathlib import Path
from typing import Final

import click
import msgspec

import instar
from instar.cli import complete
from instar.cli.door import Context, Failure, door, json_option
from instar.cli.text import echo, print_json
from instar.wire.pattern import late_pattern

_SECTIONS: Final = ("tutorials", "guides", "concepts", "reference")
"""The folders of the documentation, in the order in which a reader needs them."""
_LINK: Final = late_pattern(r"(?<!!)\[([^]]*)\]\((?!\w+:)([^)#]*)(?:#[^)]*)?\)")
"""A link within the documentation: its words, and its file without the heading."""


class _Page(msgspec.Struct, frozen=True):
    """A page: `topic` is what `instar docs` takes, `section` one of `_SECTIONS` or empty, `path` its file."""

    topic: str
    section: str
    title: str
    path: str


def _folder() -> Path:
    """Return where the pages are: in the package where a wheel was installed, else in the checkout."""
    package = Path(instar.__file__).parent
    inside = package / "docs"
    return inside if inside.is_dir() else package.parents[1] / "docs"


def _pages() -> list[_Page]:
    """Return every page, section by section, without the index pages of the sections."""
    found = [_Page(path.stem, "", _title(path), str(path)) for path in sorted(_folder().glob("*.md"))]
    for section in _SECTIONS:
        root = _folder() / section
        for path in sorted(root.rglob("*.md")):
            if path != root / "index.md":
                found.append(_Page(path.stem, section, _title(path), str(path)))
    return found


async def _topics(ctx: click.Context) -> complete.Named:
    return [(page.topic, page.title) for page in _pages()]


@click.command()
@click.argument("topic", required=False, shell_complete=complete.words_of(_topics))
@json_option
@door
def command(context: Context, topic: str | None, as_json: bool) -> None:
    """Print the page TOPIC of the documentation, or list the topics.

    On a terminal it is formatted; in a pipe it is the Markdown of the page.
    """
    known = _pages()
    if topic is None:
        _list(known, as_json=as_json)
        return
    page = next((one for one in known if one.topic == topic.removesuffix(".md")), None)
    if page is None:
        raise Failure(_unknown(topic, [one.topic for one in known]), 2)
    text = Path(page.path).read_text("utf-8")
    if as_json:
        print_json({**msgspec.structs.asdict(page), "text": text})
    elif sys.stdout.isatty():
        _show(page, text, known)
    else:
        echo(text, nl=False)


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        return file.readline().removeprefix("# ").strip()


def _list(known: list[_Page], *, as_json: bool) -> None:
    if as_json:
        print_json(known)
        return
    width = max(len(page.topic) for page in known)
    section = ""
    for page in known:
        if page.section != section:
            section = page.section
            echo(f"\n{section}")
        echo(f"  {page.topic:<{width}}  {page.title}")


def _unknown(topic: str, topics: list[str]) -> str:
    # Start-up time: only a wrong name is compared.
    from difflib import get_close_matches

    near = get_close_matches(topic, topics, n=1)
    return (
        f"there is no page {topic!r}{f'; did you mean {near[0]}?' if near else ''} (instar docs lists them)"
    )


def _show(page: _Page, text: str, known: list[_Page]) -> None:
    """Print a page on the terminal; a link to another page becomes the command that prints that page."""
    # Start-up time: a pipe needs none of it.
    from rich.console import Console

    from instar.cli.markdown import Block, rendered
    from instar.cli.terminal import THEME, has_light_background

    topics = {one.path: one.topic for one in known}

    def as_command(link: re.Match[str]) -> str:
        words, target = link[1], os.path.normpath(Path(page.path).parent / link[2])
        if target not in topics:
            return words
        order = f"`instar docs {topics[target]}`"
        return order if words == Path(target).name else f"{words} ({order})"

    block = Block(_LINK.sub(as_command, text))
    Console(highlight=False, theme=THEME).print(rendered(block, light=has_light_background()))
