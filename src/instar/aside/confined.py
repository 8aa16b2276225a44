"""The children of a session apart: in a sandbox that cannot write or reach the network unless that was asked for.

================  ========================================================================
neither           a copy of the project, to be changed and thrown away; no network
`network`         the project itself, read-only; the person's network
`write`           the project itself, without what the shield guards; no network
both              what every child of the model's has: the shield (`instar.children`)
================  ========================================================================

A project that holds places of instar's own (a home folder) is shown read-only in place of a copy, since a copy would
show them too. Where the machine has no sandbox, nothing is started.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from instar.children import Children
from instar.git import common_folder
from instar.instance import Instance
from instar.process import Output, ProcessError
from instar.process.confine import Confinement
from instar.process.kept import MIB
from instar.sandbox import Copy, Level, Limits, Live, Sandbox, Shield, copy_of

LIMITS: Final = Limits(
    cpu=600, memory=16384 * MIB, processes=512, file=1024 * MIB, files=4096, temporary=1024 * MIB
)
"""What a child may use. A test run must fit in; its time is the session's own."""
_GIT: Final = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0"}
"""Git gives up at settings of the machine's that it cannot read, and need not write an index to say what changed."""
_READING: Final = "this session only reads: no file is changed by it"


class Confined(Children):
    """The children of one session apart. `close` ends them and lets go of the copy."""

    def __init__(self, instance: Instance, scratch: Path, *, write: bool, network: bool) -> None:
        """`scratch` is a folder for a copy, where one has to be made."""
        real = instance.children
        super().__init__(
            instance.processes,
            instance.paths,
            instance.environment,
            secrets=real.secrets,
            at_most=real.at_most,
        )
        self._real = real
        self._write = write
        # The kernel does not know an overlay that is mounted twice: files cannot be written then.
        self._alone = asyncio.Lock()
        self._box = _Box(instance, scratch, write=write, network=network)

    async def run(self, argv: Sequence[str], *, confine: Confinement | None = None, **how: Any) -> Output:
        """Run `argv` in the session's sandbox, whatever `confine` a tool would have. Raises `ProcessError`."""
        sandbox = await self._box.confinement()
        if sandbox is not None:
            how["env"] = {**(how.get("env") or self._variables), **_GIT}
        if sandbox is None or not isinstance(sandbox.place, Copy) or sandbox.place.work is None:
            return await super().run(argv, confine=sandbox or confine, **how)
        async with self._alone:
            return await super().run(argv, confine=sandbox, **how)

    async def level(self) -> Level:
        """Return how far children are confined here."""
        return await self._real.level()

    async def shield(self) -> Shield:
        """Return the shield of the person's own children."""
        return await self._real.shield()

    def refusal(self, path: Path, *, writing: bool) -> str | None:
        """Return why a tool may not read, or write, the file at `path`; None when it may."""
        if writing and not self._write:
            return _READING
        return self._real.refusal(path, writing=writing)

    def environment(self, variables: Mapping[str, str], keep: Collection[str] = ()) -> dict[str, str]:
        """Return `variables` without what holds a secret."""
        return self._real.environment(variables, keep)

    async def close(self) -> None:
        """End every child that still runs, then let go of the copy, at most half a second long."""
        await super().close()
        await self._box.close()


class _Box:
    """What the children of one session share: one copy, or one view of the project; made when the first one starts."""

    def __init__(self, instance: Instance, scratch: Path, *, write: bool, network: bool) -> None:
        project = instance.project
        self._real = instance.children
        self._source = (project.worktree if project.vcs else project.directory).resolve()
        self._scratch = scratch
        self._write, self._network = write, network
        self._making: asyncio.Task[Sandbox] | None = None
        self._held = ExitStack()

    async def confinement(self) -> Sandbox | None:
        """Return the sandbox; None: the shield will do. Raises `ProcessError`."""
        if self._write and self._network:
            return None
        if self._making is None:
            self._making = asyncio.create_task(self._made())
            self._making.add_done_callback(lambda task: task.cancelled() or task.exception())
        # A copy that is being made cannot be cut short; whoever waits for it can.
        return await asyncio.shield(self._making)

    async def close(self) -> None:
        """Let go of the copy. What takes longer goes on by itself."""
        letting_go = asyncio.create_task(self._let_go())
        letting_go.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.wait([letting_go], timeout=0.5)

    async def _let_go(self) -> None:
        if self._making is not None:
            await asyncio.wait([self._making])
        await asyncio.to_thread(self._held.close)

    async def _made(self) -> Sandbox:
        level, shield = await self._real.level(), await self._real.shield()
        if level.name == "none":
            raise ProcessError(f"there is no sandbox on this machine: {level.missing}; {level.todo}")
        hidden = [path for path in shield.hidden if path.resolve().is_relative_to(self._source)]
        common = common_folder(self._source)
        # A linked worktree's repository lies elsewhere; at the level "landlock" searches look where the project lies.
        shown = [path for path in (common,) if path is not None and not path.is_relative_to(self._source)]
        if self._write or self._network or hidden:
            live = self._live(shield, tuple(shield.hidden))
            return Sandbox(level, live, LIMITS, tuple(shown), frozenset(_GIT))
        if level.name == "landlock":
            shown.append(self._source)
        beside = None if level.overlay else self._scratch
        try:
            copy = await asyncio.to_thread(
                lambda: self._held.enter_context(copy_of(self._source, level, beside))
            )
        except OSError as error:
            raise ProcessError(f"the project could not be copied: {error}") from None
        return Sandbox(level, copy, LIMITS, tuple(shown), frozenset(_GIT))

    def _live(self, shield: Shield, hidden: tuple[Path, ...]) -> Live:
        guarded = (*shield.readonly, *shield.hidden)
        inside = [path.resolve() for path in guarded if path.resolve().is_relative_to(self._source)]
        writable: tuple[Path, ...] = ()
        if self._write:
            writable = (self._source,) if not inside else tuple(_free(self._source, inside))
        return Live(self._source, writable, shield.readonly, hidden, self._network)


def _free(source: Path, guarded: Sequence[Path]) -> list[Path]:
    """The folders of the project in which nothing is guarded: a folder can be written as a whole or not at all."""
    return [
        path
        for path in sorted(source.iterdir())
        if path.is_dir() and not path.is_symlink() and not any(one.is_relative_to(path) for one in guarded)
    ]
