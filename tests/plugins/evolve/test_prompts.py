"""The prompts by stage."""

import pytest

from instar.plugins.evolve.workspace import Workspace, WorkspacePrompts


@pytest.fixture
def prompts(root):
    (root / "prompts").mkdir()
    return WorkspacePrompts(Workspace(root))


def test_every_stage_is_there_and_a_file_is_read_again_when_it_changed(prompts, root):
    assert prompts.all() == dict.fromkeys(("preamble", "chat", "heartbeat", "compaction", "recover"), "")
    (root / "prompts" / "chat.md").write_text("one")
    (root / "prompts" / "other.md").write_text("no stage")
    assert prompts.all()["chat"] == "one"
    (root / "prompts" / "chat.md").write_text("three")
    assert prompts.text("chat") == "three"
    assert "other" not in prompts.all()


def test_a_link_out_of_the_workspace_is_not_read_and_the_log_says_so(prompts, root, tmp_path, caplog):
    (tmp_path / "secret").write_text("secret")
    (root / "prompts" / "chat.md").symlink_to(tmp_path / "secret")
    assert prompts.text("chat") == ""
    assert "symbolic link" in caplog.text


def test_a_prompt_that_is_not_utf_8_is_read_with_marks_in_place_of_the_bytes(prompts, root):
    (root / "prompts" / "chat.md").write_bytes(b"a\xffb")
    assert prompts.text("chat") == "a\ufffdb"


def test_the_default_of_a_stage_is_the_preamble_and_its_file_and_nothing_without_the_file(prompts, root):
    (root / "prompts" / "preamble.md").write_text("who")
    assert prompts.default("recover") == []
    (root / "prompts" / "recover.md").write_text("mend")
    assert prompts.default("recover") == ["who", "mend"]
