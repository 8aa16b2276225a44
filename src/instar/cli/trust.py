"""``instar trust``: the folders whose plugins and hook scripts may run."""

import click
import msgspec

from instar.cli.context import Context
from instar.cli.door import door
from instar.cli.failure import Failure
from instar.cli.text import one_line


@click.command()
@click.argument("folder", required=False)
@click.option("--list", "listing", is_flag=True, help="Print the trusted folders.")
@click.option("--remove", is_flag=True, help="Do not trust FOLDER any more.")
@click.option("--json", "as_json", is_flag=True, help="With --list: print a JSON list.")
@door
def command(context: Context, folder: str | None, listing: bool, remove: bool, as_json: bool) -> None:
    """Trust FOLDER (this one if it is left out): what it brings may run.

    A folder inside a trusted one is trusted only if both lie in the same git worktree.
    INSTAR_TRUST=all trusts everything, for CI and containers.
    """
    if listing and (folder or remove):
        raise click.UsageError("--list stands alone")
    if listing:
        folders = [str(path) for path in context.trust.list()]
        click.echo(
            msgspec.json.encode(folders) if as_json else "\n".join(folders), nl=bool(folders) or as_json
        )
    elif remove:
        # The folder may be gone by now: it can still be taken off the list.
        path = context.directory / (folder or ".")
        if not context.trust.remove(path):
            raise Failure(f"{path.resolve()} is not on the list of trusted folders (instar trust --list)")
        click.echo(f"not trusted any more: {one_line(str(path.resolve()))}")
    else:
        click.echo(f"trusted: {one_line(str(context.trust.add(context.folder(folder))))}")
