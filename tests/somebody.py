"""Commands as another user than root, whom PostgreSQL and others refuse."""

import os
import pwd
import shutil
from collections.abc import Sequence
from pathlib import Path

USER = "postgres"


def command(*words: str) -> Sequence[str]:
    """Return the command that runs `words` as that user; as ourselves where we are not root.

    The interpreter may lie in root's home, so everything can be read.
    """
    if os.geteuid() != 0:
        return words
    reads = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *reads, *words]


def own(folder: Path) -> Path:
    """Give a folder to that user, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        shutil.chown(folder, USER, pwd.getpwnam(USER).pw_gid)
    return folder
