"""A session's past: looked at, taken back, copied and changed."""

from collections.abc import Sequence

from instar import changes, fork, revert, wire
from instar.inprocess.held import Held
from instar.message import FileDiff, KnownPart, Session, ToolCompleted, ToolError, ToolPart, WithParts
from instar.plugin import Invalid, Messages, NotFound, Reverted


class Past(Held):
    """What was said and done in sessions."""

    async def messages(self, session_id: str, limit: int | None = None) -> Messages:
        """Return the session's messages, oldest first. Raises `NotFound`."""
        history = (await self._sessions.open(session_id)).history
        first = 0 if limit is None else max(0, len(history) - max(0, limit))
        return [message.copy() for message in history[first:]]

    async def message(self, session_id: str, message_id: str) -> WithParts:
        """Return one message. Raises `NotFound`."""
        found = (await self._sessions.open(session_id)).find(message_id)
        if found is None:
            raise NotFound(f"Message not found: {message_id}")
        return found.copy()

    async def diff(self, session_id: str, message_id: str | None = None) -> Sequence[FileDiff]:
        """Return what a session, or one prompt's turn, did to files. Raises `NotFound`."""
        live = await self._sessions.open(session_id)
        return await changes.shown(self._instance, revert.visible(live), message_id)

    async def revert(
        self,
        session_id: str,
        message_id: str | None = None,
        part_id: str | None = None,
        *,
        files: bool = True,
    ) -> Reverted:
        """Take a session and (with `files`) its files back. Raises `NotFound`, and `Invalid` while a turn runs."""
        async with self._resting(session_id, "reverted") as live:
            wanted = message_id if message_id is not None else revert.last_prompt(revert.visible(live))
            return await revert.revert(self._instance, live, wanted, part_id, files=files)

    async def unrevert(self, session_id: str) -> Reverted:
        """Take a session and its files forth again. Raises as `revert`."""
        async with self._resting(session_id, "unreverted") as live:
            return await revert.unrevert(self._instance, live)

    async def settle(self, session_id: str) -> None:
        """Drop for good what a session was taken back from. Raises as `revert`."""
        async with self._resting(session_id, "changed") as live:
            await revert.finish(self._instance, live)

    async def remove(self, session_id: str, message_id: str, part_id: str | None = None) -> None:
        """Delete a message or a part. Raises as `revert`."""
        async with self._resting(session_id, "changed") as live:
            await revert.remove(self._instance, live, message_id, part_id)

    async def fork(self, session_id: str, message_id: str | None = None) -> Session:
        """Make a session of copies of this one's messages. Raises `NotFound`."""
        live = await self._sessions.open(session_id)
        return wire.copy(await fork.fork(self._instance, live, message_id))

    async def put_part(self, session_id: str, part: KnownPart) -> KnownPart:
        """Change a part of a message. Raises as `revert`, and `Invalid` for what the part cannot become."""
        async with self._resting(session_id, "changed") as live:
            holder = live.find(part.message_id)
            if holder is None:
                raise NotFound(f"Message not found: {part.message_id}")
            old = next((one for one in holder.parts if one.id == part.id), None)
            if old is None:
                raise NotFound(f"Part not found: {part.id} in message {part.message_id}")
            if old.type != part.type:
                raise Invalid(f"a part's type cannot be changed: {part.id} is of type {old.type!r}")
            if isinstance(part, ToolPart) and not isinstance(part.state, ToolCompleted | ToolError):
                raise Invalid(f"no turn runs that would end a call that is {part.state.status!r}")
            made = wire.as_stored(part)
            await self._sessions.save_part(holder, made)
        return wire.copy(made)
