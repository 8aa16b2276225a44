"""The plugin function: registers the tool `self`, its watchdog, its views and its routes.

The watchdog resets restricted parameters that are out of range, before each step and each tool call.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from instar.plugin import Hooks, PluginInput, Value, View, event, points, secret, wire
from instar.plugins.self import bounds
from instar.plugins.self.access import Access, TreeChange, is_tighter
from instar.plugins.self.messages import Refusal
from instar.plugins.self.note import SessionNotes
from instar.plugins.self.profile import ProfileStart
from instar.plugins.self.routes import SelfRoutes
from instar.plugins.self.state import SelfSession, SelfSessions
from instar.plugins.self.tool import SelfTool
from instar.plugins.self.tree import SelfTree

log = logging.getLogger("instar.self")


class Repair(NamedTuple):
    """A parameter that is out of range: the old value, the new one (None: none can be set), and the warning."""

    name: str
    old: Any
    new: Any
    warning: str


def look(now: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[Repair]:
    """Return a repair for each parameter of `now` that is out of range."""
    found = []
    for name, value in now.items():
        try:
            bounds.check_parameter(name, value)
        except Refusal as why:
            new = bounds.default(name, defaults.get(name))
            found.append(Repair(name, value, new, _warning(str(why), name, defaults.get(name), new)))
    return found


def _warning(why: str, name: str, default: Any, new: Any) -> str:
    if new is None:
        return f"{why}; there is no value that it could be reset to"
    if bounds.is_sound(name, default):
        return f"{why}; it was reset to its default {new}"
    return f"{why}, and its default is out of range too; it was reset to {new}"


async def watch(access: Access, session_id: str) -> list[str]:
    """Reset a session's parameters that are out of range. Return a warning for each value not warned of before.

    Never raises.
    """
    try:
        async with access.sessions.of(session_id).changing:
            repairs = await _repairs(access, session_id)
            return [text for one in repairs if (text := await _mend(access, session_id, one))]
    except Exception as error:
        # A watchdog that fails must not refuse the tool call that it looks at.
        log.error("watchdog failed session=%s error=%s", session_id, access.said(error))
        return []


async def _repairs(access: Access, session_id: str) -> list[Repair]:
    declared = access.settable()
    now = {name: await _raw(access, name, value.read, session_id) for name, value in declared.items()}
    if all(bounds.is_sound(name, value) for name, value in now.items()):
        return []
    defaults = {name: await _raw(access, name, value.default, session_id) for name, value in declared.items()}
    return look(now, defaults)


async def _raw(access: Access, name: str, read: Any, session_id: str) -> Any:
    """Return what a reader returns; None without a reader, or if it fails."""
    try:
        return None if read is None else await access.raw(name, read, session_id)
    except Refusal:
        return None


async def _mend(access: Access, session_id: str, repair: Repair) -> str:
    """Make one repair. Return its warning, "" when this value was warned of before."""
    warning = repair.warning
    if repair.new is not None:
        try:
            access.write(repair.name, access.settable()[repair.name], repair.new, session_id)
        except Refusal as why:
            warning = f"{warning}, which failed: {why}"
        else:
            await access.report(TreeChange(repair.name, repair.old, repair.new, session_id))
    warned, seen = access.sessions.of(session_id).warned, (repair.name, repr(repair.old)[:100])
    if seen in warned:
        return ""
    warned.add(seen)
    log.warning("watchdog session=%s problem=%s", session_id, warning)
    return warning


SWITCH: Final = "tools.self_evolution"
"""The setting that switches it on."""


async def server(input: PluginInput, options: wire.Plain | None = None) -> Hooks:  # noqa: A002 - opencode's name
    """Offer the tool `self`; nothing unless the settings switch it on, however the plugin came to be loaded."""
    tools = input.config.get("tools")
    if not (isinstance(tools, dict) and tools.get("self_evolution") is True):
        log.warning("self=inactive reason=%s is not true", SWITCH)
        input.registry.stands_idle(f"the settings do not say {SWITCH}: true")
        return {}
    tuned = Self(input)
    input.registry.add_routes(tuned.routes())
    return tuned.hooks()


class Self:
    """The plugin on one instance."""

    def __init__(self, given: PluginInput) -> None:
        self._input = given
        self._sessions = SelfSessions()
        self._from_environment = list(secret.secrets_in(dict(given.environment)))
        given.registry.add_view(self._view())
        self._access = Access(self._tree, self._sessions, self._secrets, self._publish)
        self._notes = SessionNotes(given.kv, self._access)
        named = given.flags.get("profile")
        chosen = bool(given.flags.get("model"))
        self._start = ProfileStart(str(named), self._access, self._is_child, chosen) if named else None
        self._tools = {"self": SelfTool(self._access, list(self._tree().top)).tool()}

    def hooks(self) -> Hooks:
        """Return the callbacks by hook point."""
        return {
            "tool": self._tools,
            "chat.message": self._prompted,
            "step.before": self._step,
            "tool.execute.before": self._call,
            "tool.execute.after": self._called,
            "subagent.start": self._subagent,
            "session.end": self._end,
            "event": self._heard,
        }

    def routes(self) -> SelfRoutes:
        """Return the operations for the HTTP interface."""
        given = self._input
        return SelfRoutes(self._access, self._notes, given.kv, given.client, str(given.directory))

    def _tree(self) -> SelfTree:
        return SelfTree(self._input.registry.views.values())

    def _secrets(self) -> list[secret.Secret]:
        return [*self._from_environment, *self._input.children.secrets()]

    async def _publish(self, change: TreeChange) -> None:
        modified = event.SelfModified(
            session_id=change.session_id,
            call_id=change.call_id,
            path=change.path,
            old=change.old,
            new=change.new,
        )
        self._notes.record(change)
        await self._input.client.publish(event.make(modified))

    async def _prompted(self, given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        # The model is chosen before the first step. A profile that cannot be used ends that step, which says why.
        if self._start is not None:
            await self._start.begin(given.session_id)

    async def _step(self, given: points.StepInput, output: points.StepOutput) -> None:
        if self._start is not None and (why := await self._start.begin(given.session_id)):
            output.stop = why
            return
        await watch(self._access, given.session_id)
        await self._notes.keep(given.session_id)
        output.without += list(self._sessions.of(given.session_id).unregistered)

    async def _call(self, given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        await watch(self._access, given.session_id)

    async def _called(self, given: points.ToolAfterInput, output: points.ToolAfterOutput) -> None:
        if given.tool in self._tools:
            self._notes.due(given.session_id)

    async def _is_child(self, session_id: str) -> bool:
        return (await self._input.client.session.get(session_id)).parent_id is not None

    async def _subagent(self, given: points.SubagentStartInput, output: points.SubagentStartOutput) -> None:
        """Give a new sub-agent a copy of what its caller set.

        A sub-agent that is resumed gets only the guards that its caller has tightened since.
        """
        if not given.resumed:
            self._sessions.inherit(given.session_id, given.child_id)
        tree = self._tree()
        for path in list(self._sessions.of(given.session_id).changed):
            found = tree.find(tuple(path.split(".")))
            if found is None or not isinstance(found.node, Value) or found.node.write is None:
                continue
            value = await self._access.raw(path, found.node.read, given.session_id)
            if given.resumed and not await self._tightens(path, found.node, value, given.child_id):
                continue
            self._access.write(path, found.node, value, given.child_id)
            self._sessions.of(given.child_id).changed[path] = value

    async def _tightens(self, path: str, guard: Value, value: Any, session_id: str) -> bool:
        """Return whether `guard` is a guard, and `value` tighter than what a session has."""
        if guard.guard is None:
            return False
        return is_tighter(guard, await self._access.raw(path, guard.read, session_id), value)

    async def _end(self, given: points.SessionEndInput, output: points.Empty) -> None:
        if given.reason == "deleted":
            await self._notes.forget(given.session_id)
        else:
            await self._notes.keep(given.session_id, over=True)
        self._sessions.drop(given.session_id)
        if self._start is not None:
            self._start.forget(given.session_id)

    async def _heard(self, happened: event.Event) -> None:
        # A session that was not used in this process gets no session.end.
        if isinstance(happened.properties, event.SessionDeleted):
            await self._notes.forget(happened.properties.info.id)

    def _view(self) -> View:
        told: dict[str, tuple[str, Callable[[SelfSession], Any]]] = {
            "reads": ("How often the session looked.", lambda one: one.reads),
            "calls": ("How often it called a method.", lambda one: one.calls),
            "changes": ("How many changes were made in it.", lambda one: one.changes),
            "unregistered": ("The tools that it took away from itself.", lambda one: list(one.unregistered)),
            "changed": ("The paths that it set.", lambda one: list(one.changed)),
            "snapshots": ("The names of its snapshots.", lambda one: one.snapshots.names),
        }
        values = {name: Value(doc=doc, read=self._of(read)) for name, (doc, read) in told.items()}
        return View("self", "What was done with this tool in the session.", values)

    def _of(self, read: Callable[[SelfSession], Any]) -> Callable[[str], Any]:
        return lambda session_id: read(self._sessions.of(session_id))
