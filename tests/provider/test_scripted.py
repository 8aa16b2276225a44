import json
import os

import pytest
from provider_words import assistant, call, loose, make_model, make_request, user

from instar.message import (
    APIError,
    APIErrorData,
    CompactionPart,
    ErrorText,
    MessageAbortedError,
    Tokens,
    ToolPending,
)
from instar.provider.protocol import (
    Finish,
    ProviderError,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    ToolSpec,
)
from instar.provider.script import parse
from instar.provider.scripted import Scripted, find_position, script_path, shipped_names

THREE = "== turn\ntext: one\n== turn\ntool: bash\n== turn\ntext: three {{tool}}\n"
BROKEN = APIError(data=APIErrorData(message="x", is_retryable=False))


@pytest.fixture
def play(tmp_path):
    """Play a script against histories; each call of `play.fresh` is a new process's adapter."""
    return Play(tmp_path / "s.txt")


class Play:
    def __init__(self, file):
        self.file = file
        self.model = make_model(
            provider_id="scripted", id="s", protocol="scripted", settings={"script": str(file)}
        )
        self.adapter = Scripted()

    def write(self, text):
        self.file.write_text(text)

    def answer(self, *parts, **facts):
        return assistant(*parts, model="scripted/s", **facts)

    async def deltas(self, *history, **facts):
        facts.setdefault("session_id", "ses_1")
        request = make_request(self.model, *history, **facts)
        return [delta async for delta in self.adapter.stream(request)]

    async def said(self, *history, **facts):
        deltas = await self.deltas(*history, **facts)
        return "".join(
            delta.text if isinstance(delta, TextDelta) else f"<{delta.name}>"
            for delta in deltas
            if isinstance(delta, TextDelta | ToolCallStart)
        )

    async def error(self, *history, **facts):
        with pytest.raises(ProviderError) as caught:
            await self.deltas(*history, **facts)
        return caught.value


async def test_turns_are_played_in_order_by_the_history_alone(play):
    play.write(THREE)
    history = [user("a")]
    assert await play.said(*history) == "one"
    history += [play.answer("one"), user("b")]
    play.adapter = Scripted()
    assert await play.said(*history) == "<bash>"
    history += [play.answer(call("OUT", call_id="call_t2_1"))]
    play.adapter = Scripted()
    assert await play.said(*history) == "three OUT"
    assert await play.said(user("a"), session_id="ses_other") == "one"
    assert await play.said(*history[:2]) == "<bash>", "a session taken back plays again from there"


async def test_running_out_of_turns_says_what_to_add(play):
    play.write(THREE)
    error = await play.error(*[play.answer("x") for _ in range(3)], user("more"))
    assert not error.retryable
    assert str(play.file) in str(error)
    assert "has 3 turns" in str(error)
    assert "add a `== turn`" in str(error)


async def test_answers_of_other_models_summaries_and_failed_calls_take_no_turn(play):
    play.write(THREE)
    others = [assistant("x", model="openai/gpt"), play.answer("x", summary=True), play.answer(error=BROKEN)]
    assert await play.said(*others, user("a")) == "one"
    aborted = play.answer("o", error=MessageAbortedError(data=ErrorText(message="")))
    assert await play.said(*others, aborted, user("a")) == "<bash>"


async def test_everything_that_a_section_says_is_streamed(play):
    play.write(
        '== turn\nreasoning: hm\ntext: hello\ntool: f {"a": 1}\nraw: g {oops\nusage: input=5 output=6\nchunk: 3\n'
    )
    deltas = await play.deltas(user("x"))
    assert deltas[:6] == [
        ReasoningDelta("hm"),
        TextDelta("hel"),
        TextDelta("lo"),
        ToolCallStart(0, "call_t1_1", "f"),
        ToolCallDelta(0, '{"a'),
        ToolCallDelta(0, '":1'),
    ]
    assert "".join(d.text for d in deltas if isinstance(d, ToolCallDelta) and d.index == 1) == "{oops"
    assert isinstance(deltas[-1], Finish)
    assert (deltas[-1].reason, deltas[-1].tokens.input, deltas[-1].tokens.output) == ("tool-calls", 5, 6)


async def test_a_finish_reason_and_a_pause_can_be_given(play):
    play.write("== turn\ntext: a\ndelay: 1ms\npace: 1ms\nfinish: length\n")
    assert (await play.deltas(user("x")))[-1].reason == "length"


async def test_rules_answer_what_matches_and_take_no_turn(play):
    play.write('== when "^ping$"\ntext: pong\n== when "no (\\w+)" once\ntext: what {{match.1}}?\n' + THREE)
    history = [user("ping")]
    assert await play.said(*history) == "pong"
    history += [play.answer("pong"), user("ping")]
    assert await play.said(*history) == "pong"
    history += [play.answer("pong"), user("begin")]
    assert await play.said(*history) == "one"
    history += [play.answer("one"), user("no way")]
    assert await play.said(*history) == "what way?"
    history += [play.answer("what way?"), user("no way")]
    assert await play.said(*history) == "<bash>"


async def test_a_rule_may_answer_a_tools_output(play):
    play.write('== when "not found"\ntext: sorry\n' + THREE)
    asked = play.answer(call("x: not found", call_id="call_t1_1"))
    assert await play.said(user("a"), asked) == "sorry"


async def test_compaction_does_not_start_the_script_again(play):
    play.write(THREE)
    before = [user("a"), play.answer("one"), user("b")]
    assert await play.said(*before) == "<bash>"
    marked = user(loose(CompactionPart, auto=True))
    summary = play.answer("sum", summary=True)
    assert await play.said(marked, summary, user("go on")) == "three "
    kept = play.answer(call("OUT", call_id="call_t2_1"))
    play.adapter = Scripted()
    assert await play.said(marked, summary, kept) == "three OUT", "its calls tell also a new process"


async def test_an_error_is_played_as_often_as_it_says(play):
    play.write("== turn\nerror: 429 slow down retry-after=2 times=2\n" + THREE)
    for _ in range(2):
        error = await play.error(user("a"))
        assert (error.status, error.retryable, error.retry_after, error.kind) == (429, True, 2.0, "api")
    assert await play.said(user("a")) == "one"
    assert await play.said(user("a"), play.answer(error=BROKEN), play.answer("one")) == "<bash>"


@pytest.mark.parametrize(
    ("line", "kind", "retryable"),
    [
        ("500 oops", "api", True),
        ("400 bad", "api", False),
        ("401 no", "auth", False),
        ("overflow too long", "overflow", False),
        ("network cut", "network", True),
        ("filter no", "filter", False),
    ],
)
async def test_an_error_without_times_never_ends(play, line, kind, retryable):
    play.write(f"== turn\ntext: par\nerror: {line}\ntext: tial\n")
    for _ in range(2):
        error = await play.error(user("a"))
        assert (error.kind, error.retryable) == (kind, retryable)


async def test_a_last_section_that_only_fails_ends_the_script(play):
    play.write(THREE + "== turn\nerror: 500 down times=1\n")
    history = [play.answer("x") for _ in range(3)]
    assert "down" in str(await play.error(*history))
    assert "all of them have been played" in str(await play.error(*history))


async def test_an_unmet_expectation_shows_what_came(play):
    play.write("== turn\nexpect: all (good|fine)\ntext: {{match.1}}\n")
    assert await play.said(user("all fine")) == "fine"
    error = await play.error(user("a"), assistant(call("it broke")))
    assert not error.retryable
    assert f"{play.file}:2: expected the last input to match /all (good|fine)/, but it was: it broke" in str(
        error
    )


@pytest.mark.parametrize(
    ("line", "good"),
    [
        ("expect_system: You are a test", True),
        ("expect_system: pirate", False),
        ("expect_tool: ba.h", True),
        ("expect_tool: rea", False),
        ("expect_not: secret", False),
        ("expect_not: nothing of it", True),
    ],
)
async def test_system_prompt_and_tools_can_be_expected(play, line, good):
    play.write(f"== turn\n{line}\ntext: ok\n")
    tools = [ToolSpec("bash", "", {}), ToolSpec("read", "", {})]
    if good:
        assert await play.said(user("a secret"), tools=tools) == "ok"
    else:
        assert "s.txt:2: expected" in str(await play.error(user("a secret"), tools=tools))


async def test_templates_are_filled_in_text_and_arguments(play):
    play.write(
        '== turn\ntext: {{user}}|{{last}}|{{session}}|{{turn}}|{{tools}}|{{ other }}\ntool: f {"a": ["{{user}}"]}\n'
    )
    deltas = await play.deltas(user('say "hi"\n'), tools=[ToolSpec("f", "", {})])
    assert deltas[0].text == 'say "hi"\n|say "hi"\n|ses_1|t1|f|{{ other }}'
    assert json.loads(deltas[2].text) == {"a": ['say "hi"\n']}


@pytest.mark.parametrize(
    ("purpose", "text"),
    [
        ("title", "one two three four five six"),
        ("compaction", "Summary by scripted/s: the conversation so far was compacted."),
    ],
)
async def test_titles_and_summaries_need_no_section_and_take_no_turn(play, purpose, text):
    play.write(THREE)
    history = [user("one two three  four five six seven")]
    assert await play.said(*history, purpose=purpose) == text
    assert await play.said(*history) == "one"


async def test_titles_and_summaries_can_be_written(play):
    play.write(THREE + "== title\ntext: T\n== compaction\ntext: first\n== compaction\ntext: then\n")
    assert await play.said(user("a"), purpose="title") == "T"
    summaries = [await play.said(user("a"), purpose="compaction") for _ in range(3)]
    assert summaries == ["first", "then", "then"]


async def test_a_single_call_needs_its_section(play):
    play.write(THREE)
    assert "no `== generate` section" in str(await play.error(user("a"), purpose="generate"))


async def test_a_changed_script_is_read_again(play):
    play.write("== turn\ntext: old\n")
    assert await play.said(user("a")) == "old"
    play.write("== turn\ntext: newer\n")
    assert await play.said(user("a")) == "newer"


async def test_a_mistake_in_a_script_names_its_line(play):
    play.write("== turn\noops\n")
    assert f"{play.file}:2: 'oops'" in str(await play.error(user("a")))


@pytest.mark.parametrize("content", [None, b"== turn\ntext: \xff"])
async def test_a_script_that_cannot_be_read_is_named(play, content):
    if content is not None:
        play.file.write_bytes(content)
    assert str(play.file) in str(await play.error(user("a")))


async def test_what_the_model_received_is_recorded(play, tmp_path):
    play.write("== turn\ntext: ok\n")
    record = tmp_path / "record.jsonl"
    play.adapter = Scripted({"INSTAR_SCRIPT_RECORD": str(record)})
    tool = ToolSpec("bash", "Runs.", {"type": "object"})
    await play.deltas(user("hi"), tools=[tool], temperature=0.1, agent="build", headers={"x": "y"})
    await play.deltas(user("hi"), play.answer(call("out", command="ls")), purpose="title")
    first, second = map(json.loads, record.read_text().splitlines())
    assert first["system"] == ["You are a test."]
    assert first["messages"] == [{"role": "user", "content": "hi"}]
    assert first["tools"][0]["function"]["name"] == "bash"
    assert first["params"]["temperature"] == 0.1
    assert first["params"]["headers"] == {"x": "y"}
    assert (first["purpose"], first["agent"], first["model"], first["session"]) == (
        "turn",
        "build",
        "scripted/s",
        "ses_1",
    )
    assert second["messages"][2] == {"role": "tool", "tool_call_id": "call_1", "content": "out"}


async def test_a_record_that_cannot_be_written_is_an_error(play, tmp_path):
    play.write(THREE)
    play.adapter = Scripted({"INSTAR_SCRIPT_RECORD": str(tmp_path)})
    assert "INSTAR_SCRIPT_RECORD" in str(await play.error(user("a")))


async def test_echo_needs_no_file():
    model = make_model(provider_id="scripted", id="echo", protocol="scripted")
    request = make_request(model, user("one"), assistant("one", model="scripted/echo"), user("two"))
    deltas = [delta async for delta in Scripted().stream(request)]
    assert deltas[0] == TextDelta("two")
    assert isinstance(deltas[1].tokens, Tokens)


async def test_a_model_without_a_script_says_how_to_give_it_one():
    model = make_model(provider_id="scripted", id="nobody", protocol="scripted")
    with pytest.raises(ProviderError, match="INSTAR_SCRIPT=FILE"):
        [delta async for delta in Scripted().stream(make_request(model, user("x")))]


def test_the_script_is_the_first_that_is_given(tmp_path):
    a, b, c = (str(tmp_path / name) for name in "abc")
    environment = {"INSTAR_SCRIPT": c}
    assert str(script_path("x", {"script": b}, {"script": a}, environment)) == a
    assert str(script_path("x", {"script": b}, {}, environment)) == b
    assert str(script_path("x", {}, {}, environment)) == c
    assert script_path("x", {}, {}, {}) is None
    assert script_path("../x", {}, {}, {}) is None
    assert script_path("one", {"script": str(tmp_path)}, {}, {}) == tmp_path / "one.txt"
    assert "echo" in shipped_names()


def test_an_open_call_is_no_output():
    script = parse(THREE, "s")
    asked = assistant(call(call_id="call_t2_1", state=ToolPending(input={}, raw="")), model="scripted/s")
    position = find_position(script, [user("a"), asked], make_model(provider_id="scripted", id="s"))
    assert (position.played, position.last) == (2, "a")


def test_every_shipped_script_is_without_mistakes():
    for name in shipped_names():
        path = script_path(name, {}, {}, {})
        if path is not None:
            assert parse(path.read_text(), os.fspath(path)).source
