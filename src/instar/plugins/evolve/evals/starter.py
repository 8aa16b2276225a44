"""A first set of evals, made of the workspace's own recorded calls.

Each is a call of a hook with an input that was recorded, without its secrets, and checks that its answer is still the
same. What the live version does not answer twice alike in a sandbox is left out: no candidate could meet it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import wire
from instar.plugins.evolve.evals.case import Case, Check
from instar.plugins.evolve.evals.run import CaseRunner
from instar.plugins.evolve.gate.record import HookCallRecord
from instar.plugins.evolve.gate.score import FOLDER, Failed
from instar.plugins.evolve.trial import Changes

CASES: Final = 3
"""Evals for each hook of a script."""
_TRIED: Final = 12
"""Records of one hook that are tried, newest first."""
_LARGEST: Final = 8192
"""Characters of an answer that is compared, and of an input."""
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]+")


class StarterSet(msgspec.Struct, frozen=True):
    """What was written: names in ``evals/``, and a sentence for each hook of which nothing could be made."""

    written: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def text(self) -> str:
        """Return it for a terminal."""
        lines = [f"wrote {FOLDER}/{name}" for name in self.written] or [
            "wrote nothing: no recorded call gives an eval"
        ]
        lines += self.left_out
        if self.written:
            lines.append(
                "Read them: secrets that instar knows were taken out of the inputs, others may stand there. Then: "
                "instar evolve accept"
            )
        return "\n".join(lines)


async def write(
    root: Path, records: Sequence[HookCallRecord], runner: CaseRunner, live: Changes, until: float
) -> StarterSet:
    """Write evals of `records`, newest first, into the workspace `root`; a file that is there is left as it is.

    Raises `NoTrial`, and `OSError` where a file cannot be written.
    """
    written, left_out = [], []
    for (script, hook), those in _hooks(records).items():
        made = 0
        for record in _distinct(those):
            if made == CASES:
                break
            text = await _made(record, runner, live, until)
            made += text is not None
            name = f"{_ODD.sub('-', Path(script).stem)}-{hook}-{made}.md"
            if text is not None and _put(root / FOLDER / name, text):
                written.append(name)
        if not made:
            left_out.append(
                f"hooks/{script} {hook}: no recorded call has an answer that comes out alike twice"
            )
    return StarterSet(tuple(written), tuple(left_out))


def _hooks(records: Sequence[HookCallRecord]) -> Mapping[tuple[str, str], list[HookCallRecord]]:
    found: dict[tuple[str, str], list[HookCallRecord]] = {}
    for record in records:
        if record.answer:
            found.setdefault((record.script, record.hook), []).append(record)
    return dict(sorted(found.items()))


def _distinct(records: Iterable[HookCallRecord]) -> Iterator[HookCallRecord]:
    """The newest records, one of each input but for the session that it was recorded in."""
    seen: set[bytes] = set()
    for record in records:
        given = {key: value for key, value in _input(record).items() if key != "session"}
        mark = msgspec.json.encode(given, order="sorted")
        if mark not in seen and len(mark) <= _LARGEST:
            seen.add(mark)
            yield record
        if len(seen) == _TRIED:
            return


def _input(record: HookCallRecord) -> wire.Plain:
    """What a hook was given. The prompts are those of the version that is measured."""
    given = msgspec.json.decode(record.stdin, type=dict[str, object])
    return {key: value for key, value in given.items() if key not in ("hook", "prompts")}


async def _made(record: HookCallRecord, runner: CaseRunner, live: Changes, until: float) -> str | None:
    """The text of an eval; None where its answer is another one each time, or none."""
    call = f"{record.script} {record.hook}"
    body = json.dumps(_input(record), indent=2, ensure_ascii=False)
    case = Case("starter", body, (Check("equals", {}),), (record.script, record.hook))
    try:
        one, two = [await runner.run(case, live, until) for _ in range(2)]
    except Failed:
        return None
    if one.why or two.why:
        return None
    first, second = msgspec.json.decode(one.answer, type=dict), msgspec.json.decode(two.answer, type=dict)
    same = {key: value for key, value in first.items() if key in second and second[key] == value}
    checks = [f"  - equals: {json.dumps({key: value}, ensure_ascii=False)}" for key, value in same.items()]
    if not checks or sum(map(len, checks)) > _LARGEST:
        return None
    return "\n".join(["---", f"call: {call}", "checks:", *checks, "---", body, ""])


def _put(path: Path, text: str) -> bool:
    """Write a file; False where there is one."""
    path.parent.mkdir(exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True
