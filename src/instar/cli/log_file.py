"""The log file: it rotates, and its owner alone reads it."""

import logging
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final

LOG_FILE_SIZE: Final = 5 * 1024 * 1024
"""Bytes of a log file before it is put away; three old ones are kept."""


class LogFile(RotatingFileHandler):
    """The rotating file, made with its folder at the first line, readable by its owner alone.

    A file that cannot be written costs the log, not the run.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=LOG_FILE_SIZE, backupCount=3, encoding="utf-8", delay=True)

    def _open(self) -> Any:
        path = Path(self.baseFilename)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Drop the line."""
