"""Count the processor's instructions of pieces of instar's work: `python -m bench.instructions [PIECE ...] [--keep]`.

Where time is noise, instructions are not: valgrind's callgrind counts them one by one, whatever else the machine does.
Each is held against `bench/instructions.json`; it exits with 1 when one grew by more than a tenth. The kept counts hold
for one Python and one libc: with another it prints and judges nothing. `--keep` counts anew and writes the file.
What is counted is the process itself, without the programs that it starts. 2 minutes on a quiet machine.
"""

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.pieces import PIECES
from bench.program import COMMAND, environment

KEPT: Final = Path(__file__).with_name("instructions.json")
GROWTH: Final = 1.1
"""So many times the kept count is too much."""
TRIES: Final = 3
"""The least of so many counts is taken before a piece is called too large, and where counts are kept."""
COLD: Final = {
    "instar --help, cold": ["--help"],
    "instar run, one word, cold": ["run", "-m", "scripted/echo", "hi"],
}
"""Commands that are counted from their start to their end, by name: their arguments."""
_COLLECTED: Final = re.compile(r"Collected : (\d+)")


class Line(NamedTuple):
    """A piece, the instructions of one of it, and the kept count: None where none is, or one of another Python."""

    piece: str
    found: int
    kept: int | None

    @property
    def grew(self) -> bool:
        """Whether it is more than a tenth above what was kept."""
        return self.kept is not None and self.found > self.kept * GROWTH

    def text(self) -> str:
        """The line as it is printed."""
        ratio = f"{self.found / self.kept:.3f} ×" if self.kept else "-"
        kept = f"{self.kept:,}" if self.kept else "-"
        return f"{self.piece:<40}{self.found:>15,}{kept:>15}{ratio:>10}{'  GREW' if self.grew else ''}"


def held_for() -> dict[str, str]:
    """What the counts hold for."""
    return {
        "python": f"{platform.python_version()} ({platform.python_compiler()})",
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
    }


def count(piece: str) -> int:
    """Count the instructions of one of a piece.

    Raises `RuntimeError` with what was printed when it fails, and `FileNotFoundError` where there is no valgrind.
    """
    with tempfile.TemporaryDirectory(prefix="instar-count-") as folder:
        home = Path(folder) / "home"
        env = environment(home, PYTHONHASHSEED="0", PYTHONPATH=str(Path(__file__).parents[1]))
        if piece in COLD:
            command = [*COMMAND, *COLD[piece]]
            # The first one compiles what it imports and makes the database.
            run(command, folder, env)
            return instructions(command, folder, env)
        command = [sys.executable, "-m", "bench.pieces", piece]
        return instructions(command, folder, env, "--instr-atstart=no") // PIECES[piece][1]


def instructions(command: Sequence[str], folder: str, env: Mapping[str, str], *options: str) -> int:
    """Run a command under callgrind to its end and return what was counted of its own process."""
    if shutil.which("valgrind") is None:
        raise FileNotFoundError(
            "there is no valgrind; `make bench-check` installs it (Debian: apt install valgrind)"
        )
    log = Path(folder) / "valgrind-%p.log"
    valgrind = [
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        f"--log-file={log}",
        *options,
    ]
    pid = run([*valgrind, *command], folder, env)
    found = _COLLECTED.search(log.with_name(f"valgrind-{pid}.log").read_text())
    if found is None:
        raise RuntimeError(f"valgrind counted nothing of {' '.join(command)}")
    return int(found[1])


def run(command: Sequence[str], folder: str, env: Mapping[str, str]) -> int:
    """Run a command to its end and return its process id. Raises `RuntimeError` with what it printed when it fails."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    printed, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} exited {process.returncode}: {printed[-2000:]}")
    return process.pid


def measured(piece: str, kept: int | None, count: Callable[[str], int], *, keep: bool) -> Line:
    """Count a piece: once, and again up to `TRIES` times where the count is to be kept or is too large."""
    line = Line(piece, count(piece), kept)
    for _ in range(TRIES - 1):
        if keep or line.grew:
            line = line._replace(found=min(line.found, count(piece)))
    return line


def read(path: Path) -> dict[str, Any]:
    """The kept counts and what they hold for; empty where there are none yet."""
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return found


def main(argv: Sequence[str] | None = None, count: Callable[[str], int] = count, path: Path = KEPT) -> int:
    """Parse the command line, count, and say what grew. `count` and `path` are this program's own but for tests."""
    parser = argparse.ArgumentParser(prog="python -m bench.instructions", description=__doc__)
    names = [*COLD, *PIECES]
    parser.add_argument("piece", nargs="*", help=f"what to count (default: all): {'; '.join(names)}")
    parser.add_argument("--keep", action="store_true", help=f"write the counts to {path.name}")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of the table")
    chosen = parser.parse_args(argv)
    if unknown := [one for one in chosen.piece if one not in names]:
        parser.error(f"no such piece: {', '.join(unknown)}; there are: {'; '.join(names)}")
    found, here = read(path), held_for()
    alike = found.get("for") == here
    kept: dict[str, int] = found.get("counts", {})
    if not chosen.json:
        print(f"{'instructions of one':<40}{'now':>15}{'kept':>15}")
    lines = []
    for piece in chosen.piece or names:
        try:
            line = measured(piece, kept.get(piece) if alike else None, count, keep=chosen.keep)
        except FileNotFoundError as error:
            parser.error(str(error))
        lines.append(line)
        print(json.dumps({**line._asdict(), "grew": line.grew}) if chosen.json else line.text(), flush=True)
    if chosen.keep:
        counts = {**(kept if alike else {}), **{line.piece: line.found for line in lines}}
        path.write_text(json.dumps({"for": here, "counts": counts}, indent=2) + "\n", "utf-8")
        return 0
    return verdict(lines, found.get("for"), here)


def verdict(lines: Sequence[Line], kept_for: Mapping[str, str] | None, here: Mapping[str, str]) -> int:
    """Say on standard error what grew, or why nothing was judged; 1 when something grew."""
    if kept_for != here:
        print(f"not judged: the kept counts are of {kept_for}, and this is {here}", file=sys.stderr)
        return 0
    if grew := [line.piece for line in lines if line.grew]:
        print(
            f"grew by more than a tenth: {'; '.join(grew)}; where that is meant, "
            "`python -m bench.instructions --keep` keeps the new counts",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
