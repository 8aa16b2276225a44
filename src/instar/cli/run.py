"""``instar run``: one message, one answer."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from instar.approval import always_once
from instar.bus import Subscription
from instar.cli import call, question, workspace
from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
from instar.cli.failure import Failure
from instar.cli.follow import Follower, View
from instar.cli.message import compose, readable
from instar.cli.session import find
from instar.cli.signals import CODE, Stop
from instar.cli.trust import told
from instar.cli.wanted import Wanted, code, shown
from instar.flagship import seen_in
from instar.message import ModelRef, Session, User, WithParts
from instar.plugin import PromptBody, SessionBody, Value
from instar.runtime import Options, Runtime
from instar.settings import guards_in
from instar.wire import Plain as Object

T = TypeVar("T")


@click.command()
@click.argument("message", nargs=-1)
@click.option("-m", "--model", metavar="PROVIDER/MODEL", help="The model that answers.")
@click.option("--agent", help="The agent that answers.")
@click.option("-s", "--session", metavar="ID", help="Go on with this session.")
@click.option("-c", "--continue", "continued", is_flag=True, help="Go on with the folder's last session.")
@click.option("--title", help="The session's title.")
@click.option(
    "-f", "--file", "files", multiple=True, metavar="PATH", help="Attach a file or folder; repeatable."
)
@click.option("--command", metavar="NAME", help="Run this command; the message is its arguments.")
@click.option("--dir", "folder", metavar="PATH", help="Run in this folder.")
@click.option("--attach", metavar="URL", help="Run it in the server there (http://… or unix:PATH).")
@click.option("--worktree", metavar="NAME", help="Work in this git worktree; made when there is none.")
@click.option("--workspace", metavar="PATH", help="The evolve workspace; switches evolve on.")
@click.option("--safe", is_flag=True, help="Start with none of the agent's changes to the evolve workspace.")
@click.option(
    "--profile", metavar="NAME", help="Start with what the agent kept as this in the evolve workspace."
)
@click.option(
    "--format",
    type=click.Choice(["default", "json"]),
    default="default",
    help="json: one event a line, in the form of opencode run.",
)
@click.option(
    "--auto", is_flag=True, help="Allow every tool call that would be asked about (a deny still holds)."
)
@door
async def command(
    context: Context, message: tuple[str, ...], files: tuple[str, ...], folder: str | None, **rest: Any
) -> int:
    """Give the agent a MESSAGE and print its answer. Piped input and - are read as part of the message."""
    if rest["session"] and rest["continued"]:
        raise click.UsageError("--session and --continue cannot stand together")
    url = rest.pop("attach")
    if url is not None:
        return await _attached(context, url, message, files, folder, rest)
    directory = context.folder(folder)
    parts = compose(message, files, context.directory, needed=rest["command"] is None)
    rest["workspace"] = context.absolute(rest["workspace"])
    rest["title"] = readable(rest["title"] or "") or None
    wanted = Wanted(directory=directory, parts=parts, said=" ".join(message), **rest)
    with Stop() as stop:
        try:
            return await _run(context, wanted, stop)
        except asyncio.CancelledError:
            if not stop.pressed:
                raise
            return CODE


async def _attached(
    context: Context,
    url: str,
    message: tuple[str, ...],
    files: tuple[str, ...],
    folder: str | None,
    rest: Object,
) -> int:
    # Start-up time: a run of its own needs no client.
    from instar.cli.attach import Attached, attached

    for name in ("worktree", "workspace", "safe", "profile"):
        if rest[name]:
            raise click.UsageError(f"--{name} is the server's to say: it cannot stand beside --attach")
    parts = compose(message, files, context.directory, needed=rest["command"] is None)
    rest["title"] = readable(rest["title"] or "") or None
    wanted = Wanted(directory=context.directory, parts=parts, said=" ".join(message), **rest)
    return await attached(context, Attached(url, folder), wanted)


async def _run(context: Context, wanted: Wanted, stop: Stop) -> int:
    if wanted.worktree is not None:
        wanted = await _in_worktree(context, wanted, wanted.worktree)
    options = _options(context, wanted)
    async with opened_runtime(options, automatic=True) as runtime:
        if wanted.workspace_id is not None or not await _is_trusted_now(context, runtime):
            return await _turn(runtime, wanted, stop)
    async with opened_runtime(options, automatic=True) as runtime:
        return await _turn(runtime, wanted, stop)


async def _in_worktree(context: Context, wanted: Wanted, name: str) -> Wanted:
    """The same, wanted in a workspace of the folder's project. Trust is offered first: the worktree inherits it."""
    async with opened_runtime(_options(context, wanted)) as runtime:
        await _is_trusted_now(context, runtime)
        info = await workspace.entered(runtime, name)
        directory = await runtime.workspace.enter(info.id)
    return msgspec.structs.replace(wanted, directory=directory, workspace_id=info.id)


async def _work(runtime: Runtime, wanted: Wanted, session_id: str) -> Callable[[], Awaitable[WithParts]]:
    """What the message asks for: a command, or a prompt with the files and agents that it mentions."""
    command = call.called(runtime, wanted.command, wanted.parts)
    if command is not None:
        command.agent, command.model = wanted.agent, wanted.model
        body = await call.completed(runtime, command)
        return lambda: runtime.session.command(session_id, body)
    parts = [*wanted.parts, *call.mentioned(runtime, wanted.said)]
    prompt = PromptBody(parts=parts, agent=wanted.agent, model=_model(runtime, wanted))
    return lambda: runtime.session.prompt(session_id, prompt)


async def _turn(runtime: Runtime, wanted: Wanted, stop: Stop) -> int:
    if runtime.instance.halt.mark() != runtime.instance.halt.opened:
        raise Failure("instar stop came while this began: run it again if you still want it")
    if wanted.profile is not None and "self" not in runtime.registry.views:
        raise Failure('--profile needs "tools": {"self_evolution": true} in your instar.json (docs/self.md)')
    session = await _session(runtime, wanted)
    view = shown(wanted, session.id)
    follower = Follower(session.id, view)
    work = await _work(runtime, wanted, session.id)
    stop.abort = lambda: runtime.session.abort(session.id)
    stop.hurry = runtime.end_children
    with runtime.instance.bus.subscribe() as subscription:
        answer = await _shown(work, subscription, follower, stop.abort)
    await _others_at_rest(runtime, view, stop)
    for text in _problems(runtime):
        view.note(text)
    if close := getattr(view, "close", None):
        close(session.id)
    return code(answer, follower, stop)


async def _shown(
    prompt: Callable[[], Awaitable[T]],
    subscription: Subscription,
    follower: Follower,
    abort: Callable[[], Awaitable[bool]],
) -> T:
    """Run a prompt and show its events as they come; when showing fails (a broken pipe) the turn is ended."""
    asked = asyncio.ensure_future(prompt())
    showing = asyncio.create_task(_show(subscription, follower))
    ticking = asyncio.create_task(_tick(follower))
    try:
        await asyncio.wait([asked, showing], return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            await abort()
        return await asked
    finally:
        if not asked.done():
            asked.cancel()
        ticking.cancel()
        subscription.close()
        await showing


async def _show(subscription: Subscription, follower: Follower) -> None:
    async for event in subscription:
        follower.take(event)


async def _tick(follower: Follower) -> None:
    while True:
        await asyncio.sleep(1)
        follower.tick()


async def _others_at_rest(runtime: Runtime, view: View, stop: Stop) -> None:
    """Wait for the sessions that what a plugin sent them set to work: their turns would end with this process."""
    for session_id in await runtime.session.status():
        origin = await runtime.session.origin(session_id)
        # What began by itself, as a heartbeat, was not asked for here.
        if origin.name != "person" or not origin.depth or stop.pressed:
            continue
        view.note(f"waiting for session {session_id}, which answers what {origin.source} sent it")
        stop.abort = functools.partial(runtime.session.abort, session_id)
        await runtime.turns.wait(await runtime.instance.sessions.open(session_id))


async def _session(runtime: Runtime, wanted: Wanted) -> Session:
    """Return the session to go on with, or a new one. Raises what a wrong agent, model or id raises."""
    if wanted.session or wanted.continued:
        found = await _earlier(runtime, wanted)
        if found is not None:
            return await runtime.session.update(found.id, title=wanted.title) if wanted.title else found
    _check_model(runtime, wanted)
    return await runtime.session.create(
        SessionBody(title=wanted.title, agent=wanted.agent, workspace_id=wanted.workspace_id)
    )


async def _earlier(runtime: Runtime, wanted: Wanted) -> Session | None:
    if wanted.session:
        return await find(runtime, wanted.session)
    here = str(runtime.instance.directory)
    for session in await runtime.session.list():
        is_open = session.parent_id is None and session.time.archived is None
        if session.directory == here and is_open and await _is_a_persons(runtime, session.id):
            return session
    click.echo("instar: there is no session to go on with here, so this is a new one", err=True)
    return None


async def _is_a_persons(runtime: Runtime, session_id: str) -> bool:
    """Whether a person spoke in a session, or nobody yet: a heartbeat's is not theirs to go on with unasked."""
    origins = await runtime.instance.store.origins(session_id)
    if not origins:
        return True
    history = await runtime.session.messages(session_id)
    return any(isinstance(one.info, User) and one.info.id not in origins for one in history)


def _model(runtime: Runtime, wanted: Wanted) -> ModelRef | None:
    """The model that the command line names; its provider may have been left out."""
    if not wanted.model:
        return None
    found = runtime.instance.models.find(wanted.model)
    return ModelRef(provider_id=found.provider_id, model_id=found.id)


def _check_model(runtime: Runtime, wanted: Wanted) -> None:
    """See that there is a model before a session is made for it."""
    chosen = runtime.instance.agents.get(wanted.agent).model
    models = runtime.instance.models
    if wanted.model:
        models.find(wanted.model)
    elif chosen is not None:
        models.find(f"{chosen.provider_id}/{chosen.model_id}")
    else:
        models.default()


async def _is_trusted_now(context: Context, runtime: Runtime) -> bool:
    """Offer to trust the folder when something of it was skipped; whether the person said yes."""
    if not question.is_there() or not runtime.untrusted:
        return False
    project = runtime.instance.project
    folder = project.worktree if project.vcs else project.directory
    # A folder that is trusted was looked at by then: what changed in it since is read before it is trusted again.
    if context.trust.is_refused(folder) or context.trust.is_trusted(folder):
        return False
    guards, seen = guards_in(folder, context.paths), seen_in(folder)
    for line in told(guards, seen):
        click.echo(line, err=True)
    if not await question.yes(f"Trust {folder}? What it brings may then run on this machine."):
        context.trust.refuse(folder)
        return False
    context.trust.add(folder, guards, seen)
    return True


def _options(context: Context, wanted: Wanted) -> Options:
    """How the runtime is opened: with the person who is at the terminal, if there is one."""
    options = Options(wanted.directory, context.environment, _flags(wanted))
    if question.is_there():
        person = question.AtTerminal()
        answer = None if wanted.format == "json" else person.answer
        options = msgspec.structs.replace(options, person=person.permit, questioner=answer)
    return msgspec.structs.replace(options, person=always_once) if wanted.auto else options


def _flags(wanted: Wanted) -> Object:
    flags = {
        "model": wanted.model,
        "workspace": wanted.workspace,
        "safe": wanted.safe,
        "profile": wanted.profile,
    }
    return {name: value for name, value in flags.items() if value}


def _problems(runtime: Runtime) -> list[str]:
    """What plugins say is wrong with them now: the `problems` of their views, a sentence each."""
    found = [(view.name, view.children.get("problems")) for view in runtime.registry.views.values()]
    return [
        f"{name}: {problem}" for name, node in found if isinstance(node, Value) for problem in node.read("")
    ]
