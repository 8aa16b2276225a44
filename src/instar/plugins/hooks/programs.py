"""The programs that command rules start: whether they are there, and which files the model must not write.

Nothing is run. A command line may do anything, so only what is certain counts: a path in the place of a program, the
script of an interpreter, and any word that names a file with a run bit. A script that its interpreter cannot open is
reported, since Python ends with 2 then, and that refuses every call.
"""

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import accepted_words, started
from instar.plugins.hooks.rule import CommandRule, HookRule

PROJECT: Final = re.compile(r"\$(?:\{(\w+_PROJECT_DIR)\}|(\w+_PROJECT_DIR)\b)")
"""The variables for the project's folder in both dialects."""

_PATHS: Final = re.compile(
    r"""(?P<begun>"?)\$\{?\w+_PROJECT_DIR\}?(?P<ended>"?)(?P<below>(?:/[\w.@+-]+)+)"""
    r"""|(?<![\w./~$}@+-])(?P<plain>/?[\w.@+-]+(?:/[\w.@+-]+)*)"""
)
"""Paths in the text of a command: below the project's folder by its variable, or plain."""
_HOME: Final = re.compile(r"\$(?:\{HOME\}|HOME\b)|^~(?=/)")
_CD: Final = re.compile(r"""(?:^|[;&|(\n])\s*cd\s+"?((?:\$\{?\w+_PROJECT_DIR\}?)?[\w.@+/-]*)"?\s*[;&|)\n]""")
"""Where a command goes before what follows is looked for from there."""
_BREAKS: Final = ";&|()<>\n"
_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_UNSURE: Final = re.compile(r"[$`*?\[\](){}<>|&;!#=]")
"""Characters of a word that a shell may expand."""
_INTERPRETERS: Final = re.compile(r"(python[\d.]*|bash|sh|node|ruby|perl)")
_SHELL: Final = re.compile(
    "alias|bg|break|case|cd|command|continue|do|echo|eval|exec|exit|export|false|fg|fi|for|getopts|hash|if|jobs|kill"
    "|let|local|printf|pwd|read|readonly|return|set|shift|source|test|then|time|times|trap|true|type|ulimit|umask"
    "|unset|until|wait|while"
)
"""Commands that are built into shells."""


def programs(
    rule: HookRule,
    directory: Path,
    project: Path,
    home: Path,
    served: Callable[[Path], Path] = lambda path: path,
) -> Iterator[Path]:
    """Yield the files that a command rule starts in `directory`; `project` is what ``$CLAUDE_PROJECT_DIR`` names.

    `served` is `PluginInput.served`.
    """
    settings = rule.settings
    if not isinstance(settings, CommandRule):
        return
    for words in _commands(settings):
        named = [_HOME.sub(str(home), PROJECT.sub(str(project), word)) for word in words]
        for path in started(named, directory, served):
            if any(path.is_relative_to(folder) for folder in (directory, project, home)):
                yield path
    # Also what stands in a text that a command gives to another shell.
    for found in _PATHS.finditer(settings.command if settings.args is None else ""):
        path = _path(found, directory, project)
        if ("/" in found[0] or _CD.search(found.string)) and path.is_relative_to(project):
            yield from started(["", str(path)], directory, served)


def accepted_command(
    rule: HookRule, directory: Path, project: Path, served: Callable[[Path], Path]
) -> CommandRule:
    """Return a rule's command with the files of the project that it starts as they were accepted.

    In a command for a shell these are the paths that stand in the place of a program or a script, or have a run bit.
    """
    command = rule.settings
    assert isinstance(command, CommandRule)
    if command.args is not None:
        words = [PROJECT.sub(str(project), word) for word in (command.command, *command.args)]
        first, *rest = accepted_words(words, directory, served)
        return msgspec.structs.replace(command, command=first, args=tuple(rest))
    starting = {*programs(rule, directory, project, project, served)}

    def put(found: re.Match[str]) -> str:
        path = _path(found, directory, project)
        if path not in starting or served(path) == path:
            return found[0]
        opens = found["begun"] and not found["ended"]
        return f'"{served(path)}' if opens else shlex.quote(str(served(path)))

    return msgspec.structs.replace(command, command=_PATHS.sub(put, command.command))


def _path(found: re.Match[str], directory: Path, project: Path) -> Path:
    """The path that a match of `_PATHS` means."""
    here = directory
    for moved in _CD.finditer(found.string, 0, found.start()):
        here /= PROJECT.sub(str(project), moved[1])
    below = found["below"]
    return Path(os.path.normpath(f"{project}{below}" if below else here / found["plain"]))


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
    reader.whitespace, reader.commenters, reader.whitespace_split = " \t\r", "", True
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
