"""Providers that an untrusted project brought, and who may choose them."""

from typing import Any

import pytest

from instar.settings.layer import Layer
from instar.settings.untrusted import foreign, without_choice


def project(data: dict[str, Any], *, trusted: bool = False) -> Layer:
    return Layer("opencode.json", "project", data, trusted=trusted)


@pytest.mark.parametrize(
    "block",
    [
        {"api": "http://evil"},
        {"options": {"baseURL": "http://evil"}},
        {"models": {"m": {"provider": {"api": "http://evil"}}}},
    ],
)
def test_a_provider_is_foreign_when_an_untrusted_project_gives_it_an_address(block: dict[str, Any]) -> None:
    data = {"provider": {"p": block, "q": {"name": "Q"}}}
    assert foreign([project(data)]) == {"p"}
    assert foreign([project(data, trusted=True), Layer("home", "global", data)]) == frozenset()


def test_every_choice_of_a_foreign_provider_is_left_out_and_named() -> None:
    data = {
        "model": "p/m",
        "small_model": "q/m",
        "agent": {"build": {"model": "p/m/n", "mode": "all"}, "plan": {"model": "q/m"}},
        "username": "p/m",
    }
    layer, dropped = without_choice(project(data), ["p"])
    assert layer.data == {
        "small_model": "q/m",
        "agent": {"build": {"mode": "all"}, "plan": {"model": "q/m"}},
        "username": "p/m",
    }
    assert [text.split(" was left out")[0] for text in dropped] == [
        "opencode.json: model",
        "opencode.json: agent.build.model",
    ]
    assert "--model p/m/n" in dropped[1]


@pytest.mark.parametrize(
    "layer", [project({"model": "p/m"}, trusted=True), Layer("h", "global", {"model": "p/m"})]
)
def test_who_is_trusted_chooses_freely(layer: Layer) -> None:
    assert without_choice(layer, ["p"]) == (layer, [])
