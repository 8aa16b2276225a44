"""``instar models``: what can be called, what it costs, and whose key is missing."""

import click
import msgspec

from instar.cli.door import Context, door, folder_option, json_option
from instar.cli.text import echo, note, print_json
from instar.provider.catalogue import shipped
from instar.provider.protocol import Model
from instar.settings.config import Config
from instar.wire import Plain

_TITLES = ("MODEL", "WINDOW", "IN", "OUT", "KEY")


@click.command()
@click.argument("filter", required=False)
@click.option("--all", "everything", is_flag=True, help="Include models whose provider has no key here.")
@json_option
@folder_option("With the settings of this folder.")
@door
async def command(
    context: Context, filter: str | None, everything: bool, as_json: bool, folder: str | None
) -> int:
    """List models, those whose PROVIDER/NAME contains FILTER.

    WINDOW is in tokens, IN and OUT are dollars per million tokens, KEY names the variable that lacks a key.
    """
    async with context.runtime(folder) as runtime:
        config = runtime.instance.config
        wanted = (filter or "").lower()
        found = [
            model
            for model in runtime.instance.models.list(everything=everything or bool(wanted))
            if wanted in model.ref.lower()
        ]
    if as_json:
        print_json([_plain(model, config) for model in found])
        return 0
    if found:
        _print(found, config)
    if not found and wanted:
        note(f"no model's name holds {filter!r}")
    elif not wanted and all(model.provider_id == "scripted" for model in found):
        note("no provider has a key (--all lists each model with the variable that it wants)")
    return 0 if found else 1


def _print(models: list[Model], config: Config) -> None:
    rows = [_TITLES, *(_row(model, config) for model in models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES))]
    for row in rows:
        echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _row(model: Model, config: Config) -> tuple[str, ...]:
    window = f"{model.limit.context:,}" if model.limit.context else "?"
    names = _variables(model, config)
    key = "present" if model.api_key else f"set {' or '.join(names)}" if names else "-"
    return model.ref, window, _dollars(model.cost.input), _dollars(model.cost.output), key


def _variables(model: Model, config: Config) -> list[str]:
    """The variables in which the model's key is looked for; none when it needs no key."""
    vendor = shipped().providers.get(model.provider_id)
    block = config.provider.get(model.provider_id)
    return [*(block.env if block else ()), *(vendor.env if vendor and not vendor.local else ())]


def _dollars(price: float | None) -> str:
    return "?" if price is None else f"{price:g}"


def _plain(model: Model, config: Config) -> Plain:
    return {
        "id": model.ref,
        "name": model.name,
        "limit": msgspec.to_builtins(model.limit),
        "cost": {"input": model.cost.input, "output": model.cost.output},
        "key": bool(model.api_key),
        "env": _variables(model, config),
    }
