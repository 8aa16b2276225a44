"""What is saved together: one transaction, whose events are published in the order in which things were added."""

from instar import event, wire
from instar.event import Event, make
from instar.live import now
from instar.message import Message, Part, Session, WithParts
from instar.store import PutMessage, PutPart, PutSession, Write


class Saving:
    """Rows and the events that tell of them, as they stand when they are added; `Sessions.save` writes them."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.events: list[Event] = []

    def part(self, holder: WithParts, part: Part) -> "Saving":
        """Add a part, new or changed, of a message; the message holds it from now on."""
        for index, old in enumerate(holder.parts):
            if old.id == part.id:
                holder.parts[index] = part
                break
        else:
            holder.parts.append(part)
        self.writes.append(PutPart(part))
        self.events.append(told_part(part))
        return self

    def message(self, message: Message) -> "Saving":
        """Add a message, new or changed; its row is what it is when all of it is written."""
        self.writes.append(PutMessage(message))
        return self.tell(told_message(message))

    def session(self, session: Session) -> "Saving":
        """Add a session's own fields."""
        self.writes.append(PutSession(session))
        return self.tell(told_session(session))

    def tell(self, happened: Event) -> "Saving":
        """Add an event of which no row tells."""
        self.events.append(happened)
        return self


def told_message(message: Message) -> Event:
    """Return the event that tells of a message as it is now. Raises as `wire.copy` for a malformed one."""
    return make(event.MessageUpdated(session_id=message.session_id, info=wire.copy(message)))


def told_session(session: Session) -> Event:
    """Return the event that tells of a session as it is now."""
    return make(event.SessionUpdated(session_id=session.id, info=wire.copy(session)))


def told_part(part: Part) -> Event:
    """Return the event that tells of a part as it is now: it may have grown when subscribers read that."""
    copied = wire.copy(part) if isinstance(part, wire.Wire) else part
    return make(event.PartUpdated(session_id=part.session_id, part=copied, time=now()))
