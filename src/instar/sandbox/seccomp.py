"""A filter of system calls, as the bytes that bubblewrap and the kernel take: what no shielded child needs.

It stands in for what a mount namespace leaves open: new mounts and new user namespaces (in which a child
would be root and could lay other mounts over the guarded ones), handles that open files past every mount, and
typing into a terminal. A call that is refused says EPERM; ``clone3``, whose flags a filter cannot read, says that
it does not exist, and every C library then takes ``clone``. Programs of another architecture (32 bits) are refused.
"""

import errno
import platform
import struct
from functools import cache
from typing import Final


def _table(text: str) -> dict[str, int]:
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


_X86: Final = _table(
    """
    ioctl 16 socket 41 clone 56 ptrace 101 pivot_root 155 mount 165 umount2 166 swapon 167 init_module
    175 kexec_load 246 add_key 248 request_key 249 keyctl 250 unshare 272 perf_event_open 298
    open_by_handle_at 304 setns 308 process_vm_readv 310 process_vm_writev 311 finit_module 313 bpf 321
    userfaultfd 323
    """
)
_ARM: Final = _table(
    """
    ioctl 29 socket 198 clone 220 ptrace 117 pivot_root 41 mount 40 umount2 39 swapon 224 init_module
    105 kexec_load 104 add_key 217 request_key 218 keyctl 219 unshare 97 perf_event_open 241
    open_by_handle_at 265 setns 268 process_vm_readv 270 process_vm_writev 271 finit_module 273 bpf 280
    userfaultfd 282
    """
)
_BOTH: Final = _table(
    """
    io_uring_setup 425 open_tree 428 move_mount 429 fsopen 430 fsconfig 431 fsmount 432 fspick 433
    clone3 435 pidfd_getfd 438 mount_setattr 442 open_tree_attr 467
    """
)
_MACHINES: Final = {"x86_64": (0xC000003E, _X86 | _BOTH), "aarch64": (0xC00000B7, _ARM | _BOTH)}

SHIELD: Final = (
    *("mount", "umount2", "pivot_root", "move_mount", "open_tree", "open_tree_attr", "fsopen", "fsconfig"),
    *("fsmount", "fspick", "mount_setattr", "setns", "open_by_handle_at", "kexec_load", "init_module"),
    *("finit_module", "swapon", "bpf", "pidfd_getfd", "process_vm_writev"),
)
"""What a shielded child may not call."""

SANDBOX: Final = (
    *SHIELD,
    *("ptrace", "process_vm_readv", "perf_event_open", "add_key", "request_key", "keyctl", "userfaultfd"),
    "io_uring_setup",
)
"""What a sandboxed child may not call."""

INET: Final = (2, 10)
"""The families of sockets of the internet's two protocols."""
LOCAL: Final = (1, *INET, 16)
"""More for a network namespace of its own: sockets by paths, and the kernel's about that network.

Others are left out because no namespace holds them: those of a virtual machine's host lead out.
"""

_NEW_USER: Final = 0x10000000
_TYPING: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_X32: Final = 0x40000000
_LOAD, _EQUAL, _SET, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM
_MISSING: Final = 0x00050000 | errno.ENOSYS


@cache
def program(
    refused: tuple[str, ...], machine: str = platform.machine(), families: tuple[int, ...] | None = None
) -> bytes:
    """Return the filter that refuses the calls `refused`, and new user namespaces; empty for an unknown `machine`.

    Of sockets it allows those of `families`, else all; socket pairs stay in any case, which event loops need.
    """
    if machine not in _MACHINES:
        return b""
    architecture, numbers = _MACHINES[machine]
    code = [
        _step(_LOAD, 4),
        _step(_EQUAL, architecture, 1, 0),
        _step(_RETURN, _MISSING),
        _step(_LOAD, 0),
        _step(_AT_LEAST, _X32, 0, 1),
        _step(_RETURN, _MISSING),
    ]
    for name in refused:
        code += [_step(_EQUAL, numbers[name], 0, 1), _step(_RETURN, _REFUSE)]
    if families is not None:
        count = len(families)
        known = [_step(_EQUAL, family, count - index, 0) for index, family in enumerate(families)]
        code += _argument(numbers["socket"], 0, [*known, _step(_RETURN, _REFUSE)])
    code += [_step(_EQUAL, numbers["clone3"], 0, 1), _step(_RETURN, _MISSING)]
    for name in ("unshare", "clone"):
        code += _argument(numbers[name], 0, [_step(_SET, _NEW_USER, 0, 1), _step(_RETURN, _REFUSE)])
    for request in _TYPING:
        code += _argument(numbers["ioctl"], 1, [_step(_EQUAL, request, 0, 1), _step(_RETURN, _REFUSE)])
    return b"".join([*code, _step(_RETURN, _ALLOW)])


def _argument(number: int, index: int, checks: list[bytes]) -> list[bytes]:
    """Look at the low half of one argument of a call; both machines are little-endian."""
    body = [_step(_LOAD, 16 + 8 * index), *checks, _step(_LOAD, 0)]
    return [_step(_EQUAL, number, 0, len(body)), *body]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)
