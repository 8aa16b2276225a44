import pytest

from instar.config import ModelConfig, ProviderConfig
from instar.provider.assemble import Place, assemble, protocol_of
from instar.provider.catalogue import Entry, Vendor

PLACE = Place("p", "m", "openai", "http://h", "config")


def test_what_nobody_says_is_unknown():
    model = assemble(PLACE, ProviderConfig(), ModelConfig(), Entry(name=""), None)
    assert (model.name, model.limit.context, model.limit.input, model.cost.input) == ("m", 0, None, None)
    assert (model.temperature, model.reasoning, model.attachment, model.tools) == (True, False, False, True)


def test_no_key_and_no_address_are_among_the_settings():
    block = ProviderConfig(options={"apiKey": "k", "baseURL": "u", "headers": {}, "setCacheKey": True})
    assert assemble(PLACE, block, ModelConfig(), Entry(name=""), None).settings == {"setCacheKey": True}


@pytest.mark.parametrize(
    ("modalities", "attachment", "expected"),
    [
        ({"input": ["text", "pdf"]}, None, True),
        ({"input": ["text"]}, None, False),
        ({}, None, True),
        ({"input": ["image"]}, False, False),
    ],
)
def test_a_model_sees_what_its_block_says(modalities, attachment, expected):
    asked = ModelConfig(modalities=modalities, attachment=attachment)
    assert (
        assemble(PLACE, ProviderConfig(), asked, Entry(name="", attachment=True), None).attachment is expected
    )


def test_a_models_own_package_wins_over_its_providers():
    block = ProviderConfig(npm="@ai-sdk/anthropic")
    asked = ModelConfig(provider={"npm": "@ai-sdk/openai"})
    assert protocol_of("p", block, asked, None) == "openai"
    vendor = Vendor(name="", env=[], url="", models={}, protocol="other")
    assert protocol_of("p", ProviderConfig(), ModelConfig(), vendor) == "other"
