"""Sessions as they are held while somebody uses or changes them."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from instar import prompt
from instar.agent import UnknownAgent
from instar.instance import Instance
from instar.lease import SessionBusy
from instar.lifecycle import Lifecycle
from instar.live import Live
from instar.message import Origin
from instar.plugin import Busy, Invalid, NotFound
from instar.provider.assemble import UnknownModel
from instar.provider.resolve import NoModel
from instar.store import StoreError
from instar.turns import Turns
from instar.workspace import Workspaces, check_home


class Held:
    """The open sessions of an instance, and who speaks in them."""

    def __init__(self, instance: Instance, turns: Turns, workspaces: Workspaces) -> None:
        self._instance = instance
        self._sessions = instance.sessions
        self._turns = turns
        self._workspaces = workspaces
        self._changing: set[str] = set()
        self._lifecycle = Lifecycle(instance)
        self._speaker = Origin()
        self._for_agent = False

    async def _use(self, session_id: str) -> None:
        """A session is about to be used. Raises `NotFound`."""
        live = await self._sessions.open(session_id)
        if not await live.judge(self._lifecycle.start(session_id, "resume" if live.history else "new")):
            raise Invalid(prompt.DISMISSED)

    @asynccontextmanager
    async def _resting(self, session_id: str, done: str) -> AsyncIterator[Live]:
        """Hold a session in which no turn runs, and let no prompt in meanwhile. Raises `Invalid`."""
        async with self._held(session_id) as live:
            check_home(live.session, self._instance.directory)
            with self._changed(live, f"cannot be {done}"):
                yield live

    @contextmanager
    def _changed(self, live: Live, what: str) -> Iterator[None]:
        """Let no prompt into a held session while it is changed. Raises as `_check_rests`."""
        self._check_rests(live, what)
        self._changing.add(live.id)
        try:
            yield
        finally:
            self._changing.discard(live.id)

    def _check_rests(self, live: Live, what: str) -> None:
        """See that no turn runs in a session and nobody changes it. Raises `Busy`, which says `what` cannot be."""
        if live.turn is not None or live.id in self._changing:
            raise Busy(live.id, f"{what}: wait until its turn has ended, or abort it")

    @asynccontextmanager
    async def _held(self, session_id: str) -> AsyncIterator[Live]:
        """Hold a session for a while; what a caller cannot have becomes `Invalid`.

        Raises `NotFound` when the session was deleted before what was begun in it could be saved.
        """
        live = await self._sessions.open(session_id)
        try:
            await self._sessions.hold(live)
        except SessionBusy as error:
            raise Invalid(str(error)) from error
        try:
            yield live
        except (UnknownAgent, UnknownModel, NoModel) as error:
            raise Invalid(str(error)) from error
        except StoreError:
            check_there(live)
            raise
        finally:
            await self._sessions.let_go(live)


def check_there(live: Live) -> None:
    """See that a session was not deleted meanwhile. Raises `NotFound`."""
    if live.deleted:
        raise NotFound(f"Session not found: {live.id}")
