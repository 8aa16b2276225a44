"""The siege: `python -m tests.campaign.siege [--only TEXT] [--seed N]`.

A hostile model, a hostile repository, a web page and another user of the machine try what they can; each case has a
canary that shows whether it got through. docs/reference/siege.md has the table. What is played needs Linux; a
level that this machine does not have is said and left out, and so is what only root can try.
"""

import argparse
import json
import logging
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed

from tests.campaign.siege.case import Case, Ended, batches, table
from tests.campaign.siege.players import cases, is_possible_here, play

SIZE = 33
"""Cases of one attacker, door and level that are played one after another in one folder."""


def run(chosen: Sequence[Case], seed: int, workers: int) -> Iterator[list[Ended]]:
    """Play cases, so many batches at once in an order of the seed, and yield how they ended."""
    todo = batches(chosen, SIZE)
    random.Random(seed).shuffle(todo)
    if workers == 1:
        logging.disable(logging.CRITICAL)
        yield from map(play, todo)
        return
    # Each process tells what it left running by its own process id, so none is a fork of another.
    how = {"initializer": logging.disable, "initargs": (logging.CRITICAL,)}
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), **how) as pool:
        for done in as_completed([pool.submit(play, one) for one in todo]):
            yield done.result()


def main() -> None:
    """Run the siege; exit code 1 where something got through, or could not be played."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign.siege", description=__doc__)
    parser.add_argument("--only", default="", help="cases whose WHO/DOOR/LEVEL/WHAT holds this text")
    parser.add_argument("--seed", type=int, default=6, help="of the order in which they are played")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    given = parser.parse_args()
    begun = time.monotonic()
    wanted = [case for case in cases() if given.only in case.name]
    todo = list(filter(is_possible_here, wanted))
    for (who, level), count in Counter((one.who, one.level) for one in set(wanted) - set(todo)).items():
        print(f"this machine cannot show {count} cases: {who}, {level}", file=sys.stderr)
    ended: list[Ended] = []
    for done in run(todo, given.seed, given.workers):
        ended += done
        for one in done:
            if one.wrong:
                print(f"WRONG {one.case.name}: {one.wrong}", file=sys.stderr)
        print(f"{len(ended)} of {len(todo)}, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    wrong = {one.case: one.wrong for one in ended if one.wrong}
    told = {"seed": given.seed, "cases": len(ended), "seconds": round(time.monotonic() - begun, 1)}
    if given.json:
        print(json.dumps({**told, "wrong": {case.name: why for case, why in wrong.items()}}))
    else:
        print("\n".join(table(todo, wrong)))
        print(f"siege: {len(ended)} cases in {told['seconds']} s, {len(wrong)} wrong (seed {given.seed})")
    sys.exit(1 if wrong or len(ended) != len(todo) else 0)


if __name__ == "__main__":
    main()
