"""What may be chosen in a session: the agent (the protocol's mode), the model, and the model's variant."""

import asyncio
from typing import Final, Literal

import msgspec
from acp import schema
from acp.exceptions import RequestError

from instar.api.instance import Agent
from instar.api.provider import Model
from instar.client import AsyncClient
from instar.message import ModelRef

_Category = Literal["mode", "model", "thought_level"]
_PLAIN: Final = "default"
"""The variant that is none."""


class SessionChoices(msgspec.Struct, frozen=True):
    """The choices of a directory: its agents, the default one first, its models by their full name, and the default."""

    agents: list[Agent]
    models: dict[str, Model]
    default: str | None

    @classmethod
    async def of(cls, client: AsyncClient) -> "SessionChoices":
        """Return those that `client` is told of."""
        agents, found, config = await asyncio.gather(
            client.app.agents(), client.config.providers(), client.config.get()
        )
        models = {f"{one.id}/{model.id}": model for one in found.providers for model in one.models.values()}
        # Nobody means a script, unless it is named.
        real = [f"{one}/{model}" for one, model in found.default.items() if one != "scripted"]
        named = config.model if isinstance(config.model, str) else None
        own = [one for one in agents if one.mode != "subagent" and not one.hidden]
        return cls(own, models, named or next(iter(real), None))

    def agent(self, name: str | None) -> Agent:
        """Return the agent of this name, else the default one."""
        return next((one for one in self.agents if one.name == name), self.agents[0])

    def model(self, agent: str | None, chosen: ModelRef | None) -> ModelRef | None:
        """Return the model that answers; None while there is none."""
        if chosen is not None:
            return chosen
        if (own := self.agent(agent).model) is not None:
            return ModelRef(provider_id=own.provider_id, model_id=own.model_id)
        provider, _, name = (self.default or "").partition("/")
        return ModelRef(provider_id=provider, model_id=name) if name else None

    def modes(self, agent: str | None) -> schema.SessionModeState:
        """Return the agents as the protocol's modes."""
        modes = [
            schema.SessionMode(id=one.name, name=one.name, description=one.description) for one in self.agents
        ]
        return schema.SessionModeState(current_mode_id=self.agent(agent).name, available_modes=modes)

    def options(self, agent: str | None, chosen: ModelRef | None) -> list[schema.SessionConfigOptionSelect]:
        """Return what may be chosen, with what is chosen."""
        model = self.model(agent, chosen)
        options = [_option("mode", "Agent", "mode", self.agent(agent).name, self._agent_names())]
        if model is None:
            return options
        full = f"{model.provider_id}/{model.model_id}"
        names = {name: f"{one.provider_id}/{one.name}" for name, one in self.models.items()}
        options.append(_option("model", "Model", "model", full, {full: full} | names))
        if full in self.models and (variants := self.models[full].variants):
            current = model.variant or _PLAIN
            named = dict.fromkeys([_PLAIN, *variants])
            options.append(
                _option("variant", "Variant", "thought_level", current, {one: one for one in named})
            )
        return options

    def chosen(
        self, agent: str | None, chosen: ModelRef | None, option: str, value: str
    ) -> tuple[str | None, ModelRef | None]:
        """Return the agent and the model once `value` is chosen. Raises `RequestError` for an unknown one."""
        offered = {one.id: one for one in self.options(agent, chosen)}
        values = [one.value for one in offered[option].options] if option in offered else []
        if value not in values:
            raise RequestError(-32602, f"there is no {option} {value!r}; there are: {', '.join(values[:20])}")
        if option == "mode":
            return value, chosen
        if option == "model":
            provider, _, name = value.partition("/")
            return agent, ModelRef(provider_id=provider, model_id=name)
        model = self.model(agent, chosen)
        assert model is not None
        return agent, msgspec.structs.replace(model, variant=None if value == _PLAIN else value)

    def _agent_names(self) -> dict[str, str]:
        return {one.name: one.name for one in self.agents}


def _option(
    id: str, name: str, category: _Category, current: str, values: dict[str, str]
) -> schema.SessionConfigOptionSelect:
    return schema.SessionConfigOptionSelect(
        type="select",
        id=id,
        name=name,
        category=category,
        current_value=current,
        options=[
            schema.SessionConfigSelectOption(value=value, name=shown) for value, shown in values.items()
        ],
    )
