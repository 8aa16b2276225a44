"""The gate's second stage: the test that a script registered, run in a copy with the candidate in place."""

import os
from pathlib import Path
from typing import Final

from instar.plugin import process
from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.trial import Trial

NAME: Final = "test"
SHOWN: Final = 8192
"""Bytes of a test's output that the model is shown; the end is kept, where test runners say what failed."""
_LIMIT: Final = 4 << 20


async def run(trial: Trial, root: Path, test: str, timeout: float) -> str:
    """Run ``tests/TEST`` and return what it printed; `root` is the workspace. Raises `CandidateRefused`."""
    path = trial.changed(f"tests/{test}") or root / "tests" / test
    if not path.is_file():
        raise CandidateRefused(
            NAME, f"its test tests/{test} is missing: a person must add it, or take `test` out of discover"
        )
    if not os.access(path, os.X_OK):
        raise CandidateRefused(NAME, f"its test tests/{test} is missing its run bit: chmod +x tests/{test}")
    changed = trial.watch()
    try:
        output = await trial.run(
            [str(trial.root / "tests" / test)], timeout=timeout, limit=_LIMIT, merge=True
        )
    except process.ProcessError as error:
        raise CandidateRefused(NAME, f"its test tests/{test} could not be started: {error}") from None
    shown = tail(output.stdout)
    if touched := changed():
        raise CandidateRefused(
            NAME,
            f"while its test tests/{test} ran, {', '.join(touched[:5])} was changed, so the test proves nothing: "
            f"neither it nor the script may change code\n\n{shown}",
        )
    if output.code == 0:
        return shown
    raise CandidateRefused(NAME, f"its test tests/{test} failed: {_ended(output, timeout)}\n\n{shown}")


def tail(output: bytes, limit: int = SHOWN) -> str:
    """Return the last `limit` bytes of `output` as text, and say what was cut."""
    shown = output[-limit:].decode(errors="replace")
    return shown if len(output) <= limit else f"({len(output) - limit} bytes cut)…{shown}"


def _ended(output: process.Output, timeout: float) -> str:
    if output.timed_out:
        limit = f"hook_timeout ({timeout * 1000:.0f} ms), which a person sets in config/evolve.jsonc"
        return f"it timed out: it took longer than {limit}"
    return f"signal {output.signal}" if output.signal is not None else f"exit code {output.code}"
