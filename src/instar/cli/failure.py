"""What went wrong, as one line and an exit code: 2 for bad usage or settings, 1 for a failed run."""

import errno
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import click

from instar.cli.text import one_line

log = logging.getLogger("instar.cli")


class Failure(click.ClickException):
    """A command that cannot go on; shown as ``instar: text`` on stderr, on one line."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code

    def show(self, file: Any = None) -> None:
        """Print the line on stderr."""
        click.echo(f"instar: {one_line(self.message)}", err=True)


def drop_output() -> None:
    """Let what is still to be printed go nowhere: else the interpreter complains when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@contextmanager
def one_line_errors(*, traceback: bool) -> Iterator[None]:
    """Turn what a command raises into a `Failure`; with `traceback` it is passed on as it is."""
    try:
        yield
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except Exception as error:
        if traceback:
            raise
        raise failure(error) from error


def failure(error: Exception) -> Failure:
    """Return the line and the exit code for an exception."""
    mistakes, failures = _known()
    if isinstance(error, failures) or isinstance(error.__cause__, failures):
        return Failure(str(error), 1)
    if isinstance(error, mistakes):
        return Failure(str(error), 2)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        todo = _TODO.get(error.errno, "") if error.errno else ""
        return Failure(f"{where}{error.strerror}{todo}", 1)
    log.error("unexpected error", exc_info=error)
    text = f"{type(error).__name__}: {error}"
    return Failure(f"unexpected error: {text} (--log-level DEBUG shows where)", 1)


_ANOTHER: Final = "name another folder (that of instar's own data: INSTAR_DATA=FOLDER)"
_IN_THE_WAY: Final = f"a file stands where a folder is needed: move it away, or {_ANOTHER}"
_TODO: Final = {
    errno.EEXIST: f"; {_IN_THE_WAY}",
    errno.ENOTDIR: f"; {_IN_THE_WAY}",
    errno.EACCES: f"; give yourself the right to it, or {_ANOTHER}",
    errno.EROFS: f"; {_ANOTHER}",
    errno.ENOSPC: "; free some space and try again",
}
"""What to do about an error of the system."""


def _known() -> tuple[tuple[type[Exception], ...], tuple[type[Exception], ...]]:
    """The exceptions that are a person's mistake, and those that are a run's failure."""
    # Start-up time: these rooms are needed only once something has failed.
    from instar.agent import UnknownAgent
    from instar.config import ConfigError
    from instar.document import DocumentError
    from instar.git import GitError
    from instar.plugin import Invalid, NotFound
    from instar.plugin.locate import LoadError
    from instar.process import ProcessError
    from instar.provider.assemble import UnknownModel
    from instar.provider.resolve import NoModel
    from instar.store import StoreError
    from instar.trust import TrustError

    mistakes = (
        ConfigError,
        DocumentError,
        Invalid,
        NotFound,
        TrustError,
        UnknownAgent,
        UnknownModel,
        ValueError,
    )
    return mistakes, (NoModel, LoadError, StoreError, GitError, ProcessError)
