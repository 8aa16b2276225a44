"""Made by tests/client/generator.py from the server's operations; change those instead."""

from collections.abc import AsyncIterator
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
from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.event import Event


class V2SessionPermissionCalls:
    """``v2.session.permission``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create(self, session_id: str, body: PermissionQuestion) -> PermissionAnswer:
        """Ask whether a session may do something."""
        answer: PermissionAnswer = await self._connection.ask(
            Request("POST", "/api/session/{}/permission", (session_id,), body=body), PermissionAnswer
        )
        return answer

    async def get(self, session_id: str, request_id: str) -> OnePermission:
        """Get a call that waits for a permission."""
        answer: OnePermission = await self._connection.ask(
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

    async def reply(self, session_id: str, request_id: str, body: PermissionV2Body) -> None:
        """Answer a permission."""
        await self._connection.ask(
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

    async def list(self, session_id: str) -> PermissionRequests:
        """List the calls of a session that wait for a permission."""
        answer: PermissionRequests = await self._connection.ask(
            Request("GET", "/api/session/{}/permission", (session_id,)), PermissionRequests
        )
        return answer


class V2SessionQuestionCalls:
    """``v2.session.question``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def reply(self, session_id: str, request_id: str, body: AnswersBody) -> None:
        """Answer questions."""
        await self._connection.ask(
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

    async def reject(self, session_id: str, request_id: str) -> None:
        """Say that nobody will answer."""
        await self._connection.ask(
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

    async def list(self, session_id: str) -> QuestionRequests:
        """List the questions of a session that wait."""
        answer: QuestionRequests = await self._connection.ask(
            Request("GET", "/api/session/{}/question", (session_id,)), QuestionRequests
        )
        return answer


class V2SessionRevertCalls:
    """``v2.session.revert``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def stage(self, session_id: str, body: StageBody) -> Staged:
        """Take a session, and the files that it changed, back to before a message."""
        answer: Staged = await self._connection.ask(
            Request("POST", "/api/session/{}/revert/stage", (session_id,), body=body), Staged
        )
        return answer

    async def clear(self, session_id: str) -> None:
        """Undo a revert, the files with it."""
        await self._connection.ask(Request("POST", "/api/session/{}/revert/clear", (session_id,)), None)

    async def commit(self, session_id: str) -> None:
        """Drop what a session was taken back from for good."""
        await self._connection.ask(Request("POST", "/api/session/{}/revert/commit", (session_id,)), None)


class V2SessionCalls:
    """``v2.session``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.permission = V2SessionPermissionCalls(connection)
        self.question = V2SessionQuestionCalls(connection)
        self.revert = V2SessionRevertCalls(connection)

    async def create(self, body: CreateBody | None = None) -> OneSession:
        """Make a session; under an id that there is one of, return that one."""
        answer: OneSession = await self._connection.ask(
            Request("POST", "/api/session", body=body), OneSession
        )
        return answer

    async def active(self) -> ActiveSessions:
        """Tell in which sessions turns run."""
        answer: ActiveSessions = await self._connection.ask(
            Request("GET", "/api/session/active"), ActiveSessions
        )
        return answer

    async def get(self, session_id: str) -> OneSession:
        """Get a session."""
        answer: OneSession = await self._connection.ask(
            Request("GET", "/api/session/{}", (session_id,)), OneSession
        )
        return answer

    async def switch_agent(self, session_id: str, body: AgentBody) -> None:
        """Let a session go on with another agent."""
        await self._connection.ask(Request("POST", "/api/session/{}/agent", (session_id,), body=body), None)

    async def switch_model(self, session_id: str, body: ModelBody) -> None:
        """Let a session go on with another model."""
        await self._connection.ask(Request("POST", "/api/session/{}/model", (session_id,), body=body), None)

    async def prompt(self, session_id: str, body: AdmitBody) -> Admitted:
        """Take a prompt; answers when it is kept, its turn goes on by itself."""
        answer: Admitted = await self._connection.ask(
            Request("POST", "/api/session/{}/prompt", (session_id,), body=body), Admitted
        )
        return answer

    async def compact(self, session_id: str) -> None:
        """Summarise a session; answers when the summary is written."""
        await self._connection.ask(Request("POST", "/api/session/{}/compact", (session_id,)), None)

    async def wait(self, session_id: str) -> None:
        """Answer when no turn runs in a session."""
        await self._connection.ask(Request("POST", "/api/session/{}/wait", (session_id,)), None)

    async def interrupt(self, session_id: str) -> None:
        """End a session's turn."""
        await self._connection.ask(Request("POST", "/api/session/{}/interrupt", (session_id,)), None)

    async def context(self, session_id: str) -> Messages:
        """List the messages that the next prompt's model sees, oldest first: from the last summary on."""
        answer: Messages = await self._connection.ask(
            Request("GET", "/api/session/{}/context", (session_id,)), Messages
        )
        return answer

    async def history(self, session_id: str, *, limit: int | None = None, after: int = 0) -> SessionHistory:
        """List a session's durable events."""
        answer: SessionHistory = await self._connection.ask(
            Request("GET", "/api/session/{}/history", (session_id,), query={"limit": limit, "after": after}),
            SessionHistory,
        )
        return answer

    def events(self, session_id: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Follow a session's durable events: first those that there are, then those that come."""
        return self._connection.events(
            Request("GET", "/api/session/{}/event", (session_id,), query={"after": after})
        )

    async def messages(
        self,
        session_id: str,
        *,
        limit: int | None = None,
        order: Literal["asc", "desc"] | None = None,
        cursor: str | None = None,
    ) -> SessionMessagesResponse:
        """List a session's messages, newest first unless `order` is ``asc``."""
        answer: SessionMessagesResponse = await self._connection.ask(
            Request(
                "GET",
                "/api/session/{}/message",
                (session_id,),
                query={"limit": limit, "order": order, "cursor": cursor},
            ),
            SessionMessagesResponse,
        )
        return answer

    async def message(self, session_id: str, message_id: str) -> OneMessage:
        """Get a message."""
        answer: OneMessage = await self._connection.ask(
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

    async def list(
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
        answer: SessionsResponse = await self._connection.ask(
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
