import os
import re
import time

import pytest
from tests.waiting import take_quickest


@pytest.mark.slow
def test_text_streams_reasoning_is_dim_and_a_tool_line_has_title_and_time(machine, screen):
    machine.script(
        '== turn\nreasoning: thinking\ntext: I look.\ntool: bash {"command": "echo hi"}\n== turn\ntext: Done.\n'
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    assert terminal.end() == 0
    assert "I look.\n" in terminal.text
    assert re.search(r"✓ bash echo hi \d+\.\d s\n", terminal.text)
    assert "Done.\n" in terminal.text
    assert b"\x1b[2mthinking" in terminal.raw
    assert "go on: instar run -s ses_" in terminal.text


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
    terminal.wait_until(lambda: re.search(r"… waiting [2-5] s \(Ctrl-C ends the turn\)", terminal.text))
    assert terminal.end() == 0
    assert b"\r\x1b[2KAt last." in terminal.raw


@pytest.mark.slow
def test_a_tool_that_takes_long_counts_its_seconds(machine, screen):
    machine.script(
        '== turn\ntool: bash {"command": "until [ -e go ]; do sleep 0.1; done"}\n== turn\ntext: ok\n'
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    # A machine that stalls passes over a second now and then.
    terminal.wait_until(lambda: re.search(r"… bash until .* done [2-9] s", terminal.text))
    machine.write("go", "")
    assert terminal.end() == 0
    assert re.search(r"✓ bash until .* done [2-9]\.|✓ bash until .* done \d\d", terminal.text)


@pytest.mark.slow
def test_calls_that_run_together_are_announced_once_each(machine, screen):
    machine.script(
        # The first one says nothing before the second one runs.
        '== turn\ntool: bash {"command": "for i in 1 2 3 4; do until [ -e two ]; do sleep 0.02; done;'
        ' echo $i; sleep 0.3; done"}\ntool: bash {"command": "touch two; sleep 1.3"}\n== turn\ntext: ok\n'
    )
    terminal = screen("run", "-m", "scripted/test", "hello")
    assert terminal.end() == 0
    assert terminal.text.count("… bash for") == 1
    assert terminal.text.count("✓ bash for") == 1
