"""Which Python a script's first line names, as the kernel and ``env`` would find it.

Anything but ``#!/path/python3`` and ``#!/usr/bin/env python3`` is left to the kernel.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

Signature = tuple[tuple[str, int, int, int], ...]

_LINE: Final = re.compile(rb"#!\s*(?:(?P<env>/(?:usr/)?bin/env)[ \t]+)?(?P<name>[^\s]*python[0-9.]*)[ \t]*\n")
_STARTS: Final = re.compile(
    r"PATH|HOME|LANG|LANGUAGE|LC_.*|TZ|LD_.*|PYTHON.*|GLIBC_TUNABLES|MALLOC_.*|VIRTUAL_ENV|XDG_.*_HOME"
    r"|(?:PYENV|ASDF|MISE)_.*"
)
"""Variables that can change how an interpreter starts: a warm one gets these, and serves calls with the same."""
_WARM: Final = str(Path(__file__).with_name("zygote.py"))
_CHOICES: Final = (".python-version", ".tool-versions", "mise.toml", ".mise.toml")
_ELF: Final = b"\x7fELF"


class Interpreter(NamedTuple):
    """An interpreter as one script starts it.

    `name` is its ``argv[0]``, `path` its file. `environment` is the part of the call's environment that can
    change its start; `version` the state of the files that decide what it is. `folder` is where it starts:
    a version manager's shim chooses by the folder. `arguments` are what it is started with.
    """

    name: str
    path: str
    environment: tuple[tuple[str, str], ...]
    version: Signature
    folder: str
    arguments: tuple[str, ...] = (_WARM,)


def interpreter(script: Path, cwd: Path, env: Mapping[str, str]) -> Interpreter | None:
    """Return the Python that `script` names, None when the kernel should start it."""
    named = _named(script)
    if named is None:
        return None
    name, by_env = named
    path = _found(name, env) if by_env else name
    starts = tuple(sorted((key, value) for key, value in env.items() if _STARTS.fullmatch(key)))
    folders = env.get("PYTHONPATH", "").split(":")
    # A relative folder depends on where a call stands.
    if path is None or not path.startswith("/") or any(one and not one.startswith("/") for one in folders):
        return None
    shim = _head(path, 4) != _ELF
    return Interpreter(
        name,
        path,
        starts,
        signature([path, *(_choices(cwd, env) if shim else ())]),
        str(cwd) if shim else "/",
    )


def signature(paths: Iterator[str] | list[str]) -> Signature:
    """Return what tells one state of files from another: inode, size and time of change of each."""
    found = []
    for path in paths:
        try:
            state = os.stat(path)
            found.append((path, state.st_ino, state.st_size, state.st_mtime_ns))
        except OSError:
            found.append((path, 0, 0, 0))
    return tuple(found)


def _named(script: Path) -> tuple[str, bool] | None:
    """The interpreter's name in the first line and whether ``env`` looks for it."""
    try:
        state = os.stat(script)
        if not stat.S_ISREG(state.st_mode) or not os.access(script, os.X_OK):
            return None
    except OSError:
        return None
    match = _LINE.match(_head(str(script), 256))
    if match is None:
        return None
    by_env = match["env"] is not None
    name = os.fsdecode(match["name"])
    return (name, by_env) if by_env == ("/" not in name) else None


def _head(path: str, size: int) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(size)
    except OSError:
        return b""


def _found(name: str, env: Mapping[str, str]) -> str | None:
    """The first program of this name on the PATH, as `env` finds it."""
    for folder in env.get("PATH", "").split(":"):
        path = f"{folder}/{name}"
        # A relative folder depends on where one stands: the kernel may find it.
        if not folder.startswith("/"):
            return None
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _choices(cwd: Path, env: Mapping[str, str]) -> list[str]:
    """Files by which version managers choose: in the folder and those above it, and the person's own."""
    root = env.get("PYENV_ROOT") or f"{env.get('HOME', '')}/.pyenv"
    above = [f"{folder}/{name}" for folder in (cwd, *cwd.parents) for name in _CHOICES]
    return [*above, f"{root}/version", f"{env.get('HOME', '')}/.tool-versions"]
