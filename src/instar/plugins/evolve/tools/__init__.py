"""evolve's own tools: the way out of a broken script, there whatever state the scripts are in.

Names and parameters are those of opencode-evolve's README; `tool_list`, `tool_invoke`, `log`, `rollback`, `pending`,
`attempts`, `hook_propose` and `prompt_propose` are instar's own.
"""

from collections.abc import Sequence

from instar.plugin import Tool
from instar.plugins.evolve.discovery import PREFIX
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.tools import clock, definition, hooks, invoke, past, prompts


def build(engine: EvolveEngine, prefixes: Sequence[str], taken: Sequence[str]) -> dict[str, Tool]:
    """Return evolve's own tools by full name.

    `prefixes` are the names of the scripts, under which each tool goes too unless that name is `taken` by
    a tool of a script.
    """

    def aliases(name: str) -> tuple[str, ...]:
        named = (f"{prefix}_{name}" for prefix in prefixes if prefix != PREFIX)
        return tuple(alias for alias in named if alias not in taken)

    made = (
        hooks.tools(engine)
        | prompts.tools(engine)
        | clock.tools(engine)
        | past.tools(engine, aliases)
        | invoke.tools(taken)
    )
    return {f"{PREFIX}_{name}": definition.named(name, made[name], aliases) for name in sorted(made)}
