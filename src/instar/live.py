"""An open session in memory: its row, its messages, and the state of the turn that runs in it.

No other room assigns a field: each change is a method named after what happened. The turn's states::

    idle ── begin ──▶ running ── stop ──▶ stopping
      ▲                  │                   │
      └───── finish ─────┴────── finish ─────┘

`want` is heard in every state, and `take_up` hears it once: a prompt that comes while a turn runs, ends,
fails or is aborted is looked at by that turn or by the next one, never by none. Holding is apart from the
turn: a process holds a session while it adds to it or runs it, and has the lease for as long.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

from instar.event import Idle, SessionStatus
from instar.message import Session, WithParts
from instar.store import Lease


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Live:
    """An open session. `history` is what is stored, in order; `frozen` are system prompts composed once."""

    def __init__(self, session: Session, history: list[WithParts], fence: int | None = None) -> None:
        self.session = session
        self.history = history
        self.frozen: dict[str, list[str]] = {}
        self.reading = asyncio.Lock()
        self._status: SessionStatus = Idle()
        self._turn: asyncio.Task[None] | None = None
        self._beside: asyncio.Task[None] | None = None
        self._abort = asyncio.Event()
        self._wanted = False
        self._settled: str | None = None
        self._continued: dict[str, int] = {}
        self._holds = 0
        self._lease: Lease | None = None
        self._fence = fence

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    def find(self, message_id: str) -> WithParts | None:
        """Return the message with this id, looking from the newest back."""
        return next((message for message in reversed(self.history) if message.info.id == message_id), None)

    def next_time(self) -> int:
        """Return the time of the session's next message, in ms: after its last one, whatever the clock says.

        Messages are read in the order of their times; a client's own id, or a clock that was set back, must
        not move them.
        """
        if not self.history:
            return now()
        time = self.history[-1].info.time
        return max(now(), time.created + 1, getattr(time, "completed", None) or 0)

    def end_time(self, created: int) -> int:
        """Return the time at which an answer ends, in ms: after each message that came while it was written.

        So the two times say which messages those are (`reminder`).
        """
        last = self.history[-1].info.time.created
        return max(now(), created, last + 1 if last > created else 0)

    def load(self, session: Session, history: list[WithParts]) -> None:
        """Take what the store holds for what is: another process went on with the session."""
        self.session, self.history = session, history

    # -- the turn ------------------------------------------------------------------------------------

    @property
    def status(self) -> SessionStatus:
        """What was last published of what the session does."""
        return self._status

    def show(self, status: SessionStatus) -> None:
        """Note what is published of what the session does."""
        self._status = status

    @property
    def turn(self) -> asyncio.Task[None] | None:
        """The turn that runs, or None."""
        return self._turn

    @property
    def abort(self) -> asyncio.Event:
        """Set once the turn is to end. Each turn has its own: what still holds the last one's goes on seeing that."""
        return self._abort

    def want(self) -> None:
        """Something was added that a turn has to look at."""
        self._wanted = True

    @property
    def wanted(self) -> bool:
        """Whether something was added that no turn has looked at."""
        return self._wanted

    def take_up(self) -> bool:
        """Whether something was added since this was last asked; it counts as looked at now."""
        wanted, self._wanted = self._wanted, False
        return wanted

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a turn; none runs yet."""
        self._abort = asyncio.Event()
        self._turn = asyncio.create_task(work, name=f"turn {self.id}")

    def accompany(self, task: asyncio.Task[None]) -> None:
        """Let a task run beside the turn: it is cancelled when the turn is aborted."""
        self._beside = task

    def stop(self) -> bool:
        """The turn is to end, and what was added so far with it. True the first time in a turn."""
        self._wanted = False
        first = not self._abort.is_set()
        self._abort.set()
        return first

    def cancel(self, turn: asyncio.Task[None]) -> None:
        """Cancel a turn's task, and what runs beside it. The turn that began after it is left alone."""
        turn.cancel()
        if self._beside is not None:
            self._beside.cancel()

    def finish(self) -> None:
        """The turn is over, however it ended."""
        self._turn = None

    # -- going on ------------------------------------------------------------------------------------

    def settle(self, answer_id: str) -> bool:
        """An answer is final. True the first time: plugins are told once, however often the loop comes by."""
        first, self._settled = self._settled != answer_id, answer_id
        return first

    def continued(self, source: str | None = None) -> int:
        """How many follow-ups, of one source or of all, were taken up since a person last spoke."""
        return sum(self._continued.values()) if source is None else self._continued.get(source, 0)

    def go_on(self, source: str) -> None:
        """A follow-up of `source` was taken up."""
        self._continued[source] = self._continued.get(source, 0) + 1

    def hear_person(self) -> None:
        """A person spoke: what made the session go on by itself is counted anew."""
        self._continued.clear()

    # -- holding -------------------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        """Whether this process holds the session: nobody else may change it."""
        return self._holds > 0

    def hold(self) -> None:
        """One more of this process's hands holds the session."""
        self._holds += 1

    def keep(self, lease: Lease | None) -> None:
        """The lease was taken or renewed; None when another process has it."""
        self._lease = lease

    def catch_up(self) -> bool:
        """Whether another process had the lease since we last did; our reading counts as due then."""
        if self._lease is None or self._lease.fence == self._fence:
            return False
        self._fence = self._lease.fence
        return True

    def let_go(self) -> Lease | None:
        """One hand lets go. Return the lease when it was the last: it is to be given back."""
        self._holds -= 1
        if self._holds > 0:
            return None
        lease, self._lease = self._lease, None
        return lease
