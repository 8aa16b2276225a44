"""Actions: what a hook's answer asks for is done once, its mistakes are named, and no chain goes on for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.plugin import Busy, Invalid, NotFound, Origin
from instar.plugins.evolve import effects, protocol
from instar.plugins.evolve.effects import LONGEST, MOST, ActionRequest, CreateSession, Send

SEED = {
    "actions": [
        {"type": "send", "session_id": "ses_1", "message": "hello", "synthetic": True},
        {"type": "create_session", "title": "Notes"},
    ]
}


def send(**fields):
    return {"type": "send", "session_id": "ses_1", "message": "m"} | fields


PERSON = ActionRequest("idle", "ses_0", "msg_1", Origin())


class Opened:
    """Doors that keep what went through them. `hooks` is what a session's hooks answer once it was sent something."""

    def __init__(self, hooks=None) -> None:
        self.through = []
        self.hooks = hooks
        self.fail = {}

    async def send(self, action, asking):
        if action.session_id in self.fail:
            raise self.fail[action.session_id]
        self.through.append((action, asking.then()))
        if self.hooks is not None:
            again = ActionRequest("observe_message", action.session_id, "msg_2", asking.then())
            await effects.carry_out(self.hooks, again, self)

    async def create_session(self, action, asking):
        self.through.append((action, asking.then()))


def test_the_actions_of_the_readme_are_understood():
    assert effects.parse_actions(SEED) == ([Send("ses_1", "hello", True), CreateSession("Notes")], [])
    assert effects.parse_actions({}) == ([], [])


@pytest.mark.parametrize(
    ("one", "said"),
    [
        ("send", "expected an object"),
        ({}, "no action of type null"),
        ({"type": "delete_session"}, 'no action of type "delete_session"; there are send and create_session'),
        ({"type": ["send"]}, "no action of type"),
        ({"type": "send", "message": "m"}, "'session_id', found null"),
        (send(message=""), "'message'"),
        (send(message={"a": 1}), "'message'"),
        (send(message="x" * (LONGEST + 1)), "characters"),
        (send(synthetic="yes"), "true or false under 'synthetic'"),
        ({"type": "create_session"}, "'title'"),
        ({"type": "create_session", "title": 3}, "'title'"),
    ],
)
async def test_an_action_that_means_nothing_is_named_and_the_others_still_happen(one, said):
    answer = {"actions": [send(), one, {"type": "create_session", "title": "t"}]}
    found, (problem,) = effects.parse_actions(answer)
    assert found == [Send("ses_1", "m"), CreateSession("t")]
    assert problem.startswith("action 2 is left out: ")
    assert said in problem
    doors = Opened()
    assert await effects.carry_out(answer, PERSON, doors) == ([problem], "")
    assert [action for action, _ in doors.through] == found


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NotFound("there is no session ses_x"), "send to ses_x: there is no session ses_x"),
        (Invalid("no such agent"), "no such agent"),
        (Busy("ses_x", "cannot be sent to"), "busy"),
        (RuntimeError("disk"), "send to ses_x failed: RuntimeError: disk"),
    ],
)
async def test_an_action_that_fails_is_named_and_the_others_still_happen(error, said, caplog):
    doors = Opened()
    doors.fail["ses_x"] = error
    answer = {"actions": [send(session_id="ses_x"), send()]}
    (problem,), _ = await effects.carry_out(answer, PERSON, doors)
    assert said in problem
    assert [action for action, _ in doors.through] == [Send("ses_1", "m")]
    assert "hook=idle session=ses_0 origin=person" in caplog.text


async def test_an_action_carries_where_it_comes_from():
    doors = Opened()
    asking = ActionRequest("observe_message", "ses_0", "msg_1", Origin("heartbeat", "ws/12", "evolve.idle"))
    assert await effects.carry_out(SEED, asking, doors) == ([], "")
    assert {origin for _, origin in doors.through} == {Origin("heartbeat", "ws/12", "evolve.send", 1)}


@pytest.mark.parametrize(
    ("origin", "named"),
    [(Origin("heartbeat", "ws/12"), "heartbeat ws/12"), (Origin(), "a prompt of a person")],
)
async def test_an_action_that_asks_for_itself_again_ends_within_the_cap(origin, named, caplog):
    doors = Opened(hooks={"actions": [send()]})
    asking = ActionRequest("observe_message", "ses_1", "msg_1", origin)
    assert await effects.carry_out(doors.hooks, asking, doors) == ([], "")
    assert len(doors.through) == effects.DEEPEST
    assert f"{named} has led to 1 action on end, and 1 is allowed" in caplog.text


def test_past_the_cap_the_refusal_says_how_many_there_were():
    assert "has led to 3 actions on end, and 2 are allowed" in effects.refusal(Origin(depth=3), 2)
    assert effects.refusal(Origin(depth=1), 2) == ""


async def test_one_answer_cannot_ask_for_any_number():
    doors = Opened()
    problems, _ = await effects.carry_out({"actions": [send()] * (MOST + 3)}, PERSON, doors)
    assert len(doors.through) == MOST
    assert len(problems) == 3


json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from(["type", "session_id", "message", "title", "synthetic"]), inner)
    ),
    max_leaves=10,
)
kinds = st.sampled_from([send(), {"type": "create_session"}, {"type": "send"}])


@pytest.mark.slow
@given(st.lists(json | kinds, max_size=8))
def test_of_whatever_a_script_answers_each_action_is_done_or_named(said):
    answer = protocol.merge([{"actions": said}])
    found, problems = effects.parse_actions(answer)
    assert len(found) + len(problems) == len(said)
    assert all("\n" not in problem for problem in problems)
