"""Changes of a workspace that end on the way; as a program, `python -m tests.plugins.evolve.crash`, killed ones.

A line of JSON on standard input is one case (`root`, `home`, `operation`, `step`, `nth`); it is played in a fork that
ends itself by SIGKILL when the step is named for the nth time. The line in answer is how the fork ended.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.history.repository import WorkspaceRepository
from instar.plugins.evolve.ledger.install import Installer
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.plugins.evolve.trial import TrialFile
from instar.process import Processes

NEW = TrialFile(b"#!/bin/sh\necho new\n", 0o755)
OLD = TrialFile(b"#!/bin/sh\necho older\n", 0o700)


class Killed(BaseException):
    """Ends a change as a kill does: nothing catches it."""


def kill() -> None:
    """End this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def fail() -> None:
    """End what is done here."""
    raise Killed


class Half:
    """A commit whose git ends in the middle."""

    def __init__(self, root: Path, updated: bool, end: Callable[[], None]) -> None:
        self._root = root
        self._updated = updated
        self._end = end

    async def commit(self, files: Any, message: str) -> None:
        """Move HEAD, if `updated`, but not the index; leave the locks of a git that is gone."""
        if self._updated:
            other = {**os.environ, "GIT_INDEX_FILE": ".git/other"}
            self._git("read-tree", "HEAD", env=other)
            self._git("add", "--all", "--", *files, env=other)
            tree = self._git("write-tree", env=other)
            self._git("update-ref", "HEAD", self._git("commit-tree", "-p", "HEAD", "-m", message, tree))
        else:
            (self._root / ".git" / "HEAD.lock").touch()
        (self._root / ".git" / "index.lock").touch()
        self._end()

    def _git(self, *args: str, **how: Any) -> str:
        given = ["git", "-c", "user.name=x", "-c", "user.email=x@x", *args]
        return subprocess.run(
            given, cwd=self._root, check=True, capture_output=True, text=True, **how
        ).stdout.strip()


async def play(case: dict[str, Any], end: Callable[[], None] = kill) -> None:
    """Play one case, with `end` at its step; raises what the operation raises."""
    root, left = Path(case["root"]), [case["nth"]]

    def step(name: str) -> None:
        if name == case["step"]:
            left[0] -= 1
            if left[0] == 0:
                end()

    processes = Processes()
    ledger, repository = Ledger(Path(case["home"]), root), WorkspaceRepository(processes, root)
    commit = History(processes, root).commit
    if case["step"] in ("git before", "git after"):
        commit = Half(root, case["step"] == "git after", end).commit  # type: ignore[assignment]
    installer = Installer(ledger, repository, commit, step=step)
    try:
        await installer.open()
        if case["operation"] != "open":
            await OPERATIONS[case["operation"]](installer)
    finally:
        await processes.close()


OPERATIONS: dict[str, Any] = {
    "install": lambda it: it.install({"hooks/bot.sh": NEW}, "install"),
    "create": lambda it: it.install({"hooks/new.sh": NEW, "tests/deep/new.sh": NEW}, "create"),
    "replace two": lambda it: it.install({"hooks/bot.sh": NEW, "prompts/chat.md": TrialFile(b"new")}, "two"),
    "delete": lambda it: it.install({"hooks/bot.sh": None}, "delete"),
    "rollback": lambda it: it.install({"hooks/bot.sh": OLD}, "rollback"),
    "refuse": lambda it: it.install({"hooks/bot.sh": NEW, "hooks/../state/x": NEW}, "refuse"),
    "accept": lambda it: it.accept("accept"),
    "restore": lambda it: it.restore("restore"),
}


def serve(play: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    """Play each case of standard input, a line of JSON, in a fork of its own; answer with how the fork ended."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            try:
                asyncio.run(play(json.loads(line)))
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(play)
