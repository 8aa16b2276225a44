"""`instar docs`: the pages, from the checkout and from a wheel, at a terminal and in a pipe."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_a_list_names_each_page_once(machine):
    listed = json.loads(machine.instar("docs", "--json").stdout)
    assert {"topic": "self", "section": "reference", "title": "Self"}.items() <= next(
        one for one in listed if one["topic"] == "self"
    ).items()
    indexes = {DOCS / section / "index.md" for section in ("tutorials", "guides", "concepts", "reference")}
    assert {Path(one["path"]) for one in listed} == set(DOCS.rglob("*.md")) - indexes
    assert len({one["topic"] for one in listed}) == len(listed), "two pages have one topic"


def test_a_person_sees_the_topics_with_titles_by_section(machine):
    shown = machine.instar("docs").stdout
    assert re.search(r"^reference$", shown, re.MULTILINE)
    assert re.search(r"^  scripted +The scripted model$", shown, re.MULTILINE)


@pytest.mark.parametrize("topic", ["self", "self.md"])
def test_a_pipe_gets_the_page_as_it_stands(machine, topic):
    assert machine.instar("docs", topic).stdout == (DOCS / "reference/self.md").read_text()


def test_json_has_the_text(machine):
    page = json.loads(machine.instar("docs", "stop", "--json").stdout)
    assert page["section"] == "guides"
    assert page["text"] == (DOCS / "guides/stop.md").read_text()


def test_a_terminal_gets_it_formatted_and_links_as_commands(screen):
    terminal = screen("docs", "scripted")
    assert terminal.end() == 0
    shown = "\n".join(terminal.rows)
    assert "The scripted model" in shown
    assert "# The scripted model" not in shown
    terminal = screen("docs", "tour")
    assert terminal.end() == 0
    shown = " ".join(" ".join(terminal.rows).split())
    assert "(instar docs scripted)" in shown
    assert ".md)" not in shown


def test_a_wrong_topic_names_the_nearest(machine):
    done = machine.instar("docs", "slef")
    assert done.returncode == 2
    assert done.stderr == "instar: there is no page 'slef'; did you mean self? (instar docs lists them)\n"


def test_each_page_that_a_message_names_is_there(machine):
    topics = {one["topic"] for one in json.loads(machine.instar("docs", "--json").stdout)}
    source = "".join(path.read_text() for path in (ROOT / "src/instar").rglob("*.py"))
    named = set(re.findall(r"instar docs ([a-z-]+)\)", source))
    assert "self" in named
    assert named <= topics


@pytest.mark.slow
def test_a_wheel_carries_the_pages(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    for name in ("src", "docs"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    built = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path]
    subprocess.run(built, cwd=tree, check=True, capture_output=True)
    installed = tmp_path / "installed"
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        wheel.extractall(installed)
    shutil.rmtree(tree)

    def docs(*words: str) -> str:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(installed)}
        command = [sys.executable, "-m", "instar", "docs", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        ).stdout

    pages = [Path(one["path"]) for one in json.loads(docs("--json"))]
    indexes = {Path(section, "index.md") for section in ("tutorials", "guides", "concepts", "reference")}
    ours = {path.relative_to(DOCS) for path in DOCS.rglob("*.md")} - indexes
    assert {path.relative_to(installed / "instar/docs") for path in pages} == ours
    assert docs("self") == (DOCS / "reference/self.md").read_text()
