"""What the campaigns have in common: a seed, an end, a state file that a later run goes on from, and a report.

Round N draws from `Campaign.chance(N)` alone, so a finding is played again by its seed and its number.
"""

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class Campaign:
    """The rounds of one campaign; use `numbers` for them, and `end` at their end."""

    def __init__(
        self, name: str, *, count: int, seconds: float = 0.0, seed: int = 1, state: Path | None = None
    ) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self.done = 0
        self.spent = 0.0
        self._name, self._count, self._state = name, count, state
        self._begun = self._shown = time.monotonic()
        self._until = self._begun + seconds if seconds else float("inf")
        if state is not None and state.exists():
            kept = json.loads(state.read_text())
            if kept["seed"] != seed:
                sys.exit(f"{state} is of seed {kept['seed']}: give that one, or another file")
            self.counts, self.findings = Counter(kept["counts"]), kept["findings"]
            self.done, self.spent = kept["done"], kept["seconds"]

    def chance(self, number: int) -> random.Random:
        """Return what round `number` draws from."""
        return random.Random(f"{self.seed}:{number}")

    def numbers(self) -> Iterator[int]:
        """Yield the rounds that are left, until the count or the time is up."""
        while self.done < self._count and time.monotonic() < self._until:
            yield self.done
            self._over()

    def _over(self) -> None:
        """One round is over; the caller has filled in `counts` and `findings`."""
        self.done += 1
        self._save()
        if time.monotonic() > self._shown + 10:
            self._shown = time.monotonic()
            print(f"{self._name}: {self._line()}", file=sys.stderr, flush=True)

    def find(self, text: str) -> None:
        """Something does not hold."""
        self.findings.append(text)
        print(f"{self._name}: FOUND {text}", file=sys.stderr, flush=True)

    def end(self, as_json: bool) -> int:
        """Save and print what came of it; the exit code, 1 where something was found."""
        self._save()
        print(json.dumps(self._report()) if as_json else f"{self._name}: {self._line()}")
        return 1 if self.findings else 0

    def _save(self) -> None:
        if self._state is not None:
            beside = self._state.with_suffix(".new")
            beside.write_text(json.dumps(self._report()))
            beside.replace(self._state)

    def _report(self) -> dict[str, Any]:
        seconds = round(self.spent + time.monotonic() - self._begun)
        kept = {"campaign": self._name, "seed": self.seed, "done": self.done, "seconds": seconds}
        return {**kept, "counts": dict(self.counts), "findings": self.findings}

    def _line(self) -> str:
        # Those with a colon are many: the report in JSON has them.
        said = sorted((name, number) for name, number in self.counts.items() if ":" not in name)
        counts = ", ".join(f"{number} {name}" for name, number in said)
        seconds = self.spent + time.monotonic() - self._begun
        return (
            f"{self.done} rounds in {seconds:.0f} s, {len(self.findings)} found (seed {self.seed}); {counts}"
        )


def given(name: str, arguments: list[str] | None, *, count: int) -> tuple[Campaign, argparse.Namespace]:
    """Return the campaign that the command line asks for, and the other options."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.campaign.{name}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=count, help="rounds, those of the state file among them")
    parser.add_argument("--seconds", type=float, default=0.0, help="end after so many; 0: at the count")
    parser.add_argument("--state", type=Path, help="a file; a later run with it goes on where this one ended")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    options = parser.parse_args(arguments)
    made = Campaign(
        name, count=options.count, seconds=options.seconds, seed=options.seed, state=options.state
    )
    return made, options
