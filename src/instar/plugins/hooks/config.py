"""The ``hook_settings`` block of the settings."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta


class HookSettings(msgspec.Struct, frozen=True):
    """The block. ``tighter`` tells the core which way a value guards more, from loose to tight."""

    enabled: Annotated[
        bool,
        Meta(description="Whether rules run at all.", extra={"tighter": [False, True]}),
    ] = True
    on_error: Annotated[
        Literal["dialect", "deny"],
        Meta(
            description="`deny`: what an evaluator could not decide is refused, where a rule says nothing itself.",
            extra={"tighter": ["dialect", "deny"]},
        ),
    ] = "dialect"
    agent_pre_tool_use: Annotated[
        bool,
        Meta(description="Whether `agent` rules run before a tool use: each call waits for one."),
    ] = False
    model: Annotated[
        str,
        Meta(description="The model of prompt and agent rules that name none; without it `small_model`."),
    ] = ""
    history_tokens: Annotated[
        int,
        Meta(
            ge=0,
            le=200_000,
            description='Tokens of a session\'s history that `context: ["history"]` gives at most.',
        ),
    ] = 8000
    max_turns: Annotated[
        int,
        Meta(ge=1, le=50, description="Model calls of an agent rule that says no `max_turns`."),
    ] = 10


def read(config: Mapping[str, Any]) -> HookSettings:
    """Return the block as the merged settings (`PluginInput.config`) have it; the defaults where they have none.

    Raises `msgspec.ValidationError` for what a plugin's ``config`` hook may have left there.
    """
    return msgspec.convert(config.get("hook_settings", {}), HookSettings)
