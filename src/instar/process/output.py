"""What a run gives back: how the child ended and what it printed, or why there was none."""

from pathlib import Path

import msgspec


class Output(msgspec.Struct, frozen=True):
    """How a child ended and what it printed.

    `code` is its exit code (None when a signal ended it), `signal` that signal. `stdout` and `stderr`
    are the first `limit` bytes of each stream; `truncated` says that one of them printed more, `size` how
    many bytes stdout printed in all, `spilled` the file that holds the whole of it. `duration` is in
    seconds by the monotonic clock.
    """

    code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool
    duration: float
    size: int = 0
    spilled: Path | None = None


class ProcessError(Exception):
    """A child that could not be started; the text says which program, and why.

    `closing`: only because the runtime is shutting down, which says nothing of the program.
    """

    def __init__(self, text: str, *, closing: bool = False) -> None:
        super().__init__(text)
        self.closing = closing
