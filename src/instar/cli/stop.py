"""``instar stop``: end every turn that runs, in all processes, and let nothing automatic begin one."""

import click

from instar.api.stats import Resumed, StopReport
from instar.cli.door import Context, Failure, door, folder_option, json_option
from instar.cli.text import counted, echo, note, print_json, short
from instar.limits.stop import EVERYWHERE, NotStopped, StopFileError, scope_of, stop
from instar.limits.stop import resume as lift
from instar.process.child import VARIABLE
from instar.store import StoreError


@click.command()
@click.option("--all", "everything", is_flag=True, help="Stop every instar of yours, in all folders.")
@folder_option("Stop what runs in this folder's project.")
@click.option("--resume", is_flag=True, help="Stop nothing; let heartbeats and plugins begin turns again.")
@json_option
@door
async def command(context: Context, everything: bool, folder: str | None, resume: bool, as_json: bool) -> int:
    """End every turn in this folder's project, in all processes.

    Tool calls, model calls and sub-agents end with their turns. Heartbeats and plugins begin no turn until you prompt
    the session, or run `instar stop --resume`. Your own prompts work at once.
    """
    if VARIABLE in context.environment:
        raise Failure(
            "this was called by an agent's tool; only a person stops or resumes, in a terminal of theirs"
        )
    if everything and folder is not None:
        raise click.UsageError("--all and --dir exclude each other")
    scope = EVERYWHERE if everything else scope_of(context.folder(folder))
    try:
        if resume:
            lift(context.paths.data, context.paths.database, scope)
        else:
            report = await stop(context.paths.data, context.paths.database, scope)
    except (NotStopped, StopFileError, StoreError) as error:
        raise Failure(str(error)) from error
    if resume:
        print_json(Resumed(scope)) if as_json else echo(
            f"heartbeats and plugins may begin turns again: {_where(scope)}"
        )
        return 0
    print_json(report) if as_json else _print(report, scope)
    return int(not all(one.ended for one in report.sessions))


def _print(report: StopReport, asked: str) -> None:
    where = _where(report.stop.scope)
    if report.stop.scope != asked:
        note("the list of earlier stops could not be read, so everything was stopped")
    if report.problem:
        note(f"stopped, but what ran is not known: {report.problem}")
    ended = [one for one in report.sessions if one.ended]
    processes = len({(one.host, one.pid) for one in ended})
    count = f"{counted(len(ended), 'session')} in {counted(processes, 'process', 'processes')} ended"
    echo(f"stopped {where}: {count if ended else 'nothing was running'}")
    for one in ended:
        echo(f"  {one.id}  {short(one.title, 72)}  (process {one.pid})")
    for one in report.sessions:
        if not one.ended:
            echo(f"  {one.id}  {short(one.title, 72)}  STILL RUNS: end process {one.pid} on {one.host}")
    for queue in report.waiting:
        prompts = f"{counted(queue.count, 'prompt')} of {short(queue.source, 40)}"
        echo(f"  {queue.session_id}  {prompts} waits until you prompt the session")
    if report.elsewhere:
        note(f"{counted(report.elsewhere, 'session')} elsewhere: instar stop --all")


def _where(scope: str) -> str:
    return "everything" if scope == EVERYWHERE else scope
