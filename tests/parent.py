"""The process from which `tests.started` forks: it has imported instar, which is most of what a start costs.

It is a program of its own, started with the number of a socket. Every message is one command, with four
descriptors: its standard streams, and a socket on which its process id and then its exit code are told.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import secrets
import socket
import sys
import threading
import time
from typing import Any

MESSAGE = 1 << 20
"""The most bytes of a command: its words, its folder and its environment."""
SELDOM = "mcp"
"""A package that few commands need and that is larger than instar: each fork pays for what its parent holds."""


def import_all() -> None:
    """Import what a command may need of instar."""
    package = importlib.import_module("instar")
    sys.modules[SELDOM] = None  # type: ignore[assignment] # an import of it fails
    for module in pkgutil.walk_packages(package.__path__, "instar.", onerror=lambda _: None):
        # A module that cannot be imported is the affair of the command that needs it.
        if module.name != "instar.__main__":
            with contextlib.suppress(Exception):
                importlib.import_module(module.name)
    del sys.modules[SELDOM]


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Make this process what ``python -m instar`` is when its first line runs."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 256)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()
    sys.path.insert(0, os.getcwd())
    sys.argv = ["-m", *request["arguments"]]
    sys.orig_argv[:] = [sys.executable, "-m", "instar", *request["arguments"]]
    # The one thing that an import draws by lot: each process has another.
    sys.modules["instar.store.lease"]._NONCE = secrets.token_hex(4)  # type: ignore[attr-defined]


def serve(control: socket.socket) -> bool:
    """Fork for each command until the socket is closed; True in a fork that is to be the command."""
    while True:
        data, given, _, _ = socket.recv_fds(control, MESSAGE, 4)
        if not data:
            return False
        *streams, told = given
        if os.fork() == 0:
            control.detach()
            return oversee(json.loads(data), streams, told)
        for one in given:
            os.close(one)
        # Those who oversaw commands that have ended; on a busy machine the newest may be among them, and none be left.
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def oversee(request: dict[str, Any], streams: list[int], told: int) -> bool:
    """Fork the command, tell who it is and how it ended; True in the fork."""
    pid = os.fork()
    if pid == 0:
        become(request, streams)
        return True
    # Whoever reads what it prints waits for the last holder of the other end.
    for one in streams:
        os.close(one)
    os.write(told, f"{pid}\n".encode())
    os.write(told, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def end(status: int) -> None:
    """End as the interpreter does but for letting go of its modules, whose pages a fork would have to copy first.

    Returns where standard output takes no more: the interpreter itself then says so.
    """
    threading._shutdown()  # type: ignore[attr-defined] # the interpreter's own first step
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return
    os._exit(status)


def main() -> None:
    """Import, then serve; a fork runs instar."""
    control = socket.socket(fileno=int(sys.argv[1]))
    del sys.path[0]
    import_all()
    gc.freeze()
    if not serve(control):
        return
    try:
        runpy.run_module("instar", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            end((ended.code or 0) & 0xFF)
        raise
    end(0)


if __name__ == "__main__":
    main()
