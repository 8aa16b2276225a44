"""What a shell completes after options and arguments: the names that this folder has."""

import asyncio
import io
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import redirect_stderr
from typing import TYPE_CHECKING

import click

from instar.cli.door import Context
from instar.cli.text import short

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from instar.runtime import Runtime

Named = Iterable[tuple[str, str]]
"""Words and what they mean."""
Complete = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]


def _from(names: Callable[["Runtime"], Awaitable[Named]]) -> Complete:
    """Return what click calls for the words that begin as the person's; a folder that cannot be opened has none."""

    async def found(context: Context) -> Named:
        async with context.runtime(None) as runtime:
            return await names(runtime)

    def complete(ctx: click.Context, parameter: click.Parameter, begun: str) -> "list[CompletionItem]":
        with redirect_stderr(io.StringIO()):
            try:
                words = asyncio.run(found(Context(dict(os.environ))))
            except Exception:
                # A line on the prompt that somebody types would be worse than no word.
                return []
        return _items(words, begun)

    return complete


async def _sessions(runtime: "Runtime") -> Named:
    return [(session.id, session.title) for session in await runtime.session.list()]


async def _agents(runtime: "Runtime") -> Named:
    return [(agent.name, agent.description or "") for agent in runtime.instance.agents.all()]


async def _models(runtime: "Runtime") -> Named:
    return [(model.ref, model.name) for model in runtime.instance.models.list()]


async def _commands(runtime: "Runtime") -> Named:
    return [(command.name, command.description or "") for command in runtime.instance.commands.all()]


async def _servers(runtime: "Runtime") -> Named:
    return [(name, "") for name in runtime.instance.config.mcp]


def providers(ctx: click.Context, parameter: click.Parameter, begun: str) -> "list[CompletionItem]":
    """Return the providers that instar knows."""
    from instar.provider.catalogue import shipped

    return _items(((name, vendor.name) for name, vendor in shipped().providers.items()), begun)


def _items(words: Named, begun: str) -> "list[CompletionItem]":
    # Start-up time, as above: most commands complete nothing.
    from click.shell_completion import CompletionItem

    return [CompletionItem(word, help=short(text, 60)) for word, text in words if word.startswith(begun)]


sessions = _from(_sessions)
agents = _from(_agents)
models = _from(_models)
commands = _from(_commands)
servers = _from(_servers)
