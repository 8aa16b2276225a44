"""``instar auth``: the keys of providers that instar keeps for a person."""

import sys
from typing import TYPE_CHECKING

import click

from instar.cli.context import Context
from instar.cli.door import door
from instar.cli.failure import Failure

if TYPE_CHECKING:
    from instar.provider.keys import Keys

_LONGEST = 16_384


@click.group()
def command() -> None:
    """Keep a provider's key in the data folder, readable by you alone; no command prints it."""


@command.command()
@click.argument("provider")
@door
def login(context: Context, provider: str) -> None:
    """Ask for PROVIDER's key and keep it; it is read from stdin when that is no terminal."""
    if not provider.strip() or "/" in provider or provider != provider.strip():
        raise click.UsageError(f"{provider!r} is no provider's name (instar models --all lists them)")
    keys = _keys(context)
    keys.list()
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
