"""From a model reference, ``provider/model``, to the model and the adapter that calls it.

A model is put together from the configuration's provider block (opencode's keys), the environment and the catalogue;
the configuration wins. Nothing here calls a provider.

`contribute` adds what plugins give under opencode's keys:

- ``provider``: ``{"id": ..., "models": async (provider, ctx) -> models}``. `provider` is what `Models.info` returns,
  ``ctx["auth"]`` the login that is kept, None without one. The models come back by name, each as a model block of the
  configuration; those that are new or differ are added.
- ``auth``: ``{"provider": ..., "loader": async (get_auth, provider) -> options, "methods": [...]}``. The loader is
  called if a login is kept; its options (``api_key``, ``base_url``, ``headers``, others) win over the provider's,
  and its ``fetch`` (`plugin.fetch`) sends the provider's calls. None is no options. `methods` are for `login`.
"""

import difflib
import importlib.util
import logging
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from instar.plugin.door import PATIENCE, Plugins, in_time
from instar.plugin.interface import Fetch
from instar.plugin.outcome import json_copy
from instar.provider.catalogue import (
    LIBRARY_CLASSES,
    PACKAGES,
    SCRIPTED,
    Catalogue,
    CatalogueModel,
    Vendor,
    shipped,
)
from instar.provider.keys import Keys, PlacedKey
from instar.provider.protocol import Model, ModelAdapter, ModelCost, ModelLimit, describe
from instar.provider.scripted import script_path, shipped_names
from instar.settings.config import Config, ModelConfig, ProviderConfig
from instar.settings.install import installing
from instar.wire import Plain
from instar.wire.pattern import late_pattern
from instar.wire.secret import Secret, masked

log = logging.getLogger("instar.provider")

FAMILIES: Final = ("haiku", "sonnet", "opus")
"""Short names of models in files of Claude Code: each means the newest Claude model of that family."""
_NO_MODEL: Final = (
    "no model: give a provider's key (instar auth login openai; instar models --all has others; or a variable such as "
    "OPENAI_API_KEY or ANTHROPIC_API_KEY), or describe a server of your own as `provider` in instar.json; without "
    "either, try: instar run -m scripted/echo hello (instar doctor says what else is missing)"
)
_UNKNOWN: Final = CatalogueModel(name="")
_SCRIPTED: Final = CatalogueModel(name="", cost=[0.0, 0.0, 0.0, 0.0], reasoning=True)
_ADAPTERS: Final = {SCRIPTED: "Scripted", "library": "Library", "anthropic": "Anthropic", "openai": "OpenAI"}
"""The class of each adapter, in the module of its name."""
_OPTION_NAMES: Final = {"api_key": "apiKey", "base_url": "baseURL"}
_PRICES: Final = ("input", "output", "cache_read", "cache_write")
_CONNECTION_OPTIONS: Final = ("baseURL", "apiKey", "headers")
_VERSION_NUMBER: Final = late_pattern(r"(?<!\d)\d{1,2}(?!\d)")
"""Part of a model's version; a date has more digits."""

_Names = list[str]


class NoModel(Exception):
    """No model is configured and no key is set; the text says how to give one."""


class UnknownModel(Exception):
    """A reference that finds no model; the text names the nearest ones and what to write."""


class UnspokenProtocol(UnknownModel):
    """A provider whose protocol this version does not speak."""


class _Provider(msgspec.Struct, frozen=True):
    """One provider: its block of the configuration, its vendor of the catalogue, and the environment."""

    id: str
    block: ProviderConfig
    vendor: Vendor | None
    environment: Mapping[str, str]

    def names(self) -> _Names:
        """Return its models: the block's first, then the catalogue's, filtered by white- and blacklist."""
        more = shipped_names() if self.id == SCRIPTED else self.vendor.models if self.vendor else ()
        return [name for name in dict.fromkeys([*self.block.models, *more]) if self.lists(name)]

    def lists(self, name: str) -> bool:
        is_wanted = self.block.whitelist is None or name in self.block.whitelist
        return is_wanted and name not in (self.block.blacklist or ())

    def accepts(self, name: str) -> bool:
        """Return whether it has such a model, or is a server whose models nobody can list."""
        if self.id == SCRIPTED:
            own = self.block.models.get(name, ModelConfig())
            path = script_path(name, self.block.options, own.options, self.environment)
            return path is not None or name in self.names()
        return name in self.names() or (self._is_open() and self.lists(name))

    def _is_open(self) -> bool:
        if self.vendor is None:
            return not self.block.models
        moved = self.own_url()
        return self.vendor.open or (moved is not None and moved != self.vendor.url and not self.block.models)

    def own_url(self) -> str | None:
        """Return the address that the configuration or the environment gives, without a slash at its end."""
        given = self.block.options.get("baseURL") or self.block.api
        if not given and self.vendor is not None and self.vendor.base_env:
            given = self.environment.get(self.vendor.base_env, "").strip()
        return str(given).rstrip("/") if given else None

    def url(self, asked: ModelConfig, protocol: str) -> str:
        url = asked.provider.get("api") or self.own_url()
        # The library knows its vendors' addresses; the catalogue has that of their Chat Completions.
        if not url and self.vendor and protocol not in LIBRARY_CLASSES:
            url = self.vendor.url
        if not url and protocol != SCRIPTED and protocol not in LIBRARY_CLASSES:
            raise UnknownModel(
                f"the provider {self.id!r} has no address; set provider.{self.id}.options.baseURL"
            )
        address = str(url or "")
        try:
            _ = urlsplit(address).port
        except ValueError as error:
            raise UnknownModel(
                f"the provider {self.id!r} has an address that is none ({error}); set "
                f"provider.{self.id}.options.baseURL to one such as https://example.com/v1"
            ) from None
        return address

    def key(self) -> PlacedKey:
        """Return the key in the configuration or the environment, and where it stands."""
        literal = self.block.options.get("apiKey")
        setting = f"provider.{self.id}.options.apiKey"
        if isinstance(literal, Secret):
            return PlacedKey(literal, setting)
        if isinstance(literal, str) and literal.strip():
            return PlacedKey(Secret(literal.strip()), setting)
        for name in [*self.block.env, *(self.vendor.env if self.vendor else ())]:
            if value := self.environment.get(name, "").strip():
                return PlacedKey(Secret(value), f"${name}")
        return PlacedKey(None, f"instar auth login {self.id}")

    def protocol(self, asked: ModelConfig, entry: CatalogueModel) -> str:
        """Return the protocol that ``npm`` names, else the catalogue's, else Chat Completions.

        Raises `UnspokenProtocol`, also if the protocol needs an extra that is not installed.
        """
        package = str(asked.provider.get("npm") or self.block.npm or "")
        protocol: str | None = entry.protocol or (self.vendor.protocol if self.vendor else "openai")
        if package:
            version = package.rfind("@")
            bare = package[:version] if version > 0 and package not in PACKAGES else package
            protocol = PACKAGES.get(bare)
        if protocol is None:
            raise UnspokenProtocol(
                f"provider.{self.id}.npm is {package!r}, whose protocol this version does not speak; it speaks "
                "Chat Completions (@ai-sdk/openai-compatible) and Anthropic Messages (@ai-sdk/anthropic), and with "
                f"{installing('providers')} also {', '.join(LIBRARY_CLASSES)}: "
                "leave `npm` out if the server offers Chat Completions"
            )
        if protocol in LIBRARY_CLASSES and importlib.util.find_spec("pydantic_ai") is None:
            instead = " (or leave `npm` out to call its Chat Completions)" if package and self.vendor else ""
            raise UnspokenProtocol(
                f"{self.id} is called through a library that is not installed: {installing('providers')}{instead}"
            )
        return protocol

    def model(self, name: str, key: PlacedKey, fetch: Fetch | None) -> Model:
        """Put a model together. Raises `UnknownModel` without an address, and `UnspokenProtocol`."""
        own = self.block.models.get(name)
        asked = own or ModelConfig()
        # Prices are those of the model that is called, whatever the block calls it.
        known = self.vendor.models.get(asked.id or name) if self.vendor else None
        entry = known or (_SCRIPTED if self.id == SCRIPTED else _UNKNOWN)
        protocol = SCRIPTED if self.id == SCRIPTED else self.protocol(asked, entry)
        inputs = asked.modalities.get("input")
        attachment = entry.attachment if inputs is None else bool({"image", "pdf"} & set(inputs))
        given = self.block.options.get("headers")
        headers = {str(one): str(text) for one, text in given.items()} if isinstance(given, dict) else {}
        return Model(
            provider_id=self.id,
            id=name,
            name=asked.name or entry.name or name,
            protocol=protocol,
            url=self.url(asked, protocol),
            api_key=key.secret,
            key_from=key.place,
            headers={**headers, **self.block.headers, **asked.headers},
            limit=_limit(asked.limit, entry),
            cost=_cost(asked.cost, entry),
            temperature=entry.temperature if asked.temperature is None else asked.temperature,
            reasoning=entry.reasoning if asked.reasoning is None else asked.reasoning,
            attachment=attachment if asked.attachment is None else asked.attachment,
            tools=entry.tools if asked.tool_call is None else asked.tool_call,
            options=dict(asked.options),
            source="config" if own is not None else "catalogue" if known is not None else "unlisted",
            settings={
                one: value for one, value in self.block.options.items() if one not in _CONNECTION_OPTIONS
            },
            interleaved=asked.interleaved,
            variants={one: given for one, given in asked.variants.items() if isinstance(given, dict)},
            wire_id=asked.id or "",
            fetch=fetch,
        )


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
        """Know what there is; `keys` are those that ``instar auth login`` keeps."""
        self._environment = environment
        self._keys = keys
        self._catalogue = catalogue or shipped()
        self._given = self._config = _without_moved(config, self._catalogue)
        self._found: dict[str, Model] = {}
        self._adapters: dict[str, ModelAdapter] = {}
        self._fetches: dict[str, Fetch | None] = {}

    def find(self, ref: str) -> Model:
        """Return the model of a reference; its id may hold further slashes. Raises `UnknownModel`.

        A reference without a provider (``claude-sonnet-4-6``, also ``/claude-sonnet-4-6``) means the provider that
        lists a model of that name; providers that can be called come first.
        """
        if ref not in self._found:
            self._found[ref] = self._make(*self._split(ref))
        return self._found[ref]

    def find_named(self, ref: str, beside: Model | None = None) -> Model:
        """Return the model of a reference or, for a name of `FAMILIES`, the family's newest. Raises `UnknownModel`.

        The provider of `beside` comes first, then the first that lists one; of several that list a model of the name
        itself one with a key. Such a model wins. Providers that an untrusted project brought are left out.
        """
        name, main = ref.removeprefix("/"), beside.provider_id if beside else ""
        try:
            if ref.partition("/")[0] in self._known() or not (owners := self._owners(name, main)):
                return self.find(ref)
            # False comes before True.
            best = min(owners, key=lambda one: (one != main, self._key(self._provider(one)).secret is None))
            return self.find(f"{best}/{name}")
        except UnknownModel:
            if (family := name.lower()) not in FAMILIES:
                raise
        found = [
            model
            for model in self.list()
            if {"claude", family} <= set(re.split(r"[^a-z]+", model.id.lower()))
            and not self.is_foreign(model.provider_id)
        ]
        if not found:
            raise UnknownModel(
                f"the model {family!r} stands for the newest Claude {family.title()}, and no provider that can be "
                "called here lists one; write provider/model in its place (instar models lists what there is), or no "
                "model at all"
            )
        own = [model for model in found if model.provider_id == main]
        first = [model for model in found if model.provider_id == found[0].provider_id]
        return max(own or first, key=_version)

    def add(
        self,
        provider_id: str,
        *,
        models: Mapping[str, ModelConfig] = MappingProxyType({}),
        options: Plain | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        fetch: Fetch | None = None,
    ) -> None:
        """Add what a plugin gives: models by name, options and headers that win over the block's, what sends calls."""
        block = self._provider(provider_id).block
        block = msgspec.structs.replace(
            block,
            models={**block.models, **models},
            options={**block.options, **(options or {})},
            headers={**block.headers, **headers},
        )
        blocks = {**self._config.provider, provider_id: block}
        self._config = msgspec.structs.replace(self._config, provider=blocks)
        self._fetches[provider_id] = fetch or self._fetches.get(provider_id)
        self._found.clear()

    def is_foreign(self, provider_id: str) -> bool:
        """Return whether an untrusted project brought the provider; it gets no key that a person keeps."""
        return provider_id in self._config.foreign

    def info(self, provider_id: str) -> Plain:
        """Return a provider as plugins see it: id, name, env, options (secrets masked), source and models."""
        provider = self._provider(provider_id)
        block, vendor = provider.block, provider.vendor
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

        Providers that an untrusted project brought are left out. Raises `NoModel`, and `UnknownModel` if the
        configured model does not exist.
        """
        if self._config.model:
            return self.find(self._config.model)
        unspoken = None
        for provider_id in self.usable():
            name = None if self.is_foreign(provider_id) else self.default_name(provider_id)
            try:
                if name is not None:
                    return self.find(f"{provider_id}/{name}")
            except UnspokenProtocol as error:
                unspoken = unspoken or error
        text = _NO_MODEL
        if foreign := sorted(self._config.foreign):
            text += (
                f"; the project's own {', '.join(foreign)} is yours to choose: --model {foreign[0]}/NAME, "
                "or trust it"
            )
        raise unspoken or NoModel(text)

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

    def usable(self) -> Iterator[str]:
        """Yield the providers with a key or an address of their own, those of the person's configuration first."""
        for provider_id in dict.fromkeys(
            [*self._given.provider, *self._catalogue.providers, *self._config.provider]
        ):
            if provider_id == SCRIPTED or not self._is_enabled(provider_id):
                continue
            provider = self._provider(provider_id)
            named = provider_id in self._config.provider
            is_local = provider.vendor is not None and provider.vendor.local
            if (named and (is_local or provider.own_url())) or self._key(provider).secret:
                yield provider_id

    def default_name(self, provider_id: str) -> str | None:
        """Return the model that a provider is used with if nobody names one."""
        provider = self._provider(provider_id)
        given = self._given.provider.get(provider_id)
        default = provider.vendor.default if provider.vendor else None
        if not (given and given.models) and default and provider.lists(default):
            return default
        return next(iter(provider.names()), None)

    def provider(self, model: Model) -> ModelAdapter:
        """Return the adapter for the model's protocol; one for all of its models.

        It is imported at its first call: httpx2 takes 0.1 s, the library more than 1 s.
        """
        name = "library" if model.protocol in LIBRARY_CLASSES else model.protocol
        if name not in self._adapters:
            adapter = getattr(importlib.import_module(f"instar.provider.{name}"), _ADAPTERS[name])
            self._adapters[name] = adapter() if name == "library" else adapter(self._environment)
        return self._adapters[name]

    async def close(self) -> None:
        """Close every connection."""
        adapters, self._adapters = list(self._adapters.values()), {}
        for adapter in adapters:
            await adapter.close()

    def _provider(self, provider_id: str) -> _Provider:
        block = self._config.provider.get(provider_id, ProviderConfig())
        vendor = self._catalogue.providers.get(provider_id)
        return _Provider(provider_id, block, vendor, self._environment)

    def _split(self, ref: str) -> tuple[str, str]:
        """Return the provider and the model's name that a reference means."""
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

    def _owners(self, name: str, used: str = "") -> _Names:
        """Return the providers that list a model of this name: the `used` one and those that can be called, else all.

        Providers that an untrusted project brought are left out.
        """
        listing = [
            provider_id
            for provider_id in dict.fromkeys(self._known())
            if self._is_enabled(provider_id)
            and not self.is_foreign(provider_id)
            and name in self._provider(provider_id).names()
        ]
        usable = {used, *self.usable()} if len(listing) > 1 else set()
        return [provider_id for provider_id in listing if provider_id in usable] or listing

    def _make(self, provider_id: str, name: str) -> Model:
        provider, ref = self._provider(provider_id), f"{provider_id}/{name}"
        if provider_id not in self._known() or not self._is_enabled(provider_id):
            raise UnknownModel(f"unknown provider {provider_id!r}{self._nearest(ref)}")
        if not provider.accepts(name):
            raise UnknownModel(
                f"unknown model {ref}{self._nearest(ref)}; a model that is not listed works once the configuration "
                f'names it: provider.{provider_id}.models."{name}": {{}}'
            )
        return provider.model(name, self._key(provider), self._fetches.get(provider_id))

    def _callable(self, provider_id: str) -> Iterator[Model]:
        for name in self._provider(provider_id).names():
            try:
                yield self.find(f"{provider_id}/{name}")
            except UnknownModel:
                continue

    def _known(self) -> _Names:
        return [*self._config.provider, *self._catalogue.providers, SCRIPTED]

    def _is_enabled(self, provider_id: str) -> bool:
        enabled = self._config.enabled_providers
        is_wanted = enabled is None or provider_id in enabled
        return is_wanted and provider_id not in self._config.disabled_providers

    def _key(self, provider: _Provider) -> PlacedKey:
        key = provider.key()
        # A key that the person keeps is sent to the provider's own server or the person's, to no other.
        if key.secret is not None or provider.id == SCRIPTED or self.is_foreign(provider.id):
            return key
        return key if self._keys is None else msgspec.structs.replace(key, secret=self._keys.get(provider.id))

    def _nearest(self, ref: str) -> str:
        """Return ``; did you mean …`` with up to three references that look like `ref`."""
        known = [
            f"{one}/{name}" for one in dict.fromkeys(self._known()) for name in self._provider(one).names()
        ]
        by_name = {name.partition("/")[2]: name for name in reversed(known)}
        close = difflib.get_close_matches(ref, known, n=3, cutoff=0.6)
        tail = ref.partition("/")[2] or ref
        close += [by_name[name] for name in difflib.get_close_matches(tail, list(by_name), n=2, cutoff=0.7)]
        close = list(dict.fromkeys(close))[:3]
        return (
            f"; did you mean {', '.join(close)}?" if close else "; `instar models --all` lists what there is"
        )


async def contribute(models: Models, plugins: Plugins, keys: Keys) -> list[str]:
    """Call plugins' ``provider`` and ``auth`` hooks, and return a sentence for each that failed."""
    problems = []
    hooks: dict[str, Callable[[Models, Any, Keys], Awaitable[None]]]
    hooks = {"provider": _add_models, "auth": _add_login}
    for key, add in hooks.items():
        for name, hook in plugins.registered(key):
            try:
                await add(models, hook, keys)
            except Exception as error:
                text = str(error) or type(error).__name__
                log.error("plugin failed plugin=%s hook=%s error=%s", name, key, text, exc_info=error)
                problems.append(f"what the plugin {name} has for a provider is left out: {key}: {text}")
    return problems


async def _add_models(models: Models, hook: Mapping[str, Any], keys: Keys) -> None:
    provider_id, ask = _name(hook, "id"), hook.get("models")
    if ask is None:
        return
    info = models.info(provider_id)
    known = info["models"]
    auth = None if models.is_foreign(provider_id) else keys.entry(provider_id)
    found = json_copy(_mapping(await in_time(PATIENCE, ask, json_copy(info), {"auth": auth}), "models"))
    new = {name: _block(name, given) for name, given in found.items() if given != known.get(name)}
    models.add(provider_id, models={name: msgspec.convert(block, ModelConfig) for name, block in new.items()})


async def _add_login(models: Models, hook: Mapping[str, Any], keys: Keys) -> None:
    provider_id, loader = _name(hook, "provider"), hook.get("loader")
    # A login that the person keeps is sent to the provider's own server or the person's, to no other.
    if loader is None or models.is_foreign(provider_id) or keys.entry(provider_id) is None:
        return

    async def get_auth() -> Plain | None:
        return keys.entry(provider_id)

    found = await in_time(PATIENCE, loader, get_auth, models.info(provider_id))
    # Loaders of opencode, and published ones, return None if there is nothing to add.
    given = {} if found is None else _mapping(found, "options")
    options = {_OPTION_NAMES.get(key, key): value for key, value in given.items()}
    key = options.pop("apiKey", None)
    headers = msgspec.convert(options.pop("headers", None) or {}, dict[str, str])
    fetch = options.pop("fetch", None)
    if fetch is not None:
        _demand_sender(models, provider_id, fetch)
    options = json_copy(options)
    if key:
        options["apiKey"] = key if isinstance(key, Secret) else Secret(msgspec.convert(key, str))
    models.add(provider_id, options=options, headers=headers, fetch=fetch)


def _demand_sender(models: Models, provider_id: str, fetch: Any) -> None:
    """Raise `ValueError` for a `fetch` that cannot send the calls of the provider's models."""
    if not callable(fetch):
        raise ValueError(f"`fetch` is {fetch!r}: expected a function")
    through = {model.protocol for model in models.list(everything=True) if model.provider_id == provider_id}
    if through & {*LIBRARY_CLASSES, SCRIPTED}:
        raise ValueError(
            f"`fetch` cannot send the calls of {provider_id}: instar makes no HTTP requests of its own there"
        )


def _name(hook: Mapping[str, Any], key: str) -> str:
    name = hook.get(key)
    if not isinstance(name, str) or not name or "/" in name:
        raise ValueError(f"`{key}` is {name!r}: expected a provider's name")
    return name


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected a mapping of {what}, found a {type(value).__name__}")
    return dict(value)


def _block(name: str, given: Any) -> Plain:
    """Return a model as a block of the configuration, without the ``id`` that only repeats its name."""
    block = _mapping(given, "a model's fields")
    return {key: value for key, value in block.items() if (key, value) != ("id", name)}


def _without_moved(config: Config, catalogue: Catalogue) -> Config:
    """Return `config` without the blocks with which an untrusted project redirects a provider of the catalogue.

    The person who writes ``openai/…`` means OpenAI, whatever key the project brings along.
    """
    moved = [name for name in config.provider if name in config.foreign and name in catalogue.providers]
    for name in moved:
        log.warning("provider %s stays where it is: an untrusted project may not move it", name)
    kept = {name: block for name, block in config.provider.items() if name not in moved}
    return msgspec.structs.replace(config, provider=kept, foreign=config.foreign.difference(moved))


def _limit(given: Mapping[str, Any], entry: CatalogueModel) -> ModelLimit:
    inputs = given.get("input")
    return ModelLimit(
        context=int(given.get("context", entry.context)),
        input=None if inputs is None else int(inputs),
        output=int(given.get("output", entry.output)),
    )


def _cost(given: Mapping[str, Any], entry: CatalogueModel) -> ModelCost:
    known = dict(zip(_PRICES, entry.cost, strict=False))
    asked = {name: given[name] for name in _PRICES if isinstance(given.get(name), int | float)}
    return msgspec.convert(known | asked, ModelCost)


def _version(model: Model) -> tuple[int, ...]:
    return tuple(int(number) for number in _VERSION_NUMBER.findall(model.id.rpartition("/")[2]))
