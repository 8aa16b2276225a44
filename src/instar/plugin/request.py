"""What a client sends and gets: the bodies of requests, their results, and why one cannot be carried out."""

from collections.abc import Sequence

import msgspec

from instar.api.request import Busy, CommandBody, Invalid, NotFound, PromptBody, SessionBody
from instar.message import ModelRef, Session

__all__ = [
    "Answer",
    "Busy",
    "CommandBody",
    "Done",
    "Invalid",
    "NotFound",
    "PromptBody",
    "Reverted",
    "SessionBody",
    "Task",
]


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
    """What a single model call returned; `model` is ``provider/model``."""

    text: str
    cost: float | None
    tokens: int
    model: str = ""
