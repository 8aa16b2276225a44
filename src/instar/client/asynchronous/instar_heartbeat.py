"""Made by tests/client/generator.py from the server's operations; change those instead."""

from instar.client.connection import AsyncConnection
from instar.client.request import Request
from instar.client.shapes.evolve import BeatEntry, HeartbeatStatus, Paused, ReasonBody


class InstarHeartbeatCalls:
    """``instar.heartbeat``."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def status(self) -> HeartbeatStatus:
        """Tell of the next and the last heartbeats, their session, what was skipped and why."""
        answer: HeartbeatStatus = await self._connection.ask(
            Request("GET", "/instar/heartbeat"), HeartbeatStatus
        )
        return answer

    async def now(self) -> BeatEntry:
        """Let the heart beat now; answers when the beat is over."""
        answer: BeatEntry = await self._connection.ask(Request("POST", "/instar/heartbeat/now"), BeatEntry)
        return answer

    async def pause(self, body: ReasonBody | None = None) -> Paused:
        """Let no heartbeat begin until they are resumed; one that runs goes on."""
        answer: Paused = await self._connection.ask(
            Request("POST", "/instar/heartbeat/pause", body=body), Paused
        )
        return answer

    async def resume(self) -> Paused:
        """Let heartbeats go on; what came due meanwhile is skipped. A stop must have been resumed before."""
        answer: Paused = await self._connection.ask(Request("POST", "/instar/heartbeat/resume"), Paused)
        return answer
