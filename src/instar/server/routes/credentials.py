"""The routes of logins that instar keeps for a person (``auth.json``), and of logging in by what plugins offer."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary

from instar import wire
from instar.api.provider import (
    Auth,
    AuthorizeBody,
    CallbackBody,
    ProviderAuthAuthorization,
    ProviderAuthError,
    ProviderAuthMethod,
)
from instar.configured import keys_of
from instar.plugin import Invalid
from instar.plugin.route import operation
from instar.provider.keys import Keys, KeysError
from instar.provider.login import LoginError, Logins
from instar.runtime import Runtime
from instar.server.call import Call
from instar.server.errors import Formed

FORMS: Final = (ProviderAuthError,)
"""How a login that fails is answered."""


class Begun:
    """The logins that were begun, by the runtime whose plugins carry them out."""

    def __init__(self) -> None:
        self._logins: WeakKeyDictionary[Runtime, Logins] = WeakKeyDictionary()

    def of(self, runtime: Runtime) -> Logins:
        """Return a runtime's."""
        if runtime not in self._logins:
            instance = runtime.instance
            self._logins[runtime] = Logins(instance.plugins, keys_of(instance.paths))
        return self._logins[runtime]


class CredentialRoutes:
    """Logins. None of these answers holds a key."""

    def __init__(self, begun: Begun) -> None:
        self._begun = begun

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
    async def methods(self, call: Call) -> dict[str, list[ProviderAuthMethod]]:
        """List the ways to log in that plugins offer, by provider."""
        return self._begun.of(await call.runtime()).methods()

    @operation("POST", "/provider/{providerID}/oauth/authorize", "provider.oauth.authorize", forms=FORMS)
    async def authorize(self, call: Call, provider_id: str, body: AuthorizeBody) -> ProviderAuthAuthorization:
        """Begin a login; answers where the person is to go."""
        with failing():
            logins = self._begun.of(await call.runtime())
            return (await logins.begin(provider_id, body.method, body.inputs or {})).shown

    @operation("POST", "/provider/{providerID}/oauth/callback", "provider.oauth.callback", forms=FORMS)
    async def callback(self, call: Call, provider_id: str, body: CallbackBody) -> bool:
        """End the login that was begun last: hand in the code, or wait until the person has logged in."""
        with failing():
            logins = self._begun.of(await call.runtime())
            await logins.end(logins.last(provider_id), body.code)
        return True


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
    """Answer a login that fails in the form that opencode has for it."""
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
