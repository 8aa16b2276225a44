"""Prompts and turns on the hook points: SessionStart and End, UserPromptSubmit, Stop, sub-agents, compaction.

What a hook says of a prompt becomes synthetic parts of its message: saved with it, so its bytes stay and a provider's
cache goes on to serve them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from instar.plugin import PluginInput, message, points
from instar.plugins.hooks.calls import Denied, event_of, said
from instar.plugins.hooks.outcome import Decision
from instar.plugins.hooks.record import Record
from instar.plugins.hooks.runner import Runner
from instar.plugins.hooks.sessions import Session, Sessions
from instar.plugins.hooks.transcript import Transcripts

SOURCE: Final = "hooks"
"""What follow-ups of a Stop rule are counted under: the core takes up 8 in a row and says when it takes no more."""

_STARTS: Final = {"new": "startup", "resume": "resume"}
_GOES_ON: Final = "A {event} hook does not let you end here:\n\n{text}"


class Turns:
    """The handlers of prompts, turns and sessions."""

    def __init__(self, given: PluginInput, runner: Runner, sessions: Sessions, record: Record) -> None:
        self._client = given.client
        self._directory = given.directory
        self._runner = runner
        self._sessions = sessions
        self._record = record
        self._transcripts = Transcripts(given.client, given.directory)

    async def started(self, given: points.SessionStartInput, output: points.Empty) -> None:
        """A session is about to be used: what SessionStart says stands in its next prompt; a sub-agent's has none."""
        session = await self._sessions.of(given.session_id)
        if self._runner.armed.starts_programs:
            session.transcript = await self._transcripts.begin(given.session_id)
        if session.agent_id or not self._runner.hears("SessionStart"):
            return
        decision = await self._fire("SessionStart", session, {"source": _STARTS[given.source]})
        session.pending += _contexts("SessionStart", decision)
        if decision.stop:
            session.refused = (
                decision.stop_reason or said(decision) or "A SessionStart hook ended the session."
            )

    async def ended(self, given: points.SessionEndInput, output: points.Empty) -> None:
        """A session is no longer used."""
        session = await self._sessions.of(given.session_id)
        if not session.agent_id and self._runner.hears("SessionEnd"):
            await self._fire("SessionEnd", session, {"reason": given.reason})
        self._sessions.forget(given.session_id)
        if given.reason == "deleted":
            self._record.forget(given.session_id)

    async def prompted(self, given: points.ChatMessageInput, output: points.ChatMessageOutput) -> None:
        """Put a prompt to the rules of UserPromptSubmit; one that is refused is never saved."""
        session = await self._sessions.of(given.session_id)
        session.begin()
        session.agent = output.message.agent
        if session.refused:
            raise Denied(session.refused)
        contexts: list[str] = []
        text = _text(output.parts)
        if not session.is_expected(_texts(output.parts)):
            session.stops = 0
            if self._runner.hears("UserPromptSubmit"):
                decision = await self._fire("UserPromptSubmit", session, {"prompt": text})
                if decision.action in ("deny", "ask"):
                    raise Denied(said(decision) or decision.stop_reason or "A hook refused the prompt.")
                contexts = _contexts("UserPromptSubmit", decision)
        contexts, session.pending = [*session.pending, *contexts], []
        output.parts += [{"type": "text", "text": one, "synthetic": True} for one in contexts]
        self._transcripts.add(session.transcript, output.message, output.parts)

    async def completed(self, given: points.CompletedInput, output: points.Empty) -> None:
        """An answer is whole, with what its calls came to."""
        session = await self._sessions.of(given.session_id)
        self._transcripts.add(session.transcript, given.message, given.parts)

    async def step(self, given: points.StepInput, output: points.StepOutput) -> None:
        """A model call is about to be made: end the turn, if a hook said so."""
        session = await self._sessions.of(given.session_id)
        session.agent = given.agent
        if session.ending:
            output.stop, session.ending = session.ending, ""

    async def stopped(self, given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        """A turn is about to end: a rule of Stop that refuses makes it go on. A sub-agent's end is another event."""
        session = await self._sessions.of(given.session_id)
        session.agent = given.agent
        if session.in_task:
            return
        decision = await self._fire("Stop", session, _end(given.parts, again=session.stops > 0))
        if decision.action in ("deny", "ask") and not decision.stop:
            session.stops += 1
            text = _again("Stop", decision)
            session.expect(text)
            prompt = {"parts": [{"type": "text", "text": text, "synthetic": True}]}
            output.follow_ups.append({"source": SOURCE, "prompt": prompt})

    async def subagent_started(
        self, given: points.SubagentStartInput, output: points.SubagentStartOutput
    ) -> None:
        """A sub-agent is about to work; its task came from a call that was judged, and is no person's prompt."""
        session = await self._sessions.of(given.child_id)
        session.agent, session.agent_id, session.in_task = given.agent, given.child_id, True
        if self._runner.hears("SubagentStart"):
            fields = {"agent_type": given.agent, "prompt": output.prompt, "description": given.description}
            decision = await self._fire("SubagentStart", session, fields)
            output.context += _contexts("SubagentStart", decision)
        session.expect(output.prompt)

    async def subagent_stopped(
        self, given: points.SubagentStopInput, output: points.SubagentStopOutput
    ) -> None:
        """A sub-agent is about to report: a rule of SubagentStop that refuses makes it go on."""
        session = await self._sessions.of(given.child_id)
        decision = Decision()
        if self._runner.hears("SubagentStop"):
            fields = {"agent_type": given.agent, **_end(given.parts, again=given.continued > 0)}
            decision = await self._fire("SubagentStop", session, fields)
        if decision.action in ("deny", "ask") and not decision.stop:
            output.prompt = _again("SubagentStop", decision)
            session.expect(output.prompt)
        else:
            session.in_task = False

    async def compacting(self, given: points.CompactingInput, output: points.CompactingOutput) -> None:
        """A session is about to be summarised: what PreCompact says goes into the summary's prompt."""
        session = await self._sessions.of(given.session_id)
        trigger = "auto" if await self._is_automatic(given.session_id) else "manual"
        decision = await self._fire("PreCompact", session, {"trigger": trigger, "custom_instructions": ""})
        output.context += [*decision.contexts, *(decision.reasons if decision.action == "deny" else ())]

    async def compacted(self, given: points.CompactedInput, output: points.Empty) -> None:
        """A session was summarised."""
        session = await self._sessions.of(given.session_id)
        fields = {"trigger": "auto" if given.auto else "manual", "compact_summary": _text(given.parts)}
        await self._fire("PostCompact", session, fields)

    def close(self) -> None:
        """The instance ends."""
        self._transcripts.close()

    async def _is_automatic(self, session_id: str) -> bool:
        """Whether nobody asked for the summary that is about to be made: the last message says so."""
        messages = await self._client.session.messages(session_id)
        parts = (part for one in reversed(messages) for part in one.parts)
        return next((part.auto for part in parts if isinstance(part, message.CompactionPart)), False)

    async def _fire(self, name: str, session: Session, fields: Mapping[str, Any]) -> Decision:
        return await self._runner.fire(event_of(name, session, self._directory, fields))


def _end(parts: Iterable[Any], *, again: bool) -> dict[str, Any]:
    return {"stop_hook_active": again, "last_assistant_message": _text(parts)}


def _again(name: str, decision: Decision) -> str:
    return _GOES_ON.format(event=name, text="\n".join([*decision.reasons, *decision.contexts]))


def _contexts(name: str, decision: Decision) -> list[str]:
    """What the model is told, and what stands in nobody's way here but was refused all the same."""
    texts = [*(decision.reasons if decision.action in ("deny", "ask") else ()), *decision.contexts]
    return [f'<hook event="{name}">\n{text}\n</hook>' for text in texts]


def _text(parts: Iterable[Any]) -> str:
    """What a person wrote, or the model answered; of a message of synthetic texts alone, these."""
    texts = [part for part in parts if isinstance(part, message.TextPart)]
    own = [part for part in texts if not part.synthetic]
    return "\n".join(_texts(own or texts))


def _texts(parts: Iterable[Any]) -> list[str]:
    return [part.text for part in parts if isinstance(part, message.TextPart)]
