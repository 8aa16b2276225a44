"""What the built-in agents are denied stays denied, whatever an untrusted project says of everybody."""

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from instar.definitions.agent import Agents
from instar.settings.config import Config
from instar.settings.layer import Layer
from instar.settings.permission import decide
from instar.settings.untrusted import restrict, viewed

SEVERITY = {"allow": 0, "ask": 1, "deny": 2}
BUILT_IN = ("build", "plan", "general", "explore", "title", "summary", "compaction")


def read(mine: dict[str, Any], theirs: dict[str, Any] | None = None) -> Config:
    """The settings of a person's own layer, and of an untrusted project's as far as it may be heard."""
    layers = [Layer("home", "global", mine)]
    if theirs is not None:
        layer = Layer("opencode.json", "project", theirs, trusted=False)
        layers.append(restrict(layer, layers)[0])
    return viewed(layers)[0]


def action(config: Config, agent: str, tool: list[str], text: str = "x") -> str:
    return decide(tool, [text], Agents(config).get(agent).permission).action


@pytest.mark.parametrize(
    "theirs",
    [
        {"permission": {"own_tool": "ask"}},
        {"permission": {"own_*": "ask"}},
        {"permission": "ask"},
        {"permission": {"own_tool": {"x": "ask"}}},
        {"agent": {"explore": {"permission": {"own_tool": "ask"}}}},
    ],
    ids=str,
)
def test_a_tool_that_explore_is_denied_is_not_asked_about_for_an_untrusted_project(
    theirs: dict[str, Any],
) -> None:
    assert action(read({}, theirs), "explore", ["own_tool"]) == "deny"


@pytest.mark.parametrize("block", ["ask", {"bash": "ask"}, {"ba*": "ask"}], ids=str)
def test_what_explore_may_use_is_asked_about_when_an_untrusted_project_says_so(block: Any) -> None:
    config = read({}, {"permission": block})
    assert action(config, "explore", ["bash"]) == "ask"
    assert action(config, "build", ["bash"]) == "ask"


def test_the_persons_own_word_on_everybody_reaches_explore() -> None:
    config = read({"permission": {"own_tool": "ask"}}, {"permission": {"own_tool": {"*": "ask"}}})
    assert action(config, "explore", ["own_tool"]) == "ask"


NAMES = st.sampled_from(["*", "bash", "edit", "b*", "read", "own_x", "me_x", "task", "external_directory"])
PATTERNS = st.sampled_from(["*", "a", "a*", "*b", "a *"])
ACTIONS = st.sampled_from(["allow", "ask", "deny"])
BLOCKS = ACTIONS | st.dictionaries(
    NAMES, ACTIONS | st.dictionaries(PATTERNS, ACTIONS, max_size=2), max_size=3
)
SAID = st.fixed_dictionaries(
    {}, optional={"permission": BLOCKS, "tools": st.dictionaries(NAMES, st.booleans(), max_size=2)}
)
TOOLS = (["bash"], ["write", "edit"], ["read"], ["own_x", "me_x"], ["task"], ["external_directory"])


@st.composite
def written(draw: st.DrawFn) -> dict[str, Any]:
    """Settings that speak of everybody and of agents, also one of the person's own."""
    found: dict[str, Any] = {
        "agent": draw(st.dictionaries(st.sampled_from((*BUILT_IN, "own")), SAID, max_size=2))
    }
    return found | draw(SAID)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(written(), written())
@example({"agent": {}, "permission": {"*": "allow"}}, {"permission": {"*": "ask"}})
@example({"agent": {}, "permission": {"own_x": {"a": "ask"}}}, {"permission": {"own_x": {"a*": "ask"}}})
@example({"agent": {"plan": {"permission": "ask"}}}, {"agent": {"plan": {"permission": "allow"}}})
def test_no_untrusted_project_loosens_any_agent(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    before, after = read(mine), read(mine, theirs)
    for agent in (*BUILT_IN, *(["own"] if "own" in mine["agent"] else [])):
        for tool in TOOLS:
            for text in ("a", "ab", "a b", "c"):
                was, now = (
                    decide(tool, [text], Agents(one).get(agent).permission).action for one in (before, after)
                )
                assert SEVERITY[now] >= SEVERITY[was], (agent, tool, text, was, now)
