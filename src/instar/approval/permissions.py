"""Asking a person: calls that wait for an answer, the answers, and the `always` answers of a project.

What the rules say is decided by `instar.settings.permission`; this room acts on it. A call may be answered by the
door's person or through the client, by whoever comes first. A door without a person answers `ask` with a refusal.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, TypeVar

import msgspec

from instar.event import AskedBy, PermissionAsked, PermissionReplied, QuestionRejected, make
from instar.git.project import Project
from instar.message import Rule
from instar.plugin import Ask, Invalid, NotFound, PermissionDenied, Refused, points, wire
from instar.plugin.door import Plugins
from instar.settings.permission import MAY_RUN, Action, decide, evaluate, has_hole, matches, restricted
from instar.store import DropAsk, PutApproval, PutAsk, PutValue, Write
from instar.store.lease import is_dead
from instar.store.store import Store
from instar.wire import ids

log = logging.getLogger("instar.permission")

T = TypeVar("T")
U = TypeVar("U")

Reply = Literal["once", "always", "reject"]
REPLIES: Final[tuple[Reply, ...]] = ("once", "always", "reject")


QUESTION: Final = "que"
"""How the ids of the model's questions begin."""
KEEP: Final = "keep"
"""The permission that is asked for by `Approvals.confirm`."""
_PATIENCE: Final = 120.0
"""Seconds that a server's clients have to say whether something is kept."""


class PermissionAnswer(msgspec.Struct, frozen=True):
    """An answer with words for the model: a rejection that has some does not end the turn."""

    reply: Reply
    message: str | None = None


Person = Callable[[PermissionAsked], Awaitable[Reply | PermissionAnswer]]
"""Puts a question to a person and returns the answer."""


async def always_once(question: PermissionAsked) -> Reply:
    """Answer every question with `once`: what ``--auto`` means."""
    log.info("allowed once permission=%s patterns=%s", question.permission, question.patterns)
    return "once"


async def relayed(question: PermissionAsked) -> Reply:
    """Wait for ever: for doors whose clients answer through `Approvals.reply`."""
    await asyncio.Event().wait()
    return "reject"


async def relayed_to_person(question: PermissionAsked) -> Reply:
    """Wait as `relayed` does, for a door at whose other end a person is known to be: no program of the model's."""
    return await relayed(question)


class PendingAsk:
    """A call that waits: what was asked, its permission's `names`, and the answer once there is one.

    `saved` is done when the answer is durable; `follows`: it was given to another call and answers this one too.
    """

    def __init__(self, asked: PermissionAsked, names: list[str], *, anew: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.asked = asked
        self.anew = anew
        self.names = names
        self.verdict: asyncio.Future[PermissionAnswer] = loop.create_future()
        self.saved: asyncio.Future[None] = loop.create_future()
        self.follows = False

    def follow(self, reply: Reply) -> None:
        """Give the same answer as another call got, unless there is one already."""
        if not self.verdict.done():
            self.follows = True
            self.verdict.set_result(PermissionAnswer(reply))


class Approvals:
    """The questions and answers of one project (`PermissionClient`)."""

    def __init__(
        self,
        store: Store,
        plugins: Plugins,
        project: Project,
        person: Person | None,
        *,
        stops: bool = True,
        confirms: bool = True,
    ) -> None:
        """`person` is None for a door without one; `stops`: what a person refused without a reason ends the turn.

        `confirms`: only a person can answer as `person`, and no program of the model's; ``--auto`` never confirms.

        An `always` answer holds in the worktree (outside a repository: the folder) that it was given in: a
        project's id is its root commit, which any clone has, also a hostile one.
        """
        self._store = store
        self._plugins = plugins
        self._project_id = project.id
        self.directory = project.directory
        self._place = f"always:{project.worktree if project.vcs else project.directory}"
        self._person = person
        self.stops = stops
        self.confirms = confirms and person not in (None, always_once)
        self._waiting: dict[str, PendingAsk] = {}
        self.granted: dict[str, list[Rule]] = {}
        """What `grant` lets pass, by session, until its turn ends."""

    def grant(self, session_id: str, rules: Sequence[Rule]) -> None:
        """Let what a skill or command of the person's names pass unasked until the session's turn ends.

        It holds as an `always` answer does.
        """
        if rules:
            self.granted.setdefault(session_id, []).extend(rules)

    async def require(
        self, ask: Ask, rules: Sequence[Rule], session_id: str, tool: str, caller: AskedBy
    ) -> None:
        """Return when `ask` is allowed. Raises `PermissionDenied` with the text for the model otherwise.

        `rules` are the agent's, then the session's. A `permission.ask` hook may tighten what they say, and
        may answer `ask`; it never loosens a deny. An `always` answer never beats a deny, nor answers what is
        asked `anew`.
        """
        names, patterns = [ask.permission, *ask.aliases], [*ask.patterns] or ["*"]
        action = decide(names, patterns, rules).action
        possible = restricted(names, ask.possible, ask.texts, rules)
        shown = [*patterns, *(f"{MAY_RUN}{text}" for text in possible)]
        if "deny" in (action, *possible.values()):
            raise PermissionDenied(_denial(ask, shown, names, rules))
        # What is known only when it runs may be something else the next time: no answer covers it.
        always = [] if any(map(has_hole, possible)) else [*ask.always]
        action, patterns = "ask" if possible else action, shown
        action = await self._consult(ask, patterns, action, session_id, tool, caller)
        if action == "deny":
            raise PermissionDenied(f"A plugin denied this call ({ask.permission} on {', '.join(patterns)}).")
        given = [*await self.approvals(), *self.granted.get(session_id, ())] if action == "ask" else []
        if action == "ask" and (ask.anew or not _covers(given, names, patterns, always)):
            asked = PermissionAsked(
                id=ids.new("per"),
                session_id=session_id,
                permission=ask.permission,
                patterns=patterns,
                metadata=ask.metadata,
                always=always,
                tool=caller,
            )
            await self._put(PendingAsk(asked, names, anew=ask.anew))

    async def confirm(self, ask: Ask, session_id: str, caller: AskedBy) -> bool:
        """Ask a person whether to keep what a call did. No rule, plugin, `always` or ``--auto`` answers that.

        A server's clients have two minutes, so that a call does not wait where no person is.
        """
        if not self.confirms:
            return False
        asked = PermissionAsked(
            id=ids.new("per"),
            session_id=session_id,
            permission=ask.permission,
            patterns=[*ask.patterns],
            metadata=ask.metadata,
            always=[],
            tool=caller,
        )
        try:
            async with asyncio.timeout(_PATIENCE if self._person is relayed else None):
                await self._put(PendingAsk(asked, [ask.permission], anew=True))
        except (PermissionDenied, TimeoutError):
            return False
        return True

    async def reply(self, request_id: str, reply: str, message: str | None = None) -> None:
        """Answer a call that waits; returns when the answer is durable.

        `always` is remembered and answers the session's other calls that it covers. `reject` ends the turn
        and rejects the session's other calls, unless a `message` tells the model what to do instead.
        Raises `NotFound` and `Invalid`.
        """
        if reply not in REPLIES:
            raise Invalid(f"{reply!r} is no answer; give one of {', '.join(REPLIES)}")
        waiting = self._waiting.get(request_id)
        if waiting is None or waiting.verdict.done():
            raise NotFound(
                f"Permission request not found: {request_id}; it was answered, or its call has ended"
            )
        waiting.verdict.set_result(_sound(PermissionAnswer(reply, message)))
        await asyncio.shield(waiting.saved)

    async def approvals(self) -> Sequence[Rule]:
        """Return the `always` answers that hold here, oldest first."""
        given = await self._store.values(self._place)
        if not given:
            return []
        known = await self._store.approvals(self._project_id)
        return [rule for rule in known if _key(rule.permission, rule.pattern) in given]

    async def forget(self, permission: str, pattern: str) -> bool:
        """Remove an `always` answer; false when there is none. The next call is asked about again."""
        key = _key(permission, pattern)
        if await self._store.value(self._place, key) is None:
            return False
        await self._store.commit([PutValue(self._place, key, None)])
        return True

    async def clear(self) -> None:
        """Withdraw what calls of dead processes asked: nobody waits for those answers."""
        for row in await self._store.asks():
            holder = await self._store.holder(row.session_id)
            if holder is None or is_dead(holder.owner):
                await withdraw(self._store, row)

    async def list(self) -> Sequence[PermissionAsked]:
        """Return what waits for an answer, oldest first."""
        return [one.asked for one in self._waiting.values() if not one.verdict.done()]

    async def _consult(
        self, ask: Ask, patterns: Sequence[str], action: Action, session_id: str, tool: str, caller: AskedBy
    ) -> Action:
        if not self._plugins.listens(points.PERMISSION_ASK):
            return action
        given = points.PermissionInput(
            session_id=session_id,
            permission=ask.permission,
            patterns=[*patterns],
            always=[*ask.always],
            metadata=ask.metadata,
            tool=tool,
            call_id=caller.call_id,
        )
        output = points.PermissionOutput(status="ask" if action == "ask" else "allow")
        try:
            await self._plugins.trigger(points.PERMISSION_ASK, given, output)
        except Refused as refused:
            raise PermissionDenied(f"The plugin {refused.plugin} refused this call: {refused}") from refused
        # A gate fails closed: a status that is none of the three refuses.
        return output.status if output.status in ("allow", "ask") else "deny"

    async def _put(self, waiting: PendingAsk) -> None:
        """Put a question to whoever can answer it. Raises `PermissionDenied` when the answer is no."""
        asked = waiting.asked
        # Before it is published: who hears of it may answer at once.
        self._waiting[asked.id] = waiting
        try:
            row = PutAsk(asked.id, asked.session_id, wire.to_plain(asked))
            await self._store.commit([row], [make(asked)])
            if self._person is not None:
                given = await first(self._person(asked), waiting.verdict)
                if not waiting.verdict.done():
                    waiting.verdict.set_result(_sound(given))
        finally:
            # Also when it was aborted, or the person cannot be reached: nobody may answer any more.
            await self._settle(waiting)
        if self._person is None:
            raise PermissionDenied(
                f"Permission {asked.permission} on {', '.join(asked.patterns)} needs a person's answer and nobody"
                " is here to give it: the call is refused. Do without it, or tell the person what you need."
            )
        self._check(waiting.verdict.result())

    def _check(self, verdict: PermissionAnswer) -> None:
        """Raise what a rejection means to the model and its turn, as in opencode."""
        if verdict.reply != "reject":
            return
        refusal = "The user rejected permission to use this specific tool call"
        if verdict.message:
            raise PermissionDenied(f"{refusal} with the following feedback: {verdict.message}")
        raise PermissionDenied(f"{refusal}.", stop=True)

    async def _settle(self, waiting: PendingAsk) -> None:
        del self._waiting[waiting.asked.id]
        try:
            await self._save(waiting)
        except BaseException as error:
            waiting.saved.set_exception(error)
            waiting.saved.exception()  # often nobody but the call itself waits for it
            raise
        waiting.saved.set_result(None)

    async def _save(self, waiting: PendingAsk) -> None:
        """Save and publish the answer, a rejection if there is none, then answer the calls that go with it."""
        asked = waiting.asked
        verdict = waiting.verdict.result() if waiting.verdict.done() else None
        reply: Reply = verdict.reply if verdict else "reject"
        writes: list[Write] = [DropAsk(asked.id)]
        if reply == "always" and not waiting.follows:
            for pattern in asked.always:
                rule = Rule(permission=asked.permission, pattern=pattern, action="allow")
                writes.append(PutApproval(self._project_id, rule))
                writes.append(PutValue(self._place, _key(asked.permission, pattern), True))
        replied = PermissionReplied(session_id=asked.session_id, request_id=asked.id, reply=reply)
        await self._store.commit(writes, [make(replied)])
        if verdict is not None and not waiting.follows:
            await self._spread(asked.session_id, verdict)

    async def _spread(self, session_id: str, verdict: PermissionAnswer) -> None:
        others = [one for one in self._waiting.values() if one.asked.session_id == session_id]
        if verdict.reply == "always":
            approved = await self.approvals()
            others = [
                one
                for one in others
                if not one.anew and _covers(approved, one.names, one.asked.patterns, one.asked.always)
            ]
        elif verdict.reply == "once" or verdict.message:
            return
        for other in others:
            other.follow(verdict.reply)


async def withdraw(store: Store, row: PutAsk) -> None:
    """Say that nobody waits for the answer to what was asked: a permission, or at a worker a question of the model."""
    log.info("withdrawn request=%s session=%s", row.id, row.session_id)
    place = {"session_id": row.session_id, "request_id": row.id}
    is_question = row.id.startswith(QUESTION)
    said = QuestionRejected(**place) if is_question else PermissionReplied(**place, reply="reject")
    await store.commit([DropAsk(row.id)], [make(said)])


async def first(person: Awaitable[T], reply: "asyncio.Future[U]") -> T | U:
    """Return the answer that comes first: the door's person's, or the one given through the client.

    The person is no longer asked afterwards, also when this is cancelled. Raises what asking the person raises.
    """
    asking = asyncio.ensure_future(person)
    both: list[asyncio.Future[Any]] = [asking, reply]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        return reply.result() if reply.done() else asking.result()
    finally:
        asking.cancel()
        await asyncio.wait([asking])
        if not asking.cancelled() and (error := asking.exception()) is not None:
            log.info("asking the person ended: %s", error)


def _sound(given: Reply | PermissionAnswer) -> PermissionAnswer:
    """Return a valid answer: anything but the three replies is a refusal, and a blank message counts as none."""
    verdict = given if isinstance(given, PermissionAnswer) else PermissionAnswer(given)
    words = (verdict.message or "").strip() or None
    return PermissionAnswer(verdict.reply if verdict.reply in ("once", "always") else "reject", words)


def _covers(
    approved: Sequence[Rule], names: Sequence[str], patterns: Sequence[str], always: Sequence[str]
) -> bool:
    """Whether `always` answers allow every pattern, or all that one would remember, under one of the names."""

    def are_allowed(texts: Sequence[str]) -> bool:
        return bool(texts) and all(
            any(evaluate(name, text, approved).action == "allow" for name in names) for text in texts
        )

    return bool(approved) and (are_allowed(patterns) or are_allowed(always))


def _key(permission: str, pattern: str) -> str:
    return json.dumps([permission, pattern])


def _denial(ask: Ask, patterns: Sequence[str], names: Sequence[str], rules: Sequence[Rule]) -> str:
    relevant = [
        wire.to_plain(rule) for rule in rules if any(matches(name, rule.permission) for name in names)
    ]
    return (
        f"The user has specified a rule which prevents you from using this specific tool call ({ask.permission} on"
        f" {', '.join(patterns)}). Here are some of the relevant rules {json.dumps(relevant[-5:])}"
    )
