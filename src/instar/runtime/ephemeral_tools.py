"""Which tools an ephemeral session has, and what its calls may do: what is named is allowed, nobody is asked."""

import asyncio
import fcntl
import os
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.definitions.agent import tool_rules
from instar.git import common_folder
from instar.message import Rule
from instar.plugin import Aside, Invalid, OwnTool, Tool, ToolContext, ToolFailure, ToolResult
from instar.plugin.tool import Execute
from instar.process import Output, ProcessError
from instar.process.child import MIB
from instar.process.confine import Confinement
from instar.sandbox.box import Limits, Sandbox
from instar.sandbox.level import Level
from instar.sandbox.model_process import Children
from instar.sandbox.place import Copy, Live, copy_of, remove
from instar.sandbox.shield import Shield
from instar.session.instance import Instance
from instar.session.state import SessionState
from instar.settings.permission import DEFAULTS, Action, from_config, matches
from instar.wire import Plain
from instar.wire.document import locked

STARTING: Final = frozenset(("bash", "glob", "grep"))
"""Tools that start children."""
_WRITING: Final = frozenset(("edit", "write", "apply_patch"))
_NEVER: Final = frozenset(("task", "question", "background", "invalid"))
_READ: Final = "This session may only read: {name} changes nothing here. Decide by what you can see."
_OFFLINE: Final = "This session has no network: {name} cannot be used here. Decide by what you can see."
LIMITS: Final = Limits(
    cpu=600, memory=16384 * MIB, processes=512, file=1024 * MIB, files=4096, temporary=1024 * MIB
)
"""What a child may use. A test run must fit in; its time is the session's own."""
_GIT: Final = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_OPTIONAL_LOCKS": "0"}
"""Git gives up at settings of the machine's that it cannot read, and need not write an index to say what changed."""
_READING: Final = "this session only reads: no file is changed by it"


def offer(instance: Instance, aside: Aside) -> dict[str, Tool]:
    """Return the tools by name, the caller's own last. Raises `Invalid` for an unavailable name."""
    names = dict.fromkeys(aside.tools)
    if _WRITING & names.keys():
        names |= dict.fromkeys(
            ("edit", "write", "apply_patch") if "write" in names else ("edit", "apply_patch")
        )
    found = {name: _tool(instance, aside, name) for name in names if name not in aside.own}
    return found | {name: _own(one) for name, one in aside.own.items()}


def rules(
    instance: Instance, caller: SessionState | None, aside: Aside, tools: Mapping[str, Tool]
) -> tuple[Rule, ...]:
    """Return the rules for its calls: only `tools`, without what a person denies.

    Where a person wants to be asked, it is allowed: the sandbox holds it, or the rule's author let it out. What the
    defaults would ask about (``.env``) is denied, since reading it needs no sandbox to break out of.
    """
    names = {tool.permission or name for name, tool in tools.items() if name not in aside.own}
    names |= {"read"} if "grep" in names else set()
    return (
        Rule(permission="*", pattern="*", action="deny"),
        *(Rule(permission=name, pattern="*", action="allow") for name in (*sorted(names), *aside.own)),
        *_held(sorted(names), (rule for rule in DEFAULTS if rule.permission == "read"), "deny"),
        *_held(sorted(names), _persons(instance, caller), "allow"),
    )


def _tool(instance: Instance, aside: Aside, name: str) -> Tool:
    builtin = instance.tools.get(name)
    if name in _NEVER:
        raise Invalid(
            f"an ephemeral session has no tool {name}: it begins no other session, asks nobody and leaves nothing"
            " running"
        )
    if builtin is None:
        found = instance.plugins.tools().get(name)
        if found is None:
            raise Invalid(f"there is no tool {name!r}; there are: {', '.join(sorted(_known(instance)))}")
        if not (aside.write and aside.network):
            raise Invalid(
                f"the tool {name} is a plugin's, which no sandbox holds: it is had with both write and network"
            )
        return found
    if name in _WRITING and not aside.write:
        return msgspec.structs.replace(builtin, execute=_refusing(_READ, name), permissions=None)
    if name == "webfetch" and not aside.network:
        return msgspec.structs.replace(builtin, execute=_refusing(_OFFLINE, name), permissions=None)
    return builtin


def _own(given: OwnTool) -> Tool:
    async def execute(args: Plain, ctx: ToolContext) -> str:
        return await given.take(args)

    return Tool(given.description, given.parameters, execute)


def _known(instance: Instance) -> Iterable[str]:
    return (instance.tools.keys() | instance.plugins.tools().keys()) - _NEVER


def _refusing(why: str, name: str) -> Execute:
    async def refuse(args: Plain, ctx: ToolContext) -> ToolResult:
        raise ToolFailure(why.format(name=name))

    return refuse


def _persons(instance: Instance, caller: SessionState | None) -> Iterator[Rule]:
    """Return the person's rules for all agents, the caller's agent and its session, in order of precedence."""
    config = instance.config
    yield from from_config(config.permission or {})
    yield from tool_rules(config.tools)
    if caller is not None:
        block = config.agent.get(caller.session.agent or config.default_agent or "build")
        if block is not None:
            yield from tool_rules(block.tools)
            yield from from_config(block.permission or {})
        yield from caller.session.permission or ()


def _held(names: Iterable[str], given: Iterable[Rule], asked: Action) -> Iterator[Rule]:
    """Return the rules limited to `names`: a rule for everything must not allow other tools."""
    for rule in given:
        for name in names:
            if matches(name, rule.permission):
                action = asked if rule.action == "ask" else rule.action
                yield Rule(permission=name, pattern=rule.pattern, action=action)


class Confined(Children):
    """The children of one ephemeral session. `close` ends them and removes the copy."""

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
        """End every child that still runs, then remove the copy, within half a second."""
        await super().close()
        await self._box.close()


class _Box:
    """The copy, or the view of the project, that the children of one session share; made for the first child."""

    def __init__(self, instance: Instance, scratch: Path, *, write: bool, network: bool) -> None:
        project = instance.project
        self._real = instance.children
        self._source = (project.worktree if project.vcs else project.directory).resolve()
        self._scratch = scratch
        self._write, self._network = write, network
        self._making: asyncio.Task[Sandbox] | None = None
        self._held = ExitStack()

    async def confinement(self) -> Sandbox | None:
        """Return the sandbox; None if the shield is enough. Raises `ProcessError`."""
        if self._write and self._network:
            return None
        if self._making is None:
            self._making = asyncio.create_task(self._made())
            self._making.add_done_callback(lambda task: task.cancelled() or task.exception())
        # A copy that is being made cannot be cut short; whoever waits for it can.
        return await asyncio.shield(self._making)

    async def close(self) -> None:
        """Remove the copy; if that takes long, in the background."""
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
    """Return the folders of the project without guarded paths: a folder is writable as a whole or not at all."""
    return [
        path
        for path in sorted(source.iterdir())
        if path.is_dir() and not path.is_symlink() and not any(one.is_relative_to(path) for one in guarded)
    ]


class ScratchFolder:
    """The folder `folder`, held by a lock for as long as this process uses it."""

    def __init__(self, data: Path) -> None:
        """Make the folder below the data folder, which no child can see. Raises `OSError`."""
        parent = data / "aside"
        with locked(parent):
            for left in parent.iterdir():
                _remove_unused(left)
            self.folder = Path(tempfile.mkdtemp(dir=parent))
            self._lock = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder with its content. Raises `OSError`; then the next process removes it."""
        try:
            remove(self.folder)
        finally:
            os.close(self._lock)


def _remove_unused(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # somebody works in it
    else:
        remove(folder)
    finally:
        os.close(handle)
