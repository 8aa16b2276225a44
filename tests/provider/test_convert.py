import base64
import json
import time

import pytest
from provider_words import SPAN, assistant, call, loose, make_model, make_request, user

from instar.message import (
    APIError,
    APIErrorData,
    CompactionPart,
    ErrorText,
    FilePart,
    MessageAbortedError,
    PatchPart,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolCompleted,
    ToolError,
    ToolPending,
    ToolRunning,
    ToolSpan,
    UnknownPart,
)
from instar.provider.convert import INTERRUPTED, ChatConverter, conversation, reasoning_field
from instar.provider.openai import OpenAI

PNG = "data:image/png;base64,iVBORw0KGgo="
BROKEN = APIError(data=APIErrorData(message="x", is_retryable=True))
ABORTED = MessageAbortedError(data=ErrorText(message="Aborted"))


def file(url=PNG, mime="image/png", filename="a.png"):
    return loose(FilePart, url=url, mime=mime, filename=filename)


def sent(*messages, system=(), **facts):
    """The messages of the request's body."""
    request = make_request(make_model(**facts), *messages, system=list(system))
    return json.loads(OpenAI().body(request))["messages"]


def bytes_of(converter, messages, system=()):
    return conversation(list(system), converter.converted(messages))


def said(text):
    return {"role": "assistant", "content": text}


def asked(text="", **args):
    tool_call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps(args, separators=(",", ":"))},
    }
    return {"role": "assistant", "content": text, "tool_calls": [tool_call]}


def result(text):
    return {"role": "tool", "tool_call_id": "call_1", "content": text}


def person(content):
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(user("one", "two"), [person("one\n\ntwo")], id="texts of a person"),
        pytest.param(user(loose(TextPart, text="no", ignored=True), " "), [], id="ignored and blank text"),
        pytest.param(
            user(loose(CompactionPart, auto=True)), [person("What did we do so far?")], id="a compaction"
        ),
        pytest.param(assistant(), [], id="an empty answer"),
        pytest.param(
            assistant(loose(StepStartPart), "hi", loose(PatchPart, hash="h", files=[])),
            [said("hi")],
            id="an answer",
        ),
        pytest.param(
            assistant("hm", call("out", command="ls")),
            [asked("hm", command="ls"), result("out")],
            id="a call",
        ),
        pytest.param(
            assistant(call(state=ToolError(input={}, error="no such file", time=ToolSpan(start=1, end=2)))),
            [asked(), result("no such file")],
            id="a failed call",
        ),
        pytest.param(
            assistant(call(state=ToolPending(input={}, raw='{"comm'))),
            [asked(), result(INTERRUPTED)],
            id="a call that never ran",
        ),
        pytest.param(
            assistant(call(state=ToolRunning(input={"a": 1}, time=SPAN))),
            [asked(a=1), result(INTERRUPTED)],
            id="a call that never ended",
        ),
        pytest.param(
            assistant(
                call(
                    state=ToolCompleted(
                        input={},
                        output="long",
                        title="",
                        metadata={},
                        time=ToolSpan(start=1, end=2, compacted=3),
                    )
                )
            ),
            [asked(), result("[Old tool result content cleared]")],
            id="a pruned output",
        ),
        pytest.param(
            assistant(loose(StepStartPart), call("1"), loose(StepStartPart), "end"),
            [asked(), result("1"), said("end")],
            id="two steps in one message",
        ),
        pytest.param(
            assistant(loose(ReasoningPart, text="hm", time=SPAN), "hi"), [said("hi")], id="thinking"
        ),
        pytest.param(assistant("half", error=BROKEN), [], id="an answer that broke off"),
        pytest.param(assistant("half", error=ABORTED), [said("half")], id="an answer that was stopped"),
        pytest.param(
            assistant(call("1"), error=BROKEN), [asked(), result("1")], id="a broken answer whose tools ran"
        ),
        pytest.param(
            user(file()),
            [
                person(
                    "[Attached file a.png (image/png); this model cannot be shown it, say so to the person]"
                )
            ],
            id="an image for a blind model",
        ),
        pytest.param(
            user(
                "see",
                file("data:text/plain;base64," + base64.b64encode(b"a\xc3\xa9").decode(), "text/plain", "t"),
            ),
            [person('see\n\n<file name="t">\na\u00e9\n</file>')],
            id="a text file",
        ),
        pytest.param(
            user(file("data:text/plain,a%20b", "text/plain", "t")),
            [person('<file name="t">\na b\n</file>')],
            id="a text file in percent form",
        ),
        pytest.param(
            user(file("data:text/plain;base64,!!!", "text/plain", "t")),
            [person('<file name="t">\n[this file\'s data: url is damaged]\n</file>')],
            id="a damaged file",
        ),
        pytest.param(
            user(file("file:///x/a.txt", "text/plain", "a.txt")),
            [person("[Attached file a.txt (text/plain) at file:///x/a.txt]")],
            id="a file on the disk",
        ),
        pytest.param(
            user(loose(TextPart, text="read: x", synthetic=True), file("file:///x/a", "text/plain", "a")),
            [person("read: x")],
            id="a file that was read already",
        ),
    ],
)
def test_a_message_is_what_chat_completions_takes(message, expected):
    assert sent(message) == expected


def test_a_part_of_an_unknown_type_is_not_sent():
    message = user("hi")
    message.parts.append(
        UnknownPart(fields={"id": "p", "sessionID": "s", "messageID": "m", "type": "hologram"})
    )
    assert sent(message) == [person("hi")]


def test_a_model_that_sees_is_shown_images_and_papers():
    pdf = file("data:application/pdf;base64,JVBERg==", "application/pdf", "a.pdf")
    remote = file("https://host/a.png")
    assert sent(user("see", file(), remote, pdf), attachment=True) == [
        person(
            [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "image_url", "image_url": {"url": "https://host/a.png"}},
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="},
                },
            ]
        )
    ]


def test_images_of_a_tool_follow_its_result():
    state = ToolCompleted(
        input={}, output="ok", title="", metadata={}, time=ToolSpan(start=1, end=2), attachments=[file()]
    )
    wire = sent(assistant(call(state=state)), attachment=True)
    assert [item["role"] for item in wire] == ["assistant", "tool", "user"]
    assert wire[2]["content"][1] == {"type": "image_url", "image_url": {"url": PNG}}


def test_every_call_has_its_result_right_after_the_answer():
    wire = sent(
        assistant(call("1", call_id="a"), call("2", call_id="b", state=ToolPending(input={}, raw="")))
    )
    assert [call["id"] for call in wire[0]["tool_calls"]] == ["a", "b"]
    assert [(item["tool_call_id"], item["content"]) for item in wire[1:]] == [("a", "1"), ("b", INTERRUPTED)]


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        (None, None),
        (False, None),
        (True, "reasoning_content"),
        ("reasoning", "reasoning"),
        ({"field": "reasoning_details"}, "reasoning_details"),
    ],
)
def test_thinking_goes_back_only_where_the_model_wants_it(wanted, field):
    assert reasoning_field(make_model(interleaved=wanted)) == field
    thought = assistant(loose(ReasoningPart, text="hm", time=SPAN), "hi")
    (answer,) = sent(thought, interleaved=wanted)
    assert answer == said("hi") | ({field: "hm"} if field else {})


def test_the_system_prompt_is_one_message_before_all_others():
    assert sent(user("hi"), system=["a", "", "b"])[0] == {"role": "system", "content": "a\n\nb"}
    assert sent(system=[""]) == []


def test_a_message_that_changed_is_converted_again():
    converter = ChatConverter()
    message = assistant("one", call("old", command="ls"))
    first = bytes_of(converter, [message])
    assert bytes_of(converter, [message]) == first
    message.parts[0].text = "two"
    assert b"two" in bytes_of(converter, [message])
    message.parts[1].state.time.compacted = 5
    assert b"cleared" in bytes_of(converter, [message])
    message.parts.append(call("more", call_id="call_2"))
    assert b"more" in bytes_of(converter, [message])


def test_a_longer_history_begins_with_the_bytes_of_the_shorter_one():
    converter = ChatConverter()
    history = [message for n in range(5) for message in (user(f"u{n}"), assistant(f"a{n}", call(str(n))))]
    before = bytes_of(converter, history[:-2], ["s"])
    assert bytes_of(converter, history, ["s"]).startswith(before[:-1])
    assert bytes_of(ChatConverter(), history, ["s"]) == bytes_of(converter, history, ["s"])


def test_what_is_remembered_is_bounded(monkeypatch):
    monkeypatch.setattr("instar.provider.convert._MOST_BYTES", 4000)
    converter = ChatConverter()
    history = [user("x" * 100) for _ in range(100)]
    whole = bytes_of(converter, history)
    assert converter._bytes <= 4000
    assert sum(known.piece.size for known in converter._known.values()) == converter._bytes
    assert bytes_of(converter, history) == whole


def test_a_message_that_was_seen_before_is_not_converted_again():
    converter = ChatConverter()
    history = [assistant("word " * 40, call("out " * 100, command="ls")) for _ in range(400)]
    start = time.process_time()
    bytes_of(converter, history)
    first = time.process_time() - start
    again = min(_timed(converter, history) for _ in range(5))
    assert again < first


def _timed(converter, history):
    start = time.process_time()
    bytes_of(converter, history)
    return time.process_time() - start
