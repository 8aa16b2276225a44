"""A model put together from the configuration's provider block and the catalogue, the block winning."""

import difflib
import logging
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from instar import wire
from instar.config import Config, ModelConfig, ProviderConfig
from instar.provider.catalogue import Catalogue, Entry, Vendor
from instar.provider.library import INSTALL, KINDS, is_installed
from instar.provider.protocol import Model, ModelCost, ModelLimit
from instar.secret import Secret
from instar.wire import Plain

log = logging.getLogger("instar.provider")

SCRIPTED: Final = "scripted"
PACKAGES: Final = {
    "@ai-sdk/openai-compatible": "openai",
    "@ai-sdk/openai": "openai",
    "@ai-sdk/cerebras": "openai",
    "@ai-sdk/deepinfra": "openai",
    "@ai-sdk/togetherai": "openai",
    "@openrouter/ai-sdk-provider": "openai",
    "openai": "openai",
    "@ai-sdk/anthropic": "anthropic",
    "anthropic": "anthropic",
    "@ai-sdk/google": "google",
    "@ai-sdk/google-vertex": "google-vertex",
    "@ai-sdk/amazon-bedrock": "bedrock",
    "@ai-sdk/mistral": "mistral",
    "@ai-sdk/cohere": "cohere",
    "@ai-sdk/groq": "groq",
    "@ai-sdk/xai": "xai",
    SCRIPTED: SCRIPTED,
}
HOW: Final = (
    "no model: give a provider's key (instar auth login openai; instar models --all has others; or a variable such as "
    "OPENAI_API_KEY or ANTHROPIC_API_KEY), or describe a server of your own as `provider` in instar.json; without "
    "either, try: instar run -m scripted/echo hello (instar doctor says what else is missing)"
)
"""What to say where there is no model."""
_SETTING_KEYS: Final = ("baseURL", "apiKey", "headers")


class UnknownModel(Exception):
    """A reference that finds no model; the text names the nearest ones and what to write."""


class UnspokenProtocol(UnknownModel):
    """A provider whose protocol this version does not speak."""


class Place(msgspec.Struct, frozen=True):
    """Where a model is and how it is spoken to; `source` is where its name was found."""

    provider_id: str
    model_id: str
    protocol: str
    url: str
    source: str


def assemble(
    place: Place, block: ProviderConfig, asked: ModelConfig, entry: Entry, key: Secret | None
) -> Model:
    """Put a model together: what the configuration says, else what the catalogue says."""
    inputs = asked.modalities.get("input")
    attachment = bool({"image", "pdf"} & set(inputs)) if inputs is not None else entry.attachment
    return Model(
        provider_id=place.provider_id,
        id=place.model_id,
        name=asked.name or entry.name or place.model_id,
        protocol=place.protocol,
        url=place.url,
        api_key=key,
        headers={**_headers(block.options.get("headers")), **block.headers, **asked.headers},
        limit=_limit(entry.limit, asked.limit),
        cost=_cost(entry.prices, asked.cost),
        temperature=_chosen(asked.temperature, entry.temperature),
        reasoning=_chosen(asked.reasoning, entry.reasoning),
        attachment=_chosen(asked.attachment, attachment),
        tools=_chosen(asked.tool_call, entry.tools),
        options=dict(asked.options),
        source=place.source,
        settings={name: value for name, value in block.options.items() if name not in _SETTING_KEYS},
        interleaved=asked.interleaved,
        variants={name: given for name, given in asked.variants.items() if isinstance(given, dict)},
        wire_id=asked.id or "",
    )


def extended(
    block: ProviderConfig, models: Mapping[str, ModelConfig], options: Plain, headers: Mapping[str, str]
) -> ProviderConfig:
    """Return a provider's block with more models, options and headers, which win over its own."""
    return msgspec.structs.replace(
        block,
        models={**block.models, **models},
        options={**block.options, **options},
        headers={**block.headers, **headers},
    )


def protocol_of(
    provider_id: str,
    block: ProviderConfig,
    asked: ModelConfig,
    vendor: Vendor | None,
    entry: Entry | None = None,
) -> str:
    """The protocol that ``npm`` names, else the catalogue's, else Chat Completions.

    Raises `UnspokenProtocol` for one that is not spoken, or that needs the extra which is not installed.
    """
    package = asked.provider.get("npm") or block.npm
    name = str(package or "")
    if not package:
        protocol: str | None = (entry.protocol if entry else None) or (
            vendor.protocol if vendor else "openai"
        )
    else:
        plain = name if name in PACKAGES else name[: name.rindex("@")] if name.rfind("@") > 0 else name
        protocol = PACKAGES.get(plain)
    if protocol is None:
        raise UnspokenProtocol(
            f"provider.{provider_id}.npm is {name!r}, whose protocol this version does not speak; it speaks "
            "Chat Completions (@ai-sdk/openai-compatible) and Anthropic Messages (@ai-sdk/anthropic), and with "
            f"{INSTALL} also {', '.join(KINDS)}: leave `npm` out if the server offers Chat Completions"
        )
    if protocol in KINDS and not is_installed():
        other = " (or leave `npm` out: its Chat Completions are called then)" if package and vendor else ""
        raise UnspokenProtocol(
            f"{provider_id} is called through a library that is not installed: {INSTALL}{other}"
        )
    return protocol


def nearest(ref: str, known: list[str]) -> str:
    """Return ``; did you mean …`` with up to three references of `known` that look like `ref`."""
    by_name = {name.partition("/")[2]: name for name in reversed(known)}
    close = difflib.get_close_matches(ref, known, n=3, cutoff=0.5)
    tail = ref.partition("/")[2] or ref
    close += [by_name[name] for name in difflib.get_close_matches(tail, list(by_name), n=2, cutoff=0.7)]
    close = list(dict.fromkeys(close))[:3]
    return f"; did you mean {', '.join(close)}?" if close else "; `instar models` lists what there is"


def without_moved(config: Config, catalogue: Catalogue) -> Config:
    """Return `config` without the blocks by which an untrusted project would move a provider that everybody knows.

    The person who writes ``openai/…`` means OpenAI, whatever key the project brings along.
    """
    moved = [name for name in config.provider if name in config.foreign and name in catalogue.providers]
    for name in moved:
        log.warning("provider %s stays where it is: an untrusted project may not move it", name)
    kept = {name: block for name, block in config.provider.items() if name not in moved}
    return msgspec.structs.replace(config, provider=kept, foreign=config.foreign.difference(moved))


def _limit(known: ModelLimit, given: Mapping[str, Any]) -> ModelLimit:
    inputs = given.get("input", known.input)
    return ModelLimit(
        context=int(given.get("context", known.context)),
        input=None if inputs is None else int(inputs),
        output=int(given.get("output", known.output)),
    )


def _cost(known: ModelCost, given: Mapping[str, Any]) -> ModelCost:
    plain = wire.to_plain(known) | {
        name: given[name]
        for name in ("input", "output", "cache_read", "cache_write")
        if isinstance(given.get(name), int | float)
    }
    return msgspec.convert(plain, ModelCost)


def _headers(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, dict) else {}


def _chosen(given: bool | None, known: bool) -> bool:
    return known if given is None else given
