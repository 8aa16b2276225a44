"""Landlock: a process gives up rights for itself and for all that it starts, with no program to install.

Only the standard library is imported here, and nothing of instar: this file is also run by itself, compiled, as
``python -I -S -c … FD PROGRAM ARG…``, which applies the policy that it reads from the descriptor and
then becomes the program; `instar.process.launcher`, also in another Python, loads it by its path.

A policy is a dict in Python's marshal format 2 (`encode`), which every Python 3 reads without a module: ``fs`` the
file rights that are taken away, ``rules`` a list of ``(rights, [path…])`` that gives them back below paths, ``files``
the inodes that these lead to (so that two policies of the same bytes have the same rules), ``net`` and ``scope``
Landlock's masks of those names, ``limits`` soft and hard resource limits by name (``{"CPU": 10}``), ``seccomp`` a
filter's bytes, ``drop`` capabilities by number that root loses, ``env`` the program's whole environment as a list of
pairs (None: as it is), ``cwd`` its folder (None: where it stands). ``stay``, 1 or 0: fork, and wait as the program's
parent. ``ends``, 1 or 0: what the program leaves ends with it. Rights that this kernel does not know are left out; that
Landlock is missing altogether is an error.

What the exit code does not tell is appended to the policy's own file (at most a program that root runs in a sandbox
can open that, and say so of its own end): ``start ERRNO FILE RUNS LINE`` when it did not start (whether it is a regular
file, and may be run, 1 or 0; its first line in hexadecimal, empty of a name without a slash), ``signal NUMBER`` when
it was waited for and a signal ended it. `instar.sandbox.bubblewrap.ending` reads it.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import resource
import select
import stat
import sys

TYPE_CHECKING = False  # importing `typing` for it would double the time that this file takes to start
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15

MAKE = MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM | MAKE_CHAR | MAKE_BLOCK
WRITE = WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE | REFER
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""The rights that a rule on a single file may name."""
TCP = 3
"""Binding and connecting."""
ABSTRACT_SOCKETS, SIGNALS = 1, 2

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # one number on every architecture
_VERSION = 1
_NO_NEW_PRIVS, _SET_SECCOMP, _FILTER, _DROP_BOUND = 38, 22, 2, 24
_PARENT_DIES, _IS_DUMPABLE, _DUMPABLE = 1, 3, 4
_CAPABILITY_VERSION = 0x20080522
_KNOWN = ((1, (1 << 13) - 1), (2, REFER), (3, TRUNCATE), (5, IOCTL_DEV))
"""Which ABI brought which file rights."""
_SCOPES = 6
"""The ABI that brought scopes."""
_KEPT = 8
_READY: dict[bytes, tuple[dict[str, Any], int | None]] = {}
"""Policies that were read before they are needed, and the descriptors of their rules."""
_LIBC = ctypes.CDLL(None, use_errno=True)
_SIGNAL = _LIBC.signal  # looked for once here rather than in each fork
if sys.platform == "linux":
    _LIBC.syscall.restype = ctypes.c_long
    _LIBC.prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)


def abi() -> int:
    """Return the version of Landlock that this kernel offers; 0: none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_LIBC.syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))))


def encode(
    *,
    fs: int = 0,
    rules: Sequence[tuple[int, Sequence[str]]] = (),
    files: Sequence[int] = (),
    net: int = 0,
    scope: int = 0,
    limits: Mapping[str, int] | None = None,
    seccomp: bytes = b"",
    drop: Sequence[int] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stay: bool = False,
    ends: bool = False,
) -> bytes:
    """Return a policy for `apply` and `main`; the module's docstring says what the fields mean."""
    given = [(rights, list(paths)) for rights, paths in rules]
    policy = {"fs": fs, "rules": given, "files": list(files), "net": net, "scope": scope}
    policy |= {
        "limits": dict(limits or {}),
        "seccomp": seccomp,
        "drop": list(drop),
        "cwd": cwd,
        "stay": int(stay),
        "ends": int(ends),
    }
    return marshal.dumps({**policy, "env": None if env is None else list(env.items())}, 2)


def apply(policy: bytes) -> None:
    """Confine the calling thread and all that it starts by `policy`. There is no way back.

    `cwd`, `stay` and `ends` are left to `main`. Raises `OSError` when a part of it cannot be applied; the caller must
    then not go on to the program.
    """
    asked, ruleset = _READY.get(policy) or _made(policy)
    for name, limit in asked["limits"].items():
        _limit(getattr(resource, f"RLIMIT_{name}"), limit)
    _process_control(_NO_NEW_PRIVS, 1)
    if asked["drop"] and os.geteuid() == 0:
        _drop(asked["drop"])
    if ruleset is not None:
        _check(_LIBC.syscall(_RESTRICT, ctypes.c_int(ruleset), ctypes.c_uint32(0)), "landlock_restrict_self")
        os.close(ruleset)
    if asked["seccomp"]:
        _filter(asked["seccomp"])
    if asked["env"] is not None:
        os.environ.clear()
        os.environ.update(asked["env"])


def prepare(policy: bytes) -> None:
    """Make the rules of `policy` now, for forks of this process that `apply` it and then start another program.

    A fork that goes on without one could add to them: they are open until then.
    """
    if policy not in _READY:
        if len(_READY) >= _KEPT:
            _, oldest = _READY.pop(next(iter(_READY)))
            if oldest is not None:
                os.close(oldest)
        _READY[policy] = _made(policy)


def _made(policy: bytes) -> tuple[dict[str, Any], int | None]:
    """Read a policy, and make its rules where this kernel knows some of what they take away."""
    asked = marshal.loads(policy)  # noqa: S302 - made by `encode`
    if not (asked["fs"] or asked["net"] or asked["scope"]):
        return asked, None
    version = abi()
    if not version:
        raise OSError("this kernel has no Landlock, or it is switched off")
    known = sum(rights for since, rights in _KNOWN if since <= version)
    net = asked["net"] if version >= 4 else 0
    scope = asked["scope"] if version >= _SCOPES else 0
    attributes = (ctypes.c_uint64 * 3)(asked["fs"] & known, net, scope)
    if not any(attributes):
        return asked, None
    ruleset = _check(
        _LIBC.syscall(_CREATE, ctypes.byref(attributes), ctypes.c_size_t(24), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )
    try:
        for rights, paths in asked["rules"]:
            for path in paths:
                _allow(ruleset, path, rights & known & asked["fs"])
    except BaseException:
        os.close(ruleset)
        raise
    return asked, ruleset


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Give `rights` back below `path`. A path that is gone or a link gets none: what was meant is not there."""
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        mode = os.fstat(beneath).st_mode
        rights &= ~0 if stat.S_ISDIR(mode) else OF_FILES
        if rights and not stat.S_ISLNK(mode):
            rule = rights.to_bytes(8, sys.byteorder) + beneath.to_bytes(4, sys.byteorder)
            result = _LIBC.syscall(_ADD, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
            # Sockets, pipes and files of some kernel file systems cannot carry a rule: they get no right.
            if result < 0 and stat.S_ISDIR(mode):
                _check(result, f"landlock_add_rule {path}")
    finally:
        os.close(beneath)


def _drop(capabilities: Sequence[int]) -> None:
    """Take capabilities from root, for this process and for what it becomes. What this kernel lacks is not there."""
    for one in capabilities:
        _LIBC.prctl(_DROP_BOUND, one, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()
    _check(_LIBC.capget(ctypes.byref(header), ctypes.byref(sets)), "capget")
    for one in capabilities:
        # Effective, permitted and inheritable, 32 bits each, then the same again for the upper half.
        for index in range(3):
            sets[one // 32 * 3 + index] &= ~(1 << one % 32) & 0xFFFFFFFF
    _check(_LIBC.capset(ctypes.byref(header), ctypes.byref(sets)), "capset")


def _filter(program: bytes) -> None:
    loaded = _Program(len(program) // 8, program)
    _check(_LIBC.prctl(_SET_SECCOMP, _FILTER, ctypes.addressof(loaded), 0, 0), "seccomp")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _limit(which: int, limit: int) -> None:
    hard = resource.getrlimit(which)[1]
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(which, (limit, limit))


def _check(result: int, what: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")
    return result


def main(argv: Sequence[str]) -> None:
    """Apply the policy that the descriptor ``argv[0]`` holds, then become the program ``argv[1:]``.

    Exit code 126: the policy could not be applied and nothing was run; 127: the program could not be started.
    """
    descriptor = int(argv[0])
    os.set_inheritable(descriptor, False)
    try:
        policy = os.pread(descriptor, os.fstat(descriptor).st_size, 0)
        asked = marshal.loads(policy)  # noqa: S302 - made by `encode`
        if asked["ends"]:
            _watch()
        apply(policy)
        # Last: a path of the policy may lead through an inherited descriptor.
        os.closerange(3, descriptor)
        os.closerange(descriptor + 1, 1 << 20)
        if asked["cwd"] is not None:
            os.chdir(asked["cwd"])
        if asked["stay"]:
            _stay(descriptor)
    except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError) as error:
        os.write(2, f"instar: not started, it could not be confined: {error}\n".encode())
        os._exit(126)
    number, file, runs, line = become(list(argv[1:]), dict(os.environ))
    _report(descriptor, f"start {number} {file} {runs} {line.decode()}")
    os.write(2, f"instar: cannot start {argv[1]}: {os.strerror(number)}\n".encode(errors="replace"))
    os._exit(127)


def become(argv: list[str], env: dict[str, str]) -> tuple[int, int, int, bytes]:
    """Become the program `argv`, found on the PATH of `env`; return why that failed.

    That is the error's number; whether the file is a regular one, and may be run, 1 or 0; and its first line in
    hexadecimal. Of a name without a slash only the number is known.
    """
    # Python ignores these two for itself; a program must find them as the kernel sets them.
    for signal in (13, 25):
        _SIGNAL(ctypes.c_int(signal), ctypes.c_void_p(0))
    number = errno.ENOENT
    for path in _found(argv[0], env):
        try:
            os.execve(path, argv, env)  # noqa: S606 - the program is started as it is, on purpose
        except (OSError, ValueError) as error:
            number = getattr(error, "errno", errno.EINVAL)
    return (number, *_seen(argv[0]))


def _found(name: str, env: dict[str, str]) -> list[str]:
    """The files that `name` may mean. `os.execvpe` would encode the environment anew for each folder of PATH."""
    if "/" in name:
        return [name]
    paths = [os.path.join(folder, name) for folder in env.get("PATH", os.defpath).split(":")]  # noqa: PTH118
    return [path for path in paths if os.path.lexists(path)]


def _watch() -> None:
    """Leave a process that kills all that this one leaves, however it left the group, when this one has ended.

    It signals everything that it may. Signals are scoped to what this process starts from here on, or nothing is done:
    from Linux 6.12 on.
    """
    if abi() < _SCOPES:
        return
    outside, watched = os.getppid(), os.pidfd_open(os.getpid())
    apply(encode(scope=SIGNALS))
    child = os.fork()
    if child:
        os.close(watched)
        os.waitpid(child, 0)
        return
    try:
        os.setsid()
        # Not a child of the program's, which waits for its own.
        if not os.fork():
            os.closerange(0, watched)
            os.closerange(watched + 1, 1 << 20)
            _kill_scope(outside, watched)
    finally:
        os._exit(0)


def _kill_scope(outside: int, watched: int) -> None:
    """Kill all that may be signalled once `watched` has ended; nothing where `outside` may be signalled too."""
    try:
        os.kill(outside, 0)
    except PermissionError:
        poll = select.poll()
        poll.register(watched, select.POLLIN)
        poll.poll()
        os.kill(-1, 9)


def _stay(descriptor: int) -> None:
    """Fork, and stay as the parent, which reports the signal that ended the program."""
    # Not dumpable: the program, which is not so, cannot open the descriptors of this process.
    _process_control(_DUMPABLE, 0)
    parent = os.getpid()
    child = os.fork()
    if not child:
        # A signal at the parent's death does not pass to a fork.
        _process_control(_PARENT_DIES, 9)
        if os.getppid() != parent:
            os._exit(126)
        return
    os.closerange(0, 3)
    status = os.waitpid(child, 0)[1]
    if not os.WIFSIGNALED(status):
        os._exit(os.WEXITSTATUS(status))
    _report(descriptor, f"signal {os.WTERMSIG(status)}")
    os._exit(128 + os.WTERMSIG(status))


def _process_control(what: int, value: int) -> None:
    _check(_LIBC.prctl(what, value, 0, 0, 0), "prctl")


def _report(descriptor: int, text: str) -> None:
    os.pwrite(descriptor, text.encode(), os.fstat(descriptor).st_size)


def _seen(name: str) -> tuple[int, int, bytes]:
    """What is seen of the file of a program: whether it is a regular one, may be run, its first line."""
    if "/" not in name or not os.path.isfile(name):  # noqa: PTH113 - pathlib takes 5 ms to import
        return 0, 0, b""
    try:
        with open(name, "rb") as file:  # noqa: PTH123
            line = file.readline(256)
    except OSError:
        line = b""
    return 1, int(os.access(name, os.X_OK)), line.hex().encode()


if __name__ == "__main__":
    main(sys.argv[1:])
