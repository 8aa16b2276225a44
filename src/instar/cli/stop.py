"""``instar stop``: end every turn that runs, in whichever process, and keep what is automatic from beginning one."""

import click
import msgspec

from instar.api.stats import Resumed, StopReport
from instar.cli.context import Context
from instar.cli.door import door
from instar.cli.failure import Failure
from instar.cli.line import short
from instar.halt import EVERYWHERE, Stops, StopsError, scope_of
from instar.halting import NotStopped, stop
from instar.process.mark import VARIABLE


@click.command()
@click.option("--all", "everything", is_flag=True, help="Stop every instar of yours, whatever its folder.")
@click.option("--dir", "folder", metavar="PATH", help="Stop what runs in this folder's project.")
@click.option("--resume", is_flag=True, help="Stop nothing: let what is automatic go on again.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@door
async def command(context: Context, everything: bool, folder: str | None, resume: bool, as_json: bool) -> int:
    """End every turn in this folder's project, in whichever process it runs.

    Tool calls and model calls end with their turns, and sub-agents too. What is automatic (heartbeats, plugins) begins
    no turn until you prompt the session, or resume it. A prompt of yours works at once.
    """
    if VARIABLE in context.environment:
        raise Failure(
            "this was called by an agent's tool; only a person stops or resumes, in a terminal of theirs"
        )
    if everything and folder is not None:
        raise click.UsageError("--all and --dir cannot stand together")
    scope = EVERYWHERE if everything else scope_of(context.folder(folder))
    if resume:
        _resume(Stops(context.paths.data), scope, as_json=as_json)
        return 0
    try:
        report = await stop(context.paths.data, context.paths.database, scope)
    except NotStopped as error:
        raise Failure(str(error)) from error
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        _tell(report, scope)
    return 0 if all(one.ended for one in report.sessions) else 1


def _resume(stops: Stops, scope: str, *, as_json: bool) -> None:
    """Let what is automatic go on in a scope. Raises `Failure` where the stops cannot be read or written."""
    try:
        stops.resume(scope)
    except StopsError as error:
        raise Failure(str(error)) from error
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(Resumed(scope))))
    else:
        click.echo(f"what is automatic goes on: {_where(scope)}")


def _tell(report: StopReport, asked: str) -> None:
    where = _where(report.stop.scope)
    if report.stop.scope != asked:
        click.echo("instar: the list of earlier stops could not be read, so everything was stopped", err=True)
    if report.problem:
        click.echo(f"instar: stopped, but what ran cannot be told: {report.problem}", err=True)
    ended = [one for one in report.sessions if one.ended]
    processes = len({(one.host, one.pid) for one in ended})
    count = f"{_count(len(ended), 'session')} in {_count(processes, 'process', 'processes')} ended"
    click.echo(f"stopped {where}: {count if ended else 'nothing was running'}")
    for one in ended:
        click.echo(f"  {one.id}  {short(one.title, 72)}  (process {one.pid})")
    for one in report.sessions:
        if not one.ended:
            click.echo(f"  {one.id}  {short(one.title, 72)}  STILL RUNS: end process {one.pid} on {one.host}")
    for queue in report.waiting:
        told = f"{_count(queue.count, 'prompt')} of {short(queue.source, 40)}"
        click.echo(f"  {queue.session_id}  {told} waits until you prompt the session")
    if report.elsewhere:
        click.echo(f"instar: {_count(report.elsewhere, 'session')} elsewhere: instar stop --all", err=True)


def _where(scope: str) -> str:
    return "everything" if scope == EVERYWHERE else scope


def _count(number: int, one: str, more: str = "") -> str:
    return f"{number} {one if number == 1 else more or one + 's'}"
