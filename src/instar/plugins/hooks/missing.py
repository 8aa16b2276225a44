"""Whether the program of a rule is there, without running it: a guard that cannot start is found before it is needed.

Only what is certain is said: a shell may do anything else with a command line. A script that an interpreter cannot
open is looked for too, since Python ends with 2 then, and that refuses everything (the reference's section 3, row 1).
"""

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from instar.plugins.hooks.rule import Command, Rule
from instar.plugins.hooks.written import PROJECT

_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")
_UNSURE: Final = re.compile(r"[$`*?\[\](){}<>|&;!#=]")
"""Characters in a word with which a shell may mean something else."""
_INTERPRETERS: Final = re.compile(r"(python[\d.]*|bash|sh|node|ruby|perl)")
_SHELL: Final = re.compile(
    "alias|bg|break|case|cd|command|continue|do|echo|eval|exec|exit|export|false|fg|fi|for|getopts|hash|if|jobs|kill"
    "|let|local|printf|pwd|read|readonly|return|set|shift|source|test|then|time|times|trap|true|type|ulimit|umask"
    "|unset|until|wait|while"
)
"""Words that a shell knows without a program."""


def missing(rule: Rule, directory: Path, project: Path, environment: Mapping[str, str]) -> str:
    """Return why the program of a command rule cannot be started in `directory`, in one sentence; empty: it may well.

    `project` is what ``$CLAUDE_PROJECT_DIR`` and its like name.
    """
    settings = rule.settings
    if not isinstance(settings, Command):
        return ""
    words = _words(settings, project)
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


def _words(command: Command, project: Path) -> list[str]:
    if command.args is not None:
        return [PROJECT.sub(str(project), word) for word in (command.command, *command.args)]
    try:
        words = shlex.split(PROJECT.sub(lambda _found: str(project), command.command))
    except ValueError:
        return []
    while words and _ASSIGNED.match(words[0]):
        words.pop(0)
    return words


def _script(words: list[str], directory: Path) -> str:
    """Why the script cannot be opened that an interpreter is given; empty: it can, or there is none."""
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
