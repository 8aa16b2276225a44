"""Claude's short names: the newest of a family, of the provider that is used."""

from typing import Any

import pytest
from tests.provider.test_resolve import models

from instar.provider.resolve import UnknownModel

KEY = {"ANTHROPIC_API_KEY": "k"}


def server(*names: str) -> dict[str, Any]:
    return {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": "http://127.0.0.1:1/v1"},
        "models": {name: {} for name in names},
    }


@pytest.mark.parametrize(
    ("family", "names", "newest"),
    [
        ("haiku", ["claude-haiku-4-5", "claude-sonnet-5"], "claude-haiku-4-5"),
        ("sonnet", ["claude-sonnet-4-6", "claude-sonnet-5", "claude-sonnet-4-5-20250929"], "claude-sonnet-5"),
        ("haiku", ["claude-3-5-haiku-20241022", "claude-3-haiku-20240307"], "claude-3-5-haiku-20241022"),
        ("opus", ["anthropic/claude-opus-4.1", "anthropic/claude-opus-4.10"], "anthropic/claude-opus-4.10"),
        ("opus", ["anthropic.claude-opus-4-1-v1:0", "gpt-opus"], "anthropic.claude-opus-4-1-v1:0"),
        ("haiku", ["haiku", "claude-haiku-9"], "haiku"),
    ],
)
@pytest.mark.parametrize("written", ["{}", "/{}"])
def test_a_short_name_is_the_newest_of_its_family(
    family: str, names: list[str], newest: str, written: str
) -> None:
    known = models({"provider": {"mine": server(*names)}})
    assert known.find_named(written.format(family)).ref == f"mine/{newest}"


def test_the_sessions_own_provider_comes_first_then_the_first_that_has_one() -> None:
    known = models({"provider": {"one": server("m"), "two": server("claude-haiku-4-5")}}, KEY)
    assert known.find_named("Haiku", known.find("one/m")).ref == "two/claude-haiku-4-5"
    assert (
        known.find_named("haiku", known.find("anthropic/claude-opus-5")).ref == "anthropic/claude-haiku-4-5"
    )


def test_of_several_providers_of_one_model_the_sessions_is_meant_then_one_with_a_key() -> None:
    keyed = server("sonnet-x")
    keyed["options"]["apiKey"] = "k"
    known = models({"provider": {"one": server("sonnet-x", "m"), "two": keyed, "three": server("sonnet-x")}})
    assert known.find_named("sonnet-x", known.find("one/m")).ref == "one/sonnet-x"
    assert known.find_named("/sonnet-x").ref == "two/sonnet-x"
    with pytest.raises(UnknownModel, match="several providers"):
        known.find("sonnet-x")


def test_where_nothing_of_the_family_can_be_called_that_is_said() -> None:
    with pytest.raises(
        UnknownModel, match="newest Claude Haiku, and no provider that can be called here lists one"
    ):
        models({"provider": {"one": server("m")}}).find_named("haiku")
    with pytest.raises(UnknownModel, match="there is no model 'gpt'"):
        models({}).find_named("gpt")
