"""The clock of a replay: a run sees the moment at which the recorded call was made.

A Python script is given `moment` as its ``sitecustomize``: `time.time` and its kin, `datetime.now` and `date.today`
then begin at the record's moment and move on in whole seconds. Any other program is given libfaketime where the
machine has it, whose clock runs on as usual.

What does not see it: file times, the monotonic clock, Python started with ``-I``, ``-E`` or ``-S``, an extension that
asks the kernel, and programs where there is no libfaketime. Each Python process begins at the record's moment anew.
A script can find out: the folder `FOLDER` stands in its workspace and ``PYTHONPATH`` names it.
"""

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.plugins.evolve.trial import TrialFile

FOLDER: Final = ".clock"
"""Where in the copy the module stands."""
_SOURCE: Final = Path(__file__).with_name("moment.py")
_PYTHON: Final = re.compile(rb"^#!\s*\S*(?:/|\s)(?:python|pypy)[\d.]*(?:\s|$)|^#!.*\suv\s+run\b")
_SPLIT: Final = re.compile(rb"\benv\s+(?:-S|--split-string[=\s])\s*")
_OPTIONS: Final = re.compile(rb"\s-[a-zA-Z]*[IES]")
_FAKETIME: Final = (
    "/usr/lib/*/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
    "/usr/local/lib/faketime/libfaketime.so.1",
)


class Setting(msgspec.Struct, frozen=True):
    """How a run is shown a moment: variables, and words before the command.

    `shown` says whether the program itself sees the moment; False: it sees the real time.
    """

    environment: Mapping[str, str]
    before: tuple[str, ...]
    shown: bool


def is_python(script: bytes) -> bool:
    """Whether the script's first line starts a Python that reads ``PYTHONPATH``."""
    first = _SPLIT.sub(b"env ", script[:300].split(b"\n", 1)[0].rstrip())
    return bool(_PYTHON.search(first)) and not _OPTIONS.search(first)


def find_faketime(patterns: tuple[str, ...] = _FAKETIME) -> str | None:
    """Return the file of libfaketime, from the places where systems install it; None where there is none."""
    found = (path for pattern in patterns for path in sorted(Path("/").glob(pattern.lstrip("/"))))
    return next((str(path) for path in found), None)


def setting(
    script: bytes,
    at: int,
    root: Path,
    library: str | None = None,
    present: Callable[[], float] = time.time,
) -> Setting:
    """Return how a run of `script` in a copy at `root`, which has `files`, is shown the moment `at` (ms).

    Python is set up also for a script in another language, since it may start one. `library` is what
    `find_faketime` found.
    """
    environment = {"PYTHONHASHSEED": "0", "PYTHONPATH": str(root / FOLDER)}
    python = is_python(script)
    before: tuple[str, ...] = ()
    if not python and library:
        # By `env`, so that only the script is preloaded and not what makes the sandbox.
        back = at / 1000 - present()
        before = (
            "/usr/bin/env",
            f"LD_PRELOAD={library}",
            f"FAKETIME={back:+.3f}",
            "FAKETIME_DONT_FAKE_MONOTONIC=1",
        )
    return Setting(environment, before, python or bool(before))


def files(at: int) -> dict[str, TrialFile]:
    """Return what goes into the copy: `moment` with the moment `at` (ms since the epoch) in it."""
    text = _SOURCE.read_text("utf-8").replace("MOMENT = 0\n", f"MOMENT = {at * 1_000_000}\n", 1)
    return {f"{FOLDER}/sitecustomize.py": TrialFile(text.encode())}
