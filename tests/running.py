"""What runs on the machine, as its table of processes tells."""

from pathlib import Path


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def having(*words: str) -> list[int]:
    """The processes among whose arguments are these, one behind the other."""
    wanted = "".join(f"\0{word}\0"[bool(n) :] for n, word in enumerate(words)).encode()
    return [pid for pid in pids() if wanted in b"\0" + arguments(pid)]


def pids() -> list[int]:
    """Every process."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def arguments(pid: int) -> bytes:
    """The arguments of a process, each with a NUL at its end; none of one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
