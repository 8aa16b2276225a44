"""``instar evolve``: look at a workspace, try a candidate by hand, read what evolved.

Works whether or not the configuration lists evolve. Needs of ``ctx.obj``: `environment`, `trust` and
`plugin_options(name)`, the options that the configuration gives to a plugin.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
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


def _name_workspace(ctx: click.Context, _parameter: click.Parameter, given: str | None) -> None:
    if given:
        ctx.meta[_KEY] = str(Path(given).expanduser().absolute())


_workspace: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--workspace",
    metavar="PATH",
    expose_value=False,
    callback=_name_workspace,
    help=f"The workspace (default: ${VARIABLES[0]}, else the configuration's, else ~/workspace).",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("evolve")
@_workspace
def command() -> None:
    """Look at an evolve workspace: its scripts and tools, a candidate's test, what has evolved."""


@command.command()
@_workspace
@_json
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Show the workspace's scripts, tools, history and problems. Exit code 1 when evolve would be off."""
    found = _open(ctx)
    report = asyncio.run(_status(found))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        _print(report)
    if not found.runs:
        raise click.exceptions.Exit(1)


@command.command()
@_workspace
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.pass_context
def validate(ctx: click.Context, file: Path) -> None:
    """Try FILE as the hook script of its name.

    FILE is tested in a copy of the workspace, and not installed. Exit code 1: it would be refused.
    """
    found = _open(ctx)
    if not found.runs:
        _fail(next(iter(found.problems), None) or _distrust(found))
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
@_workspace
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, help="How many commits (default 20).")
@_json
@click.pass_context
def log(ctx: click.Context, limit: int, as_json: bool) -> None:
    """List the workspace's commits, newest first."""
    found = _open(ctx)
    if not (found.workspace.root / ".git").exists():
        _fail(f"{found.workspace.root} is no git repository yet: evolve makes it when it runs")
    try:
        lines = asyncio.run(_log(found, limit))
    except (git.GitError, process.ProcessError) as error:
        _fail(str(error))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode([_commit(line) for line in lines])))
    elif lines:
        click.echo("\n".join(lines))


class _Opened(msgspec.Struct, frozen=True):
    """A workspace with what a command needs to know of it; `problems` are what is wrong with its settings."""

    located: Located
    workspace: Workspace
    environment: dict[str, str]
    trusted: bool
    settings: settings.Settings | None
    problems: list[str]

    @property
    def runs(self) -> bool:
        """Whether evolve would be on, so that scripts may be run."""
        return self.trusted and self.settings is not None

    def place(self) -> script.Place:
        chosen = self.settings or settings.Settings()
        root = self.workspace.root
        given = script.environment(self.environment, root, chosen.pass_environment)
        return script.Place(root, given, chosen.timeout)


class _Script(msgspec.Struct, frozen=True):
    """A hook script as `status` shows it; the rest is unknown when it was not run."""

    file: str
    name: str | None = None
    test: str | None = None
    tools: list[str] = []


class _Report(msgspec.Struct, frozen=True):
    """What `status` prints. `active` says whether evolve would be on, and so whether scripts were run."""

    workspace: str
    source: str
    active: bool
    scripts: list[_Script]
    history: str | None
    problems: list[str]


class _NoValues:
    """A plugin's values outside of a runtime: none."""

    async def get(self, key: str) -> Any:
        return None

    async def set(self, key: str, value: Any) -> None:
        return None

    async def list(self, prefix: str = "") -> dict[str, Any]:
        return {}


def _open(ctx: click.Context) -> _Opened:
    given, environment = ctx.meta.get(_KEY), ctx.obj.environment
    named = given or any(environment.get(name) for name in VARIABLES)
    located = locate(environment, {"workspace": given}, {} if named else ctx.obj.plugin_options("evolve"))
    if not located.root.is_dir():
        _fail(
            f"there is no workspace at {located.root} ({located.source}): name one by --workspace or "
            f"{VARIABLES[0]}, or make one with: instar init FOLDER"
        )
    workspace = Workspace(located.root)
    trusted = located.by_person or ctx.obj.trust.is_trusted(located.root)
    loaded, problems = None, []
    try:
        loaded, problems = msgspec.structs.astuple(settings.load(workspace.config, environment))
    except settings.SettingsError as error:
        problems = [f"{error}; evolve is off until it is mended"]
    return _Opened(located, workspace, dict(environment), trusted, loaded, problems)


@contextlib.asynccontextmanager
async def _scripts(found: _Opened) -> AsyncIterator[tuple[process.Processes, Scripts]]:
    processes = process.Processes()
    try:
        scripts = Scripts(processes, found.workspace, _NoValues(), found.place)
        await scripts.refresh()
        yield processes, scripts
    finally:
        await processes.close()


async def _status(found: _Opened) -> _Report:
    """Run `discover` of every script, where evolve would be on, and gather what `status` shows."""
    root, source = found.workspace.root, found.located.source
    if not found.runs:
        files = [_Script(f"hooks/{entry.name}") for entry in found.workspace.hook_files()]
        problems = found.problems if found.trusted else [*found.problems, _distrust(found)]
        return _Report(str(root), source, False, files, None, problems)
    async with _scripts(found) as (processes, scripts):
        shown = [
            _Script(
                f"hooks/{one.file}",
                one.name,
                f"tests/{one.test}" if one.test else None,
                [tool.full for tool in one.tools],
            )
            for one in scripts.registrations
        ]
        newest = await _newest(History(processes, root), root)
        problems = scripts.problems + _tests_missing(found, scripts)
        problems = found.problems + problems + discovery.collisions(scripts.registrations)[1]
        return _Report(str(root), source, True, shown, newest, problems)


def _tests_missing(found: _Opened, scripts: Scripts) -> list[str]:
    tests = {one.file: one.test for one in scripts.registrations if one.test}
    return [
        f"{file}: its test tests/{test} is missing, so no change of it can go live"
        for file, test in tests.items()
        if not (found.workspace.tests / test).is_file()
    ]


def _print(report: _Report) -> None:
    click.echo(f"workspace  {report.workspace} ({report.source})")
    for one in report.scripts:
        about = f": name {one.name}, test {one.test or 'none'}, tools {', '.join(one.tools) or 'none'}"
        click.echo(f"script     {one.file}{about if one.name else ' (not run)'}")
    if report.history is not None:
        click.echo(f"history    {report.history}")
    for problem in report.problems:
        click.echo(f"problem    {problem}")


def _commit(line: str) -> dict[str, str]:
    """A line of the history as an object: ``id date time zone subject``."""
    commit, day, hour, zone, subject = [*line.split(" ", 4), ""][:5]
    return {"id": commit, "time": f"{day} {hour} {zone}", "subject": subject}


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
