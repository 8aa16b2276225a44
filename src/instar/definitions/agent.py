"""Agents: a prompt, a model, parameters and permissions under a name.

The built-in ones are completed and overridden by the configuration's ``agent`` block, into which
`instar.definitions.markdown` has put the agents of Markdown files.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from instar import wire
from instar.message import ModelRef, Rule
from instar.provider.protocol import Model
from instar.provider.resolve import UnknownModel
from instar.settings.config import AgentConfig, Config
from instar.settings.permission import DEFAULTS, from_config
from instar.settings.rules import ALLOWED, DENIALS, confined
from instar.wire import Plain

Mode = Literal["primary", "subagent", "all"]
_PROMPTS: Final = Path(__file__).with_name("prompts")


class UnknownAgent(Exception):
    """No agent has that name, or it cannot be used; the text says why, or names similar ones."""


class Agent(msgspec.Struct, frozen=True):
    """One agent. `permission` holds every rule that applies to it, defaults first; `native`: it ships with instar."""

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
    color: str | None = None
    native: bool = False
    permission: tuple[Rule, ...] = ()
    options: Plain = msgspec.field(default_factory=dict)


def to_plain(agent: Agent) -> Plain:
    """Return an agent in opencode's form (``GET /agent``); what is not set is left out."""
    given: Plain = {
        "name": agent.name,
        "description": agent.description or None,
        "mode": agent.mode,
        "native": agent.native,
        "hidden": agent.hidden or None,
        "topP": agent.top_p,
        "temperature": agent.temperature,
        "color": agent.color,
        "permission": [wire.to_plain(rule) for rule in agent.permission],
        "model": agent.model and {"modelID": agent.model.model_id, "providerID": agent.model.provider_id},
        "variant": agent.variant,
        "prompt": agent.prompt,
        "options": agent.options,
        "steps": agent.steps,
    }
    return {key: value for key, value in given.items() if value is not None}


def shipped_prompt(name: str) -> str:
    """Return a prompt that ships with instar: ``base``, ``plan``, ``explore``, ``title``, ``compaction`` …."""
    return (_PROMPTS / f"{name}.txt").read_text("utf-8").strip()


def parse_model(reference: str) -> ModelRef:
    """Split ``provider/model``; the model's own name may hold slashes. Raises `ValueError`."""
    provider, slash, model = reference.partition("/")
    if not (provider and slash and model):
        raise ValueError(f"a model is named as provider/model, not {reference!r}")
    return ModelRef(provider_id=provider, model_id=model)


def sampling_temperature(agent: Agent, model_id: str) -> float:
    """Return the agent's temperature, or the default: 0, and 0.55 for Qwen models, as in opencode."""
    if agent.temperature is not None:
        return agent.temperature
    return 0.55 if "qwen" in model_id.lower() else 0.0


class Agents:
    """Every agent of an instance, from the built-in ones and the config.

    `problems` are one-line sentences about agents that cannot be used.
    """

    def __init__(
        self, config: Config, own: Sequence[Rule] = (), find: Callable[[str], Model] | None = None
    ) -> None:
        """Build the agents; `own` are rules of the runtime itself, before the person's.

        `find` is asked for a model that is named without its provider. An agent whose model is not known is one
        of `problems`; the others are built.
        """
        self._find = find
        self._faults: dict[str, str] = {}
        everybody = (*own, *from_config(config.permission or {}), *tool_rules(config.tools))
        asked = [(name, pattern) for agent, name, pattern in config.asked if not agent]
        self._agents = {
            agent.name: msgspec.structs.replace(
                agent,
                native=True,
                permission=(
                    *DEFAULTS,
                    *agent.permission,
                    *confined(agent.name, everybody, asked),
                    *DENIALS.get(agent.name, ()),
                ),
            )
            for agent in _BUILTIN
        }
        for name, block in config.agent.items():
            if block.disable:
                self._agents.pop(name, None)
                continue
            new = Agent(name, mode="all", permission=(*DEFAULTS, *everybody))
            asked = [(rule, pattern) for agent, rule, pattern in config.asked if agent == name]
            try:
                self._agents[name] = self._merged(self._agents.get(name) or new, block, asked)
            except ValueError as error:
                self._agents.pop(name, None)
                self._faults[name] = str(error)
        self._default = config.default_agent

    @property
    def problems(self) -> list[str]:
        """What is wrong with agents that cannot be used, a sentence each."""
        return [f"the agent {name} cannot be used: {fault}" for name, fault in self._faults.items()]

    def get(self, name: str | None) -> Agent:
        """Return the agent called `name`, or the default one. Raises `UnknownAgent` with the nearest names."""
        wanted = name or self._default or "build"
        if wanted in self._faults:
            raise UnknownAgent(f"the agent {wanted!r} cannot be used: {self._faults[wanted]}")
        agent = self._agents.get(wanted)
        if agent is None:
            near = difflib.get_close_matches(wanted, self._agents, n=3, cutoff=0.4) or sorted(self._agents)
            raise UnknownAgent(f"there is no agent {wanted!r}; there are: {', '.join(near)}")
        if name is None and (agent.hidden or agent.mode == "subagent"):
            kind = "hidden" if agent.hidden else "a sub-agent"
            raise UnknownAgent(f"default_agent: {wanted!r} is {kind}; name a primary agent that can be seen")
        return agent

    def all(self) -> list[Agent]:
        """Return every agent, built-in ones first."""
        return list(self._agents.values())

    def subagents(self) -> list[Agent]:
        """Return the agents that a task may be given to: those of mode subagent or all that are not hidden."""
        return [agent for agent in self.all() if agent.mode != "primary" and not agent.hidden]

    def _merged(self, agent: Agent, block: AgentConfig, asked: Iterable[tuple[str, str]]) -> Agent:
        own = confined(agent.name, from_config(block.permission or {}), asked)
        rules = (*agent.permission, *tool_rules(block.tools), *own)
        changes: dict[str, Any] = {"permission": rules, "options": {**agent.options, **(block.options or {})}}
        for field in _COPIED:
            value = getattr(block, field)
            if value is not None:
                changes[field] = value
        if block.model:
            changes["model"] = self._model(agent.name, block.model)
        return msgspec.structs.replace(agent, **changes)

    def _model(self, agent: str, reference: str) -> ModelRef:
        try:
            if "/" in reference or self._find is None:
                return parse_model(reference)
            found = self._find(reference)
            return ModelRef(provider_id=found.provider_id, model_id=found.id)
        except (ValueError, UnknownModel) as error:
            raise ValueError(f"agent.{agent}.model: {error}") from None


SWITCHES: Final = ("self_evolution",)
"""Keys of ``tools`` that are settings of ours (docs/reference/self.md), never the names of tools."""


def tool_rules(tools: Mapping[str, bool] | None) -> tuple[Rule, ...]:
    """Return ``tools: {name: bool}`` as rules; write, edit and patch all mean the permission ``edit``."""
    return tuple(
        Rule(
            permission="edit" if name in ("write", "edit", "patch") else name,
            pattern="*",
            action="allow" if on else "deny",
        )
        for name, on in (tools or {}).items()
        if name not in SWITCHES
    )


_COPIED: Final = (
    *("description", "mode", "variant", "prompt", "temperature", "top_p", "steps", "hidden", "color"),
)


def _only(*names: str) -> tuple[Rule, ...]:
    """Rules that allow these permissions and nothing else; what the defaults guard stays guarded."""
    allowed = (Rule(permission=name, pattern="*", action="allow") for name in names)
    return (Rule(permission="*", pattern="*", action="deny"), *allowed, *DEFAULTS[1:])


def _prompt(*names: str) -> str:
    return "\n\n".join(map(shipped_prompt, names))


_BUILTIN: Final = (
    Agent("build", description="The default agent: reads, edits and runs what the task needs."),
    Agent("plan", description="Reads, asks and plans; changes no file.", prompt=_prompt("base", "plan")),
    Agent(
        "general",
        description="Works on a task of several steps by itself: research, searching, changes. "
        "Several may run at the same time.",
        mode="subagent",
    ),
    Agent(
        "explore",
        description="Finds its way in a code base fast: files by pattern, code by word, how something works. "
        "Say how thorough it should be: quick, medium or very thorough.",
        mode="subagent",
        prompt=_prompt("explore"),
        permission=_only(*ALLOWED["explore"]),
    ),
    Agent("title", hidden=True, temperature=0.5),
    Agent("summary", hidden=True, prompt=_prompt("summary")),
    Agent("compaction", hidden=True),
)
