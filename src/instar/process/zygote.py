"""A warm interpreter: started once, it forks for each call and runs a script as a fresh start would have.

This file is run by the interpreter that the script names, not imported by instar: ``python zygote.py``, with a
SEQPACKET socket as standard input. It uses the standard library of Python 3.8 and later alone. Messages are JSON:

- to us: the environment that we were given; then calls ``{"id", "path", "argv", "env", "cwd", "comm", "policy"?,
  "apply"?}`` with three descriptors, which become 0, 1 and 2; ``{"end": id}`` when a run is over and its group is gone.
- from us: ``{"hello": {...}}`` once; from each fork ``{"id", "pid"}`` before anything of the script ran; from the
  parent ``{"id", "status"}`` with its exit code, or the negative number of the signal.

What a fork cannot reproduce (`_SHOWS`, another encoding, a file that does not compile) the fork starts plainly, by
execve in its place. When the socket is closed, every group is killed and the interpreter ends.
"""

from __future__ import annotations

import sys

_FRESH = [name for name in vars() if name.startswith("__")]
if not getattr(sys.flags, "safe_path", False):
    sys.path_importer_cache.pop(sys.path.pop(0), None)

import argparse
import array
import base64
import collections
import contextlib
import copy
import ctypes
import dataclasses
import datetime
import enum
import fnmatch
import functools
import gc
import glob
import importlib.util
import io
import itertools
import json
import math
import os
import pathlib
import random
import re
import select
import shutil
import signal
import site
import socket
import string
import subprocess
import tempfile
import textwrap
import threading
import time
import traceback
import types
import warnings
from typing import Any, Callable  # noqa: UP035 - Python 3.8

# Imported for the scripts, which find them already there.
WARM = (
    argparse, collections, copy, dataclasses, datetime, enum, fnmatch, functools, glob, io, itertools, math,
    random, shutil, string, subprocess, tempfile, textwrap, time, traceback,
)  # fmt: skip

_LARGEST = 1 << 20  # bytes of a script that is kept compiled
_KEPT = 64  # compiled scripts
_MESSAGE = 1 << 18  # bytes of a message
_SHOWS = re.compile(
    rb"_getframe|f_back|inspect|stacklevel|faulthandler|settrace|setprofile|cProfile|\bpdb\b|tracemalloc"
    rb"|excepthook|print_stack|extract_stack|format_stack|walk_stack|getppid|cmdline|_current_frames|\0"
)
"""Words of a script by which it can see that something stands beneath it: these start plainly."""
_CODING = re.compile(rb"\A(?:[^\n]*\n)?[ \t\f]*#.*?coding[:=][ \t]*(?!utf-?8\b)[-\w.]+", re.IGNORECASE)


Request = Any  # a JSON object, as the top of this file says


class Zygote:
    """The parent of the forks."""

    def __init__(self, control: socket.socket, changes: dict[str, str | None], forked: Any) -> None:
        self.control = control
        self.changes = changes
        self.forked = forked
        self.calls: dict[int, int] = {}  # id: process id, until we hear that the run is over
        self.compiled: dict[str, tuple[bytes, types.CodeType | None]] = {}
        self.applying: dict[str, Callable[[bytes], None]] = {}  # by path
        self.known = set(sys.modules)
        self.ended, self.wakes = os.pipe()
        os.set_blocking(self.wakes, False)
        os.set_blocking(self.ended, False)

    def serve(self) -> None:
        """Answer calls until the socket is closed, which ends this process. Only forks leave, by their end."""
        signal.signal(signal.SIGCHLD, _take)
        signal.set_wakeup_fd(self.wakes, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(self.ended, select.POLLIN)
        gc.freeze()
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if self.ended in ready:
                os.read(self.ended, 4096)
                self.reap()
            if self.control.fileno() in ready:
                self.hear(*self.receive())

    def receive(self) -> tuple[bytes, list[int]]:
        """Return the next message and its descriptors."""
        found = array.array("i")
        data, ancillary, _, _ = self.control.recvmsg(_MESSAGE, socket.CMSG_LEN(found.itemsize * 3))
        for _, _, part in ancillary:
            found.frombytes(part[: len(part) - len(part) % found.itemsize])
        return data, list(found)

    def hear(self, data: bytes, descriptors: list[int]) -> None:
        """Do what a message says; none means that instar is gone."""
        if not data:
            self.end()
        request = json.loads(data)
        if "end" in request:
            self.over(request["end"])
            return
        code, apply = self.code(request["path"]), self.apply(request)
        pid = os.fork()
        if pid == 0:
            self.become(request, descriptors, apply)
            if code is None:
                self.forked.plainly(request)
            self.forked.run(request, code, _FRESH, self.known)
        self.calls[request["id"]] = pid
        for descriptor in descriptors:
            os.close(descriptor)

    def become(self, request: Request, descriptors: list[int], apply: Callable[[bytes], None] | None) -> None:
        """Make this fork what the kernel and the interpreter would have made: all but running the script."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(self.ended)
            os.close(self.wakes)
            self.forked.prepare(request, descriptors, self.changes)
            if apply is not None:
                apply(base64.b64decode(request["policy"]))
            # One that nobody hears was given up: the script may run elsewhere by now.
            self.control.send(json.dumps({"id": request["id"], "pid": os.getpid()}).encode())
        except BaseException:
            # Not begun: the parent reports the end of a fork that never said its number.
            os._exit(126)
        self.control.close()

    def say(self, **message: Any) -> None:
        """Send one message; when the other end is gone, the next read says so."""
        with contextlib.suppress(OSError):
            self.control.send(json.dumps(message).encode())

    def code(self, path: str) -> types.CodeType | None:
        """Return the compiled script, None when it is to be started plainly."""
        try:
            with open(path, "rb", buffering=0) as file:
                source = file.read(_LARGEST + 1)
            known = self.compiled.get(path)
            if known is None or known[0] != source:
                known = source, _compiled(source, path)
        except (OSError, ValueError, SyntaxError, MemoryError, RecursionError, OverflowError):
            return None
        if len(self.compiled) >= _KEPT:
            self.compiled.clear()
        self.compiled[path] = known
        return known[1]

    def apply(self, request: Request) -> Callable[[bytes], None] | None:
        """Return the function that confines a fork, None when nothing does."""
        path = request.get("apply")
        if path is None:
            return None
        if path not in self.applying:
            self.applying[path] = _load(path).apply
            self.known = set(sys.modules)
        return self.applying[path]

    def reap(self) -> None:
        """Wait for what has ended, ours and what was left to us, and report our own."""
        with contextlib.suppress(ChildProcessError):
            pid, status = os.waitpid(-1, os.WNOHANG)
            while pid:
                for call, its in self.calls.items():
                    if its == pid:
                        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
                        self.say(id=call, status=code)
                pid, status = os.waitpid(-1, os.WNOHANG)

    def over(self, call: int) -> None:
        """Forget a run. With the last one ends what left its group: a fork does not carry the run's mark."""
        self.calls.pop(call, None)
        if not self.calls:
            self.kill_children()

    def kill_children(self) -> None:
        """Kill what has come to us from runs that are over."""
        with contextlib.suppress(OSError), open(f"/proc/self/task/{os.getpid()}/children") as file:
            for pid in file.read().split():
                with contextlib.suppress(OSError):
                    os.kill(int(pid), signal.SIGKILL)

    def end(self) -> None:
        """Leave nothing running, and end."""
        for pid in self.calls.values():
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
        self.kill_children()
        os._exit(0)


def _take(number: int, frame: Any) -> None:
    """Take SIGCHLD; the wake-up descriptor says that it came."""


def _compiled(source: bytes, path: str) -> types.CodeType | None:
    """Compile a script; None when a fork would show that it is one. Raises what `compile` raises."""
    if len(source) > _LARGEST or _SHOWS.search(source) or _CODING.match(source):
        return None
    source.decode("utf-8")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
    # A warning is printed at each fresh start, and only there.
    return None if caught else code


def _load(path: str) -> Any:
    """Load one of instar's files by its path, under a name that a script does not meet."""
    name = "_instar_" + pathlib.Path(path).stem
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _adopt() -> None:
    """Let orphans of the forks come to this process rather than to the machine's first one."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def _give_input() -> None:
    """Give this process an empty standard input, from which its forks cannot reach the socket."""
    reading, writing = os.pipe()
    os.close(writing)
    os.dup2(reading, 0)
    os.close(reading)


def _refusal() -> str | None:
    """Why this interpreter cannot serve, None when it can."""
    if sys.version_info < (3, 8):  # noqa: UP036 - that of the script, not instar's
        return "it is older than Python 3.8"
    if len(os.listdir("/proc/self/task")) != 1 or threading.active_count() != 1:
        return "it runs threads from its start"
    if sys.getfilesystemencoding().lower() not in ("utf-8", "utf8"):
        return "its names of files are not UTF-8"
    library = os.path.dirname(os.path.abspath(os.__file__))
    for name in ("sitecustomize", "usercustomize"):
        custom = getattr(sys.modules.get(name), "__file__", None)
        if custom and os.path.dirname(os.path.abspath(custom)) != library:
            return f"{custom} is run at each start"
    return None


def _watched() -> list[str]:
    """Files whose change changes how this interpreter starts."""
    folders = (
        [*site.getsitepackages(), site.getusersitepackages()] if hasattr(site, "getsitepackages") else []
    )
    return [*folders, os.path.join(sys.prefix, "pyvenv.cfg")]


def main() -> None:
    """Say hello, and serve. What the way here (a shim, the locale) changed in the environment, forks change too."""
    control = socket.socket(fileno=os.dup(0))
    _give_input()
    given, now = json.loads(control.recv(_MESSAGE)), dict(os.environ)
    changes = {name: now.get(name) for name in given.keys() | now.keys() if given.get(name) != now.get(name)}
    _adopt()
    control.send(json.dumps({"hello": {"refused": _refusal(), "watched": _watched()}}).encode())
    os.chdir("/")
    forked = _load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "forked.py"))
    # Once here rather than in each fork.
    os.environ.clear()
    Zygote(control, changes, forked).serve()


if __name__ == "__main__":
    main()
