"""``instar run``: one message, one answer; here, or with ``--attach`` in a server (`attach.py`)."""

import asyncio
import functools
import os
import select
import shlex
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from instar.approval.permissions import always_once
from instar.cli import complete, person
from instar.cli.door import (
    Context,
    Failure,
    door,
    folder_option,
    in_utf8,
    model_option,
    opened_runtime,
    workspace_options,
)
from instar.cli.follow import Follower, ticking, view_of
from instar.cli.output import TurnView
from instar.cli.person import INTERRUPTED, Interrupts, RunRequest
from instar.cli.text import echo, note, short
from instar.definitions.command import UnknownCommand, mentioned_parts
from instar.event.bus import Subscription
from instar.message import TRACE, ModelRef, Session, User, WithParts, trace_parent
from instar.plugin import CommandBody, PromptBody, SessionBody
from instar.provider.resolve import NoModel
from instar.runtime import Options, Runtime
from instar.turn.command import found as found_command
from instar.turn.command import skill_commands
from instar.wire import Plain

_STDIN: Final = "-"
_STDIN_PATIENCE: Final = 2.0
"""Seconds without input after which the person is told what is being waited for."""


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say which session it goes on with, and who answers."""
    options = (
        model_option("The model that answers."),
        click.option(
            "--agent", metavar="NAME", shell_complete=complete.agents, help="The agent that answers."
        ),
        click.option(
            "-s", "--session", metavar="ID", shell_complete=complete.sessions, help="Go on with this session."
        ),
        click.option(
            "-c", "--continue", "continued", is_flag=True, help="Go on with the folder's last session."
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("message", nargs=-1)
@session_options
@click.option("--title", metavar="TEXT", help="The session's title.")
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="PATH",
    shell_complete=complete.files,
    help="Attach a file or folder; repeatable.",
)
@click.option(
    "--command",
    metavar="NAME",
    shell_complete=complete.commands,
    help="Run this command; the message is its arguments.",
)
@folder_option("Run in this folder.")
@click.option("--attach", "url", metavar="URL", help="Run it in the server there (http://… or unix:PATH).")
@click.option(
    "--worktree",
    metavar="NAME",
    shell_complete=complete.workspaces,
    help="Work in this git worktree; made when there is none.",
)
@workspace_options
@click.option(
    "--profile", metavar="NAME", help="Start with the profile that the agent saved under this name."
)
@click.option(
    "--format",
    type=click.Choice(["default", "json"]),
    default="default",
    help="json: one event a line, in the form of opencode run.",
)
@click.option(
    "--variant",
    metavar="NAME",
    shell_complete=complete.variants,
    help="A variant of the model, as high: the model's block names them.",
)
@click.option("--fork", is_flag=True, help="Go on with a copy of the session (with --session or --continue).")
@click.option("--thinking", is_flag=True, help="Show the model's reasoning whole.")
@click.option("--plain", is_flag=True, help="Whole lines without colours and marks, as for a screen reader.")
@click.option(
    "--auto", is_flag=True, help="Allow every tool call that would be asked about (a deny still holds)."
)
@door
async def command(
    context: Context,
    message: tuple[str, ...],
    files: tuple[str, ...],
    folder: str | None,
    url: str | None,
    **asked: Any,
) -> int:
    """Give the agent a MESSAGE and print its answer. Piped input and - are read as part of the message."""
    if asked["session"] and asked["continued"]:
        raise click.UsageError("--session and --continue exclude each other")
    if asked["fork"] and not (asked["session"] or asked["continued"]):
        raise click.UsageError("--fork copies a session: say which with --session ID or --continue")
    if url is not None:
        for name in ("worktree", "workspace", "safe", "profile"):
            if asked[name]:
                raise click.UsageError(f"--{name} is an option of the server: leave it out beside --attach")
    directory = context.directory if url is not None else context.folder(folder)
    if asked["workspace"]:
        asked["workspace"] = str(await _workspace(context.path(asked["workspace"])))
    asked["title"] = _readable(asked["title"] or "") or None
    parts = _parts(message, files, context.directory, needed=asked["command"] is None)
    view = view_of(asked["format"], plain=asked.pop("plain"), thinking=asked.pop("thinking"))
    request = RunRequest(directory=directory, parts=parts, words=" ".join(message), view=view, **asked)
    if url is not None:
        # Start-up time: a run of its own needs no client.
        from instar.cli.attach import Attached, attached

        return await attached(context, Attached(url, folder), request)
    with Interrupts() as interrupts:
        try:
            return await _run(context, request, interrupts)
        except asyncio.CancelledError:
            if not interrupts.count:
                raise
            return INTERRUPTED


async def _workspace(path: Path) -> Path:
    """Return the folder of the workspace that was named. Where there is none, a person may have it made."""
    if await asyncio.to_thread(path.is_dir):
        return path
    if person.is_there() and await person.yes(f"There is no folder {path}. Make an evolve workspace there?"):
        # Start-up time: few runs make a workspace.
        from instar.cli.init import make, workspace_files

        list(make(workspace_files(path)))
        return path
    raise click.UsageError(
        f"there is no workspace at {path}: name one that is there, or make one with instar init"
    )


async def _run(context: Context, request: RunRequest, interrupts: Interrupts) -> int:
    if request.worktree is not None:
        request = await _in_worktree(context, request, request.worktree)
    TRACE.set(trace_parent(context.environment.get("TRACEPARENT", "")))
    options = _options(context, request)
    # For a worktree trust was offered before.
    async with trusted_runtime(context, options, asks=request.workspace_id is None) as runtime:
        return await _turn(runtime, request, interrupts)


@asynccontextmanager
async def trusted_runtime(context: Context, options: Options, *, asks: bool = True) -> AsyncIterator[Runtime]:
    """Open a runtime, and open it anew once the person trusts the folder, or what was changed in it."""
    async with opened_runtime(options, automatic=True) as runtime:
        if not asks or not await _is_trusted_now(context, runtime):
            yield runtime
            return
    async with opened_runtime(options, automatic=True) as runtime:
        yield runtime


async def _in_worktree(context: Context, request: RunRequest, name: str) -> RunRequest:
    """The same request for a workspace of the folder's project. Trust is offered first: the worktree inherits it."""
    # Start-up time: only --worktree needs the command for workspaces.
    from instar.cli.workspace import found_or_made

    async with opened_runtime(_options(context, request)) as runtime:
        await _is_trusted_now(context, runtime)
        info = await found_or_made(runtime, name)
        directory = await runtime.workspace.enter(info.id)
    return msgspec.structs.replace(request, directory=directory, workspace_id=info.id)


async def _turn(runtime: Runtime, request: RunRequest, interrupts: Interrupts) -> int:
    if runtime.instance.stops.last_id() != runtime.instance.stops.opened:
        raise Failure("instar stop came while this began: run it again if you still want it")
    if request.profile is not None and "self" not in runtime.registry.views:
        raise Failure(
            '--profile needs "tools": {"self_evolution": true} in your instar.json (instar docs self)'
        )
    session = await _session(runtime, request)
    view = request.view
    follower = Follower(session.id, view)
    follower.say(*runtime.problems())
    work = await _work(runtime, request, session.id)

    async def whole() -> WithParts:
        answer = await work()
        if await runtime.turns.wait_behind(await runtime.instance.sessions.open(session.id)):
            answer = (await runtime.session.messages(session.id))[-1]
        return answer

    interrupts.abort = lambda: runtime.session.abort(session.id)
    interrupts.end_children = runtime.end_children
    with runtime.instance.bus.subscribe() as subscription:
        answer = await _shown(whole, subscription, follower, interrupts.abort)
    await _others_at_rest(runtime, view, interrupts)
    follower.say(*runtime.problems())
    view.close(session.id)
    return follower.exit_code(answer, interrupted=bool(interrupts.count))


async def _shown(
    work: Callable[[], Awaitable[WithParts]],
    subscription: Subscription,
    follower: Follower,
    abort: Callable[[], Awaitable[bool]],
) -> WithParts:
    """Run a turn and show its events as they come; when showing fails (a broken pipe) the turn is ended."""

    async def show() -> None:
        async for event in subscription:
            follower.take(event)

    turn = asyncio.ensure_future(work())
    showing = asyncio.create_task(show())
    ticks = asyncio.create_task(ticking(follower))
    try:
        await asyncio.wait([turn, showing, ticks], return_when=asyncio.FIRST_COMPLETED)
        if not turn.done():
            await abort()
        return await turn
    finally:
        if not turn.done():
            turn.cancel()
        subscription.close()
        try:
            await showing
        finally:
            follower.view.pause()
        if not ticks.cancel():
            ticks.result()


async def _others_at_rest(runtime: Runtime, view: TurnView, interrupts: Interrupts) -> None:
    """Wait for the sessions that a plugin set to work with a message: their turns would end with this process."""
    for session_id in await runtime.session.status():
        origin = await runtime.session.origin(session_id)
        # What began by itself, as a heartbeat, was not asked for here.
        if origin.name != "person" or not origin.depth or interrupts.count:
            continue
        view.note(f"waiting for session {session_id}, which answers what {origin.source} sent it")
        interrupts.abort = functools.partial(runtime.session.abort, session_id)
        await runtime.turns.wait(await runtime.instance.sessions.open(session_id))


# -- the session and its model -----------------------------------------------------------------------


async def _session(runtime: Runtime, request: RunRequest) -> Session:
    """Return the session to go on with, or a new one. Raises what a wrong agent, model or id raises."""
    if request.session or request.continued:
        earlier = await _earlier(runtime, request)
        if earlier is not None and request.fork:
            earlier = await runtime.session.fork(earlier.id)
        if earlier is not None:
            return await runtime.session.update(earlier.id, title=request.title) if request.title else earlier
    # Without a model no session is made.
    models, agent = runtime.instance.models, runtime.instance.agents.get(request.agent)
    if _model(runtime, request) is None:
        if agent.model is not None:
            models.find(f"{agent.model.provider_id}/{agent.model.model_id}")
        else:
            await _demand_model(runtime)
    return await runtime.session.create(
        SessionBody(title=request.title, agent=request.agent, workspace_id=request.workspace_id)
    )


async def _demand_model(runtime: Runtime) -> None:
    """Raise `Failure` where no model can be chosen, after how to choose one for the first time."""
    try:
        runtime.instance.models.default()
    except NoModel as error:
        if runtime.instance.config.foreign:
            raise
        # Start-up time: most runs have a model.
        from instar.cli.no_model import explained

        lines = await explained(runtime.instance.environment, "instar run -m {} …")
        for line in lines[:-1]:
            note(line)
        raise Failure(lines[-1]) from error


async def _earlier(runtime: Runtime, request: RunRequest) -> Session | None:
    # Start-up time: most runs begin a session.
    from instar.cli.session import find, open_sessions

    if request.session:
        return await find(runtime, request.session)
    for session in await open_sessions(runtime):
        if await _is_a_persons(runtime, session.id):
            note(f"going on with {session.id}: {short(session.title, 72)}")
            return session
    note("there is no session to go on with here, so this is a new one")
    return None


async def _is_a_persons(runtime: Runtime, session_id: str) -> bool:
    """Whether a person spoke in a session, or nobody yet: `--continue` does not go on with a heartbeat's."""
    origins = await runtime.instance.store.origins(session_id)
    if not origins:
        return True
    history = await runtime.session.messages(session_id)
    return any(isinstance(one.info, User) and one.info.id not in origins for one in history)


def _model(runtime: Runtime, request: RunRequest) -> ModelRef | None:
    """The model that the command line names; its provider may have been left out."""
    if not request.model:
        return None
    model = runtime.instance.models.find(request.model)
    return ModelRef(provider_id=model.provider_id, model_id=model.id)


# -- the message -------------------------------------------------------------------------------------


def _parts(words: Sequence[str], files: Iterable[str], folder: Path, *, needed: bool) -> list[Plain]:
    """Return a prompt's parts: the text first, then a part for each of `files`, relative to `folder`.

    Standard input is read when a word is ``-`` or when it is a pipe or a file; it follows the words.
    Raises `click.UsageError` when there is no message though one is `needed`, or a file is missing.
    """
    said = _readable(" ".join(word for word in words if word != _STDIN))
    piped = _read_stdin() if _STDIN in words or _is_piped() else ""
    text = "\n".join(piece for piece in (said, piped) if piece.strip())
    parts = [_file(name, folder) for name in files]
    if not text and needed:
        raise click.UsageError('there is no message; say it as instar run "…", or pipe it in')
    return [{"type": "text", "text": text}, *parts]


def _readable(text: str) -> str:
    """A word of the command line as text: bytes that are not UTF-8 become U+FFFD."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _read_stdin() -> str:
    stream = sys.stdin.buffer
    if not sys.stdin.isatty() and not select.select([stream], [], [], _STDIN_PATIENCE)[0]:
        note("waiting for the end of standard input (close it with </dev/null)")
    return stream.read().decode(errors="replace").rstrip("\n")


def _is_piped() -> bool:
    """Whether standard input is a pipe, a socket or a file: something that was given on purpose."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _file(name: str, folder: Path) -> Plain:
    # Start-up time: most messages have no file.
    import mimetypes

    path = in_utf8((folder / Path(name).expanduser()).resolve())
    if not path.exists():
        raise click.UsageError(f"there is no file {path}")
    mime = "application/x-directory" if path.is_dir() else mimetypes.guess_type(path.name)[0] or "text/plain"
    return {"type": "file", "mime": mime, "filename": path.name, "url": path.as_uri()}


async def _work(runtime: Runtime, request: RunRequest, session_id: str) -> Callable[[], Awaitable[WithParts]]:
    """What the message asks for: a command, or a prompt with the files and agents that its words mention."""
    command = await _command(runtime, request)
    if command is not None:
        await _complete(runtime, command)
        return lambda: runtime.session.command(session_id, command)
    instance = runtime.instance
    agents = {agent.name for agent in instance.agents.subagents()}
    mentioned = mentioned_parts(request.words, [instance.directory, instance.project.worktree], agents)
    parts = [*request.parts, *mentioned]
    model = _model(runtime, request)
    prompt = PromptBody(parts=parts, agent=request.agent, model=model, variant=request.variant)
    return lambda: runtime.session.prompt(session_id, prompt)


async def _command(runtime: Runtime, request: RunRequest) -> CommandBody | None:
    """What ``--command NAME`` or a message ``/name arguments`` calls, a command or a skill; None for a message.

    Raises `click.UsageError` for a `NAME` that no command has. A message that begins with the slash of something
    else (a path) stays a message.
    """
    commands = runtime.instance.commands
    skills = {command.name for command in skill_commands(runtime.instance)}
    text = str(request.parts[0]["text"])
    name, arguments = request.command, text
    if name is None:
        first, *rest = text.split(maxsplit=1) or [""]
        name, arguments = first[1:], rest[0] if rest else ""
        known = {command.name for command in commands.all()} | skills
        # A prompt of an MCP server is known once that is connected.
        if not first.startswith("/") or (name not in known and ":" not in name):
            return None
    name = name.removeprefix("/")
    try:
        if name not in skills:
            await commands.find(name)
    except UnknownCommand as error:
        if request.command is None:
            return None
        raise click.UsageError(str(error)) from None
    return CommandBody(
        command=name,
        arguments=arguments,
        parts=request.parts[1:] or None,
        agent=request.agent,
        model=request.model,
        variant=request.variant,
    )


async def _complete(runtime: Runtime, body: CommandBody) -> None:
    """Ask the person for the arguments that a command lacks."""
    if not person.is_there():
        return
    command = await found_command(runtime.instance, body.command)
    for name in command.missing(body.arguments):
        echo(f"{name}: ", nl=False, err=True)
        value = await person.line()
        if value:
            body.arguments = f"{body.arguments} {name}={shlex.quote(value)}".strip()


# -- trust and options -------------------------------------------------------------------------------


async def _is_trusted_now(context: Context, runtime: Runtime) -> bool:
    """Offer to trust the folder, or what was changed in it, when that was skipped; whether the person said yes."""
    # A terminal that was made for the model is not a person's.
    if not person.is_there() or not runtime.untrusted or context.environment.get("INSTAR_RUN"):
        return False
    project = runtime.instance.project
    folder = project.worktree if project.vcs else project.directory
    # Start-up time: most runs ask nothing.
    from instar.cli.trust import accepted_now, trusted_now

    if context.trust.is_trusted(folder):
        changed = [view for view in runtime.settings.views if view.changes]
        return any([await accepted_now(context, view) for view in changed])
    return not context.trust.is_refused(folder) and await trusted_now(context, folder)


def _options(context: Context, request: RunRequest) -> Options:
    """How the runtime is opened: with the person who is at the terminal, if there is one."""
    names = ("model", "workspace", "safe", "profile")
    flags = {name: value for name in names if (value := getattr(request, name))}
    options = Options(request.directory, context.environment, flags)
    if person.is_there():
        terminal = person.AtTerminal(request.view)
        answer = None if request.format == "json" else terminal.answer
        options = msgspec.structs.replace(options, person=terminal.permit, questioner=answer)
    return msgspec.structs.replace(options, person=always_once) if request.auto else options
