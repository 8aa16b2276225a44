"""The workspace that candidates of the campaign are made for: a script as a value that is written out as Python.

A good change is another such value; a bad one is its text with something put in, or taken out (`bad`).
"""

import json
import random
import string
from collections.abc import Mapping
from typing import Any

import msgspec

FILE = "bot.py"
HOOKS = ("discover", "mutate_request", "observe_message", "idle", "tool_before", "execute_tool")
RECORDED = ("mutate_request", "observe_message", "idle", "tool_before")
"""Hooks that only the replay calls: no test does."""

PROMPTS = {
    "chat.md": "You help a gardener.\nBe brief.\n",
    "preamble.md": "You are bot.\n",
    "compaction.md": "Sum up what was said.\n",
}

TESTS = {
    "bash": r"""#!/bin/bash
cd "$(dirname "$0")/.."
fail() { echo "not ok: $1"; exit 1; }
out=$(echo '{"prompts": {}}' | hooks/bot.py discover) || fail discover
case "$out" in *'"add"'*) ;; *) fail "discover has no tool add: $out" ;; esac
out=$(echo '{"tool": "add", "args": {"a": 20, "b": 3}, "prompts": {}}' | hooks/bot.py execute_tool) || fail add
case "$out" in *'"23"'*) ;; *) fail "20 and 3 is 23, not $out" ;; esac
grep -q "Be brief" prompts/chat.md || fail "chat.md does not say to be brief"
for file in prompts/*.md; do
  [ -s "$file" ] || fail "$file is empty"
done
exit 0
""",
    "python": r"""#!/usr/bin/env python3
import json, pathlib, subprocess, sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def call(hook, **given):
    done = subprocess.run(
        [ROOT / "hooks" / "bot.py", hook], input=json.dumps({"prompts": {}, **given}), capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{hook} ended with {done.returncode}: {done.stderr}")
    return {key: value for line in done.stdout.splitlines() for key, value in json.loads(line).items()}


if "add" not in [tool["name"] for tool in call("discover")["tools"]]:
    sys.exit("there is no tool add")
if call("execute_tool", tool="add", args={"a": 20, "b": 3}) != {"result": "23"}:
    sys.exit("20 and 3 is 23")
if "Be brief" not in (ROOT / "prompts" / "chat.md").read_text():
    sys.exit("chat.md does not say to be brief")
""",
}

EVAL = r"""#!/bin/bash
cd "$(dirname "$0")/.."
given=$(mktemp)
printf '{"prompts": {"preamble": "", "chat": "%s"}}' "$(tr '\n"\\' '   ' <prompts/chat.md)" >"$given"
words=$(hooks/bot.py mutate_request <"$given" | wc -w)
echo "{\"score\": $words, \"better\": \"lower\", \"tolerance\": 150}"
exit 0
"""

OTHER = """#!/bin/sh
case "$1" in
discover) echo '{"name": "other", "tools": [{"name": "now", "description": "The time."}]}' ;;
execute_tool) echo '{"result": "noon"}' ;;
*) echo "{\\"error\\": \\"unknown hook: $1\\"}"; exit 1 ;;
esac
"""


class ToolOf(msgspec.Struct, frozen=True):
    """A tool of the script: its text, its parameters, those it asks about, and its code."""

    says: str
    parameters: tuple[str, ...]
    asks: tuple[str, ...]
    code: str


TOOLS = {
    "add": ToolOf("Add two numbers.", ("a", "b"), (), 'str(int(args["a"]) + int(args["b"]))'),
    "note": ToolOf("Keep a note.", ("name", "folder", "text"), ("name", "folder"), '"kept " + str(args)'),
}


class Bot(msgspec.Struct, frozen=True):
    """One version of the script. `manifest` None: it states none. `style` is how it is written out."""

    test: str
    name: str = "bot"
    tools: Mapping[str, ToolOf] = msgspec.field(default_factory=lambda: TOOLS)
    extra: str = "Say please."
    more: str = "Please go on."
    manifest: Mapping[str, Any] | None = None
    hooks: tuple[str, ...] = HOOKS
    comments: tuple[str, ...] = ()
    style: int = 0
    words: tuple[str, str, str] = ("given", "answer", "found")

    def text(self, put: Mapping[str, str] | None = None) -> str:
        """Write it out; `put` is code by place: ``start``, or a hook, before its own."""
        put = dict(put or {})
        parts = [
            "#!/usr/bin/env python3",
            '"""The bot of the campaign."""',
            "import json",
            "import os",
            "import sys",
        ]
        parts += [f"# {comment}" for comment in self.comments]
        parts += [put.pop("start", ""), ""]
        order = list(self.hooks)
        if self.style & 4:
            order.reverse()
        for hook in order:
            parts += [
                f"def {hook}({self.words[0]}):",
                *_indented(put.pop(hook, "")),
                *_indented(self._code(hook)),
                "",
            ]
        assert not put, f"the script has no {', '.join(put)}"
        return "\n".join([*parts, *self._main()]) + "\n"

    def _code(self, hook: str) -> str:
        given, answer, found = self.words
        if hook == "discover":
            return f"return {self.registered()!r}"
        if hook == "mutate_request":
            return (
                f'{found} = {given}["prompts"]\n'
                f'return {{"system": [{found}.get("preamble", ""), {found}.get("chat", ""), {self.extra!r}]}}'
            )
        if hook == "observe_message":
            return (
                f'{found} = [{{"type": "send", "text": "done"}}] if "bell" in {given}.get("answer", "") else []\n'
                f'return {{"notify": [{{"type": "seen", "count": len({given}.get("calls", []))}}], "actions": {found}}}'
            )
        if hook == "idle":
            return (
                f'{answer} = {given}.get("answer", "")\n'
                f'return {{"continue": {self.more!r}}} if "bell" in {answer} else {{"log": "idle"}}'
            )
        if hook == "execute_tool":
            lines = [f'args = {given}["args"]', f'{found} = {given}["tool"]']
            for name, tool in self.tools.items():
                lines += [f"if {found} == {name!r}:", f'    return {{"result": {tool.code}}}']
            return "\n".join([*lines, f'return {{"error": "there is no tool " + {found}}}'])
        return (
            'return {"notify": [{"type": "tool"}]}'
            if hook == "tool_before"
            else 'return {"prompt": "Sum up."}'
        )

    def registered(self) -> dict[str, Any]:
        """Return what its discover says."""
        tools = []
        for name, tool in self.tools.items():
            one: dict[str, Any] = {
                "name": name,
                "description": tool.says,
                "parameters": {p: p for p in tool.parameters},
            }
            tools.append(one | ({"permission": {"arg": list(tool.asks)}} if tool.asks else {}))
        said = {"name": self.name, "test": self.test, "tools": tools}
        return said | ({"sandbox": _plain(self.manifest)} if self.manifest is not None else {})

    def _main(self) -> list[str]:
        known = ", ".join(f'"{hook}": {hook}' for hook in self.hooks)
        lookup = f"{{{known}}}.get(sys.argv[1])"
        if self.style & 2:
            lookup = f"globals().get(sys.argv[1]) if sys.argv[1] in {self.hooks!r} else None"
        body = [
            f"function = {lookup}",
            "if function is None:",
            '    print(json.dumps({"error": "unknown hook: " + sys.argv[1]}))',
            "    sys.exit(1)",
            'for key, value in function(json.loads(sys.stdin.read() or "{}")).items():',
            "    print(json.dumps({key: value}), flush=True)",
        ]
        if self.style & 1:
            return [
                "def main():",
                *_indented("\n".join(body)),
                "",
                "",
                'if __name__ == "__main__":',
                "    main()",
            ]
        return body


def inputs(word: str) -> list[tuple[str, dict[str, Any]]]:
    """Return calls as a session makes them, with `word` in what was said."""
    session = {"id": "ses_1", "agent": "build"}
    said = f"The bell rang {word}."
    return [
        ("mutate_request", {"session": session, "history": [{"role": "user", "text": said}]}),
        ("observe_message", {"session": session, "thinking": "", "calls": [{"tool": word}], "answer": said}),
        ("idle", {"session": session, "answer": said}),
        ("tool_before", {"session": session, "tool": "read", "callID": "c", "args": {"path": word}}),
    ]


def word(chance: random.Random, length: int = 8) -> str:
    """Return letters."""
    return "".join(chance.choices(string.ascii_lowercase, k=length))


def with_tool(bot: Bot, name: str, tool: ToolOf | None) -> Bot:
    """Return the script with a tool more, another, or (None) less."""
    tools = {**bot.tools, name: tool}
    return msgspec.structs.replace(bot, tools={key: one for key, one in tools.items() if one is not None})


def _indented(code: str) -> list[str]:
    return [f"    {line}" if line else "" for line in code.splitlines()]


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
