"""Shows a Python script the moment at which a recorded call was made. Runs in the script's own interpreter.

`clock.changes` writes this file, with the moment in it, as ``sitecustomize.py`` into a folder of the copy that stands
first on ``PYTHONPATH``. It imports the standard library alone, and is inert under any other name. Time moves on in
whole seconds, so that a run of less than one always sees the same time. What it does not cover stands in `clock`.
"""

from __future__ import annotations

import gc
import sys
import time

try:
    import _datetime  # type: ignore[import-not-found]
except ImportError:
    # Not every implementation of Python has it; where it is missing, `datetime` reads `time.time`.
    _datetime = None

TYPE_CHECKING = False
if TYPE_CHECKING:  # The module `typing` takes as long to load as all of this.
    from collections.abc import Callable
    from typing import Any

MOMENT = 0
"""Nanoseconds since the epoch; the copy that a script loads holds the record's."""
_SECOND = 1_000_000_000
_WALL = (time.CLOCK_REALTIME, 5)  # 5 is CLOCK_REALTIME_COARSE


def _start() -> None:
    begun, monotonic_ns, real = time.monotonic_ns(), time.monotonic_ns, dict(vars(time))

    def time_ns() -> int:
        return MOMENT + (monotonic_ns() - begun) // _SECOND * _SECOND

    def now() -> float:
        return time_ns() / _SECOND

    def dated(name: str) -> Callable[..., Any]:
        return lambda seconds=None: real[name](now() if seconds is None else seconds)

    def formed(name: str) -> Callable[..., Any]:
        # The struct is what they take last, and the present where they are given none.
        count = name == "strftime"
        return lambda *given: real[name](*given, *(() if len(given) > count else (time.localtime(),)))

    def clock(name: str, present: Callable[[], Any]) -> Callable[..., Any]:
        return lambda which: present() if which in _WALL else real[name](which)

    functions = {name: dated(name) for name in ("localtime", "gmtime", "ctime")}
    functions |= {name: formed(name) for name in ("strftime", "asctime")}
    functions |= {"time": now, "time_ns": time_ns, "clock_gettime": clock("clock_gettime", now)}
    functions["clock_gettime_ns"] = clock("clock_gettime_ns", time_ns)
    for name, function in functions.items():
        function.__name__ = function.__qualname__ = name
        function.__module__ = "time"
        setattr(time, name, function)
    _patch_datetime(time_ns)


def _patch_datetime(time_ns: Callable[[], int]) -> None:
    """Give the class `datetime` itself, rather than a class beside it, another `now`.

    ``isinstance``, ``repr``, pickling and subclasses stay as they are. `date.today` and `datetime.today` read
    `time.time`. The module behind `datetime` is loaded, not `datetime`, which most scripts never need.
    """
    if _datetime is None:
        return
    day, step = _datetime.datetime, _datetime.timedelta

    def now(cls: Any, tz: Any = None) -> Any:
        seconds, left = divmod(time_ns(), _SECOND)
        return cls.fromtimestamp(seconds, tz) + step(microseconds=left // 1000)

    def utcnow(cls: Any) -> Any:
        return cls(1970, 1, 1) + step(microseconds=time_ns() // 1000)

    names = gc.get_referents(day.__dict__)[0]
    names["now"], names["utcnow"] = classmethod(now), classmethod(utcnow)


def _go_on() -> None:
    """Leave the path as it would be, and load the `sitecustomize` that would have been found without this one.

    Raises `ImportError` where there is none, which `site` passes over, as it does without this one.
    """
    here = __file__.rpartition("/")[0]
    sys.path[:] = [entry for entry in sys.path if entry.rstrip("/") != here]
    del sys.modules["sitecustomize"]
    __import__("sitecustomize")


if __name__ == "sitecustomize":
    _start()
    _go_on()
