"""`instar` started as a process and run to its end, without the price of its imports.

A start is 0.2 s of imports and some hundredths of work, and tests start thousands. So one process for each that
runs tests imports instar once (`tests/parent.py`), and every command is a fork of it: a process with its own
environment, folder, streams and exit, as a fresh one is. What a test says of the start itself (its imports, its
cost, a terminal, signals, another locale, the order of a set in another process) it says of a fresh process.
"""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PARENT = Path(__file__).with_name("parent.py")
LANGUAGE = "C.UTF-8"

_lock = threading.Lock()
_parents: list[tuple["subprocess.Popen[bytes]", socket.socket]] = []


def run(
    arguments: list[str | bytes],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    stdin: bytes | None = None,
    timeout: float = 30.0,
) -> "subprocess.CompletedProcess[bytes]":
    """Run ``python -m instar ARGUMENTS`` to its end, with nothing to read unless `stdin` is given.

    Raises `subprocess.TimeoutExpired` after `timeout` seconds, when the process has been killed.
    """
    argv = [sys.executable, "-m", "instar", *arguments]
    if _is_for_a_fresh_one(environment):
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        return subprocess.run(argv, cwd=cwd, env=environment, capture_output=True, timeout=timeout, **given)
    with _Started(arguments, cwd, environment, stdin) as started:
        out, err = started.communicate(time.monotonic() + timeout)
        if started.code is None:
            raise subprocess.TimeoutExpired(argv, timeout, out, err)
        return subprocess.CompletedProcess(argv, started.code, out, err)


def close() -> None:
    """End the process that forks; it is started again where it is needed again."""
    with _lock:
        while _parents:
            process, control = _parents.pop()
            control.close()
            process.wait()


def _is_for_a_fresh_one(environment: Mapping[str, str]) -> bool:
    """Whether the interpreter would read something of this environment when it starts."""
    return environment.get("LANG") != LANGUAGE or any(
        key.startswith(("PYTHON", "LC_")) for key in environment
    )


def _control() -> socket.socket:
    """The socket of the process that forks, which is started when it is first needed."""
    with _lock:
        if not _parents:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                process = subprocess.Popen(
                    [sys.executable, str(PARENT), str(theirs.fileno())],
                    env={"PATH": os.environ["PATH"], "LANG": LANGUAGE},
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                )
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 21)
            _parents.append((process, ours))
        return _parents[0][1]


class _Started:
    """A command that runs: our ends of its streams, and the socket that tells of its end."""

    def __init__(
        self, arguments: list[str | bytes], cwd: Path, environment: Mapping[str, str], stdin: bytes | None
    ) -> None:
        self.code: int | None = None
        self._told = bytearray()
        self._rest = memoryview(stdin or b"")
        self._teller, theirs = socket.socketpair()
        self._input: int | None = None
        if stdin is None:
            read = os.open(os.devnull, os.O_RDONLY)
        else:
            read, self._input = os.pipe()
        self._out, out = os.pipe()
        self._err, err = os.pipe()
        words = [os.fsdecode(word) for word in arguments]
        request = {"arguments": words, "cwd": str(cwd), "environment": dict(environment)}
        try:
            socket.send_fds(_control(), [json.dumps(request).encode()], [read, out, err, theirs.fileno()])
        finally:
            theirs.close()
            for one in (read, out, err):
                os.close(one)

    def __enter__(self) -> "_Started":
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._out, self._err, *([] if self._input is None else [self._input])):
            os.close(one)
        self._teller.close()

    def communicate(self, until: float) -> tuple[bytes, bytes]:
        """Give it what it reads and return what it printed, all of it: both streams were closed at their far ends.

        Past `until` it is killed, and `code` stays None.
        """
        found = {self._out: bytearray(), self._err: bytearray(), self._teller.fileno(): self._told}
        with selectors.DefaultSelector() as selector:
            for one in found:
                selector.register(one, selectors.EVENT_READ)
            if self._input is not None:
                os.set_blocking(self._input, False)
                selector.register(self._input, selectors.EVENT_WRITE)
            while selector.get_map():
                ready = selector.select(max(0.0, until - time.monotonic()))
                if not ready or time.monotonic() > until:
                    self._kill()
                    return bytes(found[self._out]), bytes(found[self._err])
                for key, _ in ready:
                    if key.fd == self._input:
                        self._feed(selector)
                    elif data := os.read(key.fd, 65536):
                        found[key.fd] += data
                    else:
                        selector.unregister(key.fd)
        if len(told := self._told.split()) < 2:
            raise RuntimeError(f"{PARENT.name} ended before the command did; what it printed says why")
        self.code = int(told[1])
        return bytes(found[self._out]), bytes(found[self._err])

    def _feed(self, selector: selectors.BaseSelector) -> None:
        """Write what fits of what it reads; at the end, or when nobody reads, close its input."""
        assert self._input is not None
        try:
            self._rest = self._rest[os.write(self._input, self._rest[:65536]) :]
        except BrokenPipeError:
            self._rest = self._rest[:0]
        if not self._rest:
            selector.unregister(self._input)
            os.close(self._input)
            self._input = None

    def _kill(self) -> None:
        if len(told := self._told.split()) == 1:
            os.kill(int(told[0]), signal.SIGKILL)
