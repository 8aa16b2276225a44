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
    """A client that keeps what went into sessions. `hooks` is what the hooks of a session answer to a message."""

    def __init__(self, hooks=None) -> None:
        self.session = self
        self.through = []
        self.hooks = hooks
        self.fail = {}
        self.effects = effects.HookEffects(None, self, None, lambda: None)

    async def agents(self):
        return ["evolve"]

    async def publish(self, _event):
        pass

    async def prompt_async(self, session_id, body, origin):
        if session_id in self.fail:
            raise self.fail[session_id]
        self.through.append((Send(session_id, body.parts[0]["text"]), origin))
        if self.hooks is not None:
            again = ActionRequest("observe_message", session_id, "msg_2", origin)
            await self.effects.act(again, self.hooks)

    async def follow_up(self, session_id, body, _source, origin):
        await self.prompt_async(session_id, body, origin)

    async def create(self, body):
        self.through.append((CreateSession(body.title), None))


async def act(doors, answer, asking=PERSON):
    return await doors.effects.act(asking, answer)


def test_the_actions_of_the_readme_are_understood():
    assert effects.parse_actions(SEED) == ([Send("ses_1", "hello", True), CreateSession("Notes")], [])
    assert effects.parse_actions({}) == ([], [])


@pytest.mark.parametrize(
    ("one", "said"),
    [
        ("send", "Expected `object`, got `str`"),
        ({}, "missing required field `type`"),
        ({"type": "delete_session"}, "Invalid value 'delete_session'"),
        ({"type": ["send"]}, "`$.type`"),
        ({"type": "send", "message": "m"}, "missing required field `session_id`"),
        (send(message=""), "`$.message`"),
        (send(message={"a": 1}), "`$.message`"),
        (send(message="x" * (LONGEST + 1)), "`$.message`"),
        (send(synthetic="yes"), "Expected `bool`, got `str` - at `$.synthetic`"),
        ({"type": "create_session"}, "missing required field `title`"),
        ({"type": "create_session", "title": 3}, "`$.title`"),
    ],
)
async def test_an_action_that_means_nothing_is_named_and_the_others_still_happen(one, said):
    answer = {"actions": [send(), one, {"type": "create_session", "title": "t"}]}
    found, (problem,) = effects.parse_actions(answer)
    assert found == [Send("ses_1", "m"), CreateSession("t")]
    assert problem.startswith("action 2 is left out; there are send and create_session: ")
    assert said in problem
    doors = Opened()
    assert await act(doors, answer) == [problem]
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
    (problem,) = await act(doors, answer)
    assert said in problem
    assert [action for action, _ in doors.through] == [Send("ses_1", "m")]
    assert "hook=idle session=ses_0 origin=person" in caplog.text


async def test_an_action_carries_where_it_comes_from():
    doors = Opened()
    asking = ActionRequest("observe_message", "ses_0", "msg_1", Origin("heartbeat", "ws/12", "evolve.idle"))
    assert await act(doors, SEED, asking) == []
    assert {origin for _, origin in doors.through if origin} == {
        Origin("heartbeat", "ws/12", "evolve.send", 1)
    }


@pytest.mark.parametrize(
    ("origin", "named"),
    [(Origin("heartbeat", "ws/12"), "heartbeat ws/12"), (Origin(), "a prompt of a person")],
)
async def test_an_action_that_asks_for_itself_again_ends_within_the_cap(origin, named, caplog):
    doors = Opened(hooks={"actions": [send()]})
    asking = ActionRequest("observe_message", "ses_1", "msg_1", origin)
    assert await act(doors, doors.hooks, asking) == []
    assert len(doors.through) == effects.DEEPEST
    assert f"{named} has led to 1 action on end: a chain of actions ends there" in caplog.text


async def test_one_answer_cannot_ask_for_any_number():
    doors = Opened()
    problems = await act(doors, {"actions": [send()] * (MOST + 3)})
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
