"""Settings files that a client amends."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.limits.budget import LimitsError
from instar.runtime.config_edit import EditedFile, MaskedValue, amend, amended, own_file, project_file
from instar.settings.paths import Paths
from instar.settings.trust import Trust
from instar.wire.document import DocumentError, parse_jsonc

COMMENTED = """\
{
  // who answers
  "model": "a/b", // the good one
  "provider": {
    "mine": { "options": { "apiKey": "sk-very-secret" } } /* own */
  },
  "instructions": ["one"], // last
}
"""


def joined(one, other):
    found = dict(one)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = joined(found[key], value) if both else value
    return found


@pytest.mark.parametrize(
    ("before", "changes", "after"),
    [
        ("", {"a": 1}, '{\n  "a": 1\n}\n'),
        ("{}", {"a": {"b": "é"}}, '{\n  "a": {\n    "b": "é"\n  }\n}'),
        ('{"a": 1}', {"b": 2}, '{"a": 1,\n  "b": 2\n}'),
        ('{"a": 1,}', {"b": 2}, '{"a": 1,\n  "b": 2\n}'),
        ('{\n  "a": 1 // one\n}\n', {"b": 2}, '{\n  "a": 1, // one\n  "b": 2\n}\n'),
        ('{\n  "a": 1, // one\n}\n', {"b": 2}, '{\n  "a": 1, // one\n  "b": 2\n}\n'),
        ('{\n  "a": 1 /* , */ ,\n}\n', {"b": 2}, '{\n  "a": 1 /* , */ ,\n  "b": 2\n}\n'),
        ('{"a": {"b": 1}, "c": 2}', {"a": {"d": [1]}}, None),
        ('{"a": 1, "a": 2}', {"a": 3}, '{"a": 1, "a": 3}'),
        ('{"a": "x"}', {"a": {"b": 1}}, '{"a": {\n    "b": 1\n  }}'),
        ('// head\n{ "a": 1 } // tail', {"a": 2}, '// head\n{ "a": 2 } // tail'),
    ],
)
def test_a_change_leaves_the_rest_of_a_file_as_it_was_written(before, changes, after):
    made = amended(before, changes)
    if after is not None:
        assert made == after
    assert parse_jsonc(made, "x") == joined(parse_jsonc(before or "{}", "x"), changes)


def test_comments_stay_where_they_stand():
    made = amended(COMMENTED, {"model": "c/d", "provider": {"mine": {"name": "Mine"}}, "username": "ada"})
    for comment in ("// who answers", '"c/d", // the good one', "} /* own */", '["one"], // last'):
        assert comment in made
    assert parse_jsonc(made, "x")["username"] == "ada"


KEYS = st.sampled_from(["a", "b", "é", 'q"', "// no", "/*"])
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
MAPS = st.recursive(
    st.dictionaries(KEYS, LEAVES, max_size=3), lambda inner: st.dictionaries(KEYS, LEAVES | inner, max_size=3)
)


@st.composite
def documents(draw):
    """A map as a person may write it: with comments, trailing commas, on one line or many."""
    data = draw(MAPS)

    def text(value, depth):
        if not isinstance(value, dict):
            return json.dumps(value, ensure_ascii=draw(st.booleans()))
        gap = st.sampled_from(["", " ", "\n", " // c, }\n", "/* { , */", "\n\n\t"])
        entries = [
            f"{draw(gap)}{json.dumps(key)}{draw(gap)}:{draw(gap)}{text(item, depth + 1)}{draw(gap)}"
            for key, item in value.items()
        ]
        tail = draw(st.sampled_from(["", ",", ", // t\n"])) if entries else ""
        return "{" + ",".join(entries) + tail + draw(gap) + "}"

    return data, text(data, 0)


@pytest.mark.slow
@given(documents(), MAPS)
@settings(max_examples=150, deadline=None)
def test_what_is_read_afterwards_is_what_stood_there_with_the_change(document, changes):
    data, text = document
    assert parse_jsonc(text, "x") == data
    assert parse_jsonc(amended(text, changes), "x") == joined(data, changes)


@pytest.fixture
def place(tmp_path):
    return EditedFile(tmp_path / "project" / "instar.json", tmp_path / "project")


@pytest.fixture
def change(place, clean_environment):
    trust = Trust(Paths.from_environment(clean_environment), clean_environment)
    return lambda changes: amend(place, changes, clean_environment | {"OWN": "from-outside"}, trust)


def test_a_file_that_is_not_there_is_made_for_the_person_alone(place, change):
    assert change({"model": "a/b"}) == {"model": "a/b"}
    assert json.loads(place.path.read_text()) == {"model": "a/b"}
    assert place.path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"model": 5}, DocumentError, "model: expected a string"),
        ({"limits": {"day": {"tokens": -1}}}, LimitsError, "limits.day"),
        ({"permission": {"bash": "sometimes"}}, DocumentError, "permission.bash"),
        ({"plugin": [["x", {"key": "***"}]]}, MaskedValue, "plugin"),
    ],
)
def test_a_change_with_a_mistake_is_refused_whole(place, change, changes, error, said):
    change({"model": "a/b"})
    before = place.path.read_bytes()
    with pytest.raises(error, match=said):
        change({"username": "ada", **changes})
    assert place.path.read_bytes() == before


def test_what_was_shown_masked_and_comes_back_stays_as_it_was(place, change):
    place.path.parent.mkdir()
    place.path.write_text(COMMENTED)
    change({"provider": {"mine": {"options": {"apiKey": "***"}, "name": "Mine"}}})
    assert parse_jsonc(place.path.read_text(), "x")["provider"]["mine"] == {
        "options": {"apiKey": "sk-very-secret"},
        "name": "Mine",
    }


def test_a_change_that_says_nothing_new_leaves_the_file_untouched(place, change):
    place.path.parent.mkdir()
    place.path.write_text(COMMENTED)
    before = place.path.stat()
    change({"model": "a/b", "provider": {"mine": {"options": {"apiKey": "***"}}}})
    assert place.path.stat() == before


def test_the_file_that_is_heard_last_is_amended(tmp_path):
    assert project_file(tmp_path).path == tmp_path / "instar.json"
    (tmp_path / "opencode.json").touch()
    assert project_file(tmp_path).path == tmp_path / "opencode.json"
    (tmp_path / ".opencode").mkdir()
    (tmp_path / ".opencode/opencode.jsonc").touch()
    assert project_file(tmp_path).path == tmp_path / ".opencode/opencode.jsonc"
    assert own_file((tmp_path,), tmp_path / "home").path == tmp_path / "opencode.json"
    assert own_file((), tmp_path / "home") == EditedFile(tmp_path / "home/instar.json", None)
