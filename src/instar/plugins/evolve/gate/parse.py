"""The gate's first stage: a script starts, answers `discover` in time, and keeps its name and its test."""

from collections.abc import Mapping
from typing import Final

import msgspec

from instar.plugin import wire
from instar.plugins.evolve import discovery, protocol, script
from instar.plugins.evolve.candidate import Candidate, CandidateRefused
from instar.plugins.evolve.gate.manifest import BadManifest, Manifest, parse
from instar.plugins.evolve.history.trailers import counted
from instar.plugins.evolve.trial import Trial

NAME: Final = "parse"
LONGEST: Final = 1 << 20
"""Bytes that a prompt may have."""
LARGEST: Final = 1 << 20
"""Bytes that a profile may have."""


class Registered(msgspec.Struct, frozen=True):
    """What a candidate registers, and the manifest that it asks to be held to."""

    registration: discovery.Registration
    manifest: Manifest | None = None


async def hook(
    trial: Trial,
    candidate: Candidate,
    live: discovery.Registration | None,
    prompts: Mapping[str, str],
    timeout: float,
) -> Registered:
    """Start the candidate and ask for its `discover`. Raises `CandidateRefused`."""
    if not candidate.after.content.startswith(b"#!"):
        first = candidate.after.content.partition(b"\n")[0][:80].decode(errors="replace")
        raise CandidateRefused(
            NAME, f"its first line must name its interpreter, such as #!/usr/bin/env python3; it is {first!r}"
        )
    answer = await _discover(trial, candidate, {"prompts": dict(prompts)}, timeout)
    found = discovery.register(candidate.file, answer)
    if found.problems:
        raise CandidateRefused(NAME, "what it registers is malformed:\n" + "\n".join(found.problems))
    if live is not None and found.name != live.name:
        raise CandidateRefused(
            NAME, f"it registers the name {found.name!r}; it must keep the name {live.name!r}"
        )
    if live is not None and live.test is not None and found.test != live.test:
        raise CandidateRefused(
            NAME, f"it registers the test {found.test!r}; it must keep the test {live.test!r}"
        )
    if candidate.before is None and found.test is None:
        raise CandidateRefused(NAME, "a new script must register a test, and bring it")
    try:
        manifest = parse(answer["sandbox"], candidate.path) if "sandbox" in answer else None
    except BadManifest as error:
        raise CandidateRefused(NAME, str(error)) from None
    return Registered(found, manifest)


def prompt(candidate: Candidate) -> str:
    """Look at a prompt's text. Raises `CandidateRefused`."""
    content = candidate.after.content
    if len(content) > LONGEST:
        raise CandidateRefused(NAME, f"a prompt may have {LONGEST} bytes, this one has {len(content)}")
    if b"\0" in content:
        raise CandidateRefused(NAME, "a prompt is text: this one holds a NUL character")
    return f"{counted(len(content), 'byte')} of text"


def profile(candidate: Candidate) -> str:
    """Look at a profile: one JSON object. Raises `CandidateRefused`."""
    content = candidate.after.content
    if len(content) > LARGEST:
        raise CandidateRefused(NAME, f"a profile may have {LARGEST} bytes, this one has {len(content)}")
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise CandidateRefused(NAME, f"a profile is JSON: {error}") from None
    if not isinstance(found, dict):
        raise CandidateRefused(NAME, "a profile is a JSON object")
    return f"{counted(len(content), 'byte')} of JSON"


async def _discover(trial: Trial, candidate: Candidate, given: wire.Plain, timeout: float) -> protocol.Answer:
    try:
        return await script.ask(trial.run, trial.root / candidate.path, "discover", given, timeout)
    except script.UnknownHook:
        return {}
    except script.ScriptFailure as error:
        raise CandidateRefused(NAME, f"it does not answer discover: {error.why}\n{error.printed}") from None
