"""Trailers: what a commit of ours says of where it comes from, as lines at the end of its message.

The law: a message is one subject line and, after a blank line, one paragraph of ``Key: value`` lines. Each value is one
line without control characters, so that no name of a file, of a tool or of a session can add a line.
Only the last paragraph is read, never the first; a paragraph with a line of another form, or with one of our keys twice
that stands once, says nothing. A commit that a person writes by hand may carry trailers too: they are
evidence of what was written, not proof.
"""

import re
import unicodedata
from typing import Final, NamedTuple

import msgspec

LONGEST: Final = 1000
"""Characters of one value."""

SUBJECT: Final = 200
"""Characters of a subject."""

SHOWN: Final = 1 << 16
"""Characters of what a person is shown of a test, a replay or a diff."""

_LINE: Final = re.compile(r"([A-Z][A-Za-z -]{0,40}): (.+)")
_KEYS: Final = {
    "Session": "session",
    "Call": "call",
    "Also running": "beside",
    "Agent": "agent",
    "By": "by",
    "Epoch": "epoch",
    "Gate": "gate",
    "Cost": "cost",
    "Cause": "cause",
    "Expect": "expect",
    "Evidence": "evidence",
    "Rolls-back": "rolls_back",
    "Makes-up": "makes_up",
}
"""Each key with the field that it fills, in the order in which they are written."""

_NUMBERS: Final = {"epoch": re.compile(r"(\d{1,15})"), "cost": re.compile(r"(\d{1,15}) ms")}
_UNSAFE: Final = frozenset(("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"))
"""Unicode categories that a terminal may obey, or that make a text look other than it is."""


class Trailers(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a change comes from; what is not known is empty.

    `session` and `call` are the model's tool call, `beside` other calls that ran meanwhile (``tool call``), `agent`
    the agent's name, `by` who ordered it where that is not plain from the call (``person``, ``instar``). `gate` is
    a line a stage (``test passed 1.2 s``), `cost` the ms that the gate took. `cause` is why, `expect` the
    prediction, `evidence` a line for each thing that it was accepted for, `rolls_back` the commit that it takes
    back. `makes_up`: earlier changes whose commit failed and whose files are all in this one.
    """

    session: str = ""
    call: str = ""
    beside: list[str] = []
    agent: str = ""
    by: str = ""
    epoch: int | None = None
    gate: list[str] = []
    cost: int | None = None
    cause: str = ""
    expect: str = ""
    evidence: list[str] = []
    rolls_back: str = ""
    makes_up: list[str] = []


class Message(NamedTuple):
    """A commit's message: its first line, and its trailers."""

    subject: str
    trailers: Trailers


def write(subject: str, trailers: Trailers) -> str:
    """Return the message of a commit. What is not one clean line is made one; empty values are left out."""
    lines = []
    for key, field in _KEYS.items():
        value = getattr(trailers, field)
        for item in value if isinstance(value, list) else [value]:
            shown = f"{item} ms" if field == "cost" and item is not None else item
            text = "" if shown is None else one_line(str(shown))
            lines += [f"{key}: {text}"] if text else []
    first = one_line(subject, SUBJECT) or "(no subject)"
    return "\n".join([first, "", *lines]) if lines else first


def read(message: str) -> Message:
    """Read a commit's message, of whoever wrote it; see the module's law."""
    paragraphs = re.split(r"\n(?:[ \t]*\n)+", message.strip("\n"))
    first = one_line(paragraphs[0].partition("\n")[0], SUBJECT)
    if len(paragraphs) < 2:
        return Message(first, Trailers())
    return Message(first, _read(paragraphs[-1].split("\n")))


def one_line(text: str, longest: int = LONGEST) -> str:
    """Return `text` as one line that nothing obeys: other space is a space, control and format characters are gone."""
    if not text.isprintable():
        text = "".join(" " if char.isspace() else char for char in text if char.isspace() or _is_safe(char))
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"


def plain(text: str) -> str:
    """Return `text` with its lines and tabs kept and what a terminal would obey gone."""
    return "".join(char for char in text if char in "\n\t" or _is_safe(char))


def escaped(text: str) -> str:
    """Return `text` with what commands a terminal, or is not seen, as an escape; line feeds and tabs stay."""
    return "".join(char if _is_seen(char) else char.encode("unicode_escape").decode() for char in text)


def ends(text: str, longest: int = SHOWN) -> str:
    """Return a text, of one longer than `longest` both ends and how much is left out."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]}\n… ({len(text) - 2 * half} characters are left out)\n{text[-half:]}"


def counted(count: float, noun: str) -> str:
    """Return a number with what it counts: ``1 call``, ``2 calls``, ``0.5 minutes``."""
    shown = f"{count:g}" if isinstance(count, float) else str(count)
    return f"{shown} {noun}" if count == 1 else f"{shown} {noun}s"


def _is_safe(char: str) -> bool:
    return unicodedata.category(char) not in _UNSAFE


def _is_seen(char: str) -> bool:
    return char in "\n\t" or char.isprintable() or unicodedata.category(char) == "Zs"


def _read(lines: list[str]) -> Trailers:
    found: dict[str, list[str]] = {}
    for line in lines:
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            return Trailers()
        field = _KEYS.get(match[1])
        if field is not None:
            found.setdefault(field, []).append(one_line(match[2]))
    values: dict[str, object] = {}
    for field, items in found.items():
        if field in ("beside", "gate", "evidence", "makes_up"):
            values[field] = items
        elif len(items) > 1:
            return Trailers()
        elif field in _NUMBERS:
            number = _NUMBERS[field].fullmatch(items[0])
            values[field] = int(number[1]) if number else None
        else:
            values[field] = items[0]
    return msgspec.convert(values, Trailers)
