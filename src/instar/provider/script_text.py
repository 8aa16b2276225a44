"""The text of a script (``docs/scripted.md``): headings, and below each its lines ``key: value``."""

import re
import textwrap
from collections.abc import Iterator
from typing import Final

import msgspec

from instar.provider.script import PURPOSES, Ask, Fail, Item, Say, Script, ScriptError, Section
from instar.provider.script_keys import apply, pattern

_HEADING: Final = re.compile(r"==\s*(\w+)\s*(.*?)\s*(?:=*)$")
_HEREDOC: Final = re.compile(r"(?:^|\s)<<([A-Z_]+)$")

_SPACES: Final = re.compile(r"^(\w+):[ \t]+")


class _Line(msgspec.Struct):
    """A key and its whole value, with the number of the line it began on."""

    number: int
    text: str
    quoted: bool = False


def parse(text: str, source: str) -> Script:
    """Read a script. Raises `ScriptError` with ``source:line`` and what is wrong there."""
    script = Script(source)
    defaults = Section(0)
    section = defaults
    for line in _joined(text.removeprefix("\ufeff").splitlines(), source):
        if line.text.startswith("==") and not line.quoted:
            section = _heading(script, line, defaults)
        else:
            apply(section, line.text, f"{source}:{line.number}")
    for turn in (*script.turns, *script.rules, *(one for many in script.purposes.values() for one in many)):
        if not any(isinstance(item, Say | Ask | Fail) for item in turn.items):
            raise ScriptError(f"{source}:{turn.line}: this section says nothing; add a line `text: …`")
    script.turns = _merged(script.turns, source)
    if defaults.items or defaults.usage or defaults.finish:
        raise ScriptError(f"{source}:1: only chunk and pace may stand before the first `== turn`")
    return script


def _joined(lines: list[str], source: str) -> Iterator[_Line]:
    """Yield each line with its indented continuation or its heredoc; comments and blank lines are skipped."""
    at = 0
    while at < len(lines):
        number, line = at + 1, _SPACES.sub(r"\1: ", lines[at].rstrip())
        at += 1
        if not line or line.startswith("#"):
            continue
        mark = _HEREDOC.search(line)
        if mark and not line.startswith("=="):
            end = _end_of(lines, at, mark[1], source, number)
            yield _Line(number, _glued(line[: mark.start()], "\n".join(lines[at:end])), quoted=True)
            at = end + 1
            continue
        end = at
        while end < len(lines) and (lines[end][:2] == "  " or not lines[end].strip()):
            end += 1
        block = textwrap.dedent("\n".join(lines[at:end])).rstrip()
        if line[:1].isspace():
            raise ScriptError(f"{source}:{number}: an indented line must follow a `key:` line")
        yield _Line(number, _glued(line, block), quoted=bool(block))
        at = end


def _glued(line: str, block: str) -> str:
    """The key's line and its block: on one line when the key has no value yet, else below it."""
    if not block:
        return line
    return f"{line.rstrip()} {block}" if line.rstrip().endswith(":") else f"{line.rstrip()}\n{block}"


def _end_of(lines: list[str], at: int, mark: str, source: str, number: int) -> int:
    for index in range(at, len(lines)):
        if lines[index].rstrip() == mark:
            return index
    raise ScriptError(f"{source}:{number}: the text begun with <<{mark} has no line `{mark}` that ends it")


def _heading(script: Script, line: _Line, defaults: Section) -> Section:
    where = f"{script.source}:{line.number}"
    found = _HEADING.match(line.text)
    kind, rest = (found[1], found[2]) if found else ("", "")
    section = Section(line.number, chunk=defaults.chunk, pace=defaults.pace)
    if kind == "turn" and not rest:
        script.turns.append(section)
    elif kind in PURPOSES and not rest:
        script.purposes.setdefault(kind, []).append(section)
    elif kind == "when":
        quoted = re.match(r'"(.*)"(\s+once)?$', rest)
        if not quoted:
            raise ScriptError(
                f'{where}: expected `== when "regular expression"`, perhaps with `once` after it'
            )
        section.when, section.once = pattern(quoted[1], where), bool(quoted[2])
        script.rules.append(section)
    else:
        raise ScriptError(
            f'{where}: {line.text!r} is no heading; there are `== turn`, `== when "…"`, '
            + ", ".join(f"`== {name}`" for name in PURPOSES)
        )
    return section


def _merged(turns: list[Section], source: str) -> list[Section]:
    """Put what only fails before the turn that follows it: failing is no answer and takes no place."""
    found: list[Section] = []
    failing: list[Item] = []
    for turn in turns:
        if turn.answers:
            turn.items = failing + turn.items
            found.append(turn)
            failing = []
            continue
        endless = next((item for item in turn.items if isinstance(item, Fail) and item.times is None), None)
        if endless is not None and turn is not turns[-1]:
            raise ScriptError(
                f"{source}:{endless.line}: this error has no times=N: the turns below are never reached"
            )
        failing += turn.items
    if failing:
        found.append(Section(turns[-1].line, failing))
    return found
