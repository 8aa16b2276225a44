"""``instar opencode``: instar's plugins in a real opencode."""

import asyncio
from pathlib import Path

import click
import msgspec

from instar.bridge import installed
from instar.bridge.installed import InstallError, Place
from instar.cli.context import Context, tell_untrusted
from instar.cli.door import door
from instar.cli.failure import Failure
from instar.cli.text import one_line

_WORDS = {
    "absent": "not installed",
    "installed": "installed",
    "outdated": "installed by another instar: instar opencode install writes it anew",
    "changed": "changed since it was written",
    "foreign": "not written by instar",
}

_project = click.option(
    "--project", metavar="DIR", help="For this project (the working directory unless given)."
)
_everywhere = click.option("--global", "everywhere", is_flag=True, help="For every project of yours.")
_force = click.option("--force", is_flag=True, help="Also where the file is not as instar wrote it.")


@click.group()
def command() -> None:
    """Let instar's plugins (evolve, hooks, self, your Python files) work in opencode."""


@command.command()
@_project
@_everywhere
@_force
@door
def install(context: Context, project: str | None, everywhere: bool, force: bool) -> None:
    """Write the plugin file that starts instar's bridge in opencode."""
    place = _place(context, project, everywhere)
    try:
        installed.install(place, force=force)
    except InstallError as error:
        raise Failure(str(error)) from error
    click.echo(f"installed: {one_line(str(place.file))}")


@command.command()
@_project
@_everywhere
@_force
@door
def uninstall(context: Context, project: str | None, everywhere: bool, force: bool) -> None:
    """Delete that file, and the folders that were made for it and are empty."""
    place = _place(context, project, everywhere)
    try:
        gone = installed.uninstall(place, force=force)
    except InstallError as error:
        raise Failure(str(error)) from error
    click.echo(f"{'removed' if gone else 'not installed'}: {one_line(str(place.file))}")


@command.command()
@_project
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@door
def status(context: Context, project: str | None, as_json: bool) -> None:
    """Say where it is installed, and which plugins would work in opencode there."""
    folder = context.folder(project)
    places = {"project": Place.of_project(folder), "global": _everywhere_place(context)}
    states = {name: installed.state(place) for name, place in places.items()}
    opened, theirs, dropped = asyncio.run(_plugins(context, folder))
    if as_json:
        shown = {
            **{name: {"file": str(place.file), "state": states[name]} for name, place in places.items()},
            "plugins": opened,
            "opencode": theirs,
        }
        click.echo(msgspec.json.format(msgspec.json.encode(shown)))
        return
    for name, place in places.items():
        click.echo(f"{name}: {_WORDS[states[name]]} ({one_line(str(place.file))})")
    click.echo(f"plugins: {one_line(', '.join(opened)) or 'none'}")
    if theirs:
        click.echo(f"left to opencode: {one_line(', '.join(theirs))}")
    tell_untrusted(dropped)


async def _plugins(context: Context, folder: Path) -> tuple[list[str], list[str], list[str]]:
    # Start-up time: install and uninstall need no settings.
    from instar.bridge.opening import read
    from instar.process import Processes

    found = await read(folder, context.environment, Processes())
    own = {str(place.file) for place in (Place.of_project(folder), _everywhere_place(context))}
    theirs = [target for target in found.theirs if target not in own]
    return [one.target for one in (*found.early, *found.late)], theirs, found.settings.dropped


def _place(context: Context, project: str | None, everywhere: bool) -> Place:
    if everywhere and project is not None:
        raise click.UsageError("--global and --project exclude each other")
    return _everywhere_place(context) if everywhere else Place.of_project(context.folder(project))


def _everywhere_place(context: Context) -> Place:
    """opencode's own folder, in whichever place its configuration is kept."""
    config = context.environment.get("XDG_CONFIG_HOME")
    return Place.of_all(Path(config) if config else context.paths.home / ".config")
