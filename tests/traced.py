"""A program that runs `instar` and writes through which of its files a prompt went: ``traced.py REPORT ARGUMENT...``

From the moment that the prompt is handed to the runtime until its answer is returned, in every thread. The report is
a JSON object: the calls of Python functions by file.
"""

import collections
import inspect
import json
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import instar
from instar.cli import main
from instar.message import WithParts
from instar.runtime.client import InProcessSessions

SOURCE = str(Path(instar.__file__).parent)


class Trace:
    """Counts calls between the first call of the client's `prompt` and its return."""

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()
        self._prompt = InProcessSessions.prompt.__code__
        self._counting = False

    def profile(self, frame: FrameType, event: str, value: Any) -> None:
        """Take a call or a return (`sys.setprofile`)."""
        code = frame.f_code
        if not code.co_filename.startswith(SOURCE):
            return
        if code is self._prompt:
            # The profiler sees a return each time that a coroutine waits: only the last one has an answer.
            self._counting = not isinstance(value, WithParts)
        # The body of a module or class is no function: it is run once, by an import.
        if self._counting and event == "call" and code.co_flags & inspect.CO_OPTIMIZED:
            self.calls[code.co_filename[len(SOURCE) + 1 :]] += 1


if __name__ == "__main__":
    report, *arguments = sys.argv[1:]
    trace = Trace()
    threading.setprofile(trace.profile)
    sys.setprofile(trace.profile)
    try:
        main(arguments)
    finally:
        sys.setprofile(None)
        Path(report).write_text(json.dumps(trace.calls))
