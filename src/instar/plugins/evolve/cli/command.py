"""What the commands share: which workspace they work on, how they open it, what they print, how they fail and end."""

import asyncio
import contextlib
import functools
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from json import dumps
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

import click
import msgspec

from instar.plugin import Means
from instar.plugins.evolve import settings
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.history.trailers import plain
from instar.plugins.evolve.install import NotChanged
from instar.plugins.evolve.ledger.ledger import WorkspaceBusy
from instar.plugins.evolve.person import FAILURES
from instar.plugins.evolve.workspace import VARIABLES, LocatedWorkspace, Workspace, locate

T = TypeVar("T")

_KEY: Final = "instar.evolve.located"
_INSIDE: Final = "INSTAR_RUN"
"""The variable that instar gives to each program that it starts."""


def _name(ctx: click.Context, _parameter: click.Parameter, given: str | None) -> None:
    if given:
        ctx.meta[_KEY] = str(Path(given).expanduser().absolute())


workspace: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--workspace",
    metavar="PATH",
    shell_complete=lambda ctx, option, begun: ctx.obj.complete.folders(ctx, option, begun),
    expose_value=False,
    callback=_name,
    help=f"The workspace (default: ${VARIABLES[0]}, else the configuration's, else ~/workspace).",
)
"""The option of the group and of each command."""
_as_json: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class NamedWorkspace(msgspec.Struct, frozen=True):
    """A workspace that was named and is there. `cwd` is the person's folder, `quiet`: only the JSON is printed."""

    located: LocatedWorkspace
    workspace: Workspace
    trusted: bool
    environment: Mapping[str, str]
    cwd: Path
    means: Callable[[], AbstractAsyncContextManager[Means]]
    instance: Callable[..., AbstractAsyncContextManager[Any]]
    quiet: bool

    @property
    def root(self) -> Path:
        """The workspace's folder, links resolved."""
        return self.workspace.root

    @property
    def distrust(self) -> str:
        """Why nothing of it is run; empty when the person trusts it."""
        if self.trusted:
            return ""
        return (
            f"{self.root} is not trusted, so nothing in it is run: instar trust {self.root}, "
            "or name it by --workspace"
        )

    def path(self, text: str) -> str:
        """Return the path in the workspace that `text` means: as it stands there, or one that leads there from `cwd`.

        What exists is preferred; it need not. Links are not followed: a link in the workspace is a file of its own.
        """
        named = [
            Path(path).relative_to(top).as_posix()
            for start in (self.root, self.cwd)
            for top in (self.root, self.located.root)
            if Path(path := os.path.normpath(start / text)).is_relative_to(top)
        ]
        return next((one for one in named if os.path.lexists(self.root / one)), named[0] if named else text)


Names = Iterable[tuple[str, str]]


def completed(names: "Callable[[NamedWorkspace, OpenedEngine], Awaitable[Names]]") -> Callable[..., Any]:
    """Return what a shell completes with `names`: words and what they mean. No script is run."""

    async def read(found: NamedWorkspace) -> Names:
        async with opened(found) as at:
            return await names(found, at)

    def complete(ctx: click.Context, argument: click.Parameter, begun: str) -> Any:
        return ctx.obj.complete.words_of(lambda ctx: read(_find(ctx, quiet=True)))(ctx, argument, begun)

    return complete


class Printed(NamedTuple):
    """What a command prints: a value as JSON, or its text. `failed`: it ends with exit code 1, and says this."""

    value: Any
    text: str
    failed: str | None = None


def command(
    name: str | None = None, *, order: bool = False, epilog: str | None = None
) -> Callable[[Callable[..., Coroutine[Any, Any, Printed]]], click.Command]:
    """Make a command of a function on the named workspace; without `name` it has the function's.

    `order`: only a person may give it.
    """

    def made(work: Callable[..., Coroutine[Any, Any, Printed]]) -> click.Command:
        @functools.wraps(work, updated=())
        @click.pass_context
        def run(ctx: click.Context, /, as_json: bool, **given: Any) -> None:
            found = _find_for_order(ctx, as_json) if order else _find(ctx, as_json)
            printed = play(work(found, **given))
            if as_json:
                click.echo(_json(printed.value))
            elif printed.text:
                click.echo(plain(printed.text))
            if printed.failed:
                fail(printed.failed)
            if printed.failed is not None:
                raise click.exceptions.Exit(1)

        _as_json(run)
        vars(run)["__click_params__"] += vars(work).get("__click_params__", [])
        return click.command(name, epilog=epilog)(workspace(run))

    return made


def _find(ctx: click.Context, quiet: bool) -> NamedWorkspace:
    """Return the workspace that was named; ends the command where there is none."""
    given, environment = ctx.meta.get(_KEY), ctx.obj.environment
    named = given or any(environment.get(name) for name in VARIABLES)
    located = locate(environment, {"workspace": given}, {} if named else ctx.obj.plugin_options("evolve"))
    if not located.root.is_dir():
        fail(
            f"there is no workspace at {located.root} ({located.source}): name one by --workspace or "
            f"{VARIABLES[0]}, or make one with: instar init FOLDER"
        )
    return NamedWorkspace(
        located,
        Workspace(located.root),
        located.by_person or ctx.obj.trust.is_trusted(located.root),
        environment,
        ctx.obj.directory,
        lambda: ctx.obj.means("evolve"),
        lambda *args, **how: ctx.obj.instance(*args, **how),
        quiet,
    )


def _find_for_order(ctx: click.Context, quiet: bool) -> NamedWorkspace:
    """Return the workspace for what only a person may order.

    The shield is what keeps a program of the model's from it: instar's data and the workspace cannot be written there.
    This says so in words before it fails.
    """
    group = ctx.parent.info_name if ctx.parent is not None else ""
    refuse_inside(ctx.obj.environment, f"{group} {ctx.info_name}")
    return _find(ctx, quiet)


def refuse_inside(environment: Mapping[str, str], order: str) -> None:
    """End the command if a program gave the order that instar started."""
    if environment.get(_INSIDE):
        fail(
            f"instar {order} is a person's: it is not done for a program that instar started. "
            "Type it in a terminal of your own"
        )


# -- printing and failing --------------------------------------------------------------------------------------


def fail(text: str) -> NoReturn:
    """End with exit code 1 and a message, whose lines stay lines: a test's output is unreadable on one."""
    click.echo(f"instar: {plain(text)}", err=True)
    raise click.exceptions.Exit(1)


def play(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's work to its end. What it refuses or fails with is one message and exit code 1."""
    with failing():
        return asyncio.run(work)


@contextlib.contextmanager
def failing() -> Iterator[None]:
    """Turn what evolve refuses, and what fails, into `fail`."""
    try:
        yield
    except FAILURES as error:
        fail(str(error))
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error))


def stage(name: str) -> None:
    """Say on a terminal that the gate begins a stage: it may take seconds."""
    if sys.stderr.isatty():
        click.echo(f"{name} …", err=True)


def _json(value: Any) -> str:
    try:
        return msgspec.json.format(msgspec.json.encode(value)).decode()
    except UnicodeEncodeError:  # the name of a file need not be UTF-8
        return dumps(msgspec.to_builtins(value), indent=2)


# -- the engine, for the time of one command -------------------------------------------------------------------


@dataclass
class OpenedEngine:
    """An engine with what it was made of. Its scripts are discovered where `chosen`, the settings, let evolve run.

    `problems` say what is wrong with the settings.
    """

    engine: EvolveEngine
    means: Means
    chosen: settings.EvolveSettings | None = None
    problems: list[str] = field(default_factory=list)

    async def discover(self, named: NamedWorkspace) -> None:
        """Read the settings where scripts run now, and discover the scripts if they can be used."""
        found = self.engine.scripts
        await found.look()
        try:
            loaded = settings.load(found.workspace.config, named.environment)
        except settings.SettingsError as error:
            self.problems = [f"{error}; evolve is off until it is mended"]
            return
        self.chosen, self.problems = loaded.settings, list(loaded.warnings)
        self.engine.policy.take(self.chosen)
        await found.discover()


@contextlib.asynccontextmanager
async def opened(named: NamedWorkspace, *, safe: bool = False) -> AsyncIterator[OpenedEngine]:
    """Open what is kept on a workspace. Nothing of the workspace is run, and nothing is made or mended."""
    async with named.means() as means:

        async def refresh() -> None:
            if at.chosen is not None:
                await at.engine.scripts.refresh()

        at = OpenedEngine(
            EvolveEngine(means, named.root, means.processes, _publish, refresh, safe=safe), means
        )
        at.engine.policy.client = lambda: named.instance({})
        try:
            yield at
        finally:
            await at.engine.close()


@contextlib.asynccontextmanager
async def ledger(named: NamedWorkspace) -> AsyncIterator[OpenedEngine]:
    """Open a workspace to put files of it in place, also one whose settings are broken. No script is run.

    Raises `NotChanged` where the workspace is not trusted: git runs in it.
    """
    if not named.trusted:
        raise NotChanged(named.distrust)
    async with opened(named) as at:
        at.engine.policy.begin()
        await at.engine.open()
        yield at
        for said in [*await at.engine.shared.meet(), at.engine.shared.problem]:
            if said:
                click.echo(f"instar: {plain(said)}", err=True)


@contextlib.asynccontextmanager
async def scripts(named: NamedWorkspace) -> AsyncIterator[OpenedEngine]:
    """Open a workspace with its scripts discovered. Raises `NotChanged` where evolve would be off."""
    async with ledger(named) as at:
        await at.discover(named)
        if at.chosen is None:
            raise NotChanged(at.problems[0])
        yield at


@contextlib.asynccontextmanager
async def look(named: NamedWorkspace, *, safe: bool = False) -> AsyncIterator[OpenedEngine]:
    """Open a trusted workspace to look at it: as `scripts` does, but nothing is made.

    `safe`: as ``instar run --safe`` would start; raises `NotChanged` where no run has seen the workspace.

    One that evolve has not worked on yet is looked at as it stands, so that what stands there is accepted by the first
    run and not by a look.
    """
    async with opened(named, safe=safe) as at:
        engine = at.engine
        engine.policy.begin(look=True)
        seen = engine.storage.ledger.is_known()
        if safe and not seen:
            raise NotChanged(
                f"instar has not run on {named.root} yet: a first run tells what the agent changed"
            )
        if seen:
            try:
                await engine.storage.installer.open()
            except WorkspaceBusy as error:
                engine.storage.ledger.notice(str(error))
        if safe:
            await engine.storage.own.open()
        engine.look = "accepted" if seen else "unaccepted"
        await at.discover(named)
        yield at


async def _publish(_event: Any) -> None:
    """A command has no listeners; a run on the same workspace looks at the data before each step."""
