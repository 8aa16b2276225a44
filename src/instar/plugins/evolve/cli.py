"""``instar evolve``: look at a workspace, try a candidate by hand, read what evolved.

Works whether or not the configuration lists evolve. Needs of ``ctx.obj``: `environment` and `trust`.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

from instar.plugin import git, process
from instar.plugins.evolve import candidate, discovery, script, settings
from instar.plugins.evolve.history import History
from instar.plugins.evolve.scripts import Scripts
from instar.plugins.evolve.workspace import VARIABLES, Located, Workspace, locate

_KEY = "instar.evolve.located"


@click.group("evolve")
@click.option(
    "--workspace", metavar="PATH", help=f"The workspace (default: ${VARIABLES[0]}, else ~/workspace)."
)
@click.pass_context
def command(ctx: click.Context, workspace: str | None) -> None:
    """Look at an evolve workspace: its scripts and tools, a candidate's test, what has evolved."""
    given = str(Path(workspace).expanduser().absolute()) if workspace else None
    ctx.meta[_KEY] = locate(ctx.obj.environment, {"workspace": given}, {})


@command.command()
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show the workspace's scripts, tools, history and problems. Exit code 1 when evolve would be off."""
    found = _open(ctx)
    click.echo(f"workspace  {found.workspace.root} ({found.located.source})")
    problems = asyncio.run(_status(found))
    for problem in problems:
        click.echo(f"problem    {problem}")
    if not found.runs:
        raise click.exceptions.Exit(1)


@command.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_context
def validate(ctx: click.Context, file: Path) -> None:
    """Try FILE in place of the hook script of the same name, without installing it. Exit code 1: refused."""
    found = _open(ctx)
    if not found.runs:
        _fail(found.problem or _distrust(found))
    try:
        content = file.read_bytes().decode()
    except UnicodeDecodeError as error:
        _fail(f"{file} is not UTF-8 text (byte {error.start})")
    except OSError as error:
        _fail(f"{file} cannot be read: {error.strerror}")
    try:
        verdict = asyncio.run(_validate(found, file.name, content))
    except candidate.Refused as error:
        _fail(f"hooks/{file.name} would be refused: {error}")
    click.echo((verdict.test_output or "").rstrip())
    test = verdict.registration.test
    tried = f"tests/{test} passed" if test else "no test is registered, so only discover was tried"
    click.echo(f"hooks/{file.name} would be installed: {tried}")


@command.command()
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, help="How many commits (default 20).")
@click.pass_context
def log(ctx: click.Context, limit: int) -> None:
    """List the workspace's commits, newest first."""
    found = _open(ctx)
    if not (found.workspace.root / ".git").exists():
        _fail(f"{found.workspace.root} is no git repository yet: evolve makes it when it runs")
    try:
        lines = asyncio.run(_log(found, limit))
    except (git.GitError, process.ProcessError) as error:
        _fail(str(error))
    if lines:
        click.echo("\n".join(lines))


class _Opened(msgspec.Struct, frozen=True):
    """A workspace with what a command needs to know of it; `problem` is what is wrong with its settings."""

    located: Located
    workspace: Workspace
    environment: dict[str, str]
    trusted: bool
    settings: settings.Settings | None
    problem: str | None

    @property
    def runs(self) -> bool:
        """Whether evolve would be on, so that scripts may be run."""
        return self.trusted and self.settings is not None

    def place(self) -> script.Place:
        chosen = self.settings or settings.Settings()
        root = self.workspace.root
        given = script.environment(self.environment, root, chosen.pass_environment)
        return script.Place(root, given, chosen.timeout)


class _NoValues:
    """A plugin's values outside of a runtime: none."""

    async def get(self, key: str) -> Any:
        return None

    async def set(self, key: str, value: Any) -> None:
        return None

    async def list(self, prefix: str = "") -> dict[str, Any]:
        return {}


def _open(ctx: click.Context) -> _Opened:
    located: Located = ctx.meta[_KEY]
    if not located.root.is_dir():
        _fail(f"there is no workspace at {located.root} ({located.source}): make it, or set {VARIABLES[0]}")
    workspace = Workspace(located.root)
    trusted = located.by_person or ctx.obj.trust.is_trusted(located.root)
    loaded, problem = None, None
    try:
        loaded = settings.load(workspace.config, ctx.obj.environment).settings
    except settings.SettingsError as error:
        problem = f"{error}; evolve is off until it is mended"
    return _Opened(located, workspace, dict(ctx.obj.environment), trusted, loaded, problem)


@contextlib.asynccontextmanager
async def _scripts(found: _Opened) -> AsyncIterator[tuple[process.Processes, Scripts]]:
    processes = process.Processes()
    try:
        scripts = Scripts(processes, found.workspace, _NoValues(), found.place)
        await scripts.refresh()
        yield processes, scripts
    finally:
        await processes.close()


async def _status(found: _Opened) -> list[str]:
    """Print the scripts and the history; return what is wrong."""
    problems = [found.problem] if found.problem else []
    if not found.runs:
        for entry in found.workspace.hook_files():
            click.echo(f"script     hooks/{entry.name} (not run)")
        return problems if found.trusted else [*problems, _distrust(found)]
    async with _scripts(found) as (processes, scripts):
        for one in scripts.registrations:
            names = ", ".join(tool.full for tool in one.tools) or "none"
            test = f"tests/{one.test}" if one.test else "none"
            click.echo(f"script     hooks/{one.file}: name {one.name}, test {test}, tools {names}")
        history = History(processes, found.workspace.root)
        click.echo(f"history    {await _newest(history, found.workspace.root)}")
        return problems + scripts.problems + discovery.collisions(scripts.registrations)[1]


def _fail(text: str) -> NoReturn:
    """End with exit code 1 and a message, whose lines stay lines: a test's output is unreadable on one."""
    click.echo(f"instar: {text}", err=True)
    raise click.exceptions.Exit(1)


async def _newest(history: History, root: Path) -> str:
    if not (root / ".git").exists():
        return "no repository yet; evolve makes it when it runs"
    try:
        return next(iter(await history.entries(1)), "no commits yet")
    except (git.GitError, process.ProcessError) as error:
        return str(error).splitlines()[0]


async def _validate(found: _Opened, file: str, content: str) -> candidate.Verdict:
    async with _scripts(found) as (processes, scripts):
        if scripts.find(file) is None:
            raise candidate.Refused(f"the workspace has no hook script hooks/{file} with its run bit set")
        attempt = candidate.Candidate(file, content, await scripts.live(file))
        return await candidate.check(processes, found.workspace, attempt, found.place())


async def _log(found: _Opened, limit: int) -> list[str]:
    processes = process.Processes()
    try:
        return await History(processes, found.workspace.root).entries(limit)
    finally:
        await processes.close()


def _distrust(found: _Opened) -> str:
    root = found.workspace.root
    return f"{root} is not trusted, so nothing in it is run: instar trust {root}, or name it by --workspace"
