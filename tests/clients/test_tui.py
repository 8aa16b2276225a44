"""opencode's terminal UI, `opencode attach URL`, in a tmux: what its screen shows and what the server then knows.

``INSTAR_CLIENTS_BOTH=1`` runs the tests against the real opencode too: they hold there.
"""

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.clients.model import SUMMARY, TITLE, Model
from tests.clients.terminal import Terminal
from tests.waiting import wait_until

Plain = dict[str, Any]

_QUESTION = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "a rose"}, {"label": "Blue", "description": "the sky"}],
}
_TODO = {"content": "carry the milk home", "status": "pending", "priority": "high"}

ANSWERS: dict[str, list[Plain]] = {
    "Read my notes": [
        {"text": ["Let me ", "look."], "tools": [("read", {"filePath": "notes.txt"})], "holds": True},
        {"text": ["Your notes say: ", "buy milk."]},
    ],
    "Say hi": [
        {"tools": [("bash", {"command": "echo hi there", "description": "Says hi"})]},
        {"text": ["Hi was said."]},
    ],
    "Say ho": [
        {"tools": [("bash", {"command": "echo ho there", "description": "Says ho"})]},
        {"text": ["Ho was said."]},
    ],
    "Write it": [
        {"tools": [("write", {"filePath": "new.txt", "content": "new\n"})]},
        {"text": ["It is written."]},
    ],
    "Ask me": [
        {"tools": [("question", {"questions": [_QUESTION]})]},
        {"text": ["You have chosen."]},
    ],
    "Plan it": [{"tools": [("todowrite", {"todos": [_TODO]})]}, {"text": ["It is planned."]}],
    "Delegate": [
        {
            "tools": [
                ("task", {"description": "counts words", "prompt": "Count them", "subagent_type": "general"})
            ]
        },
        {"text": ["It is delegated."]},
    ],
    "Count them": [{"text": ["There are two."]}],
    "Wait": [{"text": ["Thinking", " for ever."], "holds": True}],
    "Hello": [{"text": ["Hello ", "back."]}],
    "Greet": [{"text": ["Good day."]}],
}

SERVERS = ["server", "opencode"] if os.environ.get("INSTAR_CLIENTS_BOTH") else ["server"]


@pytest.fixture(scope="module", params=SERVERS)
def running(
    request: pytest.FixtureRequest, model: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    """The terminal UI: it takes seconds to start, and serves every test of this module."""
    made = Terminal(request.getfixturevalue(request.param), model, tmp_path_factory.mktemp("tui"))
    yield made
    made.close()


@pytest.fixture
def tui(running: Terminal) -> Iterator[Terminal]:
    """The terminal UI before a session without a message."""
    running.model.let_go()
    running.fresh()
    yield running
    running.model.let_go()


def parts(messages: list[Plain], kind: str) -> list[Plain]:
    """The parts of one type, in order."""
    return [part for message in messages for part in message["parts"] if part["type"] == kind]


def texts(messages: list[Plain]) -> list[str]:
    """The words of the text parts, in order."""
    return [part["text"] for part in parts(messages, "text")]


def test_a_new_session_shows_its_text_while_it_comes_and_what_a_tool_did(tui):
    tui.model.hold()
    tui.enter("Read my notes")
    tui.screen.shows("Let me", "esc interrupt")
    assert tui.get("/session/status")[tui.session()["id"]] == {"type": "busy"}
    assert "look." not in tui.screen.text
    tui.model.let_go()
    tui.screen.shows("Let me look.", "Read notes.txt", "Your notes say: buy milk.", TITLE)
    tui.screen.hides("esc interrupt")
    assert tui.session()["title"] == TITLE
    messages = tui.messages()
    assert texts(messages) == ["Read my notes", "Let me look.", "Your notes say: buy milk."]
    (read,) = parts(messages, "tool")
    assert read["tool"] == "read"
    assert "buy milk" in read["state"]["output"]
    tui.rests()


@pytest.mark.parametrize(
    ("choice", "reply", "status", "shown"),
    [
        ("Allow once", "once", "completed", "Hi was said."),
        ("Reject", "reject", "error", "echo hi there"),
    ],
)
def test_a_permission_that_is_asked_is_answered(tui, choice, reply, status, shown):
    tui.enter("Say hi")
    tui.screen.shows("Permission required", "echo hi there", "Allow once")
    (asked,) = tui.get("/permission")
    assert asked["permission"] == "bash"
    assert asked["sessionID"] == tui.session()["id"]
    tui.screen.choose(choice)
    tui.screen.shows(shown)
    tui.screen.hides("Permission required", "esc interrupt")
    tui.rests()
    tui.screen.until(lambda _: tui.get("/permission") == [], "what the server knows: nothing waits")
    (answered,) = [call for call in tui.proxy.calls if call.path == f"/permission/{asked['id']}/reply"]
    assert answered.body == b'{"reply":"%b"}' % reply.encode()
    (bash,) = parts(tui.messages(), "tool")
    assert bash["state"]["status"] == status


def test_a_permission_that_is_given_for_always_is_not_asked_again(tui):
    tui.enter("Say ho")
    tui.screen.shows("Permission required")
    tui.screen.choose("Allow always")
    tui.screen.shows("Always allow", "echo ho there")
    tui.screen.choose("Confirm")
    tui.screen.shows("Ho was said.")
    tui.fresh()
    tui.enter("Say ho once more")
    tui.screen.shows("Ho was said.")
    (bash,) = parts(tui.messages(), "tool")
    assert bash["state"]["output"] == "ho there\n"
    tui.screen.until(lambda _: tui.get("/permission") == [], "what the server knows: nothing waits")


def test_slash_lists_the_commands_and_runs_one_of_the_person(tui):
    tui.screen.type("/gr")
    tui.screen.shows("/greet", "greets somebody")
    tui.screen.keys("Enter")
    tui.screen.hides("greets somebody")
    tui.screen.type("Ada")
    tui.screen.shows("/greet Ada")
    tui.screen.keys("Enter")
    tui.screen.shows("Greet Ada.", "Good day.", "Poet")
    tui.rests()
    messages = tui.messages()
    assert texts(messages) == ["Greet Ada.", "Good day."]
    assert {message["info"]["agent"] for message in messages} == {"poet"}
    tui.choose("a", "build", "Build · Model M")


def test_the_agent_and_the_model_that_are_chosen_are_those_that_answer(tui):
    tui.screen.keys("Tab")
    tui.screen.shows("Plan · Model M")
    tui.choose("m", "Model N", "Plan · Model N")
    tui.enter("Hello")
    tui.screen.shows("Hello back.")
    answer = tui.messages()[-1]["info"]
    assert (answer["agent"], answer["modelID"]) == ("plan", "n")
    assert tui.session()["model"]["id"] == "n"
    tui.choose("m", "Model M", "Plan · Model M")
    tui.choose("a", "poet", "Poet · Model M")
    tui.enter("Hello again")
    wait_until(lambda: [one["info"]["agent"] for one in tui.messages()][2:] == ["poet", "poet"])
    tui.screen.hides("esc interrupt")
    tui.choose("a", "build", "Build · Model M")


def test_escape_twice_aborts_the_turn(tui):
    tui.model.hold()
    tui.enter("Wait")
    tui.screen.shows("Thinking", "esc interrupt")
    tui.screen.keys("Escape")
    tui.screen.shows("again to interrupt")
    tui.screen.keys("Escape")
    tui.screen.shows("interrupted")
    tui.rests()
    answer = tui.messages()[-1]
    assert answer["info"]["error"]["name"] == "MessageAbortedError"
    assert texts([answer]) == ["Thinking"]


def test_a_prompt_that_comes_while_a_turn_runs_is_answered_after_it(tui):
    tui.model.hold()
    tui.enter("Wait")
    tui.screen.shows("Thinking")
    tui.enter("Hello then")
    tui.screen.shows("QUEUED")
    tui.model.let_go()
    tui.screen.shows("Thinking for ever.", "Hello back.")
    tui.screen.hides("QUEUED", "esc interrupt")
    tui.rests()
    assert texts(tui.messages()) == ["Wait", "Thinking for ever.", "Hello then", "Hello back."]


def test_undo_takes_back_a_prompt_and_its_file_and_redo_brings_them_again(tui):
    file = tui.server.project / "new.txt"
    tui.enter("Write it")
    tui.screen.shows("It is written.", "new.txt")
    tui.rests()
    assert file.read_text() == "new\n"
    asked = tui.messages()[0]["info"]["id"]
    tui.leader("u")
    tui.screen.shows("1 message reverted", "new.txt -1")
    assert not file.exists()
    assert tui.session()["revert"]["messageID"] == asked
    tui.leader("r")
    tui.screen.shows("It is written.")
    tui.screen.hides("reverted")
    assert file.read_text() == "new\n"
    assert "revert" not in tui.session()
    # What was taken back stands in the prompt again.
    tui.screen.keys("C-u")


def test_the_sessions_are_listed_searched_opened_renamed_and_deleted(tui):
    tui.enter("Hello first")
    tui.screen.shows("Hello back.", TITLE)
    first = tui.session()["id"]
    tui.slash("rename")
    tui.screen.shows("Rename Session")
    tui.screen.keys("C-u")
    tui.screen.type("The first talk")
    tui.screen.keys("Enter")
    tui.screen.hides("Rename Session")
    wait_until(lambda: tui.get(f"/session/{first}")["title"] == "The first talk")
    tui.fresh()
    tui.enter("Hello second")
    tui.screen.shows("Hello back.")
    second = tui.session()["id"]
    assert second != first
    tui.leader("l")
    tui.screen.shows("Sessions", "The first talk")
    tui.screen.type("first talk")
    tui.screen.until(lambda text: TITLE not in text.partition("Sessions")[2], "only what was searched")
    tui.screen.keys("Enter")
    tui.screen.shows("Hello first")
    tui.screen.hides("Sessions", "Hello second")
    tui.leader("l")
    tui.screen.shows("Sessions", "The first talk")
    tui.screen.keys("C-d")
    tui.screen.shows("again to confirm")
    tui.screen.keys("C-d")
    wait_until(lambda: first not in [one["id"] for one in tui.get("/session")])
    assert second in [one["id"] for one in tui.get("/session")]


def test_compact_puts_a_summary_in_the_session(tui):
    tui.enter("Hello")
    tui.screen.shows("Hello back.")
    tui.slash("compact")
    tui.screen.shows("Compaction", "Buy milk.")
    tui.rests()
    messages = wait_until(lambda: [m for m in tui.messages() if m["info"].get("summary") is True])
    assert texts(messages) == [SUMMARY]
    assert parts(tui.messages(), "compaction")


def test_fork_opens_a_copy_of_the_session(tui):
    tui.enter("Hello")
    tui.screen.shows("Hello back.", TITLE)
    tui.rests()
    origin = tui.session()
    tui.slash("fork")
    tui.screen.shows("Fork session", "Full session")
    tui.screen.keys("Enter")
    tui.screen.shows(f"{TITLE} (fork #1)", "Hello back.")
    copy = tui.session()
    assert copy["id"] != origin["id"]
    assert copy["title"] == f"{TITLE} (fork #1)"
    assert texts(tui.messages(copy["id"])) == texts(tui.messages(origin["id"]))


def test_a_question_of_the_model_is_answered_with_an_option(tui):
    tui.enter("Ask me")
    tui.screen.shows("Which colour?", "Red", "Blue")
    (asked,) = tui.get("/question")
    assert asked["questions"][0]["header"] == "Colour"
    tui.screen.keys("Down", "Enter")
    tui.screen.shows("You have chosen.")
    (question,) = parts(tui.messages(), "tool")
    assert question["state"]["metadata"]["answers"] == [["Blue"]]
    assert tui.get("/question") == []


def test_what_a_sub_agent_did_is_looked_at_and_left_again(tui):
    tui.enter("Delegate")
    tui.screen.shows("It is delegated.", "General Task", "counts words")
    parent = tui.session()["id"]
    tui.leader("Down")
    tui.screen.shows("There are two.", "General (1 of 1)")
    tui.screen.keys("Up")
    tui.screen.shows("It is delegated.")
    (child,) = tui.get(f"/session/{parent}/children")
    assert texts(tui.messages(child["id"])) == ["Count them", "There are two."]


def test_what_is_to_do_stands_beside_the_talk(tui):
    tui.enter("Plan it")
    tui.screen.shows("It is planned.", "[ ] carry the milk home")
    (todo,) = tui.get(f"/session/{tui.session()['id']}/todo")
    assert todo["content"] == "carry the milk home"


def test_a_command_of_the_shell_runs_without_the_model(tui):
    tui.screen.type("!")
    tui.screen.shows("Shell")
    tui.screen.type("echo shelled")
    tui.screen.shows("echo shelled")
    tui.screen.keys("Enter")
    tui.screen.shows("$ echo shelled", "┃  shelled")
    tui.rests()
    (bash,) = parts(tui.messages(), "tool")
    assert bash["state"]["output"] == "shelled\n"


def test_a_file_that_is_mentioned_is_found_and_sent_along(tui):
    tui.screen.type("Hello @note")
    tui.screen.until(lambda text: re.search(r"┃ notes\.txt", text), "notes.txt in the list")
    tui.screen.keys("Enter")
    tui.screen.shows("@notes.txt")
    tui.screen.keys("Enter")
    tui.screen.shows("Hello back.", "notes.txt")
    (file,) = parts(tui.messages(), "file")
    assert file["url"] == (tui.server.project / "notes.txt").as_uri()
    assert any("buy bread" in text for text in texts(tui.messages()))


def test_the_status_and_the_lists_show_what_the_server_has(tui):
    tui.slash("status")
    tui.screen.shows("Status", "toy", "off")
    assert set(tui.get("/mcp")) >= {"toy", "off"}
    tui.screen.keys("Escape")
    tui.screen.hides("Status")
    tui.slash("skills")
    tui.screen.shows("tidy", "how to tidy")
    tui.screen.keys("Escape")
    tui.screen.hides("how to tidy")


def palette(tui, words):
    """Close the list that is open, and search that of all commands."""
    if re.search(r" esc$| esc  ", tui.screen.text, re.MULTILINE):
        tui.screen.keys("Escape")
        # A key that comes with it would be taken for one that is pressed with Alt.
        tui.screen.until(lambda text: not re.search(r" esc$| esc  ", text, re.MULTILINE), "no list")
    tui.screen.keys("C-p")
    tui.screen.shows("Commands", "Search")
    tui.screen.type(words)


def test_share_is_not_offered_where_nothing_leaves_the_machine(tui):
    tui.enter("Hello")
    tui.screen.shows("Hello back.")
    tui.screen.type("/sha")
    tui.screen.shows("/sha")
    # The list still shows what sounds alike: it has been drawn.
    tui.screen.until(lambda text: re.search(r"┃ /\w+ +\w", text), "the list of commands")
    assert not re.search(r"┃ /(un)?share ", tui.screen.text)
    tui.screen.keys("C-u")
    tui.screen.hides("/sha")
    palette(tui, "share")
    tui.screen.shows("No results")
    tui.screen.keys("Escape")


COMMANDS = (
    *("Compact session", "Undo previous message", "Redo", "Copy last assistant message", "Jump to message"),
    *(
        "Copy session transcript",
        "Export session transcript",
        "Fork session",
        "Rename session",
        "Move session",
    ),
    *(
        "Switch session",
        "Switch model",
        "Switch agent",
        "Toggle MCPs",
        "Connect provider",
        "Skills",
        "View status",
    ),
    *(
        "View debug info",
        "Switch theme",
        "Variant cycle",
        "Disable session directory filtering",
        "Plugins",
        "Help",
    ),
)
"""Commands of the palette that ask the server, or show what it said: the rest is about how the screen looks."""


def test_no_command_of_the_palette_says_that_it_failed(tui):
    failure = re.compile(r"undefined|is not an? |[Ff]ailed|[Ee]rror")
    tui.enter("Hello")
    tui.screen.shows("Hello back.", TITLE)
    tui.rests()
    for command in COMMANDS:
        palette(tui, command)
        tui.screen.until(lambda text, name=command: text.count(name) > 1, f"{command} in the list")
        tui.screen.keys("Enter")
        # Any other list has another title.
        tui.screen.hides("Commands  ")
        tui.rests()
        assert not failure.search(tui.screen.text), f"{command}:\n{tui.screen.text}"


def test_no_call_of_the_terminal_was_refused(running):
    refused = [(call.method, call.path, call.status) for call in running.proxy.calls if call.status >= 400]
    assert refused == []
    assert len({call.path for call in running.proxy.calls}) > 20
