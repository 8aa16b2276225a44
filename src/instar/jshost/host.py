"""The JavaScript host of one instance: it starts the child on need, loads plugins in it, and starts it anew.

The child is one process of one instance, on a socket of its own, behind the shield. bun runs it, else node.
"""

import asyncio
import contextlib
import logging
import re
import shutil
import signal
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from instar import wire
from instar.event import PluginError, make
from instar.jshost.contributed import Adapter, Histories, RunningTool, hooks_of, revived
from instar.jshost.package import BUN, Packages
from instar.jshost.peer import Answer, JavaScriptError, Peer
from instar.message import WithParts
from instar.plugin import Hooks, Invalid, PluginInput
from instar.plugin.custom import check_name
from instar.plugin.door import LIMITS, Late, in_time, unsound
from instar.plugin.locate import LoadError, PluginLocation
from instar.plugin.shell import LogLines
from instar.process import Output, ProcessError
from instar.settings.paths import Paths
from instar.settings.steered import accepted_environment
from instar.wire import Plain, document

NEEDED: Final = 20
"""The oldest major version of node that will do."""
HOST: Final = Path(__file__).parent / "host" / "host.mjs"
"""The program that the child runs."""
_SOCKET: Final = "3"
# Programs that a plugin starts get its stdin: the socket must not be that.
_MOVED: Final = 'exec "$@" 3<&0 0</dev/null'


class JavaScriptEngine(msgspec.Struct, frozen=True):
    """A program that runs JavaScript, by its absolute `path`; `name` is ``bun`` or ``node``."""

    name: str
    path: str

    @property
    def argv(self) -> list[str]:
        """The command of the host, which finds its socket on stdin."""
        flags = ["--no-install"] if self.name == "bun" else ["--no-warnings"]
        return ["sh", "-c", _MOVED, "sh", self.path, *flags, str(HOST), _SOCKET]


def find_engine(environment: Mapping[str, str], kept: Path | None = None) -> JavaScriptEngine:
    """Return what runs JavaScript: bun of the person's ``PATH``, one that is `kept`, else node. Raises `LoadError`."""
    bun, node = (shutil.which(name, path=environment.get("PATH")) for name in ("bun", "node"))
    if (found := bun or kept) is not None:
        return JavaScriptEngine("bun", str(found))
    if node is not None:
        return JavaScriptEngine("node", node)
    raise LoadError(
        f"it is JavaScript, and there is neither bun nor node on PATH: install bun, or node {NEEDED} or newer"
    )


def demand_new(engine: JavaScriptEngine, version: str) -> None:
    """Raise `LoadError` for a node that is too old, by the `version` that it prints."""
    found = re.match(r"v(\d+)\.", version)
    if engine.name == "node" and (found is None or int(found[1]) < NEEDED):
        what = "no version" if found is None else f"version {found[1]}"
        raise LoadError(
            f"it is JavaScript, and {engine.path} has {what}: "
            f"install bun, or node {NEEDED} or newer, and put it on PATH"
        )


async def version_of(engine: JavaScriptEngine, given: PluginInput) -> str:
    """Return the version that a program prints, "" when it prints none. Asked when it did not come up."""
    asked = [engine.path, "--version"]
    try:
        said = await given.children.run(asked, cwd=given.directory, env=given.environment, timeout=10)
    except ProcessError:
        return ""
    return said.stdout.decode("utf-8", "replace").strip()


def _root(given: PluginInput) -> Path:
    return given.worktree if given.project.vcs else given.directory


T = TypeVar("T")
log = logging.getLogger("instar.jshost")

_FOLDERS: Final = (".claude/todos", ".claude/transcripts", ".config/opencode")
_FILE: Final = ".opencode-supermemory.log"
"""What known plugins make in the home when they load."""
_SETTINGS: Final = {"@tarquinen/opencode-dcp": "dcp.jsonc"}
"""The file that a known plugin makes beside opencode's settings at load, where its child can write nothing."""
_ENDING: Final = 2.0
"""Seconds that a child has to end once it has closed its socket."""


class HostProcess:
    """A running child; `peer` speaks with it, `histories` are what it knows of sessions. Make it with `start`."""

    def __init__(self, peer: Peer, running: "asyncio.Task[Output]", lines: LogLines) -> None:
        self.peer = peer
        self.histories = Histories()
        self.about: Plain = {}
        self._running = running
        self._lines = lines
        self._closing = ""
        self._watching = asyncio.create_task(self._watch(), name="JavaScript host")

    @classmethod
    async def start(
        cls, engine: JavaScriptEngine, given: PluginInput, answer: Answer, greeting: Plain
    ) -> "HostProcess":
        """Start a child and greet it. Raises `JavaScriptError` when it does not come up."""
        home = Paths.from_environment(given.environment).home
        await given.children.make_room(*(home / name for name in _FOLDERS), files=[home / _FILE])
        ours, theirs = socket.socketpair()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        lines = LogLines(partial(log.info, "printed line=%s"))
        run = given.children.run(
            engine.argv,
            # Bun runs what settings of its own in the working directory name: the child enters the project later.
            cwd=HOST.parent,
            env=accepted_environment(
                given.children.environment(given.environment), _root(given), given.served
            ),
            stdin=theirs.fileno(),
            merge=True,
            limit=0,
            on_output=lines.take,
        )
        child = cls(Peer(reader, writer, answer), asyncio.create_task(run, name="JavaScript child"), lines)
        try:
            child.about = await child.peer.request("initialize", greeting)
        except BaseException:
            await child.close("it did not come up")
            raise
        finally:
            # Held until it has its own, or is gone.
            theirs.close()
        return child

    @property
    def gone(self) -> bool:
        """Whether it has ended."""
        return self._watching.done() or self._running.done()

    async def close(self, reason: str) -> None:
        """End it; pending requests fail with `reason`."""
        self._closing = self._closing or reason
        self._running.cancel()
        await asyncio.wait([self._watching])

    async def _watch(self) -> None:
        reading = asyncio.create_task(self.peer.run())
        await asyncio.wait([reading, self._running], return_when=asyncio.FIRST_COMPLETED)
        nonsense = reading.result() if reading.done() else ""
        if not self._running.done():
            await asyncio.wait([self._running], timeout=0 if nonsense else _ENDING)
            self._running.cancel()
            await asyncio.wait([self._running])
        reading.cancel()
        await asyncio.wait([reading])
        reason = self._closing or nonsense or self._reason()
        log.log(logging.INFO if self._closing else logging.ERROR, "the JavaScript host is gone: %s", reason)
        await self.peer.close(f"the JavaScript host is gone: {reason}")

    def _reason(self) -> str:
        if self._running.cancelled():
            return "it closed its socket"
        error = self._running.exception()
        if error is not None:
            return str(error)
        done = self._running.result()
        how = f"it ended with code {done.code}"
        if done.signal is not None:
            how = f"it was ended by {signal.Signals(done.signal).name}"
        return how + (f" ({self._lines.last[-1]})" if self._lines.last else "")


if TYPE_CHECKING:
    from instar.client import AsyncClient

_DEATHS: Final = 3
"""Ends of the child within `_WHILE` after which it is left alone for as long."""
_WHILE: Final = 60.0
_PING: Final = 2.0
"""Seconds that a child has to show that it is alive, once something took too long."""
PATIENCE: Final = 30.0
"""Seconds that a plugin's function at load may take."""
_BUSY: Final = 30.0
"""The same, while it has other requests to work on."""
_HELD: Final = LIMITS["observer"]
"""Seconds after which a listener should have let go of an event."""
_MINDED: Final = 1.0
"""Seconds between looks at that."""
_LOADING: Final = 45.0
"""Seconds that a module and its plugins may take to load, their own limits included."""
_MOST_NAMED: Final = 100
"""Different failures that are published; the log has them all."""
_PASSED_HEADERS: Final = ("accept", "content-type", "x-opencode-directory")
"""Headers of a plugin's request that say something to the instance."""


class _Module(msgspec.Struct):
    """A loaded plugin module: how the child loads it, its plugins' hooks, and why it ended.

    `give` makes a plugin's input; what a module contributes goes by the name that its code gives it.
    """

    load: Plain
    give: Callable[[str], PluginInput]
    name: str
    hooks: list[Hooks] = []
    broken: str = ""
    given: PluginInput | None = None

    def input(self, name: str) -> PluginInput:
        """Return the module's input, made once under `name`; what that name contributed before is dropped."""
        if self.given is None:
            self.name, self.given = name, self.give(name)
        return self.given


class JavaScript:
    """The plugins of one instance that are JavaScript; `given` is any plugin's input."""

    def __init__(self, given: PluginInput) -> None:
        self._given = given
        cache = Paths.from_environment(given.environment).cache
        self._packages = Packages(cache / "npm", given.children, given.environment)
        self._http: AsyncClient | None = None
        self._modules: dict[str, _Module] = {}
        self._calls: dict[int, RunningTool] = {}
        self._logins: dict[str, Callable[[], Awaitable[Any]]] = {}
        self._numbers = 0
        self._engine: JavaScriptEngine | None = None
        self._child: HostProcess | None = None
        self._starting = asyncio.Lock()
        self._deaths: deque[float] = deque(maxlen=_DEATHS)
        self._named: set[tuple[str, str, str]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._checks: list[asyncio.Task[None]] = []
        self._closed = False
        self._told: set[str] = set()
        self._minding = False

    def begin(self, places: Sequence[PluginLocation]) -> None:
        """Start the child and install the packages of `places` in the background. `load` reports what failed."""
        try:
            self._find()
        except LoadError:
            return
        self._do(self._begun())
        for place in places:
            if place.path is None:
                self._do(self._fetched(place))

    async def load(
        self, place: PluginLocation, options: Plain, make_input: Callable[[str], PluginInput], patience: float
    ) -> list[tuple[str, Hooks]]:
        """Load a module and return the name and hooks of each plugin that it offers. Raises `LoadError`.

        A file of tools is one plugin, which has nothing else.
        """
        self._find()
        # Not a matter of the plugin's own patience: a registry may be slow.
        target = await self._packages.target(place)
        self._make_settings(place.name)
        key = str(len(self._modules))
        load = {"key": key, "target": str(target), "file": place.path is not None, "tools": place.tools}
        load |= {"options": options, "timeout": PATIENCE}
        module = self._modules[key] = _Module(load, make_input, place.name)
        try:
            limit = min(patience, _LOADING)
            while "bun" in (found := await in_time(limit, self.request, "load", module.load)):
                await self._change_to_bun(place.name, found["bun"])
            for name in found["plugins"][0]["tools"] if place.tools else ():
                check_name(name)
            hooks = [hooks_of(self, one) for one in found["plugins"]]
            if problem := next(filter(None, map(unsound, hooks)), None):
                raise LoadError(problem)
        except (JavaScriptError, LoadError, Late) as error:
            module.broken = str(error)
            if not isinstance(error, JavaScriptError) or await self.request("left", {"key": key}):
                await self._end_child("a plugin is skipped")
            raise LoadError(str(error)) from error
        module.input(found["id"] or place.name)
        module.hooks = hooks
        return [(module.name, one) for one in hooks]

    def release(self, hooks: Hooks) -> bool:
        """Forget a plugin: a child that is started anew has it no more. Returns whether none is left."""
        for module in self._modules.values():
            module.hooks = [one for one in module.hooks if one is not hooks]
        return not any(module.hooks for module in self._modules.values())

    @property
    def is_up(self) -> bool:
        """Whether its child runs."""
        return self._child is not None and not self._child.gone

    @property
    def runs(self) -> str:
        """The program that runs it, ``bun`` or ``node``; "" before it was started."""
        return "" if self._child is None else str(self._child.about.get("runtime", ""))

    async def ready(self) -> HostProcess:
        """Return the child; one that has ended is started anew, also for a caller that is ended meanwhile."""
        child = self._child
        if child is None or child.gone or self._checks or self._starting.locked():
            child = await asyncio.shield(self._do(self._up()))
        return child

    async def request(self, method: str, params: Plain) -> Any:
        """Ask the child, which is started anew when it has ended. Raises `JavaScriptError`."""
        return await self._asked(await self._ready(params), method, params)

    async def tell(self, method: str, params: Plain) -> None:
        """Tell the child something. Raises `JavaScriptError` when there is none."""
        child = await self._ready(params)
        child.peer.notify(method, params)
        self._told.add(self._module(params))
        if not self._minding:
            self._minding = True
            self._do(self._mind())

    async def send_messages(self, params: Plain, messages: Sequence[WithParts]) -> Plain | None:
        """Let a hook change messages, of which the child is sent what it lacks. Raises `JavaScriptError`."""
        child = await self._ready(params)
        found: Plain | None = await self._asked(
            child, "messages", {**params, **child.histories.patch(messages)}
        )
        return found

    async def run_tool(self, call: RunningTool, params: Plain) -> Plain:
        """Run a tool. Cancelled, its signal is aborted. Raises `JavaScriptError`."""
        self._numbers += 1
        number = self._numbers
        self._calls[number] = call
        try:
            found: Plain = await self.request("tool", {**params, "call": number})
            return found
        finally:
            del self._calls[number]

    def keep_login(self, plugin: str, get_auth: Callable[[], Awaitable[Any]]) -> None:
        """Let a plugin's login ask `get_auth` what is kept of it."""
        self._logins[plugin] = get_auth

    async def close(self) -> None:
        """End the child and all that is under way."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._packages.close()
        await self._end_child("the instance ends")
        if self._http is not None:
            await self._http.aclose()

    # -- the child -----------------------------------------------------------------------------------

    async def _fetched(self, place: PluginLocation) -> None:
        with contextlib.suppress(LoadError):
            await self._packages.target(place)

    async def _begun(self) -> None:
        try:
            await self._up()
        except (LoadError, JavaScriptError) as error:
            log.info("the JavaScript host did not start: %s", error)

    def _find(self) -> None:
        given = self._given
        if self._engine is None:
            environment = accepted_environment(given.environment, _root(given), given.served)
            self._engine = find_engine(environment, self._packages.kept_bun())

    def _make_settings(self, plugin: str) -> None:
        """Make the file of `_SETTINGS`, unless it is there; what cannot be made is reported by the plugin."""
        path = Paths.from_environment(self._given.environment).config_homes[0] / _SETTINGS.get(plugin, "")
        if plugin in _SETTINGS and not path.exists():
            with contextlib.suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                document.atomic_write(path, b"{}\n")

    async def _change_to_bun(self, plugin: str, why: str) -> None:
        """Run all plugins by a bun of npm's from now on. Raises `LoadError`."""
        step = f"the plugin {plugin} needs bun: install {BUN} from npm (100 MB)"
        log.info("%s: %s", step, why)
        if self._given.confirm is not None and not await self._given.confirm(step):
            raise LoadError(f"{why}: it needs bun, so install bun")
        self._engine = JavaScriptEngine("bun", str(await self._packages.bun()))
        await self._end_child("bun runs the plugins from now on")

    async def _end_child(self, reason: str) -> None:
        """End the child, with every timer and program that plugins started: the next request starts another one."""
        child, self._child = self._child, None
        if child is not None:
            await child.peer.heard()
            await child.close(reason)

    async def _ready(self, params: Plain) -> HostProcess:
        child = await self.ready()
        if "plugin" in params and (broken := self._modules[params["plugin"].partition(".")[0]].broken):
            raise JavaScriptError(f"it could not be loaded again: {broken}")
        return child

    async def _up(self) -> HostProcess:
        """Return the child; one that has ended is started anew, with every module that was loaded."""
        async with self._starting:
            # What is asked of a child that is about to be ended would fail with it.
            while self._checks:
                await asyncio.wait([self._checks.pop()])
            if self._child is not None and not self._child.gone:
                return self._child
            if self._closed:
                raise JavaScriptError("the instance ends")
            if self._child is not None:
                self._demand_rest()
                log.warning("the JavaScript host is started again")
            assert self._engine is not None
            self._child = child = await self._started(self._engine)
            log.info("the JavaScript host runs: %s %s", child.about["runtime"], child.about["version"])
            for module in [one for one in self._modules.values() if one.hooks and not one.broken]:
                try:
                    await in_time(_LOADING, self._asked, child, "load", module.load)
                except (JavaScriptError, LoadError, Late) as error:
                    module.broken = str(error)
                    log.error("failed to load again plugin=%s reason=%s", module.name, error)
            return child

    async def _started(self, engine: JavaScriptEngine) -> HostProcess:
        given = self._given
        greeting = {
            "directory": str(given.directory),
            "worktree": str(given.worktree),
            "project": await self._project(),
            **self._server(),
        }
        try:
            child = await HostProcess.start(engine, given, self._answer, greeting)
        except JavaScriptError:
            # Asked only now: starting it for its version would double the time of each start.
            demand_new(engine, await version_of(engine, given))
            raise
        try:
            demand_new(engine, child.about["version"])
        except LoadError:
            await child.close("it is too old")
            raise
        return child

    def _demand_rest(self) -> None:
        """Raise `JavaScriptError` while a child that ends again and again is left alone."""
        now = time.monotonic()
        if len(self._deaths) == _DEATHS and now - self._deaths[0] < _WHILE:
            raise JavaScriptError(
                f"the JavaScript host ended {_DEATHS} times within {_WHILE:g} s and is left alone for a while; "
                "the log says why"
            )
        self._deaths.append(now)

    async def _project(self) -> Plain:
        """Return the project as the HTTP interface has it."""
        asked = {"method": "GET", "path": "/project/current", "headers": {}, "body": ""}
        try:
            project: Plain = wire.parse((await self._carried(asked))["body"])
        except Invalid:  # a host without the interface in process
            own = self._given.project
            project = {"id": own.id, "worktree": str(self._given.worktree)}
            project |= {"vcs": own.vcs} if own.vcs else {}
        return project

    def _server(self) -> Plain:
        server = None if self._given.server is None else self._given.server()
        return {
            "url": None if server is None else server.url,
            "authorization": None if server is None else server.authorization,
        }

    async def _asked(self, child: HostProcess, method: str, params: Plain) -> Any:
        try:
            return await child.peer.request(method, params)
        except asyncio.CancelledError:
            self._checks.append(self._do(self._suspect(child, self._module(params))))
            raise

    async def _suspect(self, child: HostProcess, named: str) -> None:
        """End a child that does not answer: code that never awaits cannot be stopped otherwise."""
        if child.gone:
            return
        if not await child.peer.answers(_PING, _BUSY):
            await child.close(f"{named} held it up, so that it answered nothing any more, and it was ended")

    async def _mind(self) -> None:
        """Look whether listeners let go of the events that they were told, until there are no more; end the child."""
        while self._told and (child := self._child) is not None and not child.gone:
            told, self._told = sorted(self._told), set()
            if not await child.peer.answers(_HELD, _BUSY):
                text = f"it did not let go of an event within {_HELD:g} s and was ended"
                if len(told) > 1:
                    text = f"one of {', '.join(told)} did not let go of an event within {_HELD:g} s and was ended"
                await child.close(text)
                for name in told:
                    log.error("plugin failed plugin=%s hook=event error=%s", name, text)
                    await self._given.client.publish(
                        make(PluginError(plugin=name, hook="event", message=text))
                    )
            await asyncio.sleep(_MINDED)
        self._minding = False

    # -- what the child asks ---------------------------------------------------------------------------

    async def _answer(self, method: str, params: Plain) -> Any:
        match method:
            case "ask":
                await self._running(params["call"]).ask(params)
            case "metadata":
                if (call := self._calls.get(params["call"])) is not None:
                    call.show(params)
            case "login":
                return wire.to_plain(await self._logins[params["plugin"]]())
            case "failed":
                await self._failed(params)
            case "workspace":
                module = self._modules[params["plugin"]]
                adapter = Adapter(revived(self, params["adapter"]))
                given = module.input(params["id"] or module.name)
                given.registry.register_workspace(params["type"], adapter)
            case "server":
                return self._server()
            case "http":
                return await self._carried(params)
            case "package":
                return str(await self._packages.offered(params["name"]))
            case _:
                raise JavaScriptError(f"there is no method {method}")
        return None

    async def _carried(self, asked: Plain) -> Plain:
        """Send a plugin's request to the instance and return its `status`, `type` and `body`. Raises `Invalid`.

        In process: a server answers for a directory once its plugins are loaded, so one that asks while it loads, and
        waits for the answer, would wait for itself.
        """
        if self._http is None:
            if self._given.http is None:
                raise Invalid("this host offers plugins no requests in process")
            self._http = self._given.http()
        headers = {name: value for name, value in asked["headers"].items() if name in _PASSED_HEADERS}
        status, media, body = await self._http.carry(asked["method"], asked["path"], headers, asked["body"])
        return {"status": status, "type": media, "body": body}

    def _running(self, number: Any) -> RunningTool:
        if (call := self._calls.get(number)) is None:
            raise JavaScriptError("the call is over")
        return call

    def _module(self, params: Plain) -> str:
        """Return the name of the module whose plugin `params` name, or that they load."""
        key = str(params.get("plugin") or params.get("key") or "").partition(".")[0]
        return self._modules[key].name if key in self._modules else "JavaScript"

    async def _failed(self, params: Plain) -> None:
        """Name a plugin that failed where nobody waits for it: once for each hook, event type and text."""
        name = self._module(params)
        hook, kind, text = str(params["hook"]), str(params.get("event", "")), str(params["message"])
        log.error("plugin failed plugin=%s hook=%s event=%s error=%s", name, hook, kind, text)
        # A failing observer of plugin.error must not publish the next one for ever.
        if (
            kind != "plugin.error"
            and len(self._named) < _MOST_NAMED
            and (name, kind, text) not in self._named
        ):
            self._named.add((name, kind, text))
            await self._given.client.publish(make(PluginError(plugin=name, hook=hook, message=text)))

    def _do(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
