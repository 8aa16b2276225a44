"""The tools that hook scripts define, as tools that the model can call.

A call goes only to the script that owns the tool,
under the tool's unprefixed name.
"""

from collections.abc import Iterable

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
        self,
        engine: EvolveEngine,
        dispatch: Dispatch,
        effects: HookEffects,
        file: str,
        tool: discovery.ScriptTool,
    ) -> None:
        self._engine = engine
        self._dispatch = dispatch
        self._effects = effects
        self._file = file
        self._tool = tool

    def permissions(self, args: wire.Plain, context: ToolContext) -> list[Ask]:
        patterns = discovery.patterns(self._tool, args)
        return [
            Ask(
                self._tool.full,
                patterns,
                discovery.remembered(self._tool.patterns, patterns),
                metadata=dict(args),
            )
        ]

    async def execute(self, args: wire.Plain, context: ToolContext) -> ToolResult:
        full = self._tool.full
        said = wire.encode(args).decode()
        recording = self._engine.recording.recording(full, context.session_id, context.call_id, said)
        async with recording as recorded:
            answer = await self._ask(args, context)
            key, source = context.call_id, self._file
            await self._effects.carry_out("execute_tool", context.session_id, answer, key=key, source=source)
        if "result" not in answer and answer.get("error"):
            raise ToolFailure(protocol.text(answer, "error"))
        metadata: wire.Plain = {name: answer[name] for name in KEYS if name in answer}
        if recorded.files:
            metadata["commit"] = recorded.commit.id if recorded.commit else None
        output = protocol.text(answer, "result") if "result" in answer else "done"
        return ToolResult(output, self._tool.name, metadata)

    async def _ask(self, args: wire.Plain, context: ToolContext) -> protocol.Answer:
        scripts = self._engine.scripts
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
            await self._dispatch.failed(context.session_id, context.agent, error)
            raise ToolFailure(str(error)) from None
        self._dispatch.succeeded(context.session_id, "execute_tool")
        return answer
