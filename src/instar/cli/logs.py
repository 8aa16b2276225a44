"""Where log lines go: logfmt on stderr, or a rotating file (design section 4, "Logs")."""

import logging
import re
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

from instar.cli.text import harmless

LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
}
"""The levels by the names of ``--log-level``."""

FILE_SIZE: Final = 5 * 1024 * 1024
"""Bytes of a log file before it is put away; three old ones are kept."""
_KEPT: Final = 3
_BARE: Final = re.compile(r"[^\s\"=]+")


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
        return " ".join(f"{key}={_value(value)}" for key, value in fields.items())


class LogFile(RotatingFileHandler):
    """The rotating file, made with its folder at the first line, readable by its owner alone.

    A file that cannot be written costs the log, not the run.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=FILE_SIZE, backupCount=_KEPT, encoding="utf-8", delay=True)

    def _open(self) -> Any:
        path = Path(self.baseFilename)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Drop the line."""


def start(path: Path, level: str, *, printed: bool) -> None:
    """Send every log line of `level` and above to stderr (`printed`) or to the file at `path`."""
    handler: logging.Handler = logging.StreamHandler() if printed else LogFile(path)
    handler.setFormatter(Logfmt(tracebacks=not printed or level == "DEBUG"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("instar").setLevel(LEVELS[level])


def _value(text: str) -> str:
    if _BARE.fullmatch(text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    # What a script or a model printed must not command the terminal that the log is read on.
    return f'"{harmless(escaped)}"'
