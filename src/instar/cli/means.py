"""`Means`, what the command of a built-in plugin works with: its store, children and settings, without an instance."""

import asyncio
import contextlib
import functools
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from instar.definitions.markdown import complete
from instar.git.project import discover
from instar.limits.stop import SharedStops, StopFile, StopState, resume, scope_of
from instar.plugin import Means, Messages, NotFound
from instar.process import Processes
from instar.runtime.configured import SettingsContext, children
from instar.settings.load import read_settings
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.store.store import Store, open_store
from instar.store.values import Values
from instar.wire.secret import masked


@contextlib.asynccontextmanager
async def means(
    name: str, directory: Path, paths: Paths, environment: Mapping[str, str], trust: Trust
) -> AsyncIterator[Means]:
    """Open the `Means` of the plugin `name` in `directory`; children that it starts end with the context.

    SIGTERM cancels the task, as Ctrl-C does. Raises `DocumentError` for settings with a mistake, and `StoreError` for a
    database that cannot be opened.
    """
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with contextlib.AsyncExitStack() as stack:
        processes, stops = Processes(), StopFile(paths.data)
        stack.push_async_callback(processes.close)
        project = await discover(directory, processes)
        read = read_settings(directory, project, paths, environment, {}, trust)
        read, _ = complete(read, project, paths, trust)
        store = await open_store(
            paths.database, lambda events: None, synchronous=read.config.storage.synchronous
        )
        stack.push_async_callback(store.close)
        if store.is_shared:
            await store.ask(SharedStops(stops).read)
        ground = SettingsContext(project, paths, environment, trust.is_trusted, ())
        model_processes = children(processes, read.config, ground)
        stack.push_async_callback(model_processes.close)
        yield Means(
            children=model_processes,
            processes=processes,
            kv=Values(store, name),
            data=paths.of_plugin(name),
            config=masked(read.config.data),
            environment=environment,
            messages=functools.partial(_messages, store),
            halted=StopState(stops, directory).halted,
            resume=functools.partial(resume, paths.data, paths.database, scope_of(directory)),
            project=project,
            directory=directory,
            trusted=trust.is_trusted,
            origins=read.origins,
            served=read.served,
            plugin_folders=read.plugin_folders,
        )


async def _messages(store: Store, session_id: str) -> Messages:
    """The messages of a session, oldest first. Raises `NotFound`."""
    if await store.session(session_id) is None:
        raise NotFound(f"Session not found: {session_id}")
    return await store.messages(session_id)
