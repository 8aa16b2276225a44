"""What the tools on hook scripts and on prompts share: reading by lines, and changing through the gate."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from instar.plugin import ToolContext, ToolFailure, ToolResult, wire
from instar.plugins.evolve import edit
from instar.plugins.evolve.alternatives import MOST, Fate
from instar.plugins.evolve.attempt import IDEA, ChangeAttempt, Installed, Progress
from instar.plugins.evolve.candidate import CandidateRefused, Change
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.gate import attempts, score
from instar.plugins.evolve.gate.stages import GateVerdict
from instar.plugins.evolve.history.trailers import ends, one_line
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.probation import prediction
from instar.plugins.evolve.tools.definition import Execute, ToolDefinition, cause_of, tool
from instar.plugins.evolve.trial import TrialFile
from instar.plugins.evolve.workspace import OutsideWorkspace

CONTENT: Final = {"type": "string", "description": "The new whole text of the file."}
WINDOW: Final = {
    "offset": {"type": "integer", "minimum": 1, "description": "The line to start from, counted from 1."},
    "limit": {
        "type": "integer",
        "minimum": 1,
        "description": f"How many lines to read (default {edit.READ_LIMIT}).",
    },
}
EDIT: Final = {
    "oldString": {"type": "string", "description": "The text to replace, exactly as it stands in the file."},
    "newString": {"type": "string", "description": "The text to put in its place, taken literally."},
    "replaceAll": {"type": "boolean", "description": "Replace every occurrence (default false)."},
}
ALTERNATIVES: Final = {
    "type": "array",
    "minItems": 2,
    "maxItems": MOST,
    "items": {
        "type": "object",
        "properties": {
            "content": CONTENT,
            **EDIT,
            "idea": {"type": "string", "description": "In a line, what it tries; kept with the attempt."},
        },
        "additionalProperties": False,
    },
    "description": "The candidates: each a new whole text (content), or an edit of the file as it stands (oldString, "
    "newString).",
}
PROPOSE: Final = (
    "They are tried one after the other, and at most one is installed: the best of those that pass, by evals, then by "
    "what it reaches and changes. You are told what became of each and why."
)
_WHY: Final = 3000
"""Characters of what became of one alternative that the model reads."""
_CLAIM: Final = (
    "An eval in which it is better: it is refused unless that is shown. Left out, it may be no worse."
)
_NOT_COMMITTED: Final = " (not committed: git failed, see the log)"
OPTIONAL: Final = ("offset", "limit", "replaceAll", "expect", "claim", "test")
"""Properties of these tools that may be left out."""


class Files:
    """What the tools on one folder share; the core has validated the arguments.

    `kind` is the name of the argument that names the file; with an s it is the folder.
    """

    kind = ""

    def __init__(self, engine: EvolveEngine) -> None:
        self._engine = engine
        self._creates = engine.config.create == "allow"

    def tool(
        self, description: str, properties: wire.Plain, execute: Execute, way: str = ""
    ) -> ToolDefinition:
        """Return a tool on one file, which its first property names. Earlier versions called that `file`."""
        former = {"file": self.kind}
        return tool(
            description, properties, execute, optional=OPTIONAL, about=self.kind, former=former, way=way
        )

    def terms(self) -> wire.Plain:
        """Return the properties by which a change says what it is to bring."""
        evals = score.find(self._engine.real.root)
        claim: wire.Plain = {"claim": {"enum": evals, "description": _CLAIM}} if evals else {}
        return {"expect": prediction.SCHEMA, **claim}

    async def read(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        """Read a file by lines. Raises `ToolFailure`."""
        path = self._path(args)
        if not self._engine.version(path):
            if self.kind == "prompt":
                return ToolResult("(empty)", title=path)
            raise ToolFailure(f"there is no {path}")
        found = window(self._engine.scripts.workspace.root / path, args)
        return ToolResult(found.output + await self._tried_before(path), found.title)

    async def _change(self, args: wire.Plain, name: str, change: Change, context: ToolContext) -> Installed:
        path = self._path(args)
        cause = cause_of(name, context)
        expect, claim = _expected(path, args), str(args.get("claim", ""))
        try:
            return await self._engine.evolution.change(path, change, cause, expect, _also(args), claim)
        except CandidateRefused as error:
            raise ToolFailure(
                f"{path} was not changed: {error}\n\n(refused at the stage {error.stage}){await self._count(path)} "
                "The workspace is as it was."
            ) from None
        except NotChanged as error:
            raise ToolFailure(str(error)) from None

    async def _propose(self, args: wire.Plain, context: ToolContext) -> tuple[Installed, str]:
        """Propose alternatives; return the change that went live and what became of each. Raises `ToolFailure`."""
        path = self._path(args)
        given = args["alternatives"]
        changes = [_change_of(one, at) for at, one in enumerate(given, 1)]
        expect, also, claim = _expected(path, args), _also(args), str(args.get("claim", ""))
        cause = cause_of(f"{self.kind}_propose", context)

        def says(at: int) -> Progress:
            return lambda stage: context.metadata(title=f"{path}: alternative {at} of {len(given)}: {stage}")

        proposed = [
            ChangeAttempt(
                path, change, cause, says(at), expect, also, claim=claim, idea=str(one.get("idea", ""))
            )
            for at, (change, one) in enumerate(zip(changes, given, strict=True), 1)
        ]
        try:
            fates = await self._engine.evolution.propose(proposed)
        except NotChanged as error:
            raise ToolFailure(str(error)) from None
        for attempt, fate in zip(proposed, fates, strict=True):
            if fate.outcome == "installed":
                return attempt.installed, _became(proposed, fates)
        raise ToolFailure(
            f"{path} was not changed: none of {len(proposed)} alternatives was installed.\n"
            f"{_became(proposed, fates)}\n\nThe workspace is as it was."
        )

    async def _tried_before(self, path: str) -> str:
        """Return what was tried before at a file, as the end of a text; "" where nothing was."""
        storage = self._engine.storage
        try:
            found = await asyncio.to_thread(attempts.past, storage.audit_log, storage.reports, path)
        except OSError as error:
            return f"\n\n(what was tried before at {path} cannot be read: {error})"
        return f"\n\n{attempts.text(found)}" if found else ""

    async def _count(self, path: str) -> str:
        """Return how often changes of a file were refused, once it is more than once."""
        count = await asyncio.to_thread(attempts.refused_since, self._engine.storage.audit_log, path)
        return f" {count} were refused since it last changed: see evolve_attempts." if count > 1 else ""

    def _path(self, args: wire.Plain) -> str:
        real = self._engine.real
        folder, name = f"{self.kind}s", str(args[self.kind])
        try:
            real.resolve(real.root / folder, name)
        except OutsideWorkspace as error:
            raise ToolFailure(str(error)) from None
        return f"{folder}/{name}"


def window(path: Path, args: wire.Plain) -> ToolResult:
    """Return lines of a file. Raises `ToolFailure`."""
    try:
        text = path.read_bytes().decode(errors="replace")
        shown = edit.window(text, args.get("offset", 1), args.get("limit", edit.READ_LIMIT))
    except edit.NoEdit as error:
        raise ToolFailure(f"{path.name}: {error}") from None
    except OSError as error:
        raise ToolFailure(f"{path.name} cannot be read: {error.strerror}") from None
    return ToolResult(shown, title=f"{path.parent.name}/{path.name}")


def editing(args: wire.Plain) -> Change:
    """Return the replacement that an edit asks for."""
    everywhere = bool(args.get("replaceAll", False))
    return lambda text: edit.replace(text, args["oldString"], args["newString"], everywhere=everywhere)[0]


def _change_of(given: wire.Plain, number: int) -> Change:
    """Return the change that the alternative of this number asks for. Raises `ToolFailure`."""
    is_edit = "oldString" in given and "newString" in given
    if is_edit == ("content" in given) or ("oldString" in given) != ("newString" in given):
        raise ToolFailure(f"alternative {number} must have either content, or oldString and newString")
    return editing(given) if is_edit else lambda before: str(given["content"])


def _expected(path: str, args: wire.Plain) -> prediction.Prediction | None:
    try:
        return prediction.parse(args["expect"]) if args.get("expect") is not None else None
    except prediction.Unfit as error:
        raise ToolFailure(f"{path} was not changed: {error}") from None


def _became(proposed: Sequence[ChangeAttempt], fates: Sequence[Fate]) -> str:
    """Return what became of each alternative."""
    lines = []
    for at, (attempt, fate) in enumerate(zip(proposed, fates, strict=True), 1):
        stage = f" at the stage {fate.stage}" if fate.stage else ""
        idea = f" ({one_line(attempt.idea, IDEA)})" if attempt.idea.strip() else ""
        why = f": {ends(fate.why, _WHY)}" if fate.why else ""
        lines.append(f"{at}. {fate.outcome}{stage}{idea}{why}")
    return "\n".join(lines)


def verdict_text(verdict: GateVerdict) -> str:
    """Return what the gate found, a sentence a stage, with the whole replay where it says more."""
    said = []
    if verdict.registration is not None and verdict.registration.test is None:
        said.append("it registers no test, so only its discover was tried.")
    if verdict.registration is not None and verdict.registration.note:
        said.append(f"{verdict.registration.note}.")
    said += [f"{stage.found}." for stage in verdict.stages if stage.name in ("test", "score")]
    if verdict.replay is not None and verdict.replay.total:
        said.append(verdict.replay.text())
    said += [f"It would reach more: {sentence}." for sentence in verdict.raised]
    return "\n".join(said)


def _also(args: Mapping[str, Any]) -> dict[str, TrialFile]:
    """The test that a new script brings, under the script's own stem."""
    if args.get("test") is None:
        return {}
    stem, _, suffix = str(args["hook"]).rpartition(".")
    name = f"{stem}_test.{suffix}" if stem else f"{suffix}_test"
    return {f"tests/{name}": TrialFile(str(args["test"]).encode(), 0o755)}


def commit_text(installed: Installed) -> str:
    """Return the commit of a change in brackets, or that there is none."""
    return f" (commit {installed.commit.id})" if installed.commit else _NOT_COMMITTED


def metadata(installed: Installed, *more: str) -> wire.Plain:
    """Return what people are shown of a change; `more` is what else its summary says."""
    said = list(more)
    if installed.verdict.test is not None:
        said.append("test passed")
    if replay := installed.verdict.replay:
        said.append(f"replayed {replay.replayed} of {replay.total}")
    how = f": {', '.join(said)}" if said else ""
    show = f" · instar evolve show {installed.commit.id}" if installed.commit else ""
    return {
        "summary": f"evolved {installed.path}{how}{show}",
        "file": installed.path.partition("/")[2],
        "diff": installed.diff,
        "commit": installed.commit.id if installed.commit else None,
        "epoch": installed.epoch,
        "test_output": installed.verdict.test,
    }
