"""Providers and models as the HTTP interface shows them: of the catalogue, the settings and plugins."""

from collections.abc import Iterable

from instar.api.provider import ConfigProviders, Provider, ProviderList
from instar.provider import protocol
from instar.provider.catalogue import SCRIPTED
from instar.provider.resolve import Models, UnknownModel
from instar.settings.config import Config
from instar.wire.secret import disclosed

ByProvider = dict[str, list[protocol.Model]]


def chosen(config: Config) -> list[str]:
    """Return the references of models in the settings."""
    refs = [config.model, config.small_model, *(agent.model for agent in config.agent.values())]
    return [ref for ref in dict.fromkeys(refs) if ref]


def connected(models: Models, chosen: Iterable[str] = ()) -> ByProvider:
    """Return the models that can be called now, the scripted ones last.

    `chosen` are references in the settings: they add models that their provider does not list.
    """
    found: ByProvider = {provider_id: [] for provider_id in [*models.usable(), SCRIPTED]}
    for model in models.list():
        found[model.provider_id].append(model)
    for ref in chosen:
        try:
            model = models.find(ref)
        except UnknownModel:  # a call of that model says why
            continue
        listed = found.get(model.provider_id)
        if listed is not None and model.id not in [one.id for one in listed]:
            listed.append(model)
    return {name: listed for name, listed in found.items() if listed}


def config_providers(models: Models, chosen: Iterable[str] = ()) -> ConfigProviders:
    """Return the providers that can be called, and the default model of each."""
    found = connected(models, chosen)
    return ConfigProviders(providers=_providers(models, found), default=_defaults(models, found))


def provider_list(models: Models, chosen: Iterable[str] = ()) -> ProviderList:
    """Return every known provider, those that can be called first."""
    usable = connected(models, chosen)
    found = {name: list(listed) for name, listed in usable.items()}
    for model in models.list(everything=True):
        if model.provider_id not in usable:
            found.setdefault(model.provider_id, []).append(model)
    return ProviderList(
        all=_providers(models, found), default=_defaults(models, found), connected=list(usable)
    )


def _providers(models: Models, found: ByProvider) -> list[Provider]:
    return [
        Provider(
            id=name,
            name=info["name"],
            source=info["source"],
            env=list(dict.fromkeys(info["env"])),
            options=disclosed(info["options"]),
            models={model.id: protocol.shown(model) for model in listed},
        )
        for name, listed in found.items()
        if (info := models.info(name))
    ]


def _defaults(models: Models, found: ByProvider) -> dict[str, str]:
    """Return the model to begin with of each provider: its default one if it is listed, else its first."""
    defaults = {}
    for name, listed in found.items():
        ids = [model.id for model in listed]
        default = models.default_name(name)
        defaults[name] = default if default in ids and default is not None else ids[0]
    return defaults
