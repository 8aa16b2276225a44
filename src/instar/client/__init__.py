"""The typed client for a running server: `Client` waits for each answer, `AsyncClient` is awaited.

``client.session.prompt(session_id, PromptBody.text("hi"))`` is ``POST /session/{sessionID}/message``: the methods are
named by the operations' ids, and tests compare each with the server's own declaration. Errors are `NotFound`,
`Invalid`, `Busy`, `ApiError` and `Unreachable`.

May import `api` and the words. Begin with `endpoint.py`, then `session.py`.
"""

from typing import Any, Generic

from instar.api.session import Busy, CommandBody, Invalid, NotFound, PromptBody, SessionBody
from instar.client.connection import AsyncConnection, Connection
from instar.client.endpoint import C
from instar.client.experimental import ExperimentalCalls
from instar.client.instar import InstarCalls
from instar.client.project import (
    AppCalls,
    CommandCalls,
    FileCalls,
    FindCalls,
    FormatterCalls,
    InstanceCalls,
    LspCalls,
    PathCalls,
    ProjectCalls,
    ToolCalls,
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
from instar.client.terminal import PtyCalls, TuiCalls
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


class Operations(Generic[C]):
    """A server's operations, by their names."""

    def __init__(self, connection: C) -> None:
        self.app = AppCalls(connection)
        self.auth = AuthCalls(connection)
        self.command = CommandCalls(connection)
        self.config = ConfigCalls(connection)
        self.event = EventCalls(connection)
        self.experimental = ExperimentalCalls(connection)
        self.file = FileCalls(connection)
        self.find = FindCalls(connection)
        self.formatter = FormatterCalls(connection)
        self.global_ = GlobalCalls(connection)
        self.instance = InstanceCalls(connection)
        self.instar = InstarCalls(connection)
        self.lsp = LspCalls(connection)
        self.mcp = McpCalls(connection)
        self.part = PartCalls(connection)
        self.path = PathCalls(connection)
        self.permission = PermissionCalls(connection)
        self.project = ProjectCalls(connection)
        self.provider = ProviderCalls(connection)
        self.pty = PtyCalls(connection)
        self.question = QuestionCalls(connection)
        self.session = SessionCalls(connection)
        self.sync = SyncCalls(connection)
        self.tool = ToolCalls(connection)
        self.tui = TuiCalls(connection)
        self.v2 = V2Calls(connection)
        self.vcs = VcsCalls(connection)
        self.worktree = WorktreeCalls(connection)


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
