"""The hook scripts of a workspace: what they register, and calling one hook on all of them.

Scripts run one after another in alphabetical order.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import msgspec

from instar.plugin import KV, HookWait, process, wire
from instar.plugins.evolve import discovery, protocol, script
from instar.plugins.evolve.workspace import HookFile, Workspace, WorkspacePrompts

log = logging.getLogger("instar.evolve")
waiting = logging.getLogger("instar.waiting")

_PATIENCE: Final = 2.0
"""Seconds of a `discover` after which the person is told who is waited for."""
_UNPROVEN: Final = (
    "it has never answered discover here, so what stands there was taken over untested, and only its recover is "
    "called until discover works"
)
_HUNG: Final = "hung, and is not asked again until its file changes (touch it); it was ended"


class HookAnswer(msgspec.Struct, frozen=True):
    """What one hook gave over all scripts: the merged answer, and the calls that failed."""

    answer: protocol.Answer
    failures: Sequence[script.ScriptFailure]


class ScriptStage(Protocol):
    """Where the scripts of a workspace run now."""

    async def stand(self) -> Workspace:
        """Return the workspace to run them in, checked just now. Raises `NoScripts` where nothing may be run."""
        ...

    def version(self, path: str) -> str:
        """Return the accepted hash of a file."""
        ...

    async def place(self, file: str, root: Path, session: wire.Plain) -> script.ScriptEnvironment:
        """Return how ``hooks/FILE`` is started in `root`, for a session (``id`` and ``agent``) or for none."""
        ...

    def resting(self, file: str, hook: str) -> bool:
        """Whether the script is not asked for this hook now, since it failed too often."""
        ...

    def told(self, file: str, called: script.ScriptCall) -> None:
        """Hear of a call that came to its end."""
        ...

    def registered(self, said: discovery.Registration) -> discovery.Registration:
        """Return what a script registers, as far as it was granted that."""
        ...

    def allowed(self, file: str, answer: protocol.Answer) -> protocol.Answer:
        """Return an answer without the actions that its script was not granted."""
        ...


class NoScripts(Exception):
    """No script may be run now; the text says why and what to do."""


class Scripts:
    """Registered scripts, as they run on `stage`. `publish` sends an event's properties."""

    def __init__(
        self,
        processes: process.Processes,
        kv: KV,
        stage: ScriptStage,
        start: Workspace,
        publish: Callable[[wire.Wire], Awaitable[None]],
    ) -> None:
        self._processes = processes
        self._publish = publish
        self._kv = kv
        self._stage = stage
        self._silent: set[tuple[str, tuple[int, int, int, int], str]] = set()
        self._known: dict[str, tuple[tuple[int, int, int, int], discovery.Registration]] = {}
        self._failed: dict[str, script.ScriptFailure] = {}
        self._unrecovered: list[script.ScriptFailure] = []
        self._unproven: set[str] = set()
        self._news: set[str] = set()
        self._stopped = ""
        self.entries: list[HookFile] = []
        self.workspace = start
        self.prompts = WorkspacePrompts(start)

    @property
    def registrations(self) -> list[discovery.Registration]:
        """What each script registered, in the order in which they run."""
        return [self._known[entry.name][1] for entry in self.entries if entry.name in self._known]

    @property
    def failing(self) -> bool:
        """Whether the `discover` of some script failed when it was last called."""
        return bool(self._failed)

    @property
    def problems(self) -> list[str]:
        """What is wrong with the scripts, a sentence each."""
        said = [self._stopped] if self._stopped else []
        for failure in [self._failed[entry.name] for entry in self.entries if entry.name in self._failed]:
            untested = f"; {_UNPROVEN}" if failure.script in self._unproven else ""
            said.append(f"{failure}; its tools are left out{untested}")
        return said + [problem for one in self.registrations for problem in one.problems]

    @property
    def notes(self) -> list[str]:
        """What a person may want to know of the scripts that is no fault of theirs, a sentence each."""
        unrunnable = [entry.problem for entry in self.entries if entry.problem]
        return unrunnable + [one.note for one in self.registrations if one.note]

    @property
    def news(self) -> list[str]:
        """Those of the notes that no earlier start had."""
        return [note for note in self.notes if note in self._news]

    def runnable(self) -> list[HookFile]:
        """Return the scripts that are called."""
        return [entry for entry in self.entries if entry.executable]

    def find(self, file: str) -> HookFile | None:
        """Return the script of this file name, if it is one that is called."""
        return next((entry for entry in self.runnable() if entry.name == file), None)

    async def refresh(self) -> bool:
        """Look where scripts run and call `discover` on what changed there; whether anything did."""
        await self.look()
        return await self.discover()

    async def discover(self) -> bool:
        """Call `discover` on what changed in ``hooks/``, where `look` found it; whether anything did."""
        entries = [] if self._stopped else self.workspace.hook_files()
        if entries == self.entries:
            return False
        self.entries = entries
        for entry in self.runnable():
            if self._version(entry.name) != entry.signature:
                await self._discover(entry)
        present = {entry.name for entry in self.runnable()}
        for file in [file for file in self._known if file not in present]:
            del self._known[file]
            self._failed.pop(file, None)
        self._silent = {mark for mark in self._silent if any(e.signature == mark[1] for e in entries)}
        await self._note()
        return True

    async def live(self, file: str) -> discovery.Registration | None:
        """Return what the script last registered without failing, also before a restart."""
        known = self._known.get(file)
        if known is not None and file not in self._failed:
            return known[1]
        saved = await self._kv.get(f"registered:{file}")
        if not isinstance(saved, dict):
            return None
        return discovery.Registration(file, str(saved["name"]), saved.get("test"))

    def take_failures(self) -> list[script.ScriptFailure]:
        """Return the calls of `discover` that failed since this was last asked."""
        taken, self._unrecovered = self._unrecovered, []
        return taken

    def answers(self, hook: str) -> list[HookFile]:
        """Return the scripts that may answer `hook`.

        Left out are those that said they do not know it, those that failed too often, and those that never registered.
        """
        return [
            entry
            for entry in self.runnable()
            if (entry.name, entry.signature, hook) not in self._silent
            and not self._stage.resting(entry.name, hook)
            and (entry.name not in self._unproven or hook == "recover")
        ]

    async def call(self, entry: HookFile, hook: str, fields: wire.Plain) -> protocol.Answer:
        """Call one script. Raises `ScriptFailure`, and `UnknownHook`, which is remembered."""
        entry = await self._now(entry, hook)
        given = {**fields, "prompts": self.prompts.all()}
        place = await self._stage.place(entry.name, self.workspace.root, fields.get("session") or {})
        try:
            answer = await script.call(
                self._processes, entry.path, hook, given, place, partial(self._stage.told, entry.name)
            )
            return self._stage.allowed(entry.name, answer)
        except script.UnknownHook:
            self._silent.add((entry.name, entry.signature, hook))
            raise

    async def call_all(self, hook: str, fields: wire.Plain) -> HookAnswer:
        """Call every script that may answer, in order, and merge. A failure stops none of the others."""
        answers: list[protocol.Answer] = []
        failures: list[script.ScriptFailure] = []
        session = fields.get("session")
        for entry in self.answers(hook):
            name = f"hooks/{entry.name}"
            try:
                async with (
                    HookWait(self._publish, session["id"], "evolve", name, hook) if session else nullcontext()
                ):
                    answers.append(await self.call(entry, hook, fields))
            except script.UnknownHook:
                continue
            except script.ScriptFailure as error:
                failures.append(error)
        return HookAnswer(protocol.merge(answers), failures)

    async def look(self) -> None:
        """Look where scripts run now: in the workspace, or in its last good tree."""
        try:
            found = await self._stage.stand()
        except NoScripts as error:
            if str(error) != self._stopped:
                log.error("evolve=stopped problem=%s", script.show(str(error)))
            self._stopped = str(error)
            return
        self._stopped = ""
        if found is not self.workspace:
            self.workspace, self.prompts = found, WorkspacePrompts(found)

    async def _now(self, entry: HookFile, hook: str) -> HookFile:
        """The script as it may be run at this moment: what stands there was looked at before each call."""
        await self.look()
        if self._stopped:
            raise script.ScriptFailure(entry.name, hook, f"was not called: {self._stopped}", kind="unstarted")
        path = self.workspace.hooks / entry.name
        return entry if path == entry.path else msgspec.structs.replace(entry, path=path)

    def _version(self, file: str) -> tuple[int, int, int, int] | None:
        known = self._known.get(file)
        return None if known is None else known[0]

    async def _discover(self, entry: HookFile) -> None:
        self._failed.pop(entry.name, None)
        self._unproven.discard(entry.name)
        answer: protocol.Answer = {}
        try:
            answer = await self._ask(entry)
        except script.UnknownHook:
            log.debug("script=%s hook=discover unknown", entry.name)
        except script.ScriptFailure as error:
            # Its tools are gone, rather than offered as they were: nobody knows what the script does now.
            self._failed[entry.name] = error
            self._unrecovered.append(error)
            if await self._kv.get(f"registered:{entry.name}") is None:
                self._unproven.add(entry.name)
                log.error("script=%s problem=%s", entry.name, script.show(_UNPROVEN))
        registration = discovery.register(entry.name, answer)
        if entry.name not in self._failed:
            registration = self._stage.registered(registration)
        self._known[entry.name] = (entry.signature, registration)
        for problem in registration.problems:
            log.warning("script=%s problem=%s", entry.name, script.show(problem))
        if entry.name not in self._failed:
            await self._remember(registration)

    async def _ask(self, entry: HookFile) -> protocol.Answer:
        """Call `discover`. A version that hung is not called again, also after a restart. Raises as `call`."""
        key, version = f"hung:{entry.name}", list(entry.signature)
        if await self._kv.get(key) == version:
            raise script.ScriptFailure(entry.name, "discover", _HUNG, kind="timeout", seconds=script.DISCOVER)
        said = f"hooks/{entry.name} has not answered discover yet; it may take {script.DISCOVER:g} s"
        patience = asyncio.get_running_loop().call_later(_PATIENCE, waiting.warning, said)
        try:
            return await self.call(entry, "discover", {})
        except script.ScriptFailure as error:
            if error.kind == "timeout":
                await self._kv.set(key, version)
            raise
        finally:
            patience.cancel()

    async def _note(self) -> None:
        """Keep the notes, so that none is told again, and log those that are new."""
        notes = self.notes
        known = await self._kv.get("notes") or []
        new = [note for note in notes if note not in known]
        for note in new:
            log.warning("scripts=note note=%s", script.show(note))
        self._news.update(new)
        if notes != known:
            await self._kv.set("notes", notes)

    async def _remember(self, registration: discovery.Registration) -> None:
        key = f"registered:{registration.file}"
        said = {"name": registration.name, "test": registration.test}
        if await self._kv.get(key) != said:
            await self._kv.set(key, said)
