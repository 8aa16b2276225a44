"""What a beat is given and what it sends."""

import pytest

from instar.event import Busy
from instar.message import Session, SessionTime
from instar.plugins.evolve import protocol
from instar.plugins.evolve.heartbeat import session as words
from instar.plugins.evolve.heartbeat.session import DEFAULT, Words


@pytest.mark.parametrize(
    ("answer", "default", "sent"),
    [
        ({"system": ["a", "b"], "user": "go"}, ["file"], Words(["a", "b"], "[heartbeat] go")),
        ({"user": "go"}, ["file"], Words(["file"], "[heartbeat] go")),
        ({"user": "go"}, [], Words([], "[heartbeat] go")),
        ({"system": ["a"]}, [], Words(["a"], f"[heartbeat] {DEFAULT}")),
        ({}, ["pre", "file"], Words(["pre", "file"], f"[heartbeat] {DEFAULT}")),
        ({"user": "[heartbeat] go"}, [], Words([], "[heartbeat] go")),
        ({"user": "  \n"}, [], None),
        ({"user": {"a": 1}, "system": "one"}, [], Words(["one"], '[heartbeat] {"a":1}')),
        ({}, [], None),
    ],
)
def test_a_beat_sends_what_the_scripts_said_else_what_the_prompt_file_says(answer, default, sent):
    assert words.compose(protocol.merge([answer]), default) == sent


@pytest.mark.parametrize(
    ("system", "user", "named"),
    [
        (["a" * 50_000, "b" * 50_000], "u" * 100_000, []),
        (["a" * 50_000, "b" * 50_001], "u", ["system has 100001 characters"]),
        (["s"], "u" * 100_001, ["user has 100001 characters"]),
        (["s" * 100_001], "u" * 200_000, ["user has 200000 characters", "system has 100001 characters"]),
    ],
)
def test_what_is_too_long_to_be_sent_is_named(system, user, named):
    problem = Words(system, user).problem
    assert problem.count("100000 at most are sent") == len(named)
    assert all(text in problem for text in named)


def session(number, title="work", **fields):
    time = SessionTime(created=1, updated=number, archived=fields.pop("archived", None))
    return Session(
        id=f"ses_{number}",
        slug="s",
        project_id="p",
        directory="/",
        title=title,
        version="1",
        time=time,
        **fields,
    )


def test_scripts_are_given_the_sessions_that_a_person_may_talk_to():
    found = words.open_sessions(
        [
            session(1, agent="build"),
            session(2, "other"),
            session(3, "heartbeat"),
            session(4, archived=9),
            session(5, parent_id="ses_1"),
        ],
        {"ses_2": Busy()},
        own="ses_3",
    )
    assert found == [
        {"id": "ses_1", "title": "work", "agent": "build", "busy": False, "updated": 1},
        {"id": "ses_2", "title": "other", "busy": True, "updated": 2},
    ]


@pytest.mark.parametrize(
    ("doing", "why"),
    [
        ([], ""),
        (["ses_3", "ses_1"], "the heartbeat's own session ses_3 is busy"),
        (["ses_1"], "session ses_1 (work) is busy"),
        (["ses_2"], "session ses_2 is busy"),
        (["ses_2", "ses_1", "ses_4"], "session ses_1 (work) and 2 more are busy"),
    ],
)
def test_why_a_beat_is_skipped_names_who_works(doing, why):
    assert words.busy(doing, {"ses_1": "work"}, own="ses_3") == why
    # Where the setting lets other sessions work, only its own keeps a beat from running.
    own = why if "ses_3" in why else ""
    assert words.busy(doing, {"ses_1": "work"}, own="ses_3", others=False) == own
