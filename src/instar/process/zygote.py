"""A warm interpreter: a launcher whose forks run a Python script, in the interpreter that the script names.

``python zygote.py`` is run by that interpreter, Python 3.9 or later, not imported by instar. `launcher` says how it
is talked to; ``argv`` begins with the script's path. A script that does not compile, or warns as it is compiled, is
refused, and instar starts it plainly: Python then says so itself.
"""

from __future__ import annotations

import sys

if not getattr(sys.flags, "safe_path", False):
    sys.path_importer_cache.pop(sys.path.pop(0), None)

import _socket
import argparse
import atexit
import base64
import builtins
import collections
import contextlib
import copy
import dataclasses
import datetime
import enum
import fnmatch
import functools
import gc
import glob
import importlib.machinery
import io
import itertools
import json
import marshal
import math
import os
import pathlib
import random
import re
import shutil
import site
import string
import subprocess
import tempfile
import textwrap
import threading
import time
import traceback
import types
import warnings
from typing import TYPE_CHECKING, Any, NoReturn

# Imported for the scripts, which find them already there.
WARM = (
    argparse, base64, collections, contextlib, copy, dataclasses, datetime, enum, fnmatch, functools, glob, io,
    itertools, math, pathlib, random, re, shutil, string, subprocess, tempfile, textwrap, time, traceback,
)  # fmt: skip

_KEPT = 64  # compiled scripts
_MESSAGE = 1 << 18  # bytes
_FAILED_FLUSH = 120


def load(path: str) -> Any:
    """Return the module of one of instar's files, which is not among those that a script finds."""
    name = "_instar_" + pathlib.Path(path).stem
    module = types.ModuleType(name)
    importlib.machinery.SourceFileLoader(name, path).exec_module(module)
    return module


if TYPE_CHECKING:
    from instar.process import launcher
else:
    launcher = load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher.py"))


class Zygote(launcher.Launcher):
    """The parent of the forks; `changes` are what the way here (a shim, the locale) changed in the environment."""

    def __init__(self, control: _socket.socket, changes: dict[str, str | None]) -> None:
        super().__init__(control)
        self.changes = changes
        self.compiled: dict[str, tuple[bytes, types.CodeType]] = {}
        self.known = set(sys.modules)

    def prepared(self, request: Any) -> types.CodeType | None:
        """Return the compiled script."""
        # What confines the fork is loaded once, here, and not in each.
        if request["applies"] and super().prepared(request) is None:
            return None
        # Folders may have changed since they were read.
        sys.path_importer_cache.clear()
        path = request["argv"][0]
        try:
            source = pathlib.Path(path).read_bytes()
            known = self.compiled.get(path)
            if known is not None and known[0] == source:
                return known[1]
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                code: types.CodeType = compile(source, path, "exec", dont_inherit=True)
        except Exception:
            return None
        if len(self.compiled) >= _KEPT:
            self.compiled.clear()
        self.compiled[path] = source, code
        return code

    def become(self, request: Any, prepared: types.CodeType) -> NoReturn:
        """Run the script as ``__main__``, and end as the interpreter would."""
        self.control.close()
        os.environ.update(request["env"])
        for name, value in self.changes.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        sys.argv = request["argv"]
        if hasattr(sys, "orig_argv"):
            sys.orig_argv[1:] = sys.argv
        path = sys.argv[0]
        if not getattr(sys.flags, "safe_path", False):
            sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
        status = _run(prepared, path)
        # The interpreter's own end writes to every page that the fork shares, and takes longer than all the rest.
        if threading.active_count() == 1:
            _run_callbacks()
        if threading.active_count() == 1 and _flushed():
            self.let_go()
            os._exit(status if _flushed() else _FAILED_FLUSH)
        sys.exit(status)

    def let_go(self) -> None:
        """Let go of the script's modules, so that its files are written and its finalizers run."""
        for name in {"__main__", *sys.modules} - self.known | {"__main__"}:
            del sys.modules[name]
        gc.collect()


def _run(code: types.CodeType, path: str) -> int:
    """Run a compiled script, and return its exit code. Raises what else ends it, and shows that without our frames."""
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    vars(module).update(
        __annotations__={}, __builtins__=builtins, __cached__=None, __file__=path, __loader__=loader
    )
    try:
        exec(code, vars(module))  # noqa: S102 - a script is run: that is what this program is for
    except SystemExit as error:
        status = 0 if error.code is None else error.code
        if type(status) is not int or not 0 <= status < 256:
            raise
        return status
    except BaseException as error:
        trace = error.__traceback__ and error.__traceback__.tb_next
        shown = sys.excepthook
        sys.excepthook = lambda kind, value, _: shown(kind, value.with_traceback(trace), trace)
        raise
    return 0


def _run_callbacks() -> None:
    """Run what was registered with `atexit`; what one of them raises is shown without our frames."""
    # Many a Python registers one at each start: a .pth file imports a module that does.
    shown, ours = sys.unraisablehook, sys._getframe()

    def show(failed: Any) -> None:
        if failed.exc_traceback is not None and failed.exc_traceback.tb_frame is ours:
            failed = type(failed)((*failed[:2], None, *failed[3:]))
        shown(failed)

    sys.unraisablehook = show
    # Python 3.9 raises the last one again, which it has shown.
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()


def _flushed() -> bool:
    """Flush what was printed; False when that failed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception:
            return False
    return True


def _refusal() -> str | None:
    """Why this interpreter cannot serve, None when it can."""
    if len(os.listdir("/proc/self/task")) != 1 or threading.active_count() != 1:
        return "it runs threads from its start"
    if sys.getfilesystemencoding().lower() not in ("utf-8", "utf8"):
        return "its names of files are not UTF-8"
    return None


def _watched() -> list[str]:
    """Files whose change changes how this interpreter starts."""
    folders = (
        [*site.getsitepackages(), site.getusersitepackages()] if hasattr(site, "getsitepackages") else []
    )
    return [*folders, os.path.join(sys.prefix, "pyvenv.cfg")]


def main() -> None:
    """Say hello, and serve."""
    control = launcher.take_control()
    given, now = marshal.loads(control.recv(_MESSAGE)), dict(os.environ)  # noqa: S302 - from instar
    changes = {name: now.get(name) for name in given.keys() | now.keys() if given.get(name) != now.get(name)}
    control.send(json.dumps({"hello": {"refused": _refusal(), "watched": _watched()}}).encode())
    # Once here rather than in each fork.
    os.environ.clear()
    gc.freeze()
    Zygote(control, changes).serve()


if __name__ == "__main__":
    main()
