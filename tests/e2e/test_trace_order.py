"""The events of a one-tool turn, in opencode 1.18's order, with each difference and its reason."""

from typing import Any, NamedTuple

from instar.event import Event
from instar.testing import Machine

pytest_plugins = ["tests.turn"]


class Line(NamedTuple):
    """An event of the turn; `only` says who publishes it where not both do, `why` the reason."""

    word: str
    only: str = ""
    why: str = ""


SPENT = Line("session.updated", "instar", "the session's cost and tokens, as they stand after the step")
SUMMARY = "what a turn changed in the files is told once, when it has ended"
REFERENCE = [
    Line("session.created"),
    Line("session.updated build scripted/x"),
    Line("message user"),
    Line("part text go"),
    Line("session.updated build scripted/x"),
    Line("status busy"),
    Line("message assistant -"),
    Line("session.updated summary", "opencode", SUMMARY),
    Line("session.diff", "opencode", SUMMARY),
    Line("message user summary", "opencode", SUMMARY),
    Line("status busy"),
    Line("part step-start"),
    Line("part tool pending {'input': {}, 'raw': '', 'status': 'pending'}"),
    Line("part tool running {'filePath': 'a.txt'} start"),
    Line("part tool completed {'filePath': 'a.txt'} end start"),
    Line("part step-finish tool-calls"),
    Line("message assistant tool-calls"),
    Line("message assistant tool-calls completed"),
    SPENT,
    Line("status busy"),
    Line("message assistant -"),
    Line("session.updated summary", "opencode", SUMMARY),
    Line("session.diff", "opencode", SUMMARY),
    Line("status busy"),
    Line("part step-start"),
    Line("part text  start"),
    Line("delta text It says hello."),
    Line("part text It says hello. end start"),
    Line("part step-finish stop"),
    Line("message assistant stop"),
    Line("message assistant stop completed"),
    SPENT,
    Line("status busy"),
    Line("status idle"),
    Line("session.idle"),
    Line("session.updated"),
    Line("session.diff"),
    Line("message user"),
]


def word(event: Event) -> str:
    given = event.to_plain()["properties"]
    match event.type:
        case "message.updated":
            return _message(given["info"])
        case "message.part.updated":
            return " ".join(["part", given["part"]["type"], *_part(given["part"])])
        case "message.part.delta":
            return f"delta {given['field']} {given['delta']}"
        case "session.status":
            return f"status {given['status']['type']}"
        case "session.updated" if given["info"].get("model") and not given["info"]["tokens"]["input"]:
            model = given["info"]["model"]
            return f"session.updated {given['info']['agent']} {model['providerID']}/{model['id']}"
    return event.type


def _message(info: dict[str, Any]) -> str:
    if info["role"] == "user":
        return "message user"
    done = " completed" if info["time"].get("completed") else ""
    return f"message assistant {info.get('finish') or '-'}{done}"


def _part(part: dict[str, Any]) -> list[str]:
    times = sorted(part.get("time") or {})
    if part["type"] == "tool":
        state = part["state"]
        if state["status"] == "pending":
            return ["pending", str(dict(sorted(state.items())))]
        return [state["status"], str(state["input"]), *sorted(state["time"])]
    return [part[key] for key in ("text", "reason") if key in part] + times


async def test_a_turns_events_come_in_the_references_order_but_for_what_is_said_here(house: Machine) -> None:
    (house.folder / "a.txt").write_text("hello")
    house.says("""
        == turn
        tool: read {"filePath": "a.txt"}
        usage: input=10 output=2

        == turn
        text: It says hello.
        usage: input=20 output=4
    """)
    door = await house.open()
    await door.ask(await door.session(), "go")
    heard = [event for event in door.heard if hasattr(event.properties, "session_id")]
    assert [word(event) for event in heard] == [
        line.word for line in REFERENCE if line.only in ("", "instar")
    ]


def test_each_difference_has_its_reason() -> None:
    assert all(bool(line.only) == bool(line.why) for line in REFERENCE)
    assert {line.only for line in REFERENCE} == {"", "instar", "opencode"}
