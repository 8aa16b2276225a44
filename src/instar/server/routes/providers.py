"""The routes of providers: the list of them, the logins that instar keeps (``auth.json``), and logging in."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from instar import wire
from instar.api.operation import operation
from instar.api.provider import (
    Auth,
    AuthorizeBody,
    CallbackBody,
    ProviderAuthAuthorization,
    ProviderAuthError,
    ProviderAuthMethod,
    ProviderList,
)
from instar.plugin import Invalid
from instar.provider.keys import Keys, KeysError
from instar.provider.listing import chosen, provider_list
from instar.provider.login import LoginError, Logins
from instar.runtime import Runtime
from instar.runtime.configured import keys_of
from instar.server.call import Call
from instar.server.errors import Formed
from instar.session.instance import Instance

_FORMS: Final = (ProviderAuthError,)
"""The form of the answer to a login that fails."""


class ProviderRoutes:
    """Providers, and a person's logins to them. No answer holds a key."""

    @operation("GET", "/provider", "provider.list")
    async def providers(self, instance: Instance) -> ProviderList:
        """List every provider that is known, with its models, and say which can be called."""
        return provider_list(instance.models, chosen(instance.config))

    @operation("PUT", "/auth/{providerID}", "auth.set", scoped=False)
    async def put(self, call: Call, provider_id: str, body: Auth) -> bool:
        """Keep a login; instances that are open have it once they were disposed."""
        with kept(call) as keys:
            keys.keep(provider_of(provider_id), wire.to_plain(body))
        return True

    @operation("DELETE", "/auth/{providerID}", "auth.remove", scoped=False)
    async def remove(self, call: Call, provider_id: str) -> bool:
        """Forget a login; nothing happens where none is kept."""
        with kept(call) as keys:
            keys.remove(provider_id)
        return True

    @operation("GET", "/provider/auth", "provider.auth")
    async def methods(self, call: Call, runtime: Runtime) -> dict[str, list[ProviderAuthMethod]]:
        """List the ways to log in that plugins offer, by provider."""
        return logins_of(call, runtime).methods()

    @operation("POST", "/provider/{providerID}/oauth/authorize", "provider.oauth.authorize", forms=_FORMS)
    async def authorize(
        self, call: Call, runtime: Runtime, provider_id: str, body: AuthorizeBody
    ) -> ProviderAuthAuthorization:
        """Begin a login; answers where the person is to go."""
        with failing():
            logins = logins_of(call, runtime)
            return (await logins.begin(provider_id, body.method, body.inputs or {})).authorization

    @operation("POST", "/provider/{providerID}/oauth/callback", "provider.oauth.callback", forms=_FORMS)
    async def callback(self, call: Call, runtime: Runtime, provider_id: str, body: CallbackBody) -> bool:
        """End the login that was begun last: hand in the code, or wait until the person has logged in."""
        with failing():
            logins = logins_of(call, runtime)
            await logins.end(logins.last(provider_id), body.code)
        return True


def logins_of(call: Call, runtime: Runtime) -> Logins:
    """Return the logins that were begun in a runtime, whose plugins carry them out."""
    begun, instance = call.instances.logins, runtime.instance
    if runtime not in begun:
        begun[runtime] = Logins(instance.plugins, keys_of(instance.paths))
    return begun[runtime]


@contextmanager
def kept(call: Call) -> Iterator[Keys]:
    """Give the keys that the person keeps; a file that cannot be used is answered as `Invalid`."""
    try:
        yield keys_of(call.instances.paths)
    except KeysError as error:
        raise Invalid(str(error)) from error
    except OSError as error:
        raise Invalid(f"the file of keys cannot be written: {error.strerror}") from error


@contextmanager
def failing() -> Iterator[None]:
    """Return the answer of a failed login in opencode's form."""
    try:
        yield
    except LoginError as error:
        raise Formed(400, {"name": error.name, "data": error.data}) from error


def provider_of(name: str) -> str:
    """Return a provider's name without the slash that some clients put behind it. Raises `Invalid`."""
    name = name.rstrip("/")
    if not name.strip() or "/" in name or name != name.strip():
        raise Invalid(f"{name!r} is no provider's name")
    return name
