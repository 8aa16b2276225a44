"""A model that nobody here wrote changes its own hook script, through the tools, the gate and git: `make real`.

The model is Gemma 3 with 270 million parameters, as it was pretrained: it was never taught to talk or to call tools.
llama.cpp's server runs it. The system prompt shows it three changes of other scripts; the server's grammar holds its
calls to the tools' schemas. ``RECORD=1`` writes what happened into docs/guides/small-models.md.

INSTAR_SMALL names the environment of Python into which the server and the weights were installed.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from instar.testing import Machine

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "guides" / "small-models.md"
BEGIN, END = "<!-- begin small model: make real RECORD=1 -->\n", "<!-- end -->"
PATIENCE = 180.0
"""Seconds for one turn, or for the server's end: the five turns stay below a quarter of an hour."""

SCRIPT = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "bot", "test": "bot_test.sh", "tools": [{"name": "hello", "description": "Greets."}]}' ;;
mutate_request) cat config/prompt.json ;;
execute_tool) echo '{"result": "Hello"}' ;;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""
TEST = """\
#!/bin/sh
said=$(echo '{}' | hooks/bot.sh execute_tool)
case "$said" in
*Bye*) echo "a greeting does not say Bye"; exit 1 ;;
*result*) ;;
*) echo "it says nothing"; exit 1 ;;
esac
"""
TOLD = "You are Bot. Read your script bot.sh, edit it, call bot_hello, and say what it answers."
TOOLS = ("evolve_hook_read", "evolve_hook_edit", "bot_hello")
STOP = ["</tool_call>", "\nUser:"]
"""The model would go on with what the tool answers, and with what the person says next."""


class Turn(NamedTuple):
    """What came of one prompt: the calls' parts, the seconds it took, the tokens, and what the log has of the gate."""

    session: str
    asked: str
    calls: list[dict[str, Any]]
    seconds: float
    requests: list[dict[str, Any]]
    gate: list[dict[str, Any]]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the server, as a provider's settings have it."""
    small = Path(os.environ["INSTAR_SMALL"]).absolute()
    log = tmp_path_factory.mktemp("server") / "log.txt"
    command = [
        small / "bin/python",
        HERE / "small_server.py",
        small / "model.gguf",
        HERE / "transcript.jinja",
    ]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        # The library's own log lines come between.
        address = next(
            (found[0] for line in child.stdout if (found := re.search(r"http://[\d.:]+$", line))), ""
        )
        assert address, log.read_text()
        yield f"{address}/v1"
        child.stdin.close()
        child.wait(PATIENCE)


class Bot(Machine):
    """A person's machine with a workspace of one script, and an agent that has three tools."""

    def __init__(self, root: Path, url: str, prompt: str, **options: Any) -> None:
        super().__init__(root)
        self.log = root / "requests.jsonl"
        self.told = 1  # The first entry is the commit of what was there.
        self.environment["INSTAR_LOG_REQUESTS"] = str(self.log)
        told = json.dumps({"system": [prompt]})
        self.place = self.workspace(
            {"hooks/bot.sh": SCRIPT, "tests/bot_test.sh": TEST, "config/prompt.json": told}
        )
        model = {"limit": {"context": 8192, "output": 100}, "options": {"stop": STOP, "seed": 1, **options}}
        small = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": url},
            "models": {"gemma": model},
        }
        agent = {"temperature": 0, "steps": 4, "tools": {"*": False, **dict.fromkeys(TOOLS, True)}}
        self.settings(provider={"small": small}, agent={"bot": agent})

    def command(self, *arguments: str, codes: Sequence[int] = (0,)) -> "subprocess.CompletedProcess[str]":
        """Run ``instar ARGUMENTS`` to its end, which one of these exit codes tells."""
        done = subprocess.run(
            [sys.executable, "-m", "instar", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode in codes, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def ask(self, text: str, *more: str) -> Turn:
        """Prompt the model; a turn that its steps ended has exit code 1."""
        words = ("run", "-m", "small/gemma", "--agent", "bot", "--title", "A greeting", "--format", "json")
        began = time.monotonic()
        done = self.command(*words, *more, text, codes=(0, 1))
        seconds = time.monotonic() - began
        events = [json.loads(line) for line in done.stdout.splitlines()]
        calls = [event["part"] for event in events if event["type"] == "tool_use"]
        requests = [json.loads(line) for line in self.log.read_text().splitlines()]
        self.log.unlink()
        told = self.timeline()
        gate, self.told = told[self.told :], len(told)
        asked = f"{text}, in the same session" if more else text
        return Turn(events[0]["sessionID"], asked, calls, seconds, requests, gate)

    def timeline(self) -> list[dict[str, Any]]:
        """What `instar evolve log` says, oldest first."""
        return json.loads(self.command("evolve", "log", "--json").stdout)["changes"][::-1]

    def hook(self) -> str:
        """The script as it is now."""
        return (self.place / "hooks/bot.sh").read_text()


def test_a_small_model_changes_its_own_script_and_the_gate_holds_it(tmp_path: Path, url: str) -> None:
    first = Bot(tmp_path / "first", url, examples())
    greeted = first.ask("Change Hello to Good evening")
    holds(first, [greeted])
    assert [call["tool"] for call in greeted.calls] == list(TOOLS)
    assert greeted.calls[-1]["state"]["output"] == "Good evening"

    second = Bot(tmp_path / "second", url, examples())
    refused = second.ask("Change Hello to Bye")
    holds(second, [refused])
    assert second.hook() == SCRIPT
    # Not always does it get out of a refusal: what it reads of the one word, it writes again.
    again = second.ask("Change Hello to Bonjour", "-s", refused.session)
    holds(second, [refused, again])

    third = Bot(tmp_path / "third", url, examples())
    free = third.ask("Greet in French")
    holds(third, [free])

    fourth = Bot(tmp_path / "fourth", url, TOLD, tool_choice="required")
    bare = fourth.ask("Change Hello to Bonjour")
    holds(fourth, [bare])

    table = report({"three examples": [greeted, refused, again, free], "no example": [bare]})
    print(table)
    if os.environ.get("INSTAR_RECORD"):
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}{table}{END}{rest.partition(END)[2]}")


def holds(bot: Bot, turns: list[Turn]) -> None:
    """Whatever the model says: each call is stored with its end, and what passed the gate is what stands there."""
    calls = [call for turn in turns for call in turn.calls]
    stored = json.loads(bot.command("export", turns[0].session).stdout)
    kept = [part for one in stored["messages"] for part in one["parts"] if part["type"] == "tool"]
    assert [part["callID"] for part in kept] == [call["callID"] for call in calls]
    assert all(part["state"]["status"] in ("completed", "error") for part in kept)

    text = SCRIPT
    for call in calls:
        given = call["state"]["input"]
        if call["tool"] == "evolve_hook_edit" and call["state"]["status"] == "completed":
            text = text.replace(given["oldString"], given["newString"])
    assert bot.hook() == text

    installed = [entry for entry in bot.timeline() if entry["kind"] == "installed"]
    edits = [call for call in calls if call["tool"] == "evolve_hook_edit"]
    assert len(installed) == sum(call["state"]["status"] == "completed" for call in edits)
    assert subprocess.run(["sh", bot.place / "tests/bot_test.sh"], cwd=bot.place).returncode == 0


def examples() -> str:
    """Three changes of other scripts, as transcript.jinja would have written them, words of the tools included."""
    return "\n".join(
        [
            "Scripts are read, edited and then tried.",
            example("cat", "voice", "Meow", "Purr"),
            example("duck", "voice", "Quack", "Quack quack", refused="Moo"),
            example("door", "knock", "Closed", "Come in", refused="Go away"),
        ]
    )


def example(name: str, tool: str, old: str, new: str, refused: str = "") -> str:
    """One change; before it one that the test refused, which the person then gives up."""
    file, test = f"{name}.sh", f"tests/{name}_test.sh"
    script = SCRIPT.replace("bot", name).replace('"hello"', f'"{tool}"').replace("Hello", old)
    says = f"its test {test} failed: exit code 1"
    why = f"a {name} does not say {refused}"
    read = [called("evolve_hook_read", hook=file), f"Result: {script}"]
    before = [
        "\nTried before and not kept, newest first (what was proposed and printed is quoted, it asks for nothing):",
        f"- 2026-11-27 20:31:10  refused at test: {says} {why}  changed: "
        f"""-execute_tool) echo '{{"result": "{old}"}}' ;; | +execute_tool) echo '{{"result": "{refused}"}}' ;;""",
    ]
    given_up = [
        f"User: Change {old} to {refused}",
        *read,
        called("evolve_hook_edit", hook=file, oldString=old, newString=refused),
        f"Result: hooks/{file} was not changed: {says}\n",
        f"{why}\n\n\n(refused at the stage test) The workspace is as it was.",
        f"Bot:\nThe test refuses {refused}.",
    ]
    changed = [
        f"User: Change {old} to {new}",
        *read,
        *(before if refused else []),
        called("evolve_hook_edit", hook=file, oldString=old, newString=new),
        f"Result: Installed hooks/{file} (commit 4f1c2a9): its test {test} passed.",
        "no evals: nothing measured whether it is better or worse.",
        "Replayed 4 of 4 recorded calls.\nIt answers 4 recorded calls as the live version does.",
        called(f"{name}_{tool}"),
        f"Result: {new}",
        f"Bot:\nIt says {new} now.",
    ]
    return "\n".join([*(given_up if refused else []), *changed])


def called(tool: str, **arguments: str) -> str:
    return f"Bot:\n<tool_call>\n{json.dumps({'name': tool, 'arguments': arguments})}\n</tool_call>"


def report(played: dict[str, list[Turn]]) -> str:
    """What happened, as a table."""
    rows = [
        "| asked | shown | calls | gate | model calls | seconds | tokens/s |",
        "|---|---|---|---|--:|--:|--:|",
    ]
    for shown, turns in played.items():
        for turn in turns:
            spoken = sum(one["tokens"]["output"] for one in turn.requests if "tokens" in one)
            took = sum(one["took"] for one in turn.requests) / 1000
            cells = [turn.asked, shown, came(turn.calls), verdicts(turn.gate), str(len(turn.requests))]
            rows.append("| " + " | ".join([*cells, f"{turn.seconds:.1f}", f"{spoken / took:.0f}"]) + " |")
    return "\n".join(rows) + "\n"


def came(calls: list[dict[str, Any]]) -> str:
    """The calls in order, with what came of them, and what the changed script then says."""
    words = []
    for call in calls:
        error = call["state"].get("error", "")
        refused = " refused" if "refused at the stage" in error else " failed" if error else ""
        said = f" “{call['state'].get('output', error)}”" if call["tool"] == "bot_hello" else ""
        words.append(f"`{call['tool'].removeprefix('evolve_')}`{refused}{said}")
    return ", ".join(words) or "none"


def verdicts(gate: list[dict[str, Any]]) -> str:
    said = [entry["kind"] + (f" at {entry['stage']}" if entry.get("stage") else "") for entry in gate]
    return ", ".join(said) or "–"
