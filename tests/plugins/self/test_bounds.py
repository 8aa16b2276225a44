"""What may be kept: nanobot's limits at their edges, over the whole value."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plugins.self.room import House, cyclic, nothing

from instar.plugins.self import bounds
from instar.plugins.self.messages import Refusal


def nested(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = {"a": inner}
    return inner


TOO_LARGE = "value too large (max 1024 total elements)"
TOO_LONG = "value too large (max 32768 bytes of text)"
TOO_DEEP = "value nesting too deep (max 10 levels)"


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, 0, -1, 1.5, "", "text", [], {}, [[]], {"a": None}),
        *(
            2**63 - 1,
            -(2**63) + 1,
            "x" * 32768,
            "ä" * 16384,
            [0] * 1024,
            ["x" * 32] * 1024,
            {"a": ["x" * 16384] * 2},
            [[0] * 512, [0] * 512],
        ),
        *({str(one): one for one in range(1024)}, [[]] * 1024, {"k" * 256: 1}),
        *(nested(10), [[[[[[[[[[1]]]]]]]]]]),
    ],
    ids=lambda one: repr(one)[:30],
)
def test_a_value_at_the_edge_is_kept_as_a_copy(value: Any) -> None:
    kept = bounds.kept(value)
    assert kept == value
    assert type(kept) is type(value)
    assert kept is not value or not isinstance(value, list | dict)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("x" * 32769, TOO_LONG),
        ("ä" * 16385, TOO_LONG),
        ([0] * 1025, TOO_LARGE),
        (["x" * 16384, {"a": "x" * 16385}], TOO_LONG),
        ([[0] * 1000, [0] * 1000, [0] * 1000], TOO_LARGE),
        ([[0] * 512, [0] * 512, 0], TOO_LARGE),
        ([[]] * 1025, TOO_LARGE),
        ("x" * 5_000_000, TOO_LONG),
        ({str(one): one for one in range(1025)}, TOO_LARGE),
        ({"k" * 257: 1}, "dict key too long (max 256 characters)"),
        (nested(11), TOO_DEEP),
        (nested(10, {}), TOO_DEEP),
        (cyclic(), TOO_DEEP),
        (float("nan"), "unsupported float nan (not JSON)"),
        (float("inf"), "unsupported float inf (not JSON)"),
        ([1, -float("inf")], "list[1] contains unsupported float -inf (not JSON)"),
        (2**63, "unsupported int (more than 64 bits)"),
        ("\ud800", "unsupported str (half a surrogate pair)"),
        ({"\udfff": 1}, "dict key is not text (half a surrogate pair)"),
        (print, "cannot store callable values"),
        (int, "cannot store callable values"),
        ({"x": lambda: 1}, "dict key 'x' contains cannot store callable values"),
        ({1}, "unsupported type set"),
        ((1,), "unsupported type tuple"),
        (b"x", "unsupported type bytes"),
        (nothing(), "unsupported type SimpleNamespace"),
        ({1: 2}, "dict key must be str, got int"),
        ({None: 2}, "dict key must be str, got NoneType"),
        ({True: 2}, "dict key must be str, got bool"),
        ([0, 1, 2, {3}], "list[3] contains unsupported type set"),
        ({"x": [{1}]}, "dict key 'x' contains list[0] contains unsupported type set"),
    ],
    ids=lambda one: repr(one)[:30],
)
def test_what_is_beyond_the_edge_is_refused_with_the_reason(value: Any, why: str) -> None:
    with pytest.raises(Refusal) as refused:
        bounds.kept(value)
    assert str(refused.value) == why


class Sly(str):
    """A text that would print something else."""

    def __repr__(self) -> str:
        return "sly"


class Wide(dict[str, Any]):
    """A map that would say that it is empty."""

    def __bool__(self) -> bool:
        return False


@pytest.mark.parametrize("value", [Sly("x"), Wide(), [Sly("x")]])
def test_a_value_is_of_json_s_own_types(value: Any) -> None:
    with pytest.raises(Refusal):
        bounds.kept(value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.slow
@given(JSON)
def test_whatever_is_kept_is_small_shallow_and_json(value: Any) -> None:
    try:
        kept = bounds.kept(value)
    except Refusal:
        return
    assert weight(kept) <= 1024
    assert depth(kept) <= 10


def weight(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(weight, items)) if isinstance(value, dict | list) else 1


def depth(value: Any) -> int:
    items = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if items is None else 1 + max(map(depth, items), default=0)


async def test_a_session_has_64_variables_and_a_known_one_can_be_set_again() -> None:
    house = House()
    for one in range(64):
        assert (
            await house.says(action="modify", key=f"k{one}", value=one) == f"Set _runtime_vars.k{one} = {one}"
        )
    full = "Error: _runtime_vars is full (max 64 keys). Reset unused keys first."
    assert await house.says(action="modify", key="more", value=1) == full
    assert await house.says(action="modify", key="k0", value=1) == "Set _runtime_vars.k0 = 1"
    await house.says(action="reset", key="k0")
    assert await house.says(action="modify", key="more", value=1) == "Set _runtime_vars.more = 1"


async def test_a_variable_does_not_grow_beyond_the_limits_by_its_parts() -> None:
    house = House()
    await house.says(action="modify", key="own", value={"a": [0] * 1000})
    assert await house.says(action="modify", key="own.b", value=[0] * 25) == f"Error: {TOO_LARGE}"
    assert await house.says(action="modify", key="own.b", value=[0] * 24) == f"Set own.b = {[0] * 20}"[
        :-1
    ] + (", ...] (24 items)")


async def test_a_long_value_is_cut_and_its_size_is_named() -> None:
    house = House()
    await house.says(action="modify", key="a", value="x" * 1024)
    await house.says(action="modify", key="b", value="y" * 1024)
    answer = await house.says(action="inspect")
    assert answer.endswith("... (truncated: 2,066 characters)")
    assert len(answer) < 2300
