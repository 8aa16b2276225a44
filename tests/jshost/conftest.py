"""JavaScript plugins are run by the node, or bun, of this machine. Where there is none, nothing here is collected.

INSTAR_NPM=1 collects the tests that need packages of the real registry too (`make test-js`).
"""

import os
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.turn import house

from instar.testing import Machine

__all__ = ["house"]

collect_ignore_glob = [
    *([] if shutil.which("node") else ["test_*.py"]),
    *([] if os.environ.get("INSTAR_NPM") else ["test_npm_*.py"]),
]

Write = Callable[..., Path]


@pytest.fixture
def write(house: Machine) -> Write:
    """Write a plugin of the project, or another file beside it."""

    def written(source: str, name: str = "mine.js", folder: str = ".opencode/plugin") -> Path:
        path = house.folder / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source), "utf-8")
        return path

    return written


def programs(folder: Path, *more: str) -> Path:
    """A folder of programs that has no bun."""
    made = folder / "bin"
    made.mkdir()
    for name in ("sh", "git", *more):
        (made / name).symlink_to(str(shutil.which(name)))
    return made
