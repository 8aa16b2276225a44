"""JSON with comments, exact places, and files that are written whole."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instar.wire.document import (
    DEEPEST,
    LARGEST,
    DocumentError,
    atomic_write,
    locate,
    parse_jsonc,
    read_jsonc,
    read_text,
)

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1} // end', {"a": 1}),
        ('// start\n{"a": 1}', {"a": 1}),
        ('{/* in */"a"/**/:/* * / */1}', {"a": 1}),
        ('{"url": "http://x//y", "c": "/* no */"}', {"url": "http://x//y", "c": "/* no */"}),
        (r'{"quote": "\"//\\", "b": 2} // "', {"quote": '"//\\', "b": 2}),
        ('{"a": [1, 2,], "b": {"c": 3,},}', {"a": [1, 2], "b": {"c": 3}}),
        ("[1, // one\n 2, /* two */ ]", [1, 2]),
        ('{"a": ",]", "b": ",}",}', {"a": ",]", "b": ",}"}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ("\ufeff[1]", [1]),
        ("\ufeff[1,]", [1]),
        ('"//"', "//"),
        ('{"a": null, "b": true,}', {"a": None, "b": True}),
        ("[\r\n1,\r\n]", [1]),
    ],
)
def test_comments_and_trailing_commas_are_passed_over(text: str, value: Any) -> None:
    assert parse_jsonc(text, "x") == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "c.json:1:1: expected a value, found the end of the document"),
        ('{\n  "a": 1\n  "b": 2\n}', "c.json:3:3: expected a comma or the closing bracket, found a string"),
        ('{\n  "a" 1\n}', "c.json:2:7: expected a colon after the key, found 1"),
        ("{\n  a: 1\n}", "c.json:2:3: expected a key in double quotes, found a"),
        ("{'a': 1}", "c.json:1:2: expected a key in double quotes, found '"),
        ('{"a": yes}', "c.json:1:7: expected a value, found yes"),
        ('{"a": 1', "c.json:1:8: expected a comma or the closing bracket, found the end of the document"),
        ('{"a": 1}}', "c.json:1:9: expected the end of the document, found }"),
        ('{"a": "x}\n', "c.json:1:10: expected a closing double quote before the end of the line"),
        (
            '{"a": "x}',
            "c.json:1:7: expected a closing double quote for the string that starts here, found a string",
        ),
        ("[1,,]", "c.json:1:4: expected a value, found ,"),
        ("[,]", "c.json:1:2: expected a value, found ,"),
        (
            '/* // */ {\n  // note: "x\n  /* two\n lines */ "a": tru,\n}',
            "c.json:4:16: expected a value, found tru",
        ),
        ('{"a": 1} /* open', "c.json:1:10: expected */ to close the comment, found the end of the document"),
        ('{"a": "NaN",\n "b": NaN}', "c.json:2:7: expected a value, found NaN, which JSON does not have"),
        ("[-Infinity]", "c.json:1:2: expected a value, found -Infinity, which JSON does not have"),
        ('{"a":\n}', "c.json:2:1: expected a value, found }"),
    ],
)
def test_a_mistake_names_line_column_what_was_expected_and_what_came(text: str, said: str) -> None:
    with pytest.raises(DocumentError) as raised:
        parse_jsonc(text, "c.json")
    assert str(raised.value).startswith(said)
    assert str(raised.value) == f"c.json:{raised.value.line}:{raised.value.column}: {raised.value.message}"


@pytest.mark.parametrize(
    "text", ['{"a": "b\tc"}', '["\\x"]', "[" * 100_000, "1" * 5000], ids=["tab", "escape", "deep", "long"]
)
def test_odd_documents_are_refused_with_a_place(text: str) -> None:
    with pytest.raises(DocumentError, match=r"^x:1:\d+: "):
        parse_jsonc(text, "x")


@pytest.mark.slow
@given(VALUES, st.integers(0, 4))
def test_every_json_document_parses_to_its_value(value: Any, indent: int) -> None:
    assert parse_jsonc(json.dumps(value, indent=indent or None), "x") == value


@pytest.mark.slow
@given(VALUES)
def test_comments_between_any_two_tokens_change_nothing(value: Any) -> None:
    dense = json.dumps(value, indent=1, separators=(' /*, ] } */ , // " [\n', "/**/:"))
    assert parse_jsonc(dense, "x") == value


@given(st.text(alphabet='{}[]":,/*\\ \n\tab1.e-N'))
def test_any_text_parses_or_is_refused_with_a_place_in_it(text: str) -> None:
    place = (1, 1)
    try:
        parse_jsonc(text, "x")
    except DocumentError as error:
        place = (error.line, error.column)
    lines = text.split("\n")
    assert 1 <= place[0] <= len(lines)
    assert 1 <= place[1] <= len(lines[place[0] - 1]) + 1


def test_a_file_that_is_not_utf8_is_refused_at_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes('{"ä": 1,\n "b": "'.encode() + b'\xff"}')
    with pytest.raises(DocumentError, match=r"c\.json:2:8: expected UTF-8 text, found the byte 0xff"):
        read_jsonc(path)


def test_a_byte_order_mark_is_passed_over_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1, }')
    assert read_jsonc(path) == {"a": 1}
    assert read_text(path).startswith("{")


TEXT = """// settings
{
  "model": "a/b", /* c */ "list": [1, {"x": "],}"},
    /* ] */ [true]],
  "twice": 1,
  "twice": {"inner": null},
  "k\\u0065y": 5,
}"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), (2, 1)),
        (("model",), (3, 12)),
        (("list",), (3, 35)),
        (("list", 1, "x"), (3, 45)),
        (("list", 2, 0), (4, 14)),
        (("twice",), (6, 12)),
        (("twice", "inner"), (6, 22)),
        (("key",), (7, 15)),
        (("nothing", "here"), (2, 1)),
        (("model", "deeper"), (3, 12)),
        (("list", 9), (3, 35)),
        (("list", "x"), (3, 35)),
    ],
)
def test_a_value_is_located_by_its_path(path: tuple[str | int, ...], place: tuple[int, int]) -> None:
    parse_jsonc(TEXT, "x")
    assert locate(TEXT, path) == place


@pytest.mark.slow
@given(st.dictionaries(st.text(), VALUES, min_size=1, max_size=4), st.data())
def test_what_stands_at_a_located_place_is_the_value(value: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(value)))
    text = json.dumps(value, indent=1)
    line, column = locate(text, [key])
    rest = "\n".join(text.split("\n")[line - 1 :])[column - 1 :]
    assert json.JSONDecoder().raw_decode(rest)[0] == value[key]


def test_a_file_is_replaced_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "hook.py"
    path.write_text("old")
    path.chmod(0o751)
    inode = path.stat().st_ino
    atomic_write(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    assert path.stat().st_ino != inode
    assert os.listdir(tmp_path) == ["hook.py"]


def test_a_new_file_gets_the_mode_asked_for_or_the_usual_one(tmp_path: Path) -> None:
    atomic_write(tmp_path / "secret", b"", mode=0o600)
    atomic_write(tmp_path / "plain", b"")
    (tmp_path / "usual").write_text("")
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert (tmp_path / "plain").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_writing_through_a_link_changes_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    atomic_write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inside").write_text("old")
    with pytest.raises(OSError, match="folder"):
        atomic_write(tmp_path / "folder", b"new")
    assert os.listdir(tmp_path) == ["folder"]
    assert (tmp_path / "folder" / "inside").read_text() == "old"


@pytest.mark.parametrize("comment", ["", "// said\n"])
def test_brackets_are_followed_as_deep_as_anybody_needs(comment: str) -> None:
    fits, deep = DEEPEST, DEEPEST + 1
    assert parse_jsonc(comment + "[" * fits + "]" * fits, "f")
    with pytest.raises(DocumentError, match="f:1:1: expected fewer levels of brackets"):
        parse_jsonc(comment + '{"a":' * deep + "[]" + "}" * deep, "f")


def test_a_pipe_or_device_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(DocumentError, match="found a pipe or device"):
            read_text(tmp_path / name)
    with pytest.raises(IsADirectoryError):
        read_text(tmp_path)


def test_a_document_has_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.touch()
    os.truncate(path, LARGEST + 1)
    with pytest.raises(DocumentError, match="expected at most 16 MiB"):
        read_text(path)
