"""opencode's newer operations of sessions, under ``/api/session``."""

from typing import Literal

from instar.api.session import AnswersBody
from instar.api.v2_message import RevertState, SessionMessage
from instar.api.v2_session import (
    AdmitBody,
    AgentBody,
    CreateBody,
    Data,
    ModelBody,
    Page,
    PermissionEffect,
    PermissionQuestion,
    PermissionV2Body,
    PermissionV2Request,
    SessionActive,
    SessionHistory,
    SessionInputAdmitted,
    SessionV2Info,
    StageBody,
)
from instar.client.endpoint import C, Calls, endpoint, stream
from instar.event import Event, QuestionAsked


class V2SessionPermissionCalls(Calls[C]):
    """``v2.session.permission``."""

    @endpoint("POST", "/api/session/{sessionID}/permission")
    def create(self, session_id: str, body: PermissionQuestion) -> Data[PermissionEffect]:
        """Ask whether a session may do something."""

    @endpoint("GET", "/api/session/{sessionID}/permission/{requestID}")
    def get(self, session_id: str, request_id: str) -> Data[PermissionV2Request]:
        """Get a call that waits for a permission."""

    @endpoint("POST", "/api/session/{sessionID}/permission/{requestID}/reply")
    def reply(self, session_id: str, request_id: str, body: PermissionV2Body) -> None:
        """Answer a permission."""

    @endpoint("GET", "/api/session/{sessionID}/permission")
    def list(self, session_id: str) -> Data[list[PermissionV2Request]]:
        """List the calls of a session that wait for a permission."""


class V2SessionQuestionCalls(Calls[C]):
    """``v2.session.question``."""

    @endpoint("POST", "/api/session/{sessionID}/question/{requestID}/reply")
    def reply(self, session_id: str, request_id: str, body: AnswersBody) -> None:
        """Answer questions."""

    @endpoint("POST", "/api/session/{sessionID}/question/{requestID}/reject")
    def reject(self, session_id: str, request_id: str) -> None:
        """Say that nobody will answer."""

    @endpoint("GET", "/api/session/{sessionID}/question")
    def list(self, session_id: str) -> Data[list[QuestionAsked]]:
        """List the questions of a session that wait."""


class V2SessionRevertCalls(Calls[C]):
    """``v2.session.revert``."""

    @endpoint("POST", "/api/session/{sessionID}/revert/stage")
    def stage(self, session_id: str, body: StageBody) -> Data[RevertState]:
        """Take a session, and the files that it changed, back to before a message."""

    @endpoint("POST", "/api/session/{sessionID}/revert/clear")
    def clear(self, session_id: str) -> None:
        """Undo a revert, the files with it."""

    @endpoint("POST", "/api/session/{sessionID}/revert/commit")
    def commit(self, session_id: str) -> None:
        """Drop what a session was taken back from for good."""


class V2SessionCalls(Calls[C]):
    """``v2.session``."""

    def __init__(self, connection: C) -> None:
        super().__init__(connection)
        self.permission = V2SessionPermissionCalls(connection)
        self.question = V2SessionQuestionCalls(connection)
        self.revert = V2SessionRevertCalls(connection)

    @endpoint("POST", "/api/session")
    def create(self, body: CreateBody | None = None) -> Data[SessionV2Info]:
        """Make a session; under an id that there is one of, return that one."""

    @endpoint("GET", "/api/session/active")
    def active(self) -> Data[dict[str, SessionActive]]:
        """Tell in which sessions turns run."""

    @endpoint("GET", "/api/session/{sessionID}")
    def get(self, session_id: str) -> Data[SessionV2Info]:
        """Get a session."""

    @endpoint("POST", "/api/session/{sessionID}/agent")
    def switch_agent(self, session_id: str, body: AgentBody) -> None:
        """Let a session go on with another agent."""

    @endpoint("POST", "/api/session/{sessionID}/model")
    def switch_model(self, session_id: str, body: ModelBody) -> None:
        """Let a session go on with another model."""

    @endpoint("POST", "/api/session/{sessionID}/prompt")
    def prompt(self, session_id: str, body: AdmitBody) -> Data[SessionInputAdmitted]:
        """Take a prompt; answers when it is kept, its turn goes on by itself."""

    @endpoint("POST", "/api/session/{sessionID}/compact")
    def compact(self, session_id: str) -> None:
        """Summarise a session; answers when the summary is written."""

    @endpoint("POST", "/api/session/{sessionID}/wait")
    def wait(self, session_id: str) -> None:
        """Answer when no turn runs in a session."""

    @endpoint("POST", "/api/session/{sessionID}/interrupt")
    def interrupt(self, session_id: str) -> None:
        """End a session's turn."""

    @endpoint("GET", "/api/session/{sessionID}/context")
    def context(self, session_id: str) -> Data[list[SessionMessage]]:
        """List the messages that the next prompt's model sees, oldest first: from the last summary on."""

    @endpoint("GET", "/api/session/{sessionID}/history")
    def history(self, session_id: str, *, limit: int | None = None, after: int = 0) -> SessionHistory:
        """List a session's durable events."""

    @stream("/api/session/{sessionID}/event")
    def events(self, session_id: str, *, after: int = 0) -> Event:
        """Follow a session's durable events: first those that there are, then those that come."""

    @endpoint("GET", "/api/session/{sessionID}/message")
    def messages(
        self,
        session_id: str,
        *,
        limit: int | None = None,
        order: Literal["asc", "desc"] | None = None,
        cursor: str | None = None,
    ) -> Page[SessionMessage]:
        """List a session's messages, newest first unless `order` is ``asc``."""

    @endpoint("GET", "/api/session/{sessionID}/message/{messageID}")
    def message(self, session_id: str, message_id: str) -> Data[SessionMessage]:
        """Get a message."""

    @endpoint("GET", "/api/session")
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
    ) -> Page[SessionV2Info]:
        """List the sessions of all projects, last made first."""
