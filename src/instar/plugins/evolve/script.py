"""Calling one hook script: a process per call, JSON in, JSONL out. Every way to fail has its words.

Source: seed 000 "hook protocol". A timeout ends the script's whole process group.
"""

import json
import logging
import re
import signal
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugin import process, wire
from instar.plugins.evolve import protocol
from instar.plugins.evolve.workspace import VARIABLES

log = logging.getLogger("instar.evolve")

OUTPUT_LIMIT: Final = 10_000_000
"""Bytes that one call may print; more is a failure."""
_CREDENTIAL = re.compile(
    r"((^|_)KEY|APIKEY|ACCESSKEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|_PAT|_AUTH)$",
    re.IGNORECASE,
)
_STDERR_LINES = 50
_TAIL = 2000


class ScriptFailure(Exception):
    """A call that failed. The text says which script, which hook, how long, why and what it printed."""

    def __init__(self, script: str, hook: str, why: str, *, printed: str = "", seconds: float = 0.0) -> None:
        said = f"; it printed: {protocol.clip(printed)}" if printed else ""
        super().__init__(f"{script} {hook}: {why} after {seconds * 1000:.0f} ms{said}")
        self.script, self.hook, self.why = script, hook, why
        self.printed, self.seconds = printed, seconds


class UnknownHook(Exception):
    """The script said that it does not answer this hook: no failure (issue 2)."""


class Place(msgspec.Struct, frozen=True):
    """Where scripts run: the workspace (or a copy of it), their environment, and seconds a call.

    `warm`: a Python script may be run by an interpreter that has already started (issue 5, item 5).
    """

    root: Path
    environment: Mapping[str, str]
    timeout: float
    warm: bool = False


def environment(given: Mapping[str, str], root: Path, passed: Collection[str] = ()) -> dict[str, str]:
    """Return the environment of a hook script: `given` without credentials, and the workspace's name.

    Names that end like a credential (_KEY, TOKEN, SECRET, PASSWORD …) are left out unless they stand in
    `passed`: the model writes these scripts.
    """
    kept = {name: value for name, value in given.items() if name in passed or not _CREDENTIAL.search(name)}
    return kept | dict.fromkeys(VARIABLES, str(root))


async def call(
    processes: process.Processes, path: Path, hook: str, fields: wire.Plain, place: Place
) -> protocol.Answer:
    """Call `hook` of the script at `path` with `fields` on its standard input, and return its answer.

    Log lines and standard error go to the log. Raises `ScriptFailure` and `UnknownHook`.
    """
    try:
        payload = msgspec.json.encode({"hook": hook, **fields})
    except (ValueError, TypeError) as error:
        raise _fail(path.name, hook, f"its input could not be written as JSON ({error})") from None
    try:
        output = await processes.run(
            [str(path), hook],
            cwd=place.root,
            env=place.environment,
            stdin=payload,
            timeout=place.timeout,
            limit=OUTPUT_LIMIT + 1,
            warm=place.warm,
        )
    except process.ProcessError as error:
        raise _fail(path.name, hook, f"could not be started: {error}") from None
    _log_stderr(path.name, hook, output.stderr)
    answer = _answer(path, hook, output, place.timeout)
    log.debug("script=%s hook=%s ms=%.0f keys=%s", path.name, hook, output.duration * 1000, ",".join(answer))
    return answer


def _answer(path: Path, hook: str, output: process.Output, timeout: float) -> protocol.Answer:
    why = _ended_badly(output, timeout)
    printed = output.stdout[-_TAIL:] + b"\n" + output.stderr[-_TAIL:]
    if output.code and protocol.says_unknown(printed, hook):
        raise UnknownHook(f"{path.name} does not answer {hook}")
    try:
        parsed = protocol.parse(output.stdout)
    except protocol.Malformed as error:
        raise _failed(path, hook, output, why or str(error)) from None
    for line in parsed.logs:
        log.info("script=%s hook=%s log=%s", path.name, hook, show(line))
    if why and output.code and protocol.unknown_hook(parsed.answer, hook):
        raise UnknownHook(f"{path.name} does not answer {hook}")
    if why:
        raise _failed(path, hook, output, why)
    return parsed.answer


def _ended_badly(output: process.Output, timeout: float) -> str | None:
    if output.timed_out:
        return f"was ended, since it took longer than hook_timeout ({timeout * 1000:.0f} ms)"
    if output.signal is not None:
        return f"died by signal {output.signal} ({_signal_name(output.signal)})"
    if len(output.stdout) > OUTPUT_LIMIT:
        return f"printed more than {OUTPUT_LIMIT} bytes"
    return f"ended with exit code {output.code}" if output.code else None


def _failed(path: Path, hook: str, output: process.Output, why: str) -> ScriptFailure:
    printed = (output.stdout[:_TAIL] + b"\n" + output.stderr[-_TAIL:]).decode(errors="replace").strip()
    return _fail(path.name, hook, why + _hint(path), printed=printed, seconds=output.duration)


def _fail(script: str, hook: str, why: str, *, printed: str = "", seconds: float = 0.0) -> ScriptFailure:
    failure = ScriptFailure(script, hook, why, printed=printed, seconds=seconds)
    log.warning(
        "script=%s hook=%s failed=%s ms=%.0f printed=%s",
        script,
        hook,
        show(why),
        seconds * 1000,
        show(protocol.clip(printed)),
    )
    return failure


def _hint(path: Path) -> str:
    """Say so when the first line ends in CRLF: the kernel then looks for an interpreter of another name."""
    try:
        with path.open("rb") as file:
            first = file.readline(300)
    except OSError:
        return ""
    if first.startswith(b"#!") and first.endswith(b"\r\n"):
        return " (its first line ends in CRLF, so its interpreter is not found: save it with LF line ends)"
    return ""


def _log_stderr(script: str, hook: str, stderr: bytes) -> None:
    lines = stderr.decode(errors="replace").splitlines()
    for line in lines[:_STDERR_LINES]:
        log.info("script=%s hook=%s stderr=%s", script, hook, show(line))
    if len(lines) > _STDERR_LINES:
        log.info("script=%s hook=%s stderr_lines_left_out=%d", script, hook, len(lines) - _STDERR_LINES)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def show(value: Any) -> str:
    """Return a value as JSON for a log line."""
    return json.dumps(value, ensure_ascii=False, default=str)
