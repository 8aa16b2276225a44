"""``instar models``: what can be called, what it costs, and whose key is missing."""

import click
import msgspec

from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
from instar.config import Config
from instar.provider.catalogue import shipped
from instar.provider.protocol import Model
from instar.runtime import Options
from instar.wire import Plain

_TITLES = ("MODEL", "WINDOW", "IN", "OUT", "KEY")


@click.command()
@click.argument("filter", required=False)
@click.option("--all", "everything", is_flag=True, help="Also models whose provider has no key here.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.option("--dir", "folder", metavar="PATH", help="With the settings of this folder.")
@door
async def command(
    context: Context, filter: str | None, everything: bool, as_json: bool, folder: str | None
) -> int:
    """List models whose PROVIDER/NAME holds FILTER: window in tokens, dollars a million tokens, key."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        config = runtime.instance.config
        wanted = (filter or "").lower()
        found = [
            model
            for model in runtime.instance.models.list(everything=everything or bool(wanted))
            if wanted in _name(model).lower()
        ]
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode([_plain(model, config) for model in found])))
    elif found:
        _print(found, config)
        if not wanted and all(model.provider_id == "scripted" for model in found):
            _say_nothing_found(None)
    else:
        _say_nothing_found(filter)
    return 0 if found or as_json else 1


def _say_nothing_found(filter: str | None) -> None:
    why = (
        f"no model's name holds {filter!r}"
        if filter
        else "no provider has a key (--all lists each model with the variable that it wants)"
    )
    click.echo(f"instar: {why}", err=True)


def _name(model: Model) -> str:
    return f"{model.provider_id}/{model.id}"


def _print(models: list[Model], config: Config) -> None:
    rows = [_TITLES, *(_row(model, config) for model in models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _row(model: Model, config: Config) -> tuple[str, ...]:
    window = f"{model.limit.context:,}" if model.limit.context else "?"
    names = _variables(model, config)
    key = "present" if model.api_key else f"set {' or '.join(names)}" if names else "-"
    return _name(model), window, _dollars(model.cost.input), _dollars(model.cost.output), key


def _variables(model: Model, config: Config) -> list[str]:
    """The variables in which the model's key is looked for; none when it needs no key."""
    vendor = shipped().providers.get(model.provider_id)
    block = config.provider.get(model.provider_id)
    return [*(block.env if block else ()), *(vendor.env if vendor and not vendor.local else ())]


def _dollars(price: float | None) -> str:
    return "?" if price is None else f"{price:g}"


def _plain(model: Model, config: Config) -> Plain:
    return {
        "id": _name(model),
        "name": model.name,
        "limit": msgspec.to_builtins(model.limit),
        "cost": {"input": model.cost.input, "output": model.cost.output},
        "key": bool(model.api_key),
        "env": _variables(model, config),
    }
