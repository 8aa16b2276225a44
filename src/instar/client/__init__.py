"""The typed client for a running server: `Client` waits for each answer, `AsyncClient` is awaited.

``client.session.prompt(session_id, PromptBody.text("hi"))`` is ``POST /session/{sessionID}/message``: the methods are
named by the operations' ids, and tests compare each with the server's own declaration. Errors are `NotFound`,
`Invalid`, `Busy`, `ApiError` and `Unreachable`.

May import `api` and the words. Begin with `endpoint.py`, then `session.py`.
"""

from typing import Any

from instar.api.session import Busy, CommandBody, Invalid, NotFound, PromptBody, SessionBody
from instar.client.connection import AsyncConnection, Connection
from instar.client.endpoint import C, Calls
from instar.client.instar import InstarCalls
from instar.client.project import (
    AppCalls,
    CommandCalls,
    ExperimentalCalls,
    FileCalls,
    FindCalls,
    FormatterCalls,
    InstanceCalls,
    LspCalls,
    PathCalls,
    ProjectCalls,
    PtyCalls,
    ToolCalls,
    TuiCalls,
    VcsCalls,
    WorktreeCalls,
)
from instar.client.request import ApiError, Request, Unreachable
from instar.client.session import PartCalls, PermissionCalls, QuestionCalls, SessionCalls
from instar.client.settings import (
    AuthCalls,
    ConfigCalls,
    EventCalls,
    GlobalCalls,
    McpCalls,
    ProviderCalls,
    SyncCalls,
)
from instar.client.v2 import V2Calls

__all__ = [
    "ApiError",
    "AsyncClient",
    "Busy",
    "Client",
    "CommandBody",
    "Invalid",
    "NotFound",
    "PromptBody",
    "Request",
    "SessionBody",
    "Unreachable",
]


class Operations(Calls[C]):
    """A server's operations, by their names."""

    app: AppCalls[C]
    auth: AuthCalls[C]
    command: CommandCalls[C]
    config: ConfigCalls[C]
    event: EventCalls[C]
    experimental: ExperimentalCalls[C]
    file: FileCalls[C]
    find: FindCalls[C]
    formatter: FormatterCalls[C]
    global_: GlobalCalls[C]
    instance: InstanceCalls[C]
    instar: InstarCalls[C]
    lsp: LspCalls[C]
    mcp: McpCalls[C]
    part: PartCalls[C]
    path: PathCalls[C]
    permission: PermissionCalls[C]
    project: ProjectCalls[C]
    provider: ProviderCalls[C]
    pty: PtyCalls[C]
    question: QuestionCalls[C]
    session: SessionCalls[C]
    sync: SyncCalls[C]
    tool: ToolCalls[C]
    tui: TuiCalls[C]
    v2: V2Calls[C]
    vcs: VcsCalls[C]
    worktree: WorktreeCalls[C]


class AsyncClient(AsyncConnection, Operations[AsyncConnection]):
    """A server's operations, to be awaited."""

    def __init__(self, url: str = "http://127.0.0.1:4096", **how: Any) -> None:
        AsyncConnection.__init__(self, url, **how)
        Operations.__init__(self, self)


class Client(Connection, Operations[Connection]):
    """A server's operations; each method returns with the answer."""

    def __init__(self, url: str = "http://127.0.0.1:4096", **how: Any) -> None:
        Connection.__init__(self, url, **how)
        Operations.__init__(self, self)
