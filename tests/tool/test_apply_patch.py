from pathlib import Path
from typing import Any

import pytest

from instar.plugin.tool import ToolFailure
from instar.tool import apply_patch

TOOL = apply_patch.TOOL


def wrapped(body: str) -> str:
    return f"*** Begin Patch\n{body}\n*** End Patch\n"


def state(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


@pytest.fixture
def files(project: Path) -> Path:
    (project / "a.py").write_text("def one():\n    return 1\n\n\ndef two():\n    return 1\n")
    (project / "b.txt").write_text("alpha\nbeta\n")
    (project / "c.txt").write_text("gone\n")
    return project


async def test_one_patch_adds_changes_moves_and_deletes(ctx: Any, call: Any, files: Path) -> None:
    (files / "b.txt").chmod(0o700)
    text = wrapped(
        "*** Add File: new/d.txt\n+one\n+\n+two\n"
        "*** Update File: a.py\n@@ def two():\n-    return 1\n+    return 2\n"
        "*** Update File: b.txt\n*** Move to: moved/b.txt\n alpha\n-beta\n+BETA\n"
        "*** Delete File: c.txt"
    )
    result = await call(TOOL, ctx, patchText=text)
    assert state(files) == {
        "a.py": b"def one():\n    return 1\n\n\ndef two():\n    return 2\n",
        "moved/b.txt": b"alpha\nBETA\n",
        "new/d.txt": b"one\n\ntwo\n",
    }
    assert result.output.splitlines() == [
        "Success. Updated the following files:",
        "A new/d.txt",
        "M a.py",
        "D b.txt",
        "A moved/b.txt",
        "D c.txt",
    ]
    assert "-    return 1\n+    return 2\n" in result.metadata["diff"]
    assert len(ctx.edited) == 5


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("*** Update File: b.txt\n-gamma\n+delta", "chunk 1 of b.txt: its lines do not stand in the file"),
        ("*** Update File: gone.txt\n-a\n+b", "File not found"),
        ("*** Delete File: gone.txt", "File not found"),
        ("*** Add File: b.txt\n+x", "b.txt exists: a patch adds only new files"),
        ("*** Update File: b.txt\n*** Move to: c.txt\n-beta\n+x", "c.txt exists: b.txt is not moved over it"),
        ("*** Update File: a.py\n-    return 1\n+    return 3", "its lines stand in 2 places"),
        ("*** Add File: b.txt/below\n+x", "a part of its path is a file"),
    ],
)
async def test_a_patch_of_which_one_part_does_not_fit_changes_nothing(
    ctx: Any, call: Any, files: Path, bad: str, said: str
) -> None:
    before = state(files)
    good = "*** Add File: first.txt\n+x\n*** Update File: c.txt\n-gone\n+here\n"
    with pytest.raises(ToolFailure, match=said):
        await call(TOOL, ctx, patchText=wrapped(good + bad))
    assert state(files) == before
    assert ctx.edited == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("*** Update File: a", r"begins with '\*\*\* Begin Patch'"),
        (wrapped(""), "line 2 of the patch: expected"),
        ("*** Begin Patch\n*** End Patch", "names no file"),
        (wrapped("*** Add File: a\nno plus"), "line 3 of the patch: expected a line that begins with +"),
        (wrapped("*** Update File: a\n*** Delete File: b"), "the update of a changes nothing"),
        (wrapped("*** Delete File: a\n+x"), "nothing more of a file that is deleted"),
        (wrapped("*** Update File: a\n-x\n*** Move to: b"), "right below"),
        (wrapped("*** Update File: a\nx"), "begins with a blank, -, . or @@, found 'x'"),
        (wrapped("*** Add File: "), "expected a path"),
        (wrapped("hello"), "line 2 of the patch: expected"),
    ],
)
def test_a_malformed_patch_names_its_line(text: str, said: str) -> None:
    with pytest.raises(ToolFailure, match=said):
        apply_patch.parse(text)


@pytest.mark.parametrize(
    ("before", "body", "after"),
    [
        ("a\nb\nc\n", "-b\n+x", "a\nx\nc\n"),
        ("a\r\nb\r\n", "-b\n+x", "a\r\nx\r\n"),
        ("a\nb", "-b\n+x", "a\nx"),
        # lines that stay keep the blanks that they have in the file
        ("a  \nb\n", " a\n-b\n+x", "a  \nx\n"),
        ("  a\nb\n", " a\n-b\n+x", "  a\nx\n"),
        # chunks in order
        ("a\nb\na\nb\n", "@@ a\n-b\n+1\n@@ a\n-b\n+2", "a\n1\na\n2\n"),
        # several @@ in a row lead to a place
        (
            "class A:\n  def f\n    x\nclass B:\n  def f\n    x\n",
            "@@ class B:\n@@ def f\n-    x\n+    y",
            "class A:\n  def f\n    x\nclass B:\n  def f\n    y\n",
        ),
        ("x\na\nx\n", "-x\n+y\n*** End of File", "x\na\ny\n"),
        # nothing to find: at the end, or behind the line that is named
        ("a\n", "+b", "a\nb\n"),
        ("a\nb\n", "@@ a\n+x", "a\nx\nb\n"),
        ("a\nb\n", "-a\n-b", ""),
    ],
)
def test_chunks_are_put_where_they_stand(before: str, body: str, after: str) -> None:
    (change,) = apply_patch.parse(wrapped(f"*** Update File: f\n{body}"))
    assert apply_patch.updated("f", before, change.chunks) == after


def test_a_patch_needs_edit_for_each_path_and_more_outside(ctx: Any, files: Path, tmp_path: Path) -> None:
    text = wrapped(
        f"*** Update File: b.txt\n*** Move to: {tmp_path}/out.txt\n-beta\n+x\n*** Delete File: c.txt"
    )
    asks = apply_patch.permissions({"patchText": text}, ctx)
    assert [(ask.permission, list(ask.patterns)) for ask in asks] == [
        ("edit", ["b.txt"]),
        ("external_directory", [f"{tmp_path}/*"]),
        ("edit", [f"{tmp_path}/out.txt"]),
        ("edit", ["c.txt"]),
    ]
    assert apply_patch.permissions({"patchText": "nonsense"}, ctx) == []
