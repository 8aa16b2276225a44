import json

import pytest
from provider_words import assistant, call, loose, make_model, make_request, user

from instar.message import (
    CompactionPart,
    FilePart,
    ReasoningPart,
    Span,
    StepStartPart,
    ToolError,
    ToolPending,
    ToolRunning,
    ToolSpan,
)
from instar.provider.anthropic import BEGINNING, Anthropic
from instar.provider.convert import CLEARED, INTERRUPTED, SUMMARISED
from instar.provider.protocol import ToolSpec


def converted(*messages, ref="test/m", attachment=False):
    provider_id, _, name = ref.partition("/")
    model = make_model(provider_id=provider_id, id=name, attachment=attachment)
    found = json.loads(Anthropic().body(make_request(model, *messages)))["messages"]
    for message in found:
        message["content"][-1].pop("cache_control", None)
    return [(message["role"], message["content"]) for message in found]


def text(words):
    return {"type": "text", "text": words}


def thought(words="", **given):
    metadata = {"anthropic": given} if given else None
    return loose(ReasoningPart, text=words, metadata=metadata, time=Span(start=1, end=2))


def test_thinking_goes_back_as_it_came():
    parts = (thought("a", signature="s1"), thought("", redactedData="d"), thought("", signature="s2"), "said")
    assert converted(user("hi"), assistant(*parts))[1] == (
        "assistant",
        [
            {"type": "thinking", "thinking": "a", "signature": "s1"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "thinking", "thinking": "", "signature": "s2"},
            text("said"),
        ],
    )


@pytest.mark.parametrize(
    ("part", "ref"),
    [(thought("no signature"), "test/m"), (thought("another's", signature="s"), "test/other")],
)
def test_thinking_that_the_model_would_refuse_is_left_out(part, ref):
    assert converted(user("hi"), assistant(part, "said"), ref=ref)[1] == ("assistant", [text("said")])


def test_an_answer_of_thinking_alone_says_nothing():
    assert converted(user("hi"), assistant(thought("a", signature="s"))) == [("user", [text("hi")])]


def test_calls_are_followed_by_their_results_in_one_turn_of_the_persons():
    found = converted(
        user("hi"), assistant("Look.", call("one", call_id="a", n=1), call("two", call_id="b")), user("more")
    )
    assert found[1:] == [
        (
            "assistant",
            [
                text("Look."),
                {"type": "tool_use", "id": "a", "name": "bash", "input": {"n": 1}},
                {"type": "tool_use", "id": "b", "name": "bash", "input": {}},
            ],
        ),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "a", "content": "one"},
                {"type": "tool_result", "tool_use_id": "b", "content": "two"},
                text("more"),
            ],
        ),
    ]


@pytest.mark.parametrize(
    ("state", "content", "wrong"),
    [
        (ToolError(input={}, error="no such file", time=ToolSpan(start=1, end=2)), "no such file", True),
        (ToolPending(input={}, raw=""), INTERRUPTED, False),
        (ToolRunning(input={}, time=Span(start=1)), INTERRUPTED, False),
    ],
)
def test_a_call_that_failed_or_never_ended_has_a_result(state, content, wrong):
    (result,) = converted(user("hi"), assistant(call(state=state)))[-1][1]
    assert (result["content"], result.get("is_error", False)) == (content, wrong)


def test_a_cleared_result_says_so_and_an_empty_one_has_no_content():
    cleared = call("long")
    cleared.state.time.compacted = 5
    (first, second) = converted(user("hi"), assistant(cleared, call("", call_id="b")))[-1][1]
    assert first["content"] == CLEARED
    assert "content" not in second


def test_ids_of_other_providers_are_spelled_as_anthropic_takes_them():
    found = converted(user("hi"), assistant(call(call_id="functions.bash:0")))
    assert found[1][1][0]["id"] == found[2][1][0]["tool_use_id"] == "functions_bash_0"


def test_several_model_calls_in_one_message_are_turns_of_their_own():
    step = loose(StepStartPart)
    found = converted(user("hi"), assistant(step, "one", call(call_id="a"), loose(StepStartPart), "two"))
    assert [role for role, _ in found] == ["user", "assistant", "user", "assistant"]


def test_turns_of_one_role_are_joined_and_a_person_begins():
    assert converted(assistant("a"), user("b"), user("c")) == [
        ("user", [text(BEGINNING)]),
        ("assistant", [text("a")]),
        ("user", [text("b"), text("c")]),
    ]


def test_blank_texts_and_messages_without_content_are_not_sent():
    assert converted(user("hi", "  "), user(""), assistant("")) == [("user", [text("hi")])]


def test_a_compaction_is_asked_as_opencode_asks():
    assert converted(user(loose(CompactionPart, auto=True))) == [("user", [text(SUMMARISED)])]


@pytest.mark.parametrize(
    ("mime", "url", "block"),
    [
        (
            "image/png",
            "data:image/png;base64,AA==",
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
        ),
        (
            "image/jpeg",
            "https://h/a.jpg",
            {"type": "image", "source": {"type": "url", "url": "https://h/a.jpg"}},
        ),
        (
            "application/pdf",
            "https://h/a.pdf",
            {"type": "document", "source": {"type": "url", "url": "https://h/a.pdf"}},
        ),
        ("text/plain", "data:text/plain,hello", text('<file name="f">\nhello\n</file>')),
    ],
)
def test_files_are_sent_as_the_model_takes_them(mime, url, block):
    file = loose(FilePart, mime=mime, url=url, filename="f")
    assert converted(user(file), attachment=True)[0][1] == [block]


@pytest.mark.parametrize("mime", ["image/bmp", "audio/wav", "image/svg+xml"])
def test_a_file_that_the_model_cannot_take_is_named(mime):
    file = loose(FilePart, mime=mime, url=f"data:{mime};base64,AA==", filename="f")
    (block,) = converted(user(file), attachment=True)[0][1]
    assert block["type"] == "text"
    assert "f" in block["text"]


def test_a_changed_message_is_converted_again():
    adapter = Anthropic()
    message = assistant(thought("a"), "said", message_id="m")
    request = make_request(make_model(), user("hi", message_id="u"), message)
    before = adapter.body(request)
    message.parts[0].metadata = {"anthropic": {"signature": "s"}}
    after = adapter.body(request)
    assert b"signature" not in before
    assert b'"signature":"s"' in after


def test_empty_system_prompts_are_left_out_and_a_schema_is_an_object():
    tools = [ToolSpec("t", "d", {"properties": {}})]
    body = json.loads(
        Anthropic().body(make_request(make_model(), user("hi"), system=["", "  "], tools=tools))
    )
    assert "system" not in body
    assert body["tools"][0]["input_schema"] == {"type": "object", "properties": {}}
