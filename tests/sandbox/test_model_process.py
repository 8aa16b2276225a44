"""Children of the model: behind the shield, told no secrets; and what tools in instar itself may touch."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from instar.process import Processes
from instar.sandbox.model_process import Children
from instar.settings.paths import Paths
from instar.wire.secret import Secret

KEY = "sk-a-key-that-nobody-may-see"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A person's home with settings and logins, and a workspace with a script."""
    made = tmp_path / "home"
    for name, text in {
        ".config/instar/instar.json": "{}",
        ".config/instar/skill/a/SKILL.md": "a skill",
        ".local/share/instar/auth.json": f'{{"p": {{"type": "api", "key": "{KEY}"}}}}',
        ".local/share/instar/tool-output/1.txt": "long",
        ".local/share/instar/worktrees/w/a.txt": "a",
        "ws/hooks/bot.sh": "#!/bin/sh\n",
        "notes.txt": "mine",
    }.items():
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return made


@pytest.fixture
async def children(home: Path) -> AsyncIterator[Children]:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    own = Processes()
    made = Children(own, Paths.from_environment(environment), environment, secrets=lambda: [Secret(KEY)])
    made.guard(readonly=[home / "ws/hooks", home / "ws/evals"])
    yield made
    await made.close()
    await own.close()


async def said(children: Children, home: Path, script: str) -> str:
    done = await children.run(["sh", "-c", script], cwd=home, env={"PATH": os.environ["PATH"]}, merge=True)
    return done.stdout.decode()


async def test_a_child_cannot_read_logins_or_write_what_is_guarded_and_the_rest_is_as_ever(
    children: Children, home: Path
) -> None:
    assert KEY not in await said(children, home, "cat .local/share/instar/auth.json")
    assert "mine" in await said(children, home, "cat notes.txt; echo more >>notes.txt")
    assert (home / "notes.txt").read_text() == "minemore\n"
    await said(
        children, home, "echo x >ws/hooks/bot.sh; echo x >ws/evals/new; mkdir ws/evals; echo x >ws/evals/new"
    )
    assert (home / "ws/hooks/bot.sh").read_text() == "#!/bin/sh\n"
    assert not (home / "ws/evals/new").exists()


async def test_without_a_shield_a_child_runs_as_the_person(home: Path) -> None:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    own = Processes()
    made = Children(own, Paths.from_environment(environment), environment, at_most="none")
    assert KEY in await said(made, home, "cat .local/share/instar/auth.json")
    await made.close()
    await own.close()


@pytest.mark.parametrize(
    ("path", "writing", "refused"),
    [
        ("notes.txt", True, False),
        (".local/share/instar/auth.json", False, True),
        (".local/share/instar/auth.json", True, True),
        (".local/share/instar/tool-output/1.txt", False, False),
        (".local/share/instar/tool-output/1.txt", True, True),
        (".local/share/instar/worktrees/w/a.txt", True, False),
        (".config/instar/instar.json", False, True),
        (".config/instar/skill/a/SKILL.md", False, False),
        (".config/instar/skill/a/SKILL.md", True, True),
        ("ws/hooks/bot.sh", False, False),
        ("ws/hooks/bot.sh", True, True),
        ("ws/evals/new", True, True),
        ("ws/state/x", True, False),
        ("ws/../ws/hooks/new.sh", True, True),
        ("link/bot.sh", True, True),
    ],
)
def test_the_deepest_place_decides_what_a_tool_may_touch(
    children: Children, home: Path, path: str, writing: bool, refused: bool
) -> None:
    (home / "link").symlink_to(home / "ws/hooks")
    assert (children.refusal(home / path, writing=writing) is not None) == refused


def test_a_child_is_told_no_secret_but_what_was_named(children: Children) -> None:
    given = {"GH_TOKEN": "t", "NAME": "Ada", "FAVOURITE": KEY, "KEPT_TOKEN": "k"}
    assert children.environment(given, ["KEPT_TOKEN"]) == {"NAME": "Ada", "KEPT_TOKEN": "k"}


async def test_a_variable_that_the_person_named_is_kept_for_every_child(home: Path) -> None:
    own, variables = Processes(), {"HOME": str(home), "PATH": os.environ["PATH"]}
    made = Children(own, Paths.from_environment(variables), variables, keep=["GH_TOKEN"])
    given = {"GH_TOKEN": "t", "KEPT_TOKEN": "k", "OTHER_TOKEN": "o"}
    assert made.environment(given) == {"GH_TOKEN": "t"}
    assert made.environment(given, ["KEPT_TOKEN"]) == {"GH_TOKEN": "t", "KEPT_TOKEN": "k"}
    await made.close()
    await own.close()


def test_a_place_is_guarded_as_soon_as_somebody_says_so(children: Children, home: Path) -> None:
    place = home / "ws/state/x"
    assert children.refusal(place, writing=True) is None
    children.guard(readonly=[home / "ws/state"])
    assert children.refusal(place, writing=True) is not None
    assert children.refusal(place, writing=False) is None


@pytest.mark.parametrize(
    ("kinds", "read", "written"),
    [
        (["hidden", "readonly"], False, False),
        (["readonly", "hidden"], False, False),
        (["readonly", "writable"], True, True),
    ],
)
async def test_where_a_place_is_named_twice_a_tool_may_do_what_a_child_may(
    children: Children, home: Path, kinds: list[str], read: bool, written: bool
) -> None:
    place = home / "ws" / "both"
    place.mkdir()
    (place / "a.txt").write_text("a text")
    for kind in kinds:
        children.guard(**{kind: [place]})
    assert (children.refusal(place / "a.txt", writing=False) is None) == read
    assert (children.refusal(place / "a.txt", writing=True) is None) == written
    assert ("a text" in await said(children, home, "cat ws/both/a.txt")) == read
    await said(children, home, "echo x >ws/both/a.txt")
    assert ((place / "a.txt").read_text() == "x\n") == written
