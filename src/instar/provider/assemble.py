"""A model put together from the configuration's provider block and the catalogue, the block winning."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from instar import wire
from instar.config import ModelConfig, ProviderConfig
from instar.provider.catalogue import Entry, Vendor
from instar.provider.library import INSTALL, KINDS, is_installed
from instar.provider.protocol import Model, ModelCost, ModelLimit
from instar.secret import Secret

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
        wire_id=asked.id or "",
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
