"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.api.definition import Agent, LogBody, Skill
from instar.client.connection import AsyncConnection
from instar.client.request import Request


class AppCalls:
    """``app``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def agents(self) -> list[Agent]:
        """List the agents: the default one first, since clients begin with the first one that they may use."""
        answer: list[Agent] = await self._connection.ask(Request("GET", "/agent"), list[Agent])
        return answer

    async def skills(self) -> list[Skill]:
        """List the skills, with their texts."""
        answer: list[Skill] = await self._connection.ask(Request("GET", "/skill"), list[Skill])
        return answer

    async def log(self, body: LogBody) -> bool:
        """Write a line into the log."""
        answer: bool = await self._connection.ask(Request("POST", "/log", body=body), bool)
        return answer
