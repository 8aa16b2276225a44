"""Calling one script: what it is given, and every way to fail."""

import logging
import os
import time
from pathlib import Path

import pytest
from tests.running import lives
from tests.waiting import SOON

from instar.plugins.evolve import script
from instar.plugins.evolve.workspace import VARIABLES

PYTHON = "#!/usr/bin/env python3\nimport os, sys, time, json, signal\n"


def place(root: Path, timeout: float = 10.0, **environment: str) -> script.ScriptEnvironment:
    given = {"PATH": os.environ["PATH"], **environment}
    return script.ScriptEnvironment(root, given | dict.fromkeys(VARIABLES, str(root)), timeout)


async def call(
    kit, processes, root: Path, text: str, hook: str = "idle", timeout: float = 10.0, mode: int = 0o755
):
    path = kit.script(root / "hooks", "persona.py", text, mode)
    return await script.call(processes, path, hook, {"answer": "hi"}, place(root, timeout))


async def test_a_script_gets_the_hook_as_argument_json_on_stdin_and_the_workspace_as_folder(
    kit, processes, root
):
    text = PYTHON + 'print(json.dumps({"a": sys.argv[1:], "b": json.load(sys.stdin), "c": os.getcwd()}))'
    answer = await call(kit, processes, root, text)
    assert answer == {"a": ["idle"], "b": {"hook": "idle", "answer": "hi"}, "c": str(root)}


async def test_log_lines_and_standard_error_go_to_the_log(kit, processes, root, caplog):
    caplog.set_level(logging.INFO, "instar.evolve")
    await call(kit, processes, root, '#!/bin/sh\necho \'{"log": "from log"}\'\necho "from stderr" >&2')
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        'script=persona.py hook=idle stderr="from stderr"',
        'script=persona.py hook=idle log="from log"',
    ]


async def test_nothing_printed_is_an_empty_answer(kit, processes, root):
    assert await call(kit, processes, root, "#!/bin/sh\n") == {}


FAILURES = {
    "exits 3": ("#!/bin/sh\necho sorry\nexit 3", "ended with exit code 3", "sorry"),
    "exits 1 with an error": (
        """#!/bin/sh\necho '{"error": "no such file"}'; exit 1""",
        "ended with exit code 1",
        "no such file",
    ),
    "prints broken JSON": ("""#!/bin/sh\necho '{"a": '""", "line 1 of its output is not JSON", '{"a":'),
    "prints a list": ("#!/bin/sh\necho '[1]'", "should be a JSON object, not a list", "[1]"),
    "is not UTF-8": ('#!/bin/sh\nprintf \'{"a": "\\377"}\'', "is not UTF-8", "a"),
    "dies by a signal": ("#!/bin/sh\necho bye\nkill -9 $$", "died by signal 9 (SIGKILL)", "bye"),
    "has a bad shebang": ("#!/no/such/interpreter\n", "interpreter /no/such/interpreter does not exist", ""),
    "has a CRLF shebang": ("#!/bin/sh\r\necho\r\n", "line endings", ""),
    "has a CRLF shebang of env": ("#!/usr/bin/env python3\r\n", "save it with LF line ends", "python3"),
    "has no shebang": ('print("hi")', "could not be started", ""),
    "raises": (PYTHON + "raise ValueError('boom')", "ended with exit code 1", "ValueError: boom"),
}


@pytest.mark.parametrize("what", FAILURES)
async def test_a_failing_script_is_reported_with_hook_time_reason_and_output(
    kit, processes, root, what, caplog
):
    text, why, printed = FAILURES[what]
    with pytest.raises(script.ScriptFailure) as error:
        await call(kit, processes, root, text)
    assert why in str(error.value)
    assert str(error.value).startswith("persona.py idle: ")
    assert " ms" in str(error.value)
    assert printed in error.value.printed
    (record,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert record.startswith("script=persona.py hook=idle failed=")
    assert "ms=" in record


async def test_a_script_without_its_run_bit_says_so(kit, processes, root):
    with pytest.raises(script.ScriptFailure, match="run bit"):
        await call(kit, processes, root, "#!/bin/sh\n", mode=0o644)


async def test_ten_megabytes_are_too_much_and_are_not_repeated_in_the_error(kit, processes, root, caplog):
    flood = "#!/bin/sh\nprintf '{\"result\": \"'; head -c 10000000 /dev/zero | tr '\\0' x; printf '\"}\\n'"
    with pytest.raises(script.ScriptFailure, match="printed more than 10000000 bytes") as error:
        await call(kit, processes, root, flood)
    assert len(str(error.value)) < 1000
    assert all(len(record.getMessage()) < 1000 for record in caplog.records)


@pytest.mark.slow
async def test_a_hanging_script_is_ended_with_its_whole_group(kit, processes, root, tmp_path):
    pid = tmp_path / "pid"
    started = time.monotonic()
    with pytest.raises(script.ScriptFailure, match=r"longer than hook_timeout \(3000 ms\)"):
        await call(kit, processes, root, f"#!/bin/sh\nsleep 60 &\necho $! >{pid}\nwait", timeout=3)
    assert time.monotonic() - started < SOON
    assert not lives(int(pid.read_text()))


async def test_a_script_that_says_it_does_not_know_a_hook_has_not_failed(kit, processes, root, caplog):
    path = kit.script(root / "hooks", "bot.py", kit.SEED_MINIMAL)
    with pytest.raises(script.UnknownHook):
        await script.call(processes, path, "idle", {}, place(root))
    assert caplog.records == []
    answer = await script.call(
        processes, path, "mutate_request", {"session": {"id": "s"}, "history": []}, place(root)
    )
    assert answer == {"system": ["you are a helpful assistant."]}


@pytest.mark.parametrize(
    ("says", "failed"),
    [
        ("echo 'unknown hook: idle' >&2", False),
        ("echo 'unknown hook: idle'", False),
        ("echo 'bot.sh: Unknown hook \"idle\".' >&2", False),
        ("echo 'unknown hook: discover' >&2", True),
        ("echo 'unknown hook state for idle' >&2", True),
        ("echo 'unknown hook: idle' >&2; kill -9 $$", True),
    ],
)
async def test_a_script_may_say_so_as_plain_text_on_a_line_of_its_own(kit, processes, root, says, failed):
    with pytest.raises(script.ScriptFailure if failed else script.UnknownHook):
        await call(kit, processes, root, f"#!/bin/sh\n{says}\nexit 1\n", hook="idle")


async def test_input_that_cannot_be_written_as_json_is_a_failure_of_the_call(kit, processes, root):
    path = kit.script(root / "hooks", "a.sh", "#!/bin/sh\n")
    with pytest.raises(script.ScriptFailure, match="could not be written as JSON"):
        await script.call(processes, path, "tool_before", {"args": {"x": "\ud800"}}, place(root))
