"""What a server says a tool is: read with distrust, named as opencode names it, compared with what was approved."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.mcp.server import McpTool, difference, tool_name, visible


@pytest.mark.slow
@pytest.mark.parametrize(
    ("server", "tool", "name"),
    [
        ("git", "log", "git_log"),
        ("my server", "read.file", "my_server_read_file"),
        ("a-b", "c_d", "a-b_c_d"),
        ("größe", "🚀", "gr__e__"),
    ],
)
def test_a_name_is_the_servers_and_the_tools_with_other_characters_as_underscores(
    server: str, tool: str, name: str
) -> None:
    assert tool_name(server, tool) == name


@given(st.text(), st.text())
def test_every_name_is_one_that_providers_take(server: str, tool: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]+", tool_name(server, tool))


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_whatever_a_server_lists_is_a_definition_or_a_reason(raw: object) -> None:
    with contextlib.suppress(ValueError):
        assert isinstance(McpTool.read(raw), McpTool)


def test_a_schema_without_type_or_properties_is_one_of_an_object() -> None:
    found = McpTool.read({"name": "x", "inputSchema": {"additionalProperties": False}})
    assert found.parameters == {"type": "object", "properties": {}, "additionalProperties": False}
    assert found.description == ""


def test_the_order_of_keys_changes_nothing_and_any_word_does() -> None:
    one = McpTool.read({"name": "x", "description": "d", "inputSchema": {"type": "object", "title": "t"}})
    same = McpTool.read({"inputSchema": {"title": "t", "type": "object"}, "description": "d", "name": "x"})
    other = McpTool.read({"name": "x", "description": "d", "inputSchema": {"type": "object", "title": "u"}})
    assert one.text == same.text
    assert one.text != other.text


def test_a_difference_names_both_sides_and_shows_what_is_invisible() -> None:
    before = McpTool("x", "Adds.", {"type": "object"}).text
    after = McpTool("x", "Adds.\u202e\U000e0041", {"type": "object", "title": "t"}).text
    found = difference(before, after)
    assert "-Adds." in found
    assert "+Adds.\\u202e\\U000e0041" in found
    assert '"title": "t"' in found


@given(st.text())
def test_nothing_unprintable_is_left(text: str) -> None:
    assert all(char.isprintable() or char == "\n" for char in visible(text))
