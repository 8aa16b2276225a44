"""The tables of the page that says where instar was installed; and programs that are run for them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

Row = Sequence[str]


class Failed(Exception):
    """A program that a check needs ended with another code than 0; the text is its words and its last lines."""


def run(
    *words: str | Path,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    lines: int = 12,
) -> str:
    """Run a program to its end and return what it printed. Raises `Failed` with its last `lines`."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = "\n".join(done.stdout.strip().splitlines()[-lines:])
        raise Failed(f"{' '.join(str(word) for word in words)}: exit code {done.returncode}\n{said}")
    return done.stdout


def uv() -> str:
    """The program uv: that of this environment, else that of the `PATH`."""
    return shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}") or "uv"


def person(home: Path) -> dict[str, str]:
    """The environment of a person who has nothing but an empty home: it is made. Caches of pip and uv are shared."""
    home.mkdir(parents=True, exist_ok=True)
    kept = {
        key: value
        for key, value in os.environ.items()
        if key.startswith(("PIP_", "UV_", "SSL_")) or key.lower().endswith("_proxy")
    }
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return {
        "PIP_CACHE_DIR": str(cache / "pip"),
        "UV_CACHE_DIR": str(cache / "uv"),
        **kept,
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
    }


def table(head: Row, rows: Sequence[Row]) -> str:
    """Return a table in Markdown."""
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows))


def record(head: Row, rows: Sequence[Row], keys: int) -> None:
    """Put rows into the table of the page that has this head.

    A row takes the place of the one with the same first `keys` cells; other rows stay. Raises `Failed` where no page
    has the table.
    """
    for page in sorted((ROOT / "docs").rglob("platforms.md")):
        before, found, rest = page.read_text("utf-8").partition(f"{table(head, [])}\n")
        if found:
            lines = rest.splitlines(keepends=True)
            old = list(takewhile(lambda line: line.startswith("| "), lines))
            kept = {tuple(cells[:keys]): cells for cells in (line.strip("| \n").split(" | ") for line in old)}
            kept |= {tuple(cells[:keys]): list(cells) for cells in rows}
            after = "".join(lines[len(old) :])
            page.write_text(f"{before}{table(head, list(kept.values()))}\n{after}", "utf-8")
            return
    raise Failed(
        f"no page platforms.md in docs has the table that begins with {table(head, []).splitlines()[0]}"
    )
