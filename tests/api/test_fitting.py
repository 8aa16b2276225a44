"""Settings as opencode's schema allows them, of whatever a file may say."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.server.conformance import DOCUMENT

from instar import wire
from instar.api.config import Config, fitted

VALIDATOR = Draft202012Validator(
    {"$ref": "#/components/schemas/Config", "components": DOCUMENT["components"]}
)


def shown(data):
    """What an answer holds of settings; it is as the schema has it."""
    plain = json.loads(wire.encode(fitted(data)))
    assert [error.message for error in VALIDATOR.iter_errors(plain)] == []
    return plain


LOCAL = {"type": "local", "command": ["a"]}
REMOTE = {"type": "remote", "url": "http://a"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"model": 5, "small_model": "a/b"}, {"small_model": "a/b"}),
        ({"hooks": {}, "limits": {}, "zzz": 1}, {}),
        ({"permission": "ask"}, {"permission": "ask"}),
        ({"permission": {"bash": {"*": "ask", "ls": "often"}}}, {"permission": {"bash": {"*": "ask"}}}),
        ({"permission": {"webfetch": {"*": "ask", "a": "deny"}}}, {"permission": {"webfetch": "ask"}}),
        ({"permission": {"webfetch": {"a": "deny"}}}, {"permission": {}}),
        ({"permission": {"read": ["allow"], "edit": None}}, {"permission": {}}),
        ({"mcp": {"a": LOCAL | {"url": "x"}, "b": REMOTE}}, {"mcp": {"a": LOCAL, "b": REMOTE}}),
        ({"mcp": {"a": {"type": "local"}, "b": {"enabled": False}}}, {"mcp": {"b": {"enabled": False}}}),
        (
            {"agent": {"a": {"color": "blue", "mode": "primary", "mine": {"b": 1}}}},
            {"agent": {"a": {"mode": "primary", "mine": {"b": 1}, "permission": {}}}},
        ),
        ({"command": {"a": {"agent": "b"}, "c": {"template": "d"}}}, {"command": {"c": {"template": "d"}}}),
        ({"plugin": ["a", ["b", {"c": 1}]]}, {"plugin": ["a", ["b", {"c": 1}]]}),
        ({"autoupdate": "notify"}, {"autoupdate": "notify"}),
        ({"formatter": False, "lsp": True}, {"formatter": False, "lsp": True}),
        (
            {"lsp": {"a": {"disabled": True, "env": {}}, "b": {"command": ["c"]}, "d": {}}},
            {"lsp": {"a": {"disabled": True}, "b": {"command": ["c"]}}},
        ),
        (
            {"references": {"a": "b", "c": {"path": "d", "branch": "e"}, "f": {}}},
            {"references": {"a": "b", "c": {"path": "d"}}},
        ),
        (
            {
                "provider": {
                    "a": {"models": {"b": {"limit": {"context": 1}, "cost": {"input": 1, "output": 2}}}}
                }
            },
            {"provider": {"a": {"models": {"b": {"cost": {"input": 1, "output": 2}}}}}},
        ),
        ({"compaction": {"tail_turns": -1, "auto": False}}, {"compaction": {"auto": False}}),
    ],
)
def test_what_fits_is_kept_and_what_does_not_is_left_out(given, kept):
    assert shown(given) == kept


NAMES = [
    *(field for field in Config.__struct_fields__),
    *("type", "command", "url", "enabled", "disabled", "path", "models", "limit", "cost", "input", "output"),
    *("context", "options", "color", "mode", "steps", "template", "bash", "webfetch", "*", "image", "x"),
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["allow", "ask", "local", "remote", "primary", "#00ff00", "auto", "notify", "text", ""])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
@settings(max_examples=150, deadline=None)
def test_whatever_a_file_says_the_answer_is_as_the_schema_has_it(data):
    shown(data)
