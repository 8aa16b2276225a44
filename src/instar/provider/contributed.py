"""What plugins give to providers: models, and what a login is worth (seed 004 section 1, the reference's section 3.3).

- ``provider``: ``{"id": ..., "models": async (provider, ctx) -> models}``. `provider` is what `Models.info` says,
  ``ctx["auth"]`` what is kept of a login (None for nothing). The models come back by name, each as a model block of the
  configuration; those that are new or differ are added.
- ``auth``: ``{"provider": ..., "loader": async (get_auth, provider) -> options, "methods": [...]}``. The loader is
  called where a login is kept; its options (``api_key``, ``base_url``, ``headers``, others) go over the provider's,
  and its ``fetch`` (`plugin.fetch`) sends the provider's calls. None is no options.
  The methods are what ``instar auth login`` offers.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import msgspec

from instar.config import ModelConfig
from instar.plugin.door import Plugins
from instar.plugin.outcome import json_copy
from instar.plugin.patience import PATIENCE, in_time
from instar.provider.assemble import SCRIPTED
from instar.provider.keys import Keys
from instar.provider.library import KINDS
from instar.provider.resolve import Models
from instar.secret import Secret
from instar.wire import Plain

log = logging.getLogger("instar.provider")

_SPELT: Final = {"api_key": "apiKey", "base_url": "baseURL"}


async def contribute(models: Models, plugins: Plugins, keys: Keys) -> list[str]:
    """Ask plugins' ``provider`` and ``auth`` hooks, and return a sentence for each that failed."""
    problems = []
    asked: list[tuple[str, Callable[[Models, Any, Keys], Awaitable[None]]]]
    asked = [("provider", _add_models), ("auth", _add_login)]
    for key, add in asked:
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
    found = json_copy(_mapping(await in_time(ask(json_copy(info), {"auth": auth}), PATIENCE), "models"))
    new = {name: _block(name, given) for name, given in found.items() if given != known.get(name)}
    models.add(provider_id, models={name: msgspec.convert(block, ModelConfig) for name, block in new.items()})


async def _add_login(models: Models, hook: Mapping[str, Any], keys: Keys) -> None:
    provider_id, loader = _name(hook, "provider"), hook.get("loader")
    # What a person keeps goes to nobody's server but the provider's own, or the person's.
    if loader is None or models.is_foreign(provider_id) or keys.entry(provider_id) is None:
        return

    async def kept() -> Plain | None:
        return keys.entry(provider_id)

    found = await in_time(loader(kept, models.info(provider_id)), PATIENCE)
    # opencode's own loaders, and published ones, say so that there is nothing to add.
    given = {} if found is None else _mapping(found, "options")
    options = {_SPELT.get(key, key): value for key, value in given.items()}
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
    if through & {*KINDS, SCRIPTED}:
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
    """A model as a block of the configuration writes it; its own name says nothing that the key does not."""
    block = _mapping(given, "a model's fields")
    return {key: value for key, value in block.items() if (key, value) != ("id", name)}
