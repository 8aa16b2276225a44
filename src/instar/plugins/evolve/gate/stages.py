"""What the gate's stages find of a candidate, and its first two, which start it in a copy of the workspace.

Parse: a script answers `discover` in time, and keeps its name and its test. Test: the test that it registered passes.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from instar.plugin import process, wire
from instar.plugins.evolve import discovery, protocol, script
from instar.plugins.evolve.candidate import Candidate, CandidateRefused
from instar.plugins.evolve.discovery import Registration, ScriptTool
from instar.plugins.evolve.gate.authority import Authority
from instar.plugins.evolve.gate.manifest import BadManifest, Manifest, parse
from instar.plugins.evolve.gate.replay import ReplayReport
from instar.plugins.evolve.gate.report import StagePassed
from instar.plugins.evolve.gate.score import ScoreReport
from instar.plugins.evolve.grants import GrantedVersion
from instar.plugins.evolve.history.trailers import counted, one_line
from instar.plugins.evolve.trial import Trial

LARGEST: Final = 1 << 20
"""Bytes that a prompt, or a profile, may have."""
SHOWN: Final = 8192
"""Bytes of a test's output that the model is shown; the end is kept, where test runners say what failed."""
_LIMIT: Final = 4 << 20
_DESCRIBED: Final = 200
"""Characters of a tool's description that a summary holds."""


class GateVerdict(msgspec.Struct):
    """A candidate that passed. `raised` is what a person must allow first; empty: it may be installed.

    Those of `raised` that say which evals did not decide are `undecided`.

    `registration` is what its script registers, None for a prompt; `test` what its test printed, None without one.
    `settled` is the script's grant once it is installed, and `held` how its version is held.
    """

    stages: tuple[StagePassed, ...] = ()
    registration: Registration | None = None
    test: str | None = None
    replay: ReplayReport | None = None
    score: ScoreReport | None = None
    raised: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()
    held: GrantedVersion | None = None
    settled: Authority | None = None

    @property
    def ms(self) -> int:
        """What the gate took."""
        return sum(stage.ms for stage in self.stages)

    @property
    def times(self) -> dict[str, int]:
        """The ms of each stage that was passed."""
        return {stage.name: stage.ms for stage in self.stages}

    def learned(self, live: Registration | None, diff: str) -> str:
        """Return in a sentence what is new with the candidate, given what is `live` and its diff."""
        before = {tool.full: tool for tool in live.tools} if live is not None else {}
        after = {tool.full: tool for tool in self.registration.tools} if self.registration is not None else {}
        said = [_new(tool) for name, tool in after.items() if name not in before]
        said += [f"the tool {name} is gone" for name in before if name not in after]
        said += [_other(before[name], tool) for name, tool in after.items() if before.get(name, tool) != tool]
        lines = diff.split("\n")[2:]
        more, less = (sum(line.startswith(sign) for line in lines) for sign in "+-")
        return f"{'; '.join([*said, ''])}{counted(more, 'line')} added, {less} removed"


def _new(tool: ScriptTool) -> str:
    about = one_line(tool.description, _DESCRIBED).rstrip(".")
    return f"new tool {tool.full}" + (f" ({about})" if about else "")


def _other(before: ScriptTool, after: ScriptTool) -> str:
    if before.patterns != after.patterns:
        return f"the tool {after.full} asks about {', '.join(after.patterns) or 'nothing'} now"
    what = "takes other arguments" if before.parameters != after.parameters else "is described otherwise"
    return f"the tool {after.full} {what}"


class Registered(msgspec.Struct, frozen=True):
    """What a candidate registers, and the manifest that it asks to be held to."""

    registration: Registration
    manifest: Manifest | None = None


async def hook(
    trial: Trial,
    candidate: Candidate,
    live: Registration | None,
    prompts: Mapping[str, str],
    timeout: float,
) -> Registered:
    """Start the candidate and ask for its `discover`. Raises `CandidateRefused`."""
    if not candidate.after.content.startswith(b"#!"):
        first = candidate.after.content.partition(b"\n")[0][:80].decode(errors="replace")
        raise CandidateRefused(
            "parse",
            f"its first line must name its interpreter, such as #!/usr/bin/env python3; it is {first!r}",
        )
    answer = await _discover(trial, candidate, {"prompts": dict(prompts)}, timeout)
    found = discovery.register(candidate.file, answer)
    if found.problems:
        raise CandidateRefused("parse", "what it registers is malformed:\n" + "\n".join(found.problems))
    if live is not None and found.name != live.name:
        raise CandidateRefused(
            "parse", f"it registers the name {found.name!r}; it must keep the name {live.name!r}"
        )
    if live is not None and live.test is not None and found.test != live.test:
        raise CandidateRefused(
            "parse", f"it registers the test {found.test!r}; it must keep the test {live.test!r}"
        )
    if candidate.before is None and found.test is None:
        raise CandidateRefused("parse", "a new script must register a test, and bring it")
    try:
        manifest = parse(answer["sandbox"], candidate.path) if "sandbox" in answer else None
    except BadManifest as error:
        raise CandidateRefused("parse", str(error)) from None
    return Registered(found, manifest)


def prompt(candidate: Candidate) -> str:
    """Look at a prompt's text. Raises `CandidateRefused`."""
    content = _bounded(candidate, "prompt")
    if b"\0" in content:
        raise CandidateRefused("parse", "a prompt is text: this one holds a NUL character")
    return f"{counted(len(content), 'byte')} of text"


def profile(candidate: Candidate) -> str:
    """Look at a profile: one JSON object. Raises `CandidateRefused`."""
    content = _bounded(candidate, "profile")
    try:
        msgspec.json.decode(content, type=dict)
    except msgspec.ValidationError:
        raise CandidateRefused("parse", "a profile is a JSON object") from None
    except msgspec.DecodeError as error:
        raise CandidateRefused("parse", f"a profile is JSON: {error}") from None
    return f"{counted(len(content), 'byte')} of JSON"


def _bounded(candidate: Candidate, kind: str) -> bytes:
    content = candidate.after.content
    if len(content) > LARGEST:
        raise CandidateRefused("parse", f"a {kind} may have {LARGEST} bytes, this one has {len(content)}")
    return content


async def _discover(trial: Trial, candidate: Candidate, given: wire.Plain, timeout: float) -> protocol.Answer:
    try:
        return await script.ask(trial.run, trial.root / candidate.path, "discover", given, timeout)
    except script.UnknownHook:
        return {}
    except script.ScriptFailure as error:
        raise CandidateRefused(
            "parse",
            f"it does not answer discover: {error.why}\n{error.printed}",
            passing=error.kind == "timeout",
        ) from None


async def test(trial: Trial, root: Path, name: str, timeout: float) -> str:
    """Run ``tests/NAME`` and return what it printed; `root` is the workspace. Raises `CandidateRefused`."""
    path = trial.changed(f"tests/{name}") or root / "tests" / name
    if not path.is_file():
        raise CandidateRefused(
            "test", f"its test tests/{name} is missing: a person must add it, or take `test` out of discover"
        )
    if not os.access(path, os.X_OK):
        raise CandidateRefused("test", f"its test tests/{name} is missing its run bit: chmod +x tests/{name}")
    changed = trial.watch()
    try:
        output = await trial.run(
            [str(trial.root / "tests" / name)], timeout=timeout, limit=_LIMIT, merge=True
        )
    except process.ProcessError as error:
        raise CandidateRefused("test", f"its test tests/{name} could not be started: {error}") from None
    shown = tail(output.stdout)
    if touched := changed():
        raise CandidateRefused(
            "test",
            f"while its test tests/{name} ran, {', '.join(touched[:5])} was changed, so the test proves nothing: "
            f"neither it nor the script may change code\n\n{shown}",
        )
    if output.code == 0:
        return shown
    raise CandidateRefused(
        "test",
        f"its test tests/{name} failed: {_ended(output, timeout)}\n\n{shown}",
        passing=output.timed_out,
    )


def tail(output: bytes, limit: int = SHOWN) -> str:
    """Return the last `limit` bytes of `output` as text, and say what was cut."""
    shown = output[-limit:].decode(errors="replace")
    return shown if len(output) <= limit else f"({len(output) - limit} bytes cut)…{shown}"


def _ended(output: process.Output, timeout: float) -> str:
    if output.timed_out:
        limit = f"hook_timeout ({timeout * 1000:.0f} ms), which a person sets in config/evolve.jsonc"
        return f"it timed out: it took longer than {limit}"
    return f"signal {output.signal}" if output.signal is not None else f"exit code {output.code}"
