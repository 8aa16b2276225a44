"""Prompts and turns on the hook points: SessionStart and End, UserPromptSubmit, Stop, sub-agents, compaction.

What a hook says of a prompt becomes synthetic parts of its message: saved with it, so its bytes stay and a provider's
cache goes on to serve them.
"""

from collections.abc import Iterable
from typing import Any, Final

from instar.plugin import PluginInput, message, points
from instar.plugins.hooks.calls import Denied
from instar.plugins.hooks.outcome import HookDecision
from instar.plugins.hooks.record import RunRecords
from instar.plugins.hooks.runner import Runner
from instar.plugins.hooks.sessions import HookSessions
from instar.plugins.hooks.transcript import Transcripts

SOURCE: Final = "hooks"
"""The source of a Stop rule's follow-ups. The core accepts 8 in a row, and reports when it accepts no more."""

_STARTS: Final = {"new": "startup", "resume": "resume"}
_GOES_ON: Final = "A {event} hook does not let you end here:\n\n{text}"


class TurnHooks:
    """The callbacks for prompts, turns and sessions."""

    def __init__(
        self, given: PluginInput, runner: Runner, sessions: HookSessions, record: RunRecords
    ) -> None:
        self._client = given.client
        self._runner = runner
        self._sessions = sessions
        self._record = record
        self._transcripts = Transcripts(given.client, given.directory)

    async def started(self, given: points.SessionStartInput, output: points.Empty) -> None:
        """Run the SessionStart rules, except for sub-agents; the next prompt gets their context."""
        session = await self._sessions.of(given.session_id)
        if self._runner.armed.starts_programs:
            session.transcript = await self._transcripts.begin(given.session_id)
        if session.agent_id:
            return
        decision = await self._runner.fire("SessionStart", session, {"source": _STARTS[given.source]})
        session.pending += _contexts("SessionStart", decision)
        if decision.stop:
            session.refused = (
                decision.stop_reason or decision.text or "A SessionStart hook ended the session."
            )

    async def ended(self, given: points.SessionEndInput, output: points.Empty) -> None:
        """Run the SessionEnd rules, and forget the session."""
        session = await self._sessions.of(given.session_id)
        if not session.agent_id:
            await self._runner.fire("SessionEnd", session, {"reason": given.reason})
        self._sessions.forget(given.session_id)
        if given.reason == "deleted":
            self._record.forget(given.session_id)

    async def prompted(self, given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        """Run the UserPromptSubmit rules. A refused prompt is not saved."""
        session = await self._sessions.of(given.session_id)
        session.begin()
        session.agent = output.message.agent
        if session.refused:
            raise Denied(session.refused)
        contexts: list[str] = []
        if not session.is_expected(_texts(output.parts)):
            session.stops = 0
            decision = await self._runner.fire("UserPromptSubmit", session, {"prompt": _text(output.parts)})
            if decision.refuses:
                raise Denied(decision.text or "A hook refused the prompt.")
            contexts = _contexts("UserPromptSubmit", decision)
        contexts, session.pending = [*session.pending, *contexts], []
        output.parts += [{"type": "text", "text": one, "synthetic": True} for one in contexts]
        self._transcripts.add(session.transcript, output.message, output.parts)

    async def completed(self, given: points.CompletedInput, output: points.Empty) -> None:
        """Append a complete answer to the transcript."""
        session = await self._sessions.of(given.session_id)
        self._transcripts.add(session.transcript, given.message, given.parts)

    async def step(self, given: points.StepInput, output: points.StepOutput) -> None:
        """End the turn before the next model call, if a rule said so."""
        session = await self._sessions.of(given.session_id)
        session.agent = given.agent
        if session.ending:
            output.stop, session.ending = session.ending, ""

    async def stopped(self, given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        """Run the Stop rules, except in a sub-agent's task. A refusal continues the turn."""
        session = await self._sessions.of(given.session_id)
        session.agent = given.agent
        if session.in_task:
            return
        decision = await self._runner.fire("Stop", session, _end(given.parts, again=session.stops > 0))
        if decision.refuses and not decision.stop:
            session.stops += 1
            text = _again("Stop", decision)
            session.expect(text)
            prompt = {"parts": [{"type": "text", "text": text, "synthetic": True}]}
            output.follow_ups.append({"source": SOURCE, "prompt": prompt})

    async def subagent_started(
        self, given: points.SubagentStartInput, output: points.SubagentStartOutput
    ) -> None:
        """Run the SubagentStart rules. The sub-agent's task is expected: it is no person's prompt."""
        session = await self._sessions.of(given.child_id)
        session.agent, session.agent_id, session.in_task = given.agent, given.child_id, True
        fields = {"agent_type": given.agent, "prompt": output.prompt, "description": given.description}
        decision = await self._runner.fire("SubagentStart", session, fields)
        output.context += _contexts("SubagentStart", decision)
        session.expect(output.prompt)

    async def subagent_stopped(
        self, given: points.SubagentStopInput, output: points.SubagentStopOutput
    ) -> None:
        """Run the SubagentStop rules. A refusal lets the sub-agent continue."""
        session = await self._sessions.of(given.child_id)
        fields = {"agent_type": given.agent, **_end(given.parts, again=given.continued > 0)}
        decision = await self._runner.fire("SubagentStop", session, fields)
        if decision.refuses and not decision.stop:
            output.prompt = _again("SubagentStop", decision)
            session.expect(output.prompt)
        else:
            session.in_task = False

    async def compacting(self, given: points.CompactingInput, output: points.CompactingOutput) -> None:
        """Run the PreCompact rules. The summary's prompt gets their texts."""
        session = await self._sessions.of(given.session_id)
        trigger = "auto" if await self._is_automatic(given.session_id) else "manual"
        decision = await self._runner.fire(
            "PreCompact", session, {"trigger": trigger, "custom_instructions": ""}
        )
        output.context += [*decision.contexts, *(decision.reasons if decision.action == "deny" else ())]

    async def compacted(self, given: points.CompactedInput, output: points.Empty) -> None:
        """Run the PostCompact rules."""
        session = await self._sessions.of(given.session_id)
        fields = {"trigger": "auto" if given.auto else "manual", "compact_summary": _text(given.parts)}
        await self._runner.fire("PostCompact", session, fields)

    def close(self) -> None:
        """Remove the transcripts."""
        self._transcripts.close()

    async def _is_automatic(self, session_id: str) -> bool:
        """Return whether the summary is automatic, as the last compaction part says."""
        messages = await self._client.session.messages(session_id)
        parts = (part for one in reversed(messages) for part in one.parts)
        return next((part.auto for part in parts if isinstance(part, message.CompactionPart)), False)


def _end(parts: Iterable[Any], *, again: bool) -> dict[str, Any]:
    return {"stop_hook_active": again, "last_assistant_message": _text(parts)}


def _again(name: str, decision: HookDecision) -> str:
    return _GOES_ON.format(event=name, text="\n".join([*decision.reasons, *decision.contexts]))


def _contexts(name: str, decision: HookDecision) -> list[str]:
    """Return the texts for the model: contexts, and the reasons of a refusal that this event ignores."""
    texts = [*(decision.reasons if decision.refuses else ()), *decision.contexts]
    return [f'<hook event="{name}">\n{text}\n</hook>' for text in texts]


def _text(parts: Iterable[Any]) -> str:
    """Return the texts that are not synthetic; if all are, the synthetic ones."""
    texts = [part for part in parts if isinstance(part, message.TextPart)]
    own = [part for part in texts if not part.synthetic]
    return "\n".join(_texts(own or texts))


def _texts(parts: Iterable[Any]) -> list[str]:
    return [part.text for part in parts if isinstance(part, message.TextPart)]
