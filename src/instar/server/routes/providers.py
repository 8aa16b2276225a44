"""The routes of providers: the list of them, and what of them a person has connected (``/api/integration``)."""

from collections.abc import Mapping

from instar.api import catalog as api
from instar.api.location import Located
from instar.api.provider import ProviderAuthMethod, ProviderList
from instar.instance import Instance
from instar.plugin import Invalid
from instar.plugin.route import operation
from instar.provider.catalogue import shipped
from instar.provider.keys import Keys
from instar.provider.listing import chosen, provider_list
from instar.provider.login import Logins
from instar.server.call import Call
from instar.server.location import located
from instar.server.routes.credentials import Begun, failing, kept, provider_of
from instar.wire import Plain

_PREFIX = "cred_"


class ProviderRoutes:
    """Providers, and a person's logins to them."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun

    @operation("GET", "/provider", "provider.list")
    async def providers(self, call: Call) -> ProviderList:
        """List every provider that is known, with its models, and say which can be called."""
        instance = (await call.runtime()).instance
        return provider_list(instance.models, chosen(instance.config))

    @operation("GET", "/api/integration", "v2.integration.list")
    async def integrations(self, call: Call) -> Located[list[api.IntegrationInfo]]:
        """List what a person may connect, and what of it is connected."""
        runtime = await call.runtime()
        with kept(call) as keys:
            found = _integrations(runtime.instance, keys, self._begun.of(runtime))
        return located(runtime, list(found.values()))

    @operation("GET", "/api/integration/{integrationID}", "v2.integration.get")
    async def integration(self, call: Call, integration_id: str) -> Located[api.IntegrationInfo]:
        """Get one of what a person may connect."""
        runtime = await call.runtime()
        with kept(call) as keys:
            found = _integrations(runtime.instance, keys, self._begun.of(runtime))
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
        logins = self._begun.of(runtime)
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
        return located(runtime, self._begun.of(runtime).status(attempt_id))

    @operation(
        "POST", "/api/integration/attempt/{attemptID}/complete", "v2.integration.attempt.complete", status=204
    )
    async def complete(self, call: Call, attempt_id: str, body: api.CodeBody) -> None:
        """End a login with the code that the person was shown."""
        logins = self._begun.of(await call.runtime())
        with failing():
            await logins.end(logins.get(attempt_id), body.code)

    @operation("DELETE", "/api/integration/attempt/{attemptID}", "v2.integration.attempt.cancel", status=204)
    async def cancel(self, call: Call, attempt_id: str) -> None:
        """Forget a login that was begun; nothing happens where there is none."""
        self._begun.of(await call.runtime()).cancel(attempt_id)

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
