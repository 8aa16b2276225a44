"""What a step sends: the system prompt, the visible messages and the tools, in bytes that stay the same.

The system prompt is composed once per session and agent and then kept, also across restarts: prompt
caching needs (system, tools, earlier messages) to keep their bytes (design section 4).
"""

import platform
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from instar import reminder, structured
from instar.agent import Agent, sampling_temperature, shipped_prompt
from instar.instance import Instance
from instar.live import Live
from instar.message import Assistant, Rule, User, WithParts, visible
from instar.permission import denied_outright, exact_over_wildcards, matches
from instar.plugin import Tool, points, wire
from instar.provider.describe import describe
from instar.provider.protocol import Model, Request, ToolSpec
from instar.store import PutValue
from instar.tool.registry import offered
from instar.witness import Witness


class Turn(msgspec.Struct):
    """A turn in its session: who answers, with which model, to which message, at which step (from 1).

    `without` are the tools that this step goes without, as `step.before` says.
    """

    live: Live
    agent: Agent
    model: Model
    user: User
    step: int = 0
    without: Sequence[str] = ()


def answering(instance: Instance, live: Live, asked: User) -> Model:
    """Return the model that answers a message: the one it names, or what was set in its place in the session."""
    return instance.models.find(live.tuning.model_for(f"{asked.model.provider_id}/{asked.model.model_id}"))


class Stopped(Exception):
    """A `step.before` hook ended the turn; the text is its reason."""


class Prepared(msgspec.Struct, frozen=True):
    """A request, the tools that were offered in it by name, and who had a hand in it."""

    request: Request
    tools: Mapping[str, Tool]
    witness: Witness


async def prepare(instance: Instance, turn: Turn) -> Prepared:
    """Put a step's request together, asking every hook that may change it. Raises `Stopped`."""
    # The order of the hooks is that of the reference's section 3.3.
    witness = Witness(turn.live, turn.user, turn.agent.name)
    overrides = await _step_hook(instance, turn, witness)
    tools = available(instance, turn)
    witness.offers(tools, instance.plugins.owners())
    specs = [await _spec(instance, name, tool, witness) for name, tool in tools.items()]
    messages = await _messages(instance, turn.live, witness)
    system = await compose(instance, turn) if overrides is None else overrides
    system = await _system_hook(instance, turn, system, witness, replaced=overrides is not None)
    request = Request(
        model=turn.model,
        system=system,
        messages=messages,
        tools=specs if turn.model.tools else [],
        temperature=sampling_temperature(turn.agent, turn.model.id) if turn.model.temperature else None,
        top_p=turn.agent.top_p,
        max_output_tokens=min(turn.model.limit.output, 32_000) or None,
        options={**turn.model.options, **turn.agent.options, **variant_options(turn)},
        session_id=turn.live.id,
        agent=turn.agent.name,
        tool_choice="required" if structured.is_wanted(turn.user) else "auto",
        sent=witness.sent,
    )
    return Prepared(await finish_request(instance, request, turn.user, witness), tools, witness)


async def finish_request(
    instance: Instance, request: Request, message: User, witness: Witness | None = None
) -> Request:
    """Let `chat.params` and `chat.headers` change a request of any purpose."""
    if witness is not None:
        witness.options(request)
    if not (instance.plugins.listens(points.CHAT_PARAMS) or instance.plugins.listens(points.CHAT_HEADERS)):
        return request
    given = points.CallInput(
        session_id=request.session_id,
        agent=request.agent,
        model=describe(request.model),
        provider=instance.models.info(request.model.provider_id),
        message=wire.copy(message),
        purpose=request.purpose,
    )
    saw = None if witness is None else partial(witness.saw_params, request)
    params = await instance.plugins.trigger(points.CHAT_PARAMS, given, _params(request), saw)
    headers = await instance.plugins.trigger(
        points.CHAT_HEADERS, given, points.HeadersOutput(headers=dict(request.headers))
    )
    options = params.options if params.top_k is None else {**params.options, "top_k": params.top_k}
    return msgspec.structs.replace(
        request,
        temperature=params.temperature,
        top_p=params.top_p,
        max_output_tokens=params.max_output_tokens,
        options=options,
        headers=headers.headers,
    )


async def compose(instance: Instance, turn: Turn) -> list[str]:
    """Return the session's own system prompt for this agent: composed once, then frozen."""
    key = f"system:{turn.live.id}:{turn.agent.name}"
    frozen = turn.live.frozen.get(key) or await instance.store.value("instar", key)
    if frozen is None:
        frozen = _composed(instance, turn.agent)
        await instance.store.commit([PutValue("instar", key, frozen)])
    turn.live.frozen[key] = frozen
    data = structured.SYSTEM if structured.is_wanted(turn.user) else None
    return [*frozen, *(text for text in (turn.user.system, data) if text)]


def available(instance: Instance, turn: Turn) -> dict[str, Tool]:
    """Return the tools that this step offers, built-in ones first, each group by name."""
    switched = turn.user.tools or {}
    found = {**offered(instance.tools, turn.model.id), **dict(sorted(instance.plugins.tools().items()))}
    allowed = {
        name: tool
        for name, tool in found.items()
        if name not in turn.without
        and not turn.live.tuning.is_off(tool.permission or name)
        and _is_on([name, tool.permission or name, *tool.aliases], switched)
        and not denied_outright([tool.permission or name, *tool.aliases], rules_for(turn, tool))
    }
    return (
        allowed | {structured.NAME: structured.tool(turn.user)}
        if structured.is_wanted(turn.user)
        else allowed
    )


def _is_on(names: Sequence[str], switched: Mapping[str, bool]) -> bool:
    """Whether a message's `tools` leave a tool on: the last pattern that fits one of its names decides.

    Its permission is one of them, as in opencode: who switches `edit` off does not get `write`.
    """
    fits = (
        on
        for pattern, on in reversed(list(switched.items()))
        if any(matches(name, pattern) for name in names)
    )
    return next(fits, True)


def variant_options(turn: Turn) -> wire.Plain:
    """Return the options of the variant that the message names; a name that the model does not have means none.

    Clients send the names of other models' variants (``high``), which opencode ignores too.
    """
    found = turn.model.variants.get(turn.user.model.variant or "", {})
    if found.get("disabled"):
        return {}
    return {name: value for name, value in found.items() if name != "disabled"}


def rules_for(turn: Turn, tool: Tool | None) -> list[Rule]:
    """Return the rules that a call of `tool` is judged by: the agent's, then the session's."""
    rules = [*turn.agent.permission, *(turn.live.session.permission or [])]
    return exact_over_wildcards(rules) if tool is not None and tool.exact_first else rules


def environment_block(instance: Instance) -> str:
    """Return where the agent is: directory, repository, platform and today's date."""
    return "\n".join(
        [
            "Here is where you are:",
            "<env>",
            f"  Working directory: {instance.directory}",
            f"  Worktree: {instance.project.worktree}",
            f"  Git repository: {'yes' if instance.project.vcs == 'git' else 'no'}",
            f"  Platform: {platform.system().lower()}",
            f"  Date: {time.strftime('%a %b %d %Y')}",
            "</env>",
        ]
    )


def _composed(instance: Instance, agent: Agent) -> list[str]:
    texts = instance.instructions.read()
    return ["\n\n".join([agent.prompt or shipped_prompt("base"), environment_block(instance), *texts])]


async def _step_hook(instance: Instance, turn: Turn, witness: Witness) -> list[str] | None:
    given = points.StepInput(session_id=turn.live.id, agent=turn.agent.name, step=turn.step)
    output = await instance.plugins.trigger(points.STEP_BEFORE, given, points.StepOutput(), witness.saw_step)
    if output.stop is not None:
        raise Stopped(output.stop)
    turn.without = tuple(output.without)
    return output.system


async def _system_hook(
    instance: Instance, turn: Turn, system: list[str], witness: Witness, *, replaced: bool
) -> list[str]:
    if replaced:
        return system
    witness.system("", system)
    if not instance.plugins.listens(points.SYSTEM):
        return [text for text in system if text]
    given = points.SystemInput(session_id=turn.live.id, model=describe(turn.model), purpose="turn")
    output = await instance.plugins.trigger(
        points.SYSTEM, given, points.SystemOutput(system=system), witness.saw_system
    )
    return [text for text in output.system if text]


async def _messages(instance: Instance, live: Live, witness: Witness) -> list[WithParts]:
    messages = reminder.dress(_before_answer(visible(live.history)))
    hooked = instance.plugins.listens(points.MESSAGES)
    witness.messages(messages, hooked=hooked)
    if not hooked:
        return messages
    # The door gives each transform a copy: the stored history is never theirs to change.
    output = points.MessagesOutput(messages=messages)
    await instance.plugins.trigger(points.MESSAGES, points.Empty(), output, witness.saw_messages)
    return output.messages


def _before_answer(messages: list[WithParts]) -> list[WithParts]:
    """The messages before the answer that this step is about to write, which stands in the history already.

    What came after that answer began is the next step's: it will stand behind the answer, in other bytes.
    """
    for place in range(len(messages) - 1, -1, -1):
        info = messages[place].info
        if isinstance(info, Assistant):
            return messages if info.time.completed is not None else messages[:place]
    return messages


async def defined(instance: Instance, name: str, tool: Tool) -> Tool:
    """Return a tool as the model is told of it."""
    told = await _spec(instance, name, tool)
    return msgspec.structs.replace(tool, description=told.description, parameters=told.parameters)


async def _spec(instance: Instance, name: str, tool: Tool, witness: Witness | None = None) -> ToolSpec:
    own = ToolSpec(name, tool.description, tool.parameters)
    if witness is not None:
        witness.spec(own)
    if not instance.plugins.listens(points.TOOL_DEFINITION):
        return own
    output = points.DefinitionOutput(description=tool.description, parameters=_detached(tool.parameters))
    given = points.ToolID(tool_id=name)
    saw = None if witness is None else witness.saw_definition
    await instance.plugins.trigger(points.TOOL_DEFINITION, given, output, saw)
    return ToolSpec(name, output.description, output.parameters)


def _params(request: Request) -> points.ParamsOutput:
    return points.ParamsOutput(
        temperature=request.temperature,
        top_p=request.top_p,
        max_output_tokens=request.max_output_tokens,
        options=_detached(request.options),
    )


def _detached(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
