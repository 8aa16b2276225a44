"""What a sandboxed copy of a workspace costs: `python -m bench.copies [--json] [--runs N] [--files N]`.

A copy is made, with an overlay and without one, of a folder in the temporary folder and, where the system has it, of
one in memory. The files have 200 to 20,000 bytes, ten in a folder.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.figure import Figure, Show, play
from instar.sandbox.level import Level
from instar.sandbox.place import copy_of

MEMORY = Path("/dev/shm")


def measure(root: Path, runs: int, files: int, show: Show) -> None:
    """Measure each kind of copy at each place."""
    for name, place in (("the temporary folder", root), ("memory", MEMORY)):
        if not place.is_dir():
            continue
        with tree(place, files) as (source, beside):
            for kind, overlay in (("with an overlay", True), ("copied", False)):
                took = [once(source, beside, overlay) for _ in range(runs)]
                show(Figure(f"{files} files in {name}, {kind}", took, "ms"))


def once(source: Path, beside: Path, overlay: bool) -> float:
    """Milliseconds until a copy is there."""
    begun = time.perf_counter()
    with copy_of(source, Level("bubblewrap", overlay=overlay), beside):
        return (time.perf_counter() - begun) * 1000


@contextmanager
def tree(place: Path, files: int) -> Iterator[tuple[Path, Path]]:
    """Make a folder of this many files, and one beside it for copies."""
    with TemporaryDirectory(prefix="instar-bench-", dir=place) as folder:
        source, beside = Path(folder, "source"), Path(folder, "beside")
        beside.mkdir()
        for number in range(files):
            file = source / str(number // 10) / f"{number}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(b"x" * (200 + number * 19_800 // files))
        yield source, beside


if __name__ == "__main__":
    play("bench.copies", __doc__, measure, runs=(9, "copies of each kind"), files=(2000, "files"))
