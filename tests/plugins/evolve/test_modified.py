"""Modified: of what a script names only files of the workspace count."""

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instar.plugins.evolve.effects import MOST_FILES, modified_files


@pytest.mark.parametrize(
    "name", ["a.md", "notes/a.md", "gone/deep/b.md", "./a.md", "link", "päth with space"]
)
def test_a_file_of_the_workspace_counts_also_one_that_is_deleted(root, name):
    (root / "link").symlink_to("/etc/passwd")
    assert modified_files(root, name) == ([os.path.normpath(name)], [])


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "no path"),
        (" \n", "no path"),
        ("a\0b", "no path"),
        ("x" * 5000, "no path"),
        (7, "no path"),
        (["a"], "no path"),
        ({"file": "a"}, "no path"),
        ("../a", "inside the workspace"),
        ("a/../../b", "inside the workspace"),
        ("/etc/passwd", "inside the workspace"),
        (".", "inside the workspace"),
        (".git/config", "git's own"),
        ("sub/.git/config", "git's own"),
        ("hooks", "it is a folder"),
        ("out/a", "outside the workspace"),
        ("y" * 4000, "too long"),
    ],
)
def test_any_other_name_is_left_out_and_named(root, name, why):
    (root / "out").symlink_to(root.parent)
    found = modified_files(root, [name, "ok.md"])
    assert found.files == ["ok.md"]
    (problem,) = found.problems
    assert why in problem or why == "too long"
    assert "\n" not in problem


def test_of_too_many_names_the_rest_is_counted(root):
    found = modified_files(root, [f"{number}" for number in range(MOST_FILES + 5)])
    assert len(found.files) == MOST_FILES
    assert found.problems == ["5 more names were left out: 1000 at most are read"]


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from(["..", "/", ".git", "a/..", "~"]),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(json))
def test_whatever_a_script_names_no_file_lies_outside(root, names):
    found = modified_files(root, names)
    for file in found.files:
        assert (root / file).parent.resolve().is_relative_to(root.resolve())
        assert not os.path.isabs(file)
