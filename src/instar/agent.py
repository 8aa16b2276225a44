"""Agents: a prompt, a model, parameters and permissions under a name.

The built-in ones are completed and overridden by the config's ``agent`` block (seed 002). Agents from
Markdown files come with part 2 of the plan.
"""

import difflib
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Literal

import msgspec

from instar.config import Config
from instar.message import ModelRef, Rule
from instar.permission import DEFAULTS, from_config
from instar.wire import Plain

Mode = Literal["primary", "subagent", "all"]


class UnknownAgent(Exception):
    """There is no agent of that name; the text names the nearest ones."""


class Agent(msgspec.Struct, frozen=True):
    """One agent. `permission` holds every rule that applies to it, defaults first."""

    name: str
    description: str = ""
    mode: Mode = "primary"
    model: ModelRef | None = None
    variant: str | None = None
    prompt: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    steps: int | None = None
    hidden: bool = False
    permission: tuple[Rule, ...] = ()
    options: Plain = msgspec.field(default_factory=dict)


def shipped_prompt(name: str) -> str:
    """Return a prompt that ships with instar: ``base``, ``title`` or ``compaction``."""
    return resources.files("instar").joinpath("prompts", f"{name}.txt").read_text("utf-8").strip()


def parse_model(reference: str) -> ModelRef:
    """Split ``provider/model``; the model's own name may hold slashes. Raises `ValueError`."""
    provider, slash, model = reference.partition("/")
    if not (provider and slash and model):
        raise ValueError(f"a model is named as provider/model, not {reference!r}")
    return ModelRef(provider_id=provider, model_id=model)


def sampling_temperature(agent: Agent, model_id: str) -> float:
    """Return the agent's temperature, or the default: 0, and 0.55 for Qwen models (seed 002)."""
    if agent.temperature is not None:
        return agent.temperature
    return 0.55 if "qwen" in model_id.lower() else 0.0


class Agents:
    """Every agent of an instance, from the built-in ones and the config."""

    def __init__(self, config: Config, own: Sequence[Rule] = ()) -> None:
        """Build the agents; `own` are rules of the runtime itself, before the person's.

        Raises `ValueError` naming the agent and field that is wrong.
        """
        common = (*DEFAULTS, *own, *from_config(config.permission or {}), *_tool_rules(config.tools))
        self._agents = {
            agent.name: msgspec.structs.replace(agent, permission=(*common, *agent.permission))
            for agent in _BUILTIN
        }
        for name, block in config.agent.items():
            if block.disable:
                self._agents.pop(name, None)
                continue
            self._agents[name] = _merged(
                self._agents.get(name) or Agent(name, mode="all", permission=common), block
            )
        self._default = config.default_agent or "build"

    def get(self, name: str | None) -> Agent:
        """Return the agent called `name`, or the default one. Raises `UnknownAgent` with the nearest names."""
        wanted = name or self._default
        agent = self._agents.get(wanted)
        if agent is None:
            near = difflib.get_close_matches(wanted, self._agents, n=3, cutoff=0.4) or sorted(self._agents)
            raise UnknownAgent(f"there is no agent {wanted!r}; there are: {', '.join(near)}")
        return agent

    def all(self) -> list[Agent]:
        """Return every agent, built-in ones first."""
        return list(self._agents.values())


_DENY_ALL = (Rule(permission="*", pattern="*", action="deny"),)

_BUILTIN = (
    Agent("build", description="The default agent: reads, edits and runs what the task needs."),
    Agent("title", mode="primary", hidden=True, temperature=0.5, permission=_DENY_ALL),
    Agent("compaction", mode="primary", hidden=True, permission=_DENY_ALL),
)


def _merged(agent: Agent, block: Any) -> Agent:
    rules = (*agent.permission, *_tool_rules(block.tools), *from_config(block.permission or {}))
    changes: dict[str, Any] = {"permission": rules, "options": {**agent.options, **(block.options or {})}}
    for field in ("description", "mode", "variant", "prompt", "temperature", "top_p", "steps", "hidden"):
        value = getattr(block, field)
        if value is not None:
            changes[field] = value
    if block.model:
        try:
            changes["model"] = parse_model(block.model)
        except ValueError as error:
            raise ValueError(f"agent.{agent.name}.model: {error}") from None
    return msgspec.structs.replace(agent, **changes)


def _tool_rules(tools: Mapping[str, bool] | None) -> tuple[Rule, ...]:
    """``tools: {name: bool}`` as rules; write, edit and patch all mean the permission ``edit``."""
    return tuple(
        Rule(
            permission="edit" if name in ("write", "edit", "patch") else name,
            pattern="*",
            action="allow" if on else "deny",
        )
        for name, on in (tools or {}).items()
    )
