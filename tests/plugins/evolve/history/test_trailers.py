"""Trailers of commits: written, read back, and not to be forged."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.plugins.evolve.history.trailers import LONGEST, SUBJECT, Trailers, counted, one_line, read, write

FULL = Trailers(
    session="ses_1",
    call="call_1",
    beside=["bash call_2", "evolve_datetime call_3"],
    agent="build",
    by="instar",
    epoch=12,
    gate=["test passed 1.2 s", "replay 34 of 212 same"],
    cost=1840,
    cause="too many failures on probation",
    expect='{"hook": "tool_before", "field": "ms", "at_most": 5}',
    rolls_back="a1b2c3d",
)

hostile = st.text(
    alphabet=st.sampled_from(list("\n\n\r\t :ab@\u2028\u2029\x85\x0b\x1b\x00\u202e\ud800é")), max_size=30
) | st.lists(
    st.sampled_from(
        ["\n", "\n\n", "Session: ses_x", "Call: c", "Epoch: 9", "Gate: passed", "By: person", " ", "x"]
    )
).map("".join)


def cleaned(said: Trailers) -> Trailers:
    """What can be read back of it at best."""
    lines = {
        name: one_line(getattr(said, name))
        for name in ("session", "call", "agent", "by", "cause", "expect", "rolls_back")
    }
    lists = {
        name: [line for item in getattr(said, name) if (line := one_line(item))]
        for name in ("beside", "gate")
    }
    return Trailers(**lines, **lists, epoch=said.epoch, cost=said.cost)


def test_a_message_is_a_subject_and_a_paragraph_of_trailers():
    text = write("evolve_hook_edit bot.py", FULL)
    assert text.split("\n")[:4] == ["evolve_hook_edit bot.py", "", "Session: ses_1", "Call: call_1"]
    assert "Gate: test passed 1.2 s\nGate: replay 34 of 212 same\nCost: 1840 ms\n" in text
    assert read(text) == ("evolve_hook_edit bot.py", FULL)
    assert write("  ", Trailers()) == "(no subject)"


@pytest.mark.slow
@given(
    hostile,
    st.builds(
        Trailers,
        session=hostile,
        call=hostile,
        beside=st.lists(hostile, max_size=3),
        agent=hostile,
        by=hostile,
        epoch=st.none() | st.integers(0, 10**15 - 1),
        gate=st.lists(hostile, max_size=3),
        cost=st.none() | st.integers(0, 10**15 - 1),
        cause=hostile,
        expect=hostile,
        rolls_back=hostile,
    ),
)
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_read_and_no_value_can_fake_another(subject, said):
    text = write(subject, said)
    found = read(text)
    assert found.trailers == cleaned(said)
    assert found.subject == (one_line(subject, SUBJECT) or "(no subject)")
    assert write(found.subject, found.trailers) == text


@given(st.text(max_size=200))
def test_any_message_can_be_read(text):
    subject, said = read(text)
    assert one_line(subject) == subject
    assert read(write(subject, said)) == (subject or "(no subject)", said)


def test_a_commit_gives_back_what_was_written(kit, root):
    kit.git(root, "init", "--quiet")
    text = write("tool 'na\nme'\x1b[2J — ünï", FULL)
    subprocess.run(
        ["git", "commit", "-q", "--allow-empty", "-F", "-"], cwd=root, input=text.encode(), check=True
    )
    assert read(kit.git(root, "log", "-1", "--format=%B")) == ("tool 'na me'[2J — ünï", FULL)


@pytest.mark.slow
async def test_the_messages_of_commits_that_are_made_today_are_read(kit, start, hello):
    running = await start(hello)
    await running.call("evolve_prompt_write", prompt="chat.md", content="x")
    subject, said = read(kit.git(hello, "log", "-1", "--format=%B"))
    assert subject == "evolve_prompt_write chat.md"
    assert (said.session, said.call, said.agent, said.epoch) == ("ses_1", "call_1", "build", 2)
    assert [line.partition(":")[0] for line in said.gate] == ["parse", "test", "score"]
    await running.call("hello_note_write", name="n", text="t")
    subject, said = read(kit.git(hello, "log", "-1", "--format=%B"))
    assert (subject, said) == ("hello_note_write", Trailers(session="ses_1", call="call_1"))


@pytest.mark.parametrize(
    "text",
    [
        "Session: ses_1",
        "Session: ses_1\nCall: call_1",
        "subject\n\nSession: ses_1\nand then some prose",
        "subject\n\nSession: ses_1\n\nThe body goes on.",
        "subject\n\nSession: ses_1\nSession: ses_2",
        "subject\n\n  Session: ses_1",
        "subject\nSession: ses_1",
        "",
    ],
)
def test_what_only_looks_like_trailers_says_nothing(text):
    assert read(text).trailers == Trailers()


def test_trailers_of_other_programs_do_not_disturb_ours():
    text = "subject\n\nA body.\n\nSession: ses_1\nSigned-off-by: Ada <ada@example.org>\nEpoch: many\n"
    assert read(text) == ("subject", Trailers(session="ses_1"))


def test_a_long_value_is_cut():
    text = write("s" * 5000, Trailers(cause="c" * 5000))
    assert len(read(text).trailers.cause) == LONGEST
    assert len(text) < 2 * LONGEST


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 calls"),
        (1, "1 call"),
        (2, "2 calls"),
        (0.5, "0.5 calls"),
        (1.0, "1 call"),
        (1e6, "1e+06 calls"),
    ],
)
def test_a_number_is_told_with_what_it_counts(count, words):
    assert counted(count, "call") == words
