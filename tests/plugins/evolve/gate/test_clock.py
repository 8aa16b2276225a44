"""The clock of a replay, met by real scripts that ask for the time."""

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest

from instar.plugins.evolve.gate import clock
from instar.process import Processes

AT = 1_700_000_000_123
"""2023-11-14 22:13:20.123 UTC."""


async def run(
    processes: Processes, root: Path, body: str, at: int = AT, path: str = "", longest: float = 20.0
) -> dict[str, object]:
    """Run Python as a replay would, in a folder with the clock's files; return what it printed.

    A run that a busy machine held up for more than `longest` seconds is made anew.
    """
    for name, file in clock.files(at).items():
        target = root / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(file.content)
    script = root / "script.py"
    script.write_text(f"#!{sys.executable}\n{textwrap.dedent(body)}")
    script.chmod(0o755)
    assert clock.is_python(script.read_bytes())
    environment = {**clock.environment(root), "TZ": "UTC", "PATH": os.environ["PATH"]}
    environment["PYTHONPATH"] += path
    for _ in range(20):
        output = await processes.run([str(script)], cwd=root, env=environment, timeout=20)
        if output.duration < longest:
            break
    assert output.code == 0, output.stderr
    assert output.stderr == b""
    return json.loads(output.stdout)  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        ("time.time()", 1700000000.123),
        ("time.time_ns()", 1700000000123000000),
        ("time.clock_gettime(time.CLOCK_REALTIME)", 1700000000.123),
        ("time.clock_gettime_ns(time.CLOCK_REALTIME)", 1700000000123000000),
        ("list(time.gmtime())[:6]", [2023, 11, 14, 22, 13, 20]),
        ("list(time.localtime())[:6]", [2023, 11, 14, 22, 13, 20]),
        ("list(time.gmtime(0))[:3]", [1970, 1, 1]),
        ("time.ctime()", "Tue Nov 14 22:13:20 2023"),
        ("time.ctime(0)", "Thu Jan  1 00:00:00 1970"),
        ("time.asctime()", "Tue Nov 14 22:13:20 2023"),
        ("time.strftime('%Y-%m-%d')", "2023-11-14"),
        ("time.strftime('%Y', time.gmtime(0))", "1970"),
        ("time.strftime.__module__", "time"),
        ("str(datetime.datetime.now())", "2023-11-14 22:13:20.123000"),
        ("str(datetime.datetime.now(datetime.timezone.utc))", "2023-11-14 22:13:20.123000+00:00"),
        (
            "str(datetime.datetime.now(tz=datetime.timezone(datetime.timedelta(hours=9))))",
            "2023-11-15 07:13:20.123000+09:00",
        ),
        ("str(datetime.datetime.utcnow())", "2023-11-14 22:13:20.123000"),
        ("str(datetime.datetime.today())", "2023-11-14 22:13:20.123000"),
        ("str(datetime.date.today())", "2023-11-14"),
        ("repr(datetime.datetime.now())", "datetime.datetime(2023, 11, 14, 22, 13, 20, 123000)"),
        ("type(datetime.datetime.now()) is datetime.datetime", True),
        ("type(type('Own', (datetime.datetime,), {}).now()).__name__", "Own"),
        ("pickle.loads(pickle.dumps(datetime.datetime.now())).year", 2023),
        ("0 < time.monotonic() < 1e9", True),
        ("os.environ['PYTHONHASHSEED']", "0"),
        ("[entry for entry in sys.path if '.clock' in entry]", []),
        (
            "subprocess.check_output([sys.executable, '-c', 'import time; print(time.time())']).decode()",
            "1700000000.123\n",
        ),
    ],
)
async def test_a_python_script_sees_the_moment_of_the_record(
    processes: Processes, tmp_path: Path, asked: str, seen: object
) -> None:
    body = f"import datetime, json, os, pickle, subprocess, sys, time\nprint(json.dumps({asked}))"
    # A run of less than a second sees one moment.
    assert await run(processes, tmp_path, body, longest=1.0) == seen


@pytest.mark.slow
async def test_time_moves_on_in_whole_seconds(processes: Processes, tmp_path: Path) -> None:
    body = """\
        import json, time
        seen = [time.time()]
        while seen[-1] == seen[0]:
            time.sleep(0.01)
            seen.append(time.time())
        print(json.dumps([*seen, time.time()]))
        """
    seen = await run(processes, tmp_path, body)
    assert seen == sorted(seen)
    assert seen[0] < seen[-1] < 1700000060
    # Each is what a whole number of seconds makes of the first: a machine that stalls passes over some.
    assert {f"{one % 1:.3f}" for one in seen} == {"0.123"}
    assert len(seen) > len(set(seen)), "within a second it stands still"


async def test_the_sitecustomize_that_a_machine_has_still_runs(processes: Processes, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = __file__\n")
    body = "import json, sitecustomize\nprint(json.dumps([mine, sitecustomize.__file__]))"
    expected = str(other / "sitecustomize.py")
    assert await run(processes, tmp_path, body, path=f":{other}") == [expected, expected]


@pytest.mark.parametrize(
    ("first", "python"),
    [
        ("#!/usr/bin/env python3", True),
        ("#!/usr/bin/python3.11 -u", True),
        ("#! /usr/bin/env -S python3 -u", True),
        ("#!/opt/pypy3", True),
        ("#!/usr/bin/env -S uv run --script", True),
        ("#!/usr/bin/env python3\r", True),
        ("#!/usr/bin/python3 -I", False),
        ("#!/usr/bin/env -S python3 -uE", False),
        ("#!/bin/sh", False),
        ("#!/usr/bin/env node", False),
        ("import python3", False),
        ("", False),
    ],
)
def test_the_first_line_says_whether_a_script_is_shown_the_moment(first: str, python: bool) -> None:
    script = f"{first}\nprint(1)\n".encode()
    assert clock.is_python(script) is python
