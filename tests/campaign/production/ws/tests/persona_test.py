#!/usr/bin/env python3
"""The test of hooks/persona.py: it starts the script as instar does, in a copy of the workspace."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "hooks" / "persona.py"


def call(hook, **fields):
    """Call a hook and return its merged answer."""
    given = json.dumps({"hook": hook, **fields})
    done = subprocess.run(
        [str(SCRIPT), hook], input=given, capture_output=True, text=True, cwd=ROOT, check=False
    )
    if done.returncode != 0:
        sys.exit(f"{hook} ended with {done.returncode}: {done.stdout}{done.stderr}")
    answer = {}
    for line in done.stdout.splitlines():
        answer.update(json.loads(line))
    return answer


def use(tool, **args):
    """Call a tool and return its result."""
    answer = call("execute_tool", tool=tool, args=args)
    if "result" not in answer:
        sys.exit(f"{tool}: {answer}")
    return answer["result"]


def check(what, found, wanted):
    """End the test where something is not as it must be."""
    if wanted not in found:
        sys.exit(f"{what}: {wanted!r} is not in {found!r}")


def main():
    """Run the test."""
    said = call("discover")
    names = [tool["name"] for tool in said["tools"]]
    if said["name"] != "persona" or len(names) < 30 or len(set(names)) != len(names):
        sys.exit(f"discover: {said['name']} with {names}")
    check(
        "mutate_request", "\n".join(call("mutate_request", session={"id": "s"}, history=[])["system"]), "Soul"
    )
    use("trait_write", trait="KIND.md", content="# Kind\n\nI am kind.")
    check("trait_read", use("trait_read", trait="KIND"), "I am kind.")
    use("note_write", name="zz-garden", content="# Garden\n\nZwater it. See [[zz-tools]].")
    check("note_search", use("note_search", words="zwater"), "zz-garden.md")
    check("note_links", use("note_links", name="zz-garden"), "zz-tools.md")
    use("task_add", title="Zwater the garden", due="tomorrow", tags=["zz"])
    check("task_list", use("task_list", tag="zz"), "Zwater the garden")
    use("person_add", name="Zoe Tester", birthday="12-10")
    use("person_note", name="zoe", text="likes engines")
    check("person_find", use("person_find", name="Zoe"), "likes engines")
    use("reminder_add", text="call Zoe", day="today", every="week")
    use("journal_write", text="wrote the test", mood="proud")
    check("journal_read", use("journal_read"), "wrote the test")
    check("recall", use("recall", words="zwater"), "notes/zz-garden.md")
    check("status", use("status"), "open task")
    check("heartbeat", call("heartbeat", sessions=[], history=[])["user"], "call Zoe")
    check("recover", call("recover", error="x", failed_hook="idle")["user"], "idle")
    if "error" not in call("execute_tool", tool="task_done", args={"id": 99}):
        sys.exit("task_done: it did not refuse a task that is not there")


if __name__ == "__main__":
    main()
