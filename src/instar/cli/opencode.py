"""``instar opencode``: instar's plugins in a real opencode; ``instar bridge`` is what opencode starts for them."""

import asyncio
from pathlib import Path

import click

from instar.cli.door import Context, Failure, door, json_option, tell_untrusted
from instar.cli.text import echo, one_line, print_json
from instar.opencode.bridge import installed
from instar.opencode.bridge.installed import BridgeFile, InstallError

WORDS = {
    "absent": "not installed",
    "installed": "installed",
    "outdated": "installed by another instar: instar opencode install writes it anew",
    "changed": "changed since it was written",
    "foreign": "not written by instar",
}

_project = click.option(
    "--project", metavar="DIR", help="In this project (without it: in the working directory)."
)
_everywhere = click.option("--global", "everywhere", is_flag=True, help="In all your projects.")
_force = click.option("--force", is_flag=True, help="Also if the file is not as instar wrote it.")


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
    echo(f"installed: {one_line(str(place.file))}")


@command.command()
@_project
@_everywhere
@_force
@door
def uninstall(context: Context, project: str | None, everywhere: bool, force: bool) -> None:
    """Delete the plugin file. Empty folders that were made for it are deleted too."""
    place = _place(context, project, everywhere)
    try:
        gone = installed.uninstall(place, force=force)
    except InstallError as error:
        raise Failure(str(error)) from error
    echo(f"{'removed' if gone else 'not installed'}: {one_line(str(place.file))}")


@command.command()
@_project
@json_option
@door
def status(context: Context, project: str | None, as_json: bool) -> None:
    """Print where the plugin file is, and which plugins work there."""
    folder = context.folder(project)
    places = {"project": BridgeFile.of_project(folder), "global": everywhere_place(context)}
    states = {name: installed.state(place) for name, place in places.items()}
    opened, theirs, dropped = asyncio.run(_plugins(context, folder))
    if as_json:
        shown = {
            **{name: {"file": str(place.file), "state": states[name]} for name, place in places.items()},
            "plugins": opened,
            "opencode": theirs,
        }
        print_json(shown)
        return
    for name, place in places.items():
        echo(f"{name}: {WORDS[states[name]]} ({one_line(str(place.file))})")
    echo(f"plugins: {one_line(', '.join(opened)) or 'none'}")
    if theirs:
        echo(f"left to opencode: {one_line(', '.join(theirs))}")
    tell_untrusted(dropped)


@click.command()
@door
async def bridge(context: Context) -> None:
    """Serve instar's plugins to opencode over stdin and stdout (plugin-protocol.md). No command for people."""
    # Start-up time: only the bridge needs its rooms.
    from instar.opencode.bridge.server import serve

    await serve(context.environment)


async def _plugins(context: Context, folder: Path) -> tuple[list[str], list[str], list[str]]:
    # Start-up time: install and uninstall need no settings.
    from instar.opencode.bridge.plugins import read
    from instar.process import Processes

    found = await read(folder, context.environment, Processes())
    own = {str(place.file) for place in (BridgeFile.of_project(folder), everywhere_place(context))}
    theirs = [target for target in found.theirs if target not in own]
    return [one.target for one in (*found.early, *found.late)], theirs, found.settings.dropped


def _place(context: Context, project: str | None, everywhere: bool) -> BridgeFile:
    if everywhere and project is not None:
        raise click.UsageError("--global and --project exclude each other")
    return everywhere_place(context) if everywhere else BridgeFile.of_project(context.folder(project))


def everywhere_place(context: Context) -> BridgeFile:
    """opencode's own folder, in whichever place its configuration is kept."""
    config = context.environment.get("XDG_CONFIG_HOME")
    return BridgeFile.of_all(Path(config) if config else context.paths.home / ".config")
