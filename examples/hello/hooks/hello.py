#!/usr/bin/env python3
"""The hello workspace's hook script: three tools about notes, and an answer to every hook.

instar starts it once per call as `hooks/hello.py <hook>`, with JSON on standard input, and reads JSON lines
from standard output. The agent may change this file; tests/hello_test.py decides whether a change goes live.
"""

import json
import sys
from pathlib import Path

NOTES = Path(__file__).resolve().parent.parent / "notes"
HOOKS = {}
TOOLS = {}


def hook(function):
    """Answer the hook of this function's name."""
    HOOKS[function.__name__] = function
    return function


def tool(permission=None, **parameters):
    """Offer this function as a tool; its docstring is what the model reads."""

    def offer(function):
        definition = {"name": function.__name__, "description": function.__doc__, "parameters": parameters}
        if permission:
            definition["permission"] = {"arg": permission}
        TOOLS[function.__name__] = (function, definition)
        return function

    return offer


def log(text):
    print(json.dumps({"log": text}), flush=True)


# -- tools --------------------------------------------------------------------------------------------


def note_path(name):
    if name != Path(name).name or name.startswith("."):
        raise ValueError(f"{name!r} is not the name of a note")
    return NOTES / f"{name}.md"


@tool()
def note_list():
    """List the notes."""
    names = sorted(path.stem for path in NOTES.glob("*.md"))
    return {"result": "\n".join(names) or "There are no notes yet."}


@tool(permission="name", name="The note's name, without .md.")
def note_read(name):
    """Read a note."""
    path = note_path(name)
    return {"result": path.read_text() if path.exists() else f"There is no note called {name}."}


@tool(
    permission="name",
    name="The note's name, without .md.",
    text="What the note says.",
    tags={"type": "array[string]", "description": "Words to find it by.", "optional": True},
    mood={"type": "string", "description": "How it feels.", "enum": ["calm", "urgent"], "optional": True},
)
def note_write(name, text, tags=(), mood="calm"):
    """Write a note, replacing the one of that name."""
    NOTES.mkdir(exist_ok=True)
    head = f"mood: {mood}\ntags: {', '.join(tags)}\n\n"
    note_path(name).write_text(head + text + "\n")
    changed = f"notes/{name}.md"
    return {
        "result": f"Wrote the note {name}.",
        "modified": [changed],
        "notify": [{"type": "note_changed", "files": [changed]}],
    }


# -- hooks --------------------------------------------------------------------------------------------


@hook
def discover(given):
    """Once at the start, and again when this file changed: who am I, what tests me, what can I do?"""
    return {
        "name": "hello",
        "test": "hello_test.py",
        "tools": [definition for _, definition in TOOLS.values()],
    }


@hook
def execute_tool(given):
    """A tool of ours is called; `tool` is its name without the prefix."""
    function, _ = TOOLS[given["tool"]]
    try:
        return function(**given["args"])
    except ValueError as error:
        return {"error": str(error)}


@hook
def mutate_request(given):
    """Once per session: its system prompt. Return {} to leave the session's own prompt alone."""
    prompts = given["prompts"]
    return {"system": [prompts["preamble"], prompts["chat"]]}


@hook
def observe_message(given):
    """After each answer of the model."""
    log(f"{len(given['calls'])} calls, {len(given['answer'])} characters of answer")
    return {}


@hook
def idle(given):
    """After a final answer. Return {"continue": "..."} to make the session go on."""
    if given["answer"].rstrip().endswith("To be continued."):
        return {"continue": "Please go on."}
    return {}


@hook
def heartbeat(given):
    """On the timer: what to say to the heartbeat session."""
    prompts = given["prompts"]
    return {"system": [prompts["preamble"], prompts["heartbeat"]], "user": "Look through the notes."}


@hook
def compacting(given):
    """Before a session is summarised: how to summarise it."""
    return {"prompt": given["prompts"]["compaction"]}


@hook
def format_notification(given):
    """Before a session is told what another one changed."""
    files = sorted({name for note in given["notifications"] for name in note.get("files", [])})
    return {"message": f"Changed by another session: {', '.join(files)}. Read again what you need."}


@hook
def recover(given):
    """Another hook of this script failed."""
    log(f"{given['failed_hook']} failed")
    return {
        "system": [given["prompts"]["recover"]],
        "user": f"{given['failed_hook']} failed: {given['error']}",
    }


@hook
def tool_before(given):
    """Before any tool runs."""
    log(f"{given['tool']} begins")
    return {}


@hook
def tool_after(given):
    """After any tool ran."""
    log(f"{given['tool']} ended with {len(given['output'])} characters")
    return {}


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in HOOKS:
        print(json.dumps({"error": f"unknown hook: {name}"}))
        sys.exit(1)
    for key, value in HOOKS[name](json.loads(sys.stdin.read() or "{}")).items():
        print(json.dumps({key: value}), flush=True)
