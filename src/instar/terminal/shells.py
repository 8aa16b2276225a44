"""The shells of the machine, and which one a person's terminal runs."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_LIST: Final = Path("/etc/shells")
_UNLIKE: Final = frozenset(("fish", "nu"))
"""Shells with a language of their own: the commands that a model writes are not for them (as in opencode)."""
_LOGIN: Final = frozenset(("bash", "dash", "fish", "ksh", "sh", "zsh"))
"""Shells that are told to be a login shell."""


class LoginShell(NamedTuple):
    """A shell. `acceptable`: it understands the commands that a model writes."""

    path: str
    name: str
    acceptable: bool


def shells(variables: Mapping[str, str], listed: Path = _LIST) -> list[LoginShell]:
    """Return the shells that are there, in the order of `listed` (a file as ``/etc/shells``), the person's own last."""
    found = dict.fromkeys((*_lines(listed), *filter(None, [variables.get("SHELL", "")])))
    return [
        LoginShell(path, Path(path).name, Path(path).name not in _UNLIKE)
        for path in found
        if is_program(path)
    ]


def preferred(variables: Mapping[str, str]) -> str:
    """Return the shell of a terminal: the person's own (``SHELL``), else one that is there."""
    names = (variables.get("SHELL") or "bash", "bash", "sh")
    return next(filter(None, (shutil.which(one, path=variables.get("PATH")) for one in names)), "/bin/sh")


def login(command: str) -> list[str]:
    """Return the arguments that make a command a login shell; none where it is no shell."""
    return ["-l"] if Path(command).name in _LOGIN else []


def is_program(path: str) -> bool:
    """Whether an absolute path is that of a program."""
    return path.startswith("/") and Path(path).is_file() and os.access(path, os.X_OK)


def _lines(listed: Path) -> list[str]:
    try:
        lines = listed.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines if line.startswith("/")]
