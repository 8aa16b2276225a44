"""The adapter for Anthropic Messages and everything that speaks it, streaming over httpx2.

Of the options of a model, an agent or a hook it reads, with opencode's names: ``thinking``
(``{"type": "enabled", "budgetTokens": n}`` or ``{"type": "adaptive"}``), ``effort`` (also as
``reasoningEffort``), ``topK``, ``disableParallelToolUse``. Any other goes into the body as it stands, and
null leaves a key out. Times are those of `connection`.
"""

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from instar.provider.anthropic_answer import Answer
from instar.provider.anthropic_convert import Converter, conversation, sent, system_blocks, tool_list
from instar.provider.connection import Call, Connections, Patience, check_key, joined, merged
from instar.provider.failure import Endpoint, secrets_in
from instar.provider.protocol import Delta, Model, Request
from instar.wire import Plain, encode

VERSION: Final = "2023-06-01"
INTERLEAVED: Final = "interleaved-thinking-2025-05-14"
"""The beta that lets a model with a thinking budget think between its tool calls."""
DEFAULT_OUTPUT: Final = 8192
"""``max_tokens``, which Anthropic asks for, where nobody said how long an answer may be."""
_FIXED_SAMPLING: Final = re.compile(r"claude-(?:opus-4-[7-9]|[a-z]+-(?:[5-9]|\d\d))(?!\d)")
"""Models that refuse ``temperature``, ``top_p`` and ``top_k`` (from Claude Opus 4.7 on)."""
_BODY_NAMES: Final = {"topK": "top_k", "serviceTier": "service_tier", "stopSequences": "stop_sequences"}


class Anthropic:
    """One adapter for every base URL: connections are kept and used again between calls."""

    def __init__(self) -> None:
        self._connections = Connections()
        self._converters: dict[tuple[str, bool], Converter] = {}

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        """Make the call and yield its deltas. Raises `ProviderError`, never with the key in it."""
        endpoint = _endpoint(request)
        check_key(request, endpoint)
        patience = Patience.of(request.model.settings)
        call = Call(endpoint, _url(request.model), _headers(request), self.body(request), request.model.fetch)
        async with aclosing(self._connections.exchange(call, patience, Answer(endpoint))) as deltas:
            async for delta in deltas:
                yield delta

    async def close(self) -> None:
        """Close every kept connection."""
        await self._connections.close()

    def body(self, request: Request) -> bytes:
        """Return the request's JSON: the same bytes for the same request; `Request.sent` is told of it.

        Tools and system come first, as they do in the cache's prefix.
        """
        model = request.model
        wire: Plain = {"model": model.wire_id or model.id}
        if request.tools:
            wire["tools"] = msgspec.Raw(tool_list(request.tools))
        if system := system_blocks(request.system):
            wire["system"] = msgspec.Raw(system)
        kept = self._converter(model).kept(request.messages)
        wire["messages"] = msgspec.Raw(conversation(kept))
        wire["stream"] = True
        wire |= parameters(request)
        data = encode({key: value for key, value in wire.items() if value is not None})
        if request.sent is not None:
            request.sent(sent(request, kept, data))
        return data

    def _converter(self, model: Model) -> Converter:
        key = (model.ref, model.attachment)
        if key not in self._converters:
            self._converters[key] = Converter(model.ref, attachment=model.attachment)
        return self._converters[key]


def parameters(request: Request) -> Plain:
    """Return what else stands in the body: limits, sampling, thinking and the options.

    A model that thinks samples as it wants: ``temperature``, ``top_p`` and ``top_k`` are left out then.
    Models refuse ``temperature`` beside ``top_p``; the first goes before the second.
    """
    given = {**request.model.options, **request.options}
    thinking = _thinking(given.pop("thinking", None))
    found: Plain = {"max_tokens": _longest(request, thinking), "thinking": thinking}
    effort = given.pop("effort", None) or given.pop("reasoningEffort", None)
    if effort:
        config = given.pop("output_config", None)
        found["output_config"] = {**(config if isinstance(config, dict) else {}), "effort": effort}
    if given.pop("disableParallelToolUse", None) and request.tools:
        found["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": True}
    # Anthropic refuses a forced call beside thinking.
    if request.tool_choice == "required" and request.tools and _is_off(thinking):
        found["tool_choice"] = {**found.get("tool_choice", {}), "type": "any"}
    found |= {_BODY_NAMES.get(name, name): value for name, value in given.items()}
    if _samples(request.model, thinking):
        if request.temperature is not None:
            found.setdefault("temperature", request.temperature)
        elif request.top_p is not None:
            found.setdefault("top_p", request.top_p)
    else:
        found.pop("top_k", None)
    return found


def _samples(model: Model, thinking: Plain | None) -> bool:
    if not model.temperature or _FIXED_SAMPLING.search(model.wire_id or model.id):
        return False
    return _is_off(thinking)


def _is_off(thinking: Plain | None) -> bool:
    return thinking is None or thinking.get("type") == "disabled"


def _thinking(given: Any) -> Plain | None:
    """The ``thinking`` option in Anthropic's form; opencode writes its budget as ``budgetTokens``."""
    if not isinstance(given, dict):
        return None
    return {"budget_tokens" if name == "budgetTokens" else name: value for name, value in given.items()}


def _longest(request: Request, thinking: Plain | None) -> int:
    """The longest answer in tokens: Anthropic counts a thinking budget as a part of it."""
    most = request.model.limit.output
    wanted = request.max_output_tokens or min(most or DEFAULT_OUTPUT, 32_000)
    budget = (thinking or {}).get("budget_tokens")
    if isinstance(budget, int) and thinking and thinking.get("type") == "enabled":
        wanted += budget
    return min(wanted, most) if most else wanted


def _headers(request: Request) -> dict[str, str]:
    """The request's headers: ours, then the model's, then the call's; the last of a name counts."""
    key = request.model.api_key
    found = {
        "accept": "text/event-stream, application/json",
        # A compressed stream is held back by proxies until there is enough of it.
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": "instar",
        "anthropic-version": VERSION,
    }
    thinking = request.options.get("thinking", request.model.options.get("thinking"))
    if isinstance(thinking, dict) and thinking.get("type") == "enabled":
        found["anthropic-beta"] = INTERLEAVED
    if key:
        found["x-api-key"] = key.reveal()
    return merged(found, request.model.headers, request.headers)


def _url(model: Model) -> str:
    """The address of the call; a server that is named without a path (``ANTHROPIC_BASE_URL``) has it below /v1."""
    return joined(model, "/messages" if urlsplit(model.url).path.strip("/") else "/v1/messages")


def _endpoint(request: Request) -> Endpoint:
    secrets = secrets_in(request.model.headers | request.headers)
    key = request.model.api_key
    url = _url(request.model)
    return Endpoint(url, [*secrets, key] if key else secrets, speaks="Anthropic Messages")
