"""The routes of settings: those of a directory and the person's own, read and amended."""

import asyncio
from collections.abc import Iterable

from instar import wire
from instar.api.config import Config, fitted
from instar.api.operation import operation
from instar.api.provider import ConfigProviders
from instar.limits.budget import LimitsError
from instar.plugin import Invalid
from instar.provider.keys import KeysError
from instar.provider.listing import chosen, config_providers
from instar.runtime import Runtime
from instar.runtime.config_edit import EditedFile, MaskedValue, amend, own_file, own_settings, project_file
from instar.runtime.configured import keys_of, user_name
from instar.server.call import Call
from instar.server.instances import Instances
from instar.session.instance import Instance
from instar.settings.config import OWN_KEYS, ConfigError
from instar.settings.known import OPENCODE_KEYS, unknown
from instar.settings.trust import Trust, TrustError
from instar.store.trust import trust_at
from instar.wire import Plain
from instar.wire.secret import Secret, disclosed, secrets_in


class ConfigRoutes:
    """Settings. Keys and other secrets read ``***``; sent back so, they stay as they are.

    To change them is an order: a plugin that settings name runs as the person does, outside of any shield.
    """

    @operation("GET", "/config", "config.get")
    async def get(self, instance: Instance) -> Config:
        """Get a directory's merged settings, in opencode's form."""
        blank: Plain = {"command": {}, "plugin": [], "mode": {}, "agent": {}, "username": user_name()}
        # Nothing can be shared, whatever the settings say: opencode's clients offer it unless it is switched off.
        return _shown({**blank, **instance.config.data, "share": "disabled"}, _secrets_of(instance))

    @operation("PATCH", "/config", "config.update", order=True)
    async def update(self, call: Call, runtime: Runtime, body: Config) -> Config:
        """Put settings into the directory's file, and end its instance, so that the next request has them.

        Maps are joined, lists replaced; a mistake refuses the whole. Answers what was asked for.
        """
        changes = _changes(body)
        place, secrets = project_file(runtime.instance.directory), _secrets_of(runtime.instance)
        await _amended(call.instances, place, changes, secrets)
        await call.instances.dispose(str(runtime.instance.directory))
        return _shown(changes, ())

    @operation("GET", "/global/config", "global.config.get", scoped=False)
    async def get_own(self, call: Call) -> Config:
        """Get the person's own settings, in opencode's form."""
        return _own(call.instances)

    @operation("PATCH", "/global/config", "global.config.update", scoped=False, order=True)
    async def update_own(self, call: Call, body: Config) -> Config:
        """Put settings into the person's own file, and end every instance.

        As ``PATCH /config``; answers the person's own settings as they are then.
        """
        paths = call.instances.paths
        place = own_file(paths.config_homes, paths.config)
        await _amended(call.instances, place, _changes(body), _own_secrets(call.instances))
        await call.instances.dispose_all()
        return _own(call.instances)

    @operation("GET", "/config/providers", "config.providers")
    async def providers(self, instance: Instance) -> ConfigProviders:
        """List the providers that can be called, with their models and the one to begin with."""
        return config_providers(instance.models, chosen(instance.config))


async def _amended(
    instances: Instances, place: EditedFile, changes: Plain, secrets: Iterable[Secret]
) -> None:
    instances.may_dispose()
    environment = instances.environment

    def amended() -> None:
        trust = trust_at(instances.paths, environment)
        view = None if place.owner is None else trust.view(place.owner)
        amend(place, changes, environment, trust, secrets)
        # A person asked for it. What somebody else had changed in the file before is not accepted with it.
        if view is not None and view.is_accepted(place.path):
            trust.accept_file(view, place.path)

    try:
        await asyncio.to_thread(amended)
    except OSError as error:
        raise Invalid(f"{place.path} cannot be written: {error.strerror}") from error
    except (LimitsError, MaskedValue, TrustError) as error:
        raise Invalid(str(error)) from error


def _changes(body: Config) -> Plain:
    """What a body sets. Raises `ConfigError` for a key that looks like a known one; others are left out."""
    data: Plain = wire.to_plain(body)
    for key, near in unknown(data):
        if near is not None:
            raise ConfigError("the body", (key,), f"there is no such setting; did you mean {near}?")
    return {key: value for key, value in data.items() if key in OPENCODE_KEYS or key in OWN_KEYS}


def _own(instances: Instances) -> Config:
    paths, environment = instances.paths, instances.environment
    data = own_settings(paths, environment, Trust(paths, environment))
    return _shown(data, [*secrets_in(data), *_own_secrets(instances)])


def _own_secrets(instances: Instances) -> list[Secret]:
    try:
        kept = keys_of(instances.paths).secrets()
    except KeysError:  # a file that cannot be read gave nobody a key
        kept = []
    return [*secrets_in(dict(instances.environment)), *kept]


def _secrets_of(instance: Instance) -> list[Secret]:
    return [*instance.children.secrets(), *secrets_in(dict(instance.environment))]


def _shown(data: Plain, secrets: Iterable[Secret]) -> Config:
    return fitted(disclosed(data, secrets))
