"""The verdict of the gate on a candidate that is judged: what its stages found so far."""

from typing import Final

import msgspec

from instar.plugins.evolve.discovery import Registration, ScriptTool
from instar.plugins.evolve.gate.authority import Authority
from instar.plugins.evolve.gate.replay import ReplayReport
from instar.plugins.evolve.gate.report import StagePassed
from instar.plugins.evolve.gate.score import ScoreReport
from instar.plugins.evolve.grants import GrantedVersion
from instar.plugins.evolve.history.trailers import counted, one_line

_DESCRIBED: Final = 200
"""Characters of a tool's description that a summary holds."""


class GateVerdict(msgspec.Struct):
    """A candidate that passed. `raised` is what a person must allow first; empty: it may be installed.

    `registration` is what its script registers, None for a prompt; `test` what its test printed, None without one.
    `settled` is the script's grant once it is installed, and `held` how its version is held.
    """

    stages: tuple[StagePassed, ...] = ()
    registration: Registration | None = None
    test: str | None = None
    replay: ReplayReport | None = None
    score: ScoreReport | None = None
    raised: tuple[str, ...] = ()
    held: GrantedVersion | None = None
    settled: Authority | None = None

    @property
    def ms(self) -> int:
        """What the gate took."""
        return sum(stage.ms for stage in self.stages)

    def learned(self, live: Registration | None, diff: str) -> str:
        """Return in a sentence what is new with the candidate, given what is `live` and its diff."""
        before = {tool.full: tool for tool in live.tools} if live is not None else {}
        after = {tool.full: tool for tool in self.registration.tools} if self.registration is not None else {}
        said = [_new(tool) for name, tool in after.items() if name not in before]
        said += [f"the tool {name} is gone" for name in before if name not in after]
        said += [
            f"the tool {name} is described otherwise"
            for name, tool in after.items()
            if name in before and before[name] != tool
        ]
        lines = diff.split("\n")[2:]
        more, less = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        return f"{'; '.join([*said, ''])}{counted(more, 'line')} added, {less} removed"


def _new(tool: ScriptTool) -> str:
    about = one_line(tool.description, _DESCRIBED).rstrip(".")
    return f"new tool {tool.full}" + (f" ({about})" if about else "")
