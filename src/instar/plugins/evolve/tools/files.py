"""What the tools on hook scripts and on prompts share: reading by lines, and changing through the gate."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from instar.plugin import ToolContext, ToolFailure, ToolResult, wire
from instar.plugins.evolve import edit
from instar.plugins.evolve.attempt import Installed
from instar.plugins.evolve.candidate import CandidateRefused, Change
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.gate import score
from instar.plugins.evolve.gate.stages import GateVerdict
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

    def tool(self, description: str, properties: wire.Plain, execute: Execute) -> ToolDefinition:
        """Return a tool on one file, which its first property names. Earlier versions called that `file`."""
        return tool(
            description, properties, execute, optional=OPTIONAL, about=self.kind, former={"file": self.kind}
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
        return window(self._engine.scripts.workspace.root / path, args)

    async def _change(self, args: wire.Plain, name: str, change: Change, context: ToolContext) -> Installed:
        path = self._path(args)
        cause = cause_of(name, context)
        try:
            expect = prediction.parse(args["expect"]) if args.get("expect") is not None else None
            claim = str(args.get("claim", ""))
            return await self._engine.evolution.change(path, change, cause, expect, _also(args), claim)
        except prediction.Unfit as error:
            raise ToolFailure(f"{path} was not changed: {error}") from None
        except CandidateRefused as error:
            raise ToolFailure(
                f"{path} was not changed: {error}\n\n(refused at the stage {error.stage}) The workspace is as it was."
            ) from None
        except NotChanged as error:
            raise ToolFailure(str(error)) from None

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
