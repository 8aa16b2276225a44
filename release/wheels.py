"""Ask PyPI whether a plain install, and one with all extras, install from wheels alone on each system and Python.

uv resolves for a system that it does not run on. A cell says "wheels", or names what would have to be compiled there.
"""

import argparse
import re
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from release.page import ROOT, Failed, person, record, run, table, uv

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {
    "Linux, glibc 2.28, x86-64": "x86_64-manylinux_2_28",
    "Linux, glibc 2.28, arm64": "aarch64-manylinux_2_28",
    "Linux, musl, x86-64": "x86_64-unknown-linux-musl",
    "macOS, arm64": "aarch64-apple-darwin",
    "macOS, x86-64": "x86_64-apple-darwin",
}
HEAD = ("system", "install", *PYTHONS)


def extras() -> list[str]:
    """The extras that people install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [name for name in project["optional-dependencies"] if name not in ("test", "dev")]


def resolved(platform: str, python: str, chosen: Sequence[str], *words: str) -> dict[str, str]:
    """The packages that an install takes, with their versions. Raises `Failed` where there is no answer."""
    where = ["--python-platform", platform, "--python-version", python]
    command = [
        uv(),
        "pip",
        "compile",
        "--quiet",
        "--no-header",
        "--no-annotate",
        *where,
        *(f"--extra={extra}" for extra in chosen),
        *words,
    ]
    printed = run(
        *command, "pyproject.toml", folder=ROOT, environment=person(ROOT / ".venv" / "release" / "home")
    )
    return dict(re.findall(r"^([\w.-]+)==([\w.+!]+)", printed, re.MULTILINE))


def compiled(platform: str, python: str, chosen: Sequence[str]) -> str:
    """What would have to be compiled: packages whose newest version has no wheel there; "wheels" for none."""
    try:
        newest = resolved(platform, python, chosen)
        wheels = resolved(platform, python, chosen, "--only-binary=:all:")
    except Failed as failure:
        found = re.findall(
            r"([A-Za-z][\w-]*)(?:\{[^}]*\})?(?:[<>=!~]+[\w.]+)? has no (?:usable )?wheels", str(failure)
        )
        last = str(failure).splitlines()[-1].strip()
        return f"no wheel: {', '.join(sorted(set(found)))}" if found else f"no answer: {last}"
    behind = sorted(name for name, version in newest.items() if wheels.get(name) != version)
    return f"wheels, older ones of {', '.join(behind)}" if behind else "wheels"


def row(system: str, chosen: Sequence[str]) -> Sequence[str]:
    """One row of the table."""
    cells = [compiled(SYSTEMS[system], python, chosen) for python in PYTHONS]
    print(f"{system} …", file=sys.stderr, flush=True)
    return [system, "all extras" if chosen else "plain", *cells]


def main() -> int:
    """Ask and print the table."""
    parser = argparse.ArgumentParser(prog="python -m release.wheels", description=__doc__)
    parser.add_argument("--record", action="store_true", help="put the rows into platforms.md of the docs")
    given = parser.parse_args()
    wanted = [(system, chosen) for system in SYSTEMS for chosen in ([], extras())]
    with ThreadPoolExecutor(5) as pool:
        rows = list(pool.map(lambda one: row(*one), wanted))
    print(table(HEAD, rows))
    if given.record:
        record(HEAD, rows, 2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
