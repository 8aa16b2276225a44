"""What every command gets: its context, log options and the log, one-line errors with exit codes, a runtime."""

import asyncio
import errno
import functools
import json
import logging
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from instar.cli import collector, complete, loop, streams
from instar.cli.text import harmless, note

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from instar.client import AsyncClient
    from instar.git.project import Project
    from instar.plugin import Means
    from instar.runtime import Options, Runtime
    from instar.server.own_server import OwnServer
    from instar.settings.load import Settings
    from instar.settings.paths import Paths
    from instar.settings.trust import Trust

GONE: Final = 141
"""The exit code when nobody reads stdout any more: 128 and SIGPIPE."""

_ENDED: Final = 128 + signal.SIGTERM

LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
}
"""The levels by the names of ``--log-level``."""

log = logging.getLogger("instar.cli")


class Failure(click.ClickException):
    """A command that cannot go on; shown as ``instar: text`` on stderr, on one line. 1 is a failed run, 2 bad usage."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class Context:
    """The object of every click command (``ctx.obj``): the person's environment, and what is found from it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    @cached_property
    def directory(self) -> Path:
        """The working directory, as the system has it, not ``$PWD``. Raises `click.UsageError` when it is gone."""
        try:
            return Path.cwd()
        except FileNotFoundError:
            raise click.UsageError("the working directory does not exist any more; cd somewhere") from None

    @cached_property
    def paths(self) -> "Paths":
        """Where instar keeps things."""
        # Start-up time, here and below: the help needs none of it.
        from instar.settings.paths import Paths

        return Paths.from_environment(self.environment)

    @cached_property
    def trust(self) -> "Trust":
        """The person's list of trusted folders."""
        if isinstance(self.paths.database, str):
            from instar.store.trust import trust_at

            return trust_at(self.paths, self.environment)
        from instar.settings.trust import Trust

        return Trust(self.paths, self.environment)

    async def project(self, folder: Path) -> "Project":
        """Return the project that a folder belongs to."""
        from instar.git.project import discover
        from instar.process import Processes

        processes = Processes()
        try:
            return await discover(folder, processes)
        finally:
            await processes.close()

    async def settings(self, folder: Path) -> "tuple[Project, Settings]":
        """Return a folder's project, and its settings. Raises `DocumentError` for those with a mistake."""
        from instar.settings.load import read_settings

        project = await self.project(folder)
        return project, read_settings(folder, project, self.paths, self.environment, {}, self.trust)

    def plugin_options(self, name: str) -> dict[str, Any]:
        """Return the options that the working directory's configuration gives to the built-in plugin `name`.

        Empty when its ``plugin`` list has no such entry. Prints on stderr what was not read because the folder is
        not trusted. Raises `DocumentError` for a configuration with a mistake.
        """
        from instar.settings.builtin_plugins import flagship_name

        _, read = asyncio.run(self.settings(self.directory))
        tell_untrusted(read.dropped)
        named = [one.options for one in read.plugins if flagship_name(one.target) == name]
        return named[-1] if named else {}

    def means(self, name: str) -> "AbstractAsyncContextManager[Means]":
        """Open what a command of the built-in plugin `name` works with in the working directory."""
        from instar.cli.means import means

        return means(name, self.directory, self.paths, self.environment, self.trust)

    def instance(
        self, flags: Mapping[str, Any], *, automatic: bool = False
    ) -> "AbstractAsyncContextManager[Runtime]":
        """Open a runtime with `flags` in the working directory; `automatic` as in `PluginInput`."""
        from instar.runtime import Options

        return opened_runtime(Options(self.directory, self.environment, dict(flags)), automatic=automatic)

    def runtime(self, folder: str | None) -> "AbstractAsyncContextManager[Runtime]":
        """Open a runtime in the folder that ``--dir`` names, else in the working directory."""
        from instar.runtime import Options

        return opened_runtime(Options(self.folder(folder), self.environment))

    @property
    def complete(self) -> Any:
        """What a shell completes, `instar.cli.complete`: for the commands of plugins."""
        return complete

    def folder(self, given: str | None) -> Path:
        """Return the folder that ``--dir`` names, else the working directory. Raises `click.UsageError`."""
        path = self.path(given) if given else self.directory
        if not path.is_dir():
            raise click.UsageError(f"there is no folder {path}")
        return in_utf8(path.resolve())

    def path(self, given: str) -> Path:
        """Return a path of the command line as an absolute one."""
        return self.directory / Path(given).expanduser()


def folder_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command ``--dir PATH``, as its parameter `folder`."""
    return click.option("--dir", "folder", metavar="PATH", shell_complete=complete.folders, help=help)


def model_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command ``--model PROVIDER/MODEL``."""
    return click.option("-m", "--model", metavar="PROVIDER/MODEL", shell_complete=complete.models, help=help)


def workspace_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--workspace PATH`` and ``--safe``, which evolve hears of."""
    command = click.option(
        "--safe", is_flag=True, help="Start with none of the agent's changes to the evolve workspace."
    )(command)
    return click.option(
        "--workspace",
        metavar="PATH",
        shell_complete=complete.folders,
        help="The evolve workspace; switches evolve on.",
    )(command)


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def tell_untrusted(dropped: Sequence[str]) -> None:
    """Print on stderr, as one line, what was skipped because nobody accepted it; nothing for nothing."""
    if dropped:
        strange = any("an untrusted project" in sentence for sentence in dropped)
        hint = "; if you know where it comes from: instar trust ." if strange else ""
        note(f"{'not trusted, so skipped: ' if strange else ''}{'; '.join(dropped)}{hint}")


def in_utf8(path: Path) -> Path:
    """Return the path. Raises `click.UsageError` if its name is not UTF-8: JSON and SQLite cannot hold it."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="replace")
        raise click.UsageError(f"{shown} has a name that is not UTF-8: rename it") from None
    return path


def door(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--print-logs`` and ``--log-level``, and make what it raises one line.

    The function gets the `Context` first; a coroutine function is run to its end.
    """

    @click.option(
        "--print-logs", is_flag=True, help="Print log lines on stderr instead of into the log file."
    )
    @click.option(
        "--log-level",
        type=click.Choice(list(LEVELS), case_sensitive=False),
        default="INFO",
        show_default=True,
        help="Log lines of this level and above; DEBUG also shows where an unexpected error comes from.",
    )
    @click.pass_obj
    @functools.wraps(function)
    def opened(context: Context, /, *args: Any, **options: Any) -> Any:
        print_logs, log_level = options.pop("print_logs"), options.pop("log_level")
        start_log(context.paths.log_file, log_level, printed=print_logs)
        with one_line_errors(traceback=log_level == "DEBUG"):
            result = function(context, *args, **options)
            code = loop.run(result) if isinstance(result, Coroutine) else result
            streams.finish()
            return code

    return opened


def equip(command: click.Command) -> click.Command:
    """Apply `door` to a plugin's command, which cannot import it, and to each command in it; once."""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            equip(inner)
    elif command.callback is not None and all(one.name != "print_logs" for one in command.params):
        plain = command.callback
        opened = door(lambda _context, /, *args, **options: plain(*args, **options))
        command.params += reversed(opened.__click_params__)  # type: ignore[attr-defined]
        command.callback = opened
    return command


def in_process(runtime: "Runtime") -> "AsyncClient":
    """Return a client of a runtime's HTTP interface, for its plugins (`PluginInput.http`)."""
    # Start-up time: Starlette and the client are for plugins that ask.
    from instar.server.within import client_of

    return client_of(runtime)


def _own_server(runtime: "Runtime") -> "OwnServer":
    # Start-up time: a server of its own is for plugins that ask.
    from instar.server.own_server import OwnServer

    return OwnServer(runtime)


@asynccontextmanager
async def opened_runtime(options: "Options", *, automatic: bool = False) -> "AsyncIterator[Runtime]":
    """Open a runtime, say on stderr what it skipped, and close it at the end. `automatic` as in `Options`."""
    # Start-up time: only a command that needs a runtime pays for its rooms.
    from msgspec.structs import replace

    from instar.process import mark_own
    from instar.runtime import Runtime

    mark_own()
    asked = replace(options, automatic=automatic, http=in_process, serve=_own_server, confirm=_confirmed)
    async with await Runtime.open(asked) as runtime:
        collector.started()
        tell_untrusted(runtime.untrusted)
        for notice in runtime.notices:
            note(notice)
        yield runtime


async def _confirmed(step: str) -> bool:
    """Ask the person at the terminal whether to go on; where nobody is there, say what is done."""
    # Start-up time: most runs ask nothing.
    from instar.cli import person

    if person.is_there():
        return await person.yes(f"{step}?")
    note(step)
    return True


def drop_output() -> None:
    """Discard what is still to be printed: else the interpreter complains when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


# -- errors ------------------------------------------------------------------------------------------


@contextmanager
def one_line_errors(*, traceback: bool) -> Iterator[None]:
    """Turn what a command raises into a `Failure`; with `traceback` raise it as it is.

    When the reader of stdout has gone, or SIGTERM came, end without a word, with the exit code of the signal.
    """
    try:
        yield
    except BrokenPipeError:
        drop_output()
        raise click.exceptions.Exit(GONE) from None
    except asyncio.CancelledError:
        raise click.exceptions.Exit(_ENDED) from None
    except (click.ClickException, click.Abort, click.exceptions.Exit):
        raise
    except Exception as error:
        if traceback:
            raise
        raise failure(error) from error


def failure(error: Exception) -> Failure:
    """Return the line and the exit code for an exception: 2 for bad usage or settings, 1 for a failed run."""
    mistakes, failures = _known()
    if isinstance(error, failures) or isinstance(error.__cause__, failures):
        return Failure(str(error), 1)
    if isinstance(error, mistakes):
        return Failure(str(error), 2)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        todo = _TODO.get(error.errno, "") if error.errno else ""
        return Failure(f"{where}{error.strerror}{todo}", 1)
    if isinstance(error, MemoryError) or "can't start new thread" in str(error):
        return Failure("the system gives no more memory or threads: see `ulimit -v` and `ulimit -u`", 1)
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
    errno.EMFILE: "; allow more at a time: ulimit -n 1024",
}
"""What to do about an error of the system."""


def _known() -> tuple[tuple[type[Exception], ...], tuple[type[Exception], ...]]:
    """The exceptions that are a person's mistake, and those that are a run's failure."""
    # Start-up time: these rooms are needed only once something has failed.
    from instar.definitions.agent import UnknownAgent
    from instar.git import GitError
    from instar.plugin import Invalid, NotFound
    from instar.plugin.locate import LoadError
    from instar.process import ProcessError
    from instar.provider.resolve import NoModel, UnknownModel
    from instar.settings.config import ConfigError
    from instar.settings.trust import TrustError
    from instar.store import StoreError
    from instar.wire.document import DocumentError

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


# -- the log -----------------------------------------------------------------------------------------


class Logfmt(logging.Formatter):
    """``time=… level=… logger=… msg="…"`` on one line; a traceback is one quoted value."""

    def __init__(self, *, tracebacks: bool) -> None:
        super().__init__()
        self._tracebacks = tracebacks

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields = {
            "time": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": str(record.process),
            "msg": record.getMessage(),
        }
        if (request := getattr(record, "request", None)) is not None:
            fields["request"] = request
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
            if self._tracebacks:
                fields["trace"] = self.formatException(record.exc_info)
        return " ".join(f"{key}={_logfmt_value(value)}" for key, value in fields.items())


class LateLogFile(logging.Handler):
    """The log file at `path`, made with the first line."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    @cached_property
    def _file(self) -> logging.Handler:
        # Start-up time: most commands log nothing.
        from instar.cli.log_file import LogFile

        file = LogFile(self._path)
        file.setFormatter(self.formatter)
        return file

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        self._file.emit(record)

    def close(self) -> None:
        """Close the file, if there is one."""
        if "_file" in vars(self):
            self._file.close()
        super().close()


class WaitingLines(logging.Handler):
    """Shows a person what is waited for: by `show` while a view has rows on the screen."""

    show: Callable[[str], None] = staticmethod(note)

    def emit(self, record: logging.LogRecord) -> None:
        """Show a line; the watch over the event loop calls it from a thread of its own."""
        WaitingLines.show(record.getMessage())


def start_log(path: Path, level: str, *, printed: bool) -> None:
    """Send every log line of `level` and above to stderr (`printed`) or to the file at `path`."""
    handler: logging.Handler = logging.StreamHandler() if printed else LateLogFile(path)
    handler.setFormatter(Logfmt(tracebacks=not printed or level == "DEBUG"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("instar").setLevel(LEVELS[level])
    logging.getLogger("instar.waiting").handlers = [] if printed else [WaitingLines()]


def _logfmt_value(text: str) -> str:
    if re.fullmatch(r"[^\s\"=]+", text):
        return text
    # What a script or a model printed must not control the terminal that shows the log.
    return harmless(json.dumps(text, ensure_ascii=False))
