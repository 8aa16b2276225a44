"""An open session in memory: its row, its messages, and the state of the turn that runs in it.

The turn's states::

    idle ── begin ──▶ running ── stop ──▶ stopping
      ▲                  │                   │
      └───── turn = None ┴───────────────────┘

`wanted` may be set in every state, and `take_wanted` resets it: a prompt that comes while a turn runs, ends,
fails or is aborted is looked at by that turn or by the next one, never by none. Holding is apart from the
turn: a process holds a session while it adds to it or runs it, and has the lease for as long.
"""

import asyncio
import time
from bisect import bisect_left, insort
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from instar.api.session import NotFound
from instar.event import Idle, SessionStatus
from instar.limits.budget import CallLimits, Ceiling, tighter
from instar.message import Message, Origin, Session, WithParts, newest_user
from instar.store import Lease, PutOrigin

if TYPE_CHECKING:
    from instar.provider.prompt_cache import Prefix


def now() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class Overrides:
    """What was set in one session over what the settings say; in memory only. None stands for what the settings say.

    A step reads it anew, so that a change holds from the next step of the running turn on. Whoever sets something
    checks it first. `iterations`: the model calls of a turn, from 1. `window`: a conversation is summarised as if the
    model's window had no more tokens than this. `retry_mode`: whether a provider that fails is tried a number of
    times, or until the turn is ended. `ceiling`: no more than this may be used. `off`: tools that need one of these
    permissions are not offered.
    """

    def __init__(self) -> None:
        self.iterations: int | None = None
        self.window: int | None = None
        self.retry_mode: Literal["standard", "persistent"] | None = None
        self.ceiling = Ceiling()
        self.off: set[str] = set()
        self.model: str | None = None
        self._instead: str | None = None

    def set_model(self, model: str | None, instead: str | None) -> None:
        """Let `model` answer messages that ask for the model `instead`; None: for what the next one asks for.

        Both are ``provider/model``.
        """
        self.model, self._instead = model, instead

    def model_for(self, asked: str) -> str:
        """Return the model that answers a message which asks for `asked`.

        A message that asks for another one than those before it is a person's choice, made later: what was set
        is forgotten.
        """
        if self.model is None:
            return asked
        if self._instead is None:
            self._instead = asked
        elif self._instead != asked:
            self.set_model(None, None)
        return self.model or asked

    def limits(self, limits: CallLimits) -> CallLimits:
        """Return the limits that hold in the session, of those that hold everywhere."""
        if self.iterations is None and self.ceiling == Ceiling():
            return limits
        return msgspec.structs.replace(
            limits,
            steps=self.iterations or limits.steps,
            session=tighter(limits.session, self.ceiling),
            own=self.ceiling,
        )


class SessionState:
    """An open session.

    `history` is what is stored, in order. `system_prompts` are those that were composed, by key; `overrides` what
    was set in the session over the settings. `prefix` and `system` are the last request that this process made.
    `conversation` is what `instar.turn.context` keeps of it, `settled` how many messages, from the first on, were not
    saved since. `root_id` is the session at the top of its tree, None when nobody looked yet. `turn` is the turn that
    runs, `beside` a task that is cancelled with it, `abort` its own event: what still holds the last turn's goes on
    seeing that set.
    `stale`: another process changed what is stored. `leaves`: this process ends, and another one goes on with the turn.
    `broken`: the last turn ended before its answer did, since the store failed, the lease was lost, or it `leaves`.
    `wanted`: something was added that no turn has looked at. `why`: why the turn was ended, where no person ended it.
    """

    def __init__(self, session: Session, history: list[WithParts], fence: int | None = None) -> None:
        self.id = session.id
        self.session = session
        self.history = history
        self.system_prompts: dict[str, list[str]] = {}
        self.overrides = Overrides()
        self.prefix: Prefix | None = None
        self.system: Sequence[str] | None = None
        self.conversation: Any = None
        self.settled = 0
        self.root_id: str | None = None
        self.deleted = False
        self.stale = self.broken = self.leaves = False
        self.reading = asyncio.Lock()
        self.status: SessionStatus = Idle()
        self.turn: asyncio.Task[None] | None = None
        self.beside: asyncio.Task[None] | None = None
        self.abort = asyncio.Event()
        self.wanted = False
        self.why: str | None = None
        self._origins: dict[str, Origin] = {}
        self._hooks: set[asyncio.Task[Any]] = set()
        self._settled: str | None = None
        self._continued: dict[str, int] = {}
        self._spoken = 0.0
        self._holds = 0
        self._lease: Lease | None = None
        self._renewed = (0, 0.0)
        self._fence = fence

    def find(self, message_id: str) -> WithParts | None:
        """Return the message with this id, looking from the newest back."""
        return next((message for message in reversed(self.history) if message.info.id == message_id), None)

    def find_as_it_stands(self, message: Message) -> WithParts | None:
        """Return the message with the id and time of `message`: a new one is not looked for among all."""
        place = bisect_left(self.history, _order(message), key=_order_of)
        found = self.history[place : place + 1]
        return found[0] if found and found[0].info.id == message.id else None

    def saved(self, message_id: str) -> None:
        """Note that a message is saved anew: what requests hold of it, and of those after it, is made anew."""
        for place in range(len(self.history) - 1, -1, -1):
            if self.history[place].info.id == message_id:
                self.settled = min(self.settled, place)
                return

    def message(self, message_id: str) -> WithParts:
        """Return the message with this id. Raises `NotFound`."""
        return self.history[place_of(self.history, message_id)]

    def next_time(self) -> int:
        """Return the time of the session's next message, in ms: after its last one, whatever the clock says.

        Messages are read in the order of their times; a client's own id, or a clock that was set back, must
        not move them.
        """
        if not self.history:
            return now()
        time = self.history[-1].info.time
        return max(now(), time.created + 1, getattr(time, "completed", None) or 0)

    def insert(self, message: WithParts) -> None:
        """Put a new message into the history, where it is read in again: by its time, then its id."""
        insort(self.history, message, key=_order_of)

    def end_time(self, created: int) -> int:
        """Return the time at which an answer ends, in ms: after each message that came while it was written.

        So the two times say which messages those are (`turn.context`).
        """
        last = self.history[-1].info.time.created
        return max(now(), created, last + 1 if last > created else 0)

    def load(
        self, session: Session, history: list[WithParts], origins: dict[str, Origin] | None = None
    ) -> None:
        """Load the stored messages: another process continued the session."""
        self.session, self.history, self._origins = session, history, origins or {}
        self.stale = False
        self.prefix = None

    def origin_of(self, message_id: str) -> Origin:
        """Return the origin of a message; a person's is the default."""
        return self._origins.get(message_id, Origin())

    @property
    def origin(self) -> Origin:
        """Return the origin of the message that is answered now, or was last; a person's in an empty session."""
        last = newest_user(self.history)
        return Origin() if last is None else self.origin_of(last.id)

    def attribute(self, message_id: str, origin: Origin) -> list[PutOrigin]:
        """Note the origin of a message before it is saved. Returns the rows to write with it."""
        if origin == Origin():
            return []
        self._origins[message_id] = origin
        return [PutOrigin(message_id, self.id, origin)]

    def take_wanted(self) -> bool:
        """Return `wanted` and reset it."""
        wanted, self.wanted = self.wanted, False
        return wanted

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a turn; none runs yet."""
        self.abort = asyncio.Event()
        self.why, self._spoken, self.broken = None, time.monotonic(), False
        self.turn = asyncio.create_task(work, name=f"turn {self.id}")

    async def await_hooks(self, work: Coroutine[Any, Any, Any]) -> bool:
        """Wait for the hooks of a new prompt. Returns false if `cancel_hooks` ended them.

        Raises what `work` raises.
        """
        task = asyncio.create_task(work)
        self._hooks.add(task)
        try:
            await task
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if waiting is None or waiting.cancelling():
                raise
            return False
        finally:
            self._hooks.discard(task)
        return True

    @property
    def is_awaiting_hooks(self) -> bool:
        """Whether hooks look at a prompt that is not saved yet."""
        return bool(self._hooks)

    async def cancel_hooks(self) -> bool:
        """Cancel the hooks of prompts that are not saved yet. Returns whether there were any."""
        running = list(self._hooks)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        return bool(running)

    def stop(self, why: str | None = None) -> bool:
        """Mark the turn and its messages as ending; `why` if no person did. Returns true the first time."""
        self.wanted = False
        self.why = self.why or why
        first = not self.abort.is_set()
        self.abort.set()
        return first

    def quiet(self) -> float:
        """Return the seconds since this turn began, or since a person last prompted in it."""
        return time.monotonic() - self._spoken

    def cancel(self, turn: asyncio.Task[None]) -> None:
        """Cancel a turn's task, and what runs beside it, but not a later turn."""
        turn.cancel()
        if self.beside is not None:
            self.beside.cancel()

    def settle(self, answer_id: str) -> bool:
        """Note that an answer is final. Returns true the first time: plugins hear of it once."""
        first, self._settled = self._settled != answer_id, answer_id
        return first

    def continued(self, source: str | None = None) -> int:
        """Return how many follow-ups, of one source or of all, have run since the last prompt of a person."""
        return sum(self._continued.values()) if source is None else self._continued.get(source, 0)

    def count_follow_up(self, source: str) -> None:
        """Count a follow-up of `source` that runs."""
        self._continued[source] = self._continued.get(source, 0) + 1

    def reset_counts(self) -> None:
        """Reset the counts of follow-ups and the turn's time: somebody prompted."""
        self._continued.clear()
        self._spoken = time.monotonic()

    @property
    def held(self) -> bool:
        """Whether this process holds the session: nobody else may change it."""
        return self._holds > 0

    @property
    def is_plain(self) -> bool:
        """Whether nothing is lost when it is read anew: nobody holds it, and nothing of it is in memory alone."""
        return not (self.held or self._continued or self._hooks or vars(self.overrides) != vars(Overrides()))

    def hold(self) -> None:
        """Increment the hold count."""
        self._holds += 1

    def keep(self, lease: Lease) -> None:
        """Note the lease that was taken or renewed."""
        self._lease = lease
        self._renewed = (now(), time.monotonic())

    @property
    def is_kept(self) -> bool:
        """Whether the lease lasts long enough that another hold need not renew it."""
        return self._lease is not None and self.lease_age() < self._lease.renew_after

    @property
    def has_lapsed(self) -> bool:
        """Whether the lease was not renewed for so long that another process may have it."""
        return self._lease is not None and self.lease_age() >= self._lease.lasts

    def lease_age(self) -> float:
        """Return the ms since the lease was renewed, by the clock that says more: one stands still in a sleep."""
        wall, steady = self._renewed
        return max(now() - wall, (time.monotonic() - steady) * 1000)

    def catch_up(self) -> bool:
        """Whether another process held the lease since then, so that the session must be read again."""
        if self._lease is None or self._lease.fence == self._fence:
            return False
        self._fence = self._lease.fence
        return True

    def unread(self) -> None:
        """Let the session be read again with the next hold, and what is unfinished be marked: a turn broke off."""
        self._fence = None

    def let_go(self) -> Lease | None:
        """Decrement the hold count. Return the lease after the last hold: the caller gives it back."""
        self._holds -= 1
        if self._holds > 0:
            return None
        lease, self._lease = self._lease, None
        return lease


def _order(message: Message) -> tuple[int, str]:
    return message.time.created, message.id


def _order_of(message: WithParts) -> tuple[int, str]:
    return _order(message.info)


def place_of(history: Sequence[WithParts], message_id: str) -> int:
    """Return the index of a message. Raises `NotFound`."""
    for place, message in enumerate(history):
        if message.info.id == message_id:
            return place
    raise NotFound(f"Message not found: {message_id}")


def part_of(message: WithParts, part_id: str) -> int:
    """Return the index of a part. Raises `NotFound`."""
    for place, part in enumerate(message.parts):
        if part.id == part_id:
            return place
    raise NotFound(f"Part not found: {part_id} in message {message.info.id}")
