"""The model that was used last, in a file that scripts may write too."""

import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instar.plugins.evolve.heartbeat import memory
from instar.plugins.evolve.heartbeat.memory import Unusable
from instar.plugins.evolve.settings import ModelName

LAST = ModelName("anthropic", "claude-x")


@pytest.fixture
def file(root):
    return root / "state" / "evolve.json"


def test_the_model_is_remembered_and_other_keys_stay(root, file):
    assert memory.last_model(root) is None
    assert memory.remember(root, LAST)
    assert memory.last_model(root) == LAST
    file.write_text(json.dumps({"mood": {"é": [1]}, "model": {"providerID": "old", "modelID": "m"}}))
    assert memory.remember(root, LAST)
    assert json.loads(file.read_text()) == {
        "mood": {"é": [1]},
        "model": {"providerID": "anthropic", "modelID": "claude-x"},
    }
    assert not memory.remember(root, LAST)
    assert sorted(os.listdir(file.parent)) == [".gitignore", "evolve.json"]


@pytest.mark.parametrize(
    "model",
    [
        "anthropic/claude",
        None,
        3,
        [],
        {"providerID": "a"},
        {"providerID": "a", "modelID": ""},
        {"providerID": "a", "modelID": "x\ny"},
        {"providerID": "a", "modelID": "x" * 500},
        {"providerID": ["a"], "modelID": "x"},
    ],
)
def test_a_model_that_is_none_counts_as_not_known(root, file, model):
    file.parent.mkdir()
    file.write_text(json.dumps({"model": model}))
    assert memory.last_model(root) is None


@pytest.mark.parametrize(
    ("content", "said"), [(b"{", "not JSON"), (b"[]", "object"), (b"\xff", "JSON"), (b"[" * 10**5, "JSON")]
)
def test_a_file_that_cannot_be_used_is_named_and_left_as_it_is(root, file, content, said):
    file.parent.mkdir()
    file.write_bytes(content)
    for act in (lambda: memory.last_model(root), lambda: memory.remember(root, LAST)):
        with pytest.raises(Unusable, match=said):
            act()
    assert file.read_bytes() == content


@pytest.mark.parametrize("what", ["link", "folder link", "pipe", "large"])
def test_what_is_no_plain_file_is_neither_read_nor_written_nor_waited_for(root, file, tmp_path, what):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "evolve.json").write_text('{"model": {"providerID": "evil", "modelID": "m"}}')
    if what == "folder link":
        file.parent.symlink_to(outside)
    else:
        file.parent.mkdir()
    if what == "link":
        file.symlink_to(outside / "evolve.json")
    elif what == "pipe":
        os.mkfifo(file)
    elif what == "large":
        file.write_bytes(b" " * (memory.LARGEST + 1))
    before = (outside / "evolve.json").read_text()
    for act in (lambda: memory.last_model(root), lambda: memory.remember(root, LAST)):
        with pytest.raises(Unusable):
            act()
    assert (outside / "evolve.json").read_text() == before


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(st.binary(max_size=200))
def test_no_content_does_more_than_be_refused(root, file, content):
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    try:
        memory.last_model(root)
        memory.remember(root, LAST)
    except Unusable:
        return
    assert memory.last_model(root) == LAST
