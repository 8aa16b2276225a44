"""Git's settings that can run a program, told from those that cannot, and taken out of a file or put back."""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from instar.git import GitError, git
from instar.process import Processes
from instar.wire.pattern import late_pattern

Entry = tuple[str, str]
"""A key, as git prints it, and its value."""

_CORE: Final = (
    *("abbrev", "autocrlf", "bare", "bigfilethreshold", "checkstat", "commentchar", "commentstring"),
    *("commitgraph", "compression", "deltabasecachelimit", "eol", "excludesfile", "filemode", "fscache"),
    *("fsync", "fsyncmethod", "fsyncobjectfiles", "hidedotfiles", "ignorecase", "ignorestat"),
    *("logallrefupdates", "longpaths", "loosecompression", "multipackindex", "packedgitlimit"),
    *("packedgitwindowsize", "precomposeunicode", "preferreferencetransaction", "preloadindex"),
    *("protecthfs", "protectntfs", "quotepath", "repositoryformatversion", "safecrlf", "sharedrepository"),
    *("sparsecheckout", "sparsecheckoutcone", "splitindex", "symlinks", "trustctime", "untrackedcache"),
    *("warnambiguousrefs", "whitespace"),
)
_INERT: Final = rf"""
    core\.({"|".join(_CORE)})
    | (user|author|committer)\.(name|email|signingkey|useconfigonly)
    | branch\..+\.(merge|rebase|description|vscode-merge-base|gk-[\w-]+|github-pr-[\w-]+)
    | branch\.(autosetupmerge|autosetuprebase|sort)
    | remote\..+\.(fetch|push|mirror|tagopt|prune|prunetags|promisor|partialclonefilter|gh-resolved
        |skipdefaultupdate|skipfetchall|followremotehead)
    | submodule\..+\.(active|branch|ignore|shallow|fetchrecursesubmodules)
    | submodule\.(active|recurse|fetchjobs|propagatebranches)
    | (advice|color|column|status|log|push|fetch|stash|rerere|maintenance|index|feature|i18n|extensions|pack
        |versionsort|checkout|blame|grep|notes|rebase|commit|tag|apply|am|clean|worktree|gitflow\.(branch|prefix))\..+
    | pull\.(ff|rebase|autostash)
    | gc\.(auto|autodetach|autopacklimit|pruneexpire|worktreepruneexpire|reflogexpire|reflogexpireunreachable
        |writecommitgraph)
    | merge\.(ff|conflictstyle|stat|log|renames|renamelimit|autostash|verbosity|branchdesc|directoryrenames
        |renormalize)
    | diff\.(algorithm|renames|renamelimit|colormoved|context|interhunkcontext|noprefix|mnemonicprefix|submodule
        |ignoresubmodules|wserrorhighlight|indentheuristic)
    | init\.(defaultbranch|defaultobjectformat|defaultrefformat)
    | lfs\.(repositoryformatversion|.+\.access|.+\.locksverify)
"""
"""Keys by which no program runs, as a verbose pattern. What is not known here steers."""
_ADDRESS: Final = late_pattern(
    r"remote\..+\.(url|pushurl)|submodule\..+\.url|branch\..+\.(remote|pushremote)|remote\.pushdefault"
)
_PLAIN_ADDRESS: Final = late_pattern(
    r"(?!-)(?!.*[\x00-\x1f])(?![\w+.-]*::)(?!(?!https?:|ssh:|git:|file:)[\w+.-]+://)(?!\w+://-).*"
)
_UPDATE: Final = late_pattern(r"submodule\..+\.update")


def steers(key: str, value: str) -> bool:
    """Whether git can run a program because of this entry, or reads settings or files from elsewhere."""
    if key == "pack.packobjectshook":
        return True
    if _ADDRESS.fullmatch(key):
        return not _PLAIN_ADDRESS.fullmatch(value)
    if _UPDATE.fullmatch(key):
        return value.startswith("!")
    return not re.fullmatch(_INERT, key, re.VERBOSE | re.DOTALL)


async def steering(processes: Processes, config: bytes, *, submodule: bool = False) -> list[Entry] | None:
    """Return the entries of a configuration that steer; None for one that git cannot read.

    Where a `submodule` has its files is for git to say; elsewhere a worktree's place is the person's.
    """
    try:
        printed = await git(
            processes, Path("/"), "config", "--file", "-", "--no-includes", "--list", "-z", stdin=config
        )
    except GitError:
        return None
    entries = [tuple(one.partition("\n")[::2]) for one in printed.split("\0") if one]
    return [
        (key, value)
        for key, value in entries
        if steers(key, value) and not (submodule and key == "core.worktree")
    ]


async def edited(
    processes: Processes, config: bytes, without: Sequence[Entry], more: Sequence[Entry] = ()
) -> bytes:
    """Return a configuration without some of its entries, and with others at its end. Raises `GitError`."""
    with tempfile.TemporaryDirectory(prefix="instar-config-") as folder:
        file = Path(folder) / "config"
        file.write_bytes(config)

        async def change(*words: str) -> str:
            return await git(processes, Path(folder), "config", "--file", str(file), "--no-includes", *words)

        for key in dict.fromkeys(key for key, _ in without):
            kept = (await change("-z", "--get-all", key)).split("\0")[:-1]
            await change("--unset-all", key)
            for value in kept:
                if (key, value) not in without:
                    await change("--add", key, value)
        for key, value in more:
            await change("--add", key, value)
        return file.read_bytes()
