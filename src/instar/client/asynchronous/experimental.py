"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.client.asynchronous.experimental_capabilities import ExperimentalCapabilitiesCalls
from instar.client.asynchronous.experimental_console import ExperimentalConsoleCalls
from instar.client.asynchronous.experimental_control_plane import ExperimentalControlPlaneCalls
from instar.client.asynchronous.experimental_project_copy import ExperimentalProjectCopyCalls
from instar.client.asynchronous.experimental_resource import ExperimentalResourceCalls
from instar.client.asynchronous.experimental_session import ExperimentalSessionCalls
from instar.client.asynchronous.experimental_workspace import ExperimentalWorkspaceCalls
from instar.client.connection import AsyncConnection


class ExperimentalCalls:
    """``experimental``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.capabilities = ExperimentalCapabilitiesCalls(connection)
        self.console = ExperimentalConsoleCalls(connection)
        self.control_plane = ExperimentalControlPlaneCalls(connection)
        self.project_copy = ExperimentalProjectCopyCalls(connection)
        self.resource = ExperimentalResourceCalls(connection)
        self.session = ExperimentalSessionCalls(connection)
        self.workspace = ExperimentalWorkspaceCalls(connection)
