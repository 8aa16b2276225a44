"""Made by tests/client/generator.py from the server's operations; change those instead."""

from collections.abc import Iterator
from typing import Literal

from instar.api.session import AnswersBody
from instar.api.session_v2 import (
    ActiveSessions,
    AdmitBody,
    Admitted,
    AgentBody,
    CreateBody,
    Messages,
    ModelBody,
    OneMessage,
    OnePermission,
    OneSession,
    PermissionAnswer,
    PermissionQuestion,
    PermissionRequests,
    PermissionV2Body,
    QuestionRequests,
    SessionHistory,
    SessionMessagesResponse,
    SessionsResponse,
    StageBody,
    Staged,
)
from instar.client.connection import Connection
from instar.client.request import Request
from instar.event import Event


class V2SessionPermissionCalls:
    """``v2.session.permission``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def create(self, session_id: str, body: PermissionQuestion) -> PermissionAnswer:
        """Ask whether a session may do something."""
        answer: PermissionAnswer = self._connection.ask(
            Request("POST", "/api/session/{}/permission", (session_id,), body=body), PermissionAnswer
        )
        return answer

    def get(self, session_id: str, request_id: str) -> OnePermission:
        """Get a call that waits for a permission."""
        answer: OnePermission = self._connection.ask(
            Request(
                "GET",
                "/api/session/{}/permission/{}",
                (
                    session_id,
                    request_id,
                ),
            ),
            OnePermission,
        )
        return answer

    def reply(self, session_id: str, request_id: str, body: PermissionV2Body) -> None:
        """Answer a permission."""
        self._connection.ask(
            Request(
                "POST",
                "/api/session/{}/permission/{}/reply",
                (
                    session_id,
                    request_id,
                ),
                body=body,
            ),
            None,
        )

    def list(self, session_id: str) -> PermissionRequests:
        """List the calls of a session that wait for a permission."""
        answer: PermissionRequests = self._connection.ask(
            Request("GET", "/api/session/{}/permission", (session_id,)), PermissionRequests
        )
        return answer


class V2SessionQuestionCalls:
    """``v2.session.question``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def reply(self, session_id: str, request_id: str, body: AnswersBody) -> None:
        """Answer questions."""
        self._connection.ask(
            Request(
                "POST",
                "/api/session/{}/question/{}/reply",
                (
                    session_id,
                    request_id,
                ),
                body=body,
            ),
            None,
        )

    def reject(self, session_id: str, request_id: str) -> None:
        """Say that nobody will answer."""
        self._connection.ask(
            Request(
                "POST",
                "/api/session/{}/question/{}/reject",
                (
                    session_id,
                    request_id,
                ),
            ),
            None,
        )

    def list(self, session_id: str) -> QuestionRequests:
        """List the questions of a session that wait."""
        answer: QuestionRequests = self._connection.ask(
            Request("GET", "/api/session/{}/question", (session_id,)), QuestionRequests
        )
        return answer


class V2SessionRevertCalls:
    """``v2.session.revert``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def stage(self, session_id: str, body: StageBody) -> Staged:
        """Take a session, and the files that it changed, back to before a message."""
        answer: Staged = self._connection.ask(
            Request("POST", "/api/session/{}/revert/stage", (session_id,), body=body), Staged
        )
        return answer

    def clear(self, session_id: str) -> None:
        """Undo a revert, the files with it."""
        self._connection.ask(Request("POST", "/api/session/{}/revert/clear", (session_id,)), None)

    def commit(self, session_id: str) -> None:
        """Drop what a session was taken back from for good."""
        self._connection.ask(Request("POST", "/api/session/{}/revert/commit", (session_id,)), None)


class V2SessionCalls:
    """``v2.session``."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.permission = V2SessionPermissionCalls(connection)
        self.question = V2SessionQuestionCalls(connection)
        self.revert = V2SessionRevertCalls(connection)

    def create(self, body: CreateBody | None = None) -> OneSession:
        """Make a session; under an id that there is one of, return that one."""
        answer: OneSession = self._connection.ask(Request("POST", "/api/session", body=body), OneSession)
        return answer

    def active(self) -> ActiveSessions:
        """Tell in which sessions turns run."""
        answer: ActiveSessions = self._connection.ask(Request("GET", "/api/session/active"), ActiveSessions)
        return answer

    def get(self, session_id: str) -> OneSession:
        """Get a session."""
        answer: OneSession = self._connection.ask(
            Request("GET", "/api/session/{}", (session_id,)), OneSession
        )
        return answer

    def switch_agent(self, session_id: str, body: AgentBody) -> None:
        """Let a session go on with another agent."""
        self._connection.ask(Request("POST", "/api/session/{}/agent", (session_id,), body=body), None)

    def switch_model(self, session_id: str, body: ModelBody) -> None:
        """Let a session go on with another model."""
        self._connection.ask(Request("POST", "/api/session/{}/model", (session_id,), body=body), None)

    def prompt(self, session_id: str, body: AdmitBody) -> Admitted:
        """Take a prompt; answers when it is kept, its turn goes on by itself."""
        answer: Admitted = self._connection.ask(
            Request("POST", "/api/session/{}/prompt", (session_id,), body=body), Admitted
        )
        return answer

    def compact(self, session_id: str) -> None:
        """Summarise a session; answers when the summary is written."""
        self._connection.ask(Request("POST", "/api/session/{}/compact", (session_id,)), None)

    def wait(self, session_id: str) -> None:
        """Answer when no turn runs in a session."""
        self._connection.ask(Request("POST", "/api/session/{}/wait", (session_id,)), None)

    def interrupt(self, session_id: str) -> None:
        """End a session's turn."""
        self._connection.ask(Request("POST", "/api/session/{}/interrupt", (session_id,)), None)

    def context(self, session_id: str) -> Messages:
        """List the messages that the next prompt's model sees, oldest first: from the last summary on."""
        answer: Messages = self._connection.ask(
            Request("GET", "/api/session/{}/context", (session_id,)), Messages
        )
        return answer

    def history(self, session_id: str, *, limit: int | None = None, after: int = 0) -> SessionHistory:
        """List a session's durable events."""
        answer: SessionHistory = self._connection.ask(
            Request("GET", "/api/session/{}/history", (session_id,), query={"limit": limit, "after": after}),
            SessionHistory,
        )
        return answer

    def events(self, session_id: str, *, after: int = 0) -> Iterator[Event]:
        """Follow a session's durable events: first those that there are, then those that come."""
        return self._connection.events(
            Request("GET", "/api/session/{}/event", (session_id,), query={"after": after})
        )

    def messages(
        self,
        session_id: str,
        *,
        limit: int | None = None,
        order: Literal["asc", "desc"] | None = None,
        cursor: str | None = None,
    ) -> SessionMessagesResponse:
        """List a session's messages, newest first unless `order` is ``asc``."""
        answer: SessionMessagesResponse = self._connection.ask(
            Request(
                "GET",
                "/api/session/{}/message",
                (session_id,),
                query={"limit": limit, "order": order, "cursor": cursor},
            ),
            SessionMessagesResponse,
        )
        return answer

    def message(self, session_id: str, message_id: str) -> OneMessage:
        """Get a message."""
        answer: OneMessage = self._connection.ask(
            Request(
                "GET",
                "/api/session/{}/message/{}",
                (
                    session_id,
                    message_id,
                ),
            ),
            OneMessage,
        )
        return answer

    def list(
        self,
        *,
        workspace: str | None = None,
        limit: int | None = None,
        order: Literal["asc", "desc"] | None = None,
        search: str | None = None,
        directory: str | None = None,
        project: str | None = None,
        subpath: str | None = None,
        cursor: str | None = None,
    ) -> SessionsResponse:
        """List the sessions of all projects, last made first."""
        answer: SessionsResponse = self._connection.ask(
            Request(
                "GET",
                "/api/session",
                query={
                    "workspace": workspace,
                    "limit": limit,
                    "order": order,
                    "search": search,
                    "directory": directory,
                    "project": project,
                    "subpath": subpath,
                    "cursor": cursor,
                },
            ),
            SessionsResponse,
        )
        return answer
