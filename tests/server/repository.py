"""A server in a repository, whose scripted model does what a prompt says; started once for a module.

Use it with ``pytest_plugins = ["tests.server.repository"]``. Tests import it before pytest does: PYTEST_DONT_REWRITE.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.conftest import Served, environment_in
from tests.waiting import wait_until

SCRIPT = """\
== when "^hold$"
text: I wait.
delay: 60s
== when "^think$"
reasoning: Hm.
text: I thought.
== when "^fail$"
error: 400 no such thing
== when "^ask$"
text: May I?
tool: question {"questions": [{"question": "Which?", "header": "H", "options": [{"label": "a", "description": "A"}]}]}
== when "^write (\\w+)$"
tool: write {"filePath": "{{match.1}}.txt", "content": "{{match.1}}"}
== when "^run$"
text: I look.
tool: bash {"command": "echo hi"}
== when ""
text: Done: {{last}}
"""
MODEL = {"providerID": "scripted", "modelID": "test"}
SETTINGS = '{"model": "scripted/test", "permission": {"bash": "ask", "webfetch": "deny"}}'


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The server. It asks before it runs a command."""
    root = tmp_path_factory.mktemp("place")
    project = root / "project"
    (project / "lib" / "deep").mkdir(parents=True)
    git = ["git", "-C", str(project), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    (root / "script.txt").write_text(SCRIPT)
    home = root / "config" / "instar"
    home.mkdir(parents=True)
    (home / "instar.json").write_text(SETTINGS)
    served = Served([], project, environment_in(root))
    yield served
    served.stop()


@pytest.fixture
def held(place: Served) -> Iterator[str]:
    """A session in which a turn runs until it is ended."""
    session_id = place.session(title="held")
    place.ask(session_id, "hold", "prompt_async")
    wait_until(lambda: session_id in place.http.get("/session/status").json())
    yield session_id
    place.http.post(f"/session/{session_id}/abort")


def folder(place: Served, name: str) -> Path:
    """A folder of the project."""
    return place.directory / name
