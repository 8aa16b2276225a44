"""Warm scripts behind a shield: the interpreter is behind it, so is each fork, and a change outside starts another."""

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.sandbox.conftest import KEY, Home

from instar.process import Output, Processes
from instar.process.confine import Confinement
from instar.sandbox.box import Sandbox
from instar.sandbox.level import Level
from instar.sandbox.place import Copy


@pytest.fixture
def home(quiet_home: Home) -> Home:
    """The home of these tests: they compare processes that a changed confinement would replace."""
    return quiet_home


PYTHON = os.path.realpath(sys.executable)
PARENT = """
def above(pid): return int(open('/proc/%s/stat' % pid).read().rsplit(')', 1)[1].split()[1])
parent = above('self')
if b'zygote.py' in open('/proc/%s/cmdline' % parent, 'rb').read(): parent = above(parent)
"""
"""The process that a script was forked from: the parent of its call's anchor."""
SAYS = PARENT + "print('parent', parent)\n"
WRITES = SAYS + (
    "import os\n"
    "for path in 'hooks/a.py', 'hooks/new', 'prompts/new', os.environ['DATA'] + '/auth.json', 'src/free':\n"
    "    try: open(path, 'a').write('evil'); print('wrote', path)\n"
    "    except OSError: pass\n"
    "try: print(open(os.environ['DATA'] + '/auth.json').read())\n"
    "except OSError: pass\n"
)


class Scripts:
    """Scripts of the workspace's ``src``, called with bytes to read, as hooks are."""

    def __init__(self, processes: Processes, home: Home, confine: Confinement | None) -> None:
        self.processes = processes
        self.home = home
        self.confine = confine

    def write(self, text: str, python: str = PYTHON) -> Path:
        path = self.home.workspace / "src/hook.py"
        path.write_text(f"#!{python}\n{text}")
        path.chmod(0o755)
        return path

    async def call(self, path: Path) -> Output:
        env = self.home.environment()
        return await self.processes.run(
            [str(path), "idle"],
            cwd=self.home.workspace,
            env=env,
            stdin=b"{}",
            confine=self.confine,
            warm=True,
        )

    async def warmly(self, text: str, python: str = PYTHON) -> tuple[int, str]:
        """Call a script of `text`, which prints its parent, until it is warm: that parent and what it printed."""
        path, end = self.write(text, python), time.monotonic() + 20
        while True:
            output = await self.call(path)
            printed = output.stdout.decode()
            parent = int(printed.split()[1])
            if is_zygote(parent):
                return parent, printed
            assert time.monotonic() < end, output


def is_zygote(pid: int) -> bool:
    try:
        return b"zygote.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.slow
async def test_a_warm_script_reaches_no_more_than_a_fresh_one(
    processes: Processes, home: Home, level: Level
) -> None:
    before = home.guarded()
    _, printed = await Scripts(processes, home, home.shield(level)).warmly(WRITES)
    assert home.guarded() == before
    assert printed.splitlines()[1:] == ["wrote src/free"]


@pytest.mark.slow
async def test_a_script_without_a_shield_has_an_interpreter_of_its_own(
    processes: Processes, home: Home, level: Level
) -> None:
    shielded, _ = await Scripts(processes, home, home.shield(level)).warmly(SAYS)
    free, printed = await Scripts(processes, home, None).warmly(WRITES)
    assert shielded != free
    assert "wrote hooks/a.py" in printed
    assert (await Scripts(processes, home, home.shield(level)).warmly(SAYS))[0] != free


async def changed(scripts: Scripts, change: Callable[[], object]) -> tuple[int, int, str]:
    """The interpreter before and after `change` from outside, and what the first warm call after it printed."""
    first, _ = await scripts.warmly(WRITES)
    change()
    second, printed = await scripts.warmly(WRITES)
    return first, second, printed


@pytest.mark.slow
async def test_a_guarded_folder_that_was_made_anew_is_guarded(
    processes: Processes, home: Home, level: Level
) -> None:
    hooks = home.workspace / "hooks"

    def anew() -> None:
        shutil.rmtree(hooks)
        hooks.mkdir()
        (hooks / "a.py").write_text("new\n")

    scripts = Scripts(processes, home, home.shield(level))
    first, second, printed = await changed(scripts, anew)
    # Landlock names what may be written: what is made anew is not among it, and the interpreter may stay.
    assert first != second or level.name == "landlock"
    assert printed.splitlines()[1:] == ["wrote src/free"]
    assert (hooks / "a.py").read_text() == "new\n"


@pytest.mark.slow
async def test_a_link_that_is_new_leads_to_what_is_guarded(
    processes: Processes, home: Home, level: Level
) -> None:
    dots = home.path / "dots"
    dots.mkdir()

    def link() -> None:
        if (home.workspace / "prompts").is_dir():
            (home.workspace / "prompts").rmdir()
        (home.workspace / "prompts").symlink_to(dots)

    first, second, printed = await changed(Scripts(processes, home, home.shield(level)), link)
    assert first != second
    assert printed.splitlines()[1:] == ["wrote src/free"]
    assert not list(dots.iterdir())


@pytest.mark.slow
async def test_a_folder_that_was_replaced_can_be_written_as_by_a_fresh_script(
    processes: Processes, home: Home, level: Level
) -> None:
    def replace() -> None:
        (home.workspace / "notes").rmdir()
        (home.workspace / "notes").mkdir()

    script = SAYS + "open('notes/x', 'w').write('x')\nprint('wrote')\n"
    scripts = Scripts(processes, home, home.shield(level))
    await scripts.warmly(SAYS)
    replace()
    assert "wrote" in (await scripts.warmly(script))[1]


async def test_a_script_cannot_trace_or_read_the_interpreter_that_it_was_forked_from(
    processes: Processes, home: Home, level: Level
) -> None:
    script = SAYS + (
        "import ctypes\n"
        "print('traced', ctypes.CDLL(None).ptrace(16, parent, 0, 0))\n"
        "try: open(f'/proc/{parent}/mem', 'rb'); print('read')\n"
        "except OSError: print('refused')\n"
    )
    _, printed = await Scripts(processes, home, home.shield(level)).warmly(script)
    assert printed.splitlines()[1:] == ["traced -1", "refused"]


async def test_an_interpreter_that_a_script_brings_is_behind_the_shield_itself(
    processes: Processes, home: Home, level: Level
) -> None:
    evil = home.workspace / "src/python3"
    kept = home.workspace / "src/started"
    data, hooks = shlex.quote(str(home.data)), shlex.quote(str(home.workspace / "hooks"))
    evil.write_text(
        f'#!/bin/sh\necho $* >> {kept}\necho evil > {hooks}/b.py; cat {data}/auth.json >> {kept}\nexec {PYTHON} "$@"\n'
    )
    evil.chmod(0o755)
    kept.touch()
    before = home.guarded()
    await Scripts(processes, home, home.shield(level)).warmly(SAYS, str(evil))
    assert home.guarded() == before
    assert "zygote.py" in kept.read_text()
    assert KEY not in kept.read_text()


@pytest.mark.slow
async def test_code_that_nobody_has_read_is_never_run_warm(
    processes: Processes, home: Home, level: Level, copied: Copy
) -> None:
    scripts = Scripts(processes, home, Sandbox(level, copied, readable=(Path(sys.base_prefix),)))
    path = copied.folder / "src/hook.py"
    path.write_text(f"#!{PYTHON}\nimport os\nprint(os.path.exists('/proc/self'), 'ran')\n")
    path.chmod(0o755)
    for _ in range(10):
        assert b"ran" in (await scripts.call(path)).stdout
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not any(is_zygote(int(pid)) for pid in children)
