"""What is made of a tool's definition is made once, and again when the definition is another."""

import pytest

from instar.provider import convert
from instar.provider.convert import Remembered
from instar.provider.protocol import ToolSpec


class Maker:
    """Remembers a definition's description and schema, and counts how often it was asked for them."""

    def __init__(self) -> None:
        self.made = 0
        self.of = Remembered(self._make)

    def _make(self, spec: ToolSpec) -> str:
        self.made += 1
        return f"{spec.description} {spec.parameters}"


def spec(name: str = "read", description: str = "Reads.", **properties: str) -> ToolSpec:
    return ToolSpec(name, description, {"type": "object", "properties": properties})


def test_the_same_definition_is_made_once_also_from_another_object() -> None:
    maker = Maker()
    assert (
        maker.of(spec(path="string"))
        == maker.of(spec(path="string"))
        == f"Reads. {spec(path='string').parameters}"
    )
    assert maker.made == 1


@pytest.mark.parametrize(
    "other",
    [spec(description="Looks.", path="string"), spec(path="integer"), spec(), spec("look", path="string")],
)
def test_another_definition_is_made_anew(other: ToolSpec) -> None:
    maker = Maker()
    maker.of(spec(path="string"))
    assert maker.of(other) == f"{other.description} {other.parameters}"
    assert maker.made == 2


def test_a_schema_that_was_changed_in_place_is_made_anew() -> None:
    maker, one = Maker(), spec(path="string")
    maker.of(one)
    one.parameters["properties"]["line"] = "integer"
    assert "line" in maker.of(one)


def test_no_more_than_so_many_tools_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "_MOST_TOOLS", 2)
    maker = Maker()
    for name in ("a", "b", "c", "c", "a"):
        maker.of(spec(name))
    assert maker.made == 4
