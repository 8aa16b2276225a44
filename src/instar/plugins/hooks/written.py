"""The files of a project, or of the person's home, that a command rule starts: the model must not rewrite them either.

A command line may do anything, so only what plainly is a program is found: a path in the place of one, the script of
an interpreter, and any word that names a file with a run bit.
"""

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from instar.plugins.hooks.rule import Command, Rule

PROJECT: Final = re.compile(r"\$(?:\{(\w+_PROJECT_DIR)\}|(\w+_PROJECT_DIR)\b)")
"""What scripts of both dialects call the project's folder."""

_HOME: Final = re.compile(r"\$(?:\{HOME\}|HOME\b)|^~(?=/)")
_BREAKS: Final = ";&|()<>\n"
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_RUNS: Final = re.compile(
    r"python[\d.]*|pypy[\d.]*|bash|sh|zsh|dash|ksh|fish|node|deno|bun|bunx|tsx|ts-node|npx|uv|uvx|ruby|perl|php|lua"
    r"|Rscript|source|\.|exec|env|time|timeout|nice|nohup|command"
)
"""Programs that start what stands in a file that they are given."""


def programs(rule: Rule, directory: Path, project: Path, home: Path) -> Iterator[Path]:
    """Yield the files that a command rule starts in `directory`; `project` is what ``$CLAUDE_PROJECT_DIR`` names."""
    settings = rule.settings
    if not isinstance(settings, Command):
        return
    for words in _commands(settings):
        named = [_HOME.sub(str(home), PROJECT.sub(str(project), word)) for word in words]
        for path in _started(named, directory):
            if any(path.is_relative_to(folder) for folder in (directory, project, home)):
                yield path


def _commands(command: Command) -> list[list[str]]:
    """The words of each simple command."""
    if command.args is not None:
        return [[command.command, *command.args]]
    reader = shlex.shlex(command.command, posix=True, punctuation_chars=_BREAKS)
    reader.whitespace, reader.commenters = " \t\r", ""
    found: list[list[str]] = [[]]
    try:
        for word in reader:
            if not word.strip(_BREAKS):
                found.append([])
            elif found[-1] or not _ASSIGNED.match(word):
                found[-1].append(word)
    except ValueError:  # a quotation mark without its other one
        pass
    return found


def _started(words: Sequence[str], directory: Path) -> Iterator[Path]:
    runs = bool(words) and _RUNS.fullmatch(words[0].rpartition("/")[2]) is not None
    for index, word in enumerate(words):
        path = _file(directory, word)
        if path is None:
            continue
        if (index == 0 and "/" in word) or (index > 0 and (runs or os.access(path, os.X_OK))):
            yield path
            runs = False  # what comes after a script is given to it


def _file(directory: Path, word: str) -> Path | None:
    try:
        path = Path(os.path.normpath(directory / word))
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None
