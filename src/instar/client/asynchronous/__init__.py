"""Made by tests/client/generator.py from the server's operations; change those instead."""

from typing import Any

from instar.client.asynchronous.app import AppCalls
from instar.client.asynchronous.auth import AuthCalls
from instar.client.asynchronous.command import CommandCalls
from instar.client.asynchronous.config import ConfigCalls
from instar.client.asynchronous.event import EventCalls
from instar.client.asynchronous.experimental import ExperimentalCalls
from instar.client.asynchronous.file import FileCalls
from instar.client.asynchronous.find import FindCalls
from instar.client.asynchronous.formatter import FormatterCalls
from instar.client.asynchronous.global_ import GlobalCalls
from instar.client.asynchronous.instance import InstanceCalls
from instar.client.asynchronous.instar import InstarCalls
from instar.client.asynchronous.lsp import LspCalls
from instar.client.asynchronous.mcp import McpCalls
from instar.client.asynchronous.part import PartCalls
from instar.client.asynchronous.path import PathCalls
from instar.client.asynchronous.permission import PermissionCalls
from instar.client.asynchronous.project import ProjectCalls
from instar.client.asynchronous.provider import ProviderCalls
from instar.client.asynchronous.pty import PtyCalls
from instar.client.asynchronous.question import QuestionCalls
from instar.client.asynchronous.session import SessionCalls
from instar.client.asynchronous.sync import SyncCalls
from instar.client.asynchronous.tool import ToolCalls
from instar.client.asynchronous.tui import TuiCalls
from instar.client.asynchronous.v2 import V2Calls
from instar.client.asynchronous.vcs import VcsCalls
from instar.client.asynchronous.worktree import WorktreeCalls
from instar.client.connection import AsyncConnection


class AsyncClient(AsyncConnection):
    """A server's operations, by their names (`instar.client`)."""

    def __init__(self, url: str = "http://127.0.0.1:4096", **how: Any) -> None:
        super().__init__(url, **how)
        self.app = AppCalls(self)
        self.auth = AuthCalls(self)
        self.command = CommandCalls(self)
        self.config = ConfigCalls(self)
        self.event = EventCalls(self)
        self.experimental = ExperimentalCalls(self)
        self.file = FileCalls(self)
        self.find = FindCalls(self)
        self.formatter = FormatterCalls(self)
        self.global_ = GlobalCalls(self)
        self.instance = InstanceCalls(self)
        self.instar = InstarCalls(self)
        self.lsp = LspCalls(self)
        self.mcp = McpCalls(self)
        self.part = PartCalls(self)
        self.path = PathCalls(self)
        self.permission = PermissionCalls(self)
        self.project = ProjectCalls(self)
        self.provider = ProviderCalls(self)
        self.pty = PtyCalls(self)
        self.question = QuestionCalls(self)
        self.session = SessionCalls(self)
        self.sync = SyncCalls(self)
        self.tool = ToolCalls(self)
        self.tui = TuiCalls(self)
        self.v2 = V2Calls(self)
        self.vcs = VcsCalls(self)
        self.worktree = WorktreeCalls(self)
