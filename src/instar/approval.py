"""Asking a person: questions that wait, their answers, and the `always` answers of a project.

What the rules say is decided by `instar.permission`; this room acts on it. A door without a person
answers `ask` with a refusal.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from instar import ids
from instar.bus import Bus
from instar.event import AskedBy, PermissionAsked, PermissionReplied, make
from instar.message import Rule
from instar.permission import Action, decide, evaluate, matches
from instar.plugin import Ask, PermissionDenied, points, wire
from instar.plugin.door import Plugins, Refused
from instar.project import Project
from instar.store import DropAsk, PutApproval, PutAsk, PutValue, Store, Write

log = logging.getLogger("instar.permission")

Reply = Literal["once", "always", "reject"]
Person = Callable[[PermissionAsked], Awaitable[Reply]]
"""Puts a question to a person and returns the answer."""


async def always_once(question: PermissionAsked) -> Reply:
    """Answer every question with `once`: what ``--auto`` means."""
    log.info("allowed once permission=%s patterns=%s", question.permission, question.patterns)
    return "once"


class Approvals:
    """The questions and answers of one project."""

    def __init__(
        self, store: Store, bus: Bus, plugins: Plugins, project: Project, person: Person | None
    ) -> None:
        """`person` is None for a door without one.

        An `always` answer holds in the worktree (outside a repository: the folder) that it was given in: a
        project's id is its root commit, which any clone has, also a hostile one.
        """
        self._store = store
        self._bus = bus
        self._plugins = plugins
        self._project_id = project.id
        self._place = f"always:{project.worktree if project.vcs else project.directory}"
        self._person = person

    async def require(
        self, ask: Ask, rules: Sequence[Rule], session_id: str, tool: str, caller: AskedBy
    ) -> None:
        """Return when `ask` is allowed. Raises `PermissionDenied` with the text for the model otherwise.

        `rules` are the agent's, then the session's. A `permission.ask` hook may tighten what they say, and
        may answer `ask`; it never loosens a deny. An `always` answer never beats a deny.
        """
        names, patterns = [ask.permission, *ask.aliases], list(ask.patterns) or ["*"]
        action = decide(names, patterns, rules).action
        if action == "deny":
            raise PermissionDenied(_denial(ask, names, rules))
        action = await self._consult(ask, patterns, action, session_id, tool, caller)
        if action == "deny":
            raise PermissionDenied(f"A plugin denied this call ({ask.permission} on {', '.join(patterns)}).")
        if action == "ask" and not await self._remembered(names, patterns):
            await self._put(ask, patterns, session_id, caller)

    async def _consult(
        self, ask: Ask, patterns: list[str], action: Action, session_id: str, tool: str, caller: AskedBy
    ) -> Action:
        if not self._plugins.listens(points.PERMISSION_ASK):
            return action
        given = points.PermissionInput(
            session_id=session_id,
            permission=ask.permission,
            patterns=patterns,
            always=list(ask.always),
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

    async def _remembered(self, names: list[str], patterns: list[str]) -> bool:
        here = await self._given_here()
        approved = [
            rule
            for rule in await self._store.approvals(self._project_id)
            if [rule.permission, rule.pattern] in here
        ]
        return bool(approved) and all(
            any(evaluate(name, pattern, approved).action == "allow" for name in names) for pattern in patterns
        )

    async def _given_here(self) -> list[list[str]]:
        """The permission and pattern of each `always` answer that was given in this place."""
        return list(await self._store.value("instar", self._place) or [])

    async def _put(self, ask: Ask, patterns: list[str], session_id: str, caller: AskedBy) -> None:
        question = PermissionAsked(
            id=ids.new("per"),
            session_id=session_id,
            permission=ask.permission,
            patterns=patterns,
            metadata=ask.metadata,
            always=list(ask.always),
            tool=caller,
        )
        await self._store.commit([PutAsk(question.id, session_id, wire.to_plain(question))], [make(question)])
        reply: Reply = "reject"
        try:
            if self._person is not None:
                reply = _known(await self._person(question))
        finally:
            await self._settle(question, ask, reply)
        if self._person is None:
            raise PermissionDenied(
                f"Permission {ask.permission} on {', '.join(patterns)} needs a person's answer and nobody is"
                " here to give it: the call is refused. Do without it, or tell the person what you need."
            )
        if reply == "reject":
            raise PermissionDenied("The user rejected permission to use this specific tool call.", stop=True)

    async def _settle(self, question: PermissionAsked, ask: Ask, reply: Reply) -> None:
        approved = [
            Rule(permission=ask.permission, pattern=pattern, action="allow") for pattern in ask.always
        ]
        remembered: list[Write] = []
        if reply == "always":
            here = await self._given_here()
            given = [*here, *([rule.permission, rule.pattern] for rule in approved)]
            remembered = [PutApproval(self._project_id, rule) for rule in approved]
            remembered.append(PutValue("instar", self._place, given))
        replied = PermissionReplied(session_id=question.session_id, request_id=question.id, reply=reply)
        await self._store.commit([DropAsk(question.id), *remembered], [make(replied)])


def _known(reply: Reply) -> Reply:
    """A gate fails closed: an answer that is none of the three is a refusal."""
    return reply if reply in ("once", "always") else "reject"


def _denial(ask: Ask, names: list[str], rules: Sequence[Rule]) -> str:
    relevant = [
        wire.to_plain(rule) for rule in rules if any(matches(name, rule.permission) for name in names)
    ]
    return (
        f"The user has specified a rule which prevents you from using this specific tool call ({ask.permission} on"
        f" {', '.join(ask.patterns)}). Here are some of the relevant rules {json.dumps(relevant[-5:])}"
    )
