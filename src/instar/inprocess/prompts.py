"""Prompts and what else makes a session work: commands, follow-ups, a person's own shell commands, summaries."""

import asyncio
import logging

import msgspec

from instar import compaction, invocation, loop, prompt, revert, shell, wire
from instar.admission import admit, hear
from instar.api.session import ShellBody
from instar.event import CommandExecuted, SessionStatus, make
from instar.inprocess.held import Held, check_there
from instar.lease import SessionBusy
from instar.live import Live
from instar.message import PERSON, ModelRef, Origin, WithParts
from instar.plugin import Busy, CommandBody, Invalid, PromptBody
from instar.workspace import check_home

log = logging.getLogger("instar.session")


class Prompts(Held):
    """What sessions are asked to do, and how that is ended."""

    async def prompt(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> WithParts:
        """Save the prompt, run the turn and return its last answer.

        Raises `NotFound`, also when the session was deleted before its turn was over.
        """
        live, asked = await self._submit(session_id, body, origin)
        if body.no_reply:
            return asked.copy()
        await self._turns.wait(live)
        check_there(live)
        return compaction.last_answer(live.history, asked.info.id).copy()

    async def prompt_async(self, session_id: str, body: PromptBody, origin: Origin | None = None) -> None:
        """Save the prompt and start the turn, without waiting for it."""
        await self._submit(session_id, body, origin)

    async def command(self, session_id: str, body: CommandBody) -> WithParts:
        """Make a prompt of a command, run the turn and return its last answer."""
        await self._use(session_id)
        async with self._held(session_id) as live:
            check_home(live.session, self._instance.directory)
            asked = await invocation.invoke(self._instance, live, body)
        answer = await self.prompt(session_id, asked)
        done = CommandExecuted(
            session_id=session_id, name=body.command, arguments=body.arguments, message_id=answer.info.id
        )
        self._instance.bus.publish(make(done))
        return answer

    async def shell(self, session_id: str, body: ShellBody) -> WithParts:
        """Run a person's own shell command and return the message that holds what it printed.

        Raises `NotFound`, `Busy` while a turn runs, and `Invalid`.
        """
        await self._use(session_id)
        async with self._held(session_id) as live:
            check_home(live.session, self._instance.directory)
            self._check_rests(live, "runs no command")
            if not self._speaker.is_person:
                await self._admit(live, None)
            run = shell.Run(self._instance, live, body, self._speaker)
            await revert.finish(self._instance, live)
            await self._turns.occupy(live, run.carry_out)
        return (await asyncio.shield(run.answered)).copy()

    async def wait(self, session_id: str) -> None:
        """Return when no turn runs in a session. Raises `NotFound`."""
        await self._turns.wait(await self._sessions.open(session_id))

    async def follow_up(
        self, session_id: str, body: PromptBody, source: str, origin: Origin | None = None
    ) -> None:
        """Queue a prompt durably and see that the session's loop takes it up."""
        live = await self._sessions.open(session_id)
        check_home(live.session, self._instance.directory)
        if source == PERSON and not self._speaker.is_person:
            source = self._speaker.name
        await self._sessions.queue(session_id, source, wire.to_plain(body), origin or live.origin)
        if (why := self._instance.halt.why(session_id)) is not None:
            log.info("follow-up waits source=%s: %s", source, why)
            return
        try:
            await self._turns.start(live)
        except SessionBusy as error:
            log.info("follow-up queued source=%s: %s", source, error)

    async def origin(self, session_id: str) -> Origin:
        """Return where the message comes from that the session answers now, or answered last. Raises `NotFound`."""
        return (await self._sessions.open(session_id)).origin

    async def abort(self, session_id: str) -> bool:
        """End the session's turn; True when one ran."""
        return await self._turns.abort(await self._sessions.open(session_id))

    async def status(self) -> dict[str, SessionStatus]:
        """Return what each session that is not idle does."""
        return self._sessions.statuses()

    async def summarize(
        self, session_id: str, model: ModelRef | None = None, origin: Origin | None = None
    ) -> None:
        """Summarise the session's history (`SessionClient.summarize`)."""
        await self._use(session_id)
        async with self._held(session_id) as live:
            if live.turn is not None or session_id in self._changing:
                raise Invalid(f"session {session_id} is busy; wait until its turn has ended, or abort it")
            asked = loop.last_user(list(revert.visible(live)))
            if asked is None:
                raise Invalid(f"session {session_id} has no messages to summarise")
            await self._admit(live, origin)
            if model is not None:
                self._instance.models.find(f"{model.provider_id}/{model.model_id}")
                asked = msgspec.structs.replace(asked, model=model)
            await revert.finish(self._instance, live)
            await compaction.ask(self._instance, live, asked, auto=False, origin=origin or self._speaker)
            await self._turns.start(live)
        await self._turns.wait(live)

    async def _submit(
        self, session_id: str, body: PromptBody, origin: Origin | None
    ) -> tuple[Live, WithParts]:
        await self._use(session_id)
        async with self._held(session_id) as live:
            check_home(live.session, self._instance.directory)
            if session_id in self._changing:
                raise Busy(session_id, "is being changed: send the prompt again in a moment")
            if not body.no_reply:
                await self._admit(live, origin)
            await revert.finish(self._instance, live)
            spoken = origin or self._speaker
            asked = await prompt.submit(self._instance, live, body, spoken)
            by = spoken.by("task") if self._for_agent else spoken
            await hear(self._instance, live, by, asks=not body.no_reply)
            if not body.no_reply:
                await self._turns.start(live, asked)
        return live, asked

    async def _admit(self, live: Live, origin: Origin | None) -> None:
        by_person = origin is None and self._speaker.is_person
        await admit(self._instance, self._turns, live, origin or self._speaker, by_person=by_person)
