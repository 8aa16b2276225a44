"""Reload: a running instance takes up what changed in the files that it is made of .

`places` says which files those are, `reading` reads them, `plan` says what is different, `renewal` puts the new in the
place of the old, and `waiting` does so when files change. What cannot be read or loaded leaves what was there.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from instar.definitions.instruction import NAMES
from instar.definitions.markdown import complete
from instar.definitions.skill import Skill, read_skills, skill_rules
from instar.event import InstanceReloaded, TrustChanged, make
from instar.event.bus import Bus
from instar.git.project import Project
from instar.limits.budget import LimitsError
from instar.message import Rule
from instar.plugin import PluginInput, Registry
from instar.plugin.custom import SCRIPTS, ToolFile, load_tools, tool_files, tools_of
from instar.plugin.door import LoadedPlugin, Plugins
from instar.plugin.load import Mark, Spec, digest_of_files, load
from instar.plugin.locate import TOOLS, LoadError
from instar.provider.resolve import Models
from instar.runtime import introspection, plugin_order
from instar.runtime import mcp as mcp_door
from instar.runtime.configured import ConfiguredRooms, SettingsContext, asked
from instar.runtime.plugin_context import Options
from instar.session.instance import Instance
from instar.settings.config import ConfigError
from instar.settings.load import Settings, read_settings
from instar.settings.paths import Paths
from instar.settings.steering import SteeringView
from instar.settings.trust import Trust
from instar.wire.document import DocumentError

if TYPE_CHECKING:
    from instar.mcp import Servers

_WORDS: Final = {
    "agent": "agents",
    "command": "commands",
    "default_agent": "agents",
    "disabled_providers": "models",
    "enabled_providers": "models",
    "hooks": "",
    "instructions": "instructions",
    "limits": "limits",
    "max_iterations": "limits",
    "mcp": "",
    "mode": "agents",
    "model": "models",
    "permission": "permission",
    "plugin": "",
    "provider": "models",
    "small_model": "models",
    "tools": "permission",
}
"""What people call a key of the settings; empty: what comes of it is told by its own name. Others are ``settings``."""
log = logging.getLogger("instar.reload")
LINGER: Final = 60.0
"""Seconds that the connections of models stay after the turns that began with them: work beside turns uses them too."""


class InstanceFiles(msgspec.Struct, frozen=True):
    """The files as read. `settings` are those before plugins changed them; `problems` are one-line sentences."""

    settings: Settings
    skills: Mapping[str, Skill]
    ground: SettingsContext
    problems: list[str]


class ToolFiles(msgspec.Struct, frozen=True):
    """The tools of the configuration folders in Python, None where there are none; a sentence for each file left out.

    `scripts` are the files in JavaScript that may run: they are loaded with the plugins, and before them.
    """

    plugin: LoadedPlugin | None = None
    scripts: list[Spec] = []
    mark: Mark = Mark(TOOLS, {})
    notices: list[str] = []
    untrusted: list[str] = []


def read(
    options: Options, project: Project, paths: Paths, trust: Trust, before: InstanceFiles | None = None
) -> InstanceFiles:
    """Read everything. Raises what reading settings raises; a mistake in a definition is one of the `problems`."""
    flags = plugin_order.settings_of(options.flags)
    settings = read_settings(options.directory, project, paths, options.environment, flags, trust)
    layers = before.settings.layers if before else ()
    settings, mistakes = complete(settings, project, paths, trust, layers)
    skills, more = read_skills(settings, project, paths, trust, before.skills if before else None)
    readable = [paths.tool_output, *(one.root for one in settings.plugin_folders)]
    own = [*map(_readable, readable), *skill_rules(skills), mcp_door.ASK]
    problems = map(str, [*[one for one in settings.unknown if one.near], *mistakes, *more])
    ground = SettingsContext(project, paths, options.environment, trust.is_trusted, own)
    return InstanceFiles(settings, skills, ground, [*problems, *filter(None, [trust.problem])])


def tell_unaccepted(bus: Bus, before: Sequence[SteeringView], now: Sequence[SteeringView]) -> None:
    """Publish for each folder what is not as accepted now, where that is something else than before."""
    known = {view.folder: view.changes for view in before}
    for view in now:
        if view.changes != known.get(view.folder, ()):
            files = {str(view.folder / one.name): one.how for one in view.changes}
            bus.publish(make(TrustChanged(directory=str(view.folder), unaccepted=files)))


def read_tools(folders: list[Path], paths: Paths, trust: Trust, before: ToolFiles | None = None) -> ToolFiles:
    """Load the tools of configuration folders, if their files differ from `before`: loading runs their code."""

    files = [
        ToolFile(path, code, trusted)
        for folder in folders
        for path, code, trusted in _tools_in(folder, paths, trust)
    ]
    running = [file for file in files if file.trusted]
    state = {"left out": [str(file.path) for file in files if not file.trusted]}
    scripts = [
        Spec(str(file.path), tools=True, code=file.code) for file in running if file.path.suffix in SCRIPTS
    ]
    mark = Mark(
        TOOLS, state, digest_of_files(file.code for file in running if file.path.suffix not in SCRIPTS)
    )
    if before is not None and before.mark == mark:
        return msgspec.structs.replace(before, scripts=scripts)
    found = load_tools(files)
    tools = dict(found.tools)
    if before is not None and before.plugin is not None:
        for path in found.failed:
            tools = {**tools_of(path, before.plugin.hooks["tool"]), **tools}
    plugin = LoadedPlugin(TOOLS, {"tool": tools}) if tools else None
    return ToolFiles(plugin, scripts, mark, found.notices, found.untrusted)


def _tools_in(folder: Path, paths: Paths, trust: Trust) -> Iterator[tuple[Path, Path, bool]]:
    """The files of tools of a configuration folder: path, what is read for it, and whether that may run."""
    if folder in paths.config_homes:
        yield from ((path, path, True) for path in tool_files(folder))
        return
    view, trusted = trust.view(folder.parent), trust.is_trusted(folder.parent)
    yield from ((view.named(code), code, trusted) for code in tool_files(view.served(folder)))


def _readable(folder: Path) -> Rule:
    """Allow the model to read what lies outside the project."""
    return Rule(permission="external_directory", pattern=f"{folder}/*", action="allow")


def changed_settings(old: Settings, new: Settings) -> list[str]:
    """Return what changed in the settings, without what is reported under its own name."""
    before, after = old.config.data, new.config.data
    keys = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
    found = dict.fromkeys(_WORDS.get(key, "settings") for key in keys)
    found.pop("", None)
    return list(found)


def changed_servers(old: Settings, new: Settings) -> list[str]:
    """Return the names of changed, new and removed MCP servers, sorted."""
    before, after = old.config.mcp, new.config.mcp
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def changed_skills(old: Mapping[str, Skill], new: Mapping[str, Skill]) -> list[str]:
    """Return ``skills``, if one of them changed."""
    return ["skills"] if old != new else []


def changed_instructions(changed: Iterable[str]) -> list[str]:
    """Return ``instructions``, if one of their files is among the paths `changed`."""
    return ["instructions"] if any(Path(path).name in NAMES for path in changed) else []


def changed_plugins(old: Sequence[LoadedPlugin], new: Sequence[LoadedPlugin]) -> list[str]:
    """Return ``plugin:NAME`` for each reloaded, new or removed plugin, and ``tools``; in the new order."""
    before, after = {id(one) for one in old}, {id(one) for one in new}
    changed = [one for one in (*new, *old) if (id(one) in before) != (id(one) in after)]
    return list(dict.fromkeys("tools" if one.name == "tools" else f"plugin:{one.name}" for one in changed))


class ReloadedRuntime(Protocol):
    """The parts of the runtime that a reload replaces."""

    instance: Instance
    registry: Registry
    mcp: "Servers | None"
    settings: Settings
    notices: list[str]
    untrusted: list[str]

    async def reload(self, changed: Sequence[str] = ()) -> None:
        """Reload what changed."""

    def plugin_input(self, settings: Settings) -> Callable[[str], PluginInput]:
        """Return what gives each plugin its input."""

    def offer(self) -> None:
        """Make the built-in tools again: some name agents and skills."""


class _Made(msgspec.Struct):
    """The replacements. `back` restores what plugins had contributed, by their names."""

    plugins: Plugins
    tools: ToolFiles
    problems: list[str]
    back: dict[str, Callable[[], None]]
    settings: Settings
    rooms: ConfiguredRooms | None = None


class Reloader:
    """Reloads one runtime; `reading` and `tools` are what it was made of."""

    def __init__(
        self, host: ReloadedRuntime, options: Options, trust: Trust, reading: InstanceFiles, tools: ToolFiles
    ) -> None:
        self._host, self._options, self._trust = host, options, trust
        self._reading, self._tools = reading, tools
        self._said = {*host.notices, *host.untrusted}
        self._one = asyncio.Lock()
        self._lingering: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Close the connections that were kept for turns from before a reload, once none of those runs."""
        lingering = tuple(self._lingering)
        for task in lingering:
            task.cancel()
        await asyncio.gather(*lingering, return_exceptions=True)

    async def run(self, changed: Collection[str] = ()) -> None:
        """Reload what changed, and publish one ``instance.reloaded``, if anything did.

        `changed` are the paths of files that are known to be others: instructions are read by each new session.
        """
        async with self._one:
            instance = self._host.instance
            try:
                found = await asyncio.to_thread(
                    read, self._options, instance.project, instance.paths, self._trust, self._reading
                )
                made = await self._made(found)
            except (DocumentError, ConfigError, LimitsError, LoadError) as error:
                problem = f"{error}; nothing is taken up until that is mended"
                self._publish(await self._without_strangers(), [problem])
                return
            old = instance.plugins.loaded
            host, named, views = self._host, self._host.settings.config.mcp, self._host.settings.views
            what = [
                *changed_settings(host.settings, made.settings),
                *(f"mcp:{name}" for name in changed_servers(host.settings, made.settings)),
                *changed_skills(instance.skills, found.skills),
                *changed_instructions(changed),
                *changed_plugins(old, made.plugins.loaded),
            ]
            self._stand(made, found)
            host.mcp = await mcp_door.take_up(instance, host.mcp, named, self._options.person)
            new = {id(one) for one in made.plugins.loaded}
            await self._end([one for one in old if id(one) not in new])
            self._publish(what, made.problems)
            tell_unaccepted(instance.bus, views, made.settings.views)

    # -- made beside what is there ----------------------------------------------------------------------

    async def _made(self, found: InstanceFiles) -> _Made:
        """Make the replacements. Raises `LoadError`, and as reading settings does; nothing is changed then."""
        instance = self._host.instance
        folders = found.settings.folders
        tools = await asyncio.to_thread(read_tools, folders, instance.paths, self._trust, self._tools)
        fixed = [one for one in instance.plugins.loaded if one.mark is None and one.name != TOOLS]
        head = [one for one in fixed if one.name == mcp_door.NAME]
        plugins = instance.plugins.with_loaded([*head, *filter(None, [tools.plugin])])
        problems = [*found.problems, *tools.notices]
        made = _Made(plugins, tools, problems, {}, found.settings)
        try:
            await self._load(made, found, [one for one in fixed if one not in head])
        except BaseException:
            await self._undo(made)
            raise
        return made

    async def _load(self, made: _Made, found: InstanceFiles, fixed: list[LoadedPlugin]) -> None:
        instance, before = self._host.instance, self._host.instance.plugins.loaded
        given = self._options.environment, self._options.flags
        early = [*made.tools.scripts, *plugin_order.early(found.settings, *given)]
        made.problems += await load(early, made.plugins, self._input(made, found.settings), before=before)
        made.plugins.replace([*made.plugins.loaded, *fixed])
        made.settings, made.rooms, notices = await asked(made.plugins, found.settings, found.ground)
        made.problems += [*notices, *made.rooms.problems]
        places = plugin_order.places(instance.project, instance.directory, instance.paths.home)
        late = [
            *plugin_order.guarding(one.name for one in before),
            *plugin_order.late(made.settings, *given, places),
        ]
        self._host.registry.release(introspection.UNUSED)
        failed = await load(
            late,
            made.plugins,
            self._input(made, made.settings),
            before=before,
            digest_of=plugin_order.marker(made.settings, places),
        )
        made.problems += failed
        if failed and not {spec.identity for spec in late} <= set(made.plugins.names):
            # It would judge what the others do: they must not begin without it.
            raise LoadError(failed[0])
        self._put_back(made, before)

    def _input(self, made: _Made, settings: Settings) -> Callable[[str], PluginInput]:
        """Return the function that gives a plugin its input, after removing what a plugin of that name contributed."""
        give = self._host.plugin_input(settings)

        def of(name: str) -> PluginInput:
            if name not in made.back:
                made.back[name] = self._host.registry.release(name)
            return give(name)

        return of

    def _put_back(self, made: _Made, before: list[LoadedPlugin]) -> None:
        """Restore the contributions of plugins that stay because their new version failed; remove the new version's."""
        new = {one.name for one in made.plugins.loaded if not any(one is other for other in before)}
        for name, put_back in made.back.items():
            if name not in new:
                put_back()

    async def _undo(self, made: _Made) -> None:
        before = self._host.instance.plugins.loaded
        for put_back in made.back.values():
            put_back()
        introspection.complete(self._host.registry)
        await self._end([one for one in made.plugins.loaded if not any(one is other for other in before)])

    # -- put in its place -------------------------------------------------------------------------------

    def _stand(self, made: _Made, found: InstanceFiles) -> None:
        """Install all replacements without an await, so that no other task sees a mixture."""
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
        instance.plugins.replace(plugins)
        introspection.complete(host.registry)
        host.settings = made.settings
        host.offer()
        instance.plugins.forward_events()
        self._reading, self._tools = found, made.tools
        host.notices[:] = made.problems
        host.untrusted[:] = [*found.settings.dropped, *made.tools.untrusted]
        if rooms.models is not old:
            self._linger(self._let_go(old))

    async def _let_go(self, models: Models) -> None:
        """Close the old connections of models once no turn uses them."""
        try:
            await self._ended()
            await asyncio.sleep(LINGER)
        finally:
            await models.close()

    async def _ended(self) -> None:
        """Wait for the end of the running turns."""
        running = [live.turn for live in self._host.instance.sessions.running() if live.turn is not None]
        if running:
            await asyncio.wait(running)

    def _linger(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._lingering.add(task)
        task.add_done_callback(self._lingering.discard)

    async def _end(self, gone: list[LoadedPlugin]) -> None:
        """Dispose plugins, all at the same time."""
        plugins, known = self._host.instance.plugins, self._host.instance.plugins.idle_hosts
        await asyncio.gather(*(plugins.end(one) for one in gone))
        for host in plugins.idle_hosts:
            if not any(host is one for one in known):
                self._linger(self._leave(host))

    async def _leave(self, host: Any) -> None:
        """Close the hosts of plugins once no running step has their tools."""
        await self._ended()
        await self._host.instance.plugins.close_host(host)

    # -- what cannot be taken up -------------------------------------------------------------------------

    async def _without_strangers(self) -> list[str]:
        """End the code of folders that are no longer trusted, even if settings cannot be read; return its names."""
        instance, host = self._host.instance, self._host
        files = [one for one in self._reading.settings.plugin_files if not self._trust.is_trusted(one.folder)]
        strange = {str(one.path.resolve()) for one in files if one.folder not in instance.paths.config_homes}
        tools = read_tools(host.settings.folders, instance.paths, self._trust, self._tools)
        files_left = {one.target for one in tools.scripts}
        strange |= {one.identity for one in self._tools.scripts if one.target not in files_left}
        if self._tools.plugin is None:
            tools = self._tools
        old = instance.plugins.loaded
        new = [
            tools.plugin if one is self._tools.plugin else one
            for one in old
            if not (isinstance(one.mark, Mark) and one.mark.identity in strange)
        ]
        kept = [one for one in new if one is not None]
        instance.plugins.replace(kept)
        instance.plugins.forward_events()
        self._tools = tools
        gone = [one for one in old if not any(one is other for other in kept)]
        for one in gone:
            host.registry.release(one.name)
        await self._end(gone)
        return changed_plugins(old, kept)

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
