"""Tool calls on the hook points: PreToolUse, PermissionRequest, PostToolUse and PostToolUseFailure.

PreToolUse is a gate. What it allows or asks about is remembered by the call's id and said when permission is asked:
an allow answers a question and never takes a deny of the rules away.
"""

import json
import re
import time
from collections.abc import Mapping
from typing import Any, Final

from instar.plugin import PluginInput, points
from instar.plugins.hooks.outcome import HookDecision
from instar.plugins.hooks.rule import ToolUse
from instar.plugins.hooks.runner import Denied, Runner
from instar.plugins.hooks.sessions import AllowedCall, HookSession, HookSessions

_SHELLS: Final = ("bash", "background")
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
"""Characters of a server's name that are replaced in the names of its tools."""
_LOOPS: Final = "doom_loop"
"""The permission that is asked when a model repeats a call. A rule's allow does not answer it."""


class CallHooks:
    """The callbacks for tool calls."""

    def __init__(self, given: PluginInput, runner: Runner, sessions: HookSessions) -> None:
        self._runner = runner
        self._sessions = sessions
        servers = given.config.get("mcp")
        named = {_ODD.sub("_", str(name)) for name in servers} if isinstance(servers, Mapping) else set()
        self._servers = sorted(named, key=len, reverse=True)

    async def before(self, given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        """Run the PreToolUse rules for a call, before its permission is asked."""
        session = await self._sessions.of(given.session_id)
        if session.ending:
            raise Denied(session.ending)
        use = self._use(given.tool, output.args, given.call_id)
        decision = await self._runner.fire("PreToolUse", session, tool=use)
        session.end_by(decision)
        if decision.action == "deny":
            raise Denied(decision.text or session.ending)
        if decision.updated_input is not None:
            output.args = dict(decision.updated_input)
        if decision.action == "ask":
            output.ask = decision.text or "A hook asks for a person's permission."
        session.call(given.call_id, given.tool, output.args, decision)

    async def ask(self, given: points.PermissionInput, output: points.PermissionOutput) -> None:
        """Apply what PreToolUse decided; if a person is still to be asked, run the PermissionRequest rules."""
        session = await self._sessions.of(given.session_id)
        called = session.called(given.call_id, given.tool)
        action = called.decision.action if called else "none"
        if action == "ask" and output.status == "allow":
            output.status = "ask"
        elif action == "allow" and output.status == "ask" and given.permission != _LOOPS:
            output.status = "allow"
        if output.status != "ask":
            return
        # The permission of a shell command has its simple commands.
        is_shell = given.tool in _SHELLS and given.permission == "bash"
        commands = tuple(given.patterns) if is_shell else None
        args = called.args if called else given.metadata
        use = self._use(given.tool, args, given.call_id, commands=commands)
        fields = {"permission": given.permission, "patterns": given.patterns}
        decision = await self._runner.fire("PermissionRequest", session, fields, use)
        session.end_by(decision)
        if decision.action == "deny":
            raise Denied(decision.text)
        if decision.updated_input is not None:
            raise Denied("A PermissionRequest hook wrote another input; only a PreToolUse hook can do that.")
        # An allow does not answer what a PreToolUse rule asks.
        if decision.action == "allow" and action != "ask":
            output.status = "allow"

    async def after(self, given: points.ToolAfterInput, output: points.ToolAfterOutput) -> None:
        """Run the PostToolUse rules for a call that succeeded, and append their texts to its result."""
        session = await self._sessions.of(given.session_id)
        called = session.ended(given.call_id)
        response = {"title": output.title, "output": output.output, "metadata": output.metadata}
        use = self._use(given.tool, given.args, given.call_id, response=response, duration=_ms(called))
        decision = await self._runner.fire("PostToolUse", session, tool=use)
        if decision.updated_output is not None:
            output.output = _text(decision.updated_output)
        output.output += _beside("PostToolUse", session, called.decision if called else None, decision)

    async def failed(self, given: points.ToolAfterInput, output: points.ToolFailureOutput) -> None:
        """Run the PostToolUseFailure rules for a call that failed, unless a rule refused the call."""
        session = await self._sessions.of(given.session_id)
        called = session.ended(given.call_id)
        if called is None:
            return
        use = self._use(given.tool, given.args, given.call_id, error=output.error, duration=_ms(called))
        decision = await self._runner.fire("PostToolUseFailure", session, tool=use)
        output.error += _beside("PostToolUseFailure", session, called.decision, decision)

    def _use(self, tool: str, args: Mapping[str, Any], call_id: str, **more: Any) -> ToolUse:
        """Return the call for rules, with `more` fields of it."""
        server = next((name for name in self._servers if tool.startswith(f"{name}_")), "")
        return ToolUse(name=tool, input=args, call_id=call_id, server=server, **more)


def _ms(called: AllowedCall | None) -> int | None:
    return None if called is None else round((time.monotonic() - called.since) * 1000)


def _beside(event: str, session: HookSession, before: HookDecision | None, decision: HookDecision) -> str:
    """Return what the rules before and after a call add to its result."""
    session.end_by(decision)
    contexts = before.contexts if before else ()
    return "".join(f"\n\n{text}" for text in decision.blocks(event, contexts))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
