"""What a shell completes after options and arguments: the names that this folder has. Nothing of it is run."""

import asyncio
import io
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import redirect_stderr
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from instar.cli.text import short

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from instar.runtime.configured import ConfiguredRooms
    from instar.store.store import Store

Named = Iterable[tuple[str, str]]
"""Words and what they mean."""
Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
"""What click calls for the words that begin as the person's."""


def words_of(names: Callable[[click.Context], Coroutine[Any, Any, Named]]) -> Complete:
    """Return what completes with `names`; where they cannot be read there are none."""

    def complete(ctx: click.Context, parameter: click.Parameter, begun: str) -> "list[CompletionItem]":
        # Start-up time: most commands complete nothing.
        from click.shell_completion import CompletionItem

        with redirect_stderr(io.StringIO()):
            try:
                words = asyncio.run(names(ctx))
            except Exception:
                # A line on the prompt that somebody types would be worse than no word.
                return []
        return [CompletionItem(word, help=short(text, 60)) for word, text in words if word.startswith(begun)]

    return complete


def _folder(ctx: click.Context) -> Path:
    found: Path = ctx.obj.folder(ctx.params.get("folder"))
    return found


async def _rooms(ctx: click.Context) -> "ConfiguredRooms":
    """What the settings of the folder make. No plugin is asked: that takes long, and runs code."""
    # Start-up time, here and below.
    from instar.runtime import Options
    from instar.runtime.configured import ConfiguredRooms
    from instar.runtime.reload import read
    from instar.settings.trust import Trust

    context, folder = ctx.obj, _folder(ctx)
    options = Options(folder, context.environment)
    # As this machine knows it: a database that does not answer would hold up who types.
    trust = Trust(context.paths, context.environment)
    found = read(options, await context.project(folder), context.paths, trust)
    return ConfiguredRooms.of(found.settings, found.ground)


async def _stored(ctx: click.Context, names: "Callable[[Store, str], Awaitable[Named]]") -> Named:
    """Return the names that the database has of the folder's project."""
    from instar.store.store import database_at, open_store

    if not database_at(ctx.obj.paths.database).made():
        return []
    project = await ctx.obj.project(_folder(ctx))
    store = await open_store(ctx.obj.paths.database, lambda events: None)
    try:
        return await names(store, project.id)
    finally:
        await store.close()


async def _sessions(ctx: click.Context) -> Named:
    async def names(store: "Store", project_id: str) -> Named:
        return [(session.id, session.title) for session in await store.sessions(project_id)]

    return await _stored(ctx, names)


async def _allowed(ctx: click.Context) -> Named:
    """The permissions that `always` answers allowed; after one of them its patterns."""

    async def names(store: "Store", project_id: str) -> Named:
        known, permission = await store.approvals(project_id), ctx.params.get("permission")
        if permission is None:
            return {rule.permission: "" for rule in known}.items()
        return [(rule.pattern, "") for rule in known if rule.permission == permission]

    return await _stored(ctx, names)


async def _workspaces(ctx: click.Context) -> Named:
    async def names(store: "Store", project_id: str) -> Named:
        found = [one["info"] for one in (await store.values("instar", "workspace:")).values()]
        return [(one["name"], one["directory"]) for one in found if one["projectID"] == project_id]

    return await _stored(ctx, names)


async def _agents(ctx: click.Context) -> Named:
    return [(agent.name, agent.description or "") for agent in (await _rooms(ctx)).agents.all()]


async def _models(ctx: click.Context) -> Named:
    return [(model.ref, model.name) for model in (await _rooms(ctx)).models.list()]


async def _variants(ctx: click.Context) -> Named:
    models = (await _rooms(ctx)).models
    wanted = ctx.params.get("model")
    return [(name, "") for name in (models.find(wanted) if wanted else models.default()).variants]


async def _commands(ctx: click.Context) -> Named:
    return [(command.name, command.description or "") for command in (await _rooms(ctx)).commands.all()]


async def _servers(ctx: click.Context) -> Named:
    return [(name, "") for name in (await _rooms(ctx)).config.mcp]


async def _providers(ctx: click.Context) -> Named:
    from instar.provider.catalogue import shipped

    described = dict.fromkeys((await _rooms(ctx)).config.provider, "")
    return (described | {name: vendor.name for name, vendor in shipped().providers.items()}).items()


async def _kept(ctx: click.Context) -> Named:
    from instar.provider.keys import Keys

    return [(name, "") for name in Keys(ctx.obj.paths.data / "auth.json").list()]


async def _aside(ctx: click.Context) -> Named:
    from instar.sandbox.aside import PutAside

    found = PutAside(ctx.obj.paths.aside).all()
    return [(name, ", ".join(file.path for file in files)) for name, files in found.items()]


async def _plugin_folders(ctx: click.Context) -> Named:
    from instar.settings.plugin_folders import PluginFolders

    return [(one.name, one.source) for one in PluginFolders(ctx.obj.paths).installed().values()]


def _paths(kind: str) -> Complete:
    """Return what lets the shell complete paths."""

    def complete(ctx: click.Context, parameter: click.Parameter, begun: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        return [CompletionItem(begun, type=kind)]

    return complete


sessions = words_of(_sessions)
agents = words_of(_agents)
models = words_of(_models)
variants = words_of(_variants)
commands = words_of(_commands)
servers = words_of(_servers)
providers = words_of(_providers)
kept = words_of(_kept)
allowed = words_of(_allowed)
workspaces = words_of(_workspaces)
put_aside = words_of(_aside)
plugin_folders = words_of(_plugin_folders)
files = _paths("file")
folders = _paths("dir")
