"""The Anthropic adapter against a real server on loopback."""

import asyncio
import itertools
import json
import re

import msgspec
import pytest
from provider_words import KEY, assistant, call, loose, make_model, make_request, user
from tests.waiting import SOON

from instar.message import FilePart, ReasoningPart, Span, ToolCompleted, ToolSpan
from instar.provider.anthropic import DEFAULT_OUTPUT, INTERLEAVED, Anthropic
from instar.provider.protocol import (
    Finish,
    ModelLimit,
    ProviderError,
    ReasoningDelta,
    ReasoningStart,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
    UsageUpdate,
)


def sse(*events):
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]


def start(**usage):
    return {"type": "message_start", "message": {"type": "message", "usage": {"output_tokens": 1, **usage}}}


def block(index, *deltas, **content):
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def end(reason="end_turn", **usage):
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ]


def words(text):
    return {"type": "text_delta", "text": text}


GOOD = sse(
    start(input_tokens=3), *block(0, words("Hel"), words("lo"), type="text", text=""), *end(output_tokens=2)
)


@pytest.fixture
async def adapter():
    adapter = Anthropic()
    yield adapter
    await adapter.close()


def claude(server, *pieces, **facts):
    return msgspec.structs.replace(server.plan(*pieces, **facts), protocol="anthropic", attachment=True)


async def collect(adapter, request):
    return [delta async for delta in adapter.stream(request) if not isinstance(delta, UsageUpdate)]


async def failure(adapter, request):
    with pytest.raises(ProviderError) as caught:
        await collect(adapter, request)
    error = caught.value
    assert KEY not in f"{error}{error.body}{error.headers}{error.url}"
    return error


async def test_an_answer_of_thinking_text_and_tools_is_streamed_over_http(server, adapter):
    model = claude(
        server,
        *sse(
            start(input_tokens=10, cache_read_input_tokens=200, cache_creation_input_tokens=30),
            {"type": "ping"},
            *block(
                0,
                {"type": "thinking_delta", "thinking": "Let me"},
                {"type": "thinking_delta", "thinking": " see."},
                {"type": "signature_delta", "signature": "sig-1"},
                type="thinking",
                thinking="",
            ),
            *block(1, type="redacted_thinking", data="opaque"),
            *block(2, {"type": "signature_delta", "signature": "sig-2"}, type="thinking", thinking=""),
            {"type": "an_event_of_tomorrow", "what": 1},
            *block(3, words("Reading. "), type="text", text=""),
            *block(
                4,
                {"type": "input_json_delta", "partial_json": ""},
                {"type": "input_json_delta", "partial_json": '{"path":'},
                {"type": "input_json_delta", "partial_json": '"a"}'},
                type="tool_use",
                id="toolu_1",
                name="read",
                input={},
            ),
            *block(5, type="tool_use", id="toolu_2", name="list", input={"path": "b"}),
            *end("tool_use", output_tokens=40),
        ),
    )
    deltas = await collect(adapter, make_request(model, user("hi")))
    assert deltas[:-1] == [
        ReasoningStart(),
        ReasoningDelta("Let me"),
        ReasoningDelta(" see."),
        ReasoningDelta("", {"anthropic": {"signature": "sig-1"}}),
        ReasoningStart({"anthropic": {"redactedData": "opaque"}}),
        ReasoningStart(),
        ReasoningDelta("", {"anthropic": {"signature": "sig-2"}}),
        TextDelta("Reading. "),
        ToolCallStart(0, "toolu_1", "read"),
        ToolCallDelta(0, '{"path":'),
        ToolCallDelta(0, '"a"}'),
        ToolCallStart(1, "toolu_2", "list"),
        ToolCallDelta(1, '{"path":"b"}'),
    ]
    finish = deltas[-1]
    assert isinstance(finish, Finish)
    tokens = finish.tokens
    assert (finish.reason, tokens.input, tokens.output) == ("tool-calls", 10, 40)
    assert (tokens.cache.read, tokens.cache.write, tokens.total) == (200, 30, 280)


async def test_an_answer_arrives_however_the_network_cuts_it(server, adapter):
    whole = "".join(GOOD).replace("\n", "\r\n")
    model = claude(server, *[whole[index : index + 7] for index in range(0, len(whole), 7)])
    deltas = await collect(adapter, make_request(model, user("hi")))
    assert "".join(delta.text for delta in deltas[:-1]) == "Hello"
    assert deltas[-1].reason == "stop"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content-filter"),
        ("something_new", "unknown"),
    ],
)
async def test_the_reason_of_the_end_is_told_in_our_words(server, adapter, said, reason):
    model = claude(server, *sse(start(), *block(0, words("x"), type="text", text=""), *end(said)))
    assert (await collect(adapter, make_request(model, user("hi"))))[-1].reason == reason


async def test_a_server_that_does_not_stream_is_understood(server, adapter):
    message = {
        "type": "message",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "s"},
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "t", "name": "read", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 5, "output_tokens": 6},
    }
    model = claude(server, json.dumps(message), headers={"content-type": "application/json"})
    deltas = await collect(adapter, make_request(model, user("hi")))
    assert deltas[:-1] == [
        ReasoningStart(),
        ReasoningDelta("Hm.", {"anthropic": {"signature": "s"}}),
        TextDelta("Hi"),
        ToolCallStart(0, "t", "read"),
        ToolCallDelta(0, '{"a":1}'),
    ]
    assert (deltas[-1].reason, deltas[-1].tokens.output) == ("tool-calls", 6)


def refusal(kind, message):
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}})


@pytest.mark.parametrize(
    ("status", "kind", "message", "expected"),
    [
        (529, "overloaded_error", "Overloaded", ("api", True)),
        (429, "rate_limit_error", "Too many requests", ("api", True)),
        (500, "api_error", "Internal server error", ("api", True)),
        (401, "authentication_error", f"invalid x-api-key {KEY}", ("auth", False)),
        (403, "permission_error", "not allowed", ("auth", False)),
        (400, "invalid_request_error", "messages: roles must alternate", ("api", False)),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 205000 tokens > 200000 maximum",
            ("overflow", False),
        ),
        (400, "invalid_request_error", "Your credit balance is too low", ("api", False)),
        (413, "request_too_large", "Request exceeds the maximum size", ("overflow", False)),
    ],
)
async def test_a_refusal_says_what_and_whether_to_try_again(server, adapter, status, kind, message, expected):
    headers = {"content-type": "application/json", "retry-after": "7"}
    model = claude(server, refusal(kind, message), status=status, headers=headers)
    error = await failure(adapter, make_request(model, user("hi")))
    assert (error.kind, error.retryable, error.status, error.retry_after) == (*expected, status, 7)
    assert kind in str(error)


async def test_an_error_in_the_middle_of_an_answer_ends_it(server, adapter):
    model = claude(server, *GOOD[:3], f"event: error\ndata: {refusal('overloaded_error', 'Overloaded')}\n\n")
    stream = adapter.stream(make_request(model, user("hi")))
    told = await anext(stream)
    assert isinstance(told, UsageUpdate)
    assert (told.tokens.input, told.tokens.output) == (3, 1), (
        "what was used is told before the answer is whole"
    )
    assert await anext(stream) == TextDelta("Hel")
    with pytest.raises(ProviderError, match=r"broke off with an error \(overloaded_error\)") as caught:
        await anext(stream)
    assert caught.value.retryable


@pytest.mark.parametrize("pieces", [GOOD[:4], [*GOOD[:4], "drop"]])
async def test_an_answer_without_its_end_is_no_answer(server, adapter, pieces):
    error = await failure(adapter, make_request(claude(server, *pieces), user("hi")))
    assert (error.kind, error.retryable) == ("network", True)


@pytest.mark.parametrize(
    ("piece", "said"),
    [
        ("<html>Sign in</html>", "answered HTML"),
        ("data: {nonsense\n\n", "not Anthropic Messages JSON"),
        ('data: {"type": 7}\n\n', "not Anthropic Messages JSON"),
        ('{"choices": []}', "not Anthropic Messages JSON"),
    ],
)
async def test_what_is_no_answer_is_shown(server, adapter, piece, said):
    error = await failure(adapter, make_request(claude(server, piece), user("hi")))
    assert said in str(error)
    assert "baseURL" in str(error)


async def test_a_silent_server_is_given_up(server, adapter):
    model = claude(server, *GOOD[:3], "hang", settings={"chunkTimeout": 50})
    error = await failure(adapter, make_request(model, user("hi")))
    assert "fell silent" in str(error)


async def test_cancelling_a_call_ends_it_at_once(server, adapter):
    model = claude(server, *GOOD[:3], "hang")
    began = asyncio.Event()

    async def run():
        async for _ in adapter.stream(make_request(model, user("hi"))):
            began.set()

    task = asyncio.create_task(run())
    await asyncio.wait_for(began.wait(), SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, SOON)


async def test_the_request_is_what_the_messages_api_asks_for(server, adapter):
    model = msgspec.structs.replace(claude(server, *GOOD), headers={"X-Team": "a"})
    tool = ToolSpec("read", "Reads.", {"type": "object", "properties": {}})
    request = make_request(
        model,
        user("hi"),
        system=["One.", "Two."],
        tools=[tool],
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=100,
        options={"topK": 5, "metadata": {"user_id": "u"}, "stop_sequences": None},
    )
    await collect(adapter, request)
    (got,) = server.requests(model)
    marked = {"cache_control": {"type": "ephemeral"}}
    assert got["first"] == "POST /v1/messages HTTP/1.1"
    assert got["body"] == {
        "model": model.id,
        "tools": [
            {
                "name": "read",
                "description": "Reads.",
                "input_schema": {"type": "object", "properties": {}},
                **marked,
            }
        ],
        "system": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two.", **marked}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", **marked}]}],
        "stream": True,
        "max_tokens": 100,
        "temperature": 0.5,
        "top_k": 5,
        "metadata": {"user_id": "u"},
    }
    assert got["headers"]["x-api-key"] == KEY
    assert got["headers"]["anthropic-version"] == "2023-06-01"
    assert got["headers"]["x-team"] == "a"
    assert "authorization" not in got["headers"]
    assert "anthropic-beta" not in got["headers"]


async def test_a_server_named_without_a_path_is_called_below_v1(server, adapter):
    model = claude(server, *GOOD)
    model = msgspec.structs.replace(model, url=model.url.removesuffix("/v1"))
    await collect(adapter, make_request(model, user("hi")))
    assert server.requests(model)[0]["first"].startswith("POST /v1/messages ")


def body(model, *messages, **facts):
    return json.loads(Anthropic().body(make_request(model, *messages, **facts)))


@pytest.mark.parametrize(
    ("facts", "options", "longest", "expected"),
    [
        ({}, {}, None, {"max_tokens": DEFAULT_OUTPUT, "temperature": 0.0}),
        ({"limit": ModelLimit(output=64000)}, {}, None, {"max_tokens": 32000, "temperature": 0.0}),
        (
            {"limit": ModelLimit(output=64000)},
            {"thinking": {"type": "enabled", "budgetTokens": 16000}, "topK": 3},
            32000,
            {"max_tokens": 48000, "thinking": {"type": "enabled", "budget_tokens": 16000}},
        ),
        (
            {"limit": ModelLimit(output=40000)},
            {"thinking": {"type": "enabled", "budgetTokens": 16000}},
            32000,
            {"max_tokens": 40000, "thinking": {"type": "enabled", "budget_tokens": 16000}},
        ),
        (
            {},
            {"thinking": {"type": "adaptive"}, "effort": "high"},
            100,
            {"max_tokens": 100, "thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ),
        (
            {},
            {"reasoningEffort": "low"},
            1,
            {"max_tokens": 1, "output_config": {"effort": "low"}, "temperature": 0.0},
        ),
        ({"id": "claude-opus-4-7"}, {"topK": 3}, 1, {"max_tokens": 1}),
        ({"id": "claude-sonnet-5-5"}, {}, 1, {"max_tokens": 1}),
        ({"temperature": False}, {}, 1, {"max_tokens": 1}),
    ],
)
def test_limits_thinking_and_sampling_are_what_the_model_takes(facts, options, longest, expected):
    model = make_model(options=options, **facts)
    found = body(model, user("hi"), temperature=0.0, max_output_tokens=longest, system=[])
    for name in ("model", "messages", "stream"):
        del found[name]
    assert found == expected


def test_thinking_with_a_budget_may_come_between_tool_calls():
    request = make_request(
        make_model(), user("hi"), options={"thinking": {"type": "enabled", "budgetTokens": 1024}}
    )
    assert Anthropic().headers(request)["anthropic-beta"] == INTERLEAVED


def test_one_tool_at_a_time_is_an_option():
    tool = ToolSpec("read", "Reads.", {"type": "object"})
    found = body(make_model(), user("hi"), tools=[tool], options={"disableParallelToolUse": True})
    assert found["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


def test_the_same_request_is_the_same_bytes():
    request = make_request(
        make_model(), user("hi", message_id="m1"), assistant(call(command="ls"), message_id="m2")
    )
    adapter = Anthropic()
    assert adapter.body(request) == adapter.body(request) == Anthropic().body(request)


MARK = b',"cache_control":{"type":"ephemeral"}'


def thought(text, **given):
    return loose(ReasoningPart, text=text, metadata={"anthropic": given}, time=Span(start=1, end=2))


def session(steps):
    """A history of `steps` tool steps, as a session has it before its next model call."""
    history = [user("do it", message_id="m0")]
    for step in range(steps):
        parts = [thought(f"t{step}", signature=f"s{step}"), f"step {step}"]
        parts += [
            call(f"out {step}.{index}", call_id=f"c{step}_{index}", n=index) for index in range(step % 3 + 1)
        ]
        history.append(assistant(*parts, message_id=f"m{step + 1}"))
    return history


TOOLS = [ToolSpec(name, "Does.", {"type": "object", "properties": {}}) for name in ("bash", "read")]


def head(body):
    """A body from its first byte to the end of its last block."""
    return body[: body.rindex(b'}]}],"stream"') + 1]


def test_each_steps_bytes_begin_the_next_steps_apart_from_the_moving_marks():
    adapter = Anthropic()
    model = make_model()
    bodies = [adapter.body(make_request(model, *session(steps), tools=TOOLS)) for steps in range(30)]
    for before, after in itertools.pairwise(bodies):
        assert after.replace(MARK, b"").startswith(head(before.replace(MARK, b"")))
        # Where the one step wrote the cache, the next one reads it.
        assert heads(after)[-2] == heads(before)[-1]


def heads(body):
    """The bytes before each mark, the marks taken off."""
    found = re.finditer(re.escape(MARK), body)
    return [body[: mark.start()].replace(MARK, b"") for mark in found]


@pytest.mark.parametrize(("steps", "marks"), [(0, 3), (1, 4), (2, 4), (40, 4)])
def test_tools_system_and_the_last_two_user_turns_are_marked(steps, marks):
    found = Anthropic().body(make_request(make_model(), *session(steps), tools=TOOLS, system=["a", "b"]))
    assert found.count(MARK) == marks
    data = json.loads(found)
    assert ["cache_control" in tool for tool in data["tools"]] == [False, True]
    assert ["cache_control" in text for text in data["system"]] == [False, True]
    users = [message for message in data["messages"] if message["role"] == "user"]
    marked = ["cache_control" in message["content"][-1] for message in users]
    assert marked == [False] * (len(users) - 2) + [True] * min(2, len(users))


def test_images_and_pdfs_of_a_tool_stand_inside_its_result():
    files = [
        loose(FilePart, mime="image/png", url="data:image/png;base64,AAAA"),
        loose(FilePart, mime="application/pdf", url="data:application/pdf;base64,BBBB"),
    ]
    done = ToolCompleted(
        input={}, output="seen", title="", metadata={}, time=ToolSpan(start=1, end=2), attachments=files
    )
    found = body(make_model(attachment=True), user("look"), assistant(call(state=done)))
    (result,) = found["messages"][-1]["content"]
    assert [piece["type"] for piece in result["content"]] == ["text", "image", "document"]
    assert result["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": "AAAA"}


def test_a_model_that_takes_no_images_is_told_of_them_in_words():
    file = loose(FilePart, mime="image/png", filename="a.png", url="data:image/png;base64,AAAA")
    found = body(make_model(attachment=False), user("look", file))
    text = found["messages"][0]["content"][1]["text"]
    assert "a.png (image/png)" in text
    assert "cannot be shown" in text
    assert "AAAA" not in text


@pytest.mark.parametrize(
    ("options", "choice"),
    [
        ({}, {"type": "any"}),
        ({"disableParallelToolUse": True}, {"type": "any", "disable_parallel_tool_use": True}),
        ({"thinking": {"type": "enabled", "budgetTokens": 2000}}, None),
    ],
)
def test_a_forced_call_is_asked_for_unless_the_model_thinks(options, choice):
    tools = [ToolSpec("give", "Gives.", {"type": "object"})]
    found = body(make_model(), user("hi"), tools=tools, options=options, tool_choice="required")
    assert found.get("tool_choice") == choice


async def test_half_a_character_in_the_request_does_not_fail_the_call(server, adapter):
    model = claude(server, *GOOD)
    odd = ToolSpec("t", "a\ud800b", {"type": "object"})
    await collect(adapter, make_request(model, user("c\ud800d"), system=["e\ud800f"], tools=[odd]))
    body = json.dumps(server.requests(model)[0]["body"], ensure_ascii=False)
    assert [text in body for text in ("a\ufffdb", "c\ufffdd", "e\ufffdf")] == [True, True, True]
