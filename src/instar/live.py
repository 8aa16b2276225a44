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
from collections.abc import Coroutine, Sequence
from typing import Any

from instar.event import Idle, SessionStatus
from instar.lease import RENEW_MS
from instar.message import Origin, Session, User, WithParts
from instar.prefix import Prefix
from instar.store import Lease, PutOrigin
from instar.tuning import Tuning


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Live:
    """An open session. `history` is what is stored, in order; `frozen` are system prompts composed once."""

    def __init__(self, session: Session, history: list[WithParts], fence: int | None = None) -> None:
        self.session = session
        self.history = history
        self.frozen: dict[str, list[str]] = {}
        self._origins: dict[str, Origin] = {}
        self._prefix: Prefix | None = None
        self._system: Sequence[str] | None = None
        self._tuning = Tuning()
        self.reading = asyncio.Lock()
        self._status: SessionStatus = Idle()
        self._turn: asyncio.Task[None] | None = None
        self._beside: asyncio.Task[None] | None = None
        self._judging: set[asyncio.Task[Any]] = set()
        self._abort = asyncio.Event()
        self._wanted = False
        self._settled: str | None = None
        self._continued: dict[str, int] = {}
        self._holds = 0
        self._lease: Lease | None = None
        self._renewed = (0, 0.0)
        self._fence = fence
        self._root_id: str | None = None
        self._deleted = False
        self._why: str | None = None
        self._spoken = 0.0

    @property
    def id(self) -> str:
        """The session's id."""
        return self.session.id

    @property
    def root_id(self) -> str | None:
        """The session at the top of its tree; None when nobody looked yet."""
        return self._root_id

    def root(self, session_id: str) -> None:
        """The top of its tree was found."""
        self._root_id = session_id

    @property
    def deleted(self) -> bool:
        """Whether the session is gone: whatever still runs in it may do nothing more."""
        return self._deleted

    def delete(self) -> None:
        """The session was deleted."""
        self._deleted = True

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

    def load(
        self, session: Session, history: list[WithParts], origins: dict[str, Origin] | None = None
    ) -> None:
        """Take what the store holds for what is: another process went on with the session."""
        self.session, self.history, self._origins = session, history, origins or {}
        self._prefix = None

    @property
    def prefix(self) -> Prefix | None:
        """The last request that this process made for the session; None before its first one."""
        return self._prefix

    @property
    def system(self) -> Sequence[str] | None:
        """The system prompt of that request."""
        return self._system

    def keep_prefix(self, prefix: Prefix, system: Sequence[str]) -> None:
        """A request was answered: the next one should begin with it."""
        self._prefix, self._system = prefix, system

    @property
    def tuning(self) -> Tuning:
        """What was set in the session over what the settings say."""
        return self._tuning

    def untune(self) -> None:
        """Nothing is set in the session any more."""
        self._tuning = Tuning()

    # -- where its messages come from ----------------------------------------------------------------

    def origin_of(self, message_id: str) -> Origin:
        """Return where a message comes from; a person's is what nobody said anything else about."""
        return self._origins.get(message_id, Origin())

    @property
    def origin(self) -> Origin:
        """Where the message comes from that is answered now, or was last; an empty session's is a person's."""
        last = next((m.info for m in reversed(self.history) if isinstance(m.info, User)), None)
        return Origin() if last is None else self.origin_of(last.id)

    def attribute(self, message_id: str, origin: Origin) -> list[PutOrigin]:
        """A message of `origin` is about to be saved. Return what is to be written with it."""
        if origin == Origin():
            return []
        self._origins[message_id] = origin
        return [PutOrigin(message_id, self.id, origin)]

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
        self._why, self._spoken = None, time.monotonic()
        self._turn = asyncio.create_task(work, name=f"turn {self.id}")

    def accompany(self, task: asyncio.Task[None]) -> None:
        """Let a task run beside the turn: it is cancelled when the turn is aborted."""
        self._beside = task

    async def judge(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Wait for what looks at a prompt before it is taken; False: `dismiss` ended it. Raises what `work` raises."""
        task = asyncio.create_task(work)
        self._judging.add(task)
        try:
            await task
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if waiting is None or waiting.cancelling():
                raise
            return False
        finally:
            self._judging.discard(task)
        return True

    async def dismiss(self) -> bool:
        """End what looks at prompts that are not taken yet, with all that it started; True when something did."""
        judging = list(self._judging)
        for task in judging:
            task.cancel()
        if judging:
            await asyncio.wait(judging)
        return bool(judging)

    def stop(self, why: str | None = None) -> bool:
        """The turn is to end, and what was added so far with it; `why` if no person did. True the first time."""
        self._wanted = False
        self._why = self._why or why
        first = not self._abort.is_set()
        self._abort.set()
        return first

    @property
    def why(self) -> str | None:
        """Why the turn was ended, where no person ended it."""
        return self._why

    def quiet(self) -> float:
        """Return for how many seconds this turn has run, or since a person last spoke in it."""
        return time.monotonic() - self._spoken

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

    def hear(self) -> None:
        """Somebody prompted: what made the session go on by itself is counted anew, and the turn's time."""
        self._continued.clear()
        self._spoken = time.monotonic()

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
        self._renewed = (now(), time.monotonic())

    @property
    def is_kept(self) -> bool:
        """Whether the lease is ours for so long yet that another hand need not renew it."""
        return self._lease is not None and self.lease_age() < RENEW_MS

    def lease_age(self) -> float:
        """Return the ms since the lease was renewed, by the clock that says more: one stands still in a sleep."""
        wall, steady = self._renewed
        return max(now() - wall, (time.monotonic() - steady) * 1000)

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
