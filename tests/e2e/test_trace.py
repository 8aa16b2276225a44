"""The turns recorded from the real opencode, played in instar: each difference stands in a list, with its reason.

``make real RECORD=1`` records (`tests/real/test_trace.py`); `tests/data/trace/differences.json` is the list.
"""

import contextlib
import fnmatch
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.difference import Comparison
from tests.story import DATA, PASSWORD, STORIES, Model, Plain, Play, Scrub, Story

LIST = json.loads((DATA / "differences.json").read_text())


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Plain]]:
    """What `instar serve` says in each story."""
    with server(tmp_path_factory.mktemp("trace")) as play:
        yield {story.name: play(story) for story in STORIES}


@contextlib.contextmanager
def server(folder: Path) -> Iterator[Callable[[Story], Plain]]:
    """Start `instar serve` in a project, with a model; what is yielded plays a story."""
    model = Model()
    project = folder / "project"
    repository(project)
    settings = folder / "config" / "instar" / "instar.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(model.settings()))
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_STATE_HOME": str(folder / "state"),
        "INSTAR_SERVER_PASSWORD": PASSWORD,
    }
    child = subprocess.Popen(
        [sys.executable, "-m", "instar", "serve", "--port", "0", "--grace", "0"],
        cwd=project,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        url = child.stdout.readline().decode().rpartition(" ")[2].strip()
        yield lambda story: told(url, model, story, project)
    finally:
        child.terminate()
        child.communicate(timeout=20)
        model.close()


def told(url: str, model: Model, story: Story, project: Path) -> Plain:
    said = Play(url, model, story, 0.0).run()
    (project / "new.txt").unlink(missing_ok=True)
    return Scrub({str(project): "/project", model.url: "<model>"}).trace(said)


def repository(project: Path) -> None:
    project.mkdir()
    (project / "notes.txt").write_text("buy milk\n")
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "one"]):
        subprocess.run(["git", *command], cwd=project, check=True)


@pytest.fixture(scope="module")
def differences(said: dict[str, Plain]) -> dict[str, list[str]]:
    """Each story's differences."""
    return {
        name: Comparison(json.loads((DATA / f"{name}.json").read_text()), ours).run()
        for name, ours in said.items()
    }


def explained(line: str) -> list[str]:
    return [pattern for entry in LIST for pattern in entry["lines"] if fnmatch.fnmatchcase(line, pattern)]


@pytest.mark.slow
@pytest.mark.parametrize("story", [story.name for story in STORIES])
def test_a_turn_is_told_as_opencode_tells_it_but_for_what_the_list_explains(
    differences: dict[str, list[str]], story: str
) -> None:
    unexplained = [line for line in differences[story] if not explained(line)]
    assert not unexplained, "\n".join(unexplained)


def test_the_list_explains_nothing_that_is_not_there(differences: dict[str, list[str]]) -> None:
    listed = {pattern: times for entry in LIST for pattern, times in entry["lines"].items()}
    found = Counter(
        pattern for lines in differences.values() for line in lines for pattern in explained(line)
    )
    assert found == listed


def test_each_difference_is_told_with_its_reason() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/compatibility/recorded-turn.md").read_text()
    assert [entry["why"] for entry in LIST if f"- {entry['why']}\n" not in page] == []
