"""The whole story once: an agent rewrites its own hook script, end to end. `make demo` runs it.

It makes a fresh copy of examples/hello in a temporary folder and runs the real `instar run` there with the
shipped `scripted/demo` model: no key, no network. Only the model's own turns are written down (in
provider/scripts/demo.txt); what the tools answer, the refused test, the installed change and the commits are real.
The exit code is not 0 if any step of the story did not really happen.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parent / "hello"
PROMPT = "Write a note about what an instar is, and count the words in it."
BOLD, DIM, RED, GREEN, PLAIN = (
    ("\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[0m") if sys.stdout.isatty() else [""] * 5
)


class Story(Exception):
    """A step of the story did not happen."""


def must(happened: bool, what: str) -> None:
    if not happened:
        raise Story(what)


def say(mark: str, text: str, style: str = "") -> None:
    for number, line in enumerate(text.splitlines() or [""]):
        print(f"{style}{mark if number == 0 else ' ' * len(mark)} {line}{PLAIN}", flush=True)


def bytes_of(workspace: Path) -> dict[str, bytes]:
    """Every file of a workspace outside .git and state/, which instar keeps for itself."""
    files = (path for path in workspace.rglob("*") if path.is_file())
    kept = {str(path.relative_to(workspace)): path for path in files}
    return {
        name: path.read_bytes() for name, path in kept.items() if not name.startswith((".git/", "state/"))
    }


def events(environment: dict[str, str], folder: Path) -> Iterator[dict[str, Any]]:
    """Run the agent and yield its events as they come; afterwards its exit code must be 0."""
    command = [sys.executable, "-m", "instar", "run", "--model", "scripted/demo", "--format", "json", PROMPT]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield json.loads(line)
    must(process.returncode == 0, f"instar run ended with exit code {process.returncode}")


def show(part: dict[str, Any]) -> None:
    """Show one tool call: what the model asked, and what came of it."""
    state = part["state"]
    given = {name: text for name, text in state["input"].items() if name not in ("oldString", "newString")}
    say("\n→", f"{part['tool']} {json.dumps(given)}", BOLD)
    if state["status"] == "error":
        say("  ✗", state["error"], RED)
        return
    say("  ✓", state["output"], GREEN)
    if state["metadata"].get("diff"):
        say("   ", state["metadata"]["diff"], DIM)


def play(home: Path) -> None:
    workspace = home / "workspace"
    shutil.copytree(EXAMPLE, workspace, ignore=shutil.ignore_patterns("__pycache__"))
    before = bytes_of(workspace)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "INSTAR_WORKSPACE": str(workspace),
        "LANG": "C.UTF-8",
    }
    say("$", f'instar run "{PROMPT}"', BOLD)
    calls, last = [], ""
    for event in events(environment, home):
        part = event.get("part", {})
        if event["type"] == "text":
            say("\n●", part["text"])
            last = part["text"]
        elif event["type"] == "tool_use":
            show(part)
            calls.append(part)
            if len(calls) == 1:
                must(
                    bytes_of(workspace) == before,
                    "a refused change leaves the workspace byte for byte as it was",
                )
                say("   ", "(the workspace is byte for byte as it was)", DIM)
    check(calls, last, before, workspace)


def check(calls: list[dict[str, Any]], last: str, before: dict[str, bytes], workspace: Path) -> None:
    """Each step of the story really happened, or `Story`."""
    names = [call["tool"] for call in calls]
    told = ["evolve_hook_edit", "evolve_hook_edit", "hello_note_write", "hello_note_count"]
    must(names == told, f"the model's calls were {names}")
    refused, installed, _, counted = (call["state"] for call in calls)
    must(
        refused["status"] == "error" and "hello_test.py" in refused["error"],
        "the first change is refused by its test",
    )
    must(installed["status"] == "completed", "the second change is installed")
    must(b"note_count" in (workspace / "hooks/hello.py").read_bytes(), "the hook script holds the new tool")
    must(b"note_count" not in before["hooks/hello.py"], "the tool is new")
    must(counted["status"] == "completed" and counted["output"] == "8", "the new tool counts 8 words")
    must("8 words" in last, "the answer tells the count")
    done = subprocess.run(
        ["git", "log", "--oneline"], cwd=workspace, capture_output=True, text=True, check=True
    )
    say("\n$", "git log --oneline", BOLD)
    say(" ", done.stdout)
    subjects = [line.partition(" ")[2] for line in reversed(done.stdout.splitlines())]
    must(len(subjects) == 3 and subjects[0] == "initial", f"the workspace's commits are {subjects}")
    must("hello.py" in subjects[1], "the change of the hook script is a commit of its own")


def main() -> int:
    """Play the story in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="instar-demo-") as home:
        try:
            play(Path(home))
        except Story as missing:
            say("\n✗", f"The demo failed. This did not happen: {missing}", RED)
            return 1
    say("\n✓", "The agent gave itself a tool: tested, refused once, installed, committed, and used.", GREEN)
    command = Path(sys.executable).with_name("instar")
    print(
        f"\nNext, a workspace of your own: {command} init FOLDER   (docs/tutorials/first-agent.md goes on from there)"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
