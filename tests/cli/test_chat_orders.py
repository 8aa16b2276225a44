"""What a person learns and decides in a chat: `/context`, `/doctor`, `/export`, `/evolve`, the line below the input."""

import json
import subprocess

import pytest
from tests.server.conftest import PASSWORD

NAME = '{"name": "bot"'
NETWORK = {
    "hook": "bot.sh",
    "oldString": NAME,
    "newString": NAME.replace("{", '{"sandbox": {"network": true}, '),
}
TALK = f"""== when "look"
tool: bash {{"command": "echo found"}}
usage: input=2000 output=100 cache_read=6000

== when "learn"
tool: evolve_hook_edit {{"hook": "bot.sh", "oldString": "Hello!", "newString": "Hi!"}}

== when "break"
tool: evolve_hook_edit {{"hook": "bot.sh", "oldString": "esac", "newString": "esac; exit 4"}}

== when "widen"
tool: evolve_hook_edit {json.dumps(NETWORK)}

== when ""
text: You said: {{{{user}}}}
usage: input=4000 output=1000 cache_read=12000
"""
BOT = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "bot", "test": "bot_test.sh", "tools": [{"name": "hello"}]}';;
execute_tool) echo '{"result": "Hello!"}';;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1;;
esac
"""


@pytest.fixture
def chat(machine, screen):
    machine.script(TALK)

    def start(*arguments, **how):
        terminal = screen("chat", "-m", "scripted/test", *arguments, **how)
        shows(terminal, "instar; /help")
        terminal.wait_until(
            lambda: any("shield " in row or "context left" in row for row in terminal.rows[-1:])
        )
        return terminal

    return start


@pytest.fixture
def workspace(machine):
    """An evolve workspace with a script that has a tool and a test."""
    root = machine.home / "workspace"
    for name, text in {"hooks/bot.sh": BOT, "tests/bot_test.sh": "#!/bin/sh\nexit 0\n"}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        (root / name).chmod(0o755)
    machine.environment["INSTAR_WORKSPACE"] = str(root)
    return root


def shows(terminal, text):
    terminal.wait_until(lambda: any(text in row for row in terminal.rows))


def listed(terminal):
    terminal.wait_until(lambda: terminal.rows[-1].startswith("Enter show"))


def say(terminal, text, answer):
    terminal.type(f"{text}\r")
    shows(terminal, answer)


@pytest.mark.slow
def test_the_line_below_the_input_says_what_is_left_and_drops_what_has_no_room(chat, machine):
    subprocess.run(["git", "init", "-q", "-b", "trunk"], cwd=machine.project, check=True)
    limit = {"context": 100_000, "output": 10_000}
    models = {"test": {"limit": limit, "cost": {"input": 1, "output": 1, "cache_read": 1}}}
    machine.write_home("instar.json", json.dumps({"provider": {"scripted": {"models": models}}}))
    terminal = chat(columns=120)
    say(terminal, "hello", "You said: hello")
    # 17,000 of the 90,000 that the conversation may fill; 12,000 of the 16,000 tokens sent came from the cache.
    shows(terminal, "build · scripted/test · 81% context left · $0.0170 · trunk · 75% cached · shield ")
    terminal.resize(60)
    terminal.wait_until(
        lambda: terminal.rows[-1] == "build · scripted/test · 81% context left · $0.0170 · trunk"
    )
    say(terminal, "/agent plan", "plan answers from now on")
    terminal.wait_until(lambda: terminal.rows[-1].startswith("plan · scripted/test"))


@pytest.mark.slow
def test_what_fills_the_window_is_shown_part_by_part_at_60_columns_too(chat, machine):
    machine.write("AGENTS.md", "Be brief. " * 100)
    terminal = chat(columns=60)
    say(terminal, "/context", "No provider has counted this yet")
    say(terminal, "look", "You said: look")
    say(terminal, "/context", "The provider counted the whole")
    text = "\n".join(terminal.rows)
    assert "scripted/test: 17,000 tokens; it is summarised at" in text
    for name in (
        "system prompt",
        "agent build",
        "project/AGENTS.md",
        "tools",
        "built-in ×",
        "calls of bash",
        "answers",
    ):
        assert any(name in row and row.rstrip("▇ ")[-1].isdigit() for row in terminal.rows), name
    assert all(len(row) <= 60 for row in terminal.rows)


@pytest.mark.slow
def test_what_is_missing_is_said_with_what_to_do_here_and_on_a_server(chat, machine, serve, screen):
    terminal = chat()
    say(terminal, "/doctor", "✗ model: there is none: no provider has a key")
    shows(terminal, "things are well: instar, ")
    shows(terminal, "next: instar auth login openai")
    machine.environment["INSTAR_SERVER_PASSWORD"] = PASSWORD
    attached = screen("chat", "--attach", serve().url)
    shows(attached, "instar; /help")
    say(attached, "/doctor", "✗ model: there is none: no provider has a key")


@pytest.mark.slow
def test_a_session_is_written_for_reading_or_as_instar_export_does_and_never_over_a_file(chat, machine):
    terminal = chat()
    say(terminal, "look here", "You said: look here")
    say(terminal, "/export", "written:")
    path = machine.project / "look-here.md"
    terminal.wait_until(path.exists)
    text = path.read_text()
    assert text.startswith("# look here\n")
    for part in (
        "## You\n\nlook here\n",
        "**bash** `echo found`\n\n```text\nfound\n```\n",
        "You said: look here\n",
    ):
        assert part in text
    assert path.stat().st_mode & 0o777 == 0o600
    say(terminal, "/export", "exists;")
    assert path.read_text() == text
    say(terminal, "/export nowhere/x.md", "there is no folder")
    say(terminal, "/export ~nobody-here.json", "nobody-here.json")
    say(terminal, "/export out.json", "out.json")
    terminal.wait_until((machine.project / "out.json").exists)
    terminal.type("/quit\r")
    terminal.end()
    assert json.loads((machine.project / "out.json").read_text()) == json.loads(
        machine.instar("export").stdout
    )


@pytest.mark.slow
def test_what_the_agent_changed_is_a_list_with_a_key_for_each_decision(chat, workspace):
    bot = workspace / "hooks/bot.sh"
    terminal = chat()
    say(terminal, "learn it", "✦ evolved hooks/bot.sh: test passed")
    shows(terminal, "You said: learn it")
    shows(terminal, "learned 1 thing")
    say(terminal, "break it", "✦ refused hooks/bot.sh at the stage parse")
    shows(terminal, "You said: break it")
    say(terminal, "widen it", "✦ hooks/bot.sh waits for you: /evolve")
    shows(terminal, "You said: widen it")
    shows(terminal, "1 change to decide: /evolve")
    say(terminal, "/evolve", "evolve (1/5)")
    waiting = next(row for row in terminal.rows if "waits for you: hooks/bot.sh" in row and "▸" in row)
    assert "it would use the network" in waiting
    terminal.type("r")
    shows(terminal, "it waits: a approves, x rejects it")
    listed(terminal)
    terminal.type("s")
    shows(terminal, "+discover) echo")
    assert terminal.style("+discover) echo").fg == "green"
    # Down to the refusals, then to the change itself.
    listed(terminal)
    terminal.type("\x1b[B\x1b[B")
    shows(terminal, "(3/5)")
    terminal.type("s")
    shows(terminal, "stage: parse")
    listed(terminal)
    terminal.type("\x1b[B")
    shows(terminal, "(4/5)")
    terminal.type("s")
    for part in (
        "session ses_",
        "asked: learn it",
        "gate: parse: ",
        "replay:",
        "is on probation",
        "+execute_tool",
    ):
        shows(terminal, part)
    listed(terminal)
    terminal.type("p")
    shows(terminal, "pinned: hooks/bot.sh")
    listed(terminal)
    terminal.type("r")
    shows(terminal, "taken back: hooks/bot.sh")
    assert "Hello!" in bot.read_text()
    listed(terminal)
    terminal.type("\x1b")
    terminal.wait_until(lambda: terminal.rows[-2:-1] == ["›"])
    # The change that waits was judged against what is taken back now: it is rejected, with a reason.
    terminal.type("/evolve\r")
    listed(terminal)
    terminal.type("x")
    terminal.wait_until(lambda: terminal.rows[-2].startswith("› /evolve reject "))
    terminal.type("too much\r")
    shows(terminal, "rejected: ")
    say(terminal, "/evolve", "person rejected: hooks/bot.sh")
    listed(terminal)
    terminal.type("s")
    shows(terminal, ": too much")


@pytest.mark.slow
def test_a_change_that_waits_is_approved_by_a_key_or_by_words(chat, workspace):
    terminal = chat()
    say(terminal, "widen it", "You said: widen it")
    say(terminal, "/evolve", "waits for you: hooks/bot.sh")
    terminal.type("a")
    shows(terminal, "approved and installed: hooks/bot.sh")
    listed(terminal)
    assert '"network": true' in (workspace / "hooks/bot.sh").read_text()
    terminal.type("\x1b")
    shows(terminal, "learned 1 thing")
    assert "to decide" not in terminal.rows[-1]
    say(terminal, "/evolve show", "gate: ")
    say(terminal, "/evolve rollback", "taken back: hooks/bot.sh")
    say(terminal, "/evolve pin hooks", "pinned: hooks; the agent may not change it")
    say(terminal, "/evolve mend", "/evolve knows no 'mend': show, rollback, approve, reject, pin")
    say(terminal, "/evolve show nothing", "names no change of")


@pytest.mark.slow
def test_what_is_typed_right_after_new_is_said_in_the_new_session(chat, machine):
    terminal = chat()
    say(terminal, "first", "You said: first")
    terminal.type("/new\rsecond\r")
    shows(terminal, "You said: second")
    assert sorted(one["title"] for one in json.loads(machine.instar("session", "list", "--json").stdout)) == [
        "first",
        "second",
    ]
