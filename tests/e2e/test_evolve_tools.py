"""evolve's own tools in sessions: the time, finding and calling tools, the past, what waits."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

PREVENTED = "prevents you from using this specific tool call"
BOT = {"name": "bot", "test": "bot_test.sh", "tools": [{"name": "hello", "description": "Greets."}]}
GROWN = {
    **BOT,
    "tools": [
        *BOT["tools"],
        {"name": "shout", "description": "Shouts.", "parameters": {"what": "The word."}},
    ],
}
TELLS = """$ echo "{\\"result\\": \\"$(echo "$given" | grep -o '"what":"[a-z]*"' | tr -d '"')\\"}" """


def call(tool: str, **args: object) -> str:
    return f"tool: {tool} {json.dumps(args)}\n"


def invoke(tool: str, **args: object) -> str:
    return call("evolve_tool_invoke", name=tool, args=args)


def story(*turns: str) -> str:
    return "".join(f"== turn\n{turn}" for turn in turns) + "== turn\ntext: done\n"


def bot(person, **answers: str):
    """A workspace with a script and a test that passes."""
    path = person.shell(
        "bot.sh", **{"discover": json.dumps(BOT), "execute_tool": '{"result": "hi"}', **answers}
    )
    person.write("tests/bot_test.sh", "#!/bin/sh\nexit 0\n", 0o755)
    person.write("prompts/chat.md", "Be kind.\n")
    return path


def grow(path) -> str:
    """A call that adds the tool bot_shout to the script."""
    return call(
        "evolve_hook_write",
        hook="bot.sh",
        content=path.read_text().replace(json.dumps(BOT), json.dumps(GROWN)),
    )


@pytest.mark.slow
def test_the_time_is_told_in_utc_and_in_any_zone_and_there_was_no_heartbeat(person):
    bot(person)
    zones = [
        "Europe/Berlin",
        "Asia/Kolkata",
        "utc",
        "Berlin",
        "europe/berlin",
        "../../etc/passwd",
        "Europe",
        "",
        "Nowhere/Xq",
    ]
    person.run(
        story(
            call("evolve_datetime")
            + call("bot_datetime")
            + call("evolve_heartbeat_time")
            + call("bot_heartbeat_time"),
            "".join(call("evolve_datetime", timezone=zone) for zone in zones),
            call("evolve_datetime", timezone=5),
        )
    )
    utc, other, never, again, berlin, kolkata, lower, *refused, odd = person.results()
    for said in (utc, other, lower):
        assert abs(datetime.fromisoformat(said) - datetime.now(UTC)) < timedelta(minutes=1)
        assert said.endswith("Z")
    assert (never, again) == ("never", "never")
    assert re.fullmatch(r"\S+\+0[12]:00 \(CES?T, Europe/Berlin\)", berlin)
    assert kolkata.endswith("+05:30 (IST, Asia/Kolkata)")
    assert refused[0].startswith("there is no time zone 'Berlin': the nearest are Europe/Berlin")
    assert refused[1].startswith("there is no time zone 'europe/berlin': the nearest are Europe/Berlin")
    assert refused[3].startswith("there is no time zone 'Europe': the nearest are Europe/")
    assert all(text.startswith("there is no time zone '") for text in refused)
    assert "root:" not in str(refused)
    assert odd.startswith("The evolve_datetime tool was called with invalid arguments: timezone: expected")


@pytest.mark.slow
def test_zones_are_known_on_a_machine_that_has_none(person):
    bot(person)
    person.run(story(call("evolve_datetime", timezone="Europe/Berlin")), PYTHONTZPATH="")
    assert "Europe/Berlin" in person.results()[0]
    assert "there is no" not in person.results()[0]


@pytest.mark.slow
def test_a_tool_that_was_added_in_the_session_is_listed_with_its_schema_and_invoked_under_both_names(person):
    path = bot(person, execute_tool=TELLS)
    person.run(
        story(
            grow(path),
            call("evolve_tool_list", filter="SHOUT") + call("bot_tool_list", filter="bot_shout"),
            invoke("bot_shout", what="ho") + call("bot_tool_invoke", name="bot_shout", args={"what": "hey"}),
        )
    )
    _, listed, again, first, second = person.results()
    assert listed == again
    assert listed.startswith("## bot_shout\nShouts.\nparameters: {")
    schema = json.loads(listed.partition("parameters: ")[2])
    assert schema["properties"]["what"] == {"type": "string", "description": "The word."}
    assert (first, second) == ("what:ho", "what:hey")


@pytest.mark.slow
def test_all_tools_are_listed_the_scripts_first_and_the_list_stays_in_bounds(person):
    many = [{"name": f"tool{at:03}", "description": f"Does {at}. " + "word " * 400} for at in range(60)]
    person.shell("bot.sh", discover=json.dumps({"name": "bot", "tools": many}))
    person.run(
        story(
            call("evolve_tool_list"),
            call("evolve_tool_list", filter="no such thing"),
            call("evolve_tool_list", filter=5),
        )
    )
    everything, nothing, odd = person.results()
    assert everything.startswith("## bot_tool000\nDoes 0.")
    assert len(everything) < 50_000
    names = set(re.findall(r"[a-z]+_?[a-z0-9_]*", everything))
    assert {"bot_tool059", "bash", "evolve_hook_read"} <= names
    assert "evolve_tool_invoke" not in everything
    assert re.fullmatch(r"\(none of your \d+ tools fits 'no such thing'\)", nothing)
    assert odd.startswith("The evolve_tool_list tool was called with invalid arguments: filter: expected")


INVOKED = {
    "itself": (
        invoke("evolve_tool_invoke", name="bash"),
        "evolve_tool_invoke cannot invoke 'evolve_tool_invoke'",
    ),
    "itself by an alias": (
        invoke("bot_tool_invoke", name="bash"),
        "evolve_tool_invoke cannot invoke 'bot_tool_invoke'",
    ),
    "no tool": (
        invoke("bot_helo"),
        "evolve_tool_invoke cannot invoke 'bot_helo': you have no such tool. Did you mean bot_hello",
    ),
    "no name": (
        call("evolve_tool_invoke", args={}),
        "The evolve_tool_invoke tool was called with invalid arguments: ",
    ),
    "arguments as text": (
        call("evolve_tool_invoke", name="bash", args="{}"),
        "The evolve_tool_invoke tool was called with",
    ),
    "wrong arguments": (
        invoke("read", filePath=5),
        "The read tool was called with invalid arguments: filePath: expected",
    ),
    "arguments left out": (call("evolve_tool_invoke", name="bot_hello"), "hi"),
}


@pytest.mark.slow
def test_what_cannot_be_invoked_is_refused_in_a_sentence(person):
    bot(person)
    person.run(story("".join(asked for asked, _ in INVOKED.values())))
    for (_, expected), read in zip(INVOKED.values(), person.results(), strict=True):
        assert read.startswith(expected), read


@pytest.mark.slow
def test_rules_about_a_tool_hold_for_its_invocation_whatever_allows_invoking(person):
    tools = [
        {"name": "write", "parameters": {"trait": "t"}, "permission": {"arg": "trait"}},
        {"name": "gone"},
    ]
    person.shell(
        "bot.sh", discover=json.dumps({"name": "bot", "tools": tools}), execute_tool='{"result": "ran"}'
    )
    person.config(
        permission={
            "evolve_tool_invoke": "allow",
            "bot_write": {"SOUL.md": "deny", "ASK.md": "ask", "*": "allow"},
            "bash": "deny",
        },
        agent={"build": {"tools": {"bot_gone": False}}},
    )
    calls = "".join(invoke("bot_write", trait=trait) for trait in ("SOUL.md", "./SOUL.md", "ASK.md", "x.md"))
    person.run(story(calls + invoke("bash", command="echo x") + invoke("bot_gone")))
    soul, spelt, asked, allowed, bash, gone = person.results()
    assert PREVENTED in soul
    assert "bot_write on SOUL.md" in soul
    assert PREVENTED in spelt
    assert "needs a person's answer" in asked
    assert allowed == "ran"
    assert bash.startswith("evolve_tool_invoke cannot invoke 'bash': you have no such tool.")
    assert gone.startswith("evolve_tool_invoke cannot invoke 'bot_gone': you have no such tool.")
    assert len(person.calls("bot.sh", "execute_tool")) == 1


@pytest.mark.slow
def test_invoking_is_a_permission_of_its_own_by_the_tools_name(person):
    bot(person)
    person.config(permission={"evolve_tool_invoke": {"bot_hello": "deny", "*": "allow"}})
    person.run(story(invoke("bot_hello") + invoke("evolve_hook_list")))
    denied, allowed = person.results()
    assert PREVENTED in denied
    assert allowed == "bot.sh"


@pytest.mark.slow
def test_scripts_hear_of_the_tool_that_was_invoked_and_of_the_call_that_did_it(person):
    bot(person, tool_before="{}", tool_after="{}")
    person.run(story(invoke("read", filePath="nowhere.txt")))
    heard = [(one["tool"], one["callID"]) for one in person.calls("bot.sh", "tool_before")]
    assert heard == [("evolve_tool_invoke", "call_t1_1"), ("read", "call_t1_1.1")]
    after = [(one["tool"], one["output"][:14]) for one in person.calls("bot.sh", "tool_after")]
    assert after == [("read", "File not found"), ("evolve_tool_invoke", "File not found")]


@pytest.mark.slow
def test_the_log_shows_what_happened_and_the_newest_change_is_rolled_back(person):
    path = bot(person)
    before = path.read_text()
    person.run(
        story(
            grow(path),
            call("evolve_prompt_write", prompt="chat.md", content="Be brief.\n"),
            call("evolve_log")
            + call("bot_log", limit=1)
            + call("evolve_log", file="chat.md")
            + call("evolve_log", file="x"),
            call("evolve_rollback"),
            call("bot_rollback"),
            call("evolve_rollback", ref=""),
            call("evolve_tool_list", filter="bot_shout"),
        )
    )
    *_, log, newest, chat, nothing, first, second, third, listed = person.results()
    assert "installed: evolve_hook_write bot.sh" in log
    assert "evolve_prompt_write chat.md" in log
    assert "evolve_hook_write" not in newest
    assert "evolve_prompt_write chat.md" in chat
    assert "bot.sh" not in chat
    assert nothing == "(no change of x is known)"
    assert re.fullmatch(
        r"Rolled back \w+ \(evolve_prompt_write chat\.md\): prompts/chat\.md as before it, epoch 4\.", first
    )
    assert "(evolve_hook_write bot.sh): hooks/bot.sh as before it, epoch 5." in second
    assert third == "nothing was rolled back: there is no change of yours to take back"
    assert path.read_text() == before
    assert (person.root / "prompts" / "chat.md").read_text() == "Be kind.\n"
    assert listed.startswith("(none of your")
    assert person.subjects()[0] == "roll back evolve_hook_write bot.sh"
    assert "Rolls-back: " in person.git("log", "-1", "--format=%b")
    assert person.git("status", "--porcelain", "--", "hooks", "prompts") == ""


def two_changes(person):
    path = bot(person)
    for text in ("# one", "# two"):
        person.run(story(call("evolve_hook_write", hook="bot.sh", content=path.read_text() + f"{text}\n")))
    return path


def refused(person, **args: str) -> str:
    """What the model reads of a rollback that changes nothing."""
    before, head = person.files(person.root / "hooks"), person.git("rev-parse", "HEAD")
    person.run(story(call("evolve_rollback", **args)))
    assert person.files(person.root / "hooks") == before
    assert person.git("rev-parse", "HEAD") == head
    read: str = person.results()[-1]
    assert read.startswith("nothing was rolled back: ") or PREVENTED in read, read
    return read.removeprefix("nothing was rolled back: ")


@pytest.mark.slow
def test_an_older_change_of_its_own_is_taken_back_with_those_on_top_of_it(person):
    path = two_changes(person)
    person.run(story(call("evolve_rollback", ref="@2")))
    assert "as before it, epoch 4." in person.results()[-1]
    assert "# one" not in path.read_text()
    assert "is a rollback itself" in refused(person, ref="@4")
    assert "was taken back already" in refused(person, ref="@2")


@pytest.mark.slow
def test_what_a_person_changed_since_is_not_the_agents_to_take_back(person):
    path = two_changes(person)
    path.write_text(path.read_text() + "# mine\n")
    person.accept()
    assert "is a person's change, not yours to take back" in refused(person, ref="HEAD")
    assert "a person changed hooks/bot.sh since, which would be lost" in refused(person, ref="@3")
    assert "is a person's change" in refused(person, ref="initial")
    assert "names no change of" in refused(person, ref="@77")
    assert "names no change of" in refused(person, ref="--all")


@pytest.mark.slow
def test_what_stops_the_agents_changes_stops_its_rollbacks(person):
    two_changes(person)
    person.instar("evolve", "pin", "hooks/bot.sh")
    assert "it is pinned by " in refused(person)
    person.instar("evolve", "unpin", "hooks/bot.sh")
    person.instar("evolve", "freeze", "--reason", "holiday")
    assert "changes are frozen: holiday" in refused(person)
    person.instar("evolve", "thaw")
    person.config(permission={"evolve_hook_write": {"bot.sh": "deny", "*": "allow"}})
    assert PREVENTED in refused(person)
    person.config(permission={"bot_hook_write": "ask"})
    assert "needs a person's answer" in refused_softly(person)
    person.config(permission={"evolve_rollback": "deny"})
    person.run(story("text: no tool\n"))
    assert "evolve_rollback" not in person.tools()


def refused_softly(person) -> str:
    person.run(story(call("evolve_rollback")))
    read: str = person.results()[-1]
    return read


@pytest.mark.slow
def test_what_a_person_wrote_and_has_not_accepted_yet_survives_a_rollback(person):
    path = two_changes(person)
    path.write_text(path.read_text() + "# not accepted yet\n")
    assert "bot.sh" in refused(person)
    assert path.read_text().endswith("# not accepted yet\n")


@pytest.mark.slow
def test_a_version_that_a_persons_newer_test_would_not_let_in_does_not_come_back(person):
    path = two_changes(person)
    person.write("tests/bot_test.sh", "#!/bin/sh\ngrep -q '# two' hooks/bot.sh\n", 0o755)
    person.accept()
    assert "before does not pass the gate: " in refused(person)
    person.write("tests/bot_test.sh", "#!/bin/sh\ngrep -q '# one' hooks/bot.sh\n", 0o755)
    person.accept()
    person.run(story(call("evolve_rollback")))
    assert "hooks/bot.sh as before it, epoch " in person.results()[-1]
    assert path.read_text().endswith("# one\n")


def held(person):
    """A lock that keeps git from committing, as another git's does."""
    lock = person.root / ".git" / "index.lock"
    lock.touch()
    return lock


@pytest.mark.slow
@pytest.mark.parametrize("then", ["nothing", "a change of the agent's"])
def test_what_a_person_accepted_while_git_could_not_commit_survives_a_rollback(person, then):
    path = two_changes(person)
    lock = held(person)
    path.write_text(path.read_text() + "# mine\n")
    person.accept()
    if then != "nothing":
        person.run(story(call("evolve_hook_write", hook="bot.sh", content=path.read_text() + "# three\n")))
        lock.unlink()
        person.run(story(call("evolve_hook_list")))
        assert "Makes-up: accept by hand" in person.git("log", "-1", "--format=%b")
        person.run(story(call("evolve_rollback")))
        assert "as before it, epoch 6." in person.results()[-1]
    else:
        assert "a person changed hooks/bot.sh since, which would be lost" in refused(person)
    assert path.read_text().endswith("# mine\n")


@pytest.mark.slow
def test_what_a_person_had_not_committed_when_evolve_first_saw_it_survives_a_rollback(person):
    path = bot(person)
    person.git("init", "-q")
    person.commit_all()
    path.write_text(path.read_text() + "# mine\n")
    person.run(story(call("evolve_hook_write", hook="bot.sh", content=path.read_text() + "# one\n")))
    person.run(story(call("evolve_rollback")))
    assert "as before it, epoch 3." in person.results()[-1]
    assert path.read_text().endswith("# mine\n")


@pytest.mark.slow
def test_a_rollback_through_an_invocation_is_a_call_of_its_own_in_the_log(person):
    path = two_changes(person)
    person.run(story(invoke("evolve_rollback")))
    assert "as before it, epoch 4." in person.results()[-1]
    assert path.read_text().endswith("# one\n")
    assert "\nCall: call_t1_1.1\n" in person.git("log", "-1", "--format=%b")
    shown = person.instar("evolve", "show", "@4").stdout
    assert "rolled back" in shown
    assert "agent" in shown


@pytest.mark.slow
def test_a_rollback_that_would_reach_more_is_refused(person):
    """The first change asked a person about an argument of a tool: without it the tool would ask nobody."""
    path = bot(person)
    asking = {
        **BOT,
        "tools": [
            {
                "name": "hello",
                "description": "Greets.",
                "parameters": {"who": "w"},
                "permission": {"arg": "who"},
            }
        ],
    }
    content = path.read_text().replace(json.dumps(BOT), json.dumps(asking))
    person.run(story(call("evolve_hook_write", hook="bot.sh", content=content)))
    assert "Installed" in person.results()[-1]
    read = refused(person)
    assert (
        "would reach more than it may now: its tool bot_hello would run without asking a person first" in read
    )


@pytest.mark.slow
def test_a_file_that_the_agent_made_stays_since_deleting_is_a_persons(person):
    bot(person)
    person.config(evolve={"create": "allow"})
    person.run(story(call("evolve_prompt_write", prompt="recover.md", content="New.\n")))
    assert "deleting is for a person alone" in refused(person)


@pytest.mark.slow
def test_what_waits_for_a_person_is_listed_with_what_it_raises_and_shown_with_its_diff(person):
    asking = {**BOT, "tools": [{"name": "hello", "parameters": {"who": "w"}, "permission": {"arg": "who"}}]}
    path = bot(person, discover=json.dumps(asking))
    silent = path.read_text().replace(', "permission": {"arg": "who"}', "")
    person.run(
        story(
            call("evolve_pending"),
            call("evolve_hook_write", hook="bot.sh", content=silent),
            call("bot_pending"),
        )
    )
    nothing, _, listed = person.results()
    assert nothing == "(nothing waits)"
    found = re.match(
        r"([0-9a-f]{8})  .*  waiting  hooks/bot\.sh would reach more:\n  - its tool bot_hello would run without",
        listed,
    )
    assert found
    person.run(story(call("evolve_pending", id=found[1]), call("evolve_pending", id="../x")))
    shown, none = person.results()
    assert shown.startswith(listed)
    assert "-discover) cat" in shown or "-{" in shown
    assert none == "nothing waits under the id '../x': `instar evolve pending` lists what does"


BAD = {
    "a hook that is not there": (call("evolve_hook_read", hook="nope.sh"), "hook: expected one of"),
    "a path that leaves the folder": (
        call("evolve_hook_write", hook="../x", content="x"),
        "hook: expected one of",
    ),
    "no file": (call("evolve_hook_edit", oldString="a", newString="b"), "hook"),
    "a prompt outside the contract": (
        call("evolve_prompt_write", prompt="mood.md", content="x"),
        'prompt: expected one of "preamble.md", "chat.md", "heartbeat.md", "compaction.md", "recover.md", got',
    ),
    "a line past the end": (
        call("evolve_hook_read", hook="bot.sh", offset=999),
        "offset 999 is past the end",
    ),
    "line 0": (call("evolve_hook_read", hook="bot.sh", offset=0), "offset: "),
    "no lines": (call("evolve_prompt_read", prompt="chat.md", limit=0), "limit: "),
    "a text that is not there": (
        call("evolve_hook_edit", hook="bot.sh", oldString="nowhere", newString="x"),
        "oldString was not found: read the file and copy the text exactly",
    ),
    "a text that is there twice": (
        call("evolve_hook_edit", hook="bot.sh", oldString="cat", newString="x"),
        " times: give more lines around it, or set replaceAll",
    ),
    "no change": (
        call("evolve_prompt_edit", prompt="chat.md", oldString="Be", newString="Be"),
        "nothing to change",
    ),
    "an empty text": (
        call("evolve_prompt_edit", prompt="chat.md", oldString="", newString="Be"),
        "oldString is empty",
    ),
    "the same text": (
        call("evolve_prompt_write", prompt="chat.md", content="Be kind.\n"),
        "already says exactly that",
    ),
    "a prediction of nothing": (
        call("evolve_prompt_write", prompt="chat.md", content="x", expect={}),
        "expect",
    ),
    "a script that is none": (call("evolve_hook_validate", hook="bot.sh", content="x"), "would be refused: "),
    "a property too many": (call("evolve_hook_list", all=True), "all: "),
    "a change of no name": (call("evolve_rollback", ref="main"), "'main' names no change of "),
    "an id of nothing": (call("evolve_pending", id="12345678"), "nothing waits under the id '12345678'"),
    "too much of a log": (call("evolve_log", limit=101), "limit: "),
}


@pytest.mark.slow
def test_bad_input_of_each_tool_gets_a_sentence_that_says_what_is_wrong(person):
    bot(person)
    before = person.files(person.root / "hooks") | person.files(person.root / "prompts")
    person.run(story("".join(asked for asked, _ in BAD.values())))
    for (name, (_, expected)), read in zip(BAD.items(), person.results(), strict=True):
        assert expected in read, (name, read)
        assert "failed:" not in read
    assert person.files(person.root / "hooks") | person.files(person.root / "prompts") == before


@pytest.mark.slow
def test_what_a_session_may_not_read_is_hidden_from_a_script_that_the_agent_changed(person):
    person.config(permission={"read": {"plan*": "deny"}})
    reads = (
        """$ cat plan.txt >/dev/null 2>&1 && said=read || said=hidden; echo "{\\"result\\": \\"$said\\"}" """
    )
    path = bot(person, execute_tool=reads)
    person.write("plan.txt", "secret")
    person.run(story(call("bot_hello"), grow(path), call("bot_hello")))
    before, _, after = person.results()
    assert (before, after) == ("read", "hidden")
