"""Text for people: one line, short, and without characters that control the terminal.

A model, a file or a tool may print escape sequences or reverse the direction of text.
"""

import re
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import click

T = TypeVar("T")

_CONTROL: Final = r"\r\n|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"


def harmless(text: str) -> str:
    """Return `text` without the characters that control a terminal; line feeds and tabs stay."""
    return re.sub(_CONTROL, lambda found: "\n" if found[0] == "\r\n" else "", text)


def echo(text: str | bytes = "", *, nl: bool = True, err: bool = False) -> None:
    """Print a harmless text, or JSON in bytes. In that a terminal gets what would control it as ``\\u…``."""
    if isinstance(text, bytes) and (sys.stderr if err else sys.stdout).isatty():
        text = re.sub(_CONTROL, lambda found: f"\\u{ord(found[0]):04x}", text.decode())
    elif isinstance(text, str):
        text = harmless(text)
    click.echo(text, nl=nl, err=err)


def one_line(text: str) -> str:
    """Return `text` as one harmless line: line breaks and runs of white space become single spaces."""
    return " ".join(harmless(text).split())


def short(text: str, longest: int = 120) -> str:
    """Return the first line of `text`, harmless and at most `longest` characters long."""
    line = next((line for line in harmless(text).splitlines() if line.strip()), "").strip()
    return line if len(line) <= longest else line[: longest - 1] + "…"


def money(dollars: float) -> str:
    """Return a price in US dollars with as many digits as it needs: ``$1.20``, ``$0.0004``."""
    return f"${dollars:.2f}" if dollars >= 1 or dollars == 0 else f"${dollars:.4f}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 call``, ``2,000 calls``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def local_time(milliseconds: int) -> str:
    """Return a Unix time as ``2026-01-31 12:00`` in local time; ``?`` for one that no clock has."""
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))
    except (OverflowError, ValueError, OSError):
        return "?"


def print_json(value: object) -> None:
    """Print a value as indented JSON on stdout."""
    # Start-up time: the help prints no JSON.
    import msgspec

    from instar import wire

    echo(msgspec.json.format(wire.encode(value)))


def print_list(items: Sequence[T], line: Callable[[T], str], *, as_json: bool, otherwise: str) -> None:
    """Print items, a line each or as one JSON list; note `otherwise` if there are none."""
    if as_json:
        print_json(items)
        return
    if not items:
        note(otherwise)
    for item in items:
        echo(line(item))


def note(text: str) -> None:
    """Print ``instar: text`` on stderr, as one harmless line."""
    click.echo(f"instar: {one_line(text)}", err=True)
