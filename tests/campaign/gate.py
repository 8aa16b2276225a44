"""Candidates for the gate, good and bad, made from a seed: `python -m tests.campaign.gate [--seed N]`.

No bad one may be installed, or, where only probation can tell, stay; after each refusal the workspace with its git
folder, the home and what lies beside are byte for byte what they were, nobody was called over the network, and nothing
is left running. Every good one is installed without a question. Candidates come in rounds, each in a workspace of its
own: with a test in bash or in Python, with or without an eval, at one level of confinement. `--only ROUND` plays one
again.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
from tests.campaign import bad, good
from tests.campaign.world import Round, World, Wrong, world

from instar.plugin import process, sandbox

SIZE = 20
"""Candidates of each sort in a round."""


class Plan(msgspec.Struct, frozen=True):
    """One round: its candidates' kinds in order."""

    number: int
    seed: int
    made: Round
    kinds: tuple[str, ...]


class Ended(msgspec.Struct, frozen=True):
    """How one candidate ended; `wrong` says what is not as it must be."""

    round: int
    at: int
    kind: str
    how: str
    seconds: float
    wrong: str = ""


def plans(number_bad: int, number_good: int, seed: int, levels: Sequence[str]) -> list[Plan]:
    """Deal the candidates into rounds; of four rounds one is at the second level, where there is one."""
    chance = random.Random(seed)
    count = max(1, -(-max(number_bad, number_good) // SIZE))
    rounds = []
    for number in range(count):
        level = levels[1 if len(levels) > 1 and number % 4 == 3 else 0]
        rounds.append(Round(("bash", "python")[number // 2 % 2], number % 2 == 0, number % 3 == 1, level))
    scored = bad.deck(chance)
    other = bad.deck(chance, without=bad.SCORED)
    goods = {create: good.deck(chance, create) for create in (False, True)}
    found = []
    for number, made in enumerate(rounds):
        kinds = list(islice(scored if made.scored else other, _share(number_bad, number, count)))
        kinds += list(islice(goods[made.create], _share(number_good, number, count)))
        chance.shuffle(kinds)
        found.append(Plan(number, seed, made, tuple(kinds)))
    return found


def _share(whole: int, number: int, count: int) -> int:
    return whole * (number + 1) // count - whole * number // count


def play(plan: Plan) -> list[Ended]:
    """Play one round in this process."""
    logging.disable(logging.CRITICAL)
    folder = Path(tempfile.mkdtemp(prefix=f"campaign-{plan.number}-"))
    try:
        return asyncio.run(_played(plan, folder))
    finally:
        _remove(folder)


async def _played(plan: Plan, folder: Path) -> list[Ended]:
    ended = []
    mark = f"{86_400 + plan.number}.{os.getpid()}"
    async with world(folder / "w", plan.made, mark) as one:
        for at, kind in enumerate(plan.kinds):
            begun = time.monotonic()
            how, wrong = "", ""
            try:
                how = await _tried(one, kind, random.Random(f"{plan.seed} {plan.number} {at}"))
            except Wrong as error:
                wrong = str(error)
            except Exception as error:  # whatever a candidate brings about is a finding
                wrong = f"it raised {error!r}"
            ended.append(Ended(plan.number, at, kind, how, time.monotonic() - begun, wrong))
            if wrong:
                break  # what follows would be judged by a workspace that is not as it should be
    return ended


async def _tried(one: World, kind: str, chance: random.Random) -> str:
    if kind in bad.KINDS:
        return await one.bad(bad.bad(kind, one.case(chance)))
    return await one.good(good.good(chance, kind, one.bot, one.prompts))


async def levels() -> list[str]:
    """Return the levels of confinement that this machine has, the best first."""
    processes = process.Processes()
    try:
        found = [await sandbox.find_level(processes, os.environ, name) for name in ("bubblewrap", "landlock")]
    finally:
        await processes.close()
    return list(dict.fromkeys(level.name for level in found if level.name != "none"))


def run(chosen: Sequence[Plan], workers: int) -> Iterator[list[Ended]]:
    """Play rounds, so many at once, and yield how each ended."""
    if workers == 1:
        yield from map(play, chosen)
        return
    with ProcessPoolExecutor(workers) as pool:
        for done in as_completed([pool.submit(play, plan) for plan in chosen]):
            yield done.result()


def summary(ended: Sequence[Ended]) -> list[str]:
    """Return a table: by kind how many, how they ended, and the seconds of one."""
    lines = []
    for kind in (*bad.KINDS, *good.kinds(create=True)):
        mine = [one for one in ended if one.kind == kind]
        if mine:
            hows = ", ".join(
                f"{how or 'WRONG'} {count}" for how, count in Counter(one.how for one in mine).most_common()
            )
            mean = sum(one.seconds for one in mine) / len(mine)
            lines.append(f"{kind:34} {len(mine):4}  {mean:5.2f} s  {hows}")
    return lines


def report(plan: argparse.Namespace, ended: Sequence[Ended], planned: int, seconds: float) -> dict[str, Any]:
    """Return the whole as JSON values."""
    number_bad = sum(one.kind in bad.KINDS for one in ended)
    return {
        "seed": plan.seed,
        "bad": number_bad,
        "good": len(ended) - number_bad,
        "wrong": [msgspec.to_builtins(one) for one in ended if one.wrong],
        "not_played": planned - len(ended),
        "seconds": round(seconds, 1),
        "ended": dict(Counter(f"{one.kind}: {one.how or 'wrong'}" for one in ended)),
    }


def main() -> None:
    """Run the campaign; exit code 1 where something is not as it must be."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bad", type=int, default=310, help="bad candidates (default 310)")
    parser.add_argument("--good", type=int, default=310, help="good candidates (default 310)")
    parser.add_argument("--seed", type=int, default=6)
    parser.add_argument("--only", type=int, help="play this round alone")
    parser.add_argument("--level", choices=("bubblewrap", "landlock"), help="this level alone")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    chosen = parser.parse_args()
    begun = time.monotonic()
    found = [chosen.level] if chosen.level else asyncio.run(levels())
    if not found:
        sys.exit("this machine has no sandbox: the gate would install nothing, so there is nothing to see")
    todo = [
        one for one in plans(chosen.bad, chosen.good, chosen.seed, found) if chosen.only in (None, one.number)
    ]
    planned = sum(len(one.kinds) for one in todo)
    print(
        f"gate: {planned} candidates in {len(todo)} rounds, {', '.join(found)}, seed {chosen.seed}",
        file=sys.stderr,
    )
    ended: list[Ended] = []
    for done in run(todo, chosen.workers):
        ended += done
        wrong = [one for one in done if one.wrong]
        for one in wrong:
            print(f"round {one.round}, candidate {one.at}, {one.kind}: {one.wrong}", file=sys.stderr)
        print(f"{len(ended)} of {planned}, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    told = report(chosen, ended, planned, time.monotonic() - begun)
    print(json.dumps(told) if chosen.json else "\n".join([*summary(ended), _last(told)]))
    sys.exit(1 if told["wrong"] or told["not_played"] else 0)


def _last(told: dict[str, Any]) -> str:
    return (
        f"gate: {told['bad']} bad and {told['good']} good candidates in {told['seconds']} s, "
        f"{len(told['wrong'])} wrong, {told['not_played']} not played (seed {told['seed']})"
    )


def _remove(folder: Path) -> None:
    import shutil

    with contextlib.suppress(OSError):
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
