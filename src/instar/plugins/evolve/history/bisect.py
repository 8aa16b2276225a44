"""Bisect: finds the change of a workspace after which a command began to fail, by sandboxed runs.

Each run is in a copy of the workspace as it was at a commit, whole: a test that the command names in ``tests/`` is that
commit's, and what is not committed is not there. Exit code 0 is good, 125 says that it cannot be told there, as for
``git bisect``; every other one, a signal and the time limit are bad.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Literal

import msgspec

from instar.plugin import process, sandbox
from instar.plugins.evolve.history import timeline, tree
from instar.plugins.evolve.history.checkout import ReplayCheckouts
from instar.plugins.evolve.history.repository import FAILED, INITIAL, Revision, Revisions, whole
from instar.plugins.evolve.history.timeline import Change
from instar.plugins.evolve.history.trailers import counted, one_line, plain
from instar.plugins.evolve.trial import Trials

Verdict = Literal["good", "bad", "unknown"]
"""What a look at one position says; unknown: it cannot be told there."""


CANNOT_TELL: Final = 125
TIMEOUT: Final = 60.0

_SHOWN: Final = 2000


class Look(msgspec.Struct, frozen=True):
    """One commit that is looked at: before its run `verdict` is empty, afterwards what it said.

    `number` counts from 1; about `left` more follow. `said` is the end of the output and how it ended; `seconds` how
    long the command took. A commit with the files of one that was looked at is not run again.
    """

    number: int
    left: int
    commit: str
    subject: str
    verdict: Verdict | Literal[""] = ""
    seconds: float = 0.0
    said: str = ""

    def line(self) -> str:
        """Return it as one line."""
        what = self.verdict or f"running ({f'about {self.left} more' if self.left else 'the last'})"
        return f"run {self.number}: {self.commit[:7]} {one_line(self.subject, 100)}: {what}"


Progress = Callable[[Look], None]
"""Is told of each run as it begins and as it ends."""


class BisectResult(msgspec.Struct, frozen=True):
    """What a bisect found: `suspects` is the change, or more where some could not be told; none: `problem` says why.

    `runs` are the looks in their order, `said` is what the command printed at the first bad one, `notes` what to know.
    """

    command: str
    suspects: list[Change]
    runs: list[Look]
    said: str = ""
    problem: str = ""
    notes: list[str] = []

    def text(self) -> str:
        """Return it for a terminal."""
        lines = [self.problem] if self.problem else []
        if len(self.suspects) == 1:
            lines += ["the command began to fail with this change:"]
        elif self.suspects:
            lines += ["the command began to fail with one of these changes; at the others it cannot be told:"]
        for change in self.suspects:
            lines += [change.line(), *(f"  {detail}" for detail in change.details())]
            lines += [f"  file: {one_line(file)}" for file in change.files]
        lines += ["it said:", *(f"  {line}" for line in plain(self.said).split("\n"))] if self.said else []
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes), counted(len(self.runs), "run")])


class _Aborted(Exception):
    """The ends are not as they must be; the text says how."""


class Bisect:
    """Bisects of one workspace. `timeout`: seconds for one run."""

    def __init__(
        self,
        processes: process.Processes,
        root: Path,
        trials: Trials,
        *,
        timeout: float = TIMEOUT,
        progress: Progress = lambda look: None,
    ) -> None:
        self._processes = processes
        self._root = root
        self._trials = trials
        self._timeout = timeout
        self._progress = progress
        self._revisions = Revisions(processes, root)

    async def run(self, command: str, good: str = INITIAL, bad: str = "HEAD") -> BisectResult:
        """Find the change between `good` and `bad` after which the shell command `command` began to fail.

        Both ends are tried, `bad` first. On cancellation the running child is ended and nothing is left behind. Raises
        `repository.NoSuchChange`, `trial.NoTrial`, `git.GitError` and `process.ProcessError`.
        """
        row = await self._row(good, bad)
        notes = await self._notes(command)
        if len(row) < 2:
            problem = (
                f"{bad} is not later than {good} in the workspace's history: there is nothing between them"
            )
            return BisectResult(command, [], [], problem=problem, notes=notes)
        async with self._checkouts() as checkouts:
            run = _Run(self._trials, checkouts, command, self._timeout, self._progress)
            try:
                suspects = await run.search(row)
            except _Aborted as error:
                return BisectResult(command, [], run.looks, run.said, str(error), notes)
        return BisectResult(
            command, [timeline.of_commit(one) for one in suspects], run.looks, run.said, notes=notes
        )

    async def _row(self, good: str, bad: str) -> list[Revision]:
        """The commits from `good` to `bad`, oldest first, less those that changed no file; empty if out of order."""
        first, last = await self._revisions.find(good), await self._revisions.find(bad)
        line = await self._revisions.line(last.id)
        start = next((at for at, one in enumerate(line) if one.id == first.id), len(line))
        row = line[start : start + 1]
        for one in line[start + 1 :]:
            if one.tree != row[-1].tree:
                row.append(one)
        return row

    async def _notes(self, command: str) -> list[str]:
        notes = []
        try:
            loose = await self._revisions.uncommitted()
        except FAILED:
            loose = []
        if loose:
            shown = ", ".join(one_line(file, 100) for file in loose[:5])
            notes.append(
                f"what is not committed is not part of it: {shown}{' ...' if len(loose) > 5 else ''}"
            )
        if "tests/" in command:
            notes.append("files in tests/ were each commit's own, not today's")
        if not self._trials.enforced:
            notes.append("there is no sandbox on this machine: the command ran as you")
        return notes

    @asynccontextmanager
    async def _checkouts(self) -> AsyncIterator[ReplayCheckouts]:
        beside = await asyncio.to_thread(tree.place_for_copy, self._root)
        folder = Path(tempfile.mkdtemp(prefix="instar-bisect-", dir=beside))
        try:
            yield ReplayCheckouts(self._processes, self._root, folder, kept=1)
        finally:
            # At once and not in a thread: also when this is cancelled, and cancelled again.
            sandbox.remove(folder)
            shutil.rmtree(folder, ignore_errors=True)


class _Run:
    """One search: what was looked at, and what the command said at the oldest bad commit so far."""

    def __init__(
        self, trials: Trials, checkouts: ReplayCheckouts, command: str, timeout: float, progress: Progress
    ) -> None:
        self._trials = trials
        self._checkouts = checkouts
        self._command = command
        self._timeout = timeout
        self._progress = progress
        self._known: dict[str, Look] = {}
        self.looks: list[Look] = []
        self.said = ""

    async def search(self, row: Sequence[Revision]) -> Sequence[Revision]:
        """Return the commits of which one is the culprit: more than one only beside such as cannot be told.

        Raises `_Aborted`.
        """
        good, bad, skipped = 0, len(row) - 1, set[int]()
        await self._demand("bad", row[bad], bad.bit_length() + 1)
        await self._demand("good", row[good], bad.bit_length())
        while found := [at for at in range(good + 1, bad) if at not in skipped]:
            at = found[len(found) // 2]
            look = await self._look(row[at], (len(found) // 2).bit_length())
            if look.verdict == "unknown":
                skipped.add(at)
            elif look.verdict == "good":
                good = at
            else:
                bad, self.said = at, look.said
        return row[good + 1 : bad + 1]

    async def _demand(self, wanted: Verdict, commit: Revision, left: int) -> None:
        look = await self._look(commit, left)
        named = f"{commit.short} ({one_line(commit.subject, 100)})"
        if wanted == "bad" or look.verdict != "good":
            self.said = look.said
        if look.verdict == wanted:
            return
        problem = {
            "good": f"the command passes at the newest commit, {named}: there is no failure to look for",
            "bad": f"the command fails at the oldest commit too, {named}: name a later one at which it passed",
            "unknown": f"it cannot be told at {named} whether the command fails: name another end",
        }
        raise _Aborted(problem[look.verdict or "unknown"])

    async def _look(self, commit: Revision, left: int) -> Look:
        """Run the command at a commit; one with files that were run before is not run again."""
        look = Look(len(self.looks) + 1, left, commit.id, commit.subject)
        known = self._known.get(commit.tree)
        if known is None:
            self._progress(look)
            verdict, seconds, said = await self._try(commit.id)
            look = msgspec.structs.replace(look, verdict=verdict, seconds=seconds, said=said)
            self._known[commit.tree] = look
            self.looks.append(look)
            self._progress(look)
            return look
        return msgspec.structs.replace(look, verdict=known.verdict, said=known.said)

    async def _try(self, commit: str) -> tuple[Verdict, float, str]:
        # Not cut short: its thread would write into a folder that is being removed.
        checkout = await whole(self._checkouts.at(commit))
        if checkout.problem is not None:
            return "unknown", 0.0, checkout.problem
        async with self._trials.copy(checkout.folder, {}) as trial:
            output = await trial.run(["sh", "-c", self._command], timeout=self._timeout, merge=True)
        await whole(self._checkouts.prune())
        verdict: Verdict = "good" if output.code == 0 else "unknown" if output.code == CANNOT_TELL else "bad"
        return verdict, round(output.duration, 3), _said(output, self._timeout)


def _said(output: process.Output, timeout: float) -> str:
    printed = plain(output.stdout.decode(errors="replace")).strip()
    tail = printed if len(printed) <= _SHOWN else f"...{printed[-_SHOWN:]}"
    if output.timed_out:
        end = f"it did not end within {timeout:g} s"
    elif output.signal is not None:
        end = f"signal {output.signal} ended it"
    else:
        end = f"exit code {output.code}"
    return f"{tail}\n{end}" if tail else end
