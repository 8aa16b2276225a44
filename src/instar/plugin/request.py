"""What a client sends and gets: the bodies of requests, their results, and why one cannot be carried out."""

from collections.abc import Sequence
from typing import Any

import msgspec

from instar.message import ModelRef, Rule, Session
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

    message_id: str | None = None
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
    arguments: str = ""
    message_id: str | None = None
    agent: str | None = None
    model: str | None = None
    variant: str | None = None
    parts: list[Plain] | None = None


class SessionBody(Wire):
    """The body of a new session: opencode's ``POST /session``."""

    parent_id: str | None = msgspec.field(default=None, name="parentID")
    title: str | None = None
    agent: str | None = None
    model: Plain | None = None
    metadata: Plain | None = None
    permission: list[Rule] | None = None
    workspace_id: str | None = None


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """Work for a sub-agent: who asks (a session, its agent and the answer that holds the call), who does it, what.

    `task_id` names the session of an earlier task of the same parent, which then goes on.
    `by_person`: a person's command asked for it, so a primary agent may do it too; `model` is then the command's.
    """

    session_id: str
    message_id: str
    caller: str
    agent: str
    description: str
    prompt: str
    task_id: str | None = None
    by_person: bool = False
    model: ModelRef | None = None


class Done(msgspec.Struct, frozen=True):
    """What a sub-agent answered; `error` is None unless its last step failed or was ended."""

    session_id: str
    text: str
    error: str | None = None


class Reverted(msgspec.Struct, frozen=True):
    """A session that was taken back or forth, and what became of its files (names relative to the worktree).

    `files` are as they were then; `changed` are those among them that somebody had changed since the session
    did; `kept` were left alone, since no snapshot holds what they would have lost. `note` says why files are not
    as they were, None when they are.
    """

    session: Session
    files: Sequence[str] = ()
    changed: Sequence[str] = ()
    kept: Sequence[str] = ()
    note: str | None = None


class Answer(msgspec.Struct, frozen=True):
    """What a single model call returned."""

    text: str
    cost: float | None
    tokens: int
