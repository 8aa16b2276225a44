"""Sessions, their messages, and what waits for a person."""

from typing import Literal

from instar.api.session import (
    AnswersBody,
    ChangeBody,
    CommandBody,
    ForkBody,
    InitBody,
    PermissionBody,
    PromptBody,
    ResponseBody,
    RevertBody,
    SessionBody,
    ShellBody,
    SummarizeBody,
)
from instar.client.endpoint import C, Calls, endpoint
from instar.event import Busy, Idle, PermissionAsked, QuestionAsked, Retry, Todo
from instar.message import FileDiff, KnownPart, Session, WithParts


class PartCalls(Calls[C]):
    """``part``."""

    @endpoint("DELETE", "/session/{sessionID}/message/{messageID}/part/{partID}")
    def delete(self, session_id: str, message_id: str, part_id: str) -> bool:
        """Delete a part of a message. While a turn runs it is refused (400)."""

    @endpoint("PATCH", "/session/{sessionID}/message/{messageID}/part/{partID}")
    def update(self, session_id: str, message_id: str, part_id: str, body: KnownPart) -> KnownPart:
        """Change a part of a message; its type stays. While a turn runs it is refused (400)."""


class PermissionCalls(Calls[C]):
    """``permission``."""

    @endpoint("POST", "/permission/{requestID}/reply")
    def reply(self, request_id: str, body: PermissionBody) -> bool:
        """Answer a permission."""

    @endpoint("POST", "/session/{sessionID}/permissions/{permissionID}")
    def respond(self, session_id: str, permission_id: str, body: ResponseBody) -> bool:
        """Answer a permission as older clients of opencode do."""

    @endpoint("GET", "/permission")
    def list(self) -> list[PermissionAsked]:
        """List the tool calls that wait for a permission."""


class QuestionCalls(Calls[C]):
    """``question``."""

    @endpoint("POST", "/question/{requestID}/reply")
    def reply(self, request_id: str, body: AnswersBody) -> bool:
        """Answer questions."""

    @endpoint("POST", "/question/{requestID}/reject")
    def reject(self, request_id: str) -> bool:
        """Say that nobody will answer."""

    @endpoint("GET", "/question")
    def list(self) -> list[QuestionAsked]:
        """List the questions that wait."""


class SessionCalls(Calls[C]):
    """``session``."""

    @endpoint("POST", "/session")
    def create(self, body: SessionBody | None = None) -> Session:
        """Make a session."""

    @endpoint("GET", "/session/status")
    def status(self) -> dict[str, Idle | Busy | Retry]:
        """Tell what each session does that is not idle."""

    @endpoint("GET", "/session/{sessionID}")
    def get(self, session_id: str) -> Session:
        """Get a session."""

    @endpoint("DELETE", "/session/{sessionID}")
    def delete(self, session_id: str) -> bool:
        """Delete a session with all that belongs to it."""

    @endpoint("GET", "/session/{sessionID}/message")
    def messages(
        self, session_id: str, *, limit: int | None = None, before: str | None = None
    ) -> list[WithParts]:
        """List a session's messages, oldest first."""

    @endpoint("POST", "/session/{sessionID}/message")
    def prompt(self, session_id: str, body: PromptBody) -> WithParts:
        """Send a prompt; answers when its turn is over and its events are sent."""

    @endpoint("POST", "/session/{sessionID}/prompt_async")
    def prompt_async(self, session_id: str, body: PromptBody) -> None:
        """Send a prompt; answers when its turn has begun."""

    @endpoint("POST", "/session/{sessionID}/command")
    def command(self, session_id: str, body: CommandBody) -> WithParts:
        """Run a command; answers when its turn is over and its events are sent."""

    @endpoint("POST", "/session/{sessionID}/shell")
    def shell(self, session_id: str, body: ShellBody) -> WithParts:
        """Run a person's own shell command; answers with the message that holds what it printed."""

    @endpoint("POST", "/session/{sessionID}/init")
    def init(self, session_id: str, body: InitBody) -> bool:
        """Let the model write the project's AGENTS.md, as the command `init` does; answers when it has."""

    @endpoint("POST", "/session/{sessionID}/share")
    def share(self, session_id: str) -> Session:
        """Refuse to share a session: nothing of it leaves this machine."""

    @endpoint("DELETE", "/session/{sessionID}/share")
    def unshare(self, session_id: str) -> Session:
        """Return a session as it is: none is shared."""

    @endpoint("POST", "/session/{sessionID}/abort")
    def abort(self, session_id: str) -> bool:
        """Abort a session's turn. Returns true, also when no turn runs or the session does not exist."""

    @endpoint("PATCH", "/session/{sessionID}")
    def update(self, session_id: str, body: ChangeBody | None = None) -> Session:
        """Change a session's title or metadata, archive it, or add permission rules."""

    @endpoint("POST", "/session/{sessionID}/revert")
    def revert(self, session_id: str, body: RevertBody) -> Session:
        """Take a session and the files that it changed back to before a message."""

    @endpoint("POST", "/session/{sessionID}/unrevert")
    def unrevert(self, session_id: str) -> Session:
        """Undo a revert, the files with it."""

    @endpoint("POST", "/session/{sessionID}/fork")
    def fork(self, session_id: str, body: ForkBody | None = None) -> Session:
        """Make a session of copies of another one's messages."""

    @endpoint("GET", "/session/{sessionID}/diff")
    def diff(self, session_id: str, *, message_id: str | None = None) -> list[FileDiff]:
        """Tell how the files differ that a session changed; nothing of a session or message that is not there."""

    @endpoint("POST", "/session/{sessionID}/summarize")
    def summarize(self, session_id: str, body: SummarizeBody) -> bool:
        """Summarise a session; answers when the summary is written."""

    @endpoint("GET", "/session/{sessionID}/children")
    def children(self, session_id: str) -> list[Session]:
        """List the sessions whose parent a session is, last updated first."""

    @endpoint("GET", "/session/{sessionID}/todo")
    def todo(self, session_id: str) -> list[Todo]:
        """Get a session's list of things to do."""

    @endpoint("GET", "/session/{sessionID}/message/{messageID}")
    def message(self, session_id: str, message_id: str) -> WithParts:
        """Get a message."""

    @endpoint("DELETE", "/session/{sessionID}/message/{messageID}")
    def delete_message(self, session_id: str, message_id: str) -> bool:
        """Delete a message; files stay as they are."""

    @endpoint("GET", "/session")
    def list(
        self,
        *,
        roots: bool = False,
        start: float | None = None,
        search: str = "",
        limit: float | None = None,
        scope: Literal["project"] | None = None,
        path: str | None = None,
        directory: str | None = None,
    ) -> list[Session]:
        """List a project's sessions, archived ones too, last updated first; 100 unless `limit` says more."""
