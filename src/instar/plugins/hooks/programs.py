"""The programs that command rules start: whether they are there, and which files the model must not write.

Nothing is run. A command line may do anything, so only what is certain counts: a path in the place of a program, the
script of an interpreter, and any word that names a file with a run bit. A script that its interpreter cannot open is
reported, since Python ends with 2 then, and that refuses every call.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from instar.plugins.hooks.rule import CommandRule, HookRule

PROJECT: Final = re.compile(r"\$(?:\{(\w+_PROJECT_DIR)\}|(\w+_PROJECT_DIR)\b)")
"""The variables for the project's folder in both dialects."""

_HOME: Final = re.compile(r"\$(?:\{HOME\}|HOME\b)|^~(?=/)")
_BREAKS: Final = ";&|()<>\n"
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_RUNS: Final = re.compile(
    r"python[\d.]*|pypy[\d.]*|bash|sh|zsh|dash|ksh|fish|node|deno|bun|bunx|tsx|ts-node|npx|uv|uvx|ruby|perl|php|lua"
    r"|Rscript|source|\.|exec|env|time|timeout|nice|nohup|command"
)
"""Programs that run a file that they are given."""
_UNSURE: Final = re.compile(r"[$`*?\[\](){}<>|&;!#=]")
"""Characters of a word that a shell may expand."""
_INTERPRETERS: Final = re.compile(r"(python[\d.]*|bash|sh|node|ruby|perl)")
_SHELL: Final = re.compile(
    "alias|bg|break|case|cd|command|continue|do|echo|eval|exec|exit|export|false|fg|fi|for|getopts|hash|if|jobs|kill"
    "|let|local|printf|pwd|read|readonly|return|set|shift|source|test|then|time|times|trap|true|type|ulimit|umask"
    "|unset|until|wait|while"
)
"""Commands that are built into shells."""


def programs(rule: HookRule, directory: Path, project: Path, home: Path) -> Iterator[Path]:
    """Yield the files that a command rule starts in `directory`; `project` is what ``$CLAUDE_PROJECT_DIR`` names."""
    settings = rule.settings
    if not isinstance(settings, CommandRule):
        return
    for words in _commands(settings):
        named = [_HOME.sub(str(home), PROJECT.sub(str(project), word)) for word in words]
        for path in _started(named, directory):
            if any(path.is_relative_to(folder) for folder in (directory, project, home)):
                yield path


def _commands(command: CommandRule) -> list[list[str]]:
    """Return the words of each simple command."""
    if command.args is not None:
        return [[command.command, *command.args]]
    return simple_commands(command.command, _BREAKS)[0]


def simple_commands(text: str, breaks: str) -> tuple[list[list[str]], bool]:
    """Return the words of each simple command of a shell command, and whether a quotation mark is open at its end.

    `breaks` are the characters that end a word and a command.
    """
    reader = shlex.shlex(text, posix=True, punctuation_chars=breaks)
    reader.whitespace, reader.commenters = " \t\r", ""
    commands: list[list[str]] = [[]]
    try:
        for word in reader:
            if not word.strip(breaks):
                commands.append([])
            elif commands[-1] or not _ASSIGNED.match(word):
                commands[-1].append(word)
    except ValueError:
        return commands, True
    return commands, False


def _started(words: Sequence[str], directory: Path) -> Iterator[Path]:
    runs = bool(words) and _RUNS.fullmatch(words[0].rpartition("/")[2]) is not None
    for index, word in enumerate(words):
        path = _started_file(directory, word)
        if path is None:
            continue
        if (index == 0 and "/" in word) or (index > 0 and (runs or os.access(path, os.X_OK))):
            yield path
            runs = False  # what comes after a script is given to it


def _started_file(directory: Path, word: str) -> Path | None:
    try:
        path = Path(os.path.normpath(directory / word))
        return path if path.is_file() else None
    except (OSError, ValueError):
        return None


def missing(rule: HookRule, directory: Path, project: Path, environment: Mapping[str, str]) -> str:
    """Return why the program of a command rule cannot be started in `directory`, "" where nothing is known against it.

    `project` is what ``$CLAUDE_PROJECT_DIR`` and its like name.
    """
    settings = rule.settings
    if not isinstance(settings, CommandRule):
        return ""
    words = [PROJECT.sub(str(project), word) for word in _commands(settings)[0]]
    if not words or (settings.args is None and _UNSURE.search(words[0])):
        return ""
    name = words[0]
    if "/" in name:
        why = _file(directory / Path(name).expanduser(), runs=True)
    elif (settings.args is not None or not _SHELL.fullmatch(name)) and not shutil.which(
        name, path=environment.get("PATH")
    ):
        why = f"there is no program {name} on the PATH"
    else:
        why = ""
    return why or _script(words, directory)


def _script(words: list[str], directory: Path) -> str:
    """Return why the script of an interpreter cannot be opened, "" where it can or there is none."""
    if not _INTERPRETERS.fullmatch(Path(words[0]).name) or len(words) < 2:
        return ""
    script = words[1]
    if script.startswith("-") or _UNSURE.search(script):
        return ""
    return _file(directory / Path(script).expanduser(), runs=False)


def _file(path: Path, *, runs: bool) -> str:
    path = Path(os.path.normpath(path))
    if not path.exists():
        return f"there is no file {path}"
    if path.is_dir():
        return f"{path} is a folder"
    if runs and not os.access(path, os.X_OK):
        return f"{path} has no run bit (chmod +x {path})"
    return ""
