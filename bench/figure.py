"""The figures that a measurement shows, and the command line that all measurements have."""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from bench.program import cores


class Figure(NamedTuple):
    """One line of the table: what was measured, its median and extremes, and the unit."""

    what: str
    values: list[float]
    unit: str

    def line(self) -> str:
        """Return the line as it is printed."""
        low, middle, high = min(self.values), statistics.median(self.values), max(self.values)
        return f"{self.what:<52} {middle:>9.2f} {self.unit:<3} ({low:.2f} – {high:.2f}, n={len(self.values)})"


Show = Callable[[Figure], None]
"""Where a figure goes as soon as it is known."""


def play(
    name: str,
    about: str | None,
    measure: Callable[..., Coroutine[Any, Any, None] | None],
    **counts: tuple[int, str],
) -> None:
    """Parse the command line of ``python -m NAME`` and measure in a folder that is gone afterwards.

    `counts` are its numbers by name, each with its default and what it counts. `measure` is given the folder, where
    to `show` figures, and these numbers.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=about)
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of the table")
    for one, (default, what) in counts.items():
        parser.add_argument(f"--{one}", type=int, default=default, help=f"{what} (default {default})")
    chosen = parser.parse_args()
    if not chosen.json:
        print(f"Python {sys.version.split()[0]}, {cores()} cores; median (lowest – highest)")

    def show(one: Figure) -> None:
        print(json.dumps(one._asdict()) if chosen.json else one.line(), flush=True)

    with tempfile.TemporaryDirectory(prefix="instar-bench-") as folder:
        work = measure(Path(folder), show=show, **{one: getattr(chosen, one) for one in counts})
        if work is not None:
            asyncio.run(work)
