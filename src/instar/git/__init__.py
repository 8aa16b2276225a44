"""The git program, run so that neither a repository nor a person's settings make it run anything else.

A repository is untrusted: its hooks, signing, pagers, file system monitor and transports are off. Filters
named in its ``.gitattributes`` are not; do not add files from a repository that the person did not trust.

May import `wire`, `message` and `process`. Begin with `git_bytes`; `snapshot.py` keeps the files of each
step, `project.py` says which project a folder belongs to.
"""

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from instar.process import MIB, Output, Processes
from instar.wire import Plain

SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.quotePath=false",
    "core.pager=cat",
    "core.editor=false",
    "core.sshCommand=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "credential.helper=",
    "protocol.ext.allow=never",
    "init.defaultBranch=main",
    "advice.detachedHead=false",
)
"""What every command is given by ``-c``; it wins over each configuration file."""

IDENTITY: Final = {"name": "instar", "email": "instar@localhost"}
"""Who commits where the person has set no name or no address."""

_KEPT: Final = (
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
)
_COMMITTING: Final = frozenset(
    ("commit", "commit-tree", "tag", "merge", "rebase", "stash", "cherry-pick", "revert")
)
_CRUD: Final = " \t.,:;<>\"\\'"
"""What git takes away from both ends of a name."""
_LONGEST: Final = 64 * MIB
_UNREADABLE: Final = (OSError, ValueError, RuntimeError)
"""What reading a repository's files can raise: also a path with a null byte, and a loop of links."""


class GitError(Exception):
    """A git command that failed: the command, where, and what git said. `code` is its exit code, if any."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code


async def git(
    processes: Processes,
    cwd: Path,
    *args: str,
    check: bool = True,
    timeout: float = 60.0,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> str:
    """Run ``git args`` in `cwd` and return its stdout, undecodable bytes replaced; all else as `git_bytes`."""
    printed = await git_bytes(processes, cwd, *args, check=check, timeout=timeout, stdin=stdin, env=env)
    return printed.decode(errors="replace")


def as_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings as variables for `env` of `git_bytes`, which come after every file.

    A setting's name on the command line would end at its first equals sign.
    """
    given = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (name, value) in enumerate(settings.items()):
        given |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return given


async def git_bytes(
    processes: Processes,
    cwd: Path,
    *args: str,
    check: bool = True,
    timeout: float = 60.0,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
) -> bytes:
    """Run ``git args`` in `cwd` and return its stdout as it is: names of files may be in any encoding.

    `env` is added to the cleaned environment (``GIT_INDEX_FILE`` for a temporary index). Commands that
    commit get `IDENTITY` where the person has none. `timeout` is in seconds. Without `check` a non-zero
    exit code is no error. Raises `GitError`, and `ProcessError` when git cannot be started.
    """
    environment = clean_environment(os.environ) | dict(env or {})
    settings = [*SETTINGS]
    if args and args[0] in _COMMITTING:
        settings += await _identity(processes, cwd, environment)
    output = await _run(processes, cwd, settings, args, environment, timeout, stdin)
    failed = output.timed_out or output.signal is not None or output.truncated
    if failed or (check and output.code != 0):
        raise GitError(_said(cwd, args, output, timeout), output.code)
    return output.stdout


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` without what would point git at another repository, and without prompts."""
    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith("GIT_") or name.startswith(_KEPT)
    }
    fixed = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "file",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
        "LC_ALL": "C",
        "LANGUAGE": "C",
    }
    return kept | fixed


async def root_commit(processes: Processes, cwd: Path) -> str | None:
    """Return the hash of HEAD's root commit, the first in order where there are several; None without commits.

    Raises `GitError` where git refuses to read the repository.
    """
    args = ("rev-list", "--max-parents=0", "HEAD", "--")
    output = await _run(processes, cwd, SETTINGS, args, clean_environment(os.environ), 60.0, b"")
    if output.code == 128 and b"bad revision 'HEAD'" in output.stderr:
        return None
    if output.code != 0:
        raise GitError(_said(cwd, args, output, 60.0), output.code)
    return min(output.stdout.decode().split(), default=None)


async def toplevel(processes: Processes, cwd: Path) -> Path | None:
    """Return the folder of the repository that `cwd` lies in, as git sees it; None outside one."""
    found = (await git(processes, cwd, "rev-parse", "--show-toplevel", check=False)).rstrip("\n")
    return Path(found) if found else None


async def branch(processes: Processes, cwd: Path) -> str | None:
    """Return the current branch, also one without commits; None where HEAD is detached or there is none."""
    return (
        await git(processes, cwd, "symbolic-ref", "--quiet", "--short", "HEAD", check=False)
    ).strip() or None


def find_worktree(folder: Path) -> Path | None:
    """Return the nearest folder, `folder` itself or above, that holds a ``.git``; no git is started.

    A ``.git`` counts when it is a folder with a ``HEAD`` or a file that names such a folder (a linked
    worktree, a submodule). `folder` should be resolved.
    """
    return next((path for path in (folder, *folder.parents) if git_folder(path) is not None), None)


def git_folder(worktree: Path) -> Path | None:
    """Return the folder that holds the ``HEAD`` of `worktree`, or None if it is not a worktree."""
    entry = worktree / ".git"
    try:
        if entry.is_file():
            named = entry.read_text("utf-8", "replace").strip()
            if not named.startswith("gitdir:"):
                return None
            entry = (worktree / named.removeprefix("gitdir:").strip()).resolve()
        return entry if (entry / "HEAD").is_file() else None
    except _UNREADABLE:
        return None


def common_folder(worktree: Path) -> Path | None:
    """Return the git folder that all worktrees of the repository share, or None where there is none."""
    folder = git_folder(worktree)
    try:
        return (folder / (folder / "commondir").read_text("utf-8").strip()).resolve() if folder else None
    except _UNREADABLE:
        return folder


def head_branch(worktree: Path) -> str | None:
    """Return the current branch as the ``HEAD`` file names it; None where it is detached or kept elsewhere."""
    folder = git_folder(worktree)
    try:
        head = (folder / "HEAD").read_text("utf-8").strip() if folder is not None else ""
    except _UNREADABLE:
        return None
    name = head.removeprefix("ref: refs/heads/")
    # The reftable format keeps the real HEAD elsewhere and leaves this name in the file.
    return None if name in (head, ".invalid") else name


class ChangedFile(NamedTuple):
    """A file that differs: git's letter for how, and the lines added and deleted, 0 of a binary file."""

    name: str
    letter: str
    added: int
    deleted: int

    def fields(self) -> Plain:
        """Return the fields that opencode's forms of it have, but for the patch."""
        status = {"A": "added", "D": "deleted"}.get(self.letter, "modified")
        return {"file": self.name, "additions": self.added, "deletions": self.deleted, "status": status}


def changed_files(records: Iterable[bytes]) -> list[ChangedFile]:
    """Return the files of ``--raw --numstat -z``: that has first each one's letter, then each one's counts."""
    letters: dict[bytes, str] = {}
    counts: dict[bytes, list[int]] = {}
    given = iter(records)
    for record in given:
        if record.startswith(b":"):
            letters[next(given)] = record.rpartition(b" ")[2][:1].decode()
        else:
            # For a binary file git prints dashes.
            *numbers, name = record.split(b"\t", 2)
            counts[name] = [int(number) if number.isdigit() else 0 for number in numbers]
    return [
        ChangedFile(name.decode(errors="replace"), letter, *counts.get(name, (0, 0)))
        for name, letter in letters.items()
    ]


def split_patches(patches: bytes, changed: Iterable[ChangedFile]) -> Iterator[bytes]:
    """Yield each file's part of a diff of all of them, empty where it has none."""
    # A line of content begins with a blank, a sign or a backslash: only a header begins with this word.
    chunks = (b"\n" + patches).split(b"\ndiff --git ")[1:]
    for one in changed:
        # A file that became a link is one file deleted and one added: two chunks.
        count = 2 if one.letter == "T" else 1
        taken, chunks = chunks[:count], chunks[count:]
        yield b"".join(b"diff --git " + chunk.removesuffix(b"\n") + b"\n" for chunk in taken)


async def _run(
    processes: Processes,
    cwd: Path,
    settings: Iterable[str],
    args: Sequence[str],
    environment: Mapping[str, str],
    timeout: float,
    stdin: bytes,
) -> Output:
    flags = [flag for setting in settings for flag in ("-c", setting)]
    argv = ["git", *flags, *args]
    return await processes.run(argv, cwd=cwd, env=environment, timeout=timeout, limit=_LONGEST, stdin=stdin)


async def _identity(processes: Processes, cwd: Path, environment: Mapping[str, str]) -> list[str]:
    """The settings that give a name and an address where neither a file nor a variable does."""
    wanted = {key: value for key, value in IDENTITY.items() if not _in_environment(environment, key.upper())}
    if not wanted:
        return []
    args = ("config", "-z", "--get-regexp", r"^user\.(name|email)$")
    output = await _run(processes, cwd, (), args, environment, 10.0, b"")
    pairs = (entry.partition("\n") for entry in output.stdout.decode(errors="replace").split("\0"))
    # Of several the last one counts; one that git takes nothing from is none.
    known = {name for name, value in {pair[0]: pair[2] for pair in pairs}.items() if value.strip(_CRUD)}
    return [f"user.{key}={value}" for key, value in wanted.items() if f"user.{key}" not in known]


def _in_environment(environment: Mapping[str, str], key: str) -> bool:
    both = all(environment.get(f"GIT_{who}_{key}") for who in ("AUTHOR", "COMMITTER"))
    return both or (key == "EMAIL" and bool(environment.get("EMAIL")))


def _said(cwd: Path, args: Sequence[str], output: Output, timeout: float) -> str:
    said = (output.stderr.strip() or output.stdout.strip()).decode(errors="replace")[-2000:]
    if output.timed_out:
        said = f"it did not end within {timeout:g} s"
    elif output.truncated:
        said = f"it printed more than {_LONGEST >> 20} MiB"
    elif output.signal is not None:
        said = f"signal {output.signal} ended it. {said}"
    return f"git {shlex.join(args)} failed in {cwd}: {said or f'exit code {output.code}'}"
