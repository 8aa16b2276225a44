import os
import re
import signal
import time

import pytest
from tests.waiting import take_quickest


@pytest.mark.slow
def test_a_turn_leaves_its_text_its_calls_and_what_it_took(machine, screen):
    machine.script(
        '== turn\nreasoning: thinking\ntext: I look.\ntool: bash {"command": "echo hi"}\n== turn\ntext: Done.\n'
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    assert terminal.end() == 0
    shown = re.sub(r"\d+\.\d s", "N s", "\n".join(terminal.rows))
    assert re.sub("ses_\\w+|[0-9,]+ tokens", "*", shown).splitlines() == [
        "thought N s: thinking",
        "",
        "I look.",
        "✓ bash echo hi N s",
        "    hi",
        "",
        "Done.",
        "N s, *; go on: instar run -s *",
    ]


@pytest.mark.slow
def test_reasoning_is_shown_whole_where_that_is_wanted(machine, screen):
    thought = "word " * 60
    machine.script(f"== turn\nreasoning: {thought}\ntext: Done.\n")
    terminal = screen("run", "-m", "scripted/test", "--thinking", "hello")
    assert terminal.end() == 0
    assert " ".join(" ".join(terminal.rows).split()).count("word") == 60


@pytest.mark.slow
def test_text_appears_while_the_model_still_speaks(machine, screen):
    machine.script("== turn\ntext: first\ndelay: 90s\ntext: second\n")
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("first")
    terminal.type("\x03")
    assert terminal.end() == 130


@pytest.mark.slow
def test_an_error_is_red(machine, screen):
    machine.script("== turn\nerror: 400 broken\n")
    terminal = screen("run", "-m", "scripted/test", "hello")
    assert terminal.end() == 1
    assert b"\x1b[31m" in terminal.raw
    assert "broken" in terminal.text


@pytest.mark.slow
def test_a_failed_tool_call_shows_its_reason(machine, screen):
    machine.script('== turn\ntool: read {"filePath": "nothing.txt"}\n== turn\ntext: ok\n')
    terminal = screen("run", "-m", "scripted/test", "hello")
    assert terminal.end() == 0
    assert "✗ read" in terminal.text


@pytest.mark.slow
def test_a_models_escape_sequences_do_not_reach_the_terminal(machine, screen):
    machine.script("== turn\ntext: a\x1b]0;owned\x07b\n")
    terminal = screen("run", "-m", "scripted/test", "hello")
    assert terminal.end() == 0
    assert b"\x1b]0;" not in terminal.raw


@pytest.mark.slow
def test_a_call_that_is_tried_again_says_so(machine, screen):
    machine.script("== turn\nerror: 503 busy retry-after=0.01 times=1\ntext: fine\n")
    terminal = screen("run", "-m", "scripted/test", "hello")
    assert terminal.end() == 0
    assert "trying again" in terminal.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "mark", "asked_again"),
    [
        ("o\n", "✓ bash", True),
        ("always\n", "✓ bash", False),
        ("r\n", "✗ bash", None),
        ("what\no\n", "✓ bash", True),
    ],
)
def test_the_person_answers_a_permission_question(machine, screen, typed, mark, asked_again):
    machine.write("opencode.json", '{"permission": {"bash": "ask"}}')
    machine.script('== turn\ntool: bash {"command": "echo hi"}\n== turn\ntext: ok\n')
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("? bash wants: echo hi")
    terminal.type(typed)
    terminal.end()
    assert mark in terminal.text
    if asked_again is not None:
        again = screen("run", "-m", "scripted/test", "hello")
        if asked_again:
            again.wait_for("? bash wants")
        else:
            again.end()
            assert "? bash wants" not in again.text


@pytest.mark.slow
def test_ctrl_c_while_a_question_stands_ends_the_run(machine, screen):
    machine.write("opencode.json", '{"permission": {"bash": "ask"}}')
    machine.script('== turn\ntool: bash {"command": "echo hi"}\n== turn\ntext: ok\n')
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("? bash wants")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_ctrl_c_ends_the_turn_within_a_second(machine, screen):
    nap = f"sleep 4714.{os.getpid()}"
    machine.script(f'== turn\ntool: bash {{"command": "{nap}"}}\n')

    def ended() -> float:
        terminal = screen("run", "-m", "scripted/test", "--title", "t", "hello")
        terminal.wait_for(f"bash {nap}")
        began = time.monotonic()
        terminal.type("\x03")
        assert terminal.end() == 130
        took = time.monotonic() - began
        assert "aborted" in terminal.text
        assert not machine.runs(nap)
        return took

    assert take_quickest(ended, 2.0) < 2


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "ran"), [("y\n", True), ("\nno\n", False)])
def test_the_person_is_asked_once_whether_to_trust_a_folder(machine, screen, typed, ran):
    mark = machine.home / "it-ran"
    machine.write(".instar/plugin/p.py", f"async def p(input, options):\n    open({str(mark)!r}, 'w')\n")
    machine.script("== turn\ntext: hello\n")
    terminal = screen("run", "-m", "scripted/test", "hi")
    terminal.wait_for(f"Trust {machine.project}?")
    terminal.type(typed)
    assert terminal.end() == 0
    assert mark.exists() is ran
    again = screen("run", "-m", "scripted/test", "hi")
    assert again.end() == 0
    assert "Trust " not in again.text


@pytest.mark.slow
def test_a_permission_question_shows_the_whole_command(machine, screen):
    machine.write("opencode.json", '{"permission": {"bash": "ask"}}')
    tail = "x" * 150 + "-the-end"
    machine.script(f'== turn\ntool: bash {{"command": "echo {tail}\\necho two"}}\n== turn\ntext: ok\n')
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("what to do instead?")
    assert f"  | echo {tail}\n  | echo two\n" in terminal.text
    terminal.type("r\n")
    terminal.end()


@pytest.mark.slow
def test_ctrl_c_at_the_trust_question_leaves_the_prompt_on_a_line_of_its_own(machine, screen):
    machine.write(".instar/plugins/mine.py", "async def mine(input, options):\n    return {}\n")
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("[y/n/show]")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert terminal.text.endswith("\n")


@pytest.mark.slow
def test_a_model_that_says_nothing_is_waited_for_visibly_and_the_line_goes_away(machine, screen):
    machine.script("== turn\ndelay: 6s\ntext: At last.\n")
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_until(lambda: re.search(r"thinks [2-5] s · Ctrl-C ends", "\n".join(terminal.rows)))
    assert terminal.end() == 0
    assert terminal.rows[:2] == ["", "At last."]
    assert "thinks" not in "".join(terminal.rows)


@pytest.mark.slow
def test_a_tool_that_takes_long_counts_its_seconds(machine, screen):
    machine.script(
        '== turn\ntool: bash {"command": "until [ -e go ]; do sleep 0.1; done"}\n== turn\ntext: ok\n'
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    # A machine that stalls passes over a second now and then.
    terminal.wait_until(lambda: re.search(r"… bash until .* done [2-9] s", "\n".join(terminal.rows)))
    machine.write("go", "")
    assert terminal.end() == 0
    assert re.search(r"✓ bash until .* done ([2-9]|\d\d)\.\d s", terminal.rows[0])


@pytest.mark.slow
def test_calls_that_run_together_have_a_row_each_while_they_run(machine, screen):
    machine.script(
        '== turn\ntool: bash {"command": "until [ -e one ]; do sleep 0.02; done"}\n'
        'tool: bash {"command": "until [ -e two ]; do sleep 0.02; done"}\n== turn\ntext: ok\n'
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_until(lambda: sum(row.startswith("… bash until") for row in terminal.rows) == 2)
    machine.write("one", "")
    terminal.wait_until(lambda: any(row.startswith("✓ bash until [ -e one ]") for row in terminal.rows))
    machine.write("two", "")
    assert terminal.end() == 0
    assert [row[:22] for row in terminal.rows[:2]] == ["✓ bash until [ -e one ", "✓ bash until [ -e two "]
    assert "… bash" not in "".join(terminal.rows)


EDIT = """== turn
tool: edit {"filePath": "a.py", "oldString": "return a - b", "newString": "return a + b"}
tool: bash {"command": "seq 30; exit 3"}
tool: todowrite {"todos": [{"content": "one", "status": "completed", "priority": "high"},
  {"content": "two", "status": "in_progress", "priority": "high"},
  {"content": "three", "status": "pending", "priority": "low"}]}
tool: grep {"pattern": "def"}
== turn
text: ok
"""


@pytest.mark.slow
@pytest.mark.parametrize("columns", [100, 60])
def test_a_call_shows_what_it_did(machine, screen, columns):
    machine.write("a.py", "def add(a, b):\n    return a - b\n")
    machine.script(EDIT)
    terminal = screen("run", "-m", "scripted/test", "hello", columns=columns)
    assert terminal.end() == 0
    rows = [re.sub(r"\d+\.\d s", "N s", row) for row in terminal.rows]
    edit = rows.index("✓ edit a.py N s")
    assert rows[edit + 1 : edit + 5] == [
        "    @@ -1,2 +1,2 @@",
        "     def add(a, b):",
        "    -    return a - b",
        "    +    return a + b",
    ]
    assert terminal.style("+    return").fg == "green"
    assert terminal.style("+ b").reverse
    assert not terminal.style("return a + b").reverse
    command = rows.index("✗ bash seq 30; exit 3 N s exit code 3")
    assert terminal.style("✗ bash").fg == terminal.style("exit code 3").fg == "red"
    assert rows[command + 1 : command + 8] == [
        "    … 24 lines before",
        *(f"    {number}" for number in range(25, 31)),
    ]
    todo = next(at for at, row in enumerate(rows) if row.startswith("✓ todowrite"))
    assert rows[todo + 1 : todo + 4] == ["    ✓ one", "    ▸ two", "    · three"]
    grep = rows.index("✓ grep def N s")
    assert rows[grep + 1] == "    1 match"


@pytest.mark.slow
def test_a_long_diff_is_folded(machine, screen):
    text = "\\n".join(str(number) for number in range(100))
    machine.script(f'== turn\ntool: write {{"filePath": "a.txt", "content": "{text}"}}\n== turn\ntext: ok\n')
    terminal = screen("run", "-m", "scripted/test", "hello")
    assert terminal.end() == 0
    assert "    … 77 more lines" in terminal.rows


MARKDOWN = """== turn
text: <<END
# Head

Some *words* of `code` and [a link](http://example.com/x).

- one
- two

```python
def f():
    return 1
```
END
delay: 60s
"""


@pytest.mark.slow
def test_markdown_is_shown_block_by_block_and_what_is_printed_stays(machine, screen):
    machine.script(MARKDOWN)
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_until(lambda: any("return 1" in row for row in terminal.rows))
    assert terminal.rows[1] == "Head"
    assert terminal.style("Head").bold
    assert "Some words of code and a link (http://example.com/x)." in terminal.rows
    assert " • one" in terminal.rows
    assert terminal.style("words").italics
    terminal.type("\x03")
    assert terminal.end() == 130
    # Rich clears nothing: the only rows that are written over are those at the bottom.
    assert terminal.raw.count(b"Head") == 1
    assert "  def f():" in terminal.rows


def test_a_table_has_one_empty_line_before_it(machine, screen):
    machine.script(
        "== turn\ntext: It adds:\n  \n  | in | out |\n  |---|---|\n  | 2, 3 | 5 |\n  \n  That is all.\n"
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    assert terminal.end() == 0
    text = "\n".join(terminal.rows)
    assert "It adds:\n\n in    out\n ─────────\n 2, 3  5\n\nThat is all." in text


@pytest.mark.slow
def test_a_window_that_becomes_narrower_leaves_what_was_printed(machine, screen):
    machine.script(
        '== turn\ntool: bash {"command": "until [ -e go ]; do sleep 0.02; done; echo the end"}\n== turn\ntext: ok\n'
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_until(lambda: any("works" in row for row in terminal.rows))
    terminal.resize(40)
    seen = len(terminal.raw)
    terminal.wait_until(lambda: len(terminal.raw) > seen + 200)
    machine.write("go", "")
    assert terminal.end() == 0
    assert "    the end" in terminal.rows
    assert "ok" in terminal.rows
    assert not any("works" in row for row in terminal.rows)


@pytest.mark.slow
def test_wide_and_combining_characters_are_cut_to_the_width(machine, screen):
    machine.script(
        '== turn\ntool: bash {"command": "until [ -e go ]; do sleep 0.02; done # '
        + "漢字e\u0301" * 40
        + '"}\n'
        "== turn\ntext: ok\n"
    )
    terminal = screen("run", "-m", "scripted/test", "hello", columns=60)
    terminal.wait_until(lambda: any("works" in row for row in terminal.rows))
    assert len(terminal.rows) == 2
    machine.write("go", "")
    assert terminal.end() == 0
    assert not any(row.startswith("… bash") for row in terminal.rows)


@pytest.mark.slow
def test_ctrl_z_leaves_no_trace_and_the_run_goes_on(machine, screen):
    machine.script(
        '== turn\ntool: bash {"command": "until [ -e go ]; do sleep 0.02; done"}\n== turn\ntext: ok\n'
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_until(lambda: any("works" in row for row in terminal.rows))
    terminal.type("\x1a")
    os.waitpid(terminal.pid, os.WUNTRACED)
    terminal.wait_until(lambda: terminal.rows == [])
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.wait_until(lambda: any("works" in row for row in terminal.rows))
    machine.write("go", "")
    assert terminal.end() == 0
    assert "ok" in terminal.rows


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "variables"), [(["--plain"], {}), ([], {"TERM": "dumb"})], ids=["plain", "dumb"]
)
def test_plain_lines_hold_no_control_sequence(machine, screen, arguments, variables):
    machine.write("a.py", "def add(a, b):\n    return a - b\n")
    machine.script(EDIT)
    terminal = screen("run", "-m", "scripted/test", *arguments, "hello", **variables)
    assert terminal.end() == 0
    assert b"\x1b" not in terminal.raw
    assert "    +    return a + b" in terminal.rows
    assert "ok" in terminal.rows
    todo = next(at for at, row in enumerate(terminal.rows) if row.startswith("+ todowrite"))
    assert terminal.rows[todo + 1 : todo + 3] == ["    completed: one", "    in progress: two"]
    assert terminal.rows[-1].startswith("instar: go on: instar run -s ses_")


@pytest.mark.slow
def test_no_color_leaves_the_colours_out(machine, screen):
    machine.write("a.py", "def add(a, b):\n    return a - b\n")
    machine.script(EDIT)
    terminal = screen("run", "-m", "scripted/test", "hello", NO_COLOR="1")
    assert terminal.end() == 0
    assert terminal.style("+    return").fg == "default"


@pytest.mark.slow
def test_the_time_of_a_call_is_without_the_wait_for_the_person(machine, screen):
    machine.write("opencode.json", '{"permission": {"bash": "ask"}}')
    machine.script('== turn\ntool: bash {"command": "echo hi"}\n== turn\ntext: ok\n')
    terminal = screen("run", "-m", "scripted/test", "hello")
    terminal.wait_for("? bash wants: echo hi")
    time.sleep(3)
    terminal.type("o\n")
    assert terminal.end() == 0
    (line,) = (row for row in terminal.rows if row.startswith("✓ bash echo hi"))
    assert float(line.split()[-2]) < 2.5
    assert not any("thinks" in row or "works" in row for row in terminal.rows)


@pytest.mark.slow
def test_the_calls_of_a_sub_agent_are_shown_below_its_own(machine, screen):
    machine.script(
        '== when "look around"\ntool: bash {"command": "echo hi"}\n== when "hi"\ntext: seen\n'
        '== turn\ntool: task {"description": "look", "prompt": "look around", "subagent_type": "general"}\n'
        "== turn\ntext: ok\n"
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    assert terminal.end() == 0
    assert any(row.startswith("  ✓ bash echo hi") for row in terminal.rows)


def test_a_copy_of_a_session_is_gone_on_with(machine):
    machine.script("== turn\ntext: one\n== turn\ntext: two\n")
    machine.instar("run", "-m", "scripted/test", "first")
    done = machine.instar("run", "-m", "scripted/test", "-c", "--fork", "second")
    assert done.returncode == 0
    assert len(machine.instar("session", "list").stdout.splitlines()) == 2
    refused = machine.instar("run", "--fork", "third")
    assert (refused.returncode, "--fork copies a session" in refused.stderr) == (2, True)
