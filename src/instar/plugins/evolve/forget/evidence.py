"""Evidence: what a change of the agent's was accepted for, as lines of its commit (`Trailers.evidence`).

A line is a kind, a name and, after a colon, words for a person: ``eval speed: 0.5 to 0.8``.
"""

from typing import Final, Literal, get_args

import msgspec

from instar.plugins.evolve.discovery import Registration
from instar.plugins.evolve.forget.uses import TOOL
from instar.plugins.evolve.gate.record import HookCallRecord
from instar.plugins.evolve.gate.stages import GateVerdict
from instar.plugins.evolve.probation.prediction import Prediction

Kind = Literal["tool", "calls", "eval", "prediction", "approval"]
"""`tool`: a tool that is new or takes or says something else; `calls`: recorded calls of a hook that are answered
otherwise; `eval`: one that scored better; `prediction`: the hook that one is about; `approval`: the person who gave it.
"""
_KINDS: Final = get_args(Kind)


class Evidence(msgspec.Struct, frozen=True):
    """One thing that a change was accepted for."""

    kind: Kind
    name: str

    @property
    def part(self) -> str:
        """The hook, or the tool, whose calls it is about, as `uses` counts them; "" for another kind."""
        return {"tool": f"{TOOL} {self.name}", "calls": self.name}.get(self.kind, "")


def found(
    verdict: GateVerdict, live: Registration | None, expect: Prediction | None, approved_by: str
) -> list[str]:
    """Return what a candidate is accepted for, given what its script registered before."""
    before = () if live is None else live.tools
    tools = () if verdict.registration is None else verdict.registration.tools
    lines = [f"tool {tool.name}" for tool in tools if tool not in before]
    if verdict.replay is not None:
        others = [one.record for one in verdict.replay.judged if one.verdict in ("changed", "mended")]
        parts = [_part(one) for one in others]
        lines += [f"calls {part}: {parts.count(part)} answered otherwise" for part in dict.fromkeys(parts)]
    if verdict.score is not None:
        better = [line for line in verdict.score.lines if line.name in verdict.score.better]
        lines += [f"eval {one.name}: {one.reference:g} to {one.candidate:g}" for one in better]
    lines += [] if expect is None else [f"prediction {expect.hook}"]
    return lines + ([f"approval {approved_by}"] if approved_by else [])


def read(lines: list[str]) -> tuple[Evidence, ...]:
    """Return what the lines of a commit say; a line of another form says nothing."""
    pieces = [line.partition(":")[0].partition(" ") for line in lines]
    return tuple(Evidence(kind, name) for kind, _, name in pieces if kind in _KINDS and name)  # type: ignore[arg-type]


def _part(record: HookCallRecord) -> str:
    if record.hook != TOOL:
        return record.hook
    return f"{TOOL} {msgspec.json.decode(record.stdin, type=dict).get('tool', '')}"
