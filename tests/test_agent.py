"""Agents: the built-in ones, completed and overridden by the configuration."""

from typing import Any

import pytest

from instar.agent import Agents, UnknownAgent, parse_model, sampling_temperature, shipped_prompt
from instar.config import Config
from instar.message import ModelRef
from instar.permission import decide


def agents(**config: Any) -> Agents:
    return Agents(Config.from_data(config))


def allowed(found: Agents, agent: str, permission: str, pattern: str = "*") -> str:
    return decide([permission], [pattern], found.get(agent).permission).action


def test_build_is_the_default_and_title_and_compaction_are_hidden_and_may_do_nothing() -> None:
    found = agents()
    assert found.get(None).name == "build"
    assert [(agent.name, agent.hidden) for agent in found.all()] == [
        *(("build", False), ("title", True), ("compaction", True)),
    ]
    assert allowed(found, "title", "bash") == allowed(found, "compaction", "read") == "deny"
    assert allowed(found, "build", "bash") == "allow"


def test_the_default_agent_can_be_another_one() -> None:
    assert agents(default_agent="poet", agent={"poet": {}}).get(None).name == "poet"


def test_a_block_changes_a_built_in_agent_and_makes_a_new_one() -> None:
    block = {
        "model": "openai/gpt-x",
        "prompt": "Rhyme.",
        "temperature": 0.3,
        "top_p": 0.4,
        "steps": 7,
        "description": "A poet",
        "mode": "subagent",
        "colour": "blue",
    }
    found = agents(agent={"build": {"temperature": 0.9}, "poet": block})
    assert found.get("build").temperature == 0.9
    poet = found.get("poet")
    assert (poet.model, poet.prompt) == (ModelRef(provider_id="openai", model_id="gpt-x"), "Rhyme.")
    assert (poet.temperature, poet.top_p, poet.steps, poet.mode) == (0.3, 0.4, 7, "subagent")
    assert poet.options == {"colour": "blue"}
    assert poet.description == "A poet"


def test_an_agent_can_be_switched_off() -> None:
    found = agents(agent={"build": {"disable": True}, "poet": {}})
    with pytest.raises(UnknownAgent, match="there is no agent 'build'; there are: "):
        found.get("build")


def test_an_unknown_name_is_told_the_nearest_ones() -> None:
    with pytest.raises(UnknownAgent, match="there is no agent 'biuld'; there are: build"):
        agents().get("biuld")


def test_rules_come_defaults_first_then_the_configs_then_the_agents() -> None:
    found = agents(
        permission={"bash": "ask", "edit": "deny"},
        tools={"grep": False},
        agent={"free": {"permission": {"bash": {"*": "ask", "ls *": "allow"}}, "tools": {"write": True}}},
    )
    assert allowed(found, "build", "bash", "ls -l") == "ask"
    assert allowed(found, "free", "bash", "ls -l") == "allow"
    assert allowed(found, "build", "edit", "a.py") == "deny"
    assert allowed(found, "free", "edit", "a.py") == "allow"
    assert allowed(found, "free", "grep") == "deny"
    assert allowed(found, "build", "read", "x/.env") == "ask"
    assert allowed(found, "build", "read", "x/.env.example") == "allow"
    assert allowed(found, "build", "external_directory", "/etc/*") == "ask"


@pytest.mark.parametrize(
    ("reference", "found"),
    [("a/b", ("a", "b")), ("router/vendor/model", ("router", "vendor/model"))],
)
def test_a_model_is_named_by_its_provider_and_its_name(reference: str, found: tuple[str, str]) -> None:
    ref = parse_model(reference)
    assert (ref.provider_id, ref.model_id) == found


@pytest.mark.parametrize("reference", ["", "a", "/b", "a/"])
def test_anything_else_is_no_model(reference: str) -> None:
    with pytest.raises(ValueError, match="a model is named as provider/model, not "):
        parse_model(reference)


def test_an_agents_wrong_model_is_named_with_its_place() -> None:
    with pytest.raises(
        ValueError, match=r"agent\.poet\.model: a model is named as provider/model, not 'gpt'"
    ):
        agents(agent={"poet": {"model": "gpt"}})


def test_the_default_temperature_is_0_and_that_of_qwen_models_higher() -> None:
    build = agents().get("build")
    assert sampling_temperature(build, "gpt-x") == 0
    assert sampling_temperature(build, "Qwen3-Coder") == 0.55
    assert sampling_temperature(agents(agent={"build": {"temperature": 1.0}}).get("build"), "qwen") == 1.0


@pytest.mark.parametrize("name", ["base", "title", "compaction"])
def test_the_shipped_prompts_are_there(name: str) -> None:
    assert len(shipped_prompt(name)) > 100
