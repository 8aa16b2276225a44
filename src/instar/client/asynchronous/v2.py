"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.client.asynchronous.v2_agent import V2AgentCalls
from instar.client.asynchronous.v2_command import V2CommandCalls
from instar.client.asynchronous.v2_credential import V2CredentialCalls
from instar.client.asynchronous.v2_event import V2EventCalls
from instar.client.asynchronous.v2_fs import V2FsCalls
from instar.client.asynchronous.v2_health import V2HealthCalls
from instar.client.asynchronous.v2_integration import V2IntegrationCalls
from instar.client.asynchronous.v2_location import V2LocationCalls
from instar.client.asynchronous.v2_model import V2ModelCalls
from instar.client.asynchronous.v2_permission import V2PermissionCalls
from instar.client.asynchronous.v2_project_copy import V2ProjectCopyCalls
from instar.client.asynchronous.v2_provider import V2ProviderCalls
from instar.client.asynchronous.v2_pty import V2PtyCalls
from instar.client.asynchronous.v2_question import V2QuestionCalls
from instar.client.asynchronous.v2_reference import V2ReferenceCalls
from instar.client.asynchronous.v2_session import V2SessionCalls
from instar.client.asynchronous.v2_skill import V2SkillCalls
from instar.client.connection import AsyncConnection


class V2Calls:
    """``v2``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self.agent = V2AgentCalls(connection)
        self.command = V2CommandCalls(connection)
        self.credential = V2CredentialCalls(connection)
        self.event = V2EventCalls(connection)
        self.fs = V2FsCalls(connection)
        self.health = V2HealthCalls(connection)
        self.integration = V2IntegrationCalls(connection)
        self.location = V2LocationCalls(connection)
        self.model = V2ModelCalls(connection)
        self.permission = V2PermissionCalls(connection)
        self.project_copy = V2ProjectCopyCalls(connection)
        self.provider = V2ProviderCalls(connection)
        self.pty = V2PtyCalls(connection)
        self.question = V2QuestionCalls(connection)
        self.reference = V2ReferenceCalls(connection)
        self.session = V2SessionCalls(connection)
        self.skill = V2SkillCalls(connection)
