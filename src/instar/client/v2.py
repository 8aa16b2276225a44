"""opencode's newer operations, under ``/api``."""

from typing import Literal

from instar.api.project import CopyBody, CopyRemoveBody, FileSystemEntry, ProjectCopy
from instar.api.session import AnswersBody
from instar.api.terminal import PtyCreateBody, PtyTicketConnectToken, PtyUpdateBody
from instar.api.v2 import (
    AgentV2Info,
    CommandV2Info,
    Health,
    IntegrationAttempt,
    IntegrationAttemptStatus,
    IntegrationInfo,
    KeyBody,
    LabelBody,
    Located,
    LocationInfo,
    LoginCodeBody,
    ModelV2Info,
    OAuthBody,
    ProviderV2Info,
    ReferenceInfo,
    SkillV2Info,
)
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
    PermissionSavedInfo,
    PermissionV2Body,
    PermissionV2Request,
    SessionActive,
    SessionHistory,
    SessionInputAdmitted,
    SessionV2Info,
    StageBody,
)
from instar.client.endpoint import C, Calls, endpoint, stream
from instar.event import Event, Pty, QuestionAsked


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

    permission: V2SessionPermissionCalls[C]
    question: V2SessionQuestionCalls[C]
    revert: V2SessionRevertCalls[C]

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


class V2IntegrationAttemptCalls(Calls[C]):
    """``v2.integration.attempt``."""

    @endpoint("GET", "/api/integration/attempt/{attemptID}")
    def status(self, attempt_id: str) -> Located[IntegrationAttemptStatus]:
        """Tell how a login stands."""

    @endpoint("POST", "/api/integration/attempt/{attemptID}/complete")
    def complete(self, attempt_id: str, body: LoginCodeBody) -> None:
        """End a login with the code that the person was shown."""

    @endpoint("DELETE", "/api/integration/attempt/{attemptID}")
    def cancel(self, attempt_id: str) -> None:
        """Forget a login that was begun; nothing happens where there is none."""


class V2IntegrationConnectCalls(Calls[C]):
    """``v2.integration.connect``."""

    @endpoint("POST", "/api/integration/{integrationID}/connect/key")
    def key(self, integration_id: str, body: KeyBody) -> None:
        """Keep a key."""

    @endpoint("POST", "/api/integration/{integrationID}/connect/oauth")
    def oauth(self, integration_id: str, body: OAuthBody) -> Located[IntegrationAttempt]:
        """Begin a login by what a plugin offers."""


class V2PermissionRequestCalls(Calls[C]):
    """``v2.permission.request``."""

    @endpoint("GET", "/api/permission/request")
    def list(self) -> Located[list[PermissionV2Request]]:
        """List the calls of a directory that wait for a permission."""


class V2PermissionSavedCalls(Calls[C]):
    """``v2.permission.saved``."""

    @endpoint("DELETE", "/api/permission/saved/{id}")
    def remove(self, id: str) -> None:
        """Remove an `always` permission. Nothing happens if it does not exist."""

    @endpoint("GET", "/api/permission/saved")
    def list(self, *, project_id: str | None = None) -> Data[list[PermissionSavedInfo]]:
        """List what was allowed for always in a directory's worktree."""


class V2QuestionRequestCalls(Calls[C]):
    """``v2.question.request``."""

    @endpoint("GET", "/api/question/request")
    def list(self) -> Located[list[QuestionAsked]]:
        """List the questions of a directory that wait."""


class V2AgentCalls(Calls[C]):
    """``v2.agent``."""

    @endpoint("GET", "/api/agent")
    def list(self) -> Located[list[AgentV2Info]]:
        """List the agents."""


class V2CommandCalls(Calls[C]):
    """``v2.command``."""

    @endpoint("GET", "/api/command")
    def list(self) -> Located[list[CommandV2Info]]:
        """List the commands of the settings."""


class V2CredentialCalls(Calls[C]):
    """``v2.credential``."""

    @endpoint("PATCH", "/api/credential/{credentialID}")
    def update(self, credential_id: str, body: LabelBody) -> None:
        """Name a login that is kept; nothing happens where there is none."""

    @endpoint("DELETE", "/api/credential/{credentialID}")
    def remove(self, credential_id: str) -> None:
        """Forget a login that is kept; nothing happens where there is none."""


class V2EventCalls(Calls[C]):
    """``v2.event``."""

    @stream("/api/event")
    def subscribe(self, *, last_event_id: str | None = None) -> Event:
        """Follow the events of all directories, in the form of the newer routes."""


class V2FsCalls(Calls[C]):
    """``v2.fs``."""

    @endpoint("GET", "/api/fs/find")
    def find(
        self, *, query: str, type: Literal["file", "directory"] | None = None, limit: int | None = None
    ) -> Located[list[FileSystemEntry]]:
        """Find files and folders whose path holds these letters in this order, best first."""

    @endpoint("GET", "/api/fs/read/{path:path}")
    def read(self, path: str) -> str:
        """Read a file's bytes."""

    @endpoint("GET", "/api/fs/list")
    def list(self, *, path: str = "") -> Located[list[FileSystemEntry]]:
        """List the files and folders in a folder; links are left out."""


class V2HealthCalls(Calls[C]):
    """``v2.health``."""

    @endpoint("GET", "/api/health")
    def get(self) -> Health:
        """Say that the server is well."""


class V2IntegrationCalls(Calls[C]):
    """``v2.integration``."""

    attempt: V2IntegrationAttemptCalls[C]
    connect: V2IntegrationConnectCalls[C]

    @endpoint("GET", "/api/integration/{integrationID}")
    def get(self, integration_id: str) -> Located[IntegrationInfo]:
        """Get one of what a person may connect."""

    @endpoint("GET", "/api/integration")
    def list(self) -> Located[list[IntegrationInfo]]:
        """List what a person may connect, and what of it is connected."""


class V2LocationCalls(Calls[C]):
    """``v2.location``."""

    @endpoint("GET", "/api/location")
    def get(self) -> LocationInfo:
        """Get the location that a request is about: its directory and its project."""


class V2ModelCalls(Calls[C]):
    """``v2.model``."""

    @endpoint("GET", "/api/model")
    def list(self) -> Located[list[ModelV2Info]]:
        """List the models that can be called."""


class V2PermissionCalls(Calls[C]):
    """``v2.permission``."""

    request: V2PermissionRequestCalls[C]
    saved: V2PermissionSavedCalls[C]


class V2ProjectCopyCalls(Calls[C]):
    """``v2.project_copy``."""

    @endpoint("POST", "/experimental/project/{projectID}/copy")
    def create(self, project_id: str, body: CopyBody) -> ProjectCopy:
        """Make a copy of the project's last commit in a new folder below the one that is named."""

    @endpoint("DELETE", "/experimental/project/{projectID}/copy")
    def remove(self, project_id: str, body: CopyRemoveBody) -> None:
        """Remove a copy; without `force` one that holds work of its own stays."""

    @endpoint("POST", "/experimental/project/{projectID}/copy/refresh")
    def refresh(self, project_id: str) -> None:
        """Refresh the list of copies. Does nothing: the list is made anew for each request."""


class V2ProviderCalls(Calls[C]):
    """``v2.provider``."""

    @endpoint("GET", "/api/provider/{providerID}")
    def get(self, provider_id: str) -> Located[ProviderV2Info]:
        """Get a provider that can be called."""

    @endpoint("GET", "/api/provider")
    def list(self) -> Located[list[ProviderV2Info]]:
        """List the providers that can be called."""


class V2PtyCalls(Calls[C]):
    """``v2.pty``."""

    @endpoint("POST", "/api/pty")
    def create(self, body: PtyCreateBody | None = None) -> Located[Pty]:
        """Open a terminal and start a program in it."""

    @endpoint("GET", "/api/pty/{ptyID}")
    def get(self, pty_id: str) -> Located[Pty]:
        """Get a terminal."""

    @endpoint("PUT", "/api/pty/{ptyID}")
    def update(self, pty_id: str, body: PtyUpdateBody | None = None) -> Located[Pty]:
        """Set a terminal's title and size."""

    @endpoint("DELETE", "/api/pty/{ptyID}")
    def remove(self, pty_id: str) -> None:
        """End a terminal's program and forget the terminal."""

    @endpoint("POST", "/api/pty/{ptyID}/connect-token")
    def connect_token(self, pty_id: str) -> Located[PtyTicketConnectToken]:
        """Get a ticket for a connection; asked for with the header ``x-opencode-ticket: 1``."""

    @endpoint("GET", "/api/pty")
    def list(self) -> Located[list[Pty]]:
        """List the terminals, oldest first."""


class V2QuestionCalls(Calls[C]):
    """``v2.question``."""

    request: V2QuestionRequestCalls[C]


class V2ReferenceCalls(Calls[C]):
    """``v2.reference``."""

    @endpoint("GET", "/api/reference")
    def list(self) -> Located[list[ReferenceInfo]]:
        """List the references. Always empty: instar has none."""


class V2SkillCalls(Calls[C]):
    """``v2.skill``."""

    @endpoint("GET", "/api/skill")
    def list(self) -> Located[list[SkillV2Info]]:
        """List the skills."""


class V2Calls(Calls[C]):
    """``v2``."""

    agent: V2AgentCalls[C]
    command: V2CommandCalls[C]
    credential: V2CredentialCalls[C]
    event: V2EventCalls[C]
    fs: V2FsCalls[C]
    health: V2HealthCalls[C]
    integration: V2IntegrationCalls[C]
    location: V2LocationCalls[C]
    model: V2ModelCalls[C]
    permission: V2PermissionCalls[C]
    project_copy: V2ProjectCopyCalls[C]
    provider: V2ProviderCalls[C]
    pty: V2PtyCalls[C]
    question: V2QuestionCalls[C]
    reference: V2ReferenceCalls[C]
    session: V2SessionCalls[C]
    skill: V2SkillCalls[C]
