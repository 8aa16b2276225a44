"""Ephemeral sessions: a model works for a moment with few tools; no hooks fire, nothing is kept.

Such a session has an instance of its own, with plugins, a bus and
a store of its own, of which nobody knows. What it uses is booked where its caller's is, and limits and `instar stop`
hold. `docs/guides/rules.md` says what confines its tools.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

import msgspec

from instar import wire
from instar.approval.permissions import Approvals
from instar.approval.questions import Questions
from instar.definitions.agent import Agent, Agents, UnknownAgent, shipped_prompt
from instar.event.bus import Bus
from instar.git.snapshot import Snapshot
from instar.limits.budget import (
    Budget,
    CallOwner,
    CallPermit,
    CallRequest,
    ReachedLimit,
    bounds,
    total,
)
from instar.message import (
    Assistant,
    Created,
    ModelRef,
    Origin,
    TextPart,
    ToolPart,
    User,
    WithParts,
    error_text,
    text_of,
)
from instar.plugin import (
    Answer,
    Apart,
    Aside,
    Invalid,
    Registry,
    SessionBody,
    Tool,
    ToolContext,
    ToolResult,
    points,
)
from instar.plugin.client import Ended
from instar.plugin.door import Plugins
from instar.process import ProcessError, whole
from instar.project.workspace import Workspaces
from instar.provider.catalogue import SCRIPTED
from instar.provider.protocol import Model
from instar.provider.resolve import Models, NoModel, UnknownModel
from instar.runtime.client import InProcessClient, InProcessSessions
from instar.runtime.ephemeral_tools import STARTING, Confined, ScratchFolder, offer, rules
from instar.session.instance import Instance
from instar.session.sessions import Sessions
from instar.session.state import SessionState, now
from instar.settings.config import Config
from instar.store import StoreError, Usage
from instar.store.store import Store, open_store
from instar.turn.context import environment_block
from instar.turn.loop import last_user
from instar.turn.model_call import model_for
from instar.turn.turns import StopListener, Turns
from instar.wire import Plain, ids

log = logging.getLogger("instar.session")

NAME: Final = "apart"
"""The name of the one agent of an ephemeral session."""
_AGAIN: Final = "That is not taken: your answer is a call of the tool {until}. Make that call now."
_GRACE: Final = 0.2
"""Seconds that its caller waits for its folder to be removed; after that it goes on by itself."""


async def run(instance: Instance, aside: Aside) -> Apart:
    """Run a model in an ephemeral session and return the result (`Client.aside`).

    Cancelling ends it within a second, with all that it started. Raises `NotFound` for an unknown session, and
    `Invalid` for a model, an agent or a tool that cannot be had.
    """
    began = time.monotonic()
    caller = await instance.sessions.open(aside.session_id) if aside.session_id else None
    if aside.script is not None:
        models = Models(instance.config, instance.environment)
        models.add(SCRIPTED, options={"script": str(aside.script)})
        instance = msgspec.structs.replace(instance, models=models)
    agent = _agent(instance, aside)
    model = await _model(instance, aside, agent, caller)
    tools = offer(instance, aside)
    session = _Session(instance, aside, caller, agent, model, tools)
    ended: tuple[Ended, str] | None = None
    try:
        async with asyncio.timeout(aside.timeout):
            await session.open()
            await session.converse()
    except TimeoutError:
        ended = "limit", f"it took longer than {aside.timeout:g} s"
    except (OSError, ProcessError, StoreError) as problem:
        ended = "failed", str(problem)
    finally:
        await whole(asyncio.ensure_future(session.closing.aclose()))
    return session.result(ended, time.monotonic() - began)


def _agent(instance: Instance, aside: Aside) -> Agent:
    """The agent as which it works, with the session's system prompt. Raises `Invalid`."""
    if aside.agent is None:
        return Agent(NAME, prompt=aside.system)
    try:
        found = instance.agents.get(aside.agent or None)
    except UnknownAgent as error:
        raise Invalid(str(error)) from error
    return msgspec.structs.replace(
        found, name=NAME, prompt=aside.system or found.prompt or shipped_prompt("base")
    )


async def _model(instance: Instance, aside: Aside, agent: Agent, caller: SessionState | None) -> Model:
    """The model that answers. Raises `Invalid`."""
    asked = aside.model or agent.model
    if asked is not None or aside.agent is None:
        return await model_for(instance, asked, caller)
    try:
        return instance.models.default()
    except (UnknownModel, NoModel) as error:
        raise Invalid(str(error)) from error


class _One(Agents):
    """The only agent of the session, under any name."""

    def __init__(self, agent: Agent) -> None:
        super().__init__(Config())
        self._one = agent

    def get(self, name: str | None) -> Agent:
        """Return the agent."""
        return self._one

    def all(self) -> list[Agent]:
        """Return the agent."""
        return [self._one]


class _Session:
    """The open session. `open` makes its rooms, `closing` ends and removes them."""

    def __init__(
        self,
        instance: Instance,
        aside: Aside,
        caller: SessionState | None,
        agent: Agent,
        model: Model,
        tools: dict[str, Tool],
    ) -> None:
        self._instance, self._aside, self._caller, self._model = instance, aside, caller, model
        self._agent = agent
        self._tools = tools
        asked = None if caller is None else last_user(caller.history)
        self._spending = EphemeralBudget(instance, aside, "" if asked is None else asked.id)
        self._decided = asyncio.Event()
        self._live: SessionState | None = None
        self.closing = AsyncExitStack()
        """What closing it does: it ends everything within a second and leaves nothing behind."""

    async def open(self) -> None:
        """Make the rooms. Raises `OSError`, `ProcessError` and `StoreError`."""
        if STARTING & self._tools.keys() and not (self._aside.write and self._aside.network):
            level = await self._instance.children.level()
            if level.name == "none":
                raise ProcessError(f"there is no sandbox on this machine ({level.missing}): {level.todo}")
        making = asyncio.ensure_future(asyncio.to_thread(ScratchFolder, self._instance.paths.data))
        making.add_done_callback(self._made)
        place = await whole(making)
        bus = Bus()
        store = await open_store(place.folder / "store.db", bus.publish)
        self.closing.push_async_callback(store.close)
        own = self._own = self._rooms(place, bus, store)
        turns = self._turns = Turns(own)
        self.closing.push_async_callback(self._end)
        own.client = EphemeralClient(own, turns)
        stopping = StopListener(own, turns)
        self.closing.push_async_callback(stopping.close)
        stopping.start()
        self._live = await self._begun(own)

    def _made(self, making: "asyncio.Future[ScratchFolder]") -> None:
        if not making.cancelled() and making.exception() is None:
            self.closing.push_async_callback(_remove, making.result())

    def _rooms(self, place: ScratchFolder, bus: Bus, store: Store) -> Instance:
        real, aside = self._instance, self._aside
        plugins = Plugins(bus, points.CORE)
        free = aside.write and aside.network
        confined = Confined(real, place.folder, write=aside.write, network=aside.network)
        compaction = msgspec.structs.replace(real.config.compaction, auto=False)
        return msgspec.structs.replace(
            real,
            # A rule of SessionEnd runs while its instance closes.
            closed=False,
            config=msgspec.structs.replace(real.config, compaction=compaction),
            store=store,
            budget=self._spending,
            bus=bus,
            plugins=plugins,
            children=real.children if free else confined,
            snapshot=Snapshot(None, "an ephemeral session has none"),
            sessions=Sessions(store, real.project, real.directory),
            approvals=Approvals(store, plugins, real.project, None),
            questions=Questions(bus, None),
            agents=_One(
                msgspec.structs.replace(self._agent, permission=rules(real, self._caller, aside, self._tools))
            ),
            tools={name: self._watched(name, tool) for name, tool in self._tools.items()},
        )

    def _watched(self, name: str, tool: Tool) -> Tool:
        """The tool, or the one whose first call ends the session."""
        if name != self._aside.until:
            return tool

        async def execute(args: Plain, ctx: ToolContext) -> ToolResult | str:
            result = await tool.execute(args, ctx)
            self._decided.set()
            return result

        return msgspec.structs.replace(tool, execute=execute)

    async def _begun(self, own: Instance) -> SessionState:
        made = await own.sessions.create(SessionBody(title=self._aside.title, agent=NAME))
        live = await own.sessions.open(made.id)
        # What stands in a project's AGENTS.md is for those who work on it, not for who judges their work.
        live.system_prompts[f"system:{live.id}:{NAME}"] = [
            self._agent.prompt or "",
            environment_block(own),
        ]
        if self._caller is None:
            own.stops.session_made(live.id)
        else:
            live.root_id = await self._instance.sessions.root_of(self._caller)
            own.stops.inherit(live.id, self._caller.id)
        return live

    async def converse(self) -> None:
        """Let the model answer, and once more if its answer lacks the required call."""
        await self._turn(self._aside.prompt)
        if self._may_be_told():
            await self._turn(_AGAIN.format(until=self._aside.until))

    async def _turn(self, text: str) -> None:
        own, turns, live = self._own, self._turns, self._live
        assert live is not None
        await self._say(own, live, text)
        await turns.start(live)
        ends = [asyncio.create_task(turns.wait(live)), asyncio.create_task(self._decided.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in ends:
                one.cancel()
        await turns.abort(live)

    async def _say(self, own: Instance, live: SessionState, text: str) -> None:
        user = User(
            id=ids.new("msg"),
            session_id=live.id,
            time=Created(created=live.next_time()),
            agent=NAME,
            model=ModelRef(provider_id=self._model.provider_id, model_id=self._model.id),
        )
        part = TextPart(id=ids.new("prt"), session_id=live.id, message_id=user.id, text=text)
        origin = self._aside.origin or (Origin() if self._caller is None else self._caller.origin)
        await own.sessions.save_prompt(live, user, [part], live.attribute(user.id, origin))

    def _may_be_told(self) -> bool:
        aside, answer = self._aside, self._answer()
        if not aside.until or self._decided.is_set() or self._spending.reached_limit is not None:
            return False
        if answer is None or not isinstance(answer.info, Assistant) or answer.info.error is not None:
            return False
        return aside.enough is None or not aside.enough(text_of(answer))

    async def _end(self) -> None:
        ending = [self._turns.close(0)]
        if self._own.children is not self._instance.children:
            ending.append(self._own.children.close())
        # One that cannot be ended must not keep the others, nor the store open.
        for problem in await asyncio.gather(*ending, return_exceptions=True):
            if problem is not None:
                log.error("an ephemeral session did not end whole", exc_info=problem)
        self._own.bus.close()

    def result(self, ended: tuple[Ended, str] | None, seconds: float) -> Apart:
        """Return the result; `ended` says how and why it was ended from outside, if it was."""
        answer, spending = self._answer(), self._spending
        decided: tuple[Ended, str] = ("decided", "")
        how, error = decided if self._decided.is_set() else ended or self._ended(answer)
        parts = [] if answer is None else answer.parts
        until = self._aside.until
        return Apart(
            session_id="" if self._live is None else self._live.id,
            ended=how,
            text="" if answer is None else text_of(answer),
            calls=[part.state.input for part in parts if isinstance(part, ToolPart) and part.tool == until],
            error=error,
            steps=spending.steps,
            tokens=spending.tokens,
            cost=spending.cost,
            ms=round(seconds * 1000),
            model=f"{self._model.provider_id}/{self._model.id}",
            own_limit=how == "limit" and (ended is not None or spending.is_full),
        )

    def _ended(self, answer: WithParts | None) -> tuple[Ended, str]:
        if self._spending.reached_limit is not None:
            return "limit", self._spending.reached_limit.message
        if answer is None or not isinstance(answer.info, Assistant):
            return "failed", "the model did not answer"
        if answer.info.error is not None:
            return "failed", error_text(answer.info.error)
        return "answered", ""

    def _answer(self) -> WithParts | None:
        history = [] if self._live is None else self._live.history
        answers = [one for one in reversed(history) if isinstance(one.info, Assistant)]
        # The next answer may have been begun before the deciding one ended the session.
        deciding = [one for one in answers if any(_calls(part, self._aside.until) for part in one.parts)]
        return next(iter(deciding if self._decided.is_set() else answers), None)


def _calls(part: object, name: str) -> bool:
    return isinstance(part, ToolPart) and part.tool == name


async def _remove(place: ScratchFolder) -> None:
    removing = asyncio.ensure_future(asyncio.to_thread(place.remove))
    removing.add_done_callback(lambda task: task.cancelled() or task.exception())
    await asyncio.wait([removing], timeout=_GRACE)


class EphemeralBudget(Budget):
    """The instance's budget, for the calls of one ephemeral session.

    `steps` calls were answered so far, with all their `tokens` and a `cost` that is None once a price was unknown.
    `reached_limit` is the limit that ended it, if one did, and `is_full`, whether it is one of the session's own.
    """

    def __init__(self, instance: Instance, aside: Aside, asked_id: str) -> None:
        """`asked_id` is the message of the caller's that its turn answers."""
        super().__init__(instance.store, instance.paths.database)
        self._aside = aside
        self._asked_id = asked_id
        self.steps = 0
        self.tokens = 0
        self.cost: float | None = 0.0
        self.reached_limit: ReachedLimit | None = None
        self.is_full = False

    async def ask(self, asked: CallRequest) -> CallPermit | ReachedLimit:
        """Return the right to make a call, or the limit that forbids it (`Budget.ask`)."""
        given = self._full() or await super().ask(self._as_callers(asked))
        if isinstance(given, ReachedLimit):
            self.reached_limit = given
        return given

    async def reached(self, asked: CallRequest) -> ReachedLimit | None:
        """Return the limit that forbids a call as things stand, or None."""
        found = self._full() or await super().reached(self._as_callers(asked))
        self.reached_limit = self.reached_limit or found
        return found

    async def settle(self, usage: Usage | None, asked: CallRequest) -> None:
        """Book a call that has ended, without its message, which is not stored."""
        if usage is not None:
            self.steps += 1
            self.tokens += total(usage.tokens)
            self.cost = None if usage.cost is None or self.cost is None else self.cost + usage.cost
            usage = msgspec.structs.replace(usage, message_id=None)
        await super().settle(usage, asked)

    def _full(self) -> ReachedLimit | None:
        aside, found = self._aside, None
        if self.steps >= aside.steps:
            found = "max_turns", f"it made {self.steps} model calls, as many as it may"
        elif aside.tokens and self.tokens >= aside.tokens:
            found = "tokens", f"it used {self.tokens} tokens, and may use {aside.tokens}"
        elif aside.cost and self.cost is None:
            found = "cost", f"it may cost ${aside.cost:g}, and the price of its model is not known"
        elif aside.cost and self.cost is not None and self.cost >= aside.cost:
            found = "cost", f"it cost ${self.cost:.4f}, and may cost ${aside.cost:g}"
        self.is_full = found is not None
        return None if found is None else ReachedLimit(found[0], aside.cause, found[1], "")

    def _as_callers(self, asked: CallRequest) -> CallRequest:
        cause = self._aside.cause
        whose = CallOwner(cause, asked.whose.origin, asked.whose.root_id)
        usage = msgspec.structs.replace(
            asked.usage,
            session_id=self._aside.session_id,
            cause=cause,
            agent=cause,
            turn_id=self._asked_id,
        )
        situation = msgspec.structs.replace(
            asked.situation, cause=cause, bounds=bounds(asked.limits, whose, now())
        )
        return msgspec.structs.replace(asked, whose=whose, usage=usage, situation=situation)


class EphemeralClient(InProcessClient):
    """The client for tools of an ephemeral session: it knows only that session."""

    def __init__(self, own: Instance, turns: Turns) -> None:
        """`own` is the session's instance."""
        workspaces = Workspaces(own, Registry(), {})
        super().__init__(own, InProcessSessions(own, turns, workspaces), workspaces, Origin("tool"), run)

    async def generate(
        self,
        *,
        system: Sequence[str],
        prompt: str,
        model: ModelRef | None = None,
        cause: str,
        session_id: str = "",
        origin: Origin | None = None,
    ) -> Answer:
        """Raise `Invalid`: an ephemeral session makes no other model calls."""
        raise Invalid("an ephemeral session makes no calls beside its own")

    async def aside(self, aside: Aside) -> Apart:
        """Raise `Invalid`: ephemeral sessions are not nested."""
        raise Invalid("an ephemeral session begins no other")

    async def config(self) -> wire.Plain:
        """Return no configuration."""
        return {}
