"""What a client sends to begin something, and why a request cannot be carried out."""

from typing import Any

import msgspec

from instar import ids
from instar.message import ModelRef, Rule
from instar.wire import Plain, Wire


class NotFound(Exception):
    """There is no such session, message or agent; the text names it."""


class Invalid(Exception):
    """A request cannot be carried out as it is; the text says what and why."""


class Busy(Invalid):
    """A request that a session cannot carry out while it works; `why` goes on after its id."""

    def __init__(self, session_id: str, why: str) -> None:
        super().__init__(f"session {session_id} is busy and {why}")
        self.session_id = session_id


class PromptBody(Wire):
    """The body of a prompt: opencode's ``POST /session/{id}/message``."""

    message_id: ids.MessageID | None = None
    model: ModelRef | None = None
    agent: str | None = None
    no_reply: bool | None = None
    tools: dict[str, bool] | None = None
    format: Plain | None = None
    system: str | None = None
    variant: str | None = None
    parts: list[Plain]

    @classmethod
    def text(cls, text: str, *, synthetic: bool | None = None, **fields: Any) -> "PromptBody":
        """Return a prompt of one text part."""
        part: Plain = {"type": "text", "text": text}
        if synthetic is not None:
            part["synthetic"] = synthetic
        return cls(parts=[part], **fields)


class CommandBody(Wire):
    """The body of a command: opencode's ``POST /session/{id}/command``. `parts` are files beside its prompt."""

    command: str
    arguments: str
    message_id: ids.MessageID | None = None
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    parts: list[Plain] | None = None


class SessionBody(Wire):
    """The body of a new session: opencode's ``POST /session``."""

    parent_id: ids.SessionID | None = msgspec.field(default=None, name="parentID")
    title: str | None = None
    agent: str | None = None
    model: Plain | None = None
    metadata: Plain | None = None
    permission: list[Rule] | None = None
    workspace_id: str | None = None
