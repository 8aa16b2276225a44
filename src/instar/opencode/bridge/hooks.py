"""opencode's hooks, put to the plugins as instar's hook points; ``docs/guides/opencode.md`` has the table."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from instar import wire
from instar.api.session import Invalid, NotFound, PromptBody
from instar.message import (
    Assistant,
    TextPart,
    ToolError,
    ToolPart,
    User,
    WithParts,
    decode_message,
    decode_part,
    part_to_plain,
)
from instar.opencode.bridge.derived_hooks import MOST_ON_END, DerivedHooks
from instar.opencode.bridge.plugins import Opened
from instar.plugin import HookPoint, ids, points
from instar.wire import Plain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


log = logging.getLogger("instar.bridge")

_PURPOSES: Final = {"title": "title", "summary": "title", "compaction": "compaction"}
"""What opencode's hidden agents call a model for."""
_TASK: Final = "task"
"""opencode's tool that hands work to a sub-agent."""


class StepRefused(Exception):
    """A plugin ends the turn before the model is called; the text is what people read."""


class Hooks:
    """What is done at each of opencode's hooks."""

    def __init__(self, opened: Opened, derived: DerivedHooks) -> None:
        self._opened = opened
        self._plugins = opened.plugins
        self._client = opened.client
        self._derived = derived
        self._own: dict[str, Callable[[Plain, Plain], Awaitable[Plain]]] = {
            points.CHAT_MESSAGE.name: self._prompted,
            points.SYSTEM.name: self._system,
            points.TOOL_BEFORE.name: self._before,
            points.TOOL_AFTER.name: self._after,
            points.COMPACTING.name: self._compacting,
        }
        self._prompts: list[tuple[str, str]] | None = None
        self._steps: dict[str, points.StepOutput] = {}
        self._compactions: set[str] = set()
        self._children: dict[str, bool] = {}

    @property
    def names(self) -> list[str]:
        """The hooks of opencode that the plugins need."""
        wanted: dict[HookPoint[Any, Any], Sequence[HookPoint[Any, Any]]] = {
            points.CHAT_MESSAGE: (points.SESSION_START, points.SUBAGENT_START, points.TURN_END),
            points.MESSAGES: (points.STEP_BEFORE, points.TOOL_FAILURE, points.MESSAGE_COMPLETED),
            points.SYSTEM: (points.STEP_BEFORE,),
            points.TOOL_BEFORE: (points.PERMISSION_ASK,),
            points.TOOL_AFTER: (points.SUBAGENT_STOP,),
            points.COMPACTING: (points.STEP_BEFORE,),
        }
        listens = self._plugins.listens
        others: list[HookPoint[Any, Any]] = [
            *(points.COMMAND_BEFORE, points.CHAT_PARAMS, points.CHAT_HEADERS, points.SMALL_MODEL),
            *(points.TEXT_COMPLETE, points.AUTOCONTINUE, points.TOOL_DEFINITION, points.SHELL_ENV),
        ]
        found = [point.name for point, made in wanted.items() if any(listens(one) for one in (point, *made))]
        found += [point.name for point in others if listens(point)]
        return [*found, *(["config"] if any("config" in one.hooks for one in self._plugins.loaded) else [])]

    async def hook(self, name: str, said: Plain, output: Plain) -> Plain:
        """Put a hook to the plugins and return what they changed. Raises `Refused` at a gate."""
        point = points.CORE.find(name)
        if point is None:
            raise Invalid(f"there is no hook {name}")
        own = self._own.get(point.name)
        if own is not None:
            return await own(said, output)
        if point in (points.CHAT_PARAMS, points.CHAT_HEADERS):
            return await self._put(point, said, output, purpose=_PURPOSES.get(str(said.get("agent")), "turn"))
        return await self._put(point, said, output)

    async def messages(self, session_id: str, history: Sequence[WithParts]) -> Plain | None:
        """A request is put together: ``step.before`` unless it is a summary's, then the messages themselves.

        `history` is not changed. Raises `StepRefused` when a plugin ends the turn.
        """
        await self._derived.settled(session_id)
        if session_id in self._compactions:
            self._compactions.discard(session_id)
        elif session_id and self._plugins.listens(points.STEP_BEFORE):
            await self._step(session_id, history)
        output = points.MessagesOutput(messages=[self._told(one) for one in history])
        if self._plugins.listens(points.MESSAGES):
            await self._plugins.trigger(points.MESSAGES, points.Empty(), output)
        return _left(output.messages, history)

    # -- single hooks --------------------------------------------------------------------------------

    async def _put(self, point: HookPoint[Any, Any], said: Plain, output: Plain, **more: Any) -> Plain:
        given, value = hook_input(point, said, **more), hook_output(point, output)
        before = output_plain(value)
        await self._plugins.trigger(point, given, value)
        return difference(before, output_plain(value))

    async def _prompted(self, said: Plain, output: Plain) -> Plain:
        session_id: str = said["sessionID"]
        await self._derived.begin(session_id)
        value = hook_output(points.CHAT_MESSAGE, output)
        before = output_plain(value)
        if self._plugins.listens(points.SUBAGENT_START):
            await self._subagent(session_id, value)
        self._derived.prompted(session_id, [one.text for one in value.parts if isinstance(one, TextPart)])
        await self._plugins.trigger(points.CHAT_MESSAGE, hook_input(points.CHAT_MESSAGE, said), value)
        after = output_plain(value)
        after["parts"] = identified(after["parts"], value.message.id, session_id)
        return difference(before, after)

    async def _subagent(self, session_id: str, value: points.ChatMessageOutput) -> None:
        """A sub-agent's first prompt of this process: ``subagent.start``, whose prompt and context take its place."""
        if self._children.get(session_id) is False:
            return
        resumed = session_id in self._children
        try:
            session = await self._client.session.get(session_id)
        except NotFound:
            return
        self._children[session_id] = session.parent_id is not None
        texts = [one for one in value.parts if isinstance(one, TextPart) and not one.synthetic]
        if session.parent_id is None or not texts:
            return
        given = points.SubagentStartInput(
            session_id=session.parent_id,
            child_id=session_id,
            agent=value.message.agent,
            description=session.title,
            resumed=resumed,
        )
        asked = points.SubagentStartOutput(prompt=texts[0].text, context=[])
        await self._plugins.trigger(points.SUBAGENT_START, given, asked)
        texts[0].text = asked.prompt
        value.parts += [{"type": "text", "text": one, "synthetic": True} for one in asked.context]

    async def _step(self, session_id: str, history: Sequence[WithParts]) -> None:
        users = [index for index, one in enumerate(history) if isinstance(one.info, User)]
        if not users:
            return
        last = history[users[-1]].info
        given = points.StepInput(session_id=session_id, agent=last.agent, step=len(history) - users[-1])
        output = await self._plugins.trigger(points.STEP_BEFORE, given, points.StepOutput())
        if output.stop is not None:
            raise StepRefused(output.stop)
        if output.without:
            log.warning("session=%s opencode takes no tool away for one step: %s", session_id, output.without)
        self._steps[session_id] = output

    async def _system(self, said: Plain, output: Plain) -> Plain:
        session_id = said.get("sessionID")
        purpose = "agent" if session_id is None else await self._purpose(output["system"])
        step = self._steps.pop(session_id, None) if session_id and purpose == "turn" else None
        found = await self._put(points.SYSTEM, said, output, purpose=purpose)
        if step is not None and step.system is not None:
            found = {"changed": {"system": list(step.system)}, "removed": []}
        return found

    async def _before(self, said: Plain, output: Plain) -> Plain:
        """A call is about to be made. A person that a plugin wants to see it cannot be asked here: it is refused."""
        self._derived.called[said["callID"]] = said["tool"]
        value = hook_output(points.TOOL_BEFORE, output)
        before = output_plain(value)
        await self._plugins.trigger(points.TOOL_BEFORE, hook_input(points.TOOL_BEFORE, said), value)
        if value.ask is not None:
            raise Invalid(
                f"{value.ask}\nopencode lets no plugin ask a person about this call, so it is refused."
            )
        return difference(before, output_plain(value))

    async def _after(self, said: Plain, output: Plain) -> Plain:
        self._derived.called.pop(said["callID"], None)
        child = (output.get("metadata") or {}).get("sessionId")
        changed: Plain = {}
        if said["tool"] == _TASK and isinstance(child, str) and self._plugins.listens(points.SUBAGENT_STOP):
            text = await self._again(said["sessionID"], child)
            if text is not None:
                changed = {"output": text}
        found = await self._put(points.TOOL_AFTER, said, {**output, **changed})
        return {**found, "changed": {**changed, **found["changed"]}}

    async def _again(self, session_id: str, child: str) -> str | None:
        """Let a sub-agent go on for as long as a plugin wants it to; its last answer then, None without any."""
        text = None
        for count in range(MOST_ON_END + 1):
            history = await self._client.session.messages(child, 10)
            answer = next((one for one in reversed(history) if isinstance(one.info, Assistant)), None)
            if answer is None or not isinstance(answer.info, Assistant):
                return text
            given = points.SubagentStopInput(
                session_id=session_id,
                child_id=child,
                agent=answer.info.agent,
                message=answer.info,
                parts=answer.parts,
                continued=count,
            )
            output = await self._plugins.trigger(points.SUBAGENT_STOP, given, points.SubagentStopOutput())
            if output.prompt is None or count == MOST_ON_END:
                return text
            body = PromptBody.text(output.prompt, synthetic=True, agent=answer.info.agent)
            said = await self._client.session.prompt(child, body)
            text = "\n".join(one.text for one in said.parts if isinstance(one, TextPart))
        return text

    async def _compacting(self, said: Plain, output: Plain) -> Plain:
        self._compactions.add(said["sessionID"])
        return await self._put(points.COMPACTING, said, output)

    async def _purpose(self, system: list[str]) -> str:
        """What a system prompt is for: opencode does not say, but its hidden agents' prompts begin theirs."""
        if self._prompts is None:
            agents = await self._client.agent_list()
            said = [(str(one.get("name")), str(one.get("prompt") or "")) for one in agents]
            self._prompts = [
                (name, text.strip()) for name, text in said if name in _PURPOSES and text.strip()
            ]
        text = "\n".join(system).lstrip()
        return next((_PURPOSES[name] for name, begin in self._prompts if text.startswith(begin)), "turn")

    def _told(self, one: WithParts) -> WithParts:
        """A message with what plugins said of the calls in it that failed."""
        failures = self._derived.failures
        if not failures or not any(
            isinstance(part, ToolPart) and part.call_id in failures for part in one.parts
        ):
            return one
        one = one.copy()
        for part in one.parts:
            if isinstance(part, ToolPart) and isinstance(part.state, ToolError):
                part.state.error = failures.get(part.call_id, part.state.error)
        return one


def _left(messages: Sequence[WithParts], before: Sequence[WithParts]) -> Plain | None:
    """Return the messages in the protocol's form: the number of each unchanged one; None if all are unchanged."""
    places = {one.info.id: (index, one) for index, one in enumerate(before)}
    left: list[Any] = []
    for one in messages:
        index, was = places.get(one.info.id, (-1, None))
        left.append(index if was is one or was == one else one.to_plain())
    return None if left == list(range(len(before))) else {"messages": left}


def hook_input(point: HookPoint[Any, Any], said: Plain, **more: Any) -> Any:
    """Return the input of a hook point; `more` stands in for what opencode does not say."""
    known = {wire.wire_name(name) for name in point.input.__struct_fields__}
    plain = {**more, **{k: v for k, v in said.items() if k in known}}
    if isinstance(plain.get("agent"), dict):
        plain["agent"] = plain["agent"].get("name", "")
    if isinstance(plain.get("message"), dict):
        message = decode_message(plain.pop("message"))
        made = wire.decode({**plain, "message": wire.to_plain(message)}, point.input)
        made.message = message
        return made
    return wire.decode(plain, point.input)


def hook_output(point: HookPoint[Any, Any], said: Plain) -> Any:
    """Return the output of a hook point as it stands before its handlers."""
    if point is points.CHAT_MESSAGE:
        message = decode_message(said["message"])
        assert isinstance(message, User)
        return points.ChatMessageOutput(message=message, parts=[decode_part(one) for one in said["parts"]])
    if point is points.COMMAND_BEFORE:
        return points.CommandOutput(parts=list(said["parts"]))
    known = {wire.wire_name(name) for name in point.output.__struct_fields__}
    return wire.decode({name: value for name, value in said.items() if name in known}, point.output)


def output_plain(value: Any) -> Plain:
    """Return an output as JSON, each field that has a value."""
    if isinstance(value, points.ChatMessageOutput):
        return {"message": wire.to_plain(value.message), "parts": [_part(one) for one in value.parts]}
    found: Plain = wire.to_plain(value)
    return found


def difference(before: Plain, after: Plain) -> Plain:
    """Return what changed from `before` to `after`, as the protocol says it."""
    changed = {name: value for name, value in after.items() if name not in before or before[name] != value}
    return {"changed": changed, "removed": [name for name in before if name not in after]}


def identified(parts: list[Any], message_id: str, session_id: str) -> list[Any]:
    """Give parts that plugins added what opencode asks of each: an id, its message's and its session's."""
    own = {"messageID": message_id, "sessionID": session_id}
    return [one if one.get("id") else {"id": ids.new("prt"), **own, **one} for one in parts]


def _part(part: Any) -> Plain:
    return part if isinstance(part, dict) else part_to_plain(part)
