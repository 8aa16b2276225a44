"""A candidate: a change of a workspace's files that has not been installed, and what is live around it.

It is a whole new text of one hook script or prompt, and new files that go with it. Trying it is the gate's work.
"""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from instar.plugins.evolve import edit
from instar.plugins.evolve.config import EvolveConfig
from instar.plugins.evolve.discovery import Registration
from instar.plugins.evolve.execution_policy import ExecutionPolicy
from instar.plugins.evolve.gate import authority
from instar.plugins.evolve.gate.authority import Authority, Terms
from instar.plugins.evolve.gate.outside import unaccepted
from instar.plugins.evolve.gate.record import HookCallRecord
from instar.plugins.evolve.history.repository import FAILED
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.probation.prediction import Prediction
from instar.plugins.evolve.scripts import Scripts
from instar.plugins.evolve.storage import Storage
from instar.plugins.evolve.trial import Changes, TrialFile
from instar.plugins.evolve.workspace import visible

Change = Callable[[str], str]
"""From a file's text to its new text; may raise `edit.NoEdit`."""

MAY_NOT_CREATE: Final = (
    'the agent may not create files here (a person allows it by "evolve": {"create": "allow"})'
)

PROFILES: Final = "config/profiles/"
"""Where profiles stand: settings that a run may start with. Scripts do not get them."""


class CandidateRefused(Exception):
    """A candidate that may not be installed; the text tells the model why, with the output. `stage` is the gate's.

    `passing`: the same candidate may pass another time, since what refused it was the machine and not what it says.
    """

    def __init__(self, stage: str, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.stage = stage
        self.passing = passing


class Candidate(msgspec.Struct, frozen=True):
    """A new version of the file `path` (``hooks/x.py``, ``prompts/chat.md``); `before` is None for a new file.

    `also` are new files that go with it, by path: the test of a new script. `gone` are paths at which nothing is any
    more, its own among them where the file is removed: then `after` is empty. `expect` is what its author predicts.
    """

    path: str
    before: TrialFile | None
    after: TrialFile
    also: Mapping[str, TrialFile] = {}
    expect: Prediction | None = None
    gone: tuple[str, ...] = ()

    @property
    def is_hook(self) -> bool:
        """Whether it is a hook script."""
        return self.path.startswith("hooks/")

    @property
    def is_profile(self) -> bool:
        """Whether it is a profile."""
        return self.path.startswith(PROFILES)

    @property
    def is_gone(self) -> bool:
        """Whether the file is removed."""
        return self.path in self.gone

    @property
    def is_uncalled(self) -> bool:
        """Whether no past call could be answered with it: scripts do not get a profile."""
        return self.is_profile or (self.is_hook and self.is_gone)

    @property
    def file(self) -> str:
        """The bare name of its file."""
        return self.path.partition("/")[2]

    @property
    def changes(self) -> Changes:
        """What is different in a workspace with the candidate in place."""
        return {self.path: self.after, **self.also, **dict.fromkeys(self.gone)}


class GateContext(msgspec.Struct, frozen=True):
    """What is live around a candidate.

    `root` is the workspace, `restored` what puts departed files back in a copy of it, and what nobody accepted outside
    the guarded folders (`outside`). `live` is what its script last
    registered, `others` the workspace's other scripts, `hooks` the live scripts by file name, `prompts` by stage.
    `records` are past calls, newest first, `unread` a sentence on each that could not be read. `grant` is what its
    script was granted (None: a prompt), `neighbours` what the others were.
    """

    root: Path
    restored: Changes
    live: Registration | None
    others: Sequence[Registration]
    hooks: Mapping[str, TrialFile]
    prompts: Mapping[str, str]
    records: Sequence[HookCallRecord]
    terms: Terms
    unread: Sequence[str] = ()
    outside: Sequence[str] = ()
    grant: Authority | None = None
    neighbours: Sequence[Authority] = ()


class Candidates:
    """Makes candidates of one workspace, and tells what is live around them."""

    def __init__(
        self, storage: Storage, policy: ExecutionPolicy, scripts: Scripts, config: EvolveConfig
    ) -> None:
        self._storage = storage
        self._policy = policy
        self._scripts = scripts
        self._config = config

    def make(
        self,
        path: str,
        change: Change,
        expect: Prediction | None = None,
        also: Mapping[str, TrialFile] | None = None,
    ) -> Candidate:
        """Return the candidate that `change` makes of a file, which keeps its permission bits.

        Raises `NotChanged`.
        """
        accepted = self._storage.ledger.files.get(path)
        departed = {one.path: one for one in self._storage.ledger.check()}
        if path in departed:
            raise NotChanged(f"{departed[path].text}: a person must accept or restore it first")
        content = self._storage.ledger.good(path)
        if accepted is not None and content is None:
            raise NotChanged(f"no copy of the accepted version of {path} is left")
        before = None if accepted is None or content is None else TrialFile(content, accepted.mode)
        if before is None and not self._may_create(path):
            raise NotChanged(f"there is no {path}; {MAY_NOT_CREATE}")
        self._refuse_known(path, before, also or {})
        after = _changed(path, before, change)
        new = 0o755 if path.startswith("hooks/") else 0o644
        bits = before.mode if before is not None else new
        if path.startswith("hooks/"):
            bits |= stat.S_IXUSR
        return Candidate(path, before, TrialFile(after, bits), also or {}, expect)

    def mark(self, candidate: Candidate, context: GateContext, claim: str) -> str:
        """Return what stands for a candidate and for all that it is judged by, in hex; see `gate.known`.

        Space at the end of its text does not count.
        """
        what = (candidate.path, candidate.after.content.rstrip(), candidate.after.mode, candidate.also, claim)
        files = {path: (one.blob, one.mode) for path, one in self._storage.ledger.files.items()}
        by = (files, context.restored, self._config, self._storage.references.standing())
        return sha256(msgspec.json.encode([what, by], order="sorted")).hexdigest()

    async def context(self, candidate: Candidate) -> GateContext:
        """Return the live state around a candidate."""
        storage, scripts = self._storage, self._scripts
        try:
            restored, outside = await self.restored()
        except NotChanged as error:
            raise NotChanged(f"{candidate.path} was not changed: {error}") from None
        file = candidate.file if candidate.is_hook else ""
        kept = await storage.records.read(file or None)
        terms = await self._policy.terms()
        live = await scripts.live(file) if file else None
        try:
            grant = self._grant(candidate, live, kept.records, terms) if file else None
            neighbours = storage.grants.others(file) if file else []
        except OSError as error:
            raise NotChanged(
                f"{candidate.path} was not changed: what scripts were granted cannot be read ({error})"
            ) from None
        return GateContext(
            root=storage.ledger.root,
            restored=restored,
            outside=outside,
            live=live,
            others=[one for one in scripts.registrations if one.file != file],
            hooks={
                entry.name: TrialFile(content, 0o755)
                for entry in scripts.runnable()
                if (content := storage.ledger.good(f"hooks/{entry.name}")) is not None
            },
            prompts=scripts.prompts.all(),
            records=kept.records,
            terms=terms,
            unread=kept.problems,
            grant=grant,
            neighbours=neighbours,
        )

    async def restored(self) -> tuple[dict[str, TrialFile | None], list[str]]:
        """Return `GateContext.restored` and `GateContext.outside`. Raises `NotChanged`."""
        storage = self._storage
        found: dict[str, TrialFile | None] = {}
        for one in storage.ledger.check():
            version, good = storage.ledger.files.get(one.path), storage.ledger.good(one.path)
            found[one.path] = (
                TrialFile(good, version.mode) if version is not None and good is not None else None
            )
        try:
            outside = await unaccepted(storage.repository, storage.revisions, self._config.loads)
        except FAILED as error:
            raise NotChanged(
                f"git cannot say what nobody accepted outside the guarded folders ({error})"
            ) from None
        return {**outside, **found}, sorted(outside)

    def _grant(
        self,
        candidate: Candidate,
        live: Registration | None,
        records: Sequence[HookCallRecord],
        terms: Terms,
    ) -> Authority:
        """Return what the live version of a script is granted now."""
        known = self._storage.grants.of(candidate.file)
        if known is not None:
            grant = known.grant
        elif candidate.before is None:
            grant = authority.created(terms)
        else:
            grant = authority.own(live.tools if live is not None else (), terms)
        seen = [name for one in records for name in authority.used(one.answer or {})]
        return grant.now(seen, terms)

    def _refuse_known(self, path: str, before: TrialFile | None, also: Mapping[str, TrialFile]) -> None:
        """Check that a new script's test changes no existing one. Raises `NotChanged`."""
        root, files = self._storage.ledger.root, self._storage.ledger.files
        if also and before is not None:
            raise NotChanged(f"{path} was not changed: only a new script brings a test; leave `test` out")
        known = [name for name in also if name in files or os.path.lexists(root / name)]
        if known:
            raise NotChanged(
                f"{path} was not changed: there is a {', '.join(known)} already; name the script otherwise"
            )

    def _may_create(self, path: str) -> bool:
        if path.startswith(PROFILES):
            return True  # nothing runs it, and only a person starts with it
        return self._config.create == "allow" and visible(path.partition("/")[2])


def _changed(path: str, before: TrialFile | None, change: Change) -> bytes:
    try:
        old = "" if before is None else before.content.decode()
    except UnicodeDecodeError as error:
        raise NotChanged(f"{path} is not UTF-8 text (byte {error.start})") from None
    try:
        new = change(old)
    except edit.NoEdit as error:
        raise NotChanged(f"{path}: {error}") from None
    if before is not None and new == old:
        raise NotChanged(f"{path} already says exactly that: nothing to change")
    try:
        return new.encode()
    except UnicodeEncodeError as error:
        raise NotChanged(f"{path}: the new text is not valid Unicode: {error.reason}") from None


def text(content: bytes) -> str:
    """Return a version's text; what is not UTF-8 reads as replacement characters."""
    return content.decode(errors="replace")
