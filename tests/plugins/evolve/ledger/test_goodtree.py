"""Where scripts run: the workspace as accepted, else the last good tree."""

import os
import subprocess

import pytest

from instar.plugins.evolve.history.commits import History
from instar.plugins.evolve.history.repository import WorkspaceRepository
from instar.plugins.evolve.ledger.goodtree import GoodTree, NotServed
from instar.plugins.evolve.ledger.install import Installer
from instar.plugins.evolve.ledger.ledger import Ledger

SCRIPT = """\
#!/usr/bin/env python3
import pathlib
import part
here = pathlib.Path(__file__).resolve().parent.parent
(here / "state" / "seen").write_text(part.NAME)
print(part.NAME, (here / "prompts" / "chat.md").read_text())
"""


PLACE = "good/key"


@pytest.fixture(params=[PLACE])
async def tree(request, root, tmp_path, kit, processes):
    kit.script(root / "hooks", "bot.py", SCRIPT)
    kit.script(root / "hooks", "part.py", "NAME = 'good'\n", 0o644)
    kit.script(root / "prompts", "chat.md", "be good", 0o644)
    (root / "state").mkdir()
    history, repository = History(processes, root), WorkspaceRepository(processes, root)
    await history.prepare()
    ledger = Ledger(tmp_path / "data" / "key", root)
    await Installer(ledger, repository, history.commit).open()
    return GoodTree(ledger, repository, tmp_path / request.param)


def run(served):
    script = served.root / "hooks" / "bot.py"
    given = [script] if os.access(script, os.X_OK) else []
    return subprocess.run(given, cwd=served.root, capture_output=True, text=True, check=True).stdout


async def test_a_workspace_as_accepted_serves_itself(tree, root, tmp_path):
    served = await tree.serve()
    assert served.root == root
    assert served.files == {"hooks/bot.py", "hooks/part.py", "prompts/chat.md"}
    assert not (tmp_path / "good").exists()


@pytest.mark.slow
async def test_a_departed_module_or_a_new_one_reaches_no_script_beside_it(tree, root):
    (root / "hooks" / "part.py").write_text("NAME = 'evil'\n")
    (root / "hooks" / "pathlib.py").write_text("raise SystemExit('planted')\n")
    (root / "prompts" / "chat.md").write_text("be evil")
    served = await tree.serve()
    assert served.root != root
    assert run(served) == "good be good\n"
    assert (root / "state" / "seen").read_text() == "good"
    assert served.files == {"hooks/bot.py", "hooks/part.py", "prompts/chat.md"}
    assert sorted(one.path for one in served.departures) == [
        "hooks/part.py",
        "hooks/pathlib.py",
        "prompts/chat.md",
    ]


@pytest.mark.slow
async def test_what_is_wrong_in_the_tree_is_put_right_before_it_serves(tree, root):
    (root / "hooks" / "part.py").write_text("NAME = 'evil'\n")
    there = (await tree.serve()).root
    part = there / "hooks" / "part.py"
    info = part.stat()
    part.write_text("NAME = 'evil'\n")
    os.utime(part, ns=(info.st_atime_ns, info.st_mtime_ns))
    (there / "hooks" / "pathlib.py").write_text("raise SystemExit('planted')\n")
    (there / "hooks" / "__pycache__").mkdir()
    (there / "hooks" / "__pycache__" / "part.cpython-311.pyc").write_text("planted")
    (there / "prompts" / "chat.md").unlink()
    (there / "state").unlink()
    served = await tree.serve()
    assert run(served) == "good be good\n"
    assert sorted(os.listdir(there)) == ["config", "evals", "hooks", "prompts", "state", "tests"]
    assert not (there / "hooks" / "pathlib.py").exists()


async def test_what_a_script_makes_beside_the_links_is_moved_into_the_workspace(tree, root, caplog):
    (root / "state" / "old").write_text("old")
    (root / "index.json").write_text("old")
    (root / "both").mkdir()
    (root / "hooks" / "part.py").unlink()
    there = (await tree.serve()).root
    # As a script does that writes a file beside its place and renames it, and one that makes a folder anew.
    (there / "index.json.new").write_text("new")
    (there / "index.json.new").replace(there / "index.json")
    (there / "state").unlink()
    (there / "state" / "deep").mkdir(parents=True)
    (there / "state" / "deep" / "new").write_text("new")
    (there / "journal").mkdir()
    (there / "journal" / "a.md").write_text("a")
    (there / "both").unlink()
    (there / "both").write_text("a file where a folder stands")
    await tree.serve()
    assert (there / "journal" / "a.md").read_text() == "a"
    tree.gather()
    assert (root / "index.json").read_text() == "new"
    assert sorted(os.listdir(root / "state")) == ["deep", "old"]
    assert (root / "state" / "deep" / "new").read_text() == "new"
    assert (root / "journal" / "a.md").read_text() == "a"
    assert "unmoved" in caplog.text
    await tree.serve()
    assert (there / "both").read_text() == "a file where a folder stands"
    assert (there / "journal").readlink() == root / "journal"
    (root / "index.json").unlink()
    await tree.serve()
    tree.gather()
    assert not os.path.lexists(there / "index.json")
    assert not os.path.lexists(root / "index.json")


async def test_an_accepted_file_of_which_no_copy_is_left_is_not_served_and_named(tree, root, tmp_path):
    for path in (tmp_path / "data" / "key" / "accepted.git" / "objects").rglob("*/*"):
        path.unlink()
    (root / "hooks" / "part.py").unlink()
    (root / ".git" / "HEAD").write_text("garbage")
    served = await tree.serve()
    assert served.lost == ["hooks/part.py"]
    assert served.files == {"hooks/bot.py", "prompts/chat.md"}


@pytest.mark.parametrize("tree", ["x" * 300], indirect=True)
async def test_a_tree_that_cannot_be_made_serves_nothing_and_says_why(tree, root):
    (root / "hooks" / "part.py").unlink()
    with pytest.raises(NotServed, match="cannot be made"):
        await tree.serve()
