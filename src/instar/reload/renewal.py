"""Putting what files say now in the place of what they said: between steps, and all at once.

All that is new is made beside what is there, and nobody is asked to give way before it is whole: a plugin that judges
what the others do is never absent. A turn goes on with its agent, its tools and its connection until its step ends.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final, Protocol

import msgspec

from instar import lineup, mcp_door, views
from instar.config import ConfigError
from instar.configured import Configured, asked
from instar.document import DocumentError
from instar.event import InstanceReloaded, make
from instar.instance import Instance
from instar.mcp import Servers
from instar.plugin import PluginInput, Registry
from instar.plugin.door import Loaded, Plugins
from instar.plugin.load import Mark, load
from instar.plugin.locate import TOOLS
from instar.provider.resolve import Models
from instar.reload import plan
from instar.reload.reading import Reading, Tools, read, read_tools
from instar.settings import Settings
from instar.surroundings import Options
from instar.trust import Trust
from instar.usage import LimitsError

log = logging.getLogger("instar.reload")

LINGER: Final = 60.0
"""Seconds that the connections of models stay after the turns that began with them: work beside turns uses them too."""


class Host(Protocol):
    """The runtime, as far as it is renewed."""

    instance: Instance
    registry: Registry
    mcp: Servers | None
    settings: Settings
    notices: list[str]
    untrusted: list[str]

    def plugin_input(self, settings: Settings) -> Callable[[str], PluginInput]:
        """Return what gives each plugin its input."""

    def offer(self) -> None:
        """Make the built-in tools anew: some name agents and skills."""


class _Refused(Exception):
    """Nothing of it can be taken up; the text says why."""


class _Made(msgspec.Struct):
    """What is to stand in the place of what is there. `back` puts back what plugins had contributed, by their names."""

    plugins: Plugins
    tools: Tools
    problems: list[str]
    back: dict[str, Callable[[], None]]
    settings: Settings
    rooms: Configured | None = None


class Renewal:
    """Renews one runtime; `reading` and `tools` are what it was made of."""

    def __init__(self, host: Host, options: Options, trust: Trust, reading: Reading, tools: Tools) -> None:
        self._host, self._options, self._trust = host, options, trust
        self._reading, self._tools = reading, tools
        self._said = {*host.notices, *host.untrusted}
        self._one = asyncio.Lock()
        self._lingering: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Close the connections that are kept for turns which began before a reload; none runs any more."""
        lingering = tuple(self._lingering)
        for task in lingering:
            task.cancel()
        await asyncio.gather(*lingering, return_exceptions=True)

    async def run(self, changed: Collection[str] = ()) -> None:
        """Take up what changed, and publish it as one ``instance.reloaded``; nothing, where nothing did.

        `changed` are the paths of files that are known to be others: instructions are read by each new session.
        """
        async with self._one:
            instance = self._host.instance
            try:
                found = await asyncio.to_thread(
                    read, self._options, instance.project, instance.paths, self._trust, self._reading
                )
                made = await self._made(found)
            except (DocumentError, ConfigError, LimitsError, _Refused) as error:
                problem = f"{error}; nothing is taken up until that is mended"
                self._publish(await self._without_strangers(), [problem])
                return
            old = instance.plugins.loaded
            host, named = self._host, self._host.settings.config.mcp
            what = [
                *plan.of_settings(host.settings, made.settings),
                *(f"mcp:{name}" for name in plan.of_servers(host.settings, made.settings)),
                *plan.of_skills(instance.skills, found.skills),
                *plan.of_instructions(changed),
                *plan.of_plugins(old, made.plugins.loaded),
            ]
            self._stand(made, found)
            host.mcp = await mcp_door.take_up(instance, host.mcp, named, self._options.person)
            new = {id(one) for one in made.plugins.loaded}
            await self._end([one for one in old if id(one) not in new])
            self._publish(what, made.problems)

    # -- made beside what is there ----------------------------------------------------------------------

    async def _made(self, found: Reading) -> _Made:
        """Make all that is new. Raises `_Refused` and what reading settings raises; nothing stands then."""
        instance = self._host.instance
        folders = found.settings.folders
        tools = await asyncio.to_thread(read_tools, folders, instance.paths, self._trust, self._tools)
        fixed = [one for one in instance.plugins.loaded if one.mark is None and one.name != TOOLS]
        head = [one for one in fixed if one.name == mcp_door.NAME]
        plugins = instance.plugins.others([*head, *filter(None, [tools.plugin])])
        problems = [*found.problems, *tools.notices]
        made = _Made(plugins, tools, problems, {}, found.settings)
        try:
            await self._load(made, found, [one for one in fixed if one not in head])
        except BaseException:
            await self._undo(made)
            raise
        return made

    async def _load(self, made: _Made, found: Reading, fixed: list[Loaded]) -> None:
        instance, before = self._host.instance, self._host.instance.plugins.loaded
        given = self._options.environment, self._options.flags
        early = [*made.tools.scripts, *lineup.early(found.settings, *given)]
        made.problems += await load(early, made.plugins, self._input(made, found.settings), before=before)
        made.plugins.stand([*made.plugins.loaded, *fixed])
        made.settings, made.rooms, notices = await asked(made.plugins, found.settings, found.ground)
        made.problems += [*notices, *made.rooms.problems]
        places = lineup.places(instance.project, instance.directory, instance.paths.home)
        late = [
            *lineup.guarding(one.name for one in before),
            *lineup.late(made.settings, *given, places),
        ]
        self._host.registry.release(views.UNUSED)
        failed = await load(
            late,
            made.plugins,
            self._input(made, made.settings),
            before=before,
            digest_of=lineup.marker(made.settings, places, self._trust),
        )
        made.problems += failed
        if failed and not {spec.identity for spec in late} <= set(made.plugins.names):
            # It would judge what the others do: they must not begin without it.
            raise _Refused(failed[0])
        self._put_back(made, before)

    def _input(self, made: _Made, settings: Settings) -> Callable[[str], PluginInput]:
        """What gives a plugin its input; what one of that name had contributed gives way first."""
        give = self._host.plugin_input(settings)

        def of(name: str) -> PluginInput:
            if name not in made.back:
                made.back[name] = self._host.registry.release(name)
            return give(name)

        return of

    def _put_back(self, made: _Made, before: list[Loaded]) -> None:
        """Let those that stay, since their successor failed, contribute what they did, and what failed nothing."""
        new = {one.name for one in made.plugins.loaded if not any(one is other for other in before)}
        for name, put_back in made.back.items():
            if name not in new:
                put_back()

    async def _undo(self, made: _Made) -> None:
        before = self._host.instance.plugins.loaded
        for put_back in made.back.values():
            put_back()
        views.complete(self._host.registry)
        await self._end([one for one in made.plugins.loaded if not any(one is other for other in before)])

    # -- put in its place -------------------------------------------------------------------------------

    def _stand(self, made: _Made, found: Reading) -> None:
        """Put everything in its place; awaits nothing, so that nobody sees a part of it."""
        host, instance = self._host, self._host.instance
        old, rooms = instance.models, made.rooms
        assert rooms is not None
        plugins = made.plugins.loaded
        same = [id(one) for one in plugins] == [id(one) for one in instance.plugins.loaded]
        if same and made.settings.config.data == host.settings.config.data:
            rooms = msgspec.structs.replace(rooms, models=old)
        gone = {one.name for one in instance.plugins.loaded} - {one.name for one in plugins}
        for name in gone:
            host.registry.release(name)
        rooms.stand(instance)
        instance.skills = found.skills
        instance.plugins.stand(plugins)
        views.complete(host.registry)
        host.settings = made.settings
        host.offer()
        instance.plugins.hear()
        self._reading, self._tools = found, made.tools
        host.notices[:] = made.problems
        host.untrusted[:] = [*found.settings.dropped, *made.tools.untrusted]
        if rooms.models is not old:
            self._linger(self._let_go(old))

    async def _let_go(self, models: Models) -> None:
        """Close the connections of models once nothing that began with them is at work."""
        try:
            await self._ended()
            await asyncio.sleep(LINGER)
        finally:
            await models.close()

    async def _ended(self) -> None:
        """Wait for the end of the turns that run now."""
        running = [live.turn for live in self._host.instance.sessions.running() if live.turn is not None]
        if running:
            await asyncio.wait(running)

    def _linger(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    async def _end(self, gone: list[Loaded]) -> None:
        """Tell plugins that they are needed no more, all at the same time."""
        plugins, known = self._host.instance.plugins, self._host.instance.plugins.left
        await asyncio.gather(*(plugins.end(one) for one in gone))
        for host in plugins.left:
            if not any(host is one for one in known):
                self._linger(self._leave(host))

    async def _leave(self, host: Any) -> None:
        """Close what ran plugins once no step is under way that has their tools."""
        await self._ended()
        await self._host.instance.plugins.close_host(host)

    # -- what cannot be taken up -------------------------------------------------------------------------

    async def _without_strangers(self) -> list[str]:
        """End the code of folders that are trusted no more, whatever else cannot be read; return what that was."""
        instance, host = self._host.instance, self._host
        files = [one for one in self._reading.settings.plugin_files if not self._trust.is_trusted(one.folder)]
        strange = {str(one.path.resolve()) for one in files if one.folder not in instance.paths.config_homes}
        tools = read_tools(host.settings.folders, instance.paths, self._trust, self._tools)
        strange |= {one.identity for one in self._tools.scripts if one not in tools.scripts}
        if self._tools.plugin is None:
            tools = self._tools
        old = instance.plugins.loaded
        new = [
            tools.plugin if one is self._tools.plugin else one
            for one in old
            if not (isinstance(one.mark, Mark) and one.mark.identity in strange)
        ]
        kept = [one for one in new if one is not None]
        instance.plugins.stand(kept)
        instance.plugins.hear()
        self._tools = tools
        gone = [one for one in old if not any(one is other for other in kept)]
        for one in gone:
            host.registry.release(one.name)
        await self._end(gone)
        return plan.of_plugins(old, kept)

    def _publish(self, what: list[str], problems: list[str]) -> None:
        instance = self._host.instance
        problems = list(dict.fromkeys([*problems, *self._host.untrusted]))
        if not what and {*problems} == self._said:
            return
        for problem in problems:
            if problem not in self._said:
                log.warning("notice directory=%s: %s", instance.directory, problem)
        self._said = {*problems}
        what = list(dict.fromkeys(what))
        log.info("reloaded directory=%s what=%s", instance.directory, ",".join(what) or "-")
        instance.bus.publish(make(InstanceReloaded(what=what, problems=problems)))
