"""``instar stats``: what model calls used and cost, by day, session, agent, model, cause and origin."""

from pathlib import Path
from typing import Any, Final

import click
import msgspec

from instar.cli import figures
from instar.cli.context import Context
from instar.cli.door import door
from instar.cli.failure import Failure
from instar.figures import OVERVIEW, answer, gather, in_project, period, session
from instar.plugin import Invalid, NotFound
from instar.store.sqlite import open_store
from instar.store.statistics import BY, Wanted

_FEW: Final = 10
"""Lines of a table where none were asked for."""


@click.command()
@click.option("--by", "by", multiple=True, type=click.Choice(BY), help="Sum by this; repeatable.")
@click.option("--days", type=click.IntRange(0), metavar="N", help="The last N days; 0 is today.")
@click.option("--since", metavar="DATE", help="From this day or time on (2026-01-31, 2026-01-31T12:00).")
@click.option("--until", metavar="DATE", help="To the end of this day, or to this time.")
@click.option("--session", metavar="ID", help="One session and its sub-agents.")
@click.option(
    "--project", metavar="FOLDER", help='One project: a folder of it or its id; "" is the one here.'
)
@click.option(
    "--models", is_flag=False, flag_value=_FEW, type=click.IntRange(1), help="The dearest N models."
)
@click.option(
    "--tools", is_flag=False, flag_value=_FEW, type=click.IntRange(1), help="The N tools called most."
)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Lines of a table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, every line of each table.")
@door
async def command(context: Context, **given: Any) -> None:
    """Tell what model calls used and cost: all of them, or those that the options choose."""
    try:
        since, until = period(given["days"], given["since"], given["until"], "--")
    except Invalid as error:
        raise click.UsageError(str(error)) from None
    wanted = Wanted(since=since, until=until)
    if given["project"] is not None:
        wanted = await _of_project(context, given["project"], wanted)
    store = await open_store(context.paths.database, lambda event: None)
    try:
        if given["session"]:
            wanted = msgspec.structs.replace(wanted, session=await session(store, given["session"]))
        found = await gather(store, context.paths, wanted, _tables(given), tools=given["tools"] is not None)
    except (NotFound, Invalid) as error:
        raise Failure(str(error), 2) from None
    finally:
        await store.close()
    if given["as_json"]:
        click.echo(msgspec.json.format(msgspec.json.encode(answer(found))))
        return
    most = {"model": given["models"] or given["limit"], "tool": given["tools"] or _FEW}
    for line in figures.text(found, most, given["limit"]):
        click.echo(line)


def _tables(given: dict[str, Any]) -> list[str]:
    """What to sum by: what was asked for, else what an overview needs."""
    asked = list(dict.fromkeys([*given["by"], *(["model"] if given["models"] else [])]))
    narrow = given["tools"] is not None
    return asked or ([] if narrow else list(OVERVIEW))


async def _of_project(context: Context, given: str, wanted: Wanted) -> Wanted:
    """The calls of a project, by a folder of it or by its id."""
    if given and not Path(context.absolute(given) or "").is_dir():  # noqa: ASYNC240 - nobody else waits
        return msgspec.structs.replace(wanted, project=given)
    return await in_project(wanted, context.folder(given))
