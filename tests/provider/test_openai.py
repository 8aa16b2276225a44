import asyncio
import json
import time

import msgspec
import pytest
from provider_words import KEY, assistant, call, make_model, make_request, user
from tests.waiting import SOON

from instar.provider import connection
from instar.provider.connection import Timeouts
from instar.provider.openai import OpenAI
from instar.provider.protocol import (
    Finish,
    ProviderError,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
    UsageUpdate,
)
from instar.wire.secret import Secret


def sse(*chunks):
    return [f"data: {json.dumps(chunk)}\n\n" for chunk in chunks]


def text(words, finish=None):
    return {"choices": [{"delta": {"content": words}, "finish_reason": finish}]}


DONE = "data: [DONE]\n\n"
GOOD = [*sse(text("Hel"), text("lo", "stop")), DONE]


@pytest.fixture
async def adapter():
    adapter = OpenAI()
    yield adapter
    await adapter.close()


async def collect(adapter, request):
    return [delta async for delta in adapter.stream(request)]


async def failure(adapter, request):
    with pytest.raises(ProviderError) as caught:
        await collect(adapter, request)
    error = caught.value
    assert KEY not in f"{error}{error.body}{error.headers}{error.url}"
    return error


async def test_an_answer_is_streamed_over_http(server, adapter):
    model = server.plan(
        *sse(
            text("Let me look. "),
            {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "read"}}]}}]},
            {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]},
            {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 3}},
        ),
        DONE,
    )
    deltas = await collect(adapter, make_request(model, user("hi")))
    assert deltas[:-1] == [
        TextDelta("Let me look. "),
        ToolCallStart(0, "c", "read"),
        ToolCallDelta(0, "{}"),
        UsageUpdate(deltas[-1].tokens),
    ]
    assert isinstance(deltas[-1], Finish)
    assert (deltas[-1].reason, deltas[-1].tokens.input) == ("tool-calls", 12)


async def test_deltas_come_before_the_answer_is_whole(server, adapter):
    model = server.plan(*sse(text("now")), "hang")
    async for delta in adapter.stream(make_request(model, user("hi"))):
        assert delta == TextDelta("now")
        break


@pytest.mark.parametrize(("choice", "sent"), [("auto", None), ("required", "required")])
async def test_a_call_is_forced_where_it_is_asked_for(server, adapter, choice, sent):
    tool = ToolSpec("give", "Gives.", {"type": "object"})
    request = make_request(server.plan(*GOOD), user("hi"), tools=[tool], tool_choice=choice)
    assert json.loads(adapter.body(request)).get("tool_choice") == sent


async def test_the_request_is_what_chat_completions_asks_for(server, adapter):
    model = msgspec.structs.replace(server.plan(*GOOD), headers={"X-Team": "a", "User-Agent": "mine"})
    tool = ToolSpec("read", "Reads.", {"type": "object", "properties": {}})
    request = make_request(
        model,
        user("hi"),
        system=["One.", "Two."],
        tools=[tool],
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=100,
        options={"reasoningEffort": "low", "seed": 7, "top_p": None},
        headers={"x-team": "b"},
        session_id="ses_1",
    )
    await collect(adapter, request)
    (got,) = server.requests(model)
    assert got["first"] == "POST /v1/chat/completions HTTP/1.1"
    assert got["body"] == {
        "model": model.id,
        "messages": [{"role": "system", "content": "One.\n\nTwo."}, {"role": "user", "content": "hi"}],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "read",
                    "description": "Reads.",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "max_tokens": 100,
        "reasoning_effort": "low",
        "seed": 7,
    }
    assert got["headers"]["authorization"] == f"Bearer {KEY}"
    assert got["headers"]["x-team"] == "b"
    assert got["headers"]["user-agent"] == "mine"


async def test_the_same_request_is_the_same_bytes_also_from_another_process(server, adapter):
    model = server.plan(*GOOD)
    request = make_request(model, user("hi", message_id="m1"), assistant(call(command="ls"), message_id="m2"))
    other = OpenAI()
    assert adapter.body(request) == adapter.body(request) == other.body(request)


@pytest.mark.parametrize(
    ("facts", "name"),
    [
        (
            {"provider_id": "openai", "id": "gpt-5", "url": "https://api.openai.com/v1"},
            "max_completion_tokens",
        ),
        ({"provider_id": "openai", "id": "o4-mini"}, "max_completion_tokens"),
        ({"provider_id": "openai", "id": "gpt-4.1"}, "max_tokens"),
        ({"provider_id": "deepseek", "id": "deepseek-reasoner", "reasoning": True}, "max_tokens"),
    ],
)
def test_the_output_limit_has_the_name_that_the_model_knows(facts, name):
    request = make_request(make_model(**facts), user("hi"), max_output_tokens=5)
    body = json.loads(OpenAI().body(request))
    assert {key for key in body if key.startswith("max_")} == {name}


def test_a_model_without_a_temperature_is_sent_none():
    request = make_request(make_model(temperature=False), user("hi"), temperature=0.2)
    assert "temperature" not in json.loads(OpenAI().body(request))


def test_openai_and_who_asks_for_it_get_a_cache_key():
    def key(**facts):
        request = make_request(make_model(**facts), user("hi"), session_id="ses_9")
        return json.loads(OpenAI().body(request)).get("prompt_cache_key")

    assert key(url="https://api.openai.com/v1") == "ses_9"
    assert key(settings={"setCacheKey": True}) == "ses_9"
    assert key() is None


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"id": "anthropic/claude-sonnet-4.5"}, {"type": "ephemeral"}),
        ({"id": "mine", "wire_id": "anthropic/claude-sonnet-4.5"}, {"type": "ephemeral"}),
        (
            {"id": "anthropic/claude-x", "options": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}},
            {"type": "ephemeral", "ttl": "1h"},
        ),
        ({"id": "anthropic/claude-x", "options": {"cache_control": None}}, None),
        ({"id": "openai/gpt-5-mini"}, None),
        ({"id": "anthropic/claude-x", "url": "https://example.com/v1"}, None),
        ({"id": "anthropic/claude-x", "url": "https://notopenrouter.ai/v1"}, None),
    ],
)
def test_claude_behind_openrouter_is_asked_to_cache(facts, expected):
    request = make_request(make_model(**{"url": "https://openrouter.ai/api/v1", **facts}), user("hi"))
    assert json.loads(OpenAI().body(request)).get("cache_control") == expected


def test_a_model_is_called_by_the_name_that_its_server_knows():
    request = make_request(make_model(id="mine", wire_id="vendor/model-1"), user("hi"))
    assert json.loads(OpenAI().body(request))["model"] == "vendor/model-1"


@pytest.mark.parametrize(
    ("status", "headers", "body", "kind", "retryable", "wait"),
    [
        (401, {}, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, "auth", False, None),
        (429, {"retry-after": "3"}, {"error": {"message": "slow"}}, "api", True, 3.0),
        (529, {"retry-after-ms": "40"}, {"error": {"type": "overloaded_error"}}, "api", True, 0.04),
        (500, {}, {"error": {"message": "oops"}}, "api", True, None),
        (400, {}, {"error": {"code": "context_length_exceeded", "message": "x"}}, "overflow", False, None),
    ],
)
async def test_a_refusal_is_an_error_of_its_kind(
    server, adapter, status, headers, body, kind, retryable, wait
):
    model = server.plan(
        json.dumps(body), status=status, headers={"content-type": "application/json"} | headers
    )
    error = await failure(adapter, make_request(model, user("hi")))
    assert (error.kind, error.retryable, error.retry_after, error.status) == (kind, retryable, wait, status)
    assert server.url in str(error)


async def test_a_huge_refusal_is_cut(server, adapter):
    model = server.plan(*["<html>" + "x" * 60_000] * 20, status=502)
    error = await failure(adapter, make_request(model, user("hi")))
    assert len(error.body) <= 64 << 10
    assert "HTML, not JSON" in str(error)


async def test_a_page_with_status_200_is_named(server, adapter):
    model = server.plan("<html>Log in</html>", headers={"content-type": "text/html"})
    error = await failure(adapter, make_request(model, user("hi")))
    assert "answered HTML" in str(error)
    assert "Log in" in str(error)


async def test_a_redirect_names_the_address(server, adapter):
    model = server.plan(status=308, headers={"location": "https://other/v1"})
    error = await failure(adapter, make_request(model, user("hi")))
    assert "redirects to https://other/v1" in str(error)


async def test_an_error_in_the_stream_comes_after_what_was_said(server, adapter):
    model = server.plan(*sse(text("Hel"), {"error": {"message": "Overloaded", "code": 529}}))
    stream = adapter.stream(make_request(model, user("hi")))
    assert await anext(stream) == TextDelta("Hel")
    with pytest.raises(ProviderError) as caught:
        await anext(stream)
    assert caught.value.retryable


@pytest.mark.parametrize("end", [[], ["drop"]])
async def test_a_stream_that_ends_early_is_a_network_error(server, adapter, end):
    error = await failure(adapter, make_request(server.plan(*sse(text("Hel")), *end), user("hi")))
    assert (error.kind, error.retryable) == ("network", True)


async def test_a_kept_connection_that_the_server_closed_is_made_anew_at_once(server, adapter):
    model = server.plan(*GOOD, answers=1)
    said = [await collect(adapter, make_request(model, user("hi"))) for _ in range(2)]
    assert said[0] == said[1]
    # The second request went out on the first connection, which was closed in its face.
    one, again, other = (got["connection"] for got in server.requests(model))
    assert one == again != other


async def test_a_new_connection_that_is_closed_without_an_answer_is_a_network_error(server, adapter):
    model = server.plan(*GOOD, answers=0)
    error = await failure(adapter, make_request(model, user("hi")))
    assert (error.kind, error.retryable) == ("network", True)
    assert len(server.requests(model)) == 1


async def test_nobody_listening_is_a_network_error(adapter):
    error = await failure(adapter, make_request(make_model(url="http://127.0.0.1:9/v1"), user("hi")))
    assert (error.kind, error.retryable) == ("network", True)
    assert "cannot reach" in str(error)
    assert "; is it running? (http://127.0.0.1:9/v1" in str(error)


@pytest.mark.parametrize("url", ["ftp://host/v1", "not an address", "http://"])
async def test_an_address_that_is_none_is_not_tried_again(adapter, url):
    error = await failure(adapter, make_request(make_model(url=url), user("hi")))
    assert not error.retryable
    assert "baseURL" in str(error)


async def test_a_key_that_http_cannot_send_is_named_without_it(adapter):
    model = make_model(api_key=Secret("ключ-секрет"))
    with pytest.raises(ProviderError, match="character that HTTP cannot send") as caught:
        await collect(adapter, make_request(model, user("hi")))
    assert "ключ" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "plan", "said"),
    [
        ({"chunkTimeout": 50}, {"pieces": [*sse(text("Hel")), "hang"]}, "fell silent for 0.05 s"),
        ({"headerTimeout": 50}, {"pieces": GOOD, "before": 60}, "no answer began within 0.05 s"),
        ({"timeout": 2500}, {"pieces": [*sse(text("Hel")), "hang"]}, "took longer than 2.5 s"),
        ({"timeout": 80}, {"pieces": GOOD, "before": 60}, "no answer began within 0.08 s"),
    ],
)
async def test_silence_ends_by_the_time_that_was_set(server, adapter, settings, plan, said):
    pieces = plan.pop("pieces")
    model = server.plan(*pieces, settings=settings, **plan)
    error = await failure(adapter, make_request(model, user("hi")))
    assert said in str(error)
    assert (error.kind, error.retryable) == ("network", True)


async def test_a_time_that_is_false_is_for_ever():
    timeouts = Timeouts.of({"chunkTimeout": False, "headerTimeout": False, "timeout": False})
    assert (timeouts.header, timeouts.idle, timeouts.deadline) == (None, None, None)
    assert Timeouts.of({}).idle == 300
    assert Timeouts.of({"chunkTimeout": "soon"}).idle == 300


async def test_a_connection_is_used_again_after_an_answer(server, adapter):
    model = server.plan(*GOOD)
    for _ in range(3):
        await collect(adapter, make_request(model, user("hi")))
    assert len({got["connection"] for got in server.requests(model)}) == 1


async def test_cancelling_a_call_closes_its_connection(server, adapter):
    model = server.plan(*sse(text("Hel")), "hang")
    began = asyncio.Event()

    async def run():
        async for _ in adapter.stream(make_request(model, user("hi"))):
            began.set()

    task = asyncio.create_task(run())
    await asyncio.wait_for(began.wait(), SOON)
    start = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - start < SOON
    (client,) = adapter._clients
    assert not client._transport._pool.connections


async def test_sixteen_calls_at_once_do_not_wait_for_each_other(server, adapter):
    # None is answered before all of them were asked.
    model = server.plan({"together": 16}, *GOOD)
    request = make_request(model, user("hi"))
    async with asyncio.timeout(30):
        answers = await asyncio.gather(*(collect(adapter, request) for _ in range(16)))
    assert all(answer[0] == TextDelta("Hel") for answer in answers)
    assert len({got["connection"] for got in server.requests(model)}) == 16


async def test_of_many_connections_that_are_free_again_some_are_kept(server, adapter):
    used, many = [], connection.IDLE_CONNECTIONS + 4
    for _ in range(2):
        model = server.plan({"together": many}, *GOOD)
        request = make_request(model, user("hi"))
        async with asyncio.timeout(30):
            await asyncio.gather(*(collect(adapter, request) for _ in range(many)))
        used.append({got["connection"] for got in server.requests(model)})
    assert [len(one) for one in used] == [many, many]
    # Fewer where an answer's last bytes took too long to come.
    assert 0 < len(used[0] & used[1]) <= connection.IDLE_CONNECTIONS


@pytest.mark.parametrize(
    ("facts", "sampled"),
    [
        ({"provider_id": "openai", "id": "gpt-5", "url": "https://api.openai.com/v1"}, False),
        ({"provider_id": "openai", "id": "o4-mini"}, False),
        ({"provider_id": "azure", "id": "mine", "wire_id": "gpt-5.1"}, False),
        ({"provider_id": "openai", "id": "gpt-5-chat-latest"}, True),
        ({"provider_id": "openai", "id": "gpt-4.1"}, True),
        ({"provider_id": "deepseek", "id": "deepseek-reasoner", "reasoning": True}, True),
    ],
)
def test_openais_reasoning_models_are_not_sent_what_they_refuse(facts, sampled):
    request = make_request(
        make_model(**facts),
        user("hi"),
        temperature=0.0,
        top_p=0.9,
        max_output_tokens=5,
        options={"reasoningEffort": "high"},
    )
    body = json.loads(OpenAI().body(request))
    assert ("temperature" in body, "top_p" in body) == (sampled, sampled)
    assert ("max_tokens" in body, "max_completion_tokens" in body) == (sampled, not sampled)
    assert body["reasoning_effort"] == "high"


async def test_half_a_character_in_the_request_does_not_fail_the_call(server, adapter):
    model = server.plan(*GOOD)
    odd = ToolSpec("t", "a\ud800b", {"type": "object"})
    await collect(adapter, make_request(model, user("c\ud800d"), system=["e\ud800f"], tools=[odd]))
    body = server.requests(model)[0]["body"]
    assert [message["content"] for message in body["messages"]] == ["e\ufffdf", "c\ufffdd"]
    assert body["tools"][0]["function"]["description"] == "a\ufffdb"
