"""Preparing a call: parse → validate → `tool.execute.before` → validate again → permission.

Each refusal is an error in the call's own result, which the model reads.
"""

import json
import logging
from collections.abc import Mapping, Sequence

import msgspec

from instar.call.running import Running
from instar.instance import Instance
from instar.live import now
from instar.message import Span, ToolRunning
from instar.plugin import Ask, Refused, Tool, ToolFailure, points, wire
from instar.stream import Call
from instar.tool import invalid
from instar.tool.repeat import is_loop
from instar.tool.schema import validate, without_nulls

log = logging.getLogger("instar.tool")


async def prepare(
    instance: Instance, running: Running, call: Call, tools: Mapping[str, Tool]
) -> Exception | None:
    """Make a call ready to run; or return why it may not.

    Its part is saved as running before a person is asked, so that they see what it would do (the
    reference's section 3.3, "order in a turn").
    """
    if (why := instance.halt.why(running.session_id)) is not None:
        return ToolFailure(f"Not run: {why}")
    try:
        try:
            name, running.tool = find(tools, call.part.tool)
        except ToolFailure as failure:
            await _note_invalid(running, str(failure))
            return None
        running.name = name
        running.args = _parse(call)
        _check(running, name)
        running.args, wanted = await _before(instance, running)
        _check(running, name)
        running.started = now()
        running.part.state = ToolRunning(input=running.args, time=Span(start=running.started))
        await running.save()
        for ask in [*_loop(running, name, tools), *_asks(running, name, wanted)]:
            await running.ask(ask)
    except Refused as refused:
        return ToolFailure(f"The plugin {refused.plugin} refused this call: {refused}")
    except ToolFailure as failure:
        return failure
    except Exception as error:
        # A gate fails closed: what cannot be decided is refused, and the model sees why.
        log.error("call not prepared tool=%s call=%s", call.part.tool, call.part.call_id, exc_info=error)
        return ToolFailure(f"The call could not be prepared: {type(error).__name__}: {error}")
    return None


async def _note_invalid(running: Running, error: str) -> None:
    """Turn the call of a tool that is not there into one of `invalid` (the reference's section 3.5)."""
    running.args = {"tool": running.part.tool, "error": error}
    running.tool, running.part.tool, running.name = invalid.TOOL, invalid.NAME, invalid.NAME
    running.part.state = ToolRunning(input=running.args, time=Span(start=running.started))
    await running.save()


def _loop(running: Running, name: str, tools: Mapping[str, Tool]) -> Sequence[Ask]:
    """What a call needs that turns in a circle."""
    if running.tool is None or running.tool.repeatable:
        return []
    shown = (running.within or running).part
    if not is_loop(running.messages, shown, running.part, _registered(tools)):
        return []
    return [Ask("doom_loop", [name], [name], {"tool": name, "input": running.args})]


def _registered(tools: Mapping[str, Tool]) -> Mapping[str, str]:
    """Return the name under which the tool of each alias is registered."""
    return {alias: name for name, tool in tools.items() for alias in tool.aliases if alias not in tools}


def find(tools: Mapping[str, Tool], name: str) -> tuple[str, Tool]:
    """Return a tool by its name or an alias, with its registered name. Raises `ToolFailure`."""
    if name in tools:
        return name, tools[name]
    for registered, tool in tools.items():
        if name in tool.aliases:
            return registered, tool
    raise ToolFailure(f"Model tried to call unavailable tool '{name}'. Available tools: {', '.join(tools)}.")


def _parse(call: Call) -> wire.Plain:
    try:
        args = wire.parse(call.raw) if call.raw.strip() else {}
    except msgspec.DecodeError as error:
        raise ToolFailure(
            f"The arguments of {call.part.tool} are not JSON: {error}. Please rewrite the input."
        ) from None
    if not isinstance(args, dict):
        raise ToolFailure(f"The arguments of {call.part.tool} are not an object. Please rewrite the input.")
    return args


def _check(running: Running, name: str) -> None:
    assert running.tool is not None
    running.part.state = msgspec.structs.replace(running.part.state, input=running.args)
    problem = validate(running.args, running.tool.parameters)
    if problem:
        raise ToolFailure(f"The {name} tool was called with invalid arguments: {problem}")
    running.args = without_nulls(running.args, running.tool.parameters)


async def _before(instance: Instance, running: Running) -> tuple[wire.Plain, str | None]:
    """The arguments as hooks left them, and what a person is to be asked, if a hook says so."""
    if not instance.plugins.listens(points.TOOL_BEFORE):
        return running.args, None
    given = points.ToolCallInput(tool=running.name, session_id=running.session_id, call_id=running.call_id)
    output = points.ArgsOutput(args=json.loads(json.dumps(running.args)))
    await instance.plugins.trigger(points.TOOL_BEFORE, given, output)
    if not isinstance(output.args, dict):
        raise ToolFailure(
            f"A tool.execute.before hook left arguments that are not an object: {output.args!r}"
        )
    args: wire.Plain = wire.to_plain(output.args)
    return args, output.ask


def _asks(running: Running, name: str, wanted: str | None) -> Sequence[Ask]:
    """What a call needs; with `wanted` at least one permission, each with that text for the person."""
    assert running.tool is not None
    found = None if running.tool.permissions is None else running.tool.permissions(running.args, running)
    if found is None or (wanted is not None and not found):
        found = [Ask(permission=running.tool.permission or name, aliases=running.tool.aliases)]
    if wanted is None:
        return found
    return [
        msgspec.structs.replace(ask, metadata={**ask.metadata, "reason": wanted}, anew=True) for ask in found
    ]
