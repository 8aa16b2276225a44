"""From a model reference, ``provider/model``, to the model and the adapter that speaks to it.

A model is put together from the catalogue, the configuration's provider block (opencode's keys, as they
stand in ``opencode.json``) and the environment, the configuration winning over the catalogue. Nothing
here talks to a provider.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from instar.config import Config, ModelConfig, ProviderConfig
from instar.plugin.fetch import Fetch
from instar.provider.anthropic import Anthropic
from instar.provider.assemble import (
    HOW,
    SCRIPTED,
    Place,
    UnknownModel,
    UnspokenProtocol,
    assemble,
    extended,
    nearest,
    protocol_of,
    without_moved,
)
from instar.provider.catalogue import Catalogue, Entry, shipped
from instar.provider.describe import describe
from instar.provider.keys import Keys
from instar.provider.library import KINDS, Library
from instar.provider.openai import OpenAI
from instar.provider.protocol import Model, Provider
from instar.provider.record import recorded
from instar.provider.scripted import Scripted, script_path, shipped_names
from instar.secret import Secret, masked
from instar.wire import Plain

_BLANK: Final = Entry(name="")
_FREE: Final = Entry(name="", cost=[0.0, 0.0, 0.0, 0.0], reasoning=True)
Names = list[str]


class NoModel(Exception):
    """No model is configured and no key is set; the text says how to give one."""


class Models:
    """Every model that the configuration, the environment and the catalogue give."""

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        catalogue: Catalogue | None = None,
        *,
        keys: Keys | None = None,
    ) -> None:
        """Know what there is; `keys` are those that the person logged in with."""
        self._environment = environment
        self._keys = keys
        self._catalogue = catalogue or shipped()
        self._given = self._config = without_moved(config, self._catalogue)
        self._found: dict[str, Model] = {}
        self._adapters: dict[str, Provider] = {}
        self._fetches: dict[str, Fetch | None] = {}

    def find(self, ref: str) -> Model:
        """Return the model of a reference; its id may hold further slashes. Raises `UnknownModel`.

        Without a provider (``claude-sonnet-4-6``, also ``/claude-sonnet-4-6``) the one that lists a model
        of that name is meant, those first that can be called.
        """
        if ref not in self._found:
            self._found[ref] = self._make(*self._place(ref))
        return self._found[ref]

    def add(
        self,
        provider_id: str,
        *,
        models: Mapping[str, ModelConfig] = MappingProxyType({}),
        options: Plain | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        fetch: Fetch | None = None,
    ) -> None:
        """Add what a plugin gives: models by name, options and headers over the configuration's, what sends calls."""
        block = extended(self._block(provider_id), models, options or {}, headers)
        blocks = {**self._config.provider, provider_id: block}
        self._config = msgspec.structs.replace(self._config, provider=blocks)
        self._fetches[provider_id] = fetch or self._fetches.get(provider_id)
        self._found.clear()

    def is_foreign(self, provider_id: str) -> bool:
        """Whether an untrusted project brought the provider: nothing that a person keeps goes there."""
        return provider_id in self._config.foreign

    def info(self, provider_id: str) -> Plain:
        """Return a provider as plugins see it: id, name, env, options (secrets masked), source and models."""
        block = self._block(provider_id)
        vendor = self._catalogue.providers.get(provider_id)
        return {
            "id": provider_id,
            "name": block.name or (vendor.name if vendor else provider_id),
            "env": [*block.env, *(vendor.env if vendor else ())],
            "options": masked(block.options),
            "source": "config" if provider_id in self._given.provider else "env" if vendor else "custom",
            "models": {model.id: describe(model) for model in self._callable(provider_id)},
        }

    def default(self) -> Model:
        """Return the configured model, else the default one of the first provider that has a key.

        A provider that an untrusted project brought is nobody's default. Raises `NoModel`, and
        `UnknownModel` when the configuration names one that is not there.
        """
        if self._config.model:
            return self.find(self._config.model)
        unspoken = None
        for provider_id in self.usable():
            if provider_id in self._config.foreign:
                continue
            name = self.default_name(provider_id)
            try:
                if name is not None:
                    return self.find(f"{provider_id}/{name}")
            except UnspokenProtocol as error:
                unspoken = unspoken or error
        raise unspoken or NoModel(HOW + self._offered())

    def _offered(self) -> str:
        """What to say of the providers that only the person may choose."""
        names = sorted(self._config.foreign)
        if not names:
            return ""
        return (
            f"; the project's own {', '.join(names)} is yours to choose: --model {names[0]}/NAME, or trust it"
        )

    def small(self, beside: Model | None = None) -> Model:
        """Return the model for titles: the configured small one, else a cheap one of the same provider.

        `beside` is the model that the session uses; without it, the default one.
        """
        if self._config.small_model:
            return self.find(self._config.small_model)
        main = beside or self.default()
        vendor = self._catalogue.providers.get(main.provider_id)
        # Somebody else's server under a known name has its own models.
        if vendor is None or not vendor.small or main.url != vendor.url or main.id not in vendor.models:
            return main
        return self.find(f"{main.provider_id}/{vendor.small}")

    def list(self, *, everything: bool = False) -> list[Model]:
        """Return the models that can be called now, or `everything` that is known, by provider and name.

        Callable are those of a provider block, of a provider whose key is set, and the scripted ones. A
        model whose protocol is not spoken, or that has no address, is left out.
        """
        ids = self._known() if everything else [*self.usable(), SCRIPTED]
        return [model for provider_id in dict.fromkeys(ids) for model in self._callable(provider_id)]

    def provider(self, model: Model) -> Provider:
        """Return the adapter that speaks the model's protocol; one for all of its models."""
        name = "library" if model.protocol in KINDS else model.protocol
        if name not in self._adapters:
            self._adapters[name] = self._adapter(name)
        return self._adapters[name]

    async def close(self) -> None:
        """Let go of every connection."""
        adapters, self._adapters = list(self._adapters.values()), {}
        for adapter in adapters:
            await adapter.close()

    def _adapter(self, name: str) -> Provider:
        if name == SCRIPTED:
            return Scripted(self._environment)
        adapters: dict[str, type[Provider]] = {"anthropic": Anthropic, "library": Library}
        return recorded(adapters.get(name, OpenAI)(), self._environment)

    def _place(self, ref: str) -> tuple[str, str]:
        """The provider and the model's name that a reference means."""
        provider_id, _, model_id = ref.partition("/")
        if provider_id in self._known() and model_id:
            return provider_id, model_id
        name = ref.removeprefix("/")
        owners = self._owners(name)
        if len(owners) > 1:
            found = ", ".join(f"{owner}/{name}" for owner in owners)
            raise UnknownModel(f"several providers have a model {name!r}; write which: {found}")
        if owners:
            return owners[0], name
        if not provider_id or not model_id:
            raise UnknownModel(f"there is no model {name!r}; write provider/model{self._nearest(ref)}")
        return provider_id, model_id

    def _owners(self, name: str) -> Names:
        """The providers that list a model of this name: those that can be called, else all.

        One that an untrusted project brought is nobody's choice.
        """
        listing = [
            provider_id
            for provider_id in dict.fromkeys(self._known())
            if self._allowed(provider_id)
            and provider_id not in self._config.foreign
            and name in self._names(provider_id)
        ]
        usable = set(self.usable()) if len(listing) > 1 else set()
        return [provider_id for provider_id in listing if provider_id in usable] or listing

    def _make(self, provider_id: str, model_id: str) -> Model:
        block = self._block(provider_id)
        vendor = self._catalogue.providers.get(provider_id)
        if provider_id not in self._known() or not self._allowed(provider_id):
            raise UnknownModel(
                f"unknown provider {provider_id!r}{self._nearest(f'{provider_id}/{model_id}')}"
            )
        own = block.models.get(model_id)
        asked = own or ModelConfig()
        entry = vendor.models.get(asked.id or model_id) if vendor else None  # what is called is what costs
        if not self._accepts(provider_id, model_id):
            raise UnknownModel(
                f"unknown model {provider_id}/{model_id}{self._nearest(f'{provider_id}/{model_id}')}; a model that "
                f'is not listed works once the configuration names it: provider.{provider_id}.models."{model_id}": {{}}'
            )
        scripted = provider_id == SCRIPTED
        protocol = SCRIPTED if scripted else protocol_of(provider_id, block, asked, vendor, entry)
        source = "config" if own is not None else "catalogue" if entry is not None else "unlisted"
        place = Place(provider_id, model_id, protocol, self._url(provider_id, block, asked, protocol), source)
        entry = entry or (_FREE if scripted else _BLANK)
        model = assemble(place, block, asked, entry, self._key(provider_id, block))
        return msgspec.structs.replace(model, fetch=self._fetches.get(provider_id))

    def _accepts(self, provider_id: str, model_id: str) -> bool:
        """Whether the provider has such a model, or is one whose models nobody can list."""
        if provider_id == SCRIPTED:
            block = self._config.provider.get(SCRIPTED, ProviderConfig())
            own = block.models.get(model_id, ModelConfig())
            path = script_path(model_id, block.options, own.options, self._environment)
            return path is not None or model_id in self._names(SCRIPTED)
        if model_id in self._names(provider_id):
            return True
        return self._is_open(provider_id) and self._listed(provider_id, model_id)

    def _is_open(self, provider_id: str) -> bool:
        """A server of one's own that lists no models, a router, or a known name at another address."""
        block = self._block(provider_id)
        vendor = self._catalogue.providers.get(provider_id)
        if vendor is None:
            return not block.models
        moved = self._moved(provider_id, block)
        return vendor.open or (moved is not None and moved != vendor.url and not block.models)

    def _callable(self, provider_id: str) -> Iterator[Model]:
        for name in self._names(provider_id):
            try:
                yield self.find(f"{provider_id}/{name}")
            except UnknownModel:
                continue

    def _block(self, provider_id: str) -> ProviderConfig:
        return self._config.provider.get(provider_id, ProviderConfig())

    def _names(self, provider_id: str) -> Names:
        """The models of a provider by name: the block's first, then the catalogue's, filtered as it asks."""
        block = self._block(provider_id)
        vendor = self._catalogue.providers.get(provider_id)
        more = shipped_names() if provider_id == SCRIPTED else list(vendor.models) if vendor else []
        return [name for name in dict.fromkeys([*block.models, *more]) if self._listed(provider_id, name)]

    def _listed(self, provider_id: str, name: str) -> bool:
        block = self._block(provider_id)
        if block.whitelist is not None and name not in block.whitelist:
            return False
        return name not in (block.blacklist or ())

    def _known(self) -> Names:
        return [*self._config.provider, *self._catalogue.providers, SCRIPTED]

    def _allowed(self, provider_id: str) -> bool:
        enabled = self._config.enabled_providers
        if provider_id in self._config.disabled_providers:
            return False
        return enabled is None or provider_id in enabled

    def usable(self) -> Iterator[str]:
        """Yield providers that can be called, the person's own first: with a block that leads somewhere, or a key."""
        ordered = [*self._given.provider, *self._catalogue.providers, *self._config.provider]
        for provider_id in dict.fromkeys(ordered):
            if provider_id == SCRIPTED or not self._allowed(provider_id):
                continue
            block = self._config.provider.get(provider_id)
            vendor = self._catalogue.providers.get(provider_id)
            own_server = block is not None and (self._moved(provider_id, block) or (vendor and vendor.local))
            if own_server or self._key(provider_id, block or ProviderConfig()):
                yield provider_id

    def default_name(self, provider_id: str) -> str | None:
        """The model that a provider is used with when nobody names one."""
        block = self._given.provider.get(provider_id)
        if block is not None and block.models:
            return next(iter(self._names(provider_id)), None)
        vendor = self._catalogue.providers.get(provider_id)
        if vendor is not None and vendor.default and self._listed(provider_id, vendor.default):
            return vendor.default
        return next(iter(self._names(provider_id)), None)

    def _key(self, provider_id: str, block: ProviderConfig) -> Secret | None:
        literal = block.options.get("apiKey")
        if isinstance(literal, Secret):
            return literal
        if isinstance(literal, str) and literal.strip():
            return Secret(literal.strip())
        vendor = self._catalogue.providers.get(provider_id)
        for name in [*block.env, *(vendor.env if vendor else ())]:
            value = self._environment.get(name, "").strip()
            if value:
                return Secret(value)
        # A key that the person keeps goes to nobody's server but the provider's own, or the person's.
        kept = self._keys is not None and provider_id != SCRIPTED and provider_id not in self._config.foreign
        return self._keys.get(provider_id) if kept and self._keys is not None else None

    def _moved(self, provider_id: str, block: ProviderConfig) -> str | None:
        """The address that the configuration or the environment gives a provider, None when neither does."""
        vendor = self._catalogue.providers.get(provider_id)
        given = block.options.get("baseURL") or block.api
        if not given and vendor is not None and vendor.base_env:
            given = self._environment.get(vendor.base_env, "").strip()
        return str(given).rstrip("/") if given else None

    def _url(self, provider_id: str, block: ProviderConfig, asked: ModelConfig, protocol: str) -> str:
        vendor = self._catalogue.providers.get(provider_id)
        url = asked.provider.get("api") or self._moved(provider_id, block)
        if protocol in KINDS:
            # The library knows its vendors' addresses; the catalogue's is that of their Chat Completions.
            return str(url or "")
        url = url or (vendor.url if vendor else "")
        if not url and protocol != SCRIPTED:
            raise UnknownModel(
                f"the provider {provider_id!r} has no address; set provider.{provider_id}.options.baseURL"
            )
        return str(url)

    def _nearest(self, ref: str) -> str:
        return nearest(
            ref, [f"{one}/{name}" for one in dict.fromkeys(self._known()) for name in self._names(one)]
        )
