"""Where a text stands in a file although it was not copied exactly: blanks, indentation, then block anchors.

Each way of looking is tried only if those before it find nothing, and compares whole lines. What it
finds is a place only if it finds nothing else: between two places nothing is guessed.
"""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

ANCHORED: Final = 3
"""Lines that a text needs at least to be found by its first and last one."""
LIKENESS: Final = 0.8
"""How alike (0 to 1) the lines between two anchors must be to what was given."""
CANDIDATES: Final = 50
"""Pairs of anchors that are compared; a text with more of them is not looked for."""
LONGEST: Final = 20_000
"""Characters of a text that is compared by likeness, which costs their product."""


class Place(NamedTuple):
    """Lines `first` to `last` of a file (from 0, both included), and what puts a text into their indentation."""

    first: int
    last: int
    fitted: Callable[[str], str]
    how: str


def places(lines: Sequence[str], wanted: Sequence[str]) -> list[Place]:
    """Return where `wanted` stands in `lines`, both without line ends, by the first way that finds it."""
    if not any(line.strip() for line in wanted):
        return []
    bare = [_bare(line) for line in lines]
    given = [_bare(line) for line in wanted]
    same = [start for start in range(len(bare) - len(given) + 1) if bare[start : start + len(given)] == given]
    found = [_indented(lines, wanted, start) for start in same]
    if same:
        # A place that fits but for an indentation that cannot be carried over is a place too: ambiguous.
        return [place for place in found if place is not None] if None not in found else []
    return _anchored(lines, wanted, bare, given)


def _bare(line: str) -> str:
    return " ".join(line.split())


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _indented(lines: Sequence[str], wanted: Sequence[str], start: int) -> Place | None:
    """The place whose lines differ in blanks only, when the indentation is the same or carries over."""
    end = start + len(wanted)
    fitted = _fit(wanted, lines[start:end])
    return None if fitted is None else Place(start, end - 1, fitted, "blanks")


def _fit(given: Sequence[str], there: Sequence[str]) -> Callable[[str], str] | None:
    """How a text indented as `given` is indented as `there`: by one shift, else indentation by indentation.

    None when one indentation would have to become two, or two would become one.
    """
    pairs = [(_indent(one), _indent(other)) for one, other in zip(given, there, strict=True) if one.strip()]
    old, new = _common([one for one, _ in pairs]), _common([other for _, other in pairs])
    if all(one[len(old) :] == other[len(new) :] for one, other in pairs):
        return lambda text: _each(text, lambda indent: _shifted(indent, old, new))
    known = dict(pairs)
    if any(known[one] != other for one, other in pairs) or len(set(known.values())) < len(known):
        return None
    return lambda text: _each(text, lambda indent: _known(indent, known))


def _anchored(
    lines: Sequence[str], wanted: Sequence[str], bare: Sequence[str], given: Sequence[str]
) -> list[Place]:
    """Places that begin and end with the text's first and last line and are much like it in between."""
    text = "\n".join(given)
    if len(given) < ANCHORED or not (given[0] and given[-1]) or len(text) > LONGEST:
        return []
    slack = max(1, len(given) // 4)
    pairs = [
        (start, end)
        for start, line in enumerate(bare)
        if line == given[0]
        for end in range(start + max(1, len(given) - 1 - slack), min(len(bare), start + len(given) + slack))
        if bare[end] == given[-1]
    ]
    if len(pairs) > CANDIDATES:
        return []
    matcher = SequenceMatcher(None, autojunk=False)
    matcher.set_seq2(text)
    found = []
    for start, end in pairs:
        matcher.set_seq1("\n".join(bare[start : end + 1])[: 2 * LONGEST])
        if matcher.quick_ratio() >= LIKENESS and matcher.ratio() >= LIKENESS:
            ends = [lines[start], lines[end]]
            fitted = _fit([wanted[0], wanted[-1]], ends)
            if fitted is not None:
                found.append(Place(start, end, fitted, "anchors"))
    return found


def _common(indents: Sequence[str]) -> str:
    shortest = min(indents, key=len)
    for length in range(len(shortest), 0, -1):
        if all(indent.startswith(shortest[:length]) for indent in indents):
            return shortest[:length]
    return ""


def _each(text: str, changed: Callable[[str], str]) -> str:
    lines = text.split("\n")
    return "\n".join(
        changed(_indent(line)) + line[len(_indent(line)) :] if line.strip() else line for line in lines
    )


def _shifted(indent: str, old: str, new: str) -> str:
    return new + indent[len(old) :] if indent.startswith(old) else indent


def _known(indent: str, known: dict[str, str]) -> str:
    """The indentation that stands for `indent`; a deeper one goes on from the deepest that is known."""
    nearest = max((one for one in known if indent.startswith(one)), key=len, default=None)
    return indent if nearest is None else known[nearest] + indent[len(nearest) :]
