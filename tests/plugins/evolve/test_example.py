"""The example workspace answers every hook, and its test passes."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from instar.plugins.evolve import protocol, settings
from instar.plugins.evolve.workspace import STAGES

HOOKS = {
    "discover": ({}, "tools"),
    "mutate_request": ({"session": {"id": "s"}, "history": []}, "system"),
    "observe_message": (
        {"session": {"id": "s", "agent": "a"}, "thinking": "", "calls": [], "answer": "x"},
        None,
    ),
    "idle": ({"session": {"id": "s", "agent": "a"}, "answer": "To be continued."}, "continue"),
    "heartbeat": ({"sessions": [], "history": []}, "user"),
    "compacting": ({"session": {"id": "s"}, "history": []}, "prompt"),
    "format_notification": (
        {"session": {"id": "s"}, "notifications": [{"type": "t", "files": ["F.md"]}]},
        "message",
    ),
    "recover": ({"error": "e", "failed_hook": "idle"}, "system"),
    "execute_tool": ({"tool": "note_list", "args": {}}, "result"),
    "tool_before": ({"session": {"id": "s"}, "tool": "t", "callID": "c", "args": {}}, None),
    "tool_after": ({"session": {"id": "s"}, "tool": "t", "callID": "c", "title": "t", "output": "o"}, None),
}


@pytest.mark.slow
@pytest.mark.parametrize("hook", HOOKS)
def test_it_answers_every_hook_of_the_protocol(hello: Path, hook: str):
    fields, key = HOOKS[hook]
    prompts = {stage: (hello / "prompts" / f"{stage}.md").read_text() for stage in STAGES}
    given = json.dumps({"hook": hook, "prompts": prompts, **fields})
    done = subprocess.run(
        [hello / "hooks" / "hello.py", hook], input=given.encode(), capture_output=True, check=True
    )
    answer = protocol.parse(done.stdout).answer
    assert set(answer) >= {key} if key else answer == {}


def test_its_settings_are_read_without_a_warning(hello: Path):
    loaded = settings.load(hello / "config" / "evolve.jsonc", {})
    assert loaded.warnings == []
    assert loaded.settings.heartbeat_ms == -1


@pytest.mark.slow
def test_its_own_test_passes(hello: Path):
    done = subprocess.run(
        [hello / "tests" / "hello_test.py"], env={"PATH": os.environ["PATH"]}, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
