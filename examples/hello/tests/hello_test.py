#!/usr/bin/env python3
"""Decides whether a change of hooks/hello.py goes live: instar runs it in a copy of this workspace.

It may write where it likes, since the copy is thrown away. Exit code 0 lets the change in.
"""

# ruff: noqa: PT009 - unittest's own asserts, so that this file needs nothing but Python
import json
import subprocess
import sys
import unittest
from pathlib import Path

WORKSPACE = Path(__file__).resolve().parent.parent
SCRIPT = WORKSPACE / "hooks" / "hello.py"
PROMPTS = {path.stem: path.read_text() for path in (WORKSPACE / "prompts").glob("*.md")}


def call(hook, **given):
    """Call the script as instar does, and return its answer without the log lines."""
    text = json.dumps({"hook": hook, "prompts": PROMPTS, **given})
    done = subprocess.run([SCRIPT, hook], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"{hook} exited {done.returncode}\n{done.stdout}{done.stderr}")
    answer = {}
    for line in done.stdout.splitlines():
        value = json.loads(line)
        if "log" not in value:
            answer.update(value)
    return answer


def use(tool, **args):
    return call("execute_tool", session={"id": "ses_test"}, tool=tool, args=args)


class Hello(unittest.TestCase):
    def test_it_registers_itself_with_this_test(self):
        found = call("discover")
        self.assertEqual((found["name"], found["test"]), ("hello", "hello_test.py"))

    def test_the_tools_about_notes_are_there_and_every_tool_is_described(self):
        tools = {tool["name"]: tool for tool in call("discover")["tools"]}
        self.assertLessEqual({"note_list", "note_read", "note_write"}, set(tools))
        for name, tool in tools.items():
            self.assertTrue(tool["description"], f"{name} has no description: give its function a docstring")

    def test_a_note_is_read_as_it_was_written(self):
        written = use("note_write", name="test-note", text="Milk and bread.", mood="urgent")
        self.assertEqual(written["modified"], ["notes/test-note.md"])
        self.assertIn("Milk and bread.", use("note_read", name="test-note")["result"])
        self.assertIn("test-note", use("note_list")["result"])

    def test_a_name_that_leaves_the_folder_is_refused(self):
        self.assertIn("not the name of a note", use("note_read", name="../prompts/chat")["error"])

    def test_the_prompts_make_the_system_prompt(self):
        self.assertEqual(call("mutate_request")["system"], [PROMPTS["preamble"], PROMPTS["chat"]])

    def test_a_session_goes_on_only_when_the_answer_says_so(self):
        self.assertEqual(call("idle", answer="Done."), {})
        self.assertEqual(call("idle", answer="To be continued."), {"continue": "Please go on."})


if __name__ == "__main__":
    sys.exit(0 if unittest.main(exit=False).result.wasSuccessful() else 1)
