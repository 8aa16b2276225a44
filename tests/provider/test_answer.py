import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.provider import connection
from instar.provider.failure import ProviderEndpoint
from instar.provider.openai import ChatReader, tokens
from instar.provider.protocol import (
    Finish,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
)


def sse(*chunks: object, done: bool = True) -> bytes:
    lines = [b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n" for chunk in chunks]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def delta(finish: str | None = None, **words: object) -> dict:
    return {"choices": [{"index": 0, "delta": words, "finish_reason": finish}]}


def calls(*items: dict, finish: str | None = None) -> dict:
    return delta(finish, tool_calls=list(items))


def read(*pieces: bytes) -> list:
    reader = ChatReader(ProviderEndpoint("http://host/v1"))
    return [found for piece in pieces for found in reader.feed(piece)] + reader.close()


def collected(deltas: list) -> tuple[str, str, list[tuple[str, str, str]], str]:
    """Text, reasoning, calls as (id, name, arguments), and the reason to finish."""
    text = "".join(d.text for d in deltas if isinstance(d, TextDelta))
    thought = "".join(d.text for d in deltas if isinstance(d, ReasoningDelta))
    starts = [d for d in deltas if isinstance(d, ToolCallStart)]
    arguments = {
        start.index: "".join(
            d.text for d in deltas if isinstance(d, ToolCallDelta) and d.index == start.index
        )
        for start in starts
    }
    return text, thought, [(s.call_id, s.name, arguments[s.index]) for s in starts], deltas[-1].reason


STREAM = sse(
    delta(role="assistant", content=""),
    delta(reasoning_content="Hm, "),
    delta(reasoning="so."),
    delta(content="Gr\u00fc\u00dfe "),
    delta(content="\U0001f98b"),
    calls({"index": 0, "id": "a", "function": {"name": "read", "arguments": ""}}),
    calls({"index": 1, "id": "b", "function": {"name": "bash", "arguments": '{"command"'}}),
    calls({"index": 0, "function": {"arguments": '{"filePath":'}}),
    calls({"index": 1, "function": {"arguments": ': "ls"}'}}),
    calls({"index": 0, "function": {"arguments": ' "x"}'}}),
    delta("tool_calls"),
    {"choices": [], "usage": {"prompt_tokens": 20, "completion_tokens": 9, "total_tokens": 29}},
)
WHOLE = (
    "Gr\u00fc\u00dfe \U0001f98b",
    "Hm, so.",
    [("a", "read", '{"filePath": "x"}'), ("b", "bash", '{"command": "ls"}')],
    "tool-calls",
)


def test_text_reasoning_and_parallel_calls_are_told_apart():
    deltas = read(STREAM)
    assert collected(deltas) == WHOLE
    assert deltas[-1].tokens.input == 20
    assert deltas[-1].tokens.output == 9


@settings(max_examples=60)
@given(st.lists(st.integers(0, len(STREAM)), max_size=10))
def test_any_cut_of_the_bytes_gives_the_same_answer(cuts):
    edges = [0, *sorted(cuts), len(STREAM)]
    assert collected(read(*(STREAM[a:b] for a, b in itertools.pairwise(edges)))) == WHOLE


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        pytest.param(
            [calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}})],
            [("a", "f", "{}")],
            id="whole in one chunk",
        ),
        pytest.param(
            [
                calls({"id": "a", "function": {"name": "f", "arguments": '{"x"'}}),
                calls({"function": {"arguments": ":1}"}}),
                calls({"id": "b", "function": {"name": "g", "arguments": "{}"}}),
            ],
            [("a", "f", '{"x":1}'), ("b", "g", "{}")],
            id="no index",
        ),
        pytest.param(
            [
                calls(
                    {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}},
                    {"index": 0, "id": "b", "function": {"name": "g", "arguments": "{}"}},
                )
            ],
            [("a", "f", "{}"), ("b", "g", "{}")],
            id="every index 0",
        ),
        pytest.param(
            [
                calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{"}}),
                calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": "}"}}),
            ],
            [("a", "f", "{}")],
            id="id and name repeated",
        ),
        pytest.param(
            [
                calls({"index": 0, "function": {"arguments": '{"x"'}}),
                calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": ":1}"}}),
            ],
            [("a", "f", '{"x":1}')],
            id="arguments before the name",
        ),
        pytest.param(
            [calls({"index": "0", "id": "a", "function": {"name": "f", "arguments": {"x": 1}}})],
            [("a", "f", '{"x":1}')],
            id="an index as text and arguments as an object",
        ),
        pytest.param(
            [calls({"index": 0, "id": "a", "function": {"name": "f", "arguments": None}})],
            [("a", "f", "")],
            id="no arguments",
        ),
    ],
)
def test_tool_calls_are_put_together(chunks, expected):
    assert collected(read(sse(*chunks, delta("tool_calls"))))[2] == expected


def test_calls_without_ids_get_ids_of_their_own():
    found = collected(
        read(
            sse(
                calls({"function": {"name": "f", "arguments": "{}"}}),
                calls({"function": {"name": "g", "arguments": "{}"}}),
                delta("stop"),
            )
        )
    )
    (first, _, _), (second, _, _) = found[2]
    assert first.startswith("call_")
    assert second.startswith("call_")
    assert first != second
    assert found[3] == "tool-calls"


def test_two_calls_with_one_id_are_given_two():
    twice = [{"index": n, "id": "same", "function": {"name": "f", "arguments": "{}"}} for n in (0, 1)]
    ids = [call[0] for call in collected(read(sse(calls(*twice), delta("tool_calls"))))[2]]
    assert ids[0] == "same"
    assert ids[1] not in ("", "same")


def test_a_call_without_a_name_is_an_error_that_is_tried_again():
    with pytest.raises(ProviderError, match="without naming it") as caught:
        read(sse(calls({"index": 0, "id": "a", "function": {"arguments": "{}"}}), delta("tool_calls")))
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("stop", "stop"),
        ("tool_calls", "tool-calls"),
        ("function_call", "tool-calls"),
        ("length", "length"),
        ("content_filter", "content-filter"),
        ("MAX_TOKENS", "length"),
        ("something new", "unknown"),
    ],
)
def test_reasons_to_finish_are_ours(said, reason):
    assert read(sse(delta(content="x"), delta(said)))[-1].reason == reason


def test_an_answer_with_done_and_no_reason_is_whole():
    assert read(sse(delta(content="x")))[-1] == Finish("unknown", tokens({}))


@pytest.mark.parametrize("data", [b"", b": ping\n\n", sse(delta(content="x"), done=False), sse()])
def test_an_answer_that_broke_off_is_tried_again(data):
    with pytest.raises(ProviderError, match="broke off") as caught:
        read(data)
    assert caught.value.kind == "network"
    assert caught.value.retryable


def test_an_answer_that_broke_off_in_the_middle_of_an_event_is_tried_again():
    def outcome(data):
        try:
            return read(data)[-1].reason
        except ProviderError as error:
            return "again" if error.retryable else str(error)

    assert {outcome(STREAM[:cut]) for cut in range(1, len(STREAM))} == {"again", "tool-calls"}


def test_an_answer_that_does_not_stream_is_read_too():
    whole = {
        "choices": [
            {
                "message": {
                    "content": "hi",
                    "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    text = json.dumps(whole, indent=1).encode()
    assert collected(read(b"\n", text[:40], text[40:])) == ("hi", "", [("a", "f", "{}")], "tool-calls")


def test_a_list_of_pieces_is_text_and_thinking():
    content = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]
    assert collected(read(sse(delta("stop", content=content))))[:2] == ("yes", "hm")


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"message": "Rate limit reached", "code": "rate_limit_exceeded"}, "api", True),
        ({"message": "Overloaded", "type": "overloaded_error"}, "api", True),
        ({"message": "busy", "code": 503}, "api", True),
        (
            {
                "message": "This model's maximum context length is 8192 tokens",
                "code": "context_length_exceeded",
            },
            "overflow",
            False,
        ),
        ("bad tool", "api", False),
    ],
)
def test_an_error_object_in_the_stream_is_an_error(error, kind, retryable):
    with pytest.raises(ProviderError) as caught:
        read(sse(delta(content="x"), {"error": error}))
    assert (caught.value.kind, caught.value.retryable) == (kind, retryable)


def test_an_error_in_a_choice_is_an_error():
    with pytest.raises(ProviderError, match="upstream died"):
        read(
            sse({"choices": [{"finish_reason": "error", "error": {"message": "upstream died", "code": 502}}]})
        )


def test_a_page_is_shown_and_named():
    page = b"<!DOCTYPE html><title>Sign in</title>" + b"x" * 500
    with pytest.raises(ProviderError, match="answered HTML") as caught:
        read(page)
    assert "Sign in" in str(caught.value)
    assert len(str(caught.value)) < 450


@pytest.mark.parametrize("data", [b"data: {oops\n\n", b"data: [1]\n\n", b'{"hello": 1}', b"data: \xff\n\n"])
def test_what_is_no_answer_is_shown(data):
    with pytest.raises(ProviderError, match="not Chat Completions JSON"):
        read(data)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 4, "total_tokens": 14}, (14, 10, 4, 0, 0, 0)),
        ({"prompt_tokens": 10, "completion_tokens": 4}, (14, 10, 4, 0, 0, 0)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 9,
                "total_tokens": 19,
                "prompt_tokens_details": {"cached_tokens": 8},
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            (19, 2, 4, 5, 8, 0),
        ),
        ({"prompt_tokens": 10, "completion_tokens": 1, "prompt_cache_hit_tokens": 6}, (11, 4, 1, 0, 6, 0)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 3,
                "total_tokens": 18,
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            (18, 10, 3, 5, 0, 0),
        ),
        (
            {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cache_write_tokens": 4}},
            (13, 6, 3, 0, 0, 4),
        ),
        ({"prompt_tokens": None, "prompt_tokens_details": None}, (None, 0, 0, 0, 0, 0)),
    ],
)
def test_usage_is_counted_once(usage, expected):
    found = tokens(usage)
    assert (
        found.total,
        found.input,
        found.output,
        found.reasoning,
        found.cache.read,
        found.cache.write,
    ) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"choices":[{"delta":{"content":' + "[" * 5000 + "]" * 5000 + "}}]}",
        '{"x":' + "[" * 50_000 + "]" * 50_000 + "}",
    ],
)
def test_json_that_is_nested_too_deeply_is_no_answer(text):
    with pytest.raises(ProviderError, match="not Chat Completions"):
        read(b"data: " + text.encode() + b"\n\n")


def test_thinking_inside_thinking_is_not_followed():
    deep = "x"
    for _ in range(300):
        deep = [{"type": "thinking", "thinking": deep}, {"type": "text", "text": "."}]
    assert collected(read(sse(delta(content=deep))))[:2] == (".", ".")


def test_more_tool_calls_than_anybody_needs_are_refused():
    many = [{"index": n, "id": f"c{n}", "function": {"name": "f"}} for n in range(connection.MAX_CALLS + 1)]
    assert len(collected(read(sse(calls(*many[:-1]))))[2]) == connection.MAX_CALLS
    with pytest.raises(ProviderError, match=f"more than {connection.MAX_CALLS} tools"):
        read(sse(calls(*many)))


def test_an_answer_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(connection, "MAX_STREAM", 10_000)
    found = ChatReader(ProviderEndpoint("http://host/v1"))
    piece = sse(delta(content="word"), done=False)
    with pytest.raises(ProviderError, match="more than 10000 bytes"):
        [found.feed(piece) for _ in range(1000)]


@pytest.mark.parametrize("count", [1e300, 10**30])
def test_a_count_beyond_reason_is_cut(count):
    found = tokens({"prompt_tokens": count, "completion_tokens": 1})
    assert (found.input, found.output) == (2**53, 1)
