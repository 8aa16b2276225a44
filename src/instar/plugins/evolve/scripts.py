"""The hook scripts of a workspace: what they register, and calling one hook on all of them.

Scripts run one after another in alphabetical order (seed 000 "composability").
"""

import logging
from collections.abc import Callable, Sequence

import msgspec

from instar.plugin import KV, process, wire
from instar.plugins.evolve import discovery, protocol, script
from instar.plugins.evolve.prompts import Prompts
from instar.plugins.evolve.workspace import Entry, Workspace

log = logging.getLogger("instar.evolve")


class Outcome(msgspec.Struct, frozen=True):
    """What one hook gave over all scripts: the merged answer, and the calls that failed."""

    answer: protocol.Answer
    failures: Sequence[script.ScriptFailure]


class Scripts:
    """Registered scripts. `place` says where and how they run now."""

    def __init__(
        self, processes: process.Processes, workspace: Workspace, kv: KV, place: Callable[[], script.Place]
    ) -> None:
        self._processes = processes
        self._workspace = workspace
        self._kv = kv
        self._place = place
        self._silent: set[tuple[str, tuple[int, int, int, int], str]] = set()
        self._known: dict[str, tuple[tuple[int, int, int, int], discovery.Registration]] = {}
        self._failed: dict[str, script.ScriptFailure] = {}
        self._unrecovered: list[script.ScriptFailure] = []
        self.entries: list[Entry] = []
        self.prompts = Prompts(workspace)

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
        said = [entry.problem for entry in self.entries if entry.problem]
        failed = [self._failed[entry.name] for entry in self.entries if entry.name in self._failed]
        said += [f"{failure}; its tools are left out" for failure in failed]
        return said + [problem for one in self.registrations for problem in one.problems]

    def runnable(self) -> list[Entry]:
        """Return the scripts that are called."""
        return [entry for entry in self.entries if entry.executable]

    def find(self, file: str) -> Entry | None:
        """Return the script of this file name, if it is one that is called."""
        return next((entry for entry in self.runnable() if entry.name == file), None)

    async def refresh(self) -> bool:
        """Look at ``hooks/`` again and call `discover` on what changed; whether anything did."""
        entries = self._workspace.hook_files()
        if entries == self.entries:
            return False
        for entry in entries:
            if entry.problem and entry not in self.entries:
                log.warning("script=%s problem=%s", entry.name, script.show(entry.problem))
        self.entries = entries
        for entry in self.runnable():
            if self._version(entry.name) != entry.signature:
                await self._discover(entry)
        present = {entry.name for entry in self.runnable()}
        for file in [file for file in self._known if file not in present]:
            del self._known[file]
            self._failed.pop(file, None)
        self._silent = {mark for mark in self._silent if any(e.signature == mark[1] for e in entries)}
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

    def answers(self, hook: str) -> list[Entry]:
        """Return the scripts that may answer `hook`: all but those that said they do not know it."""
        return [entry for entry in self.runnable() if (entry.name, entry.signature, hook) not in self._silent]

    async def call(self, entry: Entry, hook: str, fields: wire.Plain) -> protocol.Answer:
        """Call one script. Raises `ScriptFailure`, and `UnknownHook`, which is remembered."""
        given = {**fields, "prompts": self.prompts.all()}
        try:
            return await script.call(self._processes, entry.path, hook, given, self._place())
        except script.UnknownHook:
            self._silent.add((entry.name, entry.signature, hook))
            raise

    async def call_all(self, hook: str, fields: wire.Plain) -> Outcome:
        """Call every script that may answer, in order, and merge. A failure stops none of the others."""
        answers: list[protocol.Answer] = []
        failures: list[script.ScriptFailure] = []
        for entry in self.answers(hook):
            try:
                answers.append(await self.call(entry, hook, fields))
            except script.UnknownHook:
                continue
            except script.ScriptFailure as error:
                failures.append(error)
        return Outcome(protocol.merge(answers), failures)

    def _version(self, file: str) -> tuple[int, int, int, int] | None:
        known = self._known.get(file)
        return None if known is None else known[0]

    async def _discover(self, entry: Entry) -> None:
        self._failed.pop(entry.name, None)
        answer: protocol.Answer = {}
        try:
            answer = await self.call(entry, "discover", {})
        except script.UnknownHook:
            log.debug("script=%s hook=discover unknown", entry.name)
        except script.ScriptFailure as error:
            # Its tools are gone, rather than offered as they were: nobody knows what the script does now.
            self._failed[entry.name] = error
            self._unrecovered.append(error)
        registration = discovery.register(entry.name, answer)
        self._known[entry.name] = (entry.signature, registration)
        for problem in registration.problems:
            log.warning("script=%s problem=%s", entry.name, script.show(problem))
        if entry.name not in self._failed:
            await self._remember(registration)

    async def _remember(self, registration: discovery.Registration) -> None:
        key = f"registered:{registration.file}"
        said = {"name": registration.name, "test": registration.test}
        if await self._kv.get(key) != said:
            await self._kv.set(key, said)
