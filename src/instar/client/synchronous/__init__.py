"""Made by tests/client/generator.py from the server's operations; change those instead."""

from typing import Any

from instar.client.connection import Connection
from instar.client.synchronous.app import AppCalls
from instar.client.synchronous.auth import AuthCalls
from instar.client.synchronous.command import CommandCalls
from instar.client.synchronous.config import ConfigCalls
from instar.client.synchronous.event import EventCalls
from instar.client.synchronous.experimental import ExperimentalCalls
from instar.client.synchronous.file import FileCalls
from instar.client.synchronous.find import FindCalls
from instar.client.synchronous.formatter import FormatterCalls
from instar.client.synchronous.global_ import GlobalCalls
from instar.client.synchronous.instance import InstanceCalls
from instar.client.synchronous.instar import InstarCalls
from instar.client.synchronous.lsp import LspCalls
from instar.client.synchronous.mcp import McpCalls
from instar.client.synchronous.part import PartCalls
from instar.client.synchronous.path import PathCalls
from instar.client.synchronous.permission import PermissionCalls
from instar.client.synchronous.project import ProjectCalls
from instar.client.synchronous.provider import ProviderCalls
from instar.client.synchronous.pty import PtyCalls
from instar.client.synchronous.question import QuestionCalls
from instar.client.synchronous.session import SessionCalls
from instar.client.synchronous.sync import SyncCalls
from instar.client.synchronous.tool import ToolCalls
from instar.client.synchronous.tui import TuiCalls
from instar.client.synchronous.v2 import V2Calls
from instar.client.synchronous.vcs import VcsCalls
from instar.client.synchronous.worktree import WorktreeCalls


class Client(Connection):
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
