"""``instar auth``: the keys of providers that instar keeps for a person."""

import sys
from typing import TYPE_CHECKING

import click

from instar.cli import login as login_by
from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
from instar.cli.failure import Failure

if TYPE_CHECKING:
    from instar.provider.keys import Keys

_LONGEST = 16_384


@click.group()
def command() -> None:
    """Keep a provider's key in the data folder, readable by you alone; no command prints it."""


@command.command()
@click.argument("provider")
@click.option("--method", metavar="LABEL", help="Which of the methods that plugins offer.")
@door
async def login(context: Context, provider: str, method: str | None) -> None:
    """Ask for PROVIDER's key and keep it; it is read from stdin when that is no terminal.

    A plugin may offer other methods for a provider: these are used then.
    """
    if not provider.strip() or "/" in provider or provider != provider.strip():
        raise click.UsageError(f"{provider!r} is no provider's name (instar models --all lists them)")
    keys = _keys(context)
    keys.list()
    asked = await login_by.has_plugins(context)
    if asked and await _by_plugin(context, provider, method):
        return
    if method is not None and not asked:
        raise Failure(f"no plugin offers a method to log in to {provider}", 2)
    text = click.prompt("API key", hide_input=True) if sys.stdin.isatty() else sys.stdin.read(_LONGEST + 1)
    key = text.strip()
    if not key or len(key) > _LONGEST or any(mark.isspace() or not mark.isprintable() for mark in key):
        raise Failure("that is no key: it is one word, on one line; nothing was kept", 2)
    # Start-up time: the help needs no key.
    from instar.secret import Secret

    keys.put(provider, Secret(key))
    click.echo(f"kept the key of {provider} in {keys.file}{_beside(context, provider)}")


@command.command("list")
@door
def listing(context: Context) -> None:
    """Print the providers whose key is kept, and those whose key is in the environment."""
    keys = _keys(context)
    for name in keys.list():
        click.echo(f"{name}  {keys.file}")
    for name, variable in _set(context):
        click.echo(f"{name}  ${variable}")


@command.command()
@click.argument("provider")
@door
def logout(context: Context, provider: str) -> None:
    """Forget PROVIDER's key."""
    keys = _keys(context)
    if not keys.remove(provider):
        raise Failure(f"no key of {provider!r} is kept in {keys.file} (instar auth list)")
    click.echo(f"forgot the key of {provider}")


async def _by_plugin(context: Context, provider: str, label: str | None) -> bool:
    """Log in by what plugins offer; False when it is a key that the person is to give."""
    # Start-up time: only a folder with plugins pays for a runtime.
    from instar.runtime import Options

    async with opened_runtime(Options(context.folder(None), context.environment)) as runtime:
        found = login_by.methods(runtime, provider)
        if not found and label is not None:
            raise Failure(f"no plugin offers a method to log in to {provider}", 2)
        kept = await login_by.by_method(login_by.chosen(found, label), provider) if found else None
        if kept is None:
            return False
        _keys(context).keep(*kept)
    click.echo(f"kept the login of {kept[0]} in {_keys(context).file}{_beside(context, kept[0])}")
    return True


def _keys(context: Context) -> "Keys":
    # Start-up time, as above.
    from instar.provider.keys import Keys

    return Keys(context.paths.data / "auth.json")


def _set(context: Context) -> list[tuple[str, str]]:
    """Providers of the catalogue and the variable that holds their key here."""
    from instar.provider.catalogue import shipped

    return [
        (name, variable)
        for name, vendor in shipped().providers.items()
        for variable in vendor.env
        if context.environment.get(variable, "").strip()
    ]


def _beside(context: Context, provider: str) -> str:
    """What goes before the key that was kept."""
    found = [variable for name, variable in _set(context) if name == provider]
    return f"; ${found[0]} is set and goes before it" if found else ""
