"""Tool calls on the hook points: PreToolUse, PermissionRequest, PostToolUse and PostToolUseFailure.

PreToolUse is a gate. What it allows or asks about is remembered by the call's id and said when permission is asked:
an allow answers a question and never takes a deny of the rules away.
"""

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from instar.plugin import PluginInput, points
from instar.plugins.hooks.event import Event, ToolUse
from instar.plugins.hooks.outcome import Decision
from instar.plugins.hooks.runner import Runner
from instar.plugins.hooks.sessions import Session, Sessions

_SHELLS: Final = ("bash", "background")
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
"""What a server's name may have in the settings and not in the names of its tools."""
_LOOPS: Final = "doom_loop"
"""The permission that is asked for when a model turns in a circle: it is not about what a rule has judged."""


class Denied(Exception):
    """A rule refused; the text is what the model or the person reads."""


class Calls:
    """The handlers of tool calls."""

    def __init__(self, given: PluginInput, runner: Runner, sessions: Sessions) -> None:
        self._directory: Path = given.directory
        self._runner = runner
        self._sessions = sessions
        servers = given.config.get("mcp")
        named = {_ODD.sub("_", str(name)) for name in servers} if isinstance(servers, Mapping) else set()
        self._servers = sorted(named, key=len, reverse=True)

    async def before(self, given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        """Put a call to the rules of PreToolUse, before its permission is asked."""
        session = await self._sessions.of(given.session_id)
        if session.ending:
            raise Denied(session.ending)
        decision = Decision()
        if self._runner.hears("PreToolUse"):
            use = self._use(given.tool, output.args, given.call_id)
            decision = await self._runner.fire(self._event("PreToolUse", session, use))
        if decision.stop:
            session.end(decision.stop_reason or said(decision))
        if decision.action == "deny":
            raise Denied(said(decision) or session.ending)
        if decision.updated_input is not None:
            output.args = dict(decision.updated_input)
        if decision.action == "ask":
            output.ask = said(decision) or "A hook asks for a person's permission."
        session.call(given.call_id, given.tool, output.args, decision)

    async def ask(self, given: points.PermissionInput, output: points.PermissionOutput) -> None:
        """Say what PreToolUse decided, and put a question that is left to the rules of PermissionRequest."""
        session = await self._sessions.of(given.session_id)
        called = session.called(given.call_id, given.tool)
        action = called.decision.action if called else "none"
        if action == "ask" and output.status == "allow":
            output.status = "ask"
        elif action == "allow" and output.status == "ask" and given.permission != _LOOPS:
            output.status = "allow"
        if output.status != "ask" or not self._runner.hears("PermissionRequest"):
            return
        use = self._use(given.tool, called.args if called else given.metadata, given.call_id, given)
        fields = {"permission": given.permission, "patterns": given.patterns}
        decision = await self._runner.fire(self._event("PermissionRequest", session, use, fields))
        if decision.stop:
            session.end(decision.stop_reason or said(decision))
        if decision.action == "deny":
            raise Denied(said(decision))
        if decision.updated_input is not None:
            raise Denied("A PermissionRequest hook wrote another input; only a PreToolUse hook can do that.")
        # What another rule asks about stays asked.
        if decision.action == "allow" and action != "ask":
            output.status = "allow"

    async def after(self, given: points.ToolAfterInput, output: points.ToolAfterOutput) -> None:
        """Put a call that succeeded to the rules of PostToolUse; what they say stands beside its result."""
        session = await self._sessions.of(given.session_id)
        called = session.ended(given.call_id)
        decision = Decision()
        if self._runner.hears("PostToolUse"):
            response = {"title": output.title, "output": output.output, "metadata": output.metadata}
            use = self._use(
                given.tool,
                given.args,
                given.call_id,
                response=response,
                since=called.since if called else None,
            )
            decision = await self._runner.fire(self._event("PostToolUse", session, use))
        if decision.updated_output is not None:
            output.output = _text(decision.updated_output)
        output.output += _beside("PostToolUse", session, called.decision if called else None, decision)

    async def failed(self, given: points.ToolAfterInput, output: points.ToolFailureOutput) -> None:
        """Put a call that failed to the rules of PostToolUseFailure; one that a hook refused has been judged."""
        session = await self._sessions.of(given.session_id)
        called = session.ended(given.call_id)
        if called is None:
            return
        decision = Decision()
        if self._runner.hears("PostToolUseFailure"):
            use = self._use(given.tool, given.args, given.call_id, error=output.error, since=called.since)
            decision = await self._runner.fire(self._event("PostToolUseFailure", session, use))
        output.error += _beside("PostToolUseFailure", session, called.decision, decision)

    def _use(
        self,
        tool: str,
        args: Mapping[str, Any],
        call_id: str,
        asking: points.PermissionInput | None = None,
        *,
        response: Mapping[str, Any] | None = None,
        error: str | None = None,
        since: float | None = None,
    ) -> ToolUse:
        """The call as rules are told of it; `asking` names the simple commands of a shell's."""
        commands = None
        if asking is not None and tool in _SHELLS and asking.permission == "bash":
            commands = tuple(asking.patterns)
        return ToolUse(
            name=tool,
            input=args,
            call_id=call_id,
            server=next((name for name in self._servers if tool.startswith(f"{name}_")), ""),
            commands=commands,
            response=response,
            error=error,
            duration=None if since is None else round((time.monotonic() - since) * 1000),
        )

    def _event(
        self, name: str, session: Session, use: ToolUse, fields: Mapping[str, Any] | None = None
    ) -> Event:
        return event_of(name, session, self._directory, fields or {}, use)


def event_of(
    name: str, session: Session, directory: Path, fields: Mapping[str, Any], tool: ToolUse | None = None
) -> Event:
    """Return an event of a session, with who speaks in it."""
    return Event(
        name=name,
        session_id=session.id,
        directory=directory,
        tool=tool,
        agent=session.agent,
        agent_id=session.agent_id,
        permission_mode="plan" if session.agent == "plan" else "default",
        transcript_path=session.transcript,
        fields=fields,
    )


def said(decision: Decision) -> str:
    """Return the reasons of a decision, a line each."""
    return "\n".join(decision.reasons)


def _beside(event: str, session: Session, before: Decision | None, decision: Decision) -> str:
    """What the model reads after a call's result: what both events' rules want it to know."""
    if decision.stop:
        session.end(decision.stop_reason or said(decision))
    texts = [*(before.contexts if before else ()), *decision.contexts]
    if decision.action in ("deny", "ask"):
        texts = [*decision.reasons, *texts]
    return "".join(f"\n\n<hook event={json.dumps(event)}>\n{text}\n</hook>" for text in texts)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
