"""The extra's providers against a real server on loopback: `make extra` installs it and runs this."""

import binascii
import json
import struct
import subprocess
import sys

import msgspec
import pytest
from provider_words import KEY, assistant, call, loose, make_request, user

from instar.message import FilePart, ReasoningPart, Span, ToolCompleted, ToolSpan
from instar.provider.library import Library
from instar.provider.protocol import (
    Finish,
    ProviderError,
    ReasoningDelta,
    ReasoningStart,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
)

TOOL = ToolSpec("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest.fixture
async def adapter():
    adapter = Library()
    yield adapter
    await adapter.close()


def sse(*chunks):
    return [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]


def google(server):
    def part(finish=None, **content):
        return {"candidates": [{"content": {"role": "model", "parts": [content]}, "finishReason": finish}]}

    usage = {
        "promptTokenCount": 30,
        "cachedContentTokenCount": 20,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 7,
        "totalTokenCount": 42,
    }
    wanted = {"name": "read", "args": {"path": "a"}}
    return sse(
        part(text="Hm.", thought=True),
        part(text="Hel"),
        part(text="lo"),
        part("STOP", functionCall=wanted, thoughtSignature="c2ln") | {"usageMetadata": usage},
    )


def chat(server):
    def chunk(finish=None, usage=None, **delta):
        choice = {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}
        found = {
            "id": "x",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }
        return found | ({"usage": usage, "x_groq": {"id": "x", "usage": usage}} if usage else {})

    function = {"name": "read", "arguments": '{"path":"a"}'}
    wanted = {"index": 0, "id": "call_1234", "type": "function", "function": function}
    usage = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}
    return [
        *sse(
            chunk(content="Hel"),
            chunk(content="lo"),
            chunk(tool_calls=[wanted]),
            chunk("tool_calls", usage, content=""),
        ),
        "data: [DONE]\n\n",
    ]


def cohere(server):
    def event(kind, **rest):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **rest})}\n\n"

    wanted = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": ""}}
    more = {"function": {"arguments": '{"path":"a"}'}}
    usage = {"tokens": {"input_tokens": 30, "output_tokens": 12}}
    return [
        event("message-start", id="x", delta={"message": {"role": "assistant"}}),
        event("content-start", index=0, delta={"message": {"content": {"type": "text", "text": ""}}}),
        event("content-delta", index=0, delta={"message": {"content": {"text": "Hello"}}}),
        event("content-end", index=0),
        event("tool-call-start", index=0, delta={"message": {"tool_calls": wanted}}),
        event("tool-call-delta", index=0, delta={"message": {"tool_calls": more}}),
        event("tool-call-end", index=0),
        event("message-end", id="x", delta={"finish_reason": "TOOL_CALL", "usage": usage}),
    ]


def bedrock(server):
    return [
        {"hex": frame(kind, body).hex()}
        for kind, body in (
            ("messageStart", {"role": "assistant"}),
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Hel"}}),
            ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "lo"}}),
            ("contentBlockStop", {"contentBlockIndex": 0}),
            (
                "contentBlockStart",
                {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "call_1", "name": "read"}}},
            ),
            (
                "contentBlockDelta",
                {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"path":"a"}'}}},
            ),
            ("contentBlockStop", {"contentBlockIndex": 1}),
            ("messageStop", {"stopReason": "tool_use"}),
            (
                "metadata",
                {
                    "usage": {"inputTokens": 30, "outputTokens": 12, "totalTokens": 42},
                    "metrics": {"latencyMs": 1},
                },
            ),
        )
    ]


def frame(kind, body):
    """One message of AWS's event stream: lengths, their checksum, headers, the body, a checksum."""
    headers = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in (
            (":event-type", kind),
            (":content-type", "application/json"),
            (":message-type", "event"),
        )
    )
    payload = json.dumps(body).encode()
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    head = lengths + struct.pack(">I", binascii.crc32(lengths)) + headers + payload
    return head + struct.pack(">I", binascii.crc32(head))


PLANS = {
    "google": google,
    "google-vertex": google,
    "groq": chat,
    "mistral": chat,
    "cohere": cohere,
    "bedrock": bedrock,
}
KINDS = {"bedrock": "application/vnd.amazon.eventstream"}


def model_of(server, protocol, *pieces, **facts):
    facts.setdefault("headers", {"content-type": KINDS.get(protocol, "text/event-stream")})
    aws = {"region": "eu-central-1", "accessKeyId": "AKIDEXAMPLE", "secretAccessKey": KEY}
    signed = protocol == "bedrock"
    model = server.plan(*(pieces or PLANS[protocol](server)), settings=aws if signed else {}, **facts)
    key = None if signed else model.api_key
    return msgspec.structs.replace(
        model, protocol=protocol, provider_id=protocol, attachment=True, api_key=key
    )


async def collect(adapter, request):
    return [delta async for delta in adapter.stream(request)]


@pytest.mark.parametrize("protocol", PLANS)
async def test_an_answer_with_a_tool_call_is_streamed_over_http(server, adapter, protocol):
    model = model_of(server, protocol)
    request = make_request(model, user("hi"), tools=[TOOL], temperature=0.0, max_output_tokens=50)
    deltas = await collect(adapter, request)
    said = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    assert said == "Hello"
    (start,) = [delta for delta in deltas if isinstance(delta, ToolCallStart)]
    (given,) = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert (start.name, json.loads(given.text)) == ("read", {"path": "a"})
    finish = deltas[-1]
    assert isinstance(finish, Finish)
    tokens = finish.tokens
    assert finish.reason == "tool-calls"
    assert tokens.input + tokens.cache.read == 30
    assert tokens.output + tokens.reasoning == 12
    (sent,) = server.requests(model)
    assert "You are a test." in sent["raw"]
    assert "Reads." in sent["raw"]


async def test_cached_tokens_and_thinking_are_counted_apart(server, adapter):
    model = model_of(server, "google")
    deltas = await collect(adapter, make_request(model, user("hi"), tools=[TOOL]))
    assert deltas[:2] == [ReasoningStart(), ReasoningDelta("Hm.")]
    tokens = deltas[-1].tokens
    assert (tokens.input, tokens.cache.read, tokens.output, tokens.reasoning) == (10, 20, 5, 7)


async def test_a_thought_signature_goes_back_with_its_call(server, adapter):
    model = model_of(server, "google")
    deltas = await collect(adapter, make_request(model, user("hi"), tools=[TOOL]))
    (start,) = [delta for delta in deltas if isinstance(delta, ToolCallStart)]
    metadata = json.loads(json.dumps(start.metadata))
    part = call("out", call_id=start.call_id, tool="read", path="a")
    part.metadata = metadata
    answer = assistant(part, model=model.ref)
    await collect(adapter, make_request(model, user("hi"), answer, tools=[TOOL]))
    sent = server.requests(model)[-1]["body"]
    pieces = [piece for content in sent["contents"] for piece in content["parts"]]
    assert [piece.get("thoughtSignature") for piece in pieces if "functionCall" in piece] == ["c2ln"]


@pytest.mark.parametrize("protocol", ["google", "groq", "bedrock", "mistral"])
async def test_a_tools_image_follows_its_result_as_a_persons_message(server, adapter, protocol):
    image = loose(FilePart, mime="image/png", url="data:image/png;base64,iVBORw0KGgo=")
    done = ToolCompleted(
        input={}, output="seen", title="", metadata={}, time=ToolSpan(start=1, end=2), attachments=[image]
    )
    model = model_of(server, protocol)
    answer = assistant(call(state=done, tool="read", call_id="call12345"))
    await collect(adapter, make_request(model, user("hi"), answer, tools=[TOOL]))
    raw = server.requests(model)[-1]["raw"]
    assert (
        raw.index("seen") < raw.index("Files that the tool calls above returned:") < raw.index("iVBORw0KGgo")
    )


async def test_thinking_of_another_model_is_not_sent(server, adapter):
    model = model_of(server, "google")
    thought = loose(ReasoningPart, text="secret plan", metadata=None, time=Span(start=1, end=2))
    await collect(
        adapter, make_request(model, user("hi"), assistant(thought, "said", model="other/m"), user("go"))
    )
    raw = server.requests(model)[-1]["raw"]
    assert "said" in raw
    assert "secret plan" not in raw


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [(401, f"bad key {KEY}", "auth"), (400, "prompt is too long", "overflow"), (404, "no such model", "api")],
)
@pytest.mark.parametrize("protocol", ["google", "groq"])
async def test_a_refusal_is_told_without_the_key(server, adapter, protocol, status, text, kind):
    refusal = json.dumps({"error": {"code": status, "message": text, "status": "X"}})
    headers = {"content-type": "application/json"}
    model = model_of(server, protocol, refusal, status=status, headers=headers)
    with pytest.raises(ProviderError) as caught:
        await collect(adapter, make_request(model, user("hi")))
    error = caught.value
    assert (error.kind, error.status) == (kind, status)
    assert KEY not in f"{error}{error.body}{error.headers}{error.url}"


@pytest.mark.parametrize("protocol", ["google", "groq"])
async def test_a_page_instead_of_an_answer_is_one_error(server, adapter, protocol):
    headers = {"content-type": "text/html"}
    model = model_of(server, protocol, "<html>Sign in</html>", headers=headers)
    with pytest.raises(ProviderError):
        await collect(adapter, make_request(model, user("hi")))


async def test_a_silent_server_is_given_up(server, adapter):
    model = model_of(server, "google", "hang")
    model = msgspec.structs.replace(model, settings={"chunkTimeout": 100})
    with pytest.raises(ProviderError, match="fell silent") as caught:
        await collect(adapter, make_request(model, user("hi")))
    assert caught.value.retryable


def test_the_library_is_not_imported_before_such_a_model_is_called():
    code = (
        "import sys; from instar.settings.config import Config; from instar.provider.resolve import Models; "
        "import instar.runtime; models = Models(Config.from_data({}), {}); "
        "models.provider(models.find('google/gemini-3-pro-preview')); sys.exit('pydantic_ai' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
