"""``instar models``: what can be called, what it costs, and whose key is missing."""

import click
import msgspec

from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
from instar.provider.protocol import Model
from instar.runtime import Options
from instar.wire import Plain


@click.command()
@click.argument("filter", required=False)
@click.option("--all", "everything", is_flag=True, help="Also models whose provider has no key here.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.option("--dir", "folder", metavar="PATH", help="With the settings of this folder.")
@door
async def command(context: Context, filter: str | None, everything: bool, as_json: bool, folder: str | None) -> int:
    """List models whose PROVIDER/NAME holds FILTER: window in tokens, dollars a million tokens, key."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        wanted = (filter or "").lower()
        found = [
            model
            for model in runtime.instance.models.list(everything=everything or bool(wanted))
            if wanted in _name(model).lower()
        ]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode([_plain(model) for model in found])))
    elif found:
        _print(found)
    else:
        _say_nothing_found(filter)
    return 0 if found or as_json else 1


def _say_nothing_found(filter: str | None) -> None:
    why = f"no model's name holds {filter!r}" if filter else "no provider has a key (--all lists what is known)"
    click.echo(f"instar: {why}", err=True)


def _name(model: Model) -> str:
    return f"{model.provider_id}/{model.id}"


def _print(models: list[Model]) -> None:
    rows = [("MODEL", "WINDOW", "IN", "OUT", "KEY"), *(_row(model) for model in models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _row(model: Model) -> tuple[str, ...]:
    window = f"{model.limit.context:,}" if model.limit.context else "?"
    return _name(model), window, _dollars(model.cost.input), _dollars(model.cost.output), _key(model)


def _dollars(price: float | None) -> str:
    return "?" if price is None else f"{price:g}"


def _key(model: Model) -> str:
    return "yes" if model.api_key else "no"


def _plain(model: Model) -> Plain:
    return {
        "id": _name(model),
        "name": model.name,
        "limit": msgspec.to_builtins(model.limit),
        "cost": {"input": model.cost.input, "output": model.cost.output},
        "key": bool(model.api_key),
        "source": model.source,
    }
