"""Made by tests/client/generator.py from the server's operations; change those instead."""

from typing import Literal

from instar.api.request import CommandBody, PromptBody, SessionBody
from instar.api.session import ChangeBody, ForkBody, InitBody, RevertBody, ShellBody, SummarizeBody
from instar.client.connection import Connection
from instar.client.request import Request
from instar.event import Busy, Idle, Retry, Todo
from instar.message import FileDiff, Session, WithParts


class SessionCalls:
    """``session``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, body: SessionBody | None = None) -> Session:
        """Make a session."""
        answer: Session = self._connection.ask(Request("POST", "/session", body=body), Session)
        return answer

    def status(self) -> dict[str, Idle | Busy | Retry]:
        """Tell what each session does that is not idle."""
        answer: dict[str, Idle | Busy | Retry] = self._connection.ask(
            Request("GET", "/session/status"), dict[str, Idle | Busy | Retry]
        )
        return answer

    def get(self, session_id: str) -> Session:
        """Get a session."""
        answer: Session = self._connection.ask(Request("GET", "/session/{}", (session_id,)), Session)
        return answer

    def delete(self, session_id: str) -> bool:
        """Delete a session with all that belongs to it."""
        answer: bool = self._connection.ask(Request("DELETE", "/session/{}", (session_id,)), bool)
        return answer

    def messages(
        self, session_id: str, *, limit: int | None = None, before: str | None = None
    ) -> list[WithParts]:
        """List a session's messages, oldest first."""
        answer: list[WithParts] = self._connection.ask(
            Request("GET", "/session/{}/message", (session_id,), query={"limit": limit, "before": before}),
            list[WithParts],
        )
        return answer

    def prompt(self, session_id: str, body: PromptBody) -> WithParts:
        """Send a prompt; answers when its turn is over and its events are sent."""
        answer: WithParts = self._connection.ask(
            Request("POST", "/session/{}/message", (session_id,), body=body), WithParts
        )
        return answer

    def prompt_async(self, session_id: str, body: PromptBody) -> None:
        """Send a prompt; answers when its turn has begun."""
        self._connection.ask(Request("POST", "/session/{}/prompt_async", (session_id,), body=body), None)

    def command(self, session_id: str, body: CommandBody) -> WithParts:
        """Run a command; answers when its turn is over and its events are sent."""
        answer: WithParts = self._connection.ask(
            Request("POST", "/session/{}/command", (session_id,), body=body), WithParts
        )
        return answer

    def shell(self, session_id: str, body: ShellBody) -> WithParts:
        """Run a person's own shell command; answers with the message that holds what it printed."""
        answer: WithParts = self._connection.ask(
            Request("POST", "/session/{}/shell", (session_id,), body=body), WithParts
        )
        return answer

    def init(self, session_id: str, body: InitBody) -> bool:
        """Let the model write the project's AGENTS.md, as the command `init` does; answers when it has."""
        answer: bool = self._connection.ask(
            Request("POST", "/session/{}/init", (session_id,), body=body), bool
        )
        return answer

    def share(self, session_id: str) -> Session:
        """Refuse to share a session: nothing of it leaves this machine."""
        answer: Session = self._connection.ask(Request("POST", "/session/{}/share", (session_id,)), Session)
        return answer

    def unshare(self, session_id: str) -> Session:
        """Return a session as it is: none is shared."""
        answer: Session = self._connection.ask(Request("DELETE", "/session/{}/share", (session_id,)), Session)
        return answer

    def abort(self, session_id: str) -> bool:
        """End a session's turn; true also where none runs, and where there is no such session."""
        answer: bool = self._connection.ask(Request("POST", "/session/{}/abort", (session_id,)), bool)
        return answer

    def update(self, session_id: str, body: ChangeBody | None = None) -> Session:
        """Change a session's title or metadata, put it away, or add permission rules to its own."""
        answer: Session = self._connection.ask(
            Request("PATCH", "/session/{}", (session_id,), body=body), Session
        )
        return answer

    def revert(self, session_id: str, body: RevertBody) -> Session:
        """Take a session and the files that it changed back to before a message."""
        answer: Session = self._connection.ask(
            Request("POST", "/session/{}/revert", (session_id,), body=body), Session
        )
        return answer

    def unrevert(self, session_id: str) -> Session:
        """Undo a revert, the files with it."""
        answer: Session = self._connection.ask(
            Request("POST", "/session/{}/unrevert", (session_id,)), Session
        )
        return answer

    def fork(self, session_id: str, body: ForkBody | None = None) -> Session:
        """Make a session of copies of another one's messages."""
        answer: Session = self._connection.ask(
            Request("POST", "/session/{}/fork", (session_id,), body=body), Session
        )
        return answer

    def diff(self, session_id: str, *, message_id: str | None = None) -> list[FileDiff]:
        """Tell how the files differ that a session changed; nothing of a session or message that is not there."""
        answer: list[FileDiff] = self._connection.ask(
            Request("GET", "/session/{}/diff", (session_id,), query={"messageID": message_id}), list[FileDiff]
        )
        return answer

    def summarize(self, session_id: str, body: SummarizeBody) -> bool:
        """Summarise a session; answers when the summary is written."""
        answer: bool = self._connection.ask(
            Request("POST", "/session/{}/summarize", (session_id,), body=body), bool
        )
        return answer

    def children(self, session_id: str) -> list[Session]:
        """List the sessions whose parent a session is, last updated first."""
        answer: list[Session] = self._connection.ask(
            Request("GET", "/session/{}/children", (session_id,)), list[Session]
        )
        return answer

    def todo(self, session_id: str) -> list[Todo]:
        """Get a session's list of things to do."""
        answer: list[Todo] = self._connection.ask(
            Request("GET", "/session/{}/todo", (session_id,)), list[Todo]
        )
        return answer

    def message(self, session_id: str, message_id: str) -> WithParts:
        """Get a message."""
        answer: WithParts = self._connection.ask(
            Request(
                "GET",
                "/session/{}/message/{}",
                (
                    session_id,
                    message_id,
                ),
            ),
            WithParts,
        )
        return answer

    def delete_message(self, session_id: str, message_id: str) -> bool:
        """Delete a message; files stay as they are."""
        answer: bool = self._connection.ask(
            Request(
                "DELETE",
                "/session/{}/message/{}",
                (
                    session_id,
                    message_id,
                ),
            ),
            bool,
        )
        return answer

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
        answer: list[Session] = self._connection.ask(
            Request(
                "GET",
                "/session",
                query={
                    "roots": roots,
                    "start": start,
                    "search": search,
                    "limit": limit,
                    "scope": scope,
                    "path": path,
                    "directory": directory,
                },
            ),
            list[Session],
        )
        return answer
