"""What the child is sent of a session's messages: applied in order, the patches give the messages, whatever changed."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from instar.jshost.contributed import Histories, restored
from instar.message import WithParts, decode_with_parts, unknown_part


def message(session: str, text: str) -> WithParts:
    model = {"providerID": "p", "modelID": "m"}
    own = {"sessionID": session, "messageID": "msg_1"}
    info = {**own, "id": "msg_1", "role": "user", "time": {"created": 1}, "agent": "build", "model": model}
    return decode_with_parts({"info": info, "parts": [{**own, "id": "prt_1", "type": "text", "text": text}]})


@given(st.lists(st.tuples(st.integers(0, 11), st.lists(st.sampled_from("abc"), max_size=6)), max_size=30))
def test_patches_give_the_messages_of_each_session(calls: list[tuple[int, list[str]]]) -> None:
    histories, child = Histories(), dict[str, list[Any]]()
    for number, texts in calls:
        messages = [message(f"ses_{number}", text) for text in texts]
        patch = msgspec.json.decode(msgspec.json.encode(histories.patch(messages)))
        for gone in patch["forget"]:
            child.pop(gone, None)
        known = child.setdefault(patch["session"], [])
        known[patch["length"] :] = [None] * max(0, patch["length"] - len(known))
        for place, one in patch["set"]:
            known[place] = one
        assert known == [one.to_plain() for one in messages]
    assert len(child) <= 8 + 1


def test_a_message_that_did_not_change_is_sent_once() -> None:
    histories = Histories()
    first = [message("ses_1", text) for text in "abc"]
    assert [place for place, _ in histories.patch(first)["set"]] == [0, 1, 2]
    assert histories.patch(first)["set"] == []
    assert [place for place, _ in histories.patch([*first[:2], message("ses_1", "d"), first[0]])["set"]] == [
        2,
        3,
    ]


def test_a_part_of_an_unknown_type_is_sent_as_it_stands_on_the_wire() -> None:
    one = message("ses_1", "a")
    ids = {"id": "prt_2", "sessionID": "ses_1", "messageID": "msg_1"}
    one.parts.append(unknown_part({**ids, "type": "drawing", "n": 1}))
    ((_, sent),) = msgspec.json.decode(msgspec.json.encode(Histories().patch([one])))["set"]
    assert sent == one.to_plain()
    assert sent["parts"][1]["n"] == 1


def test_what_a_hook_left_holds_the_very_messages_that_it_did_not_touch() -> None:
    messages = [message("ses_1", text) for text in "ab"]
    left = restored({"messages": [1, {"info": 5}, 0]}, messages)
    assert left is not None
    assert (left[0], left[1], left[2]) == (messages[1], {"info": 5}, messages[0])
    assert restored({"messages": None, "invalid": True}, messages) is None
