"""A machine of its own for a server that the tests of one file share, and git on it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.server.conftest import Served, environment_in


@contextmanager
def served_in(root: Path, script: str, **more: str) -> Iterator[Served]:
    """Start a server in ``root/project``, whose settings are trusted; `more` are variables."""
    (root / "project").mkdir(exist_ok=True)
    (root / "script.txt").write_text(script)
    environment = {**environment_in(root), "INSTAR_TRUST": "all", **more}
    served = Served([], root / "project", environment)
    try:
        yield served
    finally:
        served.stop()


def git(folder: Path, *args: str) -> str:
    """Run git in a folder and return what it prints."""
    name = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *name, *args], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()
