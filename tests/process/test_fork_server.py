"""Warm interpreters: a script cannot tell, and nothing of one call reaches the next."""
# ruff: noqa: E501 - a table of programs, one a line

import asyncio
import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import running
from tests.running import lives
from tests.waiting import SOON, quickest

from instar.process import Output, Processes, Wrapped, confine
from instar.process.fork_server import MOST
from instar.sandbox import landlock
from instar.sandbox.level import Level, Name
from instar.sandbox.probe import find_level
from instar.sandbox.shield import Shield

PYTHON = os.path.realpath(sys.executable)
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8", "GIVEN": "wörd"}
PARENT = """import sys
def above(pid): return open('/proc/%s/stat' % pid).read().rsplit(')', 1)[1].split()[1]
parent = above('self')
print(above(parent) if b'zygote.py' in open('/proc/%s/cmdline' % parent, 'rb').read() else parent)
"""
"""Prints the process id of its parent; of a warm script, whose parent is its call's anchor, of the interpreter."""


class Bench:
    """A folder of scripts and the processes that run them, on one event loop for all tests of this file."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runner = asyncio.Runner()
        self.processes = Processes()
        self.environment = ENVIRONMENT
        self.confine: Any = None

    def script(self, text: str, name: str = "hook.py", python: str = PYTHON) -> Path:
        """Write an executable script."""
        path = self.root / name
        path.write_bytes(f"#!{python}\n".encode() + text.encode("utf-8", "surrogateescape"))
        path.chmod(0o755)
        return path

    def call(self, path: Path, warm: bool = True, **given: Any) -> Output:
        """Call a script."""
        return self.runner.run(self.calling(path, warm, **given))

    async def calling(self, path: Path, warm: bool = True, **given: Any) -> Output:
        """The same, on the event loop."""
        given = {
            "stdin": b'{"hook": "idle"}',
            "timeout": 20,
            "cwd": self.root,
            "env": self.environment,
            "confine": self.confine,
            **given,
        }
        argv = [str(path), *given.pop("args", ["idle"])]
        return await self.processes.run(argv, warm=warm, **given)

    def parent(self, path: Path | None = None, **given: Any) -> int:
        """The parent of a script that is called now: ours when it was started plainly."""
        return int(self.call(path or self.script(PARENT, "parent.py"), **given).stdout.split()[-1])

    def heat(self, path: Path | None = None, **given: Any) -> int:
        """Call until an interpreter is warm; its process id."""
        end = time.monotonic() + 20
        while not is_zygote(found := self.parent(path, **given)):
            assert time.monotonic() < end, "no interpreter became warm"
            time.sleep(0.01)
        return found

    def close(self) -> None:
        self.runner.run(self.processes.close())
        self.runner.close()


def is_zygote(pid: int) -> bool:
    try:
        return b"zygote.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def found(at_most: Name) -> Level:
    made = Processes()
    try:
        return await find_level(made, os.environ, at_most)
    finally:
        await made.close()


LEVELS = {level.name: level for level in (asyncio.run(found("bubblewrap")), asyncio.run(found("landlock")))}
"""The levels of a shield that this machine reaches."""
FAR = (Path("/usr/share"),)
"""Guarded far from scripts and /tmp: at the level "landlock" no new file is made beside what is guarded."""
SHIELDS = {"free": None} | {name: Shield(level, (), FAR) for name, level in LEVELS.items()}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("warm"))
    bench.heat()
    yield bench
    assert bench.parent() != os.getpid(), "the interpreter did not stay warm"
    bench.close()


@pytest.fixture(scope="module")
def benches(shared: Bench) -> Iterator[dict[str, Bench]]:
    """Benches of one folder whose scripts run warm: free, and behind a shield of each level."""
    behind = {name: Bench(shared.root) for name in LEVELS}
    for name, bench in behind.items():
        bench.confine = SHIELDS[name]
        bench.heat()
    yield {"free": shared, **behind}
    for bench in behind.values():
        assert is_zygote(bench.parent()), "the interpreter did not stay warm"
        bench.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.005)


def seen(output: Output) -> tuple[Any, ...]:
    """What a caller sees, without what no two calls share."""

    def same(printed: bytes) -> bytes:
        return re.sub(rb"0x[0-9a-f]{6,}|[0-9a-f]{16}\.\d+\.", b"N", printed)

    return output.code, output.signal, output.timed_out, same(output.stdout), same(output.stderr)


# fmt: off
SAME = {
    # What a script is given
    "nothing": "",
    "a hook": "import json, sys\nprint(json.dumps({'got': json.load(sys.stdin)['hook'], 'arg': sys.argv[1]}))",
    "argv": "import sys; print(sys.argv, sys.orig_argv)",
    "main": "print(sorted(globals()), __name__, __file__, __spec__, __package__, __doc__, __cached__)",
    "the loader": "print(type(__loader__), __loader__.name, __loader__.path)",
    "builtins": "import builtins; print(__builtins__ is builtins, exit, quit)",
    "annotations": "x: int = 1\nprint(__annotations__)",
    "a docstring": "'''what it is'''\nprint(__doc__)",
    "sys.path": "import sys; print(sys.path)",
    "the interpreter": "import sys; print(sys.executable, sys.prefix, sys.base_prefix, sys.version, sys.flags)",
    "the environment": "import os; print(list(os.environ.items())); print(os.environb[b'GIVEN'])",
    "the environment of a child": "import subprocess; print(subprocess.check_output('env').decode())",
    "the folder": "import os; print(os.getcwd())",
    "the umask": "import os; print(os.umask(0))",
    "limits": "import resource as r; print([r.getrlimit(getattr(r, n)) for n in dir(r) if n.startswith('RLIMIT')])",
    "signals": "import signal; print([signal.getsignal(n) for n in range(1, 32)], signal.pthread_sigmask(0, []))",
    "the wake-up descriptor": "import signal; print(signal.set_wakeup_fd(-1))",
    "the session": "import os; print(os.getsid(0) == os.getpgid(0) == os.getpid())",
    "descriptors": "import os; print(sorted(os.listdir('/proc/self/fd')))",
    "encodings": "import sys; print([(s.encoding, s.errors, s.name, s.mode) for s in (sys.stdin, sys.stdout, sys.stderr)])",
    "buffering": "import sys; print([(s.line_buffering, s.isatty()) for s in (sys.stdin, sys.stdout, sys.stderr)])",
    "seeking": "import sys; print(sys.stdin.seekable(), sys.stdout.seekable())",
    "its threads": "import threading as t; print(t.current_thread() is t.main_thread(), t.active_count())",
    "the locale": "import locale; print(locale.setlocale(locale.LC_ALL), locale.getpreferredencoding())",
    "the clock of the process": "import time; print(time.process_time() < 1)",
    "hooks": "import sys; print(sys.displayhook, sys.breakpointhook, sys.unraisablehook, sys.warnoptions)",
    # Reading and writing
    "stdin unread": "print('done')",
    "stdin in lines": "import sys\nfor line in sys.stdin: print(repr(line))",
    "stdin as bytes": "import sys; print(sys.stdin.buffer.read())",
    "stdin by its number": "import os; print(os.read(0, 99))",
    "stdin by its name": "print(open('/dev/stdin').read())",
    "input": "print(input('? '))",
    "text beyond ASCII": "print('grüße, 世界 🎉')",
    "bytes": "import sys; sys.stdout.buffer.write(bytes(range(256)))",
    "a surrogate": "print('\\udcff')",
    "much": "print('x' * 3_000_000)",
    "without a line's end": "import sys; sys.stdout.write('no end')",
    "both streams": "import sys\nprint('one')\nprint('two', file=sys.stderr)",
    "past the buffers": "import os; print('buffered'); os.write(1, b'raw\\n')",
    "stdout closed": "import sys; sys.stdout.close()",
    "stdout closed below": "import os; print('x'); os.close(1)",
    "stderr closed below": "import os, sys; os.close(2); sys.stderr.write('x'); raise SystemExit(3)",
    "stdout replaced": "import sys, io; sys.stdout = io.StringIO(); print('lost')",
    "stdout is none": "import sys; sys.stdout = None; print('lost')",
    "an unclosed file": "f = open('/tmp/instar-unclosed-%d' % __import__('os').getpid(), 'w'); f.write('x'); print(f.fileno())",
    # How it ends
    "exit 0": "raise SystemExit",
    "exit 3": "import sys; print('x'); sys.exit(3)",
    "exit with a text": "import sys; sys.exit('went wrong')",
    "exit with an object": "import sys; sys.exit({'a': [1]})",
    "exit with True": "import sys; sys.exit(True)",
    "exit -1": "import sys; sys.exit(-1)",
    "exit 256": "import sys; sys.exit(256)",
    "exit 2**40": "import sys; sys.exit(2 ** 40)",
    "exit 1.5": "import sys; sys.exit(1.5)",
    "exit by quit": "quit(4)",
    "exit in a function": "def f():\n    raise SystemExit(5)\nf()",
    "os._exit": "import os; print('lost'); os._exit(7)",
    "abort": "import os; os.abort()",
    "kill -9": "import os; os.kill(os.getpid(), 9)",
    "kill -15": "import os, time; os.kill(os.getpid(), 15); time.sleep(9)",
    "a broken pipe": "import os, signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); os.kill(os.getpid(), signal.SIGPIPE)",
    "an interrupt": "import os, signal, time; print('x'); os.kill(os.getpid(), signal.SIGINT); time.sleep(9)",
    "KeyboardInterrupt": "raise KeyboardInterrupt",
    "exec": "import os; os.execvp('sh', ['sh', '-c', 'cat; echo done'])",
    "exec with signals": "import os; os.execvp('sh', ['sh', '-c', 'grep -E Sig.*: /proc/self/status | grep -v SigQ'])",
    "atexit": "import atexit\natexit.register(print, 'last')\nprint('first')",
    "atexit that fails": "import atexit\n@atexit.register\ndef f():\n    1 / 0",
    "atexit that exits": "import atexit, sys\natexit.register(sys.exit, 5)",
    "atexit after an error": "import atexit, sys\natexit.register(lambda: print(sys.last_value))\n1 / 0",
    "atexit that fails, with a hook for it": "import atexit, sys\n"
    "sys.unraisablehook = lambda a: print(a.err_msg, a.object, a.exc_value, a.exc_traceback)\natexit.register(sys.exit, 5)",
    "atexit and a file": "import atexit\nf = open(1, 'w', closefd=False)\natexit.register(f.write, 'last')\nprint('first')",
    "a log that is written at the end": "import logging.handlers as h\nm = h.MemoryHandler(9, target=h.logging.StreamHandler())\n"
    "h.logging.root.addHandler(m); h.logging.error('late')",
    "a finalizer": "class A:\n    def __del__(self): print('gone')\na = A()",
    "a finalizer in a cycle": "class A:\n    def __del__(self): print('gone', __name__)\na = A(); a.a = a",
    "a finalizer after an error": "class A:\n    def __del__(self): print('gone')\na = A()\n1 / 0",
    "weakref.finalize": "import weakref\nclass A: pass\na = A(); weakref.finalize(a, print, 'gone')",
    "a thread that goes on": "import threading, time\nthreading.Thread(target=lambda: (time.sleep(.05), print('late'))).start()",
    "a daemon thread": "import threading, time\nthreading.Thread(target=time.sleep, args=[9], daemon=True).start()",
    "a thread that fails": "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T'); t.start(); t.join()",
    "a pool of threads": "from concurrent.futures import ThreadPoolExecutor as P\nprint(list(P().map(abs, [-1, 2])))",
    # Errors
    "an error": "def f(x):\n    return x['a']\n\nprint('before')\nf({})",
    "an error in an error": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}['x']",
    "an error from an error": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('b') from e",
    "an error at the top": "raise ValueError('grüße')",
    "an error of a class of its own": "class Odd(Exception): pass\nraise Odd(1, 2)",
    "a group of errors": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
    "a note": "e = ValueError(1); e.add_note('n'); raise e",
    "an error shown by hand": "import traceback\ntry:\n    1 / 0\nexcept Exception:\n    traceback.print_exc()",
    "an error with a bad text": "class E(Exception):\n    def __str__(self): raise KeyError\nraise E",
    "a syntax error": "print('x'\n",
    "an indentation error": "if 1:\nprint(2)",
    "a syntax error in exec": "exec('1 +')",
    "a null byte": "print(1)\0",
    "bytes that are no UTF-8": "print('\udcff')",
    "Latin 1": "# -*- coding: latin-1 -*-\nprint(len('\udcfc'))",
    "a warning": "import warnings; warnings.warn('careful')",
    "a warning of the compiler": "print('\\d', 1 is 1)",
    "recursion": "def f(): f()\ntry: f()\nexcept RecursionError as e: print(e)",
    "an excepthook": "import sys\nsys.excepthook = lambda *a: print('hooked', a[1])\n1 / 0",
    "a future statement": "from __future__ import annotations\ndef f(x: y): pass\nprint(f.__annotations__)",
    "assert": "assert 1 == 2, 'no'",
    # What it can start and import
    "a subprocess": "import subprocess; print(subprocess.run(['echo', 'hi'], capture_output=True))",
    "a shell": "import os; print(os.system('echo $0; exit 3'))",
    "a child that inherits": "import os, sys; sys.stdout.flush(); os.system('cat')",
    "a fork": "import os\nif os.fork() == 0: print('child'); os._exit(0)\nprint(os.wait()[1])",
    "a fork that ends as the script": "import os, sys\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('both')",
    "processes": "import multiprocessing as m\nif __name__ == '__main__':\n    with m.Pool(2) as p: print(p.map(abs, [-1, 2]))",
    "spawned processes": "import multiprocessing as m\nif __name__ == '__main__':\n"
    "    p = m.get_context('spawn').Process(target=print, args=('spawned',)); p.start(); p.join()",
    "asyncio": "import asyncio\nasync def f(): await asyncio.sleep(0); print('x')\nasyncio.run(f())",
    "a child by asyncio": "import asyncio\nasync def f(): print(await (await asyncio.create_subprocess_exec('true')).wait())\n"
    "asyncio.run(f())",
    "an import that is not there": "import nothing_of_this_name",
    "a sibling": "import sibling; print(sibling.VALUE, sibling.__file__)",
    "a sibling that fails": "import failing",
    "a sibling of a folder": "import folder.inner as i; print(i.__name__)",
    "pickle": "import pickle\nclass A: pass\nprint(pickle.loads(pickle.dumps(A())).__class__)",
    "dataclasses": "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int = 1\nprint(A())",
    "typing": "from typing import NamedTuple, get_type_hints\nclass A(NamedTuple):\n    x: 'int'\nprint(get_type_hints(A), A.__module__)",
    "enum": "import enum\nclass A(enum.Enum):\n    X = 1\nprint(repr(A.X))",
    "logging": "import logging; logging.basicConfig(level=10, format='%(filename)s %(lineno)d %(message)s'); logging.info('x')",
    "argparse": "import argparse; argparse.ArgumentParser().parse_args()",
    "tempfile": "import tempfile; t = tempfile.NamedTemporaryFile(); print(len(t.name) > 3)",
    "sqlite": "import sqlite3; print(sqlite3.connect(':memory:').execute('select 1').fetchall())",
    "runpy": "import runpy; print(runpy.run_path('sibling.py')['VALUE'])",
    "its source": "print(open(__file__).read())",
    "settings of the interpreter": "import sys, gc; print(sys.getrecursionlimit(), sys.getswitchinterval(), gc.isenabled())",
}
# fmt: on


def siblings(root: Path) -> None:
    """Write the modules that scripts of the table import."""
    (root / "sibling.py").write_text("VALUE = 'sibling'\n")
    (root / "failing.py").write_text("def f():\n    1 / 0\nf()\n")
    (root / "folder").mkdir(exist_ok=True)
    (root / "folder" / "inner.py").write_text("")


@pytest.mark.slow
@pytest.mark.parametrize("text", SAME.values(), ids=SAME.keys())
def test_a_script_does_the_same_plainly_and_warm_and_warm_behind_a_shield(
    benches: dict[str, Bench], shared: Bench, text: str
) -> None:
    siblings(shared.root)
    path = shared.script(text)
    plainly = seen(shared.call(path, warm=False))
    assert {name: seen(bench.call(path)) for name, bench in benches.items()} == dict.fromkeys(
        benches, plainly
    )


def test_a_call_does_not_see_what_another_left(shared: Bench) -> None:
    dirty = shared.script(
        "import builtins, json, os, re, sys, random\n"
        "print(hasattr(json, 'mark'), hasattr(builtins, 'mark'), 'MARK' in os.environ, os.getcwd(), random.random())\n"
        "json.mark = builtins.mark = 1; os.environ['MARK'] = '1'; os.chdir('/'); os.umask(0o77); random.seed(1)\n"
    )
    first, second = (shared.call(dirty).stdout.split() for _ in range(2))
    assert first[:4] == second[:4] == [b"False", b"False", b"False", str(shared.root).encode()]
    assert first[4] != second[4]


def test_a_changed_script_is_the_one_that_runs(shared: Bench) -> None:
    for number in range(4):
        assert shared.call(shared.script(f"print({number})", "changes.py")).stdout == b"%d\n" % number


def test_a_changed_sibling_is_the_one_that_is_imported(shared: Bench) -> None:
    path = shared.script("import changing; print(changing.VALUE)", "imports.py")
    for number in (1, 22, 333):
        (shared.root / "changing.py").write_text(f"VALUE = {number}\n")
        assert shared.call(path).stdout == b"%d\n" % number


def test_a_script_without_its_run_bit_says_so_warm_as_plainly(shared: Bench) -> None:
    path = shared.script("print(1)", "bitless.py")
    path.chmod(0o644)
    with pytest.raises(Exception, match="it has no run bit"):
        shared.call(path)


@pytest.mark.parametrize(
    "line",
    [
        "#!/bin/sh",
        f"#!{PYTHON} -u",
        "#!/usr/bin/env -S python3 -u",
        f"#!{PYTHON}\r",
        "#!python3",
        "#!/no/python3",
    ],
)
def test_another_first_line_is_left_to_the_kernel(shared: Bench, line: str) -> None:
    path = shared.root / "other"
    path.write_bytes(f"{line}\necho $PPID # {PARENT}\n".replace("# import", "\nimport").encode())
    path.chmod(0o755)

    def outcome(warm: bool) -> object:
        try:
            return seen(shared.call(path, warm))[:2]
        except Exception as error:
            return str(error)

    assert outcome(True) == outcome(False)


@pytest.mark.parametrize(
    "given",
    [
        {"stdin": b""},
        {"env": {**ENVIRONMENT, "PYTHONPATH": "x"}},
    ],
    ids=["no bytes to read", "a path that depends on the folder"],
)
def test_what_a_fork_cannot_reproduce_starts_plainly(shared: Bench, given: dict[str, Any]) -> None:
    path = shared.script(PARENT, "parent.py")
    assert int(shared.call(path, **given).stdout) == os.getpid()


def test_a_variable_of_the_interpreter_has_its_effect_in_each_call(bench: Bench) -> None:
    path = bench.script("import sys, warnings\nprint(sys.warnoptions)\nwarnings.warn('careful')")
    bench.environment = {**ENVIRONMENT, "PYTHONWARNINGS": "error", "PYTHONUNBUFFERED": "1"}
    bench.heat()
    assert seen(bench.call(path)) == seen(bench.call(path, warm=False))
    assert b"UserWarning: careful" in bench.call(path).stderr


@pytest.mark.slow
@pytest.mark.parametrize("confine", SHIELDS.values(), ids=SHIELDS.keys())
def test_a_call_that_hangs_is_ended_with_its_children(
    shared: Bench, confine: Shield | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A script that a busy machine holds up is not killed before it has heard SIGTERM, and its end is heard of.
    monkeypatch.setattr("instar.process.child.GRACE", SOON)
    monkeypatch.setattr("instar.process.child.DRAIN", SOON)
    shared.heat(confine=confine)
    path = shared.script(
        "import os, subprocess, sys\n"
        "p = subprocess.Popen(['sleep', '60']); print(os.getpid(), p.pid, flush=True); p.wait()"
    )
    began = time.monotonic()
    output = shared.call(path, timeout=3, confine=confine)
    assert time.monotonic() - began < 2 * SOON
    assert (output.timed_out, output.signal) == (True, signal.SIGTERM)
    assert not any(lives(int(pid)) for pid in output.stdout.split())


def test_cancelling_ends_a_warm_call_within_a_second(shared: Bench) -> None:
    path = shared.script(
        "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True); time.sleep(60)"
    )

    async def cancelled() -> float:
        heard = bytearray()
        call = asyncio.ensure_future(shared.calling(path, on_output=heard.extend))
        while b"\n" not in heard:
            await asyncio.sleep(0.005)
        began = time.monotonic()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        took = time.monotonic() - began
        assert not lives(int(heard))
        return took

    assert shared.runner.run(quickest(cancelled, 1.0)) < 1.0


def test_a_warm_script_behind_a_shield_begins_with_little_more_work_than_a_free_one(
    benches: dict[str, Bench],
) -> None:
    """What confines forks is loaded and made ready once: a fork that loads it works twice to six times as long."""
    path = benches["free"].script("import time; print(time.process_time())", "work.py")

    def work(bench: Bench) -> float:
        return min(float(bench.call(path).stdout) for _ in range(20))

    free = work(benches["free"])
    for name in LEVELS:
        assert work(benches[name]) < free * 1.8, name


DAEMON = (
    "import os, sys, time\n"
    "r, w = os.pipe()\n"
    "if os.fork() == 0:\n"
    "    os.setsid()\n"
    "    if os.fork() == 0:\n"
    "        os.write(w, str(os.getpid()).encode())\n"
    "        for fd in (0, 1, 2): os.close(fd)\n"
    "        time.sleep(60)\n"
    "    os._exit(0)\n"
    "os.wait(); print(os.read(r, 99).decode())\n"
)


@pytest.mark.parametrize("confine", SHIELDS.values(), ids=SHIELDS.keys())
@pytest.mark.parametrize("warm", [False, True], ids=["plainly", "warm"])
@pytest.mark.parametrize(
    "program",
    [
        DAEMON,
        # It ends when the daemon has said which process it is.
        """import os; os.system("setsid -f sh -c 'echo $$; exec sleep 60 >/dev/null 2>&1' | head -n 1")""",
    ],
)
def test_a_daemon_ends_with_the_call_that_left_it(
    shared: Bench, warm: bool, program: str, confine: Shield | None
) -> None:
    if warm:
        shared.heat(confine=confine)
    pid = int(shared.call(shared.script(program, "daemon.py"), warm, confine=confine).stdout)
    until(lambda: not lives(pid))


@pytest.mark.parametrize("level", LEVELS)
def test_the_anchor_of_a_first_call_holds_none_of_its_streams(bench: Bench, level: Name) -> None:
    script = bench.script(
        "import os, time\n"
        "open('told', 'w').write('%s %s' % (os.getppid(), os.readlink('/proc/self/fd/1')))\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
    )
    told = bench.root / "told"

    def look() -> tuple[str, set[str]]:
        until(lambda: told.exists() and " " in told.read_text())
        anchor, stdout = told.read_text().split()
        held = {os.readlink(one) for one in Path(f"/proc/{anchor}/fd").iterdir()}
        (bench.root / "go").touch()
        return stdout, held

    async def play() -> tuple[str, set[str]]:
        call = asyncio.ensure_future(bench.calling(script, warm=False, confine=SHIELDS[level]))
        seen = await asyncio.to_thread(look)
        assert (await call).code == 0
        return seen

    stdout, held = bench.runner.run(play())
    assert stdout not in held


@pytest.mark.slow
def test_sixty_four_calls_at_once_get_their_own_answers(shared: Bench) -> None:
    path = shared.script("import sys; print(sys.argv[1], sys.stdin.read())", "echo.py")

    async def all_of_them() -> list[Output]:
        calls = (shared.calling(path, args=[str(n)], stdin=b"x%d" % n) for n in range(64))
        return await asyncio.gather(*calls)

    printed = [output.stdout for output in shared.runner.run(all_of_them())]
    assert printed == [b"%d x%d\n" % (n, n) for n in range(64)]


def test_ten_megabytes_go_through_a_warm_call(shared: Bench) -> None:
    path = shared.script(
        "import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)", "cat.py"
    )
    data = os.urandom(10 << 20)
    output = shared.call(path, stdin=data, limit=len(data))
    assert output.stdout == data
    assert shared.call(path, stdin=data, limit=1000).truncated


def test_streams_can_be_merged(shared: Bench) -> None:
    path = shared.script("import os; os.write(1, b'1'); os.write(2, b'2'); os.write(1, b'3')", "merge.py")
    assert shared.call(path, merge=True).stdout == b"123"


def held(pid: int) -> list[str]:
    """The kinds of what a process has open; none where one of them was closed meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        folder = f"/proc/{pid}/fd"
        return [os.readlink(f"{folder}/{fd}").split(":")[0] for fd in os.listdir(folder)]
    return []


HELD = {"pipe", "socket", "/dev/null", "anon_inode"}
"""The kinds of what an interpreter has open between calls."""


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.slow
def test_two_hundred_calls_leave_no_descriptor_and_no_zombie(shared: Bench) -> None:
    path, long = (
        shared.script("print(1)", "short.py"),
        shared.script("import time; time.sleep(0.1)", "long.py"),
    )
    # The guard starts with the first child that is seen to take a moment, and stays.
    while not shared.processes._guard._pid:
        shared.call(long)
    zygote = shared.heat()

    def left() -> tuple[int, int, int]:
        return len(os.listdir("/proc/self/fd")), len(os.listdir(f"/proc/{zygote}/fd")), len(children(zygote))

    # After a call it looks through its own children, by a file that it opens for a moment.
    until(lambda: left()[2] == 1 and set(held(zygote)) == HELD)
    before = left()
    for _ in range(200):
        assert shared.call(path).stdout == b"1\n"
    until(lambda: left() == before)


def test_an_interpreter_takes_twenty_megabytes_at_most_and_holds_no_secret(bench: Bench) -> None:
    bench.environment = {**ENVIRONMENT, "MY_TOKEN": "s3cr3t"}
    zygote = bench.heat()
    status = Path(f"/proc/{zygote}/status").read_text()
    assert int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) <= 20_000
    assert b"s3cr3t" not in Path(f"/proc/{zygote}/environ").read_bytes()
    # The way to instar, and that to the fork that waits.
    until(lambda: set(held(zygote)) == HELD and held(zygote).count("socket") == 2)
    path = bench.script("import os; print(os.environ['MY_TOKEN'])")
    assert bench.call(path).stdout == b"s3cr3t\n"


@pytest.mark.slow
def test_an_interpreter_that_dies_between_calls_is_started_anew(bench: Bench) -> None:
    first = bench.heat()
    os.kill(first, signal.SIGKILL)
    until(lambda: not lives(first))
    second = bench.heat()
    assert second != first


def test_a_call_whose_waiting_fork_was_killed_is_made_all_the_same(bench: Bench) -> None:
    zygote = bench.heat()
    for whole in (True, False, True):
        until(lambda: len(children(zygote)) == 1 and bool(children(children(zygote)[0])))
        (anchor,) = children(zygote)
        os.kill(anchor if whole else children(anchor)[0], signal.SIGKILL)
        assert bench.call(bench.script("print('well')")).stdout == b"well\n"
    assert bench.heat() == zygote


def test_an_interpreter_that_can_make_no_fork_lives_on_and_calls_start_plainly(bench: Bench) -> None:
    zygote = bench.heat()
    limits = resource.prlimit(zygote, resource.RLIMIT_NOFILE)
    resource.prlimit(zygote, resource.RLIMIT_NOFILE, (4, limits[1]))
    for _ in range(3):
        assert bench.parent() == os.getpid()
    resource.prlimit(zygote, resource.RLIMIT_NOFILE, limits)
    assert bench.heat() == zygote


def test_a_call_whose_interpreter_dies_is_ended_as_by_the_kernel(bench: Bench) -> None:
    zygote = bench.heat()
    path = bench.script(
        f"import os, time; print(os.getpid(), flush=True); os.kill({zygote}, 9); time.sleep(60)"
    )
    output = bench.call(path)
    assert output.signal == signal.SIGKILL
    until(lambda: not lives(int(output.stdout)))
    assert bench.call(bench.script("print('well')")).stdout == b"well\n"


def test_a_package_that_is_installed_later_is_found(bench: Bench, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    bench.environment = {**ENVIRONMENT, "PYTHONPATH": str(library)}
    bench.heat()
    path = bench.script("import later; print(later.VALUE)")
    assert bench.call(path).code == 1
    (library / "later.py").write_text("VALUE = 5")
    assert bench.call(path).stdout == b"5\n"


@pytest.mark.slow
def test_the_interpreter_that_was_used_longest_ago_makes_room(bench: Bench) -> None:
    def heat(number: int, confine: Shield | None = None) -> int:
        return bench.heat(env={**ENVIRONMENT, "TZ": f"UTC{number}"}, confine=confine)

    shield = next(iter(reversed(SHIELDS.values())))
    first, *others = heat(0), heat(0, shield), *(heat(number) for number in range(1, MOST - 1))
    assert len({first, *others}) == MOST
    assert heat(0) == first
    heat(MOST)
    until(lambda: not lives(others[0]))
    assert all(lives(pid) for pid in (first, *others[1:]))


def test_interpreters_end_with_the_runtime(bench: Bench) -> None:
    zygote = bench.heat()
    until(lambda: len(children(zygote)) == 1 and bool(children(children(zygote)[0])))
    forks = [child for anchor in children(zygote) for child in (anchor, *children(anchor))]
    bench.runner.run(bench.processes.close())
    assert not lives(zygote)
    until(lambda: not any(map(lives, forks)))


def test_a_first_call_does_not_wait_for_the_interpreter(bench: Bench) -> None:
    assert bench.parent() == os.getpid()


@pytest.mark.slow
def test_a_shim_is_asked_once_and_its_variables_are_seen(bench: Bench, tmp_path: Path) -> None:
    shims = tmp_path / "shims"
    shims.mkdir()
    count = tmp_path / "count"
    shim = bench.script("", "shims/python3")
    shim.write_text(f'#!/bin/sh\necho x >>{count}\nexport SHIM_SAYS=here\nexec {PYTHON} "$@"\n')
    bench.environment = {**ENVIRONMENT, "PATH": f"{shims}:/usr/bin:/bin"}
    path = bench.script(PARENT, "parent.py", "/usr/bin/env python3")
    bench.heat(path)
    asked = count.read_text()
    asks = bench.script(
        "import os; print(os.environ['SHIM_SAYS'], 'PWD' in os.environ)", "asks.py", "/usr/bin/env python3"
    )
    assert bench.call(asks).stdout == b"here True\n"
    assert count.read_text() == asked
    shim.write_text(shim.read_text().replace("=here", "=there"))
    assert bench.call(asks).stdout.startswith(b"there")


class Policy:
    """A confinement by a policy of each fork alone; how a child is wrapped shows in its output."""

    def __init__(self, policy: bytes | None) -> None:
        self.bytes = policy

    def wrap(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, lasting: bool = False
    ) -> Wrapped:
        echo = [] if lasting else ["sh", "-c", 'echo wrapped; exec "$@"', "sh"]
        return Wrapped([*echo, *argv], env)

    def shared(self, env: Mapping[str, str], cwd: Path) -> "Policy | None":
        return None if self.bytes is None else self

    def environment(self, env: Mapping[str, str]) -> Mapping[str, str]:
        return env

    def policy(self) -> confine.Policy:
        return confine.Policy(self.bytes or b"", landlock.__file__)

    def alone(self) -> None:
        """Nothing else confines it."""

    def state(self, pid: int) -> bytes:
        return b""


def test_a_warm_call_confines_itself_before_the_script_begins(bench: Bench) -> None:
    path = bench.script("import resource\nprint(resource.getrlimit(resource.RLIMIT_CPU))", "confined.py")
    bench.confine = Policy(landlock.encode(limits={"CPU": 7}))
    bench.heat()
    assert bench.call(path).stdout == b"(7, 7)\n"
    assert bench.call(path, confine=None).stdout != b"(7, 7)\n"


@pytest.mark.slow
@pytest.mark.parametrize("policy", [None, b"no policy"], ids=["none", "one that cannot be applied"])
def test_a_call_that_cannot_confine_itself_is_wrapped(shared: Bench, policy: bytes | None) -> None:
    path, confine = shared.script("print('ran')", "wrapped.py"), Policy(policy)
    # Long enough for an interpreter to become warm, where one does.
    assert {shared.call(path, confine=confine).stdout for _ in range(12)} == {b"wrapped\nran\n"}


KILLED = """
import asyncio, os, sys
from pathlib import Path
from instar.process import Processes
from instar.sandbox.probe import find_level
from instar.sandbox.shield import Shield

def show(data):
    print(data.decode(), flush=True)

async def main():
    processes, path = Processes(), Path(sys.argv[1])
    bash = "sleep 60 & echo $$ $!; setsid -f sh -c 'echo $$; exec sleep 60'; wait"
    level = await find_level(processes, os.environ, sys.argv[2])
    shield = Shield(level, (), (Path("/usr/share"),))
    running = asyncio.ensure_future(processes.run(["sh", "-c", bash], cwd=path.parent, on_output=show))
    while True:
        await processes.run([str(path)], cwd=path.parent, stdin=b"x", warm=True, on_output=show, confine=shield)

asyncio.run(main())
"""
STAYS = """
import os, time
parent = int(open('/proc/self/stat').read().rsplit(')', 1)[1].split()[1])
if b'zygote' in open('/proc/%d/cmd' % parent + 'line', 'rb').read():
    print('warm', os.getpid(), parent, flush=True)
    time.sleep(60)
"""
"""Stays when it runs warm; its text has no word by which it would be started plainly."""


def guarded(instar: int) -> bool:
    children = Path(f"/proc/{instar}/task/{instar}/children").read_text().split()
    return any(b"instar-guard.sh" in running.arguments(int(pid)) for pid in children)


@pytest.mark.slow
@pytest.mark.parametrize("level", ["none", *LEVELS])
def test_nothing_goes_on_when_instar_itself_is_killed(bench: Bench, level: str) -> None:
    path = bench.script(STAYS)
    instar = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), level], stdout=subprocess.PIPE, text=True
    )
    assert instar.stdout is not None
    heard = ""
    while "warm" not in heard or len(heard.split()) < 6:
        line = instar.stdout.readline()
        assert line, "it ended by itself"
        heard += line
    pids = [int(word) for word in heard.split() if word != "warm"]
    until(lambda: guarded(instar.pid))
    assert all(lives(pid) for pid in pids)
    instar.kill()
    instar.wait()
    instar.stdout.close()
    until(lambda: not any(lives(pid) for pid in pids))
