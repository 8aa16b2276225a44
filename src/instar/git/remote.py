"""Somebody else's repository, fetched by its URL, and the files of one commit of it.

Nothing is checked out: no filter, no link and no submodule of the repository takes effect. Only the transport that the
URL names is let through, and nobody is asked for a password.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from instar.git import GitError, git, git_bytes
from instar.process import Processes
from instar.wire.pattern import late_pattern

SCHEMES: Final = ("https", "ssh", "git", "http", "file")
_SSH: Final = late_pattern(r"\w[\w.-]*@\w[\w.-]*:(?!//)[^\0]+")
"""An address as ssh's copying programs write it: ``git@example.org:team/tools.git``."""
_REF: Final = late_pattern(r"[A-Za-z0-9][\w./+@-]*")
_PATIENCE: Final = 300.0
"""Seconds that a fetch may take."""
LINK: Final = 0o120000
SUBMODULE: Final = 0o160000


class RemoteFile(NamedTuple):
    """A file of a commit: its mode as git has it, and its content; of a link the path that it leads to."""

    mode: int
    data: bytes


def scheme(url: str) -> str | None:
    """Return the transport that a URL names; None: it is no URL of a repository."""
    if _SSH.fullmatch(url):
        return "ssh"
    found, separator, rest = url.partition("://")
    return found if separator and found in SCHEMES and rest and not rest.startswith("-") else None


async def fetch(processes: Processes, url: str, ref: str, folder: Path) -> str:
    """Fetch one commit of a repository into an empty folder and return its id; `ref` empty: the default branch's.

    Raises `GitError`.
    """
    transport = scheme(url)
    if transport is None:
        raise GitError(f"{url} is no URL of a git repository: expected one of {', '.join(SCHEMES)}")
    if ref and not _REF.fullmatch(ref):
        raise GitError(f"{ref!r} is no branch, tag or commit")
    await git(processes, folder, "init", "--quiet", "--bare", "--template=")
    await git(
        processes,
        folder,
        *("-c", "core.sshCommand=ssh -o BatchMode=yes"),
        *("fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"),
        *("--", url, ref or "HEAD"),
        timeout=_PATIENCE,
        env={"GIT_ALLOW_PROTOCOL": transport, "GIT_ASKPASS": "true"},
    )
    return (await git(processes, folder, "rev-parse", "--verify", "FETCH_HEAD^{commit}")).strip()


async def files(processes: Processes, folder: Path, commit: str, within: str = "") -> dict[str, RemoteFile]:
    """Return the files of a fetched commit below a folder of it, by their paths in there. Raises `GitError`."""
    below = f"{within}/" if within else ""
    told = await git_bytes(processes, folder, "ls-tree", "-r", "-z", commit, *filter(None, [below]))
    listed = [*_listed(told)]
    ids = "".join(f"{blob}\n" for _, _, blob in listed).encode()
    told = await git_bytes(processes, folder, "cat-file", "--batch", stdin=ids, timeout=_PATIENCE)
    found, at = dict[str, RemoteFile](), 0
    for path, mode, _ in listed:
        head = told.index(b"\n", at)
        size = int(told[at:head].split()[2])
        found[path.removeprefix(below)] = RemoteFile(mode, told[head + 1 : head + 1 + size])
        at = head + size + 2
    return found


def _listed(records: bytes) -> Iterator[tuple[str, int, str]]:
    """Yield the path, the mode and the id of each file; a submodule has no content here."""
    for record in records.split(b"\0")[:-1]:
        head, _, path = record.partition(b"\t")
        mode, _, blob = head.decode().split()
        if int(mode, 8) != SUBMODULE:
            yield path.decode(errors="surrogateescape"), int(mode, 8), blob
