"""Tables and plots of one run: `python -m bench.report [RUN.json]` writes them into docs/concepts/performance.md.

A run is what `make beside` keeps in bench/run.json. The tables stand between the page's markers, `<!-- name -->` and
`<!-- /name -->`; the plots are SVG in docs/images. The text of the page is written by hand.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
RUN: Final = ROOT / "bench" / "run.json"
PAGE: Final = ROOT / "docs" / "concepts" / "performance.md"
IMAGES: Final = ROOT / "docs" / "images"
GROUPS: Final[Mapping[str, str]] = {
    "start": r"cold:|start:|memory,",
    "crowds": r".*(at once|1 session\b)(?!.*deltas)",
    "streams": r".*deltas",
    "growth": r"growth:",
    "large": r"a session of",
    "evolve": r"(with )?evolve",
    "turns": r".*",
}
"""The tables, and which rows stand in each: the first that matches has a row."""
INK, OURS, THEIRS = "#808890", "#2f81f7", "#c77700"
"""Colours that can be read on white and on black."""

Run = Mapping[str, Any]
Row = Mapping[str, Any]


def grouped(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """The rows of each table."""
    found: dict[str, list[Row]] = {name: [] for name in GROUPS}
    for row in rows:
        # "deltas at once" is no crowd.
        names = [name for name, pattern in GROUPS.items() if re.match(pattern, row["what"])]
        found["streams" if "streams" in names else names[0]].append(row)
    return found


def figure(value: float | None) -> str:
    """A figure with three digits that count, at most two behind the point; a dash where there is none."""
    if value is None:
        return "-"
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def table(rows: Sequence[Row]) -> str:
    """Rows of instar beside opencode."""
    lines = ["| | instar | opencode | ratio | floor | | aim |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        ours, theirs = row["instar"], row["opencode"]
        ratio = f"{ours / theirs:.3f} ×" if theirs else "-"
        unit = f", {row['unit']}" if row["unit"] else ""
        said = {None: "", True: "holds", False: "**missed**"}[row["holds"]]
        cells = [figure(ours), figure(theirs), ratio, ", ".join(row["budgets"]), said, row["aim"] or ""]
        lines.append(f"| {row['what']}{unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def compared(other: Run, versions: Mapping[str, str]) -> str:
    """instar beside nanobot and the OpenHands SDK: figures, what ran, and what is missing."""
    names = {"instar": "instar", "nanobot": "nanobot", "openhands": "OpenHands SDK"}
    lines = [f"| | {' | '.join(names.values())} |", f"|---|{'---|' * len(names)}"]
    for row in other["rows"]:
        cells = (figure(row["values"].get(name)) for name in names)
        lines.append(f"| {row['what']}, {row['unit']} | {' | '.join(cells)} |")
    # A dash needs its reason.
    reasons = [(what, why) for what, why in other["lacks"].items()]
    lines += [f"| {what} | above | {' | '.join('-' for _ in why)} |" for what, why in reasons]
    lines += ["", "What ran:", ""]
    for name, label in names.items():
        version = f" {versions[name]}" if name in versions else ""
        lines.append(f"- {label}{version}: {other['ran'][name]}.")
    lines += ["", "Where there is a dash:", ""]
    lines += [f"- {names[name]}, {what}: {said}." for what, why in reasons for name, said in why.items()]
    lines += [
        f"- {names[name]}: not measured in this run: it was not installed." for name in other["missing"]
    ]
    return "\n".join(lines)


def machine(run: Run) -> str:
    """What the run was taken on and of."""
    on = run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in on["versions"].items())
    text = (
        f"The figures are of one run of {run['seconds'] // 60} minutes on {on['date']}: {on['processor']}, "
        f"{on['cores']} cores, {on['system']}, Python {on['python']}, {versions}; a project of {run['files']} files."
    )
    quick = "\n\nIt is a short run (`QUICK=1`) on a busy machine: it shows the tables, not what the programs can do."
    return text + quick * bool(run["quick"])


def sections(run: Run) -> dict[str, str]:
    """What stands between each pair of markers."""
    found = {name: table(rows) for name, rows in grouped(run["rows"]).items()}
    return {"machine": machine(run), **found, "others": compared(run["others"], run["machine"]["versions"])}


def written(page: str, run: Run) -> str:
    """The page with the run's tables. Raises `ValueError` for a marker that the page has not."""
    for name, text in sections(run).items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if begin not in page or end not in page:
            raise ValueError(f"the page has no {begin} … {end}")
        head, tail = page.split(begin)[0], page.split(end)[1]
        page = f"{head}{begin}\n{text}\n{end}{tail}"
    return page


def pictures(run: Run) -> dict[str, str]:
    """The plots by file name."""
    rows = run["rows"]
    judged = [
        row for row in rows if row["opencode"] and row["unit"] in ("ms", "s", "µs") and keeps(row["what"])
    ]
    memory = [row for row in rows if "memory" in row["what"] and row["opencode"]]
    grown = [row for row in rows if re.fullmatch(r"growth: turn \d+", row["what"])]
    return {
        "performance-ratio.svg": ratios(judged),
        "performance-memory.svg": bars(memory),
        "performance-growth.svg": lines_of(grown),
    }


def keeps(what: str) -> bool:
    """Whether a row has a bar of its own: neither processor time nor what says how a median spreads."""
    return not re.search(r"processor|p95|p99|model's own|peak|against", what)


def svg(width: int, height: int, parts: Sequence[str]) -> str:
    """A picture without a background, so that it stands on white and on black."""
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
    return "\n".join([f'{head}font-family="sans-serif" font-size="12" fill="{INK}">', *parts, "</svg>", ""])


def ratios(rows: Sequence[Row]) -> str:
    """Bars of what instar's figure is of opencode's, on a scale of powers of ten from a thousandth to ten."""
    left, wide, high = 330, 400, 20

    def x(ratio: float) -> float:
        return left + wide * (math.log10(min(max(ratio, 0.001), 10)) + 3) / 4

    below = high * (len(rows) + 1)
    parts = [
        f'<line x1="{x(mark):.0f}" y1="{high}" x2="{x(mark):.0f}" y2="{below}" stroke="{INK}" stroke-opacity="0.4"/>'
        f'<text x="{x(mark):.0f}" y="14" text-anchor="middle">{mark:g} ×</text>'
        for mark in (0.001, 0.01, 0.1, 1, 10)
    ]
    for number, row in enumerate(rows):
        ratio, y = row["instar"] / row["opencode"], high * (number + 1)
        parts.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(row["what"])}</text>')
        parts.append(
            f'<rect x="{left}" y="{y + 4}" width="{x(ratio) - left:.1f}" height="12" fill="{OURS}"/>'
            f'<text x="{x(ratio) + 4:.1f}" y="{y + 14}">{ratio:.3f}</text>'
        )
    return svg(left + wide + 60, below + 10, parts)


def bars(rows: Sequence[Row]) -> str:
    """Two bars of each row, instar's and opencode's."""
    left, wide, high = 330, 400, 34
    most = max((row["opencode"] for row in rows), default=1)
    parts = legend(left)
    for number, row in enumerate(rows):
        y = 20 + high * number
        parts.append(f'<text x="{left - 8}" y="{y + 20}" text-anchor="end">{escape(row["what"])}</text>')
        for offset, (name, colour) in enumerate((("instar", OURS), ("opencode", THEIRS))):
            size, top = row[name] * wide / most, y + 4 + 13 * offset
            parts.append(
                f'<rect x="{left}" y="{top}" width="{size:.1f}" height="11" fill="{colour}"/>'
                f'<text x="{left + size + 4:.1f}" y="{top + 10}">{figure(row[name])} {row["unit"]}</text>'
            )
    return svg(left + wide + 80, 30 + high * len(rows), parts)


def legend(left: int) -> list[str]:
    """Which colour is whose."""
    return [
        f'<rect x="{left + 90 * one}" y="4" width="11" height="11" fill="{colour}"/>'
        f'<text x="{left + 90 * one + 16}" y="14">{name}</text>'
        for one, (name, colour) in enumerate((("instar", OURS), ("opencode", THEIRS)))
    ]


def lines_of(rows: Sequence[Row]) -> str:
    """A line of each program: ms of a turn over the turns of a session, on a scale of powers of ten."""
    left, wide, tall = 60, 500, 260
    turns = [int(row["what"].rpartition(" ")[2]) for row in rows]
    last = max(turns, default=1)

    def place(turn: int, value: float) -> str:
        return f"{left + wide * turn / last:.1f},{20 + tall * (1 - math.log10(min(max(value, 1), 1000)) / 3):.1f}"

    parts = legend(left + 10)
    for mark in (1, 10, 100, 1000):
        _, _, y = place(0, mark).partition(",")
        parts.append(
            f'<line x1="{left}" y1="{y}" x2="{left + wide}" y2="{y}" stroke="{INK}" stroke-opacity="0.4"/>'
            f'<text x="{left - 6}" y="{float(y) + 4:.1f}" text-anchor="end">{mark} ms</text>'
        )
    parts += [
        f'<text x="{left + wide * turn / last:.1f}" y="{tall + 38}" text-anchor="middle">{turn}</text>'
        for turn in turns
    ]
    for name, colour in (("instar", OURS), ("opencode", THEIRS)):
        points = [place(turn, row[name]) for turn, row in zip(turns, rows, strict=True)]
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        parts += [
            f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>'
            for x, _, y in (p.partition(",") for p in points)
        ]
    return svg(left + wide + 40, tall + 50, parts)


def outputs(run: Run, page: Path, images: Path) -> Iterator[tuple[Path, str]]:
    """The files that a run makes, with their text."""
    yield page, written(page.read_text("utf-8"), run)
    for name, text in pictures(run).items():
        yield images / name, text


def main(argv: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    """Write the page's tables and the plots."""
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=__doc__)
    parser.add_argument(
        "run", nargs="?", type=Path, default=RUN, help="the kept run (default bench/run.json)"
    )
    chosen = parser.parse_args(argv)
    try:
        run = json.loads(chosen.run.read_text("utf-8"))
    except (OSError, ValueError) as error:
        parser.error(f"{chosen.run} is no kept run; `make beside` writes one: {error}")
    for path, text in outputs(run, PAGE, IMAGES):
        path.write_text(text, "utf-8")
        say(str(path.relative_to(ROOT)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
