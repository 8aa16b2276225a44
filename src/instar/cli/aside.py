"""``instar aside``: what a model made that would run later, and that nobody agreed to; and how it is put back."""

import asyncio
import stat
from pathlib import Path

import click
import msgspec

from instar.cli import complete
from instar.cli.door import Context, Failure, door
from instar.cli.text import echo, one_line
from instar.git import GitError
from instar.git.steering import edited
from instar.process import ProcessError, Processes
from instar.sandbox.aside import AsideFile, PutAside, move_out, put
from instar.sandbox.guarded_places import FileState, state_of


@click.group()
def command() -> None:
    """List or put back what was put aside: hooks, settings of git, start-up files that a model made.

    They would run later, outside of what holds the model back, so each waits until a person agrees.
    """


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@door
def list_(context: Context, as_json: bool) -> None:
    """List what was put aside, oldest first, and where it lies."""
    found = PutAside(context.paths.aside).all()
    if as_json:
        echo(msgspec.json.format(msgspec.json.encode(found)))
        return
    for name, files in found.items():
        echo(name)
        for file in files:
            entries = "".join(f"\n    {one_line(f'{key} = {value}')}" for key, value in file.entries)
            echo(
                f"  {one_line(file.path)} ({file.reason}): {context.paths.aside / name / file.file}{entries}"
            )


@command.command()
@click.argument("name", shell_complete=complete.put_aside)
@door
async def restore(context: Context, name: str) -> None:
    """Put back what was put aside as NAME, as `list` prints it, and agree to it.

    What stands there now is put aside itself. The same content is not asked about again in its repository.
    """
    aside = PutAside(context.paths.aside)
    files = aside.all().get(name)
    if files is None:
        raise Failure(f"nothing was put aside as {one_line(name)}; instar aside list says what was", 2)
    replaced = list[AsideFile]()
    other = aside.new()
    for file in files:
        try:
            replaced += await _restored(aside, name, other, file)
        except (OSError, GitError, ProcessError) as error:
            raise Failure(f"{one_line(file.path)} cannot be put back: {error}") from None
        aside.keep(file.repository, file.digests)
        echo(f"put back: {one_line(file.path)}")
    aside.forget(name)
    if not replaced:
        aside.forget(other)
        return
    aside.note(other, replaced)
    echo(f"what stood there is kept: instar aside restore {other}")


async def _restored(aside: PutAside, name: str, other: str, file: AsideFile) -> list[AsideFile]:
    """Put one file back; return what stood in its place, now in the folder `other`."""
    path = Path(file.path)
    real = str(await asyncio.to_thread(path.parent.resolve) / path.name)
    kept, there = state_of(str(aside.place(name, file.path))), state_of(file.path)
    if file.entries:
        config = there.data if there is not None else b""
        if config is None:
            raise OSError("it is no configuration of git")
        processes = Processes()
        try:
            data = await edited(processes, config, [], file.entries)
        finally:
            await processes.close()
        put(real, FileState(there.mode if there else 0o644, data))
        return []
    if kept is None or kept.data is None:
        raise OSError(f"move {aside.place(name, file.path)} there yourself")
    if there is not None:
        move_out(real, aside.place(other, file.path))
    put(real, FileState(stat.S_IFMT(kept.mode) | file.mode, kept.data))
    return [] if there is None else [_replaced(file, there)]


def _replaced(file: AsideFile, there: FileState) -> AsideFile:
    return msgspec.structs.replace(file, digests=[], mode=stat.S_IMODE(there.mode))
