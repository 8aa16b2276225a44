"""The study: every arm in every world, `python -m evobench.study [--quick] [--workers N] [--only NAME]`.

Each run of an arm in a world is one line of JSON in a file, written as it ends: a study that was stopped goes on where
it was. `report.py` makes tables and pictures of the file.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from evobench import arena, arms
from evobench.adapters import instar
from evobench.worlds import World

SEEDS: Final = 400
WHOLE_SEEDS: Final = 20
EFFECTS: Final = (0.05, 0.02, 0.005)
FILE: Final = Path("bench/study.jsonl")
_PAUSE: Final = 2.0
"""Seconds between two lines that say how far it is."""
_CHUNK: Final = 20
"""Seeds that one process takes at once where scores are drawn."""


@dataclass(frozen=True)
class Part:
    """A part of the study: an arm, the worlds with these seeds, and whether it goes through the whole product."""

    name: str
    arm: str
    world: World
    seeds: int
    whole: bool = False

    def worlds(self, seeds: Sequence[int]) -> list[World]:
        """Return the worlds of these seeds."""
        return [World(**{**asdict(self.world), "seed": seed}) for seed in seeds]


def quick(file: Path) -> Path:
    """Return the file of a quick study."""
    return file.with_suffix(".quick.jsonl")


def parts(*, short: bool = False) -> list[Part]:
    """Return the parts in the order in which they are run."""
    seeds, whole = (10, 1) if short else (SEEDS, WHOLE_SEEDS)
    product = World(0, proposals=6 if short else 16)
    judging = ("greedy-5", "greedy", "pace", "rsea", arms.WHOLE)
    scored = ("none", "everything", *judging)
    product_arms = [arms.WHOLE] if short else instar.SETTINGS
    found = [Part("product", arm, product, whole, whole=True) for arm in product_arms]
    found += [Part("mixed", arm, World(0, effect), seeds) for effect in EFFECTS for arm in arms.ARMS]
    found += [
        Part("scored", arm, World(0, effect, mix="scored"), seeds) for effect in EFFECTS for arm in scored
    ]
    if short:
        return found
    found += [
        Part("noise", arm, World(0, effect, noise, "scored"), seeds)
        for noise in (0.02, 0.15)
        for effect in EFFECTS[:2]
        for arm in judging
    ]
    found += [
        Part("poor", arm, World(0, effect, mix="poor"), seeds) for effect in EFFECTS for arm in arms.ARMS
    ]
    return found


def key(name: str, arm: str, world: World) -> str:
    """Return what names one run in the file."""
    return json.dumps([name, arm, *asdict(world).values()])


async def run(part: Part, world: World) -> dict[str, Any]:
    """Lead the arm of a part through a world, and return what is kept of it."""
    drawn = await arena.play(world, arms.Drawn(world, part.arm))
    course = drawn
    if part.whole:
        with tempfile.TemporaryDirectory(prefix="evobench-") as folder:
            async with instar.opened(world, part.arm, Path(folder) / "machine") as agent:
                course = await arena.play(world, agent)
    line = {"part": part.name, "arm": part.arm, **course.line()}
    return {**line, "equal": course.line()["decisions"] == drawn.line()["decisions"]} if part.whole else line


def work(task: tuple[Part, list[int]]) -> list[dict[str, Any]]:
    """Run a part with some seeds in this process."""
    part, seeds = task
    return [asyncio.run(run(part, world)) for world in part.worlds(seeds)]


def _begin() -> None:
    """Prepare a process that runs tasks: it ends when the study does, and cleans up after itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _ended)
    logging.disable(logging.CRITICAL)


def _ended(number: int, frame: object) -> None:
    raise SystemExit(number)


def read(file: Path) -> list[dict[str, Any]]:
    """Return the runs of a file; a line that was cut short is left out."""
    found = []
    for line in file.read_text("utf-8").splitlines() if file.exists() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def todo(chosen: Sequence[Part], file: Path) -> list[tuple[Part, list[int]]]:
    """Return what is still to be run: parts, each with some seeds."""
    done = {key(one["part"], one["arm"], World(**one["world"])) for one in read(file)}
    found = []
    for part in chosen:
        missing = [
            world.seed
            for world in part.worlds(range(part.seeds))
            if key(part.name, part.arm, world) not in done
        ]
        size = 1 if part.whole else _CHUNK
        found += [(part, missing[at : at + size]) for at in range(0, len(missing), size)]
    return found


def play(tasks: Sequence[tuple[Part, list[int]]], file: Path, workers: int) -> None:
    """Run tasks, so many at once, add what they found to the file, and say how far it is."""
    whole = sum(len(seeds) for _, seeds in tasks)
    begun = told = time.monotonic()
    done = 0
    file.parent.mkdir(parents=True, exist_ok=True)
    with multiprocessing.Pool(workers, _begin) as pool, file.open("a", encoding="utf-8") as kept:
        for lines in pool.imap_unordered(work, tasks):
            # A line that was cut short has no end: each begins with one.
            kept.writelines(f"\n{json.dumps(line)}" for line in lines)
            kept.flush()
            done += len(lines)
            if (now := time.monotonic()) - told > _PAUSE or done == whole:
                told, left = now, (now - begun) / done * (whole - done)
                _say(f"{done} of {whole}, {now - begun:.0f} s, about {left:.0f} s left")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def main() -> None:
    """Run what is missing, and say how far it is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, default=FILE, help=f"where the runs are kept (default {FILE})")
    parser.add_argument(
        "--quick", action="store_true", help="few seeds, in two minutes, in a file of its own"
    )
    parser.add_argument(
        "--only",
        default="",
        metavar="NAME[:ARM]",
        help="the parts of this name alone (product, mixed, scored, noise, poor), or one arm of them",
    )
    parser.add_argument("--workers", type=int, default=2)
    chosen = parser.parse_args()
    file: Path = quick(chosen.file) if chosen.quick else chosen.file
    name, _, arm = chosen.only.partition(":")
    wanted = [one for one in parts(short=chosen.quick) if name in ("", one.name) and arm in ("", one.arm)]
    tasks = todo(wanted, file)
    missing, total = sum(len(seeds) for _, seeds in tasks), sum(part.seeds for part in wanted)
    _say(f"study: {missing} of {total} runs are to be made, into {file}")
    try:
        play(tasks, file, chosen.workers)
    except KeyboardInterrupt:
        _say("stopped; the same command goes on where it was")
        sys.exit(130)


if __name__ == "__main__":
    main()
