"""Tables and pictures of a study: `python -m evobench.report` writes them into docs/reference/study-results.md, between
its markers.

A mean has a bootstrap interval of 95 %, a share a Wilson one.
"""

import argparse
import asyncio
import math
import random
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

from evobench import arena, study
from evobench.arms import ARMS, Drawn
from evobench.worlds import World

PAGE: Final = Path("docs/reference/study-results.md")
IMAGES: Final = Path("docs/images")
_RESAMPLES: Final = 1000
_ORDER: Final = ("mixed", "scored", "product", "noise", "poor")
_TINY: Final = 1e-9
NAMES: Final = {
    "none": "no evolution",
    "everything": "everything accepted",
    "tests": "tests only",
    "greedy-5": "greedy, 5 scores",
    "greedy": "greedy, 512 scores",
    "pace": "PACE-like",
    "rsea": "RSEA-like",
    "no-score": "instar without score",
    "no-replay": "instar without replay",
    "no-probation": "instar without probation",
    "whole": "instar",
}

Run = Mapping[str, Any]
Interval = tuple[float, float, float]
"""An estimate with the ends of its interval: (low, estimate, high)."""


def wilson(hits: int, runs: int) -> Interval:
    """Return a share with its Wilson interval of 95 %."""
    share, z = hits / runs, 1.959964
    middle = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs)) / (1 + z * z / runs)
    return max(0.0, middle - half), share, min(1.0, middle + half)


def bootstrap(values: Sequence[float]) -> Interval:
    """Return a mean with its percentile bootstrap interval of 95 %; the same values give the same interval."""
    chance = random.Random(len(values))
    means = sorted(statistics.fmean(chance.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    edge = _RESAMPLES // 40
    return means[edge], statistics.fmean(values), means[-edge - 1]


def gained(runs: Sequence[Run]) -> Interval:
    """Return the mean gain as a part of that of the best fixed harness: 0 is the start, below 0 a loss."""
    return bootstrap([(run["final"] - run["start"]) / (run["best"] - run["start"]) for run in runs])


def worse(run: Run) -> bool:
    """Whether a run ended with a value below that of the start."""
    return bool(run["final"] < run["start"] - _TINY)


def as_drawn(run: Run) -> bool:
    """Whether a run through the whole product decided as the drawn arm does on the same scores, one by one."""
    world = World(**run["world"])
    drawn = asyncio.run(arena.play(world, Drawn(world, run["arm"]))).line()
    return all(run[what] == drawn[what] for what in ("decisions", "scores", "final"))


Groups = dict[tuple[str, float, float], dict[str, list[Run]]]
"""The runs by part, effect and noise, then by arm."""


def grouped(runs: Sequence[Run]) -> Groups:
    """Sort runs into worlds and arms, in a fixed order."""
    found: Groups = defaultdict(lambda: defaultdict(list))
    for run in runs:
        world = run["world"]
        found[run["part"], world["effect"], world["noise"]][run["arm"]].append(run)
    order = sorted(found, key=lambda where: (_ORDER.index(where[0]), where[2], -where[1]))
    return {where: {arm: found[where][arm] for arm in ARMS if arm in found[where]} for where in order}


def table(arms: Mapping[str, Sequence[Run]]) -> list[str]:
    """Return a table of arms in one world."""
    runs = next(iter(arms.values()))
    lines = [
        f"The start is {runs[0]['start']:g}, the best fixed harness {runs[0]['best']:g}; "
        f"{_span([len(of) for of in arms.values()])} seeds an arm.",
        "",
        "| arm | final value | worse than the start | useful installed, refused, waiting | harmful installed, "
        "live for | malicious installed | scores for a proposal | known already |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return lines + [row(arm, of) for arm, of in arms.items()]


def row(arm: str, runs: Sequence[Run]) -> str:
    """Return the line of an arm."""
    lives = [life for run in runs for life in run["harmful_lives"]]
    harmful = sum(run["harmful"] for run in runs)
    proposals = sum(len(run["decisions"]) for run in runs)
    scores, cached = sum(run["scores"] for run in runs), sum(run["cached"] for run in runs)
    useful = sum(run["useful"] for run in runs)
    shares = [
        sum(run[f"useful_{what}"] for run in runs) / useful for what in ("installed", "refused", "waits")
    ]
    cells = [
        NAMES[arm],
        _mean(bootstrap([run["final"] for run in runs])),
        _share(wilson(sum(map(worse, runs)), len(runs))),
        ", ".join(f"{share:.0%}" for share in shares),
        f"{len(lives) / harmful:.1%}, {statistics.fmean(lives):.1f}" if lives else "0",
        str(sum(run["malicious_installed"] for run in runs)) + f" of {sum(run['malicious'] for run in runs)}",
        f"{scores / proposals:.0f}",
        f"{cached / (scores + cached):.0%}" if cached else "0",
    ]
    return f"| {' | '.join(cells)} |"


def product(arms: Mapping[str, Sequence[Run]]) -> list[str]:
    """Return the table of the runs through the whole product."""
    lines = [
        "| arm | runs | runs whose decisions are those of the drawn one | final value | worse than the start | "
        "malicious installed | seconds a proposal |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm, runs in arms.items():
        seconds = sum(run["seconds"] for run in runs) / sum(len(run["decisions"]) for run in runs)
        cells = [
            NAMES[arm],
            str(len(runs)),
            str(sum(map(as_drawn, runs))),
            _mean(bootstrap([run["final"] for run in runs])),
            _share(wilson(sum(map(worse, runs)), len(runs))),
            f"{sum(run['malicious_installed'] for run in runs)} of {sum(run['malicious'] for run in runs)}",
            f"{seconds:.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def coverage(groups: Groups) -> str:
    """Say how many of the planned runs of each part were made."""
    planned, made = Counter[str](), Counter[str]()
    for part in study.parts():
        planned[part.name] += part.seeds
    for (name, _, _), arms in groups.items():
        made[name] += sum(map(len, arms.values()))
    return f"Runs made: {', '.join(f'{name} {made[name]} of {many}' for name, many in planned.items())}."


def whole(groups: Groups) -> str:
    """Return all tables as Markdown."""
    lines = ["", coverage(groups)]
    for (part, effect, noise), arms in groups.items():
        if part == "product":
            lines += ["", "**Through the whole product** (mixed, an effect of 0.05, noise 0.05):", ""]
            lines += product(arms)
        else:
            lines += ["", f"**{part.capitalize()}, an effect of {effect:g}, noise {noise:g}.** ", ""]
            lines[-2] = lines[-2].rstrip()
            lines += table(arms)
    return "\n".join(lines[1:])


def picture(groups: Groups, part: str, noise: float, what: str) -> str:
    """Return an SVG picture of one part: by effect the arms, with intervals. `what` is `final` or `worse`."""
    panels = [(effect, of) for (name, effect, own), of in groups.items() if (name, own) == (part, noise)]
    height = 60 + 20 * max(len(of) for _, of in panels)
    found = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{180 + 230 * len(panels)}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    for at, (effect, of) in enumerate(panels):
        found += _panel(180 + 230 * at, effect, of, what, names=at == 0)
    return "\n".join([*found, "</svg>", ""])


def _panel(
    left: int, effect: float, arms: Mapping[str, Sequence[Run]], what: str, *, names: bool
) -> list[str]:
    title = "gained of what can be" if what == "final" else "worse than the start"
    low, high = (-1.0, 1.0) if what == "final" else (0.0, 1.0)
    foot = 34 + 20 * len(arms)

    def x(value: float) -> str:
        return f"{left + 170 * (min(high, max(low, value)) - low) / (high - low):.1f}"

    found = [f'<text x="{left}" y="18" fill="#222222">{title}, effect {effect:g}</text>']
    for tick in (low, (low + high) / 2, high):
        found.append(f'<line x1="{x(tick)}" x2="{x(tick)}" y1="28" y2="{foot}" stroke="#dddddd"/>')
        found.append(
            f'<text x="{x(tick)}" y="{foot + 16}" text-anchor="middle" fill="#666666">{tick:g}</text>'
        )
    for number, (arm, runs) in enumerate(arms.items()):
        y, colour = 42 + 20 * number, "#c2410c" if arm == "whole" else "#1d4ed8"
        ends = gained(runs) if what == "final" else wilson(sum(map(worse, runs)), len(runs))
        if names:
            name = escape(NAMES[arm])
            found.append(f'<text x="{left - 12}" y="{y + 4}" text-anchor="end" fill="#222222">{name}</text>')
        line = f'<line x1="{x(ends[0])}" x2="{x(ends[2])}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>'
        found += [line, f'<circle cx="{x(ends[1])}" cy="{y}" r="4" fill="{colour}"/>']
    return found


def write(page: Path, images: Path, groups: Groups) -> None:
    """Write the tables between the markers of the page, and the pictures."""
    text = page.read_text("utf-8")
    between = r"(<!-- study: begin -->\n).*?(<!-- study: end -->)"
    page.write_text(
        re.sub(between, lambda m: f"{m[1]}\n{whole(groups)}\n\n{m[2]}", text, flags=re.DOTALL), "utf-8"
    )
    for part in ("mixed", "scored"):
        for what in ("final", "worse"):
            (images / f"study-{part}-{what}.svg").write_text(picture(groups, part, 0.05, what), "utf-8")


def _mean(interval: Interval) -> str:
    low, middle, high = interval
    return f"{middle:.3f} ({low:.3f} to {high:.3f})"


def _share(interval: Interval) -> str:
    low, middle, high = interval
    return f"{middle:.1%} ({low:.1%} to {high:.1%})"


def _span(numbers: Sequence[int]) -> str:
    return str(numbers[0]) if len(set(numbers)) == 1 else f"{min(numbers)} to {max(numbers)}"


def main() -> None:
    """Print the tables of a file, or write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--file", type=Path, default=study.FILE)
    parser.add_argument(
        "--quick", action="store_true", help="print the tables of a quick study, write nothing"
    )
    chosen = parser.parse_args()
    file = study.quick(chosen.file) if chosen.quick else chosen.file
    runs = study.read(file)
    if not runs:
        sys.exit(f"{file} holds no runs: make study makes them")
    if chosen.quick:
        sys.stdout.write(whole(grouped(runs)) + "\n")
    else:
        write(PAGE, IMAGES, grouped(runs))


if __name__ == "__main__":
    main()
