"""Tokens are estimated from what was sent and said if the server does not count them."""

import base64
import json

import msgspec
import pytest
from provider_words import loose, make_request, user

from instar.message import FilePart
from instar.provider.anthropic import Anthropic
from instar.provider.connection import FILE_TOKENS, PER_TOKEN
from instar.provider.openai import OpenAI

PICTURE = base64.b64encode(bytes(300_000)).decode()


def sse(*chunks):
    return [*(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks), "data: [DONE]\n\n"]


def chunk(finish=None, **delta):
    return {"choices": [{"delta": delta, "finish_reason": finish}]}


async def tokens(adapter, model, *parts):
    deltas = [delta async for delta in adapter.stream(make_request(model, user(*parts)))]
    await adapter.close()
    return deltas[-1].tokens


@pytest.mark.parametrize(
    ("said", "output"),
    [
        ([chunk("stop", content="x" * 400)], 100),
        ([chunk("stop", content="x")], 1),
        ([chunk("stop", content="")], 0),
        (
            [
                chunk(content="ab", reasoning="c"),
                chunk(tool_calls=[{"index": 0, "id": "i", "function": {"name": "de", "arguments": "fgh"}}]),
                chunk("tool_calls"),
            ],
            2,
        ),
    ],
)
async def test_what_was_sent_and_said_is_counted(server, said, output):
    model = server.plan(*sse(*said))
    found = await tokens(OpenAI(), model, "é" * 4000)
    (request,) = server.requests(model)
    sent = len(request["raw"].encode()) // PER_TOKEN
    assert sent > 2000
    assert (found.input, found.output, found.total) == (sent, output, sent + output)


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
async def test_a_picture_counts_as_a_picture_and_not_by_its_text(server, protocol):
    picture = loose(FilePart, mime="image/png", url=f"data:image/png;base64,{PICTURE}")
    if protocol == "openai":
        adapter, written = OpenAI(), f'"{picture.url}"'
        pieces = sse(chunk("stop", content="ok"))
    else:
        adapter, written = Anthropic(), f'"{PICTURE}"'
        events = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}]
        pieces = sse(
            {"type": "content_block_start", "content_block": {"type": "text", "text": "ok"}}, *events
        )
    model = msgspec.structs.replace(server.plan(*pieces), protocol=protocol, attachment=True)
    found = await tokens(adapter, model, picture)
    (request,) = server.requests(model)
    assert written in request["raw"]
    assert found.input == (len(request["raw"]) - len(written)) // PER_TOKEN + FILE_TOKENS


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 1}, (1, 0, 0)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 5}}, (0, 0, 5)),
    ],
)
async def test_what_a_server_says_counts(server, usage, expected):
    model = server.plan(*sse(chunk("stop", content="x" * 400), {"choices": [], "usage": usage}))
    found = await tokens(OpenAI(), model, "x" * 4000)
    assert (found.input, found.output, found.cache.read) == expected
