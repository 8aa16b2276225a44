"""What a hostile clone brings that no program of instar's may stumble over: names, sizes, links, and git's own files.

An untrusted clone is looked at by `instar` as its owner would: nothing of it runs, nothing controls the terminal, and
each command ends in time with a sentence of its own.
"""

import os
import resource
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests import started
from tests.campaign.siege.case import Case, Ended, judged, product
from tests.sandbox.siege import call_of

from instar.testing import Machine

ESCAPES: Final = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
CONTROLS: Final = ("\x1b", "\x07", "\x9b", "\u202e")
SECONDS: Final = 60.0
PYTHON: Final = "__import__('pathlib').Path('TRACE').write_text('x')\n"
COMMANDS: Final = (
    ("run", "-m", "scripted/x", "hi"),
    ("agent", "list"),
    ("config", "check"),
    ("hooks", "check"),
    ("trust", "diff"),
)
"""What the owner of the clone may say first. None of it trusts the folder."""

MEMORY: Final = 4 << 30
"""Bytes of addresses that a command may have."""

Make = Callable[[Path], object]


def put(name: str, held: str | bytes) -> Make:
    """Return what writes one file."""

    def make(folder: Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held if isinstance(held, bytes) else held.encode("utf-8", "surrogateescape"))

    return make


def link(name: str, to: str) -> Make:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(to)

    return make


def pipe(name: str) -> Make:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(folder / name)

    return make


def large(name: str) -> Make:
    """Return what makes a file of 4 GB of which nothing is on the disk."""

    def make(folder: Path) -> None:
        put(name, "{")(folder)
        os.truncate(folder / name, 4 << 30)

    return make


LAUGHS: Final = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{two}: &{two} [{', '.join([f'*{one}'] * 9)}]\n" for one, two in zip("abcdefgh", "bcdefghi", strict=True)
)
DEEP: Final = "[" * 200_000

FILES: Final[dict[str, Make]] = {
    "escapes in a plugin's name": put(f".instar/plugins/x{ESCAPES.replace('/', '')}.py", PYTHON),
    "a line's end in a plugin's name": put(".instar/plugins/x\ninstar: all is well.py", PYTHON),
    "escapes in an agent's name": put(f".opencode/agent/a{ESCAPES}.md", "---\ndescription: x\n---\ny\n"),
    "escapes in an agent's description": put(
        ".opencode/agent/a.md", f"---\ndescription: x{ESCAPES}\n---\n{ESCAPES}\n"
    ),
    "a line's end in a command's name": put(".opencode/command/a\nb.md", "!`touch TRACE`\n"),
    "escapes in a key of the settings": put("instar.json", '{"x\\u001b[2J\\u009b\\u202e": 1}'),
    "escapes in a value of the settings": put("instar.json", '{"model": "x\\u001b[2J\\u009b\\u202e/y"}'),
    "escapes in a server's name": put("instar.json", '{"mcp": {"x\\u001b]0;\\u0007": {"type": "local"}}}'),
    "escapes in a rule": put(
        ".instar/hooks.json", '{"Stop\\u001b[2J": [{"hooks": [{"command": "touch TRACE\\u001b"}]}]}'
    ),
    "escapes in settings that are no JSON": put("instar.json", f"{{{ESCAPES}"),
    "escapes in front matter that is wrong": put(".opencode/agent/a.md", f"---\nmode: {ESCAPES}: [\n---\n"),
    "a name that is no text": put(".instar/plugins/x\udcff\udcfe.py", PYTHON),
    "an agent's name that is no text": put(".opencode/agent/\udcff.md", "y\n"),
    "settings that are no text": put("instar.json", b"\xff\xfe{\0}\0"),
    "settings of zeros": put("opencode.json", bytes(100_000)),
    "very deep settings": put("instar.json", '{"a": ' + DEEP),
    "very deep settings with comments": put("opencode.jsonc", "// x\n" + '{"a":' * 100_000),
    "very deep rules": put(".instar/hooks.json", '{"Stop": ' + DEEP),
    "very deep front matter": put(".opencode/agent/a.md", f"---\na: {DEEP}\n---\n"),
    "front matter that grows without end": put(".opencode/agent/a.md", f"---\n{LAUGHS}---\n"),
    "very large settings": large("instar.json"),
    "very large instructions": large("AGENTS.md"),
    "a very large agent": large(".opencode/agent/a.md"),
    "very large rules": large(".claude/settings.json"),
    "a very large plugin": large(".instar/plugins/x.py"),
    "settings that are a pipe": pipe("instar.json"),
    "instructions that are a pipe": pipe("AGENTS.md"),
    "an agent that is a pipe": pipe(".opencode/agent/a.md"),
    "rules that are a pipe": pipe(".instar/hooks.json"),
    "a plugin that is a pipe": pipe(".instar/plugins/x.py"),
    "settings without an end": link("instar.json", "/dev/zero"),
    "instructions without an end": link("AGENTS.md", "/dev/zero"),
    "an agent without an end": link(".opencode/agent/a.md", "/dev/zero"),
    "rules without an end": link(".claude/settings.json", "/dev/zero"),
    "settings that lead to themselves": link("instar.json", "instar.json"),
    "a folder that leads to itself": link(".opencode/agent/a", "."),
    "a folder that leads above": link(".instar/plugins", "../.."),
    "a folder that leads to everything": link(".opencode/agent", "/"),
    "a folder in place of a file": put("instar.json/x", "y"),
    "a file in place of a folder": put(".opencode", "y"),
    "a number without an end": put("instar.json", '{"limits": {"steps": ' + "9" * 100_000 + "}}"),
    "an expression without an end": put(
        "opencode.json", '{"permission": {"bash": {"' + "*a" * 5000 + '": "deny"}}}'
    ),
    "very many agents": lambda folder: [put(f".opencode/agent/a{n}.md", "y\n")(folder) for n in range(2000)],
    "very many folders": lambda folder: put(f".opencode/agent/{'a/' * 900}x.md", "y\n")(folder),
}

MONITOR: Final = "[core]\n\tfsmonitor = touch TRACE; false\n"
WORKTREE: Final = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n"
REPOSITORY: Final = {
    "g/HEAD": "ref: refs/heads/main\n",
    "g/objects/x": "",
    "g/refs/x": "",
    "g/config": MONITOR,
}
HOOK: Final = "#!/bin/sh\ntouch TRACE\n"


def of_files(files: Mapping[str, str]) -> Make:
    return lambda folder: [put(name, held)(folder) for name, held in files.items()]


GIT: Final[dict[str, tuple[Make, Sequence[str]]]] = {
    "a file system monitor": (of_files({".git/config": MONITOR}), ("status",)),
    "a filter": (
        of_files(
            {
                ".git/config": '[filter "x"]\n\tclean = touch TRACE; cat\n\tsmudge = touch TRACE; cat\n',
                ".gitattributes": "* filter=x\n",
            }
        ),
        ("add", "."),
    ),
    "a filter that stays": (
        of_files(
            {
                ".git/config": '[filter "x"]\n\tprocess = touch TRACE\n',
                ".git/info/attributes": "* filter=x\n",
            }
        ),
        ("add", "."),
    ),
    "a diff program": (of_files({".git/config": "[diff]\n\texternal = touch TRACE\n"}), ("diff",)),
    "a diff program of some files": (
        of_files({".git/config": '[diff "x"]\n\tcommand = touch TRACE\n', ".gitattributes": "* diff=x\n"}),
        ("diff",),
    ),
    "a text of a diff": (
        of_files(
            {".git/config": '[diff "x"]\n\ttextconv = touch TRACE; cat\n', ".gitattributes": "* diff=x\n"}
        ),
        ("diff",),
    ),
    "a hook": (of_files({".git/hooks/post-index-change": HOOK}), ("add", ".")),
    "a folder of hooks": (
        of_files({".git/config": "[core]\n\thooksPath = h\n", "h/post-index-change": HOOK}),
        ("add", "."),
    ),
    "settings of a file": (
        of_files({".git/config": "[include]\n\tpath = ../extra\n", "extra": MONITOR}),
        ("status",),
    ),
    "settings of a worktree": (
        of_files({".git/config": WORKTREE, ".git/config.worktree": MONITOR}),
        ("status",),
    ),
    "settings of the branch": (
        of_files({".git/config": '[includeIf "onbranch:main"]\n\tpath = ../extra\n', "extra": MONITOR}),
        ("status",),
    ),
    "another folder of git": (of_files(REPOSITORY), ("--git-dir=g", "--work-tree=.", "status")),
}
"""Git's own files, as an archive brings them, and what of plain git shows that they do what they are meant to."""

CHANGES: Final = (
    call_of("write", {"filePath": "b.txt"}, content="new")
    + call_of("bash", {}, command="echo more >> a.txt")
    + "== turn\ntext: done\n"
)

DOORS: Final = ("names, sizes and links", "git's own files")


def cases() -> list[Case]:
    """Return the cases of a clone that no case of `repository.py` has."""
    found = product("repository", DOORS[:1], ("any",), list(FILES))
    return found + product("repository", DOORS[1:], ("any",), list(GIT))


def play(chosen: Sequence[Case], root: Path) -> list[Ended]:
    """Play cases, each on a machine of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    # What reads a file without an end must not take the machine's memory.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    try:
        return [judged(case, _played(case, root / str(number))) for number, case in enumerate(chosen)]
    finally:
        started.close()
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _machine(root: Path, make: Make) -> Machine:
    machine = Machine(root, trusted=False)
    machine.write("a.txt", "a\n")
    machine.repository()
    make(machine.folder)
    for place, _, files in os.walk(machine.folder):
        for path in (Path(place, name) for name in files):
            if (
                path.is_file()
                and not path.is_symlink()
                and path.stat().st_size < 1 << 16
                and b"TRACE" in path.read_bytes()
            ):
                path.write_bytes(path.read_bytes().replace(b"TRACE", str(root / "trace").encode()))
                path.chmod(0o755)
    return machine


def _played(case: Case, root: Path) -> str:
    root.mkdir()
    if case.door == DOORS[0]:
        machine = _machine(root, FILES[case.what])
        machine.says("== turn\ntext: hello\n")
        found = [why for words in COMMANDS if (why := _looked_at(machine, words))]
        return "; ".join([*found, *(["it ran"] if (root / "trace").exists() else [])])
    make, words = GIT[case.what]
    plain = _machine(root / "control", make)
    (plain.folder / "a.txt").write_text("b\n")
    subprocess.run(["git", *words], cwd=plain.folder, env=plain.environment, stdout=-3, stderr=-3, stdin=-3)
    if not (root / "control/trace").exists():
        return "plain git does not run it either, so it shows nothing"
    machine = _machine(root / "played", make)
    (machine.folder / "a.txt").write_text("b\n")
    machine.settings(permission={"*": "allow"})
    machine.says(CHANGES)
    found = [why for words in COMMANDS if (why := _looked_at(machine, words))]
    return "; ".join([*found, *(["it ran"] if (root / "played/trace").exists() else [])])


def _looked_at(machine: Machine, words: Sequence[str]) -> str:
    said = " ".join(words[:2])
    try:
        done = started.run([*words], cwd=machine.folder, environment=machine.environment, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return f"{said} did not end"
    printed = (done.stdout + done.stderr).decode("utf-8", "replace")
    found = [repr(one) for one in CONTROLS if one in printed]
    found += ["a traceback"] if "Traceback (most recent call last)" in printed else []
    found += ["a line of its own"] if "\ninstar: all is well" in printed else []
    found += [f"exit code {done.returncode}"] if done.returncode not in (0, 1, 2) else []
    return f"{said} gave {', '.join(found)}: {printed[-600:]!r}" if found else ""
