"""The shared repository: a bare git repository as the truth of a workspace that several workers have.

Git carries contents and history. What may run of them stands in the database that the workers share: a commit's
record, written before the push by the worker whose gate, or whose person, accepted it. A commit without one is not
used, whoever pushed it. The database names the newest commit too, so a step asks git only when there is a newer one.
"""

import asyncio
import logging
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugin import KV, accepted, git, process
from instar.plugins.evolve import script
from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.config import local
from instar.plugins.evolve.evolution import Evolver
from instar.plugins.evolve.grants import Granted
from instar.plugins.evolve.history import trailers
from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.history.plumbing import Plumbing
from instar.plugins.evolve.install import ChangeCause, ChangeInstaller, NotChanged
from instar.plugins.evolve.ledger import standing
from instar.plugins.evolve.ledger.ledger import LedgerError, WorkspaceBusy, held
from instar.plugins.evolve.ledger.standing import Version
from instar.plugins.evolve.probation.observer import Observer
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import TrialFile
from instar.plugins.evolve.workspace import FOLDERS

log = logging.getLogger("instar.evolve")

BRANCH: Final = "main"
"""The branch of the shared repository that workers follow."""

_NOTE: Final = "shared"
_PROTOCOLS: Final = "file:git:http:https:ssh"
_FETCHED: Final = f"refs/remotes/shared/{BRANCH}"
_LOGIN: Final = re.compile(r"//[^/@]*@")
_RECEIVE: Final = (
    "git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.alternateRefsCommand=false "
    "-c receive.autogc=false receive-pack"
)
"""How a repository on this machine takes a push: nothing that its folder names is run, whoever wrote there."""
_PATIENCE: Final = 30.0
"""Seconds that a fetch or a push may take."""
_GLANCE: Final = 3.0
"""The same of a look whether it answers."""
_PAUSE: Final = 5.0
_LONGEST_PAUSE: Final = 60.0
"""Seconds before a remote that failed is asked again: first and, since each failure doubles them, at most."""
_TRIES: Final = 4
_LATE: Final = ("[rejected]", "cannot lock ref", "failed to update ref")
"""What git says where somebody else pushed first."""
_ADDED: Final = (
    "fatal: Could not read from remote repository.",
    "Please make sure you have the correct access rights",
    "and the repository exists.",
)
"""Lines that git adds to what ssh said."""


class NotShared(Exception):
    """The workspace could not be brought together with the shared repository; the text says why and what to do."""


Files = dict[str, Version]


class CommitRecord(msgspec.Struct, frozen=True):
    """What is accepted of a commit: its guarded files, those that a person left, and the grants of its scripts."""

    files: Files
    left: Files
    grants: dict[str, Granted] = {}


class _SharedState(msgspec.Struct, frozen=True):
    """The commit that the workspace agreed with last, and the ledger's epoch then."""

    commit: str = ""
    epoch: int = 0


class SharedRepository:
    """Brings one workspace together with the bare repository at `url`; "" for none: then nothing is done."""

    def __init__(
        self,
        url: str,
        kv: KV,
        processes: process.Processes,
        root: Path,
        storage: Storage,
        history: History,
        evolution: Evolver,
        change_installer: ChangeInstaller,
        observer: Observer,
    ) -> None:
        self.url = url
        self.problem = ""
        self._kv = kv
        self._git = Plumbing(processes, root)
        self._storage = storage
        self._history = history
        self._evolution = evolution
        self._change_installer = change_installer
        self._observer = observer
        self._one = asyncio.Lock()
        self._began, self._again, self._pause = 0.0, 0.0, _PAUSE
        self.name = sha256(url.encode()).hexdigest()[:32]
        self._key = f"shared:{self.name}"

    async def begin(self) -> None:
        """Let a workspace that is new here begin with what is accepted of it, where the workers have begun already.

        Else what stands in a clone would be accepted, whoever pushed it.
        """
        ledger = self._storage.ledger
        if not self.url or ledger.is_known():
            return
        newest = await self._newest()
        if not newest:
            return
        record = await self._record(newest)
        shared, files = {} if record is None else record.files, dict[str, Version]()
        for one in await self._git.listed("HEAD", FOLDERS):
            stood = ledger.stand(one.path, durable=False)
            if stood is not None and shared.get(one.path) == stood:
                files[one.path] = stood
            elif stood is not None and stood.blob == one.blob:
                # It makes way for the accepted version; git has it.
                standing.clear(ledger.root, one.path)
        ledger.begin(files, {}, "what is shared", 1)

    async def meet(self) -> list[str]:
        """Take up what is newer, and push what was accepted here; return a sentence on each change that was dropped.

        Nothing is raised: where it fails, the workspace goes on with what it has, and `problem` says why.
        """
        if not self.url or self._storage.safe is not None:
            return []
        if self.problem and self._one.locked():
            return []  # nobody waits for another who asks a repository that could not be used
        async with self._one:
            try:
                # Another instance may have changed the workspace.
                self._storage.ledger.refresh()
                newest, state = await self._newest(), self._state()
                if newest == state.commit and state.epoch == self._storage.ledger.epoch:
                    self.problem = ""
                    return []
                self._began = asyncio.get_running_loop().time()
                if self._began < self._again:
                    return []
                async with held(self._storage.folder / "shared", 0.0):
                    said = await self._met(newest)
            except (NotShared, NotChanged, LedgerError) as error:
                self._failed(str(error))
            except WorkspaceBusy:
                log.debug("evolve=shared busy=true")  # another process of this worker is at it
            except Exception as error:  # a turn goes on with what it has
                self._failed(f"the workspace was not shared: {error}")
            else:
                self.problem, self._again, self._pause = "", 0.0, _PAUSE
                return said
        return []

    async def check(self) -> None:
        """Let `problem` say whether the repository answers."""
        if self.url:
            try:
                await self._remote("cannot be reached", "ls-remote", "--", self.url, timeout=_GLANCE)
            except NotShared as error:
                self._failed(str(error))

    def _shown(self, text: str) -> str:
        """Leave out the login that the URL may hold."""
        return text.replace(self.url, _LOGIN.sub("//", self.url))

    def _failed(self, why: str) -> None:
        why = self._shown(why)
        if why != self.problem:
            log.warning("evolve=shared problem=%s", script.show(why))
        self.problem = why
        now = asyncio.get_running_loop().time()
        # One that hangs holds up a step for a third of the time at most.
        self._again = now + max(self._pause, 2 * (now - self._began))
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    async def _met(self, newest: str) -> list[str]:
        said = list[str]()
        for _ in range(_TRIES):
            await self._history.settle()
            if self._history.problem:
                raise NotShared(f"nothing is shared until git works here: {self._history.problem}")
            there, state = await self._fetch(), self._state()
            if there and there != state.commit:
                record = await self._record(there)
                if state.commit and await self._is_before(there, state.commit):
                    log.warning("evolve=shared problem=%s", f"{there[:12]} is older than what was shared")
                elif newest and not await self._is_before(newest, there):
                    raise NotShared(
                        f"{self._shown(self.url)} was set back to {there[:12]}, before what workers share: "
                        f"push {newest[:12]} to {BRANCH} again from a workspace that has it"
                    )
                elif record is not None:
                    said += await self._take(there, record, state)
                elif newest or not await self._is_before(there, "HEAD"):
                    raise NotShared(
                        f"commit {there[:12]} of {self._shown(self.url)} was pushed by no instar on this database, so "
                        f"no gate accepted it and it is not used: push {newest[:12] or 'another'} to {BRANCH} again, "
                        "by git push --force"
                    )
            # No change is half made meanwhile.
            async with held(self._storage.ledger.lock, _PAUSE):
                self._storage.ledger.refresh()
                epoch, head = self._storage.ledger.epoch, await self._commit("HEAD")
                record = await self._record(head) if head == there else None
                agrees = record is not None and record.files == self._files()
                if not agrees:
                    await self._keep(f"{self._key}:{head}", await self._accepted(head))
            if agrees or await self._push(head):
                await self._agreed(head, epoch)
                return said
        raise NotShared(f"{self.url}: others push faster than the gate runs here; it is tried again")

    async def _accepted(self, head: str) -> CommitRecord:
        """Return what is accepted here, which is in this commit."""
        files = self._files()
        there = {one.path: one.blob for one in await self._git.listed(head, FOLDERS)}
        missing = [path for path, one in files.items() if there.get(path) != one.blob]
        if missing:
            raise NotShared(f"{', '.join(missing)}: accepted, but not in the workspace's last commit")
        left = {
            path: one for path, one in _plain(self._storage.ledger.left).items() if files.get(path) == one
        }
        names = {path.partition("/")[2] for path in files if path.startswith("hooks/")}
        grants = {name: found for name in names if (found := self._storage.grants.of(name)) is not None}
        return CommitRecord(files, left, grants)

    async def _push(self, head: str) -> bool:
        """Push a commit that was recorded; False where another was first."""
        try:
            own = () if local(self.url) is None else (f"--receive-pack={_RECEIVE}",)
            target = (self.url, f"{head}:refs/heads/{BRANCH}")
            await self._remote("takes no push", "push", "--quiet", *own, "--", *target)
        except NotShared as error:
            if any(said in str(error) for said in _LATE):
                log.info("evolve=shared push=rejected commit=%s", head[:12])
                return False
            raise
        return True

    async def _take(self, there: str, record: CommitRecord, state: _SharedState) -> list[str]:
        """Make what is accepted of a newer commit live, and take what only this worker has through the gate again."""
        async with self._evolution.lock:
            base = await self._record(state.commit) if state.commit else None
            files, head = self._files(), await self._commit("HEAD")
            if base is None and files and files != record.files and not await self._is_before(head, there):
                raise NotShared(
                    f"the workspace has a history of its own, and {self.url} another one; "
                    f"begin with a clone: git clone {self.url} FOLDER"
                )
            mine = {} if base is None else _different(base.files, files)
            theirs = {} if base is None else _different(base.files, record.files)
            again = {path: await self._mine(path) for path in mine if path not in theirs}
            lost = [path for path in mine if path in theirs and mine[path] != theirs[path]]
            await self._lay_out(there, head, _different(files, record.files), record)
        said = [
            f"{path} was changed by another worker too: its version serves; this one is in commit {head[:12]}"
            for path in lost
        ]
        for path, (file, version, is_persons) in again.items():
            try:
                await self._repeat(path, file, version if is_persons else None)
            except (CandidateRefused, NotChanged) as error:
                said.append(
                    f"{path}: the change does not go with what other workers changed meanwhile: {error}"
                )
        for sentence in said:
            log.warning("evolve=shared dropped=%s", script.show(sentence))
        return said

    async def _lay_out(
        self, there: str, head: str, changes: Mapping[str, Version | None], record: CommitRecord
    ) -> None:
        departed = [one.text for one in self._storage.ledger.check() if one.path in changes]
        if departed:
            raise NotShared(f"what is shared is not taken up: {'; '.join(departed)}")
        contents = dict[str, TrialFile | None]()
        for path, one in changes.items():
            contents[path] = None if one is None else TrialFile(await self._content(path, one.blob), one.mode)
        left = {path: record.left.get(path) for path in changes}
        for version in left.values():
            if version is not None:
                self._storage.ledger.keep(await self._content("", version.blob), version.mode)
        for name, granted in record.grants.items():
            self._storage.grants.take(name, granted)
        commit = there if await self._is_before(head, there) else await self._merged(there, head)
        # What the commits hold of other files is laid out nowhere: scripts write them, each worker's its own.
        await self._git.text("update-ref", "-m", "take what is shared", "HEAD", commit, head)
        await self._git.text("reset", "--quiet")
        if changes:
            subject = trailers.Trailers(by="instar", epoch=self._storage.ledger.next_epoch)
            changed = await self._change_installer.make(contents, "take what is shared", subject, left)
            for path in changed.files:
                self._observer.placed(path, self._change_installer.version(path) or None)
            if any(changes[path] == version for path, version in left.items() if version is not None):
                self._storage.references.begin()  # a person accepted it at another worker
            cause = ChangeCause(by="instar")
            self._change_installer.happened(
                "installed", cause, changed.files, f"shared as {there[:12]}", changed
            )
            await self._change_installer.live(changed)
        self._storage.keep(_NOTE, _SharedState(there, self._storage.ledger.epoch))

    async def _merged(self, there: str, head: str) -> str:
        """Return a commit on both: what is guarded as `there` has it, all else as this worker has it."""
        ours = [one for one in await self._git.listed(head) if one.path.partition("/")[0] not in FOLDERS]
        lines = [
            f"{one.mode:o} {one.blob}\t{one.path}\0"
            for one in (*ours, *await self._git.listed(there, FOLDERS))
        ]
        index = self._storage.folder / f"shared.{head}.index"
        try:
            env = {"GIT_INDEX_FILE": str(index)}
            await self._git.text("read-tree", "--empty", env=env)
            await self._git.text("update-index", "-z", "--index-info", stdin="".join(lines), env=env)
            tree = (await self._git.text("write-tree", env=env)).strip()
        finally:
            index.unlink(missing_ok=True)
        message = trailers.write("bring together what workers changed", trailers.Trailers(by="instar"))
        made = await self._git.text("commit-tree", tree, "-p", there, "-p", head, "-F", "-", stdin=message)
        return made.strip()

    async def _repeat(self, path: str, file: TrialFile | None, persons: Version | None) -> None:
        """Make a change of this worker again on what is shared: the agent's by the gate, a person's as they left it."""
        if persons is not None:
            async with self._evolution.lock:
                said = trailers.Trailers(by="person", epoch=self._storage.ledger.next_epoch)
                await self._change_installer.make({path: file}, "accept by hand", said, {path: persons})
                self._storage.references.begin()
        elif file is None:
            raise NotChanged(f"{path} was deleted here, which only a person may do")
        else:
            text = file.content.decode()
            await self._evolution.change(path, lambda before: text, ChangeCause(tool="evolve_share"))

    async def _mine(self, path: str) -> tuple[TrialFile | None, Version | None, bool]:
        ledger = self._storage.ledger
        version = ledger.files.get(path)
        content = None if version is None else await self._storage.content(version.blob)
        file = None if version is None or content is None else TrialFile(content, version.mode)
        return file, version, file is not None and not self._storage.own.is_changed(path)

    # -- git and the database --------------------------------------------------------------------------

    async def _fetch(self) -> str:
        """Fetch, and return the shared commit; "" where the repository is empty."""
        asked = ("--quiet", "--no-tags", "--no-recurse-submodules", "--prune", "--no-write-fetch-head")
        branch = f"+refs/heads/{BRANCH}*:{_FETCHED}*"
        checked = ("-c", "fetch.fsckObjects=true", "fetch")
        await self._remote("cannot be reached", *checked, *asked, "--", self.url, branch)
        return await self._commit(_FETCHED)

    async def _remote(self, failed: str, *args: str, timeout: float = _PATIENCE) -> None:
        """Run git on the remote, with the person's keys and logins, and no question asked. Raises `NotShared`."""
        env = {"GIT_ALLOW_PROTOCOL": _PROTOCOLS, "GIT_ASKPASS": "true", "GIT_TERMINAL_PROMPT": "0"}
        ssh = ("-c", "core.sshCommand=ssh -o BatchMode=yes -o ConnectTimeout=10")
        try:
            await self._git.text(*ssh, *args, env=env, timeout=timeout)
        except (git.GitError, process.ProcessError) as error:
            said = str(error).rpartition(f" failed in {self._storage.ledger.root}: ")[2].splitlines()
            why = " ".join([line for line in said if line.strip() and line not in _ADDED] or said)
            raise NotShared(f"{self.url} {failed}, so this worker goes on with what it has: {why}") from None

    async def _commit(self, ref: str) -> str:
        return (
            await self._git.text("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", check=False)
        ).strip()

    async def _is_before(self, old: str, new: str) -> bool:
        if not await self._commit(old):
            return False
        return not await self._git.text("rev-list", "--max-count=1", old, f"^{new}", "--")

    async def _content(self, path: str, blob: str) -> bytes:
        content = await self._storage.content(blob)
        if content is None or accepted.blob_id(content) != blob:
            raise NotShared(f"{self.url} lacks the accepted content of {path}: {blob}")
        return content

    def _files(self) -> Files:
        return _plain(self._storage.ledger.files)

    def _state(self) -> _SharedState:
        found = self._storage.note(_NOTE)
        return msgspec.convert(found, _SharedState) if found else _SharedState()

    async def _agreed(self, commit: str, epoch: int) -> None:
        await self._kv.set(self._key, commit)
        self._storage.keep(_NOTE, _SharedState(commit, epoch))

    async def _newest(self) -> str:
        return str(await self._kv.get(self._key) or "")

    async def _record(self, commit: str) -> CommitRecord | None:
        found = await self._kv.get(f"{self._key}:{commit}")
        return None if found is None else msgspec.convert(found, CommitRecord)

    async def _keep(self, key: str, value: Any) -> None:
        await self._kv.set(key, msgspec.to_builtins(value))


def _plain(versions: Mapping[str, Version]) -> Files:
    """The versions that are files: where a symbolic link leads is of each machine."""
    return {path: one for path, one in versions.items() if one.link is None}


def _different(old: Files, new: Files) -> dict[str, Version | None]:
    """What has to change for `old` to become `new`; None deletes."""
    return {path: new.get(path) for path in old.keys() | new.keys() if old.get(path) != new.get(path)}
