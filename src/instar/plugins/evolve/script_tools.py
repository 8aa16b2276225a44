"""The tools that hook scripts define, as tools that the model can call.

Source: seed 000 "execute_tool" and "tool permissions". A call goes only to the script that owns the tool,
under the tool's unprefixed name.
"""

import logging
from collections.abc import Iterable
from typing import Any

from instar.plugin import Ask, Tool, ToolContext, ToolFailure, ToolResult, wire
from instar.plugins.evolve import discovery, protocol, script
from instar.plugins.evolve.evolution import Evolution
from instar.plugins.evolve.recovery import Recovery

log = logging.getLogger("instar.evolve")


def build(evolution: Evolution, recovery: Recovery, left_out: Iterable[str]) -> dict[str, Tool]:
    """Return the tools of every script by full name, without those `left_out`."""
    left = set(left_out)
    found: dict[str, Tool] = {}
    for registration in evolution.scripts.registrations:
        for tool in registration.tools:
            if tool.full not in left:
                call = _Call(evolution, recovery, registration.file, tool)
                found[tool.full] = Tool(
                    description=tool.description,
                    parameters=tool.parameters,
                    execute=call.execute,
                    permissions=call.permissions,
                    exact_first=True,
                )
    return found


class _Call:
    """One tool of one script."""

    def __init__(
        self, evolution: Evolution, recovery: Recovery, file: str, tool: discovery.ScriptTool
    ) -> None:
        self._evolution = evolution
        self._recovery = recovery
        self._file = file
        self._tool = tool

    def permissions(self, args: wire.Plain, context: ToolContext) -> list[Ask]:
        patterns = discovery.patterns(self._tool, args)
        return [Ask(self._tool.full, patterns, patterns, metadata=dict(args))]

    async def execute(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        evolution, full = self._evolution, self._tool.full
        async with evolution.recording(full, context.session_id, context.call_id) as recorded:
            answer = await self._ask(args, context)
        log_effects(self._file, "execute_tool", context.session_id, answer)
        if "result" not in answer and answer.get("error"):
            raise ToolFailure(protocol.text(answer, "error"))
        metadata: wire.Plain = {
            key: answer[key] for key in ("modified", "notify", "actions") if key in answer
        }
        if recorded.files:
            metadata["commit"] = recorded.commit.id if recorded.commit else None
        output = protocol.text(answer, "result") if "result" in answer else "done"
        return ToolResult(output, self._tool.name, metadata)

    async def _ask(self, args: wire.Plain, context: ToolContext) -> protocol.Answer:
        scripts = self._evolution.scripts
        entry = scripts.find(self._file)
        if entry is None:
            raise ToolFailure(f"hooks/{self._file}, which owns {self._tool.full}, is gone or not executable")
        fields: wire.Plain = {
            "session": {"id": context.session_id, "agent": context.agent},
            "tool": self._tool.name,
            "args": args,
        }
        try:
            answer = await scripts.call(entry, "execute_tool", fields)
        except script.UnknownHook as error:
            raise ToolFailure(str(error)) from None
        except script.ScriptFailure as error:
            await self._recovery.failed(context.session_id, context.agent, error)
            raise ToolFailure(str(error)) from None
        self._recovery.succeeded(context.session_id, "execute_tool")
        return answer


def log_effects(what: str, hook: str, session_id: str, answer: dict[str, Any]) -> None:
    """Log what a script says it changed, and the notifications and actions that it asks for."""
    for key in ("modified", "notify", "actions"):
        if answer.get(key):
            log.info(
                "script=%s hook=%s session=%s %s=%s", what, hook, session_id, key, script.show(answer[key])
            )
