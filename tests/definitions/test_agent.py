"""Agents: the built-in ones, completed and overridden by the configuration."""

from typing import Any

import pytest

from instar.definitions.agent import Agents, UnknownAgent, parse_model, sampling_temperature, shipped_prompt
from instar.message import ModelRef
from instar.provider.protocol import Model, ModelCost, ModelLimit
from instar.provider.resolve import UnknownModel
from instar.settings.config import Config
from instar.settings.permission import decide


def agents(**config: Any) -> Agents:
    return Agents(Config.from_data(config))


def allowed(found: Agents, agent: str, permission: str, pattern: str = "*") -> str:
    return decide([permission], [pattern], found.get(agent).permission).action


def test_the_built_in_agents_are_opencodes() -> None:
    found = agents()
    assert found.get(None).name == "build"
    assert [(agent.name, agent.mode, agent.hidden) for agent in found.all()] == [
        *(("build", "primary", False), ("plan", "primary", False)),
        *(("general", "subagent", False), ("explore", "subagent", False)),
        *(("title", "primary", True), ("summary", "primary", True), ("compaction", "primary", True)),
    ]
    assert all(agent.native for agent in found.all())
    assert [agent.name for agent in found.subagents()] == ["general", "explore"]


@pytest.mark.parametrize(
    ("agent", "permission", "action"),
    [
        *(("build", "bash", "allow"), ("build", "edit", "allow")),
        *(("plan", "edit", "deny"), ("plan", "bash", "allow"), ("plan", "read", "allow")),
        *(("general", "edit", "allow"), ("general", "todowrite", "deny")),
        *(("explore", "edit", "deny"), ("explore", "task", "deny"), ("explore", "mymcp_x", "deny")),
        *(("explore", "grep", "allow"), ("explore", "read", "allow"), ("explore", "bash", "allow")),
        *(("title", "bash", "deny"), ("summary", "read", "deny"), ("compaction", "read", "deny")),
    ],
)
def test_a_built_in_agent_may_do_its_own_work_and_no_more(agent: str, permission: str, action: str) -> None:
    assert allowed(agents(), agent, permission) == action


def test_explore_asks_before_it_reads_a_file_of_secrets_or_leaves_the_project() -> None:
    assert allowed(agents(), "explore", "read", "x/.env") == "ask"
    assert allowed(agents(), "explore", "external_directory", "/etc/*") == "ask"


def test_what_everybody_is_denied_a_built_in_agent_is_denied_too() -> None:
    found = agents(permission={"webfetch": "deny", "edit": "allow"})
    assert allowed(found, "explore", "webfetch") == "deny"
    assert allowed(found, "plan", "edit") == "deny"
    own = agents(agent={"plan": {"permission": {"edit": "allow"}}})
    assert allowed(own, "plan", "edit") == "allow"


def test_tools_may_be_named_with_wildcards() -> None:
    found = agents(agent={"x": {"tools": {"mymcp_*": False, "mymcp_find": True}}})
    assert allowed(found, "x", "mymcp_drop") == "deny"
    assert allowed(found, "x", "mymcp_find") == "allow"


@pytest.mark.parametrize(
    ("block", "said"),
    [({"hidden": True}, "is hidden"), ({"mode": "subagent"}, "is a sub-agent")],
)
def test_the_default_agent_must_be_one_that_a_person_talks_to(block: dict[str, Any], said: str) -> None:
    found = agents(default_agent="x", agent={"x": block})
    with pytest.raises(UnknownAgent, match=f"default_agent: 'x' {said}; name a primary agent"):
        found.get(None)
    assert found.get("x").name == "x"


def test_a_model_without_its_provider_is_found_by_its_name() -> None:
    def find(name: str) -> Model:
        if name != "sonnet":
            raise UnknownModel(f"unknown model {name!r}")
        return Model("anthropic", "sonnet-4", "", "openai", "", None, {}, ModelLimit(), ModelCost())

    config = Config.from_data({"agent": {"x": {"model": "sonnet"}, "y": {"model": "gone"}}})
    found = Agents(config, find=find)
    assert found.get("x").model == ModelRef(provider_id="anthropic", model_id="sonnet-4")
    assert found.problems == ["the agent y cannot be used: agent.y.model: unknown model 'gone'"]


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


def test_an_agents_wrong_model_is_named_with_its_place_and_its_neighbours_are_there() -> None:
    found = agents(agent={"poet": {"model": "gpt/"}, "other": {}})
    problem = "agent.poet.model: a model is named as provider/model, not 'gpt/'"
    assert found.problems == [f"the agent poet cannot be used: {problem}"]
    with pytest.raises(UnknownAgent, match=r"the agent 'poet' cannot be used: agent\.poet\.model"):
        found.get("poet")
    assert found.get("other").name == "other"


def test_the_default_temperature_is_0_and_that_of_qwen_models_higher() -> None:
    build = agents().get("build")
    assert sampling_temperature(build, "gpt-x") == 0
    assert sampling_temperature(build, "Qwen3-Coder") == 0.55
    assert sampling_temperature(agents(agent={"build": {"temperature": 1.0}}).get("build"), "qwen") == 1.0


@pytest.mark.parametrize(
    "name", ["base", "plan", "explore", "title", "summary", "compaction", "init", "review"]
)
def test_the_shipped_prompts_are_there(name: str) -> None:
    assert len(shipped_prompt(name)) > 100
