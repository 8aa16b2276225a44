"""The typed view of the settings, and what it says about a value of the wrong type."""

from typing import Any

import pytest

from instar.settings.config import OWN_KEYS, Config, ConfigError, McpConfig, ModelConfig


def test_an_empty_document_gives_the_defaults() -> None:
    config = Config.from_data({})
    assert (config.context_window_tokens, config.max_iterations, config.provider_retry_mode) == (
        65536,
        40,
        "standard",
    )
    assert config.model is None
    assert config.plugin == []


def test_the_keys_of_opencode_json_are_read_as_they_stand() -> None:
    data = {
        "$schema": "https://opencode.ai/config.json",
        "model": "local/qwen",
        "small_model": "local/tiny",
        "provider": {
            "local": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Local",
                "options": {"baseURL": "http://127.0.0.1:1/v1", "apiKey": "k", "headers": {"x": "y"}},
                "models": {
                    "qwen": {"name": "Qwen", "limit": {"context": 32768, "output": 4096}, "tool_call": True}
                },
            }
        },
        "agent": {"build": {"temperature": 1, "tools": {"bash": False}, "permission": {"edit": "ask"}}},
        "permission": {"bash": {"git *": "allow", "*": "ask"}, "edit": "deny"},
        "plugin": ["evolve", ["./x.py", {"a": 1}]],
        "instructions": ["AGENTS.md"],
        "tools": {"webfetch": False},
        "snapshot": False,
    }
    config = Config.from_data(data)
    local = config.provider["local"]
    assert (config.model, config.small_model) == ("local/qwen", "local/tiny")
    assert local.options["baseURL"] == "http://127.0.0.1:1/v1"
    assert local.models["qwen"] == ModelConfig(
        name="Qwen", limit={"context": 32768, "output": 4096}, tool_call=True
    )
    assert config.agent["build"].temperature == 1
    assert config.plugin == ["evolve", ("./x.py", {"a": 1})]
    assert config.data == data


def test_other_keys_of_opencode_are_kept_and_ignored() -> None:
    data = {"theme": "x", "mcp": {"s": {"type": "local"}}, "data": 3, "share": "auto", "autoupdate": False}
    assert Config.from_data(data).data == data


def test_an_agents_unknown_keys_are_options_and_the_old_name_of_steps_counts() -> None:
    agent = Config.from_data(
        {"agent": {"a": {"reasoningEffort": "high", "maxSteps": 5, "options": {"x": 1}}}}
    ).agent["a"]
    assert agent.options == {"reasoningEffort": "high", "x": 1}
    assert agent.steps == 5


@pytest.mark.parametrize(
    ("data", "path", "message"),
    [
        ({"model": 1}, ("model",), "expected a string, found an integer"),
        ({"formatter": "yes"}, ("formatter",), "expected true or false or a map, found a string"),
        ({"lsp": {"x": {"env": {"A": 1}}}}, ("lsp", "x", "env", "A"), "expected a string, found an integer"),
        ({"model": {"id": "x"}}, ("model",), "expected a string, found a map"),
        ({"snapshot": "yes"}, ("snapshot",), "expected true or false, found a string"),
        ({"provider": []}, ("provider",), "expected a map, found a list"),
        (
            {"provider": {"p": {"options": {}, "npm": True}}},
            ("provider", "p", "npm"),
            "expected a string, found true or false",
        ),
        (
            {"provider": {"p": {"models": {"m": {"limit": {"context": "1"}}}}}},
            ("provider", "p", "models", "m", "limit", "context"),
            "expected an integer or a number, found a string",
        ),
        (
            {"agent": {"a": {"mode": "main"}}},
            ("agent", "a", "mode"),
            "expected one of subagent, primary, all, found 'main'",
        ),
        ({"agent": {"a": {"steps": 0}}}, ("agent", "a", "steps"), "expected an integer >= 1, found 0"),
        ({"agent": {"a": "x"}}, ("agent", "a"), "expected a map, found a string"),
        ({"plugin": "evolve"}, ("plugin",), "expected a list, found a string"),
        ({"plugin": ["a", 3]}, ("plugin", 1), "expected a string or a list, found an integer"),
        ({"instructions": ["a", None]}, ("instructions", 1), "expected a string, found null"),
        ({"tools": {"bash": "no"}}, ("tools", "bash"), "expected true or false, found a string"),
        ({"max_iterations": 1.5}, ("max_iterations",), "expected an integer, found a number"),
        (
            {"context_window_tokens": 100},
            ("context_window_tokens",),
            "expected an integer >= 4096, found 100",
        ),
        (
            {"provider_retry_mode": "often"},
            ("provider_retry_mode",),
            "expected one of standard, persistent, found 'often'",
        ),
        (
            {"permission": "yes"},
            ("permission",),
            "expected allow, ask or deny (or a map of them), found 'yes'",
        ),
        (
            {"permission": {"bash": True}},
            ("permission", "bash"),
            "expected allow, ask or deny (or a map of them), found true or false",
        ),
        (
            {"permission": {"bash": {"rm *": "never"}}},
            ("permission", "bash", "rm *"),
            "expected allow, ask or deny, found 'never'",
        ),
        (
            {"permission": {"bash": {"rm *": {}}}},
            ("permission", "bash", "rm *"),
            "expected allow, ask or deny, found a map",
        ),
        (
            {"agent": {"a": {"permission": {"edit": 1}}}},
            ("agent", "a", "permission", "edit"),
            "expected allow, ask or deny (or a map of them), found an integer",
        ),
        ({"max_iteration": 3}, ("max_iteration",), "there is no such setting; did you mean max_iterations?"),
        (
            {"contextWindowTokens": 3},
            ("contextWindowTokens",),
            "there is no such setting; did you mean context_window_tokens?",
        ),
    ],
)
def test_a_wrong_type_is_found_at_its_place_and_explained(
    data: Any, path: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        Config.from_data(data, "opencode.json")
    assert (raised.value.path, raised.value.message) == (path, message)
    assert str(raised.value) == f"opencode.json: {'.'.join(map(str, path))}: {message}"


@pytest.mark.parametrize("data", [[], "text", None, 3])
def test_a_document_that_is_no_map_is_refused(data: Any) -> None:
    with pytest.raises(ConfigError, match="the whole document: expected a map"):
        Config.from_data(data)


def test_an_error_does_not_show_a_value_that_may_be_a_key() -> None:
    with pytest.raises(ConfigError) as raised:
        Config.from_data({"provider": {"p": {"env": "sk-12345"}}})
    assert "sk-12345" not in str(raised.value)


@pytest.mark.parametrize("key", OWN_KEYS)
def test_our_own_keys_are_no_near_misses(key: str) -> None:
    good = {
        "context_window_tokens": 5000,
        "max_iterations": 1,
        "provider_retry_mode": "standard",
        "provider_retry_wait_seconds": 60,
        "reload": False,
    }
    assert Config.from_data({key: good.get(key, {})})


def test_the_mcp_block_is_read_as_opencode_writes_it() -> None:
    data = {
        "notes": {"type": "local", "command": ["notes", "-v"], "environment": {"K": "v"}, "timeout": 900},
        "far": {"type": "remote", "url": "https://x/mcp", "headers": {"A": "b"}, "oauth": False},
        "off": {"enabled": False},
    }
    found = Config.from_data({"mcp": data}).mcp
    assert found["notes"] == McpConfig("local", ["notes", "-v"], environment={"K": "v"}, timeout=900)
    assert (found["far"].url, found["far"].headers, found["far"].enabled) == (
        "https://x/mcp",
        {"A": "b"},
        True,
    )
    assert not found["off"].enabled


@pytest.mark.parametrize(
    ("block", "place"),
    [
        ({"type": "locale"}, "mcp.s.type"),
        ({"type": "local", "command": "npx notes"}, "mcp.s.command"),
        ({"type": "local", "command": ["a"], "environment": {"A": 1}}, "mcp.s.environment.A"),
        ({"type": "local", "command": ["a"], "timeout": 0}, "mcp.s.timeout"),
        ({"type": "remote", "url": 5}, "mcp.s.url"),
        ("notes", "mcp.s"),
    ],
)
def test_a_value_of_the_wrong_type_in_the_mcp_block_is_named(block: Any, place: str) -> None:
    with pytest.raises(ConfigError, match=rf"opencode.json: {place}: "):
        Config.from_data({"mcp": {"s": block}}, "opencode.json")
