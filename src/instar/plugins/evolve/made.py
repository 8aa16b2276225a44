"""What an order has changed, as commands print it and the server answers."""

from collections.abc import Sequence
from typing import Self

import msgspec

from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.history.commits import WorkspaceCommit


class Made(msgspec.Struct, frozen=True):
    """Files that were changed by an order: the epoch that it made, and its commit ("": git failed, `problem` says how).

    `probation` says how the trial of each file stands that is on trial. `loose` are the scripts that run behind the
    shield alone though their grant is a sandbox: a person put that version there.
    """

    files: list[str]
    epoch: int
    commit: str
    problem: str = ""
    probation: dict[str, str] = {}
    loose: list[str] = []

    @classmethod
    def of(cls, engine: EvolveEngine, files: Sequence[str], epoch: int, commit: object | None) -> Self:
        """Return what was changed."""
        trials = {file: said for file in files if (said := engine.observer.describe(file)) is not None}
        made = commit.id if isinstance(commit, WorkspaceCommit) else ""
        hooks = [(file, file.removeprefix("hooks/")) for file in files if file.startswith("hooks/")]
        loose = [file for file, name in hooks if engine.policy.loose(name, engine.version(file))]
        return cls(list(files), epoch, made, engine.history.problem or "", trials, loose)

    def text(self, did: str) -> str:
        """Return it for a terminal; `did` is what was done."""
        commit = f"commit {self.commit}" if self.commit else self.problem or "as git has it already"
        lines = [f"{did} {', '.join(self.files)} (epoch {self.epoch}, {commit})"]
        lines += [f"{file} is {said}" for file, said in self.probation.items()]
        lines += [
            f"{file} runs behind the shield alone now: what the agent makes of it keeps to the sandbox that was "
            "granted last, or waits for you"
            for file in self.loose
        ]
        return "\n".join(lines)
