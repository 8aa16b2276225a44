import re
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import msgspec
import pytest

from instar.provider.anthropic import Anthropic
from instar.provider.catalogue import Catalogue, CatalogueModel, Vendor, shipped
from instar.provider.keys import Keys
from instar.provider.library import Library
from instar.provider.openai import OpenAI
from instar.provider.resolve import Models, NoModel, UnknownModel
from instar.provider.scripted import Scripted
from instar.settings.config import Config
from instar.wire.secret import Secret

KEY = {"OPENAI_API_KEY": "sk-env"}
BLOCK = {
    "provider": {
        "mine": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Mine",
            "options": {
                "baseURL": "http://127.0.0.1:1234/v1/",
                "apiKey": "sk-literal",
                "headers": {"X-A": "1"},
                "chunkTimeout": 500,
            },
            "models": {
                "org/big:7b": {
                    "id": "real-name",
                    "name": "Big",
                    "limit": {"context": 1000, "output": 100},
                    "cost": {"input": 1, "output": 2, "cache_read": 0.1},
                    "reasoning": True,
                    "temperature": False,
                    "modalities": {"input": ["text", "image"], "output": ["text"]},
                    "interleaved": {"field": "reasoning_content"},
                    "options": {"reasoningEffort": "low"},
                    "headers": {"X-B": "2"},
                },
                "small": {},
            },
        }
    }
}


def models(data=None, environment=None):
    return Models(Config.from_data(data or {}), environment or {}, shipped())


def test_a_name_that_stands_for_another_model_costs_what_that_costs():
    """Else a cheap model's name would stand for a dear one, and limits on cost would count too little."""
    data = {
        "provider": {"openai": {"models": {"gpt-4.1-nano": {"id": "gpt-4.1"}, "gpt-4o": {"id": "gpt-none"}}}}
    }
    found = models(data, KEY)
    dear, cheap = found.find("openai/gpt-4.1"), models(environment=KEY).find("openai/gpt-4.1-nano")
    assert found.find("openai/gpt-4.1-nano").cost == dear.cost != cheap.cost
    assert found.find("openai/gpt-4o").cost.input is None


def test_a_catalogued_model_needs_only_its_key():
    model = models(environment=KEY).find("openai/gpt-4.1")
    assert model.api_key is not None
    assert model.api_key.reveal() == "sk-env"
    assert "sk-env" not in repr(model)
    assert (model.protocol, model.url, model.source) == ("openai", "https://api.openai.com/v1", "catalogue")
    assert (model.limit.context, model.cost.input, model.attachment) == (1047576, 2, True)


def test_a_provider_block_of_opencode_works_as_it_stands():
    model = models(BLOCK).find("mine/org/big:7b")
    assert (model.ref, model.wire_id, model.name) == ("mine/org/big:7b", "real-name", "Big")
    assert model.url == "http://127.0.0.1:1234/v1"
    assert model.api_key is not None
    assert model.api_key.reveal() == "sk-literal"
    assert model.headers == {"X-A": "1", "X-B": "2"}
    assert (model.limit.context, model.limit.output) == (1000, 100)
    assert (model.cost.input, model.cost.output, model.cost.cache_read) == (1, 2, 0.1)
    assert (model.reasoning, model.temperature, model.attachment, model.tools) == (True, False, True, True)
    assert model.options == {"reasoningEffort": "low"}
    assert model.settings == {"chunkTimeout": 500}
    assert model.interleaved == {"field": "reasoning_content"}
    assert model.source == "config"


def test_the_configuration_overrides_the_catalogue_field_by_field():
    block = {
        "openai": {"models": {"gpt-4o": {"limit": {"context": 5000, "output": 1}, "cost": {"input": 9}}}}
    }
    model = models({"provider": block}, KEY).find("openai/gpt-4o")
    assert (model.limit.context, model.cost.input, model.cost.output, model.name) == (5000, 9, 10, "GPT-4o")


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("openai/gpt-4.2", "did you mean openai/gpt-4.1"),
        ("opnai/gpt-4o", "did you mean openai/gpt-4o"),
        ("gpt-4q", r"write provider/model; did you mean \S*gpt-4"),
        ("openai/", "write provider/model"),
        ("nobody/nothing-like-it", "`instar models --all` lists what there is"),
        ("mine/bigg", "unknown model mine/bigg"),
        ("scripted/nope", "unknown model scripted/nope"),
    ],
)
def test_an_unknown_model_names_the_nearest_ones(ref, said):
    with pytest.raises(UnknownModel) as caught:
        models(BLOCK, KEY).find(ref)
    assert re.search(said, str(caught.value))


def test_a_model_that_nobody_lists_says_how_to_name_it():
    with pytest.raises(UnknownModel, match=r'provider\.openai\.models\."gpt-9": \{\}'):
        models(environment=KEY).find("openai/gpt-9")
    named = {"provider": {"openai": {"models": {"gpt-9": {}}}}}
    model = models(named, KEY).find("openai/gpt-9")
    assert (model.limit.context, model.cost.input) == (0, None)


@pytest.mark.parametrize(
    ("data", "environment", "ref"),
    [
        ({}, {"OPENROUTER_API_KEY": "k"}, "openrouter/any/new-model"),
        ({}, {}, "ollama/my-model:7b"),
        ({}, KEY | {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, "openai/local-model"),
        ({"provider": {"x": {"options": {"baseURL": "http://127.0.0.1:9/v1"}}}}, {}, "x/whatever"),
    ],
)
def test_a_server_whose_models_nobody_can_list_takes_any_name(data, environment, ref):
    assert models(data, environment).find(ref).source == "unlisted"


def test_the_address_comes_from_block_environment_and_catalogue_in_this_order():
    environment = KEY | {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
    assert models(environment=environment).find("openai/gpt-4o").url == "http://127.0.0.1:9/v1"
    block = {"provider": {"openai": {"options": {"baseURL": "http://127.0.0.1:7"}}}}
    assert models(block, environment).find("openai/gpt-4o").url == "http://127.0.0.1:7"
    own = {"provider": {"openai": {"models": {"a": {"provider": {"api": "http://127.0.0.1:5"}}}}}}
    assert models(own, environment).find("openai/a").url == "http://127.0.0.1:5"


def test_a_provider_without_an_address_says_so():
    with pytest.raises(UnknownModel, match=r"provider\.x\.options\.baseURL"):
        models({"provider": {"x": {"models": {"m": {}}}}}).find("x/m")


@pytest.mark.parametrize("address", ["http://[::1/v1", "http://host:port/v1", "http://host:99999/v1"])
def test_a_malformed_address_says_what_to_set_and_holds_up_no_other_provider(address: str):
    data = {"provider": {"x": {"options": {"baseURL": address}, "models": {"m": {}}}}}
    with pytest.raises(UnknownModel, match=r"provider\.x\.options\.baseURL"):
        models(data).find("x/m")
    assert "x" not in {model.provider_id for model in models(data, KEY).list()}


def test_a_key_is_looked_for_where_the_block_says_first():
    block = {"provider": {"openai": {"env": ["MY_KEY"]}}}
    key = models(block, KEY | {"MY_KEY": " mine "}).find("openai/gpt-4o").api_key
    assert key is not None
    assert key.reveal() == "mine"


@pytest.mark.parametrize("npm", ["@ai-sdk/azure", "@ai-sdk/google-vertex/anthropic@2.0.0"])
def test_a_protocol_that_is_not_spoken_is_named(npm):
    data = {
        "provider": {
            "x": {"npm": npm, "options": {"baseURL": "http://h", "apiKey": "k"}, "models": {"m": {}}}
        }
    }
    with pytest.raises(UnknownModel, match="does not speak") as caught:
        models(data).find("x/m")
    assert npm in str(caught.value)
    with pytest.raises(UnknownModel, match="does not speak"):
        models(data).default()
    assert models(data, KEY).default().provider_id == "openai"


@pytest.mark.parametrize(
    "npm", ["@ai-sdk/openai-compatible", "@ai-sdk/openai", "@ai-sdk/openai-compatible@1.0.2", None]
)
def test_these_packages_mean_chat_completions(npm):
    data = {"provider": {"x": {"npm": npm, "options": {"baseURL": "http://h"}, "models": {"m": {}}}}}
    assert models(data).find("x/m").protocol == "openai"


@pytest.mark.parametrize(
    ("data", "environment", "ref"),
    [
        ({"model": "openai/gpt-4o"}, {}, "openai/gpt-4o"),
        ({}, KEY, "openai/gpt-5"),
        ({}, {"ANTHROPIC_API_KEY": "k"}, "anthropic/claude-sonnet-4-5"),
        ({}, {"GROQ_API_KEY": "k"} | KEY, "openai/gpt-5"),
        (BLOCK, KEY, "mine/org/big:7b"),
        ({"disabled_providers": ["openai"]}, KEY | {"XAI_API_KEY": "k"}, "xai/grok-4"),
        ({"enabled_providers": ["xai"]}, KEY | {"XAI_API_KEY": "k"}, "xai/grok-4"),
        ({"provider": {"openai": {"blacklist": ["gpt-5"]}}}, KEY, "openai/gpt-5.1"),
        ({"provider": {"ollama": {}}}, {}, "ollama/qwen3"),
    ],
)
def test_the_default_model_is_the_configured_one_or_the_first_with_a_key(data, environment, ref):
    assert models(data, environment).default().ref == ref


@pytest.mark.parametrize("environment", [{}, {"OPENAI_API_KEY": "  "}])
def test_without_any_model_one_line_says_how_to_give_one(environment):
    with pytest.raises(NoModel) as caught:
        models(environment=environment).default()
    text = str(caught.value)
    assert "OPENAI_API_KEY" in text
    assert "scripted/echo" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("data", "environment", "ref"),
    [
        ({"small_model": "xai/grok-3-mini"}, KEY, "xai/grok-3-mini"),
        ({}, KEY, "openai/gpt-5-mini"),
        ({}, KEY | {"OPENAI_BASE_URL": "http://127.0.0.1:9"}, "openai/gpt-5"),
        (BLOCK, {}, "mine/org/big:7b"),
        ({"model": "scripted/echo"}, KEY, "scripted/echo"),
    ],
)
def test_the_small_model_is_a_cheap_one_of_the_same_server(data, environment, ref):
    assert models(data, environment).small().ref == ref


def test_the_small_model_stays_with_the_sessions_provider():
    found = models(environment=KEY | {"XAI_API_KEY": "k"})
    assert found.small(found.find("xai/grok-4")).ref == "xai/grok-4-fast-non-reasoning"


def test_a_list_holds_what_can_be_called():
    refs = {model.ref for model in models(BLOCK, {"XAI_API_KEY": "k"}).list()}
    assert {"mine/small", "xai/grok-4", "scripted/echo"} <= refs
    assert not any(ref.startswith("openai/") for ref in refs)
    assert {"openai/gpt-5", "mine/small"} <= {model.ref for model in models(BLOCK).list(everything=True)}


def test_a_whitelist_and_a_disabled_provider_hide_models():
    data = {"provider": {"openai": {"whitelist": ["o3"]}}, "disabled_providers": ["xai"]}
    found = models(data, KEY | {"XAI_API_KEY": "k"})
    assert {model.ref for model in found.list() if model.provider_id != "scripted"} == {"openai/o3"}
    for ref in ("openai/gpt-4o", "xai/grok-4"):
        with pytest.raises(UnknownModel):
            found.find(ref)


def test_a_scripted_model_is_found_by_its_script(tmp_path):
    file = tmp_path / "s.txt"
    file.write_text("== turn\ntext: x\n")
    by_block = {"provider": {"scripted": {"models": {"story": {"options": {"script": str(file)}}}}}}
    assert models(by_block).find("scripted/story").protocol == "scripted"
    assert models(environment={"INSTAR_SCRIPT": str(file)}).find("scripted/any").cost.input == 0
    assert models().find("scripted/echo").ref == "scripted/echo"


async def test_one_adapter_serves_all_models_of_a_protocol():
    found = models(BLOCK, KEY)
    first = found.provider(found.find("openai/gpt-4o"))
    assert isinstance(first, OpenAI)
    assert found.provider(found.find("mine/small")) is first
    assert isinstance(found.provider(found.find("scripted/echo")), Scripted)
    await found.close()
    assert found.provider(found.find("mine/small")) is not first


def foreign(data, *names, environment=None):
    config = msgspec.structs.replace(Config.from_data(data), foreign=frozenset(names))
    return Models(config, environment or {}, shipped())


def test_a_provider_that_an_untrusted_project_brought_is_called_only_by_its_name():
    found = foreign(BLOCK, "mine", environment=KEY)
    assert found.default().provider_id == "openai"
    assert found.find("mine/small").url == "http://127.0.0.1:1234/v1"
    assert "mine/small" in [model.ref for model in found.list()]
    with pytest.raises(NoModel, match="own mine is yours to choose: --model mine/NAME"):
        foreign(BLOCK, "mine").default()


def test_an_untrusted_project_does_not_move_a_provider_that_everybody_knows():
    data = {"provider": {"openai": {"options": {"apiKey": "x", "baseURL": "http://evil"}}}}
    model = foreign(data, "openai", environment=KEY).default()
    assert (model.url, model.api_key.reveal()) == ("https://api.openai.com/v1", "sk-env")


@pytest.mark.parametrize(
    ("data", "environment", "name", "ref"),
    [
        ({}, {}, "claude-sonnet-4-6", "anthropic/claude-sonnet-4-6"),
        ({}, {}, "/claude-sonnet-4-6", "anthropic/claude-sonnet-4-6"),
        ({}, {}, "qwen/qwen3-32b", "groq/qwen/qwen3-32b"),
        (BLOCK, {}, "org/big:7b", "mine/org/big:7b"),
        ({"model": "claude-sonnet-4-6"}, {}, None, "anthropic/claude-sonnet-4-6"),
        (
            {"provider": {"google": {"options": {"apiKey": "k"}}}},
            {},
            "gemini-2.5-pro",
            "google/gemini-2.5-pro",
        ),
        ({"disabled_providers": ["google-vertex"]}, {}, "gemini-2.5-pro", "google/gemini-2.5-pro"),
    ],
)
def test_a_model_named_without_its_provider_is_found(data, environment, name, ref):
    found = models(data, environment)
    assert (found.find(name) if name else found.default()).ref == ref


def test_a_small_model_may_be_named_without_its_provider():
    assert models({"small_model": "claude-haiku-4-5"}, KEY).small().ref == "anthropic/claude-haiku-4-5"


@pytest.mark.parametrize("environment", [{}, {"A": "k", "B": "k"}])
def test_a_name_that_several_providers_have_is_asked_about(environment):
    blocks = {
        name: {"env": [variable], "api": "http://127.0.0.1:9", "models": {"twin": {}}}
        for name, variable in (("one", "A"), ("two", "B"))
    }
    with pytest.raises(
        UnknownModel, match="several providers have a model 'twin'; write which: one/twin, two/twin"
    ):
        models({"provider": blocks}, environment).find("twin")


def test_a_provider_that_an_untrusted_project_brought_answers_to_no_bare_name():
    config = Config.from_data(
        {"provider": {"evil": {"api": "http://127.0.0.1:9", "models": {"claude-sonnet-4-6": {}}}}}
    )
    foreign = msgspec.structs.replace(config, foreign=frozenset(["evil"]))
    assert Models(foreign, {}, shipped()).find("claude-sonnet-4-6").provider_id == "anthropic"


def test_claude_is_called_by_its_own_protocol():
    found = models(environment={"ANTHROPIC_API_KEY": "k"})
    model = found.default()
    assert (model.protocol, model.url) == ("anthropic", "https://api.anthropic.com/v1")
    assert isinstance(found.provider(model), Anthropic)


@pytest.mark.parametrize("npm", ["@ai-sdk/anthropic", "@ai-sdk/anthropic@2.0.1"])
def test_this_package_means_anthropic_messages(npm):
    data = {"provider": {"x": {"npm": npm, "options": {"baseURL": "http://h/v1"}, "models": {"m": {}}}}}
    assert models(data).find("x/m").protocol == "anthropic"


LIBRARY = {
    "@ai-sdk/google": "google",
    "@ai-sdk/google-vertex": "google-vertex",
    "@ai-sdk/amazon-bedrock": "bedrock",
    "@ai-sdk/mistral": "mistral",
    "@ai-sdk/cohere": "cohere",
    "@ai-sdk/groq": "groq",
    "@ai-sdk/xai": "xai",
}


@pytest.mark.parametrize("npm", LIBRARY)
def test_without_the_extra_one_line_says_how_to_install_it(npm, monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    data = {"provider": {"x": {"npm": npm, "options": {"apiKey": "k"}, "models": {"m": {}}}}}
    with pytest.raises(UnknownModel) as caught:
        models(data).find("x/m")
    assert "-m pip install 'pydantic-ai-slim[" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("npm", LIBRARY)
def test_with_the_extra_these_packages_go_through_the_library(npm, monkeypatch):
    there = ModuleType("pydantic_ai")
    there.__spec__ = ModuleSpec("pydantic_ai", None)
    monkeypatch.setitem(sys.modules, "pydantic_ai", there)
    data = {"provider": {"x": {"npm": npm, "options": {"apiKey": "k"}, "models": {"m": {}}}}}
    found = models(data)
    model = found.find("x/m")
    assert (model.protocol, model.url) == (LIBRARY[npm], "")
    assert isinstance(found.provider(model), Library)


def test_a_kept_key_is_used_after_configuration_and_environment(tmp_path):
    keys = Keys(tmp_path / "auth.json")
    keys.put("openai", Secret("sk-kept"))

    def key(data, environment):
        model = Models(Config.from_data(data), environment, shipped(), keys=keys).find("openai/gpt-4o")
        return model.api_key and model.api_key.reveal()

    assert key({}, {}) == "sk-kept"
    assert key({}, KEY) == "sk-env"
    assert key({"provider": {"openai": {"options": {"apiKey": "sk-config"}}}}, KEY) == "sk-config"


def test_a_kept_key_makes_its_provider_the_default_one(tmp_path):
    keys = Keys(tmp_path / "auth.json")
    keys.put("xai", Secret("k"))
    assert Models(Config.from_data({}), {}, shipped(), keys=keys).default().ref == "xai/grok-4"


def test_a_kept_key_never_goes_to_a_server_that_an_untrusted_project_named(tmp_path):
    keys = Keys(tmp_path / "auth.json")
    keys.put("mine", Secret("sk-kept"))
    config = Config.from_data({"provider": {"mine": {"api": "http://127.0.0.1:9", "models": {"m": {}}}}})
    foreign = msgspec.structs.replace(config, foreign=frozenset(["mine"]))
    assert Models(foreign, {}, shipped(), keys=keys).find("mine/m").api_key is None
    assert Models(config, {}, shipped(), keys=keys).find("mine/m").api_key == Secret("sk-kept")


def own_server(model=None, **facts):
    block = {"options": {"baseURL": "http://127.0.0.1:9"}, "models": {"m": model or {}}, **facts}
    return models({"provider": {"p": block}}).find("p/m")


def test_what_nobody_says_is_unknown():
    model = own_server()
    assert (model.name, model.limit.context, model.limit.input, model.cost.input) == ("m", 0, None, None)
    assert (model.temperature, model.reasoning, model.attachment, model.tools) == (True, False, False, True)


def test_a_price_that_is_not_given_is_unknown():
    known = {
        "some": CatalogueModel("x", cost=[1.0, 2.0]),
        "none": CatalogueModel("x"),
    }
    vendor = Vendor(name="v", env=["V_KEY"], url="http://127.0.0.1:9", models=known)
    found = Models(Config.from_data({}), {}, Catalogue("2026-01-01", "a test", {"v": vendor}))
    prices = found.find("v/some").cost
    assert (prices.input, prices.output, prices.cache_read, prices.cache_write) == (1.0, 2.0, None, None)
    assert found.find("v/none").cost.input is None


def test_no_key_and_no_address_are_among_the_settings():
    options = {"apiKey": "k", "baseURL": "http://127.0.0.1:9", "headers": {}, "setCacheKey": True}
    assert own_server(options=options).settings == {"setCacheKey": True}


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"modalities": {"input": ["text", "pdf"]}}, True),
        ({"modalities": {"input": ["text"]}}, False),
        ({"modalities": {}}, True),
        ({"modalities": {"input": ["image"]}, "attachment": False}, False),
    ],
)
def test_a_model_sees_what_its_block_says(block, expected):
    data = {"provider": {"openai": {"models": {"gpt-4.1": block}}}}
    assert models(data, KEY).find("openai/gpt-4.1").attachment is expected


def test_a_models_own_package_wins_over_its_providers():
    assert own_server(npm="@ai-sdk/anthropic").protocol == "anthropic"
    assert own_server({"provider": {"npm": "@ai-sdk/openai"}}, npm="@ai-sdk/anthropic").protocol == "openai"
