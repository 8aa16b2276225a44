"""opencode's newer routes of what a model and a provider are, and what a person defined (``/api/…``)."""

from collections.abc import Sequence

from instar.agent import Agent, parse_model
from instar.api import catalog as api
from instar.api.definition import Skill
from instar.api.location import Located
from instar.api.provider import Limit
from instar.command import Command
from instar.instance import Instance
from instar.plugin.route import operation
from instar.provider import protocol
from instar.provider.listing import chosen, connected, cost, package
from instar.secret import MASK, disclosed
from instar.server.call import Call
from instar.server.errors import Formed
from instar.server.location import located
from instar.server.routes.definitions import skills_of

_COLOR = ("primary", "secondary", "accent", "success", "warning", "error", "info")


class CatalogRoutes:
    """Agents, commands, skills, models and providers."""

    @operation("GET", "/api/health", "v2.health.get", scoped=False)
    async def health(self) -> api.Health:
        """Say that the server is well."""
        return api.Health(healthy=True)

    @operation("GET", "/api/agent", "v2.agent.list")
    async def agents(self, call: Call) -> Located[list[api.AgentV2Info]]:
        """List the agents."""
        runtime = await call.runtime()
        return located(runtime, [_agent(agent) for agent in runtime.instance.agents.all()])

    @operation("GET", "/api/command", "v2.command.list")
    async def commands(self, call: Call) -> Located[list[api.CommandV2Info]]:
        """List the commands of the settings."""
        runtime = await call.runtime()
        return located(runtime, [_command(command) for command in runtime.instance.commands.all()])

    @operation("GET", "/api/skill", "v2.skill.list")
    async def skills(self, call: Call) -> Located[list[api.SkillV2Info]]:
        """List the skills."""
        runtime = await call.runtime()
        return located(runtime, [_skill(skill) for skill in skills_of(runtime.instance)])

    @operation("GET", "/api/model", "v2.model.list", errors=(503,))
    async def models(self, call: Call) -> Located[list[api.ModelV2Info]]:
        """List the models that can be called."""
        runtime = await call.runtime()
        found = [model for listed in _connected(runtime.instance).values() for model in listed]
        return located(runtime, [_model(model) for model in found])

    @operation("GET", "/api/provider", "v2.provider.list", errors=(503,))
    async def providers(self, call: Call) -> Located[list[api.ProviderV2Info]]:
        """List the providers that can be called."""
        runtime = await call.runtime()
        found = _connected(runtime.instance)
        return located(runtime, [_provider(runtime.instance, name, found[name]) for name in found])

    @operation("GET", "/api/provider/{providerID}", "v2.provider.get", errors=(404, 503))
    async def provider(self, call: Call, provider_id: str) -> Located[api.ProviderV2Info]:
        """Get a provider that can be called."""
        runtime = await call.runtime()
        found = _connected(runtime.instance)
        if provider_id not in found:
            said = f"Provider not found: {provider_id}"
            raise Formed(404, {"_tag": "ProviderNotFoundError", "providerID": provider_id, "message": said})
        return located(runtime, _provider(runtime.instance, provider_id, found[provider_id]))


def _connected(instance: Instance) -> dict[str, list[protocol.Model]]:
    return connected(instance.models, chosen(instance.config))


def _agent(agent: Agent) -> api.AgentV2Info:
    model = agent.model
    color = agent.color or ""
    return api.AgentV2Info(
        id=agent.name,
        model=None
        if model is None
        else api.CatalogModelRef(id=model.model_id, provider_id=model.provider_id, variant=agent.variant),
        request=api.ProviderRequest(headers={}, body=disclosed(agent.options)),
        system=agent.prompt,
        description=agent.description or None,
        mode=agent.mode,
        hidden=agent.hidden,
        color=color if color in _COLOR or _is_hex(color) else None,
        steps=agent.steps,
        permissions=[
            api.PermissionV2Rule(action=rule.permission, resource=rule.pattern, effect=rule.action)
            for rule in agent.permission
        ],
    )


def _is_hex(color: str) -> bool:
    return len(color) == 7 and color[0] == "#" and all(mark in "0123456789abcdefABCDEF" for mark in color[1:])


def _command(command: Command) -> api.CommandV2Info:
    return api.CommandV2Info(
        name=command.name,
        template=command.template,
        description=command.description or None,
        agent=command.agent,
        model=_reference(command.model, command.variant),
        subtask=command.subtask,
    )


def _reference(model: str | None, variant: str | None) -> api.CatalogModelRef | None:
    try:
        found = parse_model(model or "")
    except ValueError:  # a name without its provider has no form here
        return None
    return api.CatalogModelRef(id=found.model_id, provider_id=found.provider_id, variant=variant)


def _skill(skill: Skill) -> api.SkillV2Info:
    return api.SkillV2Info(
        name=skill.name, description=skill.description, location=skill.location, content=skill.content
    )


def _provider(instance: Instance, name: str, listed: Sequence[protocol.Model]) -> api.ProviderV2Info:
    return api.ProviderV2Info(
        id=name,
        name=instance.models.info(name)["name"],
        api=api.ProviderApi(package=package(listed[0]), url=disclosed(listed[0].url) or None),
        request=api.ProviderRequest(headers={}, body={}),
    )


def _model(model: protocol.Model) -> api.ModelV2Info:
    takes = ["text", "image", "pdf"] if model.attachment else ["text"]
    return api.ModelV2Info(
        id=model.id,
        provider_id=model.provider_id,
        name=model.name,
        api=api.CatalogModelApi(
            id=model.wire_id or model.id, package=package(model), url=disclosed(model.url) or None
        ),
        capabilities=api.ModelCapabilities(tools=model.tools, input=takes, output=["text"]),
        request=api.ProviderRequest(
            headers=dict.fromkeys(model.headers, MASK), body=disclosed(model.options)
        ),
        variants=[
            api.ModelVariant(id=name, headers={}, body=disclosed(body))
            for name, body in model.variants.items()
        ],
        time=api.ModelTime(released=0),
        cost=[cost(model)],
        status="active",
        enabled=True,
        limit=Limit(context=model.limit.context, input=model.limit.input, output=model.limit.output),
    )
