"""Where instar's trace differs from that of the real opencode on purpose, each with its reason.

A difference that is not listed fails, and so does an entry that no longer shows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Plain = dict[str, Any]

PYTHON, TYPESCRIPT = "python", "typescript"
ABSENT = "absent"
"""What stands for a place that a trace does not have."""


@dataclass(frozen=True)
class Difference:
    """At `place` of a scenario's trace instar has `instar`; `languages` are the plugin's in which it shows."""

    scenario: str
    place: str
    instar: Any
    reason: str
    languages: tuple[str, ...] = (PYTHON, TYPESCRIPT)


_PURPOSE = "the input says what the call is for: a turn, a title or a summary"
_NAMED = "what goes wrong in a plugin is named in the log"
_WRONG = "what has the wrong type is discarded; opencode passes it on as text"
_ENDED = "a call that is ended has ended: what it returns after that is not kept"
_CHECKED = (
    "arguments are held against the schema before anything runs; opencode holds a plugin's tool to none"
)
_INVALID = (
    "The greet tool was called with invalid arguments: \n"
    '- times: expected integer, got string "two"\n'
    "- name: missing, expected string\n"
    "Please rewrite the input so it satisfies the expected schema."
)
_KEPT = "outside of a gate a handler that fails changes nothing, and the turn goes on"

DIFFERENCES = [
    Difference(
        "chat_params",
        "recorded.0.input",
        ["agent", "message", "model", "provider", "purpose", "sessionID"],
        _PURPOSE,
    ),
    Difference(
        "chat_params",
        "recorded.0.output",
        ["maxOutputTokens", "options", "temperature"],
        "the temperature that would be sent is shown, also where the model's settings say nothing of one",
    ),
    Difference(
        "chat_headers",
        "recorded.0.input",
        ["agent", "message", "model", "provider", "purpose", "sessionID"],
        _PURPOSE,
    ),
    Difference("system_transform", "recorded.0.input", ["model", "purpose", "sessionID"], _PURPOSE),
    Difference(
        "chat_message_refuses",
        "answers.0.refused",
        400,
        "a refusal is the client's to read, no fault of the server",
    ),
    Difference("chat_message_refuses", "logged", ABSENT, "a refusal is no failure of the plugin"),
    Difference(
        "permission_ask",
        "recorded",
        [{"hook": "permission.ask", "status": "ask"}],
        "opencode declares the hook and never calls it",
    ),
    Difference(
        "tool_before_refuses",
        "calls.0.error",
        "The plugin tool_before_refuses refused this call: this machine stays on",
        "the model is told who refused",
    ),
    Difference(
        "tool_before_refuses",
        "read.0",
        "The plugin tool_before_refuses refused this call: this machine stays on",
        "the model is told who refused",
    ),
    Difference("throws_in_hook", "answers.0.error", ABSENT, _KEPT),
    Difference("throws_in_hook", "answers.0.text", ["Done."], _KEPT),
    Difference("throws_in_event", "logged", True, _NAMED),
    Difference(
        "autocontinue", "answers.0.text", ["Done."], "the client gets the answer, not the summary of it"
    ),
    Difference("missing", "logged", True, "a plugin whose file is missing is named; opencode says nothing"),
    Difference("never_settles", "seen", 1, "a hook has a time limit; opencode waits for ever"),
    Difference("never_settles", "logged", True, _NAMED),
    Difference("nonsense", "calls.0.metadata", ABSENT, _WRONG),
    Difference("nonsense", "calls.0.output", "hi\n", _WRONG),
    Difference("nonsense", "calls.0.title", ABSENT, _WRONG),
    Difference("nonsense", "read.0", "hi\n", _WRONG),
    Difference("nonsense", "logged", True, _NAMED),
    Difference("tool_abort", "calls.0.error", "Tool execution aborted", _ENDED),
    Difference("tool_abort", "calls.0.metadata", {"interrupted": True}, _ENDED),
    Difference("tool_abort", "calls.0.output", ABSENT, _ENDED),
    Difference("tool_abort", "calls.0.status", "error", _ENDED),
    Difference(
        "tool_context",
        "recorded.1",
        {"shown": {"seen": 1}},
        "what a plugin's tool shows while it runs is shown; opencode 1.18.33 loses it",
    ),
    Difference(
        "tool_context",
        "recorded.0.messages",
        2,
        "the answer that is under way is among the messages",
        (PYTHON,),
    ),
    Difference(
        "tool_context",
        "recorded.0.has",
        ["sessionID", "messageID", "callID", "agent", "abort", "metadata", "ask", "directory", "worktree"],
        "what @opencode-ai/plugin declares of the context is there; `messages` is no part of it",
        (TYPESCRIPT,),
    ),
    Difference("tool_context", "recorded.0.messages", ABSENT, "as above", (TYPESCRIPT,)),
    Difference(
        "tool_zod",
        "seen.parameters.properties.times.maximum",
        ABSENT,
        "the largest whole number that JavaScript can tell from the next is no limit that a plugin set",
        (TYPESCRIPT,),
    ),
    Difference("tool_zod_invalid", "recorded", ABSENT, _CHECKED),
    Difference("tool_zod_invalid", "calls.0.error", _INVALID, _CHECKED),
    Difference("tool_zod_invalid", "calls.0.output", ABSENT, _CHECKED),
    Difference("tool_zod_invalid", "calls.0.status", "error", _CHECKED),
    Difference("tool_zod_invalid", "read.0", _INVALID, _CHECKED),
    Difference(
        "v1_without_id", "recorded", [{"hook": "chat.message"}], "a Python file goes by its name", (PYTHON,)
    ),
    Difference("v1_without_id", "logged", ABSENT, "a Python file goes by its name", (PYTHON,)),
]
"""Each difference that is meant."""


def differences(reference: Any, found: Any, place: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield each place at which two traces differ, with what stands there; ABSENT for nothing."""
    if isinstance(reference, dict) and isinstance(found, dict):
        for name in sorted(reference.keys() | found.keys()):
            at = f"{place}.{name}".removeprefix(".")
            yield from differences(reference.get(name, ABSENT), found.get(name, ABSENT), at)
    elif place in _ROWS and isinstance(reference, list) and isinstance(found, list):
        for index in range(max(len(reference), len(found))):
            pair = [one[index] if index < len(one) else ABSENT for one in (reference, found)]
            yield from differences(*pair, f"{place}.{index}")
    elif reference != found:
        yield place, reference, found


_ROWS = ("recorded", "answers", "calls", "read")
"""The parts of a trace that are compared row by row."""


def unexplained(scenario: str, language: str, reference: Any, found: Any) -> list[str]:
    """Say what of a trace differs and is not meant to, and which difference that is meant does not show."""
    meant = {one.place: one for one in DIFFERENCES if one.scenario == scenario and language in one.languages}
    wrong = []
    for place, before, now in differences(reference, found):
        one = meant.pop(place, None)
        if one is None or one.instar != now:
            wrong.append(f"{scenario} {place}: opencode {before!r}, instar {now!r}")
    return wrong + [
        f"{scenario} {place}: is as in opencode, although a difference is listed" for place in meant
    ]
