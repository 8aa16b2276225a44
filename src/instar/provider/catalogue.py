"""The dated catalogue that comes with instar: providers, their keys, addresses and protocols, models and prices.

It holds what the maintainers knew at its date. An unknown price is null and an unknown window 0. The configuration
overrides every figure (``docs/guides/models.md``).
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = Path(__file__).with_name("catalogue.json")
SCRIPTED: Final = "scripted"
"""The provider, and the protocol, of the scripted models."""
LIBRARY_CLASSES: Final = {
    "google": ("google", "GoogleModel", "google", "GoogleProvider"),
    "google-vertex": ("google", "GoogleModel", "google_cloud", "GoogleCloudProvider"),
    "bedrock": ("bedrock", "BedrockConverseModel", "bedrock", "BedrockProvider"),
    "mistral": ("mistral", "MistralModel", "mistral", "MistralProvider"),
    "cohere": ("cohere", "CohereModel", "cohere", "CohereProvider"),
    "groq": ("groq", "GroqModel", "groq", "GroqProvider"),
    "xai": ("xai", "XaiModel", "xai", "XaiProvider"),
}
"""Protocols that pydantic-ai speaks for instar: module and class of its models, and of its providers."""
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
"""The protocol that each ``npm`` of a provider block stands for."""


class CatalogueModel(msgspec.Struct, frozen=True):
    """A model: tokens of its window and of its longest answer, and its prices.

    `cost` holds dollars for a million tokens of input, output, cache reads and cache writes, as far as they are known.
    `protocol` is set if it differs from the provider's.
    """

    name: str
    context: int = 0
    output: int = 0
    cost: list[float | None] = []
    reasoning: bool = False
    attachment: bool = False
    temperature: bool = True
    tools: bool = True
    protocol: str | None = None


class Vendor(msgspec.Struct, frozen=True):
    """A provider: the variables that may hold its key, its address and models.

    `open`: it serves more models than any list can name. `local`: it needs no key. `base_env` names
    the variable that moves it to another address.
    """

    name: str
    env: list[str]
    url: str
    models: dict[str, CatalogueModel]
    protocol: str = "openai"
    default: str | None = None
    small: str | None = None
    base_env: str | None = None
    open: bool = False
    local: bool = False


class Catalogue(msgspec.Struct, frozen=True):
    """All providers, in the order in which a key makes one the default; `dated` is the date of the figures."""

    dated: str
    source: str
    providers: dict[str, Vendor]


@cache
def shipped() -> Catalogue:
    """Return the catalogue that comes with instar."""
    return msgspec.json.decode(FILE.read_bytes(), type=Catalogue)


def vendor_wanting_key(provider_id: str, url: str) -> Vendor | None:
    """Return the vendor if `url` is its own address, which refuses calls without a key; else None."""
    vendor = shipped().providers.get(provider_id)
    wants = vendor is not None and not vendor.local and vendor.url == url and bool(vendor.env)
    return vendor if wants else None


def keys_in(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the vendors with a key in the environment, each with the variable that holds it."""
    for name, vendor in shipped().providers.items():
        for variable in vendor.env:
            if environment.get(variable, "").strip():
                yield name, variable
