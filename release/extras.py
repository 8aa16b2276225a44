"""Weigh what a plain install and each extra add: packages, megabytes on the disk, and what an import costs."""

import argparse
import sys
import tempfile
from pathlib import Path

from release.page import ROOT, record, run, table, uv
from release.wheels import extras

HEAD = ("extra", "packages", "MB", "import, ms")
IMPORTS = {
    "": "instar.runtime",
    "pdf": "pypdf",
    "acp": "acp",
    "cluster": "psycopg",
    "otel": "opentelemetry.sdk.trace, opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "providers": "pydantic_ai",
}
"""What is imported when an extra is used; the others bring programs."""
RUNS = 5
MEASURE = "import time; begun = time.process_time(); import {}; print((time.process_time() - begun) * 1000)"


def weigh(folder: Path, extra: str) -> tuple[int, float, float | None]:
    """Install into a fresh environment; return its packages, its MB without bytecode, and the ms of an import."""
    run(uv(), "venv", "--quiet", "--python", sys.executable, folder)
    python = folder / "bin" / "python"
    run(uv(), "pip", "install", "--quiet", "--python", python, f"{ROOT}[{extra}]" if extra else ROOT)
    packages = len(run(uv(), "pip", "list", "--quiet", "--python", python, "--format", "freeze").splitlines())
    size = sum(one.stat().st_size for one in folder.rglob("*") if one.is_file() and not one.is_symlink())
    if extra not in IMPORTS:
        return packages, size / 1e6, None
    # The first run compiles.
    times = [float(run(python, "-c", MEASURE.format(IMPORTS[extra])).split()[-1]) for _ in range(RUNS + 1)][
        1:
    ]
    return packages, size / 1e6, sorted(times)[RUNS // 2]


def main() -> int:
    """Weigh each and print the table: a plain install, and what each extra adds to it."""
    parser = argparse.ArgumentParser(prog="python -m release.extras", description=__doc__)
    parser.add_argument("--record", action="store_true", help="put the rows into platforms.md of the docs")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="instar-extras-") as scratch:
        packages, size, took = weigh(Path(scratch) / "plain", "")
        rows = [["none", str(packages), f"{size:.0f}", f"{took:.0f}"]]
        for extra in extras():
            more, larger, took = weigh(Path(scratch) / extra, extra)
            imported = "–" if took is None else f"{took:.0f}"
            rows.append([extra, f"+{more - packages}", f"+{larger - size:.1f}", imported])
    print(table(HEAD, rows))
    if given.record:
        record(HEAD, rows, 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
