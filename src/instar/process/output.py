"""What a run gives back: how the child ended and what it printed, or why there was none."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec


class Output(msgspec.Struct, frozen=True):
    """How a child ended and what it printed.

    `code` is its exit code (None when a signal ended it), `signal` that signal. `stdout` and `stderr`
    are the first `limit` bytes of each stream; `truncated` says that one of them printed more, `size` how
    many bytes stdout printed in all. `duration` is in seconds by the monotonic clock.
    """

    code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool
    duration: float
    size: int = 0


class ProcessError(Exception):
    """A child that could not be started; the text says which program, and why.

    `closing`: only because the runtime is shutting down, which says nothing of the program.
    """

    def __init__(self, text: str, *, closing: bool = False) -> None:
        super().__init__(text)
        self.closing = closing


class Seen(msgspec.Struct, frozen=True):
    """The file that a command names by a path: whether it is a regular one, may be run, and its first line."""

    file: bool = False
    runs: bool = False
    line: bytes = b""


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
    return told(argv, error.errno or 0, _seen(cwd / name) if "/" in name else Seen())


def told(argv: Sequence[str], number: int, seen: Seen) -> str:
    """Say why `argv` did not start by the error's number and what was `seen` of the file."""
    name = program(argv)
    if number == errno.ENOENT and seen.file:
        return f"cannot start {name}: {_shebang(seen.line)}"
    if number == errno.ENOENT:
        return f"cannot start {name}: there is no such {'file' if '/' in name else 'program on the PATH'}"
    if number == errno.EACCES and seen.file and not seen.runs:
        return f"cannot start {name}: it has no run bit (chmod +x {name})"
    if number == errno.EACCES and seen.line.startswith(b"#!"):
        return f"cannot start {name}: it, or its interpreter {_interpreter(seen.line)}, may not be run here"
    if number == errno.ENOEXEC:
        return f"cannot start {name}: it has no #! line that names an interpreter, and it is no program"
    return f"cannot start {name}: {os.strerror(number)}"


def _seen(path: Path) -> Seen:
    if not path.is_file():
        return Seen()
    try:
        with path.open("rb") as file:
            line = file.readline(256)
    except OSError:
        line = b""
    return Seen(True, os.access(path, os.X_OK), line)


def _shebang(line: bytes) -> str:
    """What is wrong with the first line of a script whose interpreter was not found."""
    if line.endswith(b"\r\n"):
        return "its #! line ends with a carriage return; save the file with LF line endings"
    return f"its interpreter {_interpreter(line) or '(none)'} does not exist"


def _interpreter(line: bytes) -> str:
    return line.removeprefix(b"#!").strip().split(b" ")[0].decode(errors="replace")
