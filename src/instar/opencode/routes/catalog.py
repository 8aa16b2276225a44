"""opencode's newer routes of models, providers and their logins, and of what a person defined (``/api/…``)."""

from collections.abc import Mapping, Sequence

import msgspec

from instar.api import v2 as api
from instar.api.operation import operation
from instar.api.provider import Limit, ProviderAuthMethod
from instar.api.v2 import Located
from instar.definitions.agent import Agent, parse_model
from instar.definitions.command import Command
from instar.opencode.routes.location import located
from instar.plugin import Invalid
from instar.provider import protocol
from instar.provider.catalogue import shipped
from instar.provider.keys import Keys
from instar.provider.listing import chosen, connected
from instar.provider.login import Logins
from instar.server.call import Call
from instar.server.errors import Formed
from instar.server.routes.definitions import skills_of
from instar.server.routes.providers import failing, kept, logins_of, provider_of
from instar.session.instance import Instance
from instar.wire import Plain
from instar.wire.secret import MASK, disclosed

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
        found = skills_of(runtime.instance)
        return located(runtime, [api.SkillV2Info(**msgspec.structs.asdict(skill)) for skill in found])

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


def _provider(instance: Instance, name: str, listed: Sequence[protocol.Model]) -> api.ProviderV2Info:
    return api.ProviderV2Info(
        id=name,
        name=instance.models.info(name)["name"],
        api=api.ProviderApi(package=protocol.package(listed[0]), url=disclosed(listed[0].url) or None),
        request=api.ProviderRequest(headers={}, body={}),
    )


def _model(model: protocol.Model) -> api.ModelV2Info:
    takes = ["text", "image", "pdf"] if model.attachment else ["text"]
    return api.ModelV2Info(
        id=model.id,
        provider_id=model.provider_id,
        name=model.name,
        api=api.CatalogModelApi(
            id=model.wire_id or model.id, package=protocol.package(model), url=disclosed(model.url) or None
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
        cost=[protocol.cost(model)],
        status="active",
        enabled=True,
        limit=Limit(context=model.limit.context, input=model.limit.input, output=model.limit.output),
    )


_PREFIX = "cred_"


class IntegrationRoutes:
    """What a person may connect, and what of it is connected."""

    @operation("GET", "/api/integration", "v2.integration.list")
    async def integrations(self, call: Call) -> Located[list[api.IntegrationInfo]]:
        """List what a person may connect, and what of it is connected."""
        runtime = await call.runtime()
        with kept(call) as keys:
            found = _integrations(runtime.instance, keys, logins_of(call, runtime))
        return located(runtime, list(found.values()))

    @operation("GET", "/api/integration/{integrationID}", "v2.integration.get")
    async def integration(self, call: Call, integration_id: str) -> Located[api.IntegrationInfo]:
        """Get one of what a person may connect."""
        runtime = await call.runtime()
        with kept(call) as keys:
            found = _integrations(runtime.instance, keys, logins_of(call, runtime))
        if integration_id not in found:
            raise Invalid(f"there is no provider {integration_id!r} to connect")
        return located(runtime, found[integration_id])

    @operation(
        "POST", "/api/integration/{integrationID}/connect/key", "v2.integration.connect.key", status=204
    )
    async def connect(self, call: Call, integration_id: str, body: api.KeyBody) -> None:
        """Keep a key."""
        if not body.key.strip():
            raise Invalid("the key is empty")
        entry: Plain = {"type": "api", "key": body.key.strip()}
        if body.label:
            entry["metadata"] = {"label": body.label}
        with kept(call) as keys:
            keys.keep(provider_of(integration_id), entry)

    @operation("POST", "/api/integration/{integrationID}/connect/oauth", "v2.integration.connect.oauth")
    async def log_in(
        self, call: Call, integration_id: str, body: api.OAuthBody
    ) -> Located[api.IntegrationAttempt]:
        """Begin a login by what a plugin offers."""
        runtime = await call.runtime()
        logins = logins_of(call, runtime)
        offered = [
            method.type == "oauth" and _method_id(at) == body.method_id
            for at, method in enumerate(logins.methods().get(integration_id, []))
        ]
        if True not in offered:
            raise Invalid(f"{integration_id} has no method {body.method_id!r} to log in")
        with failing():
            attempt = await logins.begin(integration_id, offered.index(True), body.inputs)
        return located(runtime, logins.follow(attempt))

    @operation("GET", "/api/integration/attempt/{attemptID}", "v2.integration.attempt.status")
    async def attempt(self, call: Call, attempt_id: str) -> Located[api.IntegrationAttemptStatus]:
        """Tell how a login stands."""
        runtime = await call.runtime()
        return located(runtime, logins_of(call, runtime).status(attempt_id))

    @operation(
        "POST", "/api/integration/attempt/{attemptID}/complete", "v2.integration.attempt.complete", status=204
    )
    async def complete(self, call: Call, attempt_id: str, body: api.LoginCodeBody) -> None:
        """End a login with the code that the person was shown."""
        logins = logins_of(call, await call.runtime())
        with failing():
            await logins.end(logins.get(attempt_id), body.code)

    @operation("DELETE", "/api/integration/attempt/{attemptID}", "v2.integration.attempt.cancel", status=204)
    async def cancel(self, call: Call, attempt_id: str) -> None:
        """Forget a login that was begun; nothing happens where there is none."""
        logins_of(call, await call.runtime()).cancel(attempt_id)

    @operation("PATCH", "/api/credential/{credentialID}", "v2.credential.update", status=204)
    async def rename(self, call: Call, credential_id: str, body: api.LabelBody) -> None:
        """Name a login that is kept; nothing happens where there is none."""
        name = credential_id.removeprefix(_PREFIX)
        with kept(call) as keys:
            entry = keys.entry(name)
            if entry is not None:
                keys.keep(name, {**entry, "metadata": {**_metadata(entry), "label": body.label}})

    @operation("DELETE", "/api/credential/{credentialID}", "v2.credential.remove", status=204)
    async def forget(self, call: Call, credential_id: str) -> None:
        """Forget a login that is kept; nothing happens where there is none."""
        with kept(call) as keys:
            keys.remove(credential_id.removeprefix(_PREFIX))


def _integrations(instance: Instance, keys: Keys, logins: Logins) -> dict[str, api.IntegrationInfo]:
    vendors = {name: vendor for name, vendor in shipped().providers.items() if vendor.env}
    offered, kept_names = logins.methods(), keys.list()
    return {
        name: _integration(instance, name, keys.entry(name), offered)
        for name in sorted({*vendors, *offered, *kept_names})
    }


def _integration(
    instance: Instance, name: str, entry: Plain | None, offered: Mapping[str, list[ProviderAuthMethod]]
) -> api.IntegrationInfo:
    info = instance.models.info(name)
    names = list(dict.fromkeys(info["env"]))
    methods: list[api.KeyMethod | api.EnvMethod | api.OAuthMethod] = [
        api.OAuthMethod(id=_method_id(at), label=method.label, prompts=method.prompts)
        for at, method in enumerate(offered.get(name, []))
        if method.type == "oauth"
    ]
    methods.append(api.KeyMethod())
    if names:
        methods.append(api.EnvMethod(names=names))
    found: list[api.CredentialConnection | api.EnvConnection] = []
    if entry is not None:
        label = _metadata(entry).get("label") or info["name"]
        found.append(api.CredentialConnection(id=_PREFIX + name, label=str(label)))
    found += [api.EnvConnection(name=one) for one in names if instance.environment.get(one, "").strip()]
    return api.IntegrationInfo(id=name, name=info["name"], methods=methods, connections=found)


def _metadata(entry: Plain) -> Plain:
    found = entry.get("metadata")
    return found if isinstance(found, dict) else {}


def _method_id(at: int) -> str:
    return f"method-{at}"
