"""Calling one hook script: a process per call, JSON in, JSONL out. Every way to fail has its words.

Source: opencode-evolve's README, "Hook protocol". A timeout ends the script's whole process group.
"""

import json
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec

from instar.plugin import process, wire
from instar.plugins.evolve import protocol

log = logging.getLogger("instar.evolve")

OUTPUT_LIMIT: Final = 10_000_000
"""Bytes that one call may print; more is a failure."""
DISCOVER: Final = 5.0
"""Seconds that a call of `discover` may take at most: every start waits for it."""
_STDERR_LINES = 50
_TAIL = 2000


Kind = Literal["crash", "signal", "timeout", "malformed", "flood", "unstarted"]
"""How a call fails: an exit code other than 0, a signal, its time, no lines of JSON, too many, or it did not start."""


class ScriptFailure(Exception):
    """A call that failed. The text says which script, which hook, how long, why and what it printed.

    `recovered`: a `recover` hook or prompts/recover.md had something to say to it.
    """

    def __init__(
        self,
        script: str,
        hook: str,
        why: str,
        *,
        kind: Kind = "crash",
        printed: str = "",
        seconds: float = 0.0,
    ) -> None:
        said = f"; it printed: {protocol.clip(printed)}" if printed else ""
        super().__init__(f"{script} {hook}: {why} after {seconds * 1000:.0f} ms{said}")
        self.script, self.hook, self.why = script, hook, why
        self.kind, self.printed, self.seconds = kind, printed, seconds
        self.recovered = False


class UnknownHook(Exception):
    """The script said that it does not answer this hook: no failure."""


class ScriptCall(msgspec.Struct, frozen=True):
    """One call that came to an end: its input, and what it answered, or how it failed.

    `at` is its beginning in ms since the epoch, `ms` its length. `kind` is None for an answer, "unknown" where it
    does not know the hook, else how it failed.
    """

    hook: str
    stdin: bytes
    at: int
    ms: float
    answer: protocol.Answer = {}
    kind: Kind | Literal["unknown"] | None = None
    why: str = ""


class ScriptEnvironment(msgspec.Struct, frozen=True):
    """Where scripts run: the workspace, their environment, and seconds a call.

    `warm`: a Python script may be run by an interpreter that has already started. `confine` says what
    it may reach; None: what its person may. `watched` notices what it changes of guarded places.
    """

    root: Path
    environment: Mapping[str, str]
    timeout: float
    warm: bool = False
    confine: process.Confinement | None = None
    watched: Callable[[], AbstractContextManager[None]] = nullcontext


class ScriptRunner(Protocol):
    """Starts a script, in the workspace or in a trial. Raises `process.ProcessError`."""

    async def __call__(
        self, argv: Sequence[str], *, stdin: bytes, timeout: float, limit: int
    ) -> process.Output:
        """Run `argv` to its end."""
        ...


async def call(
    processes: process.Processes,
    path: Path,
    hook: str,
    fields: wire.Plain,
    place: ScriptEnvironment,
    told: Callable[[ScriptCall], None] = lambda called: None,
) -> protocol.Answer:
    """Call `hook` of the script at `path` with `fields` on its standard input, and return its answer.

    Log lines and standard error go to the log; `told` hears of a call that came to its end. Raises `ScriptFailure` and
    `UnknownHook`.
    """
    run = partial(
        processes.run, cwd=place.root, env=place.environment, warm=place.warm, confine=place.confine
    )
    with place.watched():
        return await ask(run, path, hook, fields, place.timeout, told)


async def ask(
    run: ScriptRunner,
    path: Path,
    hook: str,
    fields: wire.Plain,
    timeout: float,
    told: Callable[[ScriptCall], None] = lambda called: None,
) -> protocol.Answer:
    """Do as `call` does, with the script started by `run`. `told` hears of a call that came to its end."""
    try:
        payload = msgspec.json.encode({"hook": hook, **fields})
    except (ValueError, TypeError) as error:
        raise _fail(path.name, hook, f"its input could not be written as JSON ({error})") from None
    if hook == "discover":
        timeout = min(timeout, DISCOVER)
    at = int(time.time() * 1000)
    try:
        output = await run([str(path), hook], stdin=payload, timeout=timeout, limit=OUTPUT_LIMIT + 1)
        _log_stderr(path.name, hook, output.stderr)
        answer = _answer(path, hook, output, timeout)
    except process.ProcessError as error:
        if not error.closing:
            told(ScriptCall(hook, payload, at, 0.0, kind="unstarted", why=str(error)))
        raise _fail(path.name, hook, f"could not be started: {error}", kind="unstarted") from None
    except UnknownHook:
        told(ScriptCall(hook, payload, at, output.duration * 1000, kind="unknown"))
        raise
    except ScriptFailure as error:
        told(ScriptCall(hook, payload, at, output.duration * 1000, kind=error.kind, why=error.why))
        raise
    told(ScriptCall(hook, payload, at, output.duration * 1000, answer))
    log.debug("script=%s hook=%s ms=%.0f keys=%s", path.name, hook, output.duration * 1000, ",".join(answer))
    return answer


def _answer(path: Path, hook: str, output: process.Output, timeout: float) -> protocol.Answer:
    why = _ended_badly(output, timeout)
    printed = output.stdout[-_TAIL:] + b"\n" + output.stderr[-_TAIL:]
    if output.code and protocol.says_unknown(printed, hook):
        raise UnknownHook(f"{path.name} does not answer {hook}")
    if why and len(output.stdout) > OUTPUT_LIMIT:
        # Millions of lines, which take seconds to read and say nothing more.
        raise _failed(path, hook, output, why)
    try:
        parsed = protocol.parse(output.stdout)
    except protocol.Malformed as error:
        raise _failed(path, hook, output, why or str(error), "malformed") from None
    for line in parsed.logs:
        log.info("script=%s hook=%s log=%s", path.name, hook, show(line))
    if why and output.code and protocol.unknown_hook(parsed.answer, hook):
        raise UnknownHook(f"{path.name} does not answer {hook}")
    if why:
        raise _failed(path, hook, output, why)
    return parsed.answer


def _ended_badly(output: process.Output, timeout: float) -> str | None:
    if output.timed_out:
        limit = "a discover may take" if timeout == DISCOVER else "hook_timeout"
        return f"was ended, since it took longer than {limit} ({timeout * 1000:.0f} ms)"
    if output.signal is not None:
        return f"died by signal {output.signal} ({_signal_name(output.signal)})"
    if len(output.stdout) > OUTPUT_LIMIT:
        return f"printed more than {OUTPUT_LIMIT} bytes"
    return f"ended with exit code {output.code}" if output.code else None


def _failed(
    path: Path, hook: str, output: process.Output, why: str, kind: Kind | None = None
) -> ScriptFailure:
    printed = (output.stdout[:_TAIL] + b"\n" + output.stderr[-_TAIL:]).decode(errors="replace").strip()
    kind = _kind(output) or kind or "crash"
    return _fail(path.name, hook, why + _hint(path), kind=kind, printed=printed, seconds=output.duration)


def _kind(output: process.Output) -> Kind | None:
    if output.timed_out:
        return "timeout"
    if output.signal is not None:
        return "signal"
    if len(output.stdout) > OUTPUT_LIMIT:
        return "flood"
    return "crash" if output.code else None


def _fail(
    script: str, hook: str, why: str, *, kind: Kind = "crash", printed: str = "", seconds: float = 0.0
) -> ScriptFailure:
    failure = ScriptFailure(script, hook, why, kind=kind, printed=printed, seconds=seconds)
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
    """Return a value as JSON for a log line, which is UTF-8 also where a file's name is not."""
    return json.dumps(value, ensure_ascii=False, default=str).encode(errors="backslashreplace").decode()
