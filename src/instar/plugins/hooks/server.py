"""The plugin function and its callbacks: the active rules on the hook points, and only on those that they need.

PreToolUse is a gate. What it allows or asks about is remembered by the call's id and said when permission is asked: an
allow answers a question and never takes a deny of the rules away. What a hook says of a prompt becomes synthetic parts
of its message: saved with it, so its bytes stay and a provider's cache goes on to serve them.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from instar.plugin import Hooks, NotFound, PluginInput, Value, View, event, message, points, wire
from instar.plugins.hooks.outcome import HookDecision
from instar.plugins.hooks.routes import HooksRoutes
from instar.plugins.hooks.rule import ToolUse
from instar.plugins.hooks.runner import Denied, Runner
from instar.plugins.hooks.session import AllowedCall, HookSession, Transcripts
from instar.plugins.hooks.sources import ActiveRules, arm

log = logging.getLogger("instar.hooks")

id = "hooks"  # noqa: A001 - the name that a V1 plugin module must export

SOURCE: Final = "hooks"
"""The source of a Stop rule's follow-ups. The core accepts 8 in a row, and reports when it accepts no more."""

_TEXTS: Final[wire.Plain] = {"type": "array", "items": {"type": "string"}}
_NOTICED: Final = {"permission.asked": "permission_prompt", "session.idle": "idle_prompt"}
_STARTS: Final = {"new": "startup", "resume": "resume"}
_SHELLS: Final = ("bash", "background")
_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")
"""Characters of a server's name that are replaced in the names of its tools."""
_LOOPS: Final = "doom_loop"
"""The permission that is asked when a model repeats a call. A rule's allow does not answer it."""


async def server(input: PluginInput, options: wire.Plain | None = None) -> Hooks:  # noqa: A002 - opencode's name
    """Read the rules and return their callbacks; without rules at most the one that says what is not armed.

    Should that fail, everything is refused that a rule might have refused: a plugin that is skipped guards nothing.
    """
    try:
        armed = arm(input)
        input.registry.add_view(_view(armed))
        input.registry.add_routes(HooksRoutes(armed, input.data, input.client))
        found = HooksPlugin(input, armed).hooks()
        # Also without a rule sessions say what is not armed.
        return found if armed.rules else {"session.start": found["session.start"]} if armed.problems else {}
    except Exception as error:
        log.error("the rules of hooks cannot be armed", exc_info=error)
        return _closed(f"{type(error).__name__}: {error}")


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
        self._client = given.client
        self._runner = Runner(given, armed)
        self._transcripts = Transcripts(given.client, given.directory)
        self._sessions: dict[str, HookSession] = {}
        servers = given.config.get("mcp")
        named = {_ODD.sub("_", str(name)) for name in servers} if isinstance(servers, Mapping) else set()
        self._servers = sorted(named, key=len, reverse=True)

    def hooks(self) -> Hooks:
        """Return the callbacks that the rules need, and those that keep the state."""
        of_events: dict[str, tuple[str, Any]] = {
            "Stop": ("turn.end", self._stopped),
            "PreCompact": ("experimental.session.compacting", self._compacting),
            "PostCompact": ("compaction.after", self._compacted),
            "Notification": ("event", self._noticed),
            "Evolve": ("evolve.candidate", self._candidate),
            "Heartbeat": ("evolve.heartbeat", self._beat),
        }
        return {
            "session.start": self._started,
            "session.end": self._ended,
            "chat.message": self._prompted,
            "message.completed": self._completed,
            "step.before": self._step,
            "subagent.start": self._subagent_started,
            "subagent.stop": self._subagent_stopped,
            "tool.execute.before": self._before,
            "permission.ask": self._ask,
            "tool.execute.after": self._after,
            "tool.execute.failure": self._failed,
            **{point: one for name, (point, one) in of_events.items() if self._runner.hears(name)},
            # Each rule has its own timeout.
            "timeout": None,
            "dispose": self._dispose,
        }

    async def _session(self, session_id: str) -> HookSession:
        """Return a session, also one that is no longer stored."""
        found = self._sessions.get(session_id)
        if found is None:
            try:
                row = await self._client.session.get(session_id)
                agent_id = session_id if row.parent_id else ""
            except NotFound:
                agent_id = ""
            found = self._sessions.setdefault(session_id, HookSession(session_id, agent_id))
        return found

    async def _started(self, given: points.SessionStartInput, output: points.Empty) -> None:
        """Record the active rules of a session, and run the SessionStart rules; the next prompt gets their context."""
        if changed := self._armed.changed():
            self._armed.problems.append(changed)
            log.warning("hooks=problem %s", changed)
        armed = event.HooksArmed(
            session_id=given.session_id, rules=self._armed.labels, problems=list(self._armed.problems)
        )
        await self._runner.record(armed)
        session = await self._session(given.session_id)
        if self._armed.starts_programs:
            session.transcript = await self._transcripts.begin(given.session_id)
        if session.agent_id:
            return
        decision = await self._runner.fire("SessionStart", session, {"source": _STARTS[given.source]})
        session.pending += decision.blocks("SessionStart")
        if decision.stop:
            session.refused = (
                decision.stop_reason or decision.text or "A SessionStart hook ended the session."
            )

    async def _ended(self, given: points.SessionEndInput, output: points.Empty) -> None:
        """Run the SessionEnd rules, and forget the session."""
        session = await self._session(given.session_id)
        if not session.agent_id:
            await self._runner.fire("SessionEnd", session, {"reason": given.reason})
        self._sessions.pop(given.session_id, None)
        if given.reason == "deleted":
            self._runner.records.forget(given.session_id)

    async def _prompted(self, given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        """Run the UserPromptSubmit rules. A refused prompt is not saved."""
        session = await self._session(given.session_id)
        session.begin()
        session.agent = output.message.agent
        if session.refused:
            raise Denied(session.refused)
        contexts: list[str] = []
        if not session.is_expected(_texts(output.parts)):
            session.stops = 0
            fields = {"prompt": _text(output.parts)}
            decision = await self._runner.gate(
                "UserPromptSubmit", session, fields, "A hook refused the prompt."
            )
            contexts = decision.blocks("UserPromptSubmit")
        contexts, session.pending = [*session.pending, *contexts], []
        output.parts += [{"type": "text", "text": one, "synthetic": True} for one in contexts]
        self._transcripts.add(session.transcript, output.message, output.parts)

    async def _completed(self, given: points.CompletedInput, output: points.Empty) -> None:
        """Append a complete answer to the transcript."""
        session = await self._session(given.session_id)
        self._transcripts.add(session.transcript, given.message, given.parts)

    async def _step(self, given: points.StepInput, output: points.StepOutput) -> None:
        """End the turn before the next model call, if a rule said so."""
        session = await self._session(given.session_id)
        session.agent = given.agent
        if session.ending:
            output.stop, session.ending = session.ending, ""

    async def _stopped(self, given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        """Run the Stop rules, except in a sub-agent's task. A refusal continues the turn."""
        session = await self._session(given.session_id)
        session.agent = given.agent
        if session.in_task:
            return
        decision = await self._runner.fire("Stop", session, _end(given.parts, again=session.stops > 0))
        if decision.refuses and not decision.stop:
            session.stops += 1
            text = _again("Stop", decision)
            session.expected.append(text)
            prompt = {"parts": [{"type": "text", "text": text, "synthetic": True}]}
            output.follow_ups.append({"source": SOURCE, "prompt": prompt})

    async def _subagent_started(
        self, given: points.SubagentStartInput, output: points.SubagentStartOutput
    ) -> None:
        """Run the SubagentStart rules. The sub-agent's task is expected: it is not a person's prompt."""
        session = await self._session(given.child_id)
        session.agent, session.agent_id, session.in_task = given.agent, given.child_id, True
        fields = {"agent_type": given.agent, "prompt": output.prompt, "description": given.description}
        decision = await self._runner.fire("SubagentStart", session, fields)
        output.context += decision.blocks("SubagentStart")
        session.expected.append(output.prompt)

    async def _subagent_stopped(
        self, given: points.SubagentStopInput, output: points.SubagentStopOutput
    ) -> None:
        """Run the SubagentStop rules. A refusal lets the sub-agent continue."""
        session = await self._session(given.child_id)
        fields = {"agent_type": given.agent, **_end(given.parts, again=given.continued > 0)}
        decision = await self._runner.fire("SubagentStop", session, fields)
        if decision.refuses and not decision.stop:
            output.prompt = _again("SubagentStop", decision)
            session.expected.append(output.prompt)
        else:
            session.in_task = False

    async def _compacting(self, given: points.CompactingInput, output: points.CompactingOutput) -> None:
        """Run the PreCompact rules. The summary's prompt gets their texts."""
        session = await self._session(given.session_id)
        trigger = "auto" if await self._is_automatic(given.session_id) else "manual"
        decision = await self._runner.fire(
            "PreCompact", session, {"trigger": trigger, "custom_instructions": ""}
        )
        output.context += [*decision.contexts, *(decision.reasons if decision.action == "deny" else ())]

    async def _compacted(self, given: points.CompactedInput, output: points.Empty) -> None:
        """Run the PostCompact rules."""
        session = await self._session(given.session_id)
        fields = {"trigger": "auto" if given.auto else "manual", "compact_summary": _text(given.parts)}
        await self._runner.fire("PostCompact", session, fields)

    async def _is_automatic(self, session_id: str) -> bool:
        """Return whether the summary is automatic, as the last compaction part says."""
        messages = await self._client.session.messages(session_id)
        parts = (part for one in reversed(messages) for part in one.parts)
        return next((part.auto for part in parts if isinstance(part, message.CompactionPart)), False)

    async def _before(self, given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        """Run the PreToolUse rules for a call, before its permission is asked."""
        session = await self._session(given.session_id)
        use = self._use(given.tool, output.args, given.call_id)

        async def decide(ahead: asyncio.Task[HookDecision] | None) -> HookDecision:
            found = (
                HookDecision() if session.ending else await self._runner.fire("PreToolUse", session, tool=use)
            )
            if ahead is not None:
                await asyncio.wait([ahead])
            if session.ending:
                raise Denied(session.ending)
            session.end_by(found)
            return found

        # The rules of calls side by side run at once; what they decide counts in the order of the calls.
        session.deciding = asyncio.create_task(decide(session.deciding))
        decision = await session.deciding
        if decision.action == "deny":
            raise Denied(decision.text or session.ending)
        if decision.updated_input is not None:
            output.args = dict(decision.updated_input)
        if decision.action == "ask":
            output.ask = decision.text or "A hook asks for a person's permission."
        session.call(given.call_id, given.tool, output.args, decision)

    async def _ask(self, given: points.PermissionInput, output: points.PermissionOutput) -> None:
        """Apply what PreToolUse decided; if a person is still to be asked, run the PermissionRequest rules."""
        session = await self._session(given.session_id)
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

    async def _after(self, given: points.ToolAfterInput, output: points.ToolAfterOutput) -> None:
        """Run the PostToolUse rules for a call that succeeded, and append their texts to its result."""
        session = await self._session(given.session_id)
        called = session.calls.pop(given.call_id, None)
        response = {"title": output.title, "output": output.output, "metadata": output.metadata}
        use = self._use(
            given.tool, given.args, given.call_id, response=response, duration=called and called.duration
        )
        decision = await self._runner.fire("PostToolUse", session, tool=use)
        if decision.updated_output is not None:
            output.output = _plain(decision.updated_output)
        output.output += _beside("PostToolUse", session, called, decision)

    async def _failed(self, given: points.ToolAfterInput, output: points.ToolFailureOutput) -> None:
        """Run the PostToolUseFailure rules for a call that failed, unless a rule refused the call."""
        session = await self._session(given.session_id)
        called = session.calls.pop(given.call_id, None)
        if called is None:
            return
        use = self._use(given.tool, given.args, given.call_id, error=output.error, duration=called.duration)
        decision = await self._runner.fire("PostToolUseFailure", session, tool=use)
        output.error += _beside("PostToolUseFailure", session, called, decision)

    def _use(self, tool: str, args: Mapping[str, Any], call_id: str, **more: Any) -> ToolUse:
        """Return the call for rules, with `more` fields of it."""
        server = next((name for name in self._servers if tool.startswith(f"{name}_")), "")
        return ToolUse(name=tool, input=args, call_id=call_id, server=server, **more)

    async def _noticed(self, happened: event.Event) -> None:
        """Run the Notification rules when instar waits for a person."""
        kind = _NOTICED.get(happened.type)
        if kind is None or happened.session_id is None:
            return
        session = await self._session(happened.session_id)
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
        session = await self._session(given.session_id)
        fields = {
            "files": [given.path],
            **{name: getattr(given, name) for name in ("path", "before", "after", "diff", "raised")},
            "tool": given.tool,
        }
        await self._runner.gate("Evolve", session, fields, "A hook refused the candidate.")

    async def _beat(self, given: Any, output: Any) -> None:
        """Run the Heartbeat rules, before the beat prompts."""
        session = await self._session(given.session_id)
        fields = {"title": f"heartbeat {given.number}", "number": given.number, "prompt": given.user}
        await self._runner.gate("Heartbeat", session, fields, "A hook refused the heartbeat.")

    async def _dispose(self) -> None:
        await self._runner.close()
        self._transcripts.close()


def _end(parts: Iterable[Any], *, again: bool) -> dict[str, Any]:
    return {"stop_hook_active": again, "last_assistant_message": _text(parts)}


def _again(name: str, decision: HookDecision) -> str:
    text = "\n".join([*decision.reasons, *decision.contexts])
    return f"A {name} hook does not let you end here:\n\n{text}"


def _text(parts: Iterable[Any]) -> str:
    """Return the texts that are not synthetic; if all are, the synthetic ones."""
    texts = [part for part in parts if isinstance(part, message.TextPart)]
    own = [part for part in texts if not part.synthetic]
    return "\n".join(_texts(own or texts))


def _texts(parts: Iterable[Any]) -> list[str]:
    return [part.text for part in parts if isinstance(part, message.TextPart)]


def _beside(event: str, session: HookSession, called: AllowedCall | None, decision: HookDecision) -> str:
    """Return what the rules before and after a call add to its result."""
    session.end_by(decision)
    contexts = called.decision.contexts if called else ()
    return "".join(f"\n\n{text}" for text in decision.blocks(event, contexts))


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _view(armed: ActiveRules) -> View:
    def texts(doc: str, read: Callable[[], list[str]]) -> Value:
        return Value(doc=doc, read=lambda session_id: read(), kind=_TEXTS, scope="instance")

    doc = "The rules of hooks that are in force, and what is wrong with their files."
    rules = texts("The rules in force, each with the event that it is for.", lambda: armed.labels)
    problems = texts("One sentence for each problem in files of rules.", lambda: list(armed.problems))
    return View("hooks", doc, {"rules": rules, "problems": problems})
