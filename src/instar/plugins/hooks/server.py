"""The plugin function: subscribes the active rules to hook points, and only to those that they need."""

import logging
from collections.abc import Callable
from typing import Any, Final

from instar.plugin import Hooks, PluginInput, Value, View, event, points, wire
from instar.plugins.hooks.calls import CallHooks
from instar.plugins.hooks.routes import HooksRoutes
from instar.plugins.hooks.runner import Denied, Runner
from instar.plugins.hooks.sessions import HookSessions
from instar.plugins.hooks.sources import ActiveRules, arm
from instar.plugins.hooks.turns import TurnHooks

log = logging.getLogger("instar.hooks")

id = "hooks"  # noqa: A001 - the name that a V1 plugin module must export

_TEXTS: Final[wire.Plain] = {"type": "array", "items": {"type": "string"}}
_NOTICED: Final = {"permission.asked": "permission_prompt", "session.idle": "idle_prompt"}


async def server(input: PluginInput, options: wire.Plain | None = None) -> Hooks:  # noqa: A002 - opencode's name
    """Read the rules and return their callbacks; none without rules.

    Should that fail, everything is refused that a rule might have refused: a plugin that is skipped guards nothing.
    """
    try:
        armed = arm(input)
        hooks = HooksPlugin(input, armed).hooks() if armed.rules else {}
    except Exception as error:
        log.error("the rules of hooks cannot be armed", exc_info=error)
        return _closed(f"{type(error).__name__}: {error}")
    try:
        input.registry.add_view(_view(armed))
        input.registry.add_routes(HooksRoutes(armed, input.data, input.client))
    except Exception as error:
        # The rules must hold even if they cannot be shown.
        log.error("the rules of hooks cannot be shown", exc_info=error)
    return hooks


def _closed(reason: str) -> Hooks:
    async def refuse(given: Any, output: Any) -> None:
        raise Denied(
            f"the rules of hooks cannot be armed ({reason}), so nothing is let through; mend them, or switch them off:"
            " hook_settings.enabled: false"
        )

    return {"chat.message": refuse, "tool.execute.before": refuse}


class HooksPlugin:
    """The plugin on one instance."""

    def __init__(self, given: PluginInput, armed: ActiveRules) -> None:
        self._armed = armed
        self._runner = Runner(given, armed)
        self._sessions = HookSessions(given.client)
        self._calls = CallHooks(given, self._runner, self._sessions)
        self._turns = TurnHooks(given, self._runner, self._sessions)

    def hooks(self) -> Hooks:
        """Return the callbacks that the rules need, and those that keep the state."""
        of_events: dict[str, tuple[str, Any]] = {
            "Stop": ("turn.end", self._turns.stopped),
            "PreCompact": ("experimental.session.compacting", self._turns.compacting),
            "PostCompact": ("compaction.after", self._turns.compacted),
            "Notification": ("event", self._noticed),
            "Evolve": ("evolve.candidate", self._candidate),
            "Heartbeat": ("evolve.heartbeat", self._beat),
        }
        return {
            "session.start": self._started,
            "session.end": self._turns.ended,
            "chat.message": self._turns.prompted,
            "message.completed": self._turns.completed,
            "step.before": self._turns.step,
            "subagent.start": self._turns.subagent_started,
            "subagent.stop": self._turns.subagent_stopped,
            "tool.execute.before": self._calls.before,
            "permission.ask": self._calls.ask,
            "tool.execute.after": self._calls.after,
            "tool.execute.failure": self._calls.failed,
            **{point: one for name, (point, one) in of_events.items() if self._runner.hears(name)},
            # Each rule has its own timeout.
            "timeout": None,
            "dispose": self._dispose,
        }

    async def _started(self, given: points.SessionStartInput, output: points.Empty) -> None:
        """Record the active rules of a session, before any of them runs."""
        if (changed := self._armed.changed()) is not None:
            self._armed.problems.append(changed)
            log.warning("hooks=problem %s", changed)
        armed = event.HooksArmed(
            session_id=given.session_id, rules=self._armed.labels, problems=list(self._armed.problems)
        )
        await self._runner.record(armed)
        await self._turns.started(given, output)

    async def _noticed(self, happened: event.Event) -> None:
        """Run the Notification rules when instar waits for a person."""
        kind = _NOTICED.get(happened.type)
        if kind is None or happened.session_id is None:
            return
        session = await self._sessions.of(happened.session_id)
        if isinstance(happened.properties, event.PermissionAsked):
            asked = happened.properties
            text = f"instar needs your permission: {asked.permission} on {', '.join(asked.patterns)}"
        elif session.agent_id:
            return  # a sub-agent that is done waits for nobody
        else:
            text = "instar waits for you"
        fields = {"notification_type": kind, "message": text}
        await self._runner.fire("Notification", session, fields)

    async def _candidate(self, given: Any, output: points.Empty) -> None:
        """Run the Evolve rules for a candidate, before it is installed."""
        session = await self._sessions.of(given.session_id)
        fields = {
            "files": [given.path],
            **{name: getattr(given, name) for name in ("path", "before", "after", "diff", "raised")},
            "tool": given.tool,
        }
        await self._runner.gate("Evolve", session, fields, "A hook refused the candidate.")

    async def _beat(self, given: Any, output: Any) -> None:
        """Run the Heartbeat rules, before the beat prompts."""
        session = await self._sessions.of(given.session_id)
        fields = {"title": f"heartbeat {given.number}", "number": given.number, "prompt": given.user}
        await self._runner.gate("Heartbeat", session, fields, "A hook refused the heartbeat.")

    async def _dispose(self) -> None:
        await self._runner.close()
        self._turns.transcripts.close()


def _view(armed: ActiveRules) -> View:
    def texts(doc: str, read: Callable[[], list[str]]) -> Value:
        return Value(doc=doc, read=lambda session_id: read(), kind=_TEXTS, scope="instance")

    doc = "The rules of hooks that are in force, and what is wrong with their files."
    rules = texts("The rules in force, each with the event that it is for.", lambda: armed.labels)
    problems = texts("What is wrong with files of rules, a sentence each.", lambda: list(armed.problems))
    return View("hooks", doc, {"rules": rules, "problems": problems})
