"""What a fork of a warm interpreter becomes: a process that runs one script as a fresh interpreter would.

`zygote` loads this file by its path; like it, it uses the standard library of Python 3.8 and later alone. The end of a
script is written out here in the order of CPython's own (``Py_FinalizeEx``): a full tear-down of the interpreter costs
more than all the rest, since it writes to every page that the fork shares.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import ctypes
import errno
import gc
import os
import signal
import sys
import threading
import types
import weakref
from typing import Any, NoReturn

Request = Any  # a JSON object; see zygote

_INTERRUPTED = -1
_LIBC = ctypes.CDLL(None)
_LONG = 1 << 63
_FAILED_FLUSH = 120


def prepare(request: Request, descriptors: list[int], changes: dict[str, str | None]) -> None:
    """Take the call's session, streams, environment, folder and name."""
    os.setsid()
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
    for descriptor in set(descriptors):
        os.close(descriptor)
    env = {**request["env"], **{name: value for name, value in changes.items() if value is not None}}
    os.environ.update({name: value for name, value in env.items() if changes.get(name, value) is not None})
    os.chdir(request["cwd"])
    if request["comm"]:
        # PR_SET_NAME: a courtesy to whoever reads a list of processes. Behind a shield /proc may not be written.
        _LIBC.prctl(15, os.fsencode(request["comm"])[:15], 0, 0, 0)


def plainly(request: Request) -> NoReturn:
    """Start the script by execve in this process's place, with the signals that a fresh start has."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(request["path"], request["argv"], request["env"])  # noqa: S606 - what the kernel would do
    except OSError as error:
        os.write(2, f"{request['path']}: {error.strerror}\n".encode())
        os._exit(126 if error.errno == errno.EACCES else 127)


def run(request: Request, code: types.CodeType, fresh: list[str], known: set[str]) -> NoReturn:
    """Run a compiled script to its end and end this process as the interpreter would.

    `fresh` are the names of a new ``__main__`` in their order, `known` the modules that were there before. Raises
    `SystemExit` when only the interpreter's own end is right.
    """
    path = request["path"]
    sys.argv = list(request["argv"])
    if hasattr(sys, "orig_argv"):
        sys.orig_argv[:] = [sys.orig_argv[0], *request["argv"]]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    # Folders may have changed since they were read.
    sys.path_importer_cache.clear()
    status = _execute(code, _main_module(path, fresh))
    _end(status, known)


def _main_module(path: str, fresh: list[str]) -> dict[str, Any]:
    """Make ``__main__`` anew, as of a file that is run."""
    module = types.ModuleType("__main__")
    ours = vars(sys.modules["__main__"])
    values = {
        "__name__": "__main__",
        "__loader__": type(ours["__loader__"])("__main__", path),
        "__annotations__": {},
        "__builtins__": builtins,
        "__file__": path,
    }
    vars(module).clear()
    vars(module).update({name: values.get(name) for name in fresh})
    sys.modules["__main__"] = module
    return vars(module)


def _execute(code: types.CodeType, namespace: dict[str, Any]) -> int:
    """Run the script; its exit status, or `_INTERRUPTED`."""
    try:
        exec(code, namespace)  # noqa: S102 - a script is run: that is what this program is for
    except SystemExit as error:
        return _status(error)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        return _uncaught(error.with_traceback(trace))
    return 0


def _status(error: SystemExit) -> int:
    """The exit status of a `SystemExit`; anything but a number is printed, and means 1."""
    value = error.code
    if value is None:
        return 0
    if isinstance(value, int):
        if -_LONG <= value < _LONG:
            return value & 0xFF
        # What the interpreter says to a larger number depends on its version, and on this module being there.
        if threading.active_count() == 1:
            sys.modules.pop("threading", None)
        raise error
    if sys.stderr is not None:
        with contextlib.suppress(Exception):
            sys.stderr.flush()
            sys.stderr.write(str(value))
            sys.stderr.write("\n")
    return 1


def _uncaught(error: BaseException) -> int:
    """Show an exception as the interpreter does, by the script's own hook if it has set one."""
    kind, trace = type(error), error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    try:
        sys.excepthook(kind, error, trace)
    except SystemExit as wanted:
        return _status(wanted)
    except BaseException as failed:
        sys.stderr.write("Error in sys.excepthook:\n")
        inner = failed.__traceback__.tb_next if failed.__traceback__ else None
        sys.__excepthook__(type(failed), failed.with_traceback(inner), inner)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(kind, error, trace)
    return _INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _end(status: int, known: set[str]) -> NoReturn:
    """End as `Py_FinalizeEx` does: threads, atexit, streams, the script's modules, streams again.

    Where callbacks or threads are left, or an output cannot be flushed, the interpreter does it itself.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined] # the interpreter's own first step
    except BaseException as error:
        sys.__excepthook__(type(error), error, error.__traceback__)
    if status != _INTERRUPTED and (threading.active_count() > 1 or atexit._ncallbacks() or not _flush()):
        raise SystemExit(status)
    # An interrupt: its signal must be the last thing. What a callback raised, it has printed.
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()
    _tear_down(known)
    if not _flush():
        os._exit(_FAILED_FLUSH)
    if status == _INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)


def _flush() -> bool:
    """Flush what was printed; False when that failed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except BaseException:
            return False
    return True


def _tear_down(known: set[str]) -> None:
    """Let go of the script's modules, so that its files are written and its finalizers run."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            setattr(sys, name, None)
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    living = []
    for name in ["__main__", *(name for name in sys.modules if name not in known)]:
        module = sys.modules.pop(name, None)
        if isinstance(module, types.ModuleType):
            living.append(weakref.ref(module))
    module = None
    gc.collect()
    for left in reversed(living):
        held = left()
        if held is not None:
            _clear(vars(held))


def _clear(namespace: dict[str, Any]) -> None:
    """Clear a module's names in the interpreter's order: those with one underscore first."""
    for private in (True, False):
        for name in list(namespace):
            if name != "__builtins__" and (name[:1] == "_" and name[1:2] != "_") == private:
                namespace[name] = None
