"""The kit for tests of plugins, tools and hook scripts, ours and yours: docs/guides/testing.md.

`Machine` is a person's home, project and scripted model in one folder. `RuntimeUnderTest` is a real runtime on it, with
all that it published. `FakeClock` is a time that a test moves. The room may import all rooms but the doors.
Begin with `machine.py`. It needs no test runner.
"""

from instar.testing.machine import FakeClock, Machine, clean_environment
from instar.testing.runtime import (
    TIMEOUT,
    RuntimeUnderTest,
    answer_of,
    calls_of,
    results,
    said,
    until,
    users,
)

__all__ = [
    "TIMEOUT",
    "FakeClock",
    "Machine",
    "RuntimeUnderTest",
    "answer_of",
    "calls_of",
    "clean_environment",
    "results",
    "said",
    "until",
    "users",
]
