"""The clock of a replay: a run sees the moment at which the recorded call was made.

A Python script is given `moment` as its ``sitecustomize``: `time.time` and its kin, `datetime.now` and `date.today`
then begin at the record's moment and move on in whole seconds. Any other program sees the real time.

What does not see it either: file times, the monotonic clock, Python started with ``-I``, ``-E`` or ``-S``, an extension
that asks the kernel. Each Python process begins at the record's moment anew.
A script can find out: the folder `FOLDER` stands in its workspace and ``PYTHONPATH`` names it.
"""

import re
from pathlib import Path
from typing import Final

from instar.plugins.evolve.trial import TrialFile

FOLDER: Final = ".clock"
"""Where in the copy the module stands."""
_SOURCE: Final = Path(__file__).with_name("moment.py")
_PYTHON: Final = re.compile(rb"^#!\s*\S*(?:/|\s)(?:python|pypy)[\d.]*(?:\s|$)|^#!.*\suv\s+run\b")
_SPLIT: Final = re.compile(rb"\benv\s+(?:-S|--split-string[=\s])\s*")
_OPTIONS: Final = re.compile(rb"\s-[a-zA-Z]*[IES]")


def is_python(script: bytes) -> bool:
    """Whether the script's first line starts a Python that reads ``PYTHONPATH``."""
    first = _SPLIT.sub(b"env ", script[:300].split(b"\n", 1)[0].rstrip())
    return bool(_PYTHON.search(first)) and not _OPTIONS.search(first)


def environment(root: Path) -> dict[str, str]:
    """Return the variables by which each Python in a copy at `root`, which has `files`, is shown the moment."""
    return {"PYTHONHASHSEED": "0", "PYTHONPATH": str(root / FOLDER)}


def files(at: int) -> dict[str, TrialFile]:
    """Return what goes into the copy: `moment` with the moment `at` (ms since the epoch) in it."""
    text = _SOURCE.read_text("utf-8").replace("MOMENT = 0\n", f"MOMENT = {at * 1_000_000}\n", 1)
    return {f"{FOLDER}/sitecustomize.py": TrialFile(text.encode())}
