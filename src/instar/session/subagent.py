"""Sub-agents: a task is a session of its own, with its caller's as parent, and goes on when asked again.

What the caller may not do its sub-agent may not do either, and a sub-agent hands no task on: so no chain
of tasks goes on for ever. Ending the caller's turn ends the sub-agent's.
"""

import asyncio
import contextlib
import difflib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from instar.definitions.agent import Agent, UnknownAgent
from instar.message import (
    Assistant,
    ModelRef,
    Origin,
    Rule,
    Session,
    SessionModel,
    ToolCompleted,
    ToolPart,
    ToolRunning,
    WithParts,
    error_text,
    text_of,
)
from instar.plugin import (
    Done,
    Invalid,
    NotFound,
    PromptBody,
    SessionBody,
    SessionClient,
    Task,
    ids,
    points,
    wire,
)
from instar.session.instance import Instance
from instar.session.state import SessionState
from instar.settings.permission import evaluate, matches
from instar.tool.task import text

log = logging.getLogger("instar.subagent")

CAP: Final = 8
"""How often in a row a `subagent.stop` hook may make a sub-agent go on."""

_LOOKS: Final = 300
"""Looks, one in 10 ms, for a sub-agent that is about to begin."""
_NO_TASKS: Final = Rule(permission="task", pattern="*", action="deny")


async def run(
    instance: Instance,
    sessions: SessionClient,
    task: Task,
    started: Callable[[Session], None],
    spawn: Callable[[Coroutine[Any, Any, None], str], object],
) -> Done:
    """Run a task and return its result (see `SessionClient.task`). `spawn` runs work in the background."""
    agent = _callable(instance, task.agent, by_person=task.by_person)
    session = await _session(instance, sessions, task, agent)
    model = task.model or agent.model or await _model(instance, task)
    if model is not None:
        session.model = SessionModel(id=model.model_id, provider_id=model.provider_id, variant=model.variant)
    started(session)
    work = _worked(instance, sessions, task, session, agent, model)
    if not task.background:
        return await work
    spawn(_told(sessions, task, session, work), task.session_id)
    return Done(session.id, "It works in the background. A message brings its answer.", running=True)


async def _worked(
    instance: Instance,
    sessions: SessionClient,
    task: Task,
    session: Session,
    agent: Agent,
    model: ModelRef | None,
) -> Done:
    body = await _prompt(instance, task, session, agent)
    body.model = model
    origin = await _origin(instance, task)
    continued = 0
    while True:
        answer = await _answer(sessions, session.id, body, origin)
        again = await _stop(instance, task, session, answer, continued)
        if again is None or continued >= CAP:
            break
        continued += 1
        body = PromptBody.text(again, synthetic=True, agent=agent.name)
        origin = origin.by("subagent.stop")
    return _done(session, answer)


async def _told(sessions: SessionClient, task: Task, session: Session, work: Awaitable[Done]) -> None:
    """Tell the caller's session how a task in the background has ended."""
    try:
        done = await work
    except Exception as error:
        done = Done(session.id, "", str(error))
    # While instar closes it is kept: the session's next turn tells it.
    with contextlib.suppress(NotFound, Invalid):
        await sessions.follow_up(task.session_id, PromptBody.text(text(done), synthetic=True), "task")


async def at_work(instance: Instance, session_id: str) -> list[SessionState]:
    """Return a session's sub-agents that work now, those too that calls of its newest answer are about to begin."""
    live = await instance.sessions.open(session_id)
    for _ in range(_LOOKS):
        begun = {one.id for one in instance.sessions.present() if _has_begun(one)}
        if live.turn is None or _set_to_work(live) <= begun:
            break
        await asyncio.sleep(0.01)
    return [one for one in instance.sessions.running() if one.session.parent_id == session_id]


def _has_begun(child: SessionState) -> bool:
    """Whether a turn runs, or ran: the prompt is in the history before its turn begins."""
    return child.turn is not None or any(isinstance(one.info, Assistant) for one in child.history[-1:])


def _set_to_work(live: SessionState) -> set[str]:
    """Return the sessions of the tasks that a session's newest answer asks for, "" for one that has none yet."""
    return {
        str((one.state.metadata or {}).get("sessionId", ""))
        for message in live.history[-1:]
        for one in message.parts
        if isinstance(one, ToolPart)
        and one.tool == "task"
        and isinstance(one.state, ToolRunning | ToolCompleted)
    }


def inherited(caller: Sequence[Rule], own: Sequence[Rule]) -> list[Rule]:
    """Return the rules that a sub-agent gets beyond its `own`: what its caller is denied.

    A deny that stands in both lists is the person's word for every agent, and `own` has weighed it. An
    exception that follows a deny in the caller's list is kept only where `own` restricts that permission nowhere:
    what comes of it is never looser than either list.
    """
    found: list[Rule] = []
    denied: list[str] = []
    for rule in caller:
        if rule.action == "deny":
            if rule not in own and evaluate(rule.permission, rule.pattern, caller).action == "deny":
                found.append(rule)
                denied.append(rule.permission)
        elif any(_meet(rule.permission, name) for name in denied) and not _restricts(own, rule.permission):
            found.append(rule)
    return found


def _callable(instance: Instance, name: str, *, by_person: bool) -> Agent:
    """Return the agent of a task. Raises `Invalid` with the names of the agents."""
    names = [one.name for one in instance.agents.all() if is_subagent(one)]
    try:
        agent = instance.agents.get(name or "?")
    except UnknownAgent as error:
        # The model is told of those that it may call, a person of all.
        near = difflib.get_close_matches(name, names) or names
        said = (
            str(error) if by_person else f"there is no agent {name!r}; there are: {', '.join(near) or 'none'}"
        )
        raise Invalid(said) from None
    if agent.hidden or (agent.mode == "primary" and not by_person):
        raise Invalid(f"{name} takes no tasks; those that do: {', '.join(names) or 'none'}")
    return agent


def is_subagent(agent: Agent) -> bool:
    """Whether tasks may be handed to an agent."""
    return agent.mode != "primary" and not agent.hidden


async def _session(instance: Instance, sessions: SessionClient, task: Task, agent: Agent) -> Session:
    parent = await sessions.get(task.session_id)
    if task.task_id is not None:
        return await _resumed(sessions, task)
    caller = instance.agents.get(task.caller)
    rules = inherited([*caller.permission, *(parent.permission or [])], agent.permission)
    return await sessions.create(
        SessionBody(
            parent_id=parent.id,
            title=f"{task.description} (@{agent.name} subagent)",
            agent=agent.name,
            permission=[*rules, _NO_TASKS],
        )
    )


async def _resumed(sessions: SessionClient, task: Task) -> Session:
    known = {session.id: session for session in await sessions.children(task.session_id)}
    found = known.get(task.task_id or "")
    if found is None:
        there = f"; there are: {', '.join(known)}" if known else "; it has begun none"
        raise Invalid(f"this session has no task {task.task_id}{there}")
    if found.id in await sessions.status():
        raise Invalid(f"task {found.id} is still running")
    return found


async def _prompt(instance: Instance, task: Task, session: Session, agent: Agent) -> PromptBody:
    output = points.SubagentStartOutput(prompt=task.prompt, context=[])
    if instance.plugins.listens(points.SUBAGENT_START):
        given = points.SubagentStartInput(
            session_id=task.session_id,
            child_id=session.id,
            agent=agent.name,
            description=task.description,
            resumed=task.task_id is not None,
        )
        await instance.plugins.trigger(points.SUBAGENT_START, given, output)
    parts: list[wire.Plain] = [{"type": "text", "text": str(output.prompt)}]
    parts += [{"type": "text", "text": str(text), "synthetic": True} for text in output.context]
    # With an id, which opencode's `chat.message` is given.
    return PromptBody(message_id=ids.new("msg"), parts=parts, agent=agent.name)


async def _model(instance: Instance, task: Task) -> ModelRef | None:
    """The caller's model."""
    live = await instance.sessions.open(task.session_id)
    holder = live.find(task.message_id)
    if holder is None or not isinstance(holder.info, Assistant):
        return None
    info = holder.info
    return ModelRef(provider_id=info.provider_id, model_id=info.model_id, variant=info.variant)


async def _origin(instance: Instance, task: Task) -> Origin:
    """The origin of the message that the caller works on."""
    live = await instance.sessions.open(task.session_id)
    holder = live.find(task.message_id)
    if holder is None or not isinstance(holder.info, Assistant):
        return live.origin
    return live.origin_of(holder.info.parent_id)


async def _answer(sessions: SessionClient, session_id: str, body: PromptBody, origin: Origin) -> WithParts:
    try:
        return await sessions.prompt(session_id, body, origin)
    except BaseException:
        # The caller is being ended, or could not wait: what it began must not run on behind it.
        await sessions.abort(session_id)
        raise


async def _stop(
    instance: Instance, task: Task, session: Session, answer: WithParts, continued: int
) -> str | None:
    """Ask `subagent.stop` whether the sub-agent continues, and with which prompt."""
    info = answer.info
    if not isinstance(info, Assistant) or info.error or not instance.plugins.listens(points.SUBAGENT_STOP):
        return None
    seen = answer.copy()
    assert isinstance(seen.info, Assistant)
    given = points.SubagentStopInput(
        session_id=task.session_id,
        child_id=session.id,
        agent=info.agent,
        message=seen.info,
        parts=seen.parts,
        continued=continued,
    )
    output = await instance.plugins.trigger(points.SUBAGENT_STOP, given, points.SubagentStopOutput())
    if output.prompt is not None and continued >= CAP:
        log.warning("limit reached session=%s source=subagent.stop cap=%d", session.id, CAP)
    return output.prompt if isinstance(output.prompt, str) else None


def _done(session: Session, answer: WithParts) -> Done:
    if not isinstance(answer.info, Assistant):
        return Done(session.id, "", "it did not answer: a limit was reached before its first step")
    error = error_text(answer.info.error) if answer.info.error else None
    if error is None and answer.info.finish == "tool-calls":
        error = "it was stopped before its final answer"
    return Done(session.id, text_of(answer), error)


def _restricts(rules: Sequence[Rule], permission: str) -> bool:
    return any(rule.action != "allow" and _meet(rule.permission, permission) for rule in rules)


def _meet(one: str, other: str) -> bool:
    return matches(one, other) or matches(other, one)
