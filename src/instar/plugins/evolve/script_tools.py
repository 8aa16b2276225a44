"""The tools that hook scripts define, as tools that the model can call.

A call goes only to the script that owns the tool,
under the tool's unprefixed name.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from instar.plugin import Ask, Tool, ToolContext, ToolFailure, ToolResult, wire
from instar.plugins.evolve import discovery, protocol, script
from instar.plugins.evolve.dispatch import Dispatch
from instar.plugins.evolve.effects import KEYS, HookEffects
from instar.plugins.evolve.engine import EvolveEngine


def build(
    engine: EvolveEngine, dispatch: Dispatch, effects: HookEffects, left_out: Iterable[str]
) -> dict[str, Tool]:
    """Return the tools of every script by full name, without those `left_out`."""
    left = set(left_out)
    found: dict[str, Tool] = {}
    for registration in engine.scripts.registrations:
        for tool in registration.tools:
            if tool.full not in left:
                call = _Call(engine, dispatch, effects, registration.file, tool)
                found[tool.full] = Tool(
                    tool.description, tool.parameters, call.execute, call.permissions, exact_first=True
                )
    return found


@dataclass
class _Call:
    """One tool of one script."""

    engine: EvolveEngine
    dispatch: Dispatch
    effects: HookEffects
    file: str
    tool: discovery.ScriptTool

    def permissions(self, args: wire.Plain, context: ToolContext) -> list[Ask]:
        patterns = discovery.patterns(self.tool, args)
        always = discovery.remembered(self.tool.patterns, patterns)
        return [Ask(self.tool.full, patterns, always, metadata=dict(args))]

    async def execute(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        full = self.tool.full
        said = wire.encode(args).decode()
        recording = self.engine.recording.recording(full, context.session_id, context.call_id, said)
        async with recording as recorded:
            answer = await self._ask(args, context)
            key, source = context.call_id, self.file
            await self.effects.carry_out("execute_tool", context.session_id, answer, key=key, source=source)
        if "result" not in answer and answer.get("error"):
            raise ToolFailure(protocol.text(answer, "error"))
        metadata: wire.Plain = {name: answer[name] for name in KEYS if name in answer}
        if recorded.files:
            metadata["commit"] = recorded.commit.id if recorded.commit else None
        output = protocol.text(answer, "result") if "result" in answer else "done"
        return ToolResult(output, self.tool.name, metadata)

    async def _ask(self, args: wire.Plain, context: ToolContext) -> protocol.Answer:
        scripts = self.engine.scripts
        entry = scripts.find(self.file)
        if entry is None:
            raise ToolFailure(f"hooks/{self.file}, which owns {self.tool.full}, is gone or not executable")
        fields: wire.Plain = {
            "session": {"id": context.session_id, "agent": context.agent},
            "tool": self.tool.name,
            "args": args,
        }
        try:
            answer = await scripts.call(entry, "execute_tool", fields)
        except script.UnknownHook as error:
            raise ToolFailure(str(error)) from None
        except script.ScriptFailure as error:
            await self.dispatch.failed(context.session_id, context.agent, error)
            raise ToolFailure(str(error)) from None
        self.dispatch.succeeded(context.session_id, "execute_tool")
        return answer
