"""Build the package twice, install it in each way in an empty home, and run it there: `make release-check`.

What is built is the last commit, in a clone of its own. What is installed is run beside that clone without its `src`:
the version, the demo (`examples/demo.py`), the commands of the tour and the README (by `tests/test_docs.py`), and
with pip `tests/e2e`.
"""

import argparse
import hashlib
import os
import platform
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from release.page import ROOT, Failed, person, record, run, table, uv

HEAD = ("system", "machine", "Python", "way", "version", "demo", "tour", "e2e")
KEYS = 4
NOT_RUN = "–"


@dataclass
class Built:
    """A wheel, its version, and the clone that it was built from, without its `src`."""

    wheel: Path
    version: str
    checkout: Path

    @property
    def requirement(self) -> str:
        """The wheel as pip, pipx and uv take it."""
        return f"instar @ {self.wheel.as_uri()}"


@dataclass
class Environment:
    """An empty home, and what was installed there: the folder of its programs."""

    home: Path
    python: str
    variables: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.variables = person(self.home)

    def run(self, *words: str | Path, folder: Path | None = None) -> str:
        """Run a program as that person, in the home unless a folder is named."""
        return run(*words, folder=folder or self.home, environment=self.variables)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Say what is done and how long it took."""
    print(f"{what} …", end=" ", flush=True)
    begun = time.monotonic()
    try:
        yield
    except Failed:
        print("FAILED", flush=True)
        raise
    print(f"{time.monotonic() - begun:.0f} s", flush=True)


# -- building ---------------------------------------------------------------------------------------


def build(scratch: Path) -> Built:
    """Build the last commit twice and the wheel once more from the sdist. Raises `Failed` where bytes differ."""
    commit = run("git", "log", "-1", "--format=%ct", folder=ROOT).strip()
    if run("git", "status", "--porcelain", folder=ROOT):
        print("The checkout has changes that were not committed: what is checked is the last commit.")
    wheels, sdists = [], []
    for number, mask in enumerate((0o022, 0o077)):
        with step(f"build {number + 1} of 2"):
            one = packages(
                clone(scratch / str(number), mask), scratch / f"dist{number}", commit, "--sdist", "--wheel"
            )
        wheels.append(only(one, "*.whl"))
        sdists.append(only(one, "*.tar.gz"))
    with step("build the wheel from the sdist"):
        with tarfile.open(sdists[0]) as archive:
            archive.extractall(scratch / "sdist", filter="data")
        unpacked = only(scratch / "sdist", "*")
        wheels.append(only(packages(unpacked, scratch / "dist2", commit, "--wheel"), "*.whl"))
    same("wheel", wheels)
    same("sdist", sdists)
    checkout = scratch / "0" / "checkout"
    whole(wheels[0], checkout)
    shutil.rmtree(checkout / "src")
    return Built(wheels[0], wheels[0].name.split("-")[1], checkout)


def clone(folder: Path, mask: int) -> Path:
    """Clone the checkout as a person with this umask does."""
    before = os.umask(mask)
    try:
        folder.mkdir()
        run("git", "clone", "--quiet", ROOT, folder / "checkout")
    finally:
        os.umask(before)
    return folder / "checkout"


def packages(tree: Path, to: Path, commit: str, *kinds: str) -> Path:
    """Build what is named of a tree into a folder, and return that."""
    variables = {**os.environ, "SOURCE_DATE_EPOCH": commit}
    run(
        sys.executable,
        "-m",
        "build",
        "--installer",
        "uv",
        *kinds,
        "--outdir",
        to,
        tree,
        environment=variables,
    )
    return to


def only(folder: Path, pattern: str) -> Path:
    """The one entry of a folder that fits."""
    (found,) = folder.glob(pattern)
    return found


def same(what: str, files: Sequence[Path]) -> None:
    """Say the checksum that all files have. Raises `Failed` where they differ."""
    sums = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    if len(set(sums)) > 1:
        raise Failed(f"{what}: builds of one commit differ: {', '.join(map(str, files))}")
    print(f"{files[0].name}: {len(sums)} builds, {files[0].stat().st_size / 1e6:.1f} MB, SHA-256 {sums[0]}")


def whole(wheel: Path, checkout: Path) -> None:
    """Raise `Failed` where the wheel lacks a file of the package or a page, or has one that is not in the commit."""
    tracked = set(run("git", "-C", checkout / "src", "ls-files", "instar").split("\n")) - {""}
    tracked |= {f"instar/{page}" for page in run("git", "-C", checkout, "ls-files", "docs/*.md").split()}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("instar/")} - {"instar/_version.py"}
    if packed != tracked:
        raise Failed(f"wheel and commit differ in {sorted(packed ^ tracked)}")


# -- installing -------------------------------------------------------------------------------------


def with_pip(there: Environment, wheel: str) -> Path:
    """Install by pip into a virtual environment."""
    folder = there.home / "venv"
    there.run(there.python, "-m", "venv", folder)
    there.run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", wheel)
    return folder / "bin"


def with_pipx(there: Environment, wheel: str) -> Path:
    """Install by pipx."""
    there.run(sys.executable, "-m", "pipx", "install", "--backend", "pip", "--python", there.python, wheel)
    command = there.home / ".local" / "bin" / "instar"
    return command.resolve().parent


def with_uv(there: Environment, wheel: str) -> Path:
    """Install as a tool of uv."""
    there.run(uv(), "tool", "install", "--quiet", "--python", there.python, wheel)
    command = there.home / ".local" / "bin" / "instar"
    return command.resolve().parent


WAYS: dict[str, Callable[[Environment, str], Path]] = {"pip": with_pip, "pipx": with_pipx, "uv": with_uv}


# -- what is run ------------------------------------------------------------------------------------


def version(there: Environment, programs: Path, built: Built) -> None:
    """The command says the version of the wheel, and the package is not that of a checkout."""
    said = there.run(programs / "instar", "--version").strip()
    if said != f"instar {built.version}":
        raise Failed(f"instar --version says {said!r}, and the wheel is {built.version}")
    place = there.run(programs / "python", "-c", "import instar; print(instar.__file__)").strip()
    if not Path(place).is_relative_to(programs.parent):
        raise Failed(f"instar is imported from {place}, not from what was installed in {programs.parent}")


def demo(there: Environment, programs: Path, built: Built) -> None:
    """The demo plays."""
    there.run(programs / "python", "examples/demo.py", folder=built.checkout)


def tour(there: Environment, programs: Path, built: Built) -> None:
    """The commands of the tour and of the README print what the pages say."""
    there.run(
        uv(),
        "pip",
        "install",
        "--quiet",
        "--python",
        programs / "python",
        f"instar[test] @ {built.wheel.as_uri()}",
    )
    pytest(there, programs, built, "tests/test_docs.py", "-k", "test_commands and (tour or README)")


def e2e(there: Environment, programs: Path, built: Built) -> None:
    """The tests that come in as a user does."""
    pytest(there, programs, built, "tests/e2e", "-m", "not slow", "-n", "2")


def pytest(there: Environment, programs: Path, built: Built, *words: str) -> None:
    """Run tests of the clone on what was installed. As in CI, what failed is run once more, alone."""
    command: list[str | Path] = [
        programs / "python",
        "-m",
        "pytest",
        "-o",
        f"cache_dir={there.home / 'tests'}",
        *words,
    ]
    try:
        there.run(*command, folder=built.checkout)
    except Failed as failure:
        print(f"{str(failure).splitlines()[-1]}; once more …", end=" ", flush=True)
        there.run(*command, "--lf", "--lfnf=none", "-n", "0", folder=built.checkout)


CHECKS: dict[str, Callable[[Environment, Path, Built], None]] = {
    "version": version,
    "demo": demo,
    "tour": tour,
    "e2e": e2e,
}


def tried(built: Built, python: str, way: str, home: Path, *, without: Sequence[str]) -> list[str]:
    """Install in one way and run the checks; return the row of the table. A check after one that failed is not run."""
    name = run(python, "-c", "import platform; print(platform.python_version())").strip()
    row = [system(), platform.machine(), name, way]
    there = Environment(home, python)
    try:
        with step(f"{way}, Python {name}: install"):
            programs = WAYS[way](there, built.requirement)
        for check, what in CHECKS.items():
            if check in without:
                row.append(NOT_RUN)
                continue
            with step(f"{way}, Python {name}: {check}"):
                what(there, programs, built)
            row.append("yes")
    except Failed as failure:
        print(failure, flush=True)
        row.append("no")
    return row + [NOT_RUN] * (len(HEAD) - len(row))


def system() -> str:
    """The name of this system and its version."""
    if sys.platform != "linux":
        return f"{platform.system()} {platform.release()}"
    return platform.freedesktop_os_release()["PRETTY_NAME"].partition(" (")[0]


def main() -> int:
    """Build, install, run, print the table; 1 where anything failed."""
    parser = argparse.ArgumentParser(prog="python -m release.check", description=__doc__)
    add = parser.add_argument
    add(
        "--python",
        action="append",
        help="an interpreter to install for, as often as wanted; without: this one's",
    )
    add("--way", action="append", choices=list(WAYS), help="a way to install; without: each")
    add("--quick", action="store_true", help="leave out tests/e2e")
    add("--record", action="store_true", help="put the rows into platforms.md of the docs")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="instar-release-") as folder:
        scratch = Path(folder).resolve()
        try:
            built = build(scratch)
        except Failed as failure:
            print(failure, file=sys.stderr)
            return 1
        for number, python in enumerate(given.python or [sys.executable]):
            program = shutil.which(python) or python
            for way in given.way or WAYS:
                without = ["e2e"] if given.quick or way != "pip" else []
                rows.append(tried(built, program, way, scratch / f"home{number}{way}", without=without))
    print("\n" + table(HEAD, rows))
    if given.record:
        record(HEAD, rows, KEYS)
    return int(any("no" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
