import copy
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar import wire
from instar.wire import Wire


class Leaf(Wire, tag_field="kind", tag="leaf"):
    n: int
    note: str | None = None


class Bud(Wire, tag_field="kind", tag="bud"):
    n: int


class Tree(Wire):
    tree_id: str
    is_old: bool | None = None
    top: Leaf | Bud | None = None
    leaves: list[Leaf] = msgspec.field(default_factory=list)
    free: dict[str, Any] | None = None
    anything: Any = None


BARE = {"treeID": "t"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("id", "id"),
        ("session_id", "sessionID"),
        ("is_retryable", "isRetryable"),
        ("id_of_thing", "idOfThing"),
        ("tail_start_id", "tailStartID"),
        ("call_id", "callID"),
        ("cwd", "cwd"),
    ],
)
def test_names_are_camel_case_with_id_in_capitals(name: str, expected: str) -> None:
    assert wire.wire_name(name) == expected


def test_fields_that_are_not_set_are_left_out() -> None:
    assert wire.encode(Tree(tree_id="t")) == b'{"treeID":"t"}'


@pytest.mark.parametrize(
    "plain",
    [
        {**BARE, "later": {"deep": [1, None]}},
        {**BARE, "isOld": None, "top": None, "free": None},
        {**BARE, "top": {"kind": "leaf", "n": 1, "note": None, "more": True}},
        {**BARE, "leaves": [{"kind": "leaf", "n": 1}, {"kind": "leaf", "n": 2, "x": 1}]},
        {**BARE, "leaves": []},
        {**BARE, "free": {"a": None, "b": {"c": 1.5}}},
        {**BARE, "anything": [{"kind": "leaf"}]},
    ],
)
def test_a_round_trip_loses_nothing(plain: dict[str, Any]) -> None:
    for source in (plain, json.dumps(plain), json.dumps(plain).encode(), json.dumps(plain, indent=1)):
        tree = wire.decode(source, Tree)
        assert wire.to_plain(tree) == plain
        assert json.loads(wire.encode(tree)) == plain
        assert wire.to_plain(wire.copy(tree)) == plain


def test_a_leftover_stands_with_the_value_it_came_in_and_moves_with_it() -> None:
    tree = wire.decode(
        {**BARE, "leaves": [{"kind": "leaf", "n": 1, "x": 1}, {"kind": "leaf", "n": 2, "y": 2}]}, Tree
    )
    tree.leaves.pop(0)
    other = Tree(tree_id="u", leaves=tree.leaves)
    assert wire.to_plain(other) == {"treeID": "u", "leaves": [{"kind": "leaf", "n": 2, "y": 2}]}
    assert json.loads(wire.encode(other))["leaves"] == [{"kind": "leaf", "n": 2, "y": 2}]


def test_a_value_that_takes_anothers_place_does_not_inherit_its_leftover() -> None:
    tree = wire.decode({**BARE, "top": {"kind": "leaf", "n": 1, "note": None, "x": 1}}, Tree)
    tree.top = Bud(n=3)
    assert wire.to_plain(tree) == {**BARE, "top": {"kind": "bud", "n": 3}}


def test_a_field_that_is_set_later_beats_a_null_that_came() -> None:
    tree = wire.decode({**BARE, "isOld": None, "free": None}, Tree)
    tree.is_old = True
    assert wire.to_plain(tree) == {**BARE, "isOld": True, "free": None}


def test_equality_does_not_look_at_leftovers() -> None:
    assert wire.decode({**BARE, "x": 1}, Tree) == Tree(tree_id="t")


def test_every_copy_keeps_the_leftover_but_msgspecs_own_replace() -> None:
    plain = {**BARE, "x": 1, "top": {"kind": "leaf", "n": 1, "y": 2}}
    tree = wire.decode(plain, Tree)
    for made in (copy.copy(tree), copy.deepcopy(tree), wire.copy(tree), wire.replace(tree)):
        assert made is not tree
        assert wire.to_plain(made) == plain
    assert wire.to_plain(wire.replace(tree, is_old=True)) == {**plain, "isOld": True}
    assert wire.to_plain(msgspec.structs.replace(tree)) == {**BARE, "top": plain["top"]}


def test_a_deep_copy_shares_nothing() -> None:
    tree = wire.decode({**BARE, "x": [1], "free": {"a": [1]}, "leaves": [{"kind": "leaf", "n": 1}]}, Tree)
    made = wire.copy(tree)
    made.leaves[0].n = 9
    made.free["a"].append(2)  # type: ignore[index]
    made.__dict__["leftover"]["x"].append(2)
    assert wire.to_plain(tree) == {**BARE, "x": [1], "free": {"a": [1]}, "leaves": [{"kind": "leaf", "n": 1}]}


def test_the_plain_form_is_detached() -> None:
    tree = wire.decode({**BARE, "x": [1], "free": {"a": [1]}}, Tree)
    plain = wire.to_plain(tree)
    plain["x"].append(2)
    plain["free"]["a"].append(2)
    assert wire.to_plain(tree) == {**BARE, "x": [1], "free": {"a": [1]}}


@pytest.mark.parametrize("number", [0, -1, 2**53 + 1, 2**63, 2**64, -(2**80), 10**40, 1.5, -1e-300, 1.7e308])
def test_numbers_of_any_size_survive_in_free_form_fields_and_leftovers(number: float) -> None:
    plain = {**BARE, "free": {"n": number}, "anything": number, "later": number}
    assert wire.to_plain(wire.decode(json.dumps(plain), Tree)) == plain
    assert json.loads(wire.encode(wire.decode(json.dumps(plain), Tree))) == plain


def test_whole_floats_are_integers_where_one_is_due_and_stay_floats_elsewhere() -> None:
    tree = wire.decode('{"treeID":"t","top":{"kind":"bud","n":1718000000000.0},"anything":1.0}', Tree)
    assert wire.encode(tree).startswith(b'{"treeID":"t","top":{"kind":"bud","n":1718000000000}')


def test_half_a_surrogate_pair_is_read_and_written_as_a_replacement_character() -> None:
    tree = wire.decode('{"treeID":"a\\ud83d","free":{"\\udc00":"ok \\ud83d\\ude00"}}', Tree)
    assert wire.to_plain(tree) == {"treeID": "a\ufffd", "free": {"\ufffd": "ok \U0001f600"}}
    assert json.loads(wire.encode(Tree(tree_id="a\udcff"))) == {"treeID": "a\ufffd"}


@pytest.mark.parametrize(
    "data", [b"\xff", "", "{", "nul", "[" * 200_000, '{"treeID":"\\ud83d"', '{"x":NaN,"y":"\\u00e4"}']
)
def test_what_is_not_json_is_refused(data: bytes | str) -> None:
    with pytest.raises(msgspec.DecodeError):
        wire.decode(data, Tree)


@pytest.mark.parametrize(
    ("plain", "place"),
    [
        ({}, "treeID"),
        ({"treeID": 1}, "$.treeID"),
        ({**BARE, "leaves": [{"kind": "leaf", "n": "x"}]}, "$.leaves[0].n"),
        ({**BARE, "top": {"kind": "root"}}, "root"),
        ([], "object"),
    ],
)
def test_a_malformed_value_is_refused_with_its_place(plain: Any, place: str) -> None:
    for source in (plain, json.dumps(plain)):
        with pytest.raises(msgspec.ValidationError) as caught:
            wire.decode(source, Tree)
        assert place in str(caught.value)


@pytest.mark.slow
def test_a_value_nested_beyond_reading_is_refused_not_a_crash() -> None:
    deep: Any = []
    for _ in range(200_000):
        deep = [deep]
    with pytest.raises(msgspec.ValidationError):
        wire.decode({"treeID": 1, "anything": deep}, Tree)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(st.text(max_size=5), JSON, max_size=4),
    JSON,
    st.lists(st.dictionaries(st.text(max_size=4), JSON)),
)
def test_any_json_beside_the_fields_survives(
    extra: dict[str, Any], anything: Any, leaves: list[dict[str, Any]]
) -> None:
    plain = {
        **extra,
        **BARE,
        "isOld": None,
        "top": None,
        "free": extra,
        "anything": anything,
        "leaves": [{**leaf, "kind": "leaf", "n": 1, "note": None} for leaf in leaves],
    }
    tree = wire.decode(plain, Tree)
    assert wire.to_plain(tree) == plain
    assert json.loads(wire.encode(tree)) == plain
    assert wire.to_plain(wire.decode(wire.encode(tree), Tree)) == plain
