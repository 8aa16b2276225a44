"""Attributes of OpenTelemetry's conventions for generative AI."""

from typing import Final

_PROVIDERS: Final = {
    "amazon-bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "google": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "google-vertex-anthropic": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}
"""The conventions' names of providers that instar's catalogue calls otherwise; others keep their own."""


def chat_attributes(provider: str, model: str) -> dict[str, str]:
    """Return what spans and metrics of a model call have in common."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model,
    }
