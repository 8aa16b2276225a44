"""Why a program did not start, in words that tell what to do about it."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path


def program(argv: Sequence[str]) -> str:
    """Return what a command is called in messages."""
    return str(argv[0]) if argv else "nothing"


def reason(argv: Sequence[str], cwd: Path, error: Exception) -> str:
    """Say why `argv` did not start, in words that tell what to do about it."""
    name = program(argv)
    if not cwd.is_dir():
        return f"cannot start {name}: its folder {cwd} does not exist"
    if not isinstance(error, OSError):
        return f"cannot start {name!r}: {error}"
    path = cwd / name if "/" in name else None
    if error.errno == errno.ENOENT and path is not None and path.is_file():
        return f"cannot start {name}: {_shebang(path)}"
    if error.errno == errno.ENOENT:
        return f"cannot start {name}: there is no such {'file' if path else 'program on the PATH'}"
    if error.errno == errno.EACCES and path is not None and path.is_file() and not os.access(path, os.X_OK):
        return f"cannot start {name}: it has no run bit (chmod +x {path})"
    if error.errno == errno.ENOEXEC:
        return f"cannot start {name}: it has no #! line that names an interpreter, and it is no program"
    return f"cannot start {name}: {error.strerror or error}"


def _shebang(path: Path) -> str:
    """What is wrong with the first line of a script whose interpreter was not found."""
    with path.open("rb") as file:
        line = file.readline(256)
    if line.endswith(b"\r\n"):
        return "its #! line ends with a carriage return; save the file with LF line endings"
    interpreter = line.removeprefix(b"#!").strip().split(b" ")[0].decode(errors="replace")
    return f"its interpreter {interpreter or '(none)'} does not exist"
