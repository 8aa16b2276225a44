"""The plugin function: registers the tool `self`, its watchdog, its views and its routes.

The watchdog resets restricted parameters that are out of range, before each step and each tool call.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Any, Final

from instar.plugin import Hooks, PluginInput, Value, View, event, points, secret, wire
from instar.plugins.self import bounds
from instar.plugins.self.access import Access, TreeChange, is_tighter
from instar.plugins.self.messages import Refusal
from instar.plugins.self.note import SessionNotes
from instar.plugins.self.profile import ProfileStart
from instar.plugins.self.routes import SelfRoutes
from instar.plugins.self.state import SelfSession, SelfSessions
from instar.plugins.self.tool import self_tool
from instar.plugins.self.tree import SelfTree

log = logging.getLogger("instar.self")


async def watch(access: Access, session_id: str) -> list[str]:
    """Reset a session's parameters that are out of range. Return a warning for each value not warned of before.

    Never raises.
    """
    try:
        async with access.sessions[session_id].changing:
            settable = access.settable().items()
            return [text for name, one in settable if (text := await _mend(access, session_id, name, one))]
    except Exception as error:
        # A watchdog that fails must not refuse the tool call that it looks at.
        log.error("watchdog failed session=%s error=%s", session_id, access.said(error))
        return []


async def _raw(access: Access, name: str, read: Any, session_id: str) -> Any:
    """Return what a reader returns; None without a reader, or if it fails."""
    with contextlib.suppress(Refusal):
        return None if read is None else await access.raw(name, read, session_id)
    return None


async def _mend(access: Access, session_id: str, name: str, declared: Value) -> str:
    """Reset a parameter that is out of range. Return a warning, "" for none and when this value had one before."""
    old = await _raw(access, name, declared.read, session_id)
    try:
        bounds.check_parameter(name, old)
    except Refusal as why:
        warning = str(why)
    else:
        return ""
    default = await _raw(access, name, declared.default, session_id)
    new = bounds.default(name, default)
    if new is None:
        warning += "; there is no value that it could be reset to"
    elif new is default:
        warning += f"; it was reset to its default {new}"
    else:
        warning += f", and its default is out of range too; it was reset to {new}"
    if new is not None:
        try:
            access.write(name, declared, new, session_id)
        except Refusal as why:
            warning += f", which failed: {why}"
        else:
            await access.report(TreeChange(name, old, new, session_id))
    warned, seen = access.sessions[session_id].warned, (name, repr(old)[:100])
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
    input.registry.add_routes(SelfRoutes(tuned.access, tuned.notes, input))
    return tuned.hooks()


class Self:
    """The plugin on one instance."""

    def __init__(self, given: PluginInput) -> None:
        self._input = given
        self._sessions = SelfSessions(SelfSession)
        self._from_environment = list(secret.secrets_in(dict(given.environment)))
        given.registry.add_view(self._view())
        self.access = Access(self._tree, self._sessions, self._secrets, self._publish)
        self.notes = SessionNotes(given.kv, self.access)
        profile, chosen = str(given.flags.get("profile") or ""), bool(given.flags.get("model"))
        self._start = ProfileStart(profile, self.access, self._is_child, chosen)
        self._tools = {"self": self_tool(self.access, list(self._tree().top))}

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

    def _tree(self) -> SelfTree:
        return SelfTree(self._input.registry.views.values())

    def _secrets(self) -> list[secret.Secret]:
        return [*self._from_environment, *self._input.children.secrets()]

    async def _publish(self, change: TreeChange) -> None:
        self.notes.record(change)
        await self._input.client.publish(event.make(event.SelfModified(**change._asdict())))

    async def _prompted(self, given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        # The model is chosen before the first step. A profile that cannot be used ends that step, which says why.
        await self._start.begin(given.session_id)

    async def _step(self, given: points.StepInput, output: points.StepOutput) -> None:
        if why := await self._start.begin(given.session_id):
            output.stop = why
            return
        await watch(self.access, given.session_id)
        await self.notes.keep(given.session_id)
        output.without += list(self._sessions[given.session_id].unregistered)

    async def _call(self, given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        await watch(self.access, given.session_id)

    async def _called(self, given: points.ToolAfterInput, output: points.ToolAfterOutput) -> None:
        if given.tool in self._tools:
            self.notes.due(given.session_id)

    async def _is_child(self, session_id: str) -> bool:
        return (await self._input.client.session.get(session_id)).parent_id is not None

    async def _subagent(self, given: points.SubagentStartInput, output: points.SubagentStartOutput) -> None:
        """Give a new sub-agent a copy of what its caller set.

        A sub-agent that is resumed gets only the guards that its caller has tightened since.
        """
        if not given.resumed:
            self._sessions[given.child_id] = self._sessions[given.session_id].inherited()
        tree = self._tree()
        for path in list(self._sessions[given.session_id].changed):
            node = tree.at(path)
            if not isinstance(node, Value) or node.write is None:
                continue
            value = await self.access.raw(path, node.read, given.session_id)
            if given.resumed and not (
                node.guard and is_tighter(node, await self.access.raw(path, node.read, given.child_id), value)
            ):
                continue
            self.access.write(path, node, value, given.child_id)
            self._sessions[given.child_id].changed[path] = value

    async def _end(self, given: points.SessionEndInput, output: points.Empty) -> None:
        if given.reason == "deleted":
            await self.notes.forget(given.session_id)
        else:
            await self.notes.keep(given.session_id, over=True)
        self._sessions.pop(given.session_id, None)
        self._start.started.discard(given.session_id)

    async def _heard(self, happened: event.Event) -> None:
        # A session that was not used in this process gets no session.end.
        if isinstance(happened.properties, event.SessionDeleted):
            await self.notes.forget(happened.properties.info.id)

    def _view(self) -> View:
        told: dict[str, tuple[str, Callable[[SelfSession], Any]]] = {
            "reads": ("How often the session inspected something.", lambda one: one.reads),
            "calls": ("How often it called a method.", lambda one: one.calls),
            "changes": ("The number of changes in it.", lambda one: one.changes),
            "unregistered": ("The tools that it unregistered.", lambda one: list(one.unregistered)),
            "changed": ("The paths that it set.", lambda one: list(one.changed)),
            "snapshots": ("The names of its snapshots.", lambda one: list(one.snapshots)),
        }

        def reader(read: Callable[[SelfSession], Any]) -> Callable[[str], Any]:
            return lambda session_id: read(self._sessions[session_id])

        values = {name: Value(doc=doc, read=reader(read)) for name, (doc, read) in told.items()}
        return View("self", "What was done with this tool in the session.", values)
