"""What a flagship's command works with: a plugin's means, without a running instance."""

import contextlib
import functools
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from instar.configured import Ground, children
from instar.definition import complete
from instar.halt import Halt, Stops, scope_of
from instar.paths import Paths
from instar.plugin import Means, Messages, NotFound
from instar.process import Processes
from instar.project import discover
from instar.secret import masked
from instar.settings import read_settings
from instar.store.protocol import Store
from instar.store.sqlite import open_store
from instar.store.values import Values
from instar.trust import Trust


@contextlib.asynccontextmanager
async def means(
    name: str, directory: Path, paths: Paths, environment: Mapping[str, str], trust: Trust
) -> AsyncIterator[Means]:
    """Open the means of the plugin `name` in `directory`; what was started by them ends with the context.

    Raises what reading settings and opening the store raise.
    """
    processes, stops = Processes(), Stops(paths.data)
    try:
        project = await discover(directory, processes)
        read, _ = complete(
            read_settings(directory, project, paths, environment, {}, trust), project, paths, trust
        )
        ground = Ground(project, paths, environment, trust.is_trusted, ())
        behind = children(processes, read.config, ground)
        store = await open_store(paths.database, lambda events: None)
        try:
            yield Means(
                behind,
                processes,
                Values(store, name),
                paths.of_plugin(name),
                masked(read.config.data),
                environment,
                functools.partial(_messages, store),
                Halt(stops, directory).halted,
                functools.partial(stops.resume, scope_of(directory)),
                project,
                directory,
                trust.is_trusted,
                read.origins,
                lambda folder: trust.seen(folder, name),
            )
        finally:
            await behind.close()
            await store.close()
    finally:
        await processes.close()


async def _messages(store: Store, session_id: str) -> Messages:
    """The messages of a session, oldest first. Raises `NotFound`."""
    if await store.session(session_id) is None:
        raise NotFound(f"Session not found: {session_id}")
    return await store.messages(session_id)
