import json
import re

import pytest

from instar.provider.keys import Keys, KeysError
from instar.wire.secret import Secret


@pytest.fixture
def file(tmp_path):
    return tmp_path / "data" / "auth.json"


def test_a_key_is_kept_for_its_owner_alone_and_read_again(file):
    Keys(file).put("openai", Secret("sk-1"))
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert Keys(file).get("openai") == Secret("sk-1")
    assert Keys(file).get("xai") is None
    assert json.loads(file.read_text()) == {"openai": {"type": "api", "key": "sk-1"}}


def test_a_key_is_seen_by_who_put_it(file):
    keys = Keys(file)
    assert keys.get("openai") is None
    keys.put("openai", Secret("sk-1"))
    assert keys.get("openai") == Secret("sk-1")


def test_entries_of_other_kinds_stay_as_they_are(file):
    file.parent.mkdir()
    file.write_text('{"copilot": {"type": "oauth", "refresh": "r"}}')
    file.chmod(0o600)
    keys = Keys(file)
    keys.put("openai", Secret("sk-1"))
    assert keys.list() == ["copilot", "openai"]
    assert keys.entry("copilot") == {"type": "oauth", "refresh": "r"}
    assert keys.get("copilot") is None
    assert keys.remove("openai")
    assert not keys.remove("openai")
    assert json.loads(file.read_text()) == {"copilot": {"type": "oauth", "refresh": "r"}}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o620])
def test_a_file_that_others_may_read_is_refused(file, mode):
    Keys(file).put("openai", Secret("sk-1"))
    file.chmod(mode)
    with pytest.raises(KeysError, match=re.escape(f"{file}: others may read or write it")):
        Keys(file).get("openai")


@pytest.mark.parametrize("text", ['{"openai": sk-live-secret', '["sk-live-secret"]', '"sk-live-secret"'])
def test_a_damaged_file_is_named_without_what_stands_in_it_and_is_not_overwritten(file, text):
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(KeysError) as caught:
        Keys(file).put("xai", Secret("sk-2"))
    assert str(file) in str(caught.value)
    assert "sk-live-secret" not in str(caught.value)
    assert file.read_text() == text
