"""Sessions: what evolve does at the core's hook points while sessions run."""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from instar.plugin import KV, Hooks, PromptBody, ids, message, points, wire
from instar.plugins.evolve import protocol
from instar.plugins.evolve.dispatch import Dispatch, answer_text
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.notifications import Notifications


class ScriptSessions:
    """The hook scripts' part in sessions.

    `kept` holds each session's own system prompt. `ready` says whether the settings could be read, `is_own` whether a
    tool is evolve's or a script's: those commit what they change themselves. `refresh` takes up what changed.
    """

    def __init__(
        self,
        engine: EvolveEngine,
        dispatch: Dispatch,
        notifications: Notifications,
        kept: KV,
        *,
        ready: Callable[[], bool],
        is_own: Callable[[str], bool],
        refresh: Callable[[], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._scripts = engine.scripts
        self._dispatch = dispatch
        self._notifications = notifications
        self._kept = kept
        self._ready = ready
        self._is_own = is_own
        self._refresh = refresh
        self._frozen: dict[str, list[str]] = {}
        self._begun: set[tuple[str, str]] = set()

    def hooks(self) -> Hooks:
        """Return what is done at which hook point."""
        return {
            "step.before": self._step,
            "experimental.chat.system.transform": self._system,
            "message.completed": self._completed,
            "turn.end": self._turn_end,
            "tool.execute.before": self._tool_before,
            "tool.execute.after": self._tool_after,
            "tool.execute.failure": self._tool_failure,
            "experimental.session.compacting": self._compacting,
        }

    def _listens(self, hook: str) -> bool:
        return self._ready() and bool(self._scripts.answers(hook))

    async def _step(self, given: points.StepInput, output: points.StepOutput) -> None:
        await self._refresh()
        if not self._scripts.failing:
            self._dispatch.succeeded(given.session_id, "discover")
        for failure in self._scripts.take_failures():
            async with self._engine.recording.recording("recover", given.session_id, ids.new("evt")):
                await self._dispatch.failed(given.session_id, given.agent, failure)
        if self._engine.safe is None:
            self._engine.storage.uses.request()
        self._engine.observer.flush()
        await self._notifications.settle()

    async def _system(self, given: points.SystemInput, output: points.SystemOutput) -> None:
        session_id = given.session_id
        if not self._ready() or session_id is None or given.purpose != "turn":
            return
        managed = await self._managed(session_id)
        system = self._dispatch.take_system(session_id, managed)
        if system:
            output.system[:] = system

    async def keep_system(self, session_id: str, system: list[str]) -> None:
        """Make these texts the session's own system prompt; the same ones again leave its bytes as they are."""
        if self._frozen.get(session_id) != system:
            kept = {"system": system, "epoch": self._engine.storage.ledger.epoch}
            await self._kept.set(f"system:{session_id}", kept)
            self._frozen[session_id] = system

    async def _managed(self, session_id: str) -> list[str]:
        """The session's own system prompt, asked for once and frozen; empty when no script manages it."""
        if session_id in self._frozen:
            return self._frozen[session_id]
        kept = await self._kept.get(f"system:{session_id}")
        if isinstance(kept, dict):
            return self._frozen.setdefault(session_id, protocol.texts(kept, "system"))
        if not self._scripts.answers("mutate_request"):
            return []
        history = await self._dispatch.history(session_id)
        agent = next((said["agent"] for said in reversed(history) if said["role"] == "user"), None)
        session = {"id": session_id} | ({"agent": agent} if agent else {})
        fields = {"session": session, "history": protocol.once(history)}
        ledger, epoch = self._engine.storage.ledger, -1
        while epoch != ledger.epoch:
            # What was installed while it was asked for counts: no older version's answer is kept for good.
            epoch = ledger.epoch
            key = f"{session_id} {epoch}"
            async with self._engine.recording.recording("mutate_request", session_id, key):
                outcome = await self._dispatch.ask("mutate_request", session_id, agent, fields, key=key)
        system = protocol.texts(outcome.answer, "system")
        if not outcome.failures:
            kept = {"system": system} if system else {}
            await self._kept.set(f"system:{session_id}", {**kept, "epoch": epoch})
            self._frozen[session_id] = system
        return system

    async def _completed(self, given: points.CompletedInput, output: points.Empty) -> None:
        await self._notifications.settle()
        if given.message.finish == "tool-calls":
            await self._notifications.tell(given.session_id)
        if given.message.summary or not self._listens("observe_message"):
            return
        parts = given.parts
        fields = {
            "session": {"id": given.session_id, "agent": given.message.agent},
            "thinking": "\n".join(part.text for part in parts if isinstance(part, message.ReasoningPart)),
            "calls": [message.part_to_plain(part) for part in parts if isinstance(part, message.ToolPart)],
            "answer": answer_text(parts),
        }
        message_id = given.message.id
        async with self._engine.recording.recording("observe_message", given.session_id, message_id):
            await self._dispatch.ask("observe_message", given.session_id, None, fields, key=message_id)

    async def _turn_end(self, given: points.TurnEndInput, output: points.TurnEndOutput) -> None:
        await self._notifications.tell(given.session_id)
        calls = any(isinstance(part, message.ToolPart) for part in given.parts)
        if calls or given.message.error is not None or not self._listens("idle"):
            return
        session = {"id": given.session_id, "agent": given.agent}
        fields = {"session": session, "answer": answer_text(given.parts)}
        message_id = given.message.id
        async with self._engine.recording.recording("idle", given.session_id, message_id):
            outcome = await self._dispatch.ask("idle", given.session_id, given.agent, fields, key=message_id)
        text = protocol.text(outcome.answer, "continue")
        if text:
            prompt = wire.to_plain(PromptBody.text(text, synthetic=True, agent=given.agent))
            output.follow_ups.append({"source": "evolve.idle", "prompt": prompt})

    async def _tool_before(self, given: points.ToolCallInput, output: points.ArgsOutput) -> None:
        if self._ready() and not self._is_own(given.tool):
            args = wire.encode(output.args).decode()
            await self._engine.recording.watch(given.tool, given.session_id, given.call_id, args)
        self._begun.add((given.session_id, given.call_id))
        await self._observe_call("tool_before", given, {"args": output.args})

    async def _tool_after(self, given: points.ToolAfterInput, output: points.ToolAfterOutput) -> None:
        await self._ended(given, {"title": output.title, "output": output.output})

    async def _tool_failure(self, given: points.ToolAfterInput, output: points.ToolFailureOutput) -> None:
        await self._ended(given, {"title": "", "output": output.error})

    async def _ended(self, given: points.ToolAfterInput, said: wire.Plain) -> None:
        # A call that was refused before it began, by the schema of its tool for one, had no `tool_before`.
        if (given.session_id, given.call_id) in self._begun:
            self._begun.remove((given.session_id, given.call_id))
            await self._observe_call("tool_after", given, said)
        await self._engine.recording.watched(given.tool, given.session_id, given.call_id)

    async def _observe_call(
        self, hook: str, given: points.ToolCallInput | points.ToolAfterInput, said: wire.Plain
    ) -> None:
        if not self._listens(hook):
            return
        session = {"id": given.session_id}
        call: wire.Plain = {"session": session, "tool": given.tool, "callID": given.call_id}
        # Any other call is watched as a whole, with what is changed in observing it.
        own = self._is_own(given.tool)
        recording = self._engine.recording.recording(hook, given.session_id, given.call_id)
        async with recording if own else contextlib.nullcontext():
            await self._dispatch.ask(hook, given.session_id, None, call | said, key=given.call_id)

    async def _compacting(self, given: points.CompactingInput, output: points.CompactingOutput) -> None:
        if not self._ready():
            return
        prompt = ""
        if self._scripts.answers("compacting"):
            history = await self._dispatch.history(given.session_id)
            fields = {"session": {"id": given.session_id}, "history": protocol.once(history)}
            key = ids.new("evt")
            async with self._engine.recording.recording("compacting", given.session_id, key):
                outcome = await self._dispatch.ask("compacting", given.session_id, None, fields, key=key)
            prompt = protocol.text(outcome.answer, "prompt")
        if prompt:
            output.prompt = prompt
        elif output.prompt is None:
            output.prompt = self._scripts.prompts.text("compaction") or None
            if output.prompt:
                self._engine.storage.uses.add("prompts/compaction.md", "compacting")

    async def event(self, event: Any) -> None:
        """Take note of what happened in sessions."""
        if event.type == "session.idle":
            await self._engine.recording.unwatch(event.session_id)
            self._begun = {call for call in self._begun if call[0] != event.session_id}
            self._engine.observer.flush()
        if event.type == "session.deleted":
            self._dispatch.forget(event.session_id)
            self._frozen.pop(event.session_id, None)
            await self._kept.set(f"system:{event.session_id}", None)
