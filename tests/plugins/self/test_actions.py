"""Every answer of the tool: nanobot's lines, instar's own, and those for bad input."""

from typing import Any

import msgspec
import pytest
from tests.plugins.self.room import HELD, House, Room

from instar.plugin import View
from instar.plugins.self.bounds import RESTRICTED
from instar.plugins.self.tool import permissions
from instar.wire.secret import Secret

SEED: list[tuple[dict[str, Any], str]] = [
    (
        {"action": "inspect"},
        "max_iterations: 40\ncontext_window_tokens: 65536\nmodel: 'anthropic/claude-sonnet-4-20250514'",
    ),
    ({"action": "inspect", "key": "subagents._running_tasks"}, "subagents: 2 running — ['a1b2c3', 'd4e5f6']"),
    ({"action": "inspect", "key": "subagents"}, "subagents: 2 running — ['a1b2c3', 'd4e5f6']"),
    ({"action": "inspect", "key": "web_config.enable"}, "web_config.enable: True"),
    (
        {"action": "inspect", "key": "context.build_system_prompt"},
        "method build_system_prompt() — use 'call' action to invoke",
    ),
    ({"action": "modify", "key": "max_iterations", "value": 80}, "Set max_iterations = 80 (was 40)"),
    (
        {"action": "modify", "key": "provider_retry_mode", "value": "persistent"},
        "Set provider_retry_mode = 'persistent' (was 'standard')",
    ),
    ({"action": "modify", "key": "my_custom_flag", "value": True}, "Set _runtime_vars.my_custom_flag = True"),
    ({"action": "call", "method": "subagents.get_running_count"}, "2"),
    (
        {"action": "call", "method": "context.build_system_prompt"},
        "You are 'helpful'.\nKey: ***",
    ),
    (
        {
            "action": "call",
            "method": "subagents.cancel_by_session",
            "args": {"session_key": "weixin:user123"},
        },
        "2",
    ),
    (
        {"action": "manage_tool", "name": "web_search", "manage_action": "unregister"},
        "Unregistered tool 'web_search'",
    ),
    ({"action": "snapshot", "name": "coding_mode"}, "Snapshot 'coding_mode' saved"),
    ({"action": "list_snapshots"}, "No snapshots saved"),
]


@pytest.mark.parametrize(("args", "answer"), SEED, ids=lambda one: str(one)[:50])
async def test_an_example_of_nanobot_answers_as_it_is_printed(args: dict[str, Any], answer: str) -> None:
    assert await House().says(**args) == answer


STORIES: list[list[tuple[dict[str, Any], str]]] = [
    [
        ({"action": "snapshot", "name": "coding_mode"}, "Snapshot 'coding_mode' saved"),
        ({"action": "modify", "key": "max_iterations", "value": 100}, "Set max_iterations = 100 (was 40)"),
        (
            {"action": "modify", "key": "context_window_tokens", "value": 131072},
            "Set context_window_tokens = 131072 (was 65536)",
        ),
        ({"action": "modify", "key": "kept", "value": [1]}, "Set _runtime_vars.kept = [1]"),
        ({"action": "snapshot", "name": "high_capacity"}, "Snapshot 'high_capacity' saved"),
        ({"action": "restore", "name": "coding_mode"}, "Restored snapshot 'coding_mode'"),
        ({"action": "list_snapshots"}, "Snapshots (2): ['coding_mode', 'high_capacity']"),
        ({"action": "inspect", "key": "max_iterations"}, "max_iterations: 40"),
        (
            {"action": "inspect", "key": "kept"},
            "Error: 'kept' not found: there is no 'kept' at the top",
        ),
        ({"action": "restore", "name": "high_capacity"}, "Restored snapshot 'high_capacity'"),
        (
            {"action": "inspect"},
            "max_iterations: 100\ncontext_window_tokens: 131072\n"
            "model: 'anthropic/claude-sonnet-4-20250514'\n_runtime_vars: {'kept': [1]}",
        ),
        ({"action": "restore", "name": "none"}, "Error: snapshot 'none' not found"),
    ],
    [
        ({"action": "modify", "key": "max_iterations", "value": 80}, "Set max_iterations = 80 (was 40)"),
        ({"action": "reset", "key": "max_iterations"}, "Reset max_iterations = 40 (was 80)"),
        (
            {"action": "modify", "key": "provider_retry_mode", "value": "persistent"},
            "Set provider_retry_mode = 'persistent' (was 'standard')",
        ),
        (
            {"action": "reset", "key": "provider_retry_mode"},
            "Reset provider_retry_mode = 'standard' (was 'persistent')",
        ),
        (
            {"action": "modify", "key": "my_custom_flag", "value": True},
            "Set _runtime_vars.my_custom_flag = True",
        ),
        ({"action": "inspect", "key": "my_custom_flag"}, "my_custom_flag: True"),
        (
            {"action": "modify", "key": "my_custom_flag", "value": None},
            "Set _runtime_vars.my_custom_flag = None",
        ),
        ({"action": "reset", "key": "my_custom_flag"}, "Deleted _runtime_vars.my_custom_flag"),
        (
            {"action": "reset", "key": "my_custom_flag"},
            "'my_custom_flag' is not a known property or runtime variable",
        ),
    ],
    [
        (
            {"action": "manage_tool", "name": "web_search", "manage_action": "unregister"},
            "Unregistered tool 'web_search'",
        ),
        (
            {"action": "manage_tool", "name": "websearch", "manage_action": "unregister"},
            "Tool 'websearch' is not currently registered",
        ),
        (
            {"action": "list_tools"},
            "Tools (2):\n"
            "  read_file: Read a file Read a file Read a file Read a file Read a file Read a file Read...\n"
            "  self: Look at your own runtime and tune it. Everything is in memory only and for th...",
        ),
        (
            {"action": "manage_tool", "name": "web_search", "manage_action": "register"},
            "Re-registered tool 'web_search'",
        ),
        (
            {"action": "manage_tool", "name": "web_search", "manage_action": "register"},
            "Error: 'web_search' was not previously unregistered (cannot register arbitrary tools)",
        ),
        (
            {"action": "manage_tool", "name": "websearch", "manage_action": "unregister"},
            "Unregistered tool 'web_search'",
        ),
    ],
    [
        (
            {"action": "modify", "key": "own", "value": {"a": [1, {"b": 2}]}},
            "Set _runtime_vars.own = {'a': [1, {'b': 2}]}",
        ),
        ({"action": "inspect", "key": "own.a.1.b"}, "own.a.1.b: 2"),
        ({"action": "modify", "key": "own.a.1.b", "value": 3}, "Set own.a.1.b = 3"),
        ({"action": "modify", "key": "own.new", "value": 4}, "Set own.new = 4"),
        ({"action": "inspect", "key": "own"}, "own: {'a': [1, {'b': 3}], 'new': 4}"),
        (
            {"action": "modify", "key": "own.a.9", "value": 4},
            "Error: 'own.a.9' not found: there is no '9' in a list of 2",
        ),
        ({"action": "modify", "key": "options.a.0", "value": 9}, "Set options.a.0 = 9"),
        ({"action": "inspect", "key": "options"}, "options: {'a': [9, {'b': 2}], 'api_key': '***'}"),
        ({"action": "reset", "key": "own.a"}, "'own.a' is not a known property or runtime variable"),
    ],
]


@pytest.mark.parametrize("story", STORIES)
async def test_answers_follow_each_other_as_nanobot_tells(story: list[tuple[dict[str, Any], str]]) -> None:
    house = House()
    for args, answer in story:
        assert await house.says(**args) == answer
    # What stands behind a mask is not written over when something beside it is set.
    assert house.room.value("s", "options")["api_key"] != "***"


A_PERSONS = (
    ": it is a person's to change (instar docs self). You may set max_iterations, context_window_tokens, model, "
    "provider_retry_mode, options, web_config.enable"
)
"""What the refusal of a value that is read ends with."""
BAD: list[tuple[dict[str, Any], str]] = [
    ({"action": "explode"}, "Unknown action: explode"),
    # inspect
    ({"action": "inspect", "key": ""}, "Error: 'key' cannot be empty or whitespace"),
    ({"action": "inspect", "key": " \t"}, "Error: 'key' cannot be empty or whitespace"),
    ({"action": "inspect", "key": "bus"}, "Error: 'bus' is not accessible"),
    ({"action": "inspect", "key": "provider.api_key"}, "Error: 'provider' is not accessible"),
    ({"action": "inspect", "key": "context.__class__"}, "Error: '__class__' is not accessible"),
    ({"action": "inspect", "key": "model.__len__"}, "Error: '__len__' is not accessible"),
    ({"action": "inspect", "key": "_runtime_vars"}, "Error: '_runtime_vars' is not accessible"),
    ({"action": "inspect", "key": "web_config.search.provider"}, "web_config.search.provider: 'x'"),
    ({"action": "inspect", "key": "web_config.search.api_key"}, "web_config.search.api_key: '***'"),
    (
        {"action": "inspect", "key": "web_config.search.more"},
        "web_config.search.more: {'password': '***', 'list': ['***', '***']}",
    ),
    ({"action": "inspect", "key": "web_config"}, "<web_config> attributes: ['enable', 'search']"),
    ({"action": "inspect", "key": "context"}, "<context> attributes: ['build_system_prompt()']"),
    (
        {"action": "inspect", "key": "max_iteration"},
        "Error: 'max_iteration' not found: there is no 'max_iteration' at the top; the nearest are 'max_iterations'",
    ),
    (
        {"action": "inspect", "key": "web_config.enabled"},
        "Error: 'web_config.enabled' not found: 'web_config' has no 'enabled'; the nearest are "
        "'web_config.enable', 'web_config.search', 'web_config'",
    ),
    (
        {"action": "inspect", "key": "context.build_system_prompt.x"},
        "Error: 'context.build_system_prompt.x' not found: 'context.build_system_prompt' is a method; "
        "the nearest are 'context.build_system_prompt'",
    ),
    ({"action": "inspect", "key": "a..b"}, "Error: 'a..b' not found: one of its names is empty"),
    (
        {"action": "inspect", "key": "x" * 300},
        f"Error: '{'x' * 80}... (300 characters)' not found: a path has 256 characters at most",
    ),
    (
        {"action": "inspect", "key": "odd.object"},
        "Error: 'odd.object' cannot be read: it holds a Talkative, which is not plain data",
    ),
    (
        {"action": "inspect", "key": "odd.fails"},
        "Error: 'odd.fails' cannot be read: RuntimeError: it broke with ***",
    ),
    (
        {"action": "inspect", "key": "odd.nested"},
        "Error: 'odd.nested' cannot be read: it is nested too deep (max 32 levels)",
    ),
    (
        {"action": "inspect", "key": "odd.list"},
        f"odd.list: [{', '.join(map(str, range(20)))}, ...] (50 items)",
    ),
    (
        {"action": "inspect", "key": "odd.map"},
        "odd.map: {" + ", ".join(f"'k{one}': {one}" for one in range(20)) + ", ...} (50 items)",
    ),
    (
        {"action": "inspect", "key": "subagents.cancel_by_session"},
        "method cancel_by_session(session_key) — use 'call' action to invoke",
    ),
    (
        {"action": "inspect", "key": "odd.writes"},
        "method writes() — use 'call' action to invoke (it writes to disk, through the gate)",
    ),
    # modify
    ({"action": "modify", "value": 1}, "Error: 'key' cannot be empty or whitespace"),
    ({"action": "modify", "key": "max_iterations"}, "Error: 'value' is required to modify a key"),
    ({"action": "modify", "key": "max_iterations", "value": 0}, "Error: 'max_iterations' must be >= 1"),
    ({"action": "modify", "key": "max_iterations", "value": 101}, "Error: 'max_iterations' must be <= 100"),
    (
        {"action": "modify", "key": "max_iterations", "value": "eighty"},
        "Error: 'max_iterations' must be int, got str",
    ),
    (
        {"action": "modify", "key": "max_iterations", "value": True},
        "Error: 'max_iterations' must be int, got bool",
    ),
    (
        {"action": "modify", "key": "max_iterations", "value": 99.9},
        "Error: 'max_iterations' must be int, got float",
    ),
    (
        {"action": "modify", "key": "max_iterations", "value": 80.0},
        "Error: 'max_iterations' must be int, got float",
    ),
    (
        {"action": "modify", "key": "max_iterations", "value": None},
        "Error: 'max_iterations' must be int, got NoneType",
    ),
    (
        {"action": "modify", "key": "context_window_tokens", "value": 4095},
        "Error: 'context_window_tokens' must be >= 4096",
    ),
    (
        {"action": "modify", "key": "context_window_tokens", "value": 1_000_001},
        "Error: 'context_window_tokens' must be <= 1000000",
    ),
    ({"action": "modify", "key": "model", "value": ""}, "Error: 'model' must be at least 1 characters"),
    ({"action": "modify", "key": "model", "value": "   "}, "Error: 'model' must be at least 1 characters"),
    ({"action": "modify", "key": "model", "value": None}, "Error: 'model' must be str, got NoneType"),
    ({"action": "modify", "key": "model", "value": {"a": 1}}, "Error: 'model' must be str, got dict"),
    (
        {"action": "modify", "key": "provider_retry_mode", "value": "x"},
        "Error: 'provider_retry_mode' must be one of ['standard', 'persistent']",
    ),
    ({"action": "modify", "key": "bus", "value": 1}, "Error: 'bus' is protected and cannot be modified"),
    (
        {"action": "modify", "key": "ｂｕｓ", "value": 1},
        "Error: 'ｂｕｓ' is protected and cannot be modified",
    ),
    (
        {"action": "modify", "key": "context.__class__", "value": 1},
        "Error: '__class__' is protected and cannot be modified",
    ),
    (
        {"action": "modify", "key": "subagents", "value": 1},
        "Error: 'subagents' cannot be modified as a whole; it holds _running_tasks, "
        "get_running_count, cancel_by_session",
    ),
    (
        {"action": "modify", "key": "subagents.get_running_count", "value": 1},
        "Error: 'subagents.get_running_count' is a method and cannot be modified — use 'call' action to invoke",
    ),
    (
        {"action": "modify", "key": "subagents._running_tasks", "value": {}},
        f"Error: 'subagents._running_tasks' is read-only{A_PERSONS}",
    ),
    (
        {"action": "modify", "key": "subagents._running_tasks.a1b2c3", "value": {}},
        f"Error: 'subagents._running_tasks.a1b2c3' is read-only{A_PERSONS}",
    ),
    ({"action": "modify", "key": "a.b", "value": 1}, "Error: 'a.b' not found: there is no 'a' at the top"),
    (
        {"action": "modify", "key": "nеw", "value": 1},
        "Error: 'nеw' is no name of a variable: letters, digits and underscores, 64 at most",
    ),
    (
        {"action": "modify", "key": "k", "value": {"x": {1: 2}}},
        "Error: dict key 'x' contains dict key must be str, got int",
    ),
    # call
    ({"action": "call"}, "Error: 'method' cannot be empty or whitespace"),
    ({"action": "call", "method": "max_iterations"}, "Error: 'max_iterations' is not callable"),
    ({"action": "call", "method": "subagents"}, "Error: 'subagents' is not callable"),
    ({"action": "call", "method": "provider.complete"}, "Error: 'provider' is not accessible"),
    ({"action": "call", "method": "run"}, "Error: 'run' not found: there is no 'run' at the top"),
    (
        {"action": "call", "method": "subagents.cancel_by_session"},
        "Error calling subagents.cancel_by_session: missing argument 'session_key'",
    ),
    (
        {"action": "call", "method": "subagents.cancel_by_session", "args": {"session_key": 5}},
        "Error calling subagents.cancel_by_session: 'session_key' must be str, got int",
    ),
    (
        {"action": "call", "method": "subagents.cancel_by_session", "args": {"session_key": "a", "b": 1}},
        "Error calling subagents.cancel_by_session: unexpected argument 'b'; it takes 'session_key'",
    ),
    ({"action": "call", "method": "odd.echo", "args": {"n": 6}}, "Error calling odd.echo: 'n' must be <= 5"),
    ({"action": "call", "method": "odd.echo", "args": {"n": 5}}, "{'n': 5}"),
    (
        {"action": "call", "method": "odd.fails_too"},
        "Error calling odd.fails_too: RuntimeError: it broke with ***",
    ),
    ({"action": "call", "method": "odd.refuses"}, "Error calling odd.refuses: there is no such session"),
    ({"action": "call", "method": "odd.hangs"}, "Error calling odd.hangs: no answer within 0.05 s"),
    ({"action": "call", "method": "odd.stubborn"}, "Error calling odd.stubborn: no answer within 0.05 s"),
    (
        {"action": "call", "method": "odd.cancelled"},
        "Error calling odd.cancelled: InterruptedError: it was cancelled from within",
    ),
    (
        {"action": "call", "method": "odd.leaks"},
        "Error calling odd.leaks: it holds a Talkative, which is not plain data",
    ),
    ({"action": "call", "method": "odd.nothing"}, "None"),
    ({"action": "call", "method": "odd.thread"}, "from a thread"),
    ({"action": "call", "method": "odd.huge"}, "x" * 30_000 + "... (truncated: 1,000,000 characters)"),
    # manage_tool
    ({"action": "manage_tool", "manage_action": "register"}, "Error: 'name' cannot be empty or whitespace"),
    ({"action": "manage_tool", "name": "x"}, "Error: manage_action is required ('register' or 'unregister')"),
    ({"action": "manage_tool", "name": "x", "manage_action": "explode"}, "Unknown manage_action: explode"),
    (
        {"action": "manage_tool", "name": "x", "manage_action": "unregister"},
        "Tool 'x' is not currently registered",
    ),
    (
        {"action": "manage_tool", "name": "x", "manage_action": "register"},
        "Error: 'x' was not previously unregistered (cannot register arbitrary tools)",
    ),
    *(
        (
            {"action": "manage_tool", "name": name, "manage_action": "unregister"},
            "Error: cannot unregister the 'self' tool (would cause lockout)",
        )
        for name in ("self", "SELF", " self ", "ｓｅｌｆ", "se\u200blf")
    ),
    # snapshots
    ({"action": "snapshot"}, "Error: 'name' cannot be empty or whitespace"),
    (
        {"action": "snapshot", "name": "a\nb"},
        "Error: snapshot 'a\\nb' has no usable name: 64 printable characters at most",
    ),
    ({"action": "restore", "name": " "}, "Error: 'name' cannot be empty or whitespace"),
    ({"action": "restore", "name": "none"}, "Error: snapshot 'none' not found"),
    # reset
    ({"action": "reset"}, "Error: 'key' cannot be empty or whitespace"),
    ({"action": "reset", "key": "bus"}, "Error: 'bus' is protected"),
    ({"action": "reset", "key": "k"}, "'k' is not a known property or runtime variable"),
    ({"action": "reset", "key": "subagents"}, "'subagents' is not a known property or runtime variable"),
    (
        {"action": "reset", "key": "web_config.enabled"},
        "'web_config.enabled' is not a known property or runtime variable",
    ),
    (
        {"action": "reset", "key": "web_config.search.provider"},
        "Error: 'web_config.search.provider' is read-only",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("args", "answer"), BAD, ids=lambda one: str(one)[:60])
async def test_what_cannot_be_done_is_one_clear_answer_and_changes_nothing(
    args: dict[str, Any], answer: str
) -> None:
    house = House()
    assert await house.says(**args) == answer
    assert house.told == []
    assert house.room.set == {}


async def test_a_guard_is_tightened_and_never_loosened() -> None:
    house = House()
    assert await house.says(action="modify", key="web_config.enable", value=False) == (
        "Set web_config.enable = False (was True)"
    )
    refused = "Error: 'web_config.enable' guards this runtime and may only be tightened (it is False)"
    assert await house.says(action="modify", key="web_config.enable", value=True) == refused
    assert await house.says(action="reset", key="web_config.enable") == refused
    assert house.room.web is False


async def test_a_guard_that_fails_lets_nothing_through() -> None:
    room = Room()
    room.web = "neither"  # type: ignore[assignment]
    house = House(room)
    house.views = [view for view in house.views if view.name != "web_config"]
    broken = room.guard()

    def tighter(old: Any, new: Any) -> bool:
        raise RuntimeError

    house.views.append(View("w", "", {"enable": msgspec.structs.replace(broken, tighter=tighter)}))
    assert "may only be tightened" in await house.says(action="modify", key="w.enable", value=False)
    assert room.web == "neither"


async def test_a_value_that_the_room_does_not_take_is_said_without_its_secrets() -> None:
    house = House()
    house.room.refused = "model"
    answer = await house.says(action="modify", key="model", value="none/such")
    assert answer == "Error: 'model' cannot be set: no model with ***"
    assert house.told == []


async def test_each_change_is_told_with_what_was_there_and_what_is() -> None:
    house = House()
    await house.says(action="modify", key="max_iterations", value=50)
    await house.says(action="modify", key="api_key", value="abc")
    await house.says(action="modify", key="n", value=list(range(1000)))
    await house.says(action="manage_tool", name="web_search", manage_action="unregister")
    await house.says(action="snapshot", name="now")
    await house.says(action="reset", key="n")
    await house.says(action="restore", name="now")
    told = [(one.path, str(one.old)[:20], str(one.new)[:20]) for one in house.told]
    assert told == [
        ("max_iterations", "40", "50"),
        ("_runtime_vars.api_key", "None", "***"),
        ("_runtime_vars.n", "None", "[0, 1, 2, 3, 4, 5, 6"),
        ("tools.web_search", "registered", "unregistered"),
        ("_runtime_vars.n", "[0, 1, 2, 3, 4, 5, 6", "None"),
        ("_runtime_vars.n", "None", "[0, 1, 2, 3, 4, 5, 6"),
    ]
    assert {(one.session_id, one.call_id) for one in house.told} == {("s", "call_1")}
    assert all(len(repr(one.new)) < 2100 for one in house.told)


async def test_two_sessions_share_nothing() -> None:
    house = House()
    await house.says("one", action="modify", key="max_iterations", value=50)
    await house.says("one", action="modify", key="mine", value=1)
    await house.says("one", action="snapshot", name="mine")
    await house.says("one", action="manage_tool", name="web_search", manage_action="unregister")
    assert "max_iterations: 40" in await house.says("two", action="inspect")
    assert "mine" not in await house.says("two", action="inspect")
    assert await house.says("two", action="list_snapshots") == "No snapshots saved"
    assert "web_search" in await house.says("two", action="list_tools")


async def test_what_is_kept_is_a_copy_that_nobody_can_change_from_outside() -> None:
    house = House()
    given = {"a": [1]}
    await house.says(action="modify", key="mine", value=given)
    await house.says(action="snapshot", name="now")
    given["a"].append(2)
    assert await house.says(action="inspect", key="mine") == "mine: {'a': [1]}"
    await house.says(action="modify", key="mine.a", value=[9])
    await house.says(action="restore", name="now")
    assert await house.says(action="inspect", key="mine") == "mine: {'a': [1]}"


async def test_a_restore_that_fails_half_way_sets_nothing() -> None:
    house = House()
    await house.says(action="snapshot", name="before")
    await house.says(action="modify", key="max_iterations", value=50)
    await house.says(action="modify", key="mine", value=1)
    house.room.refused = "model"
    answer = await house.says(action="restore", name="before")
    assert answer.startswith("Error: 'model' cannot be set")
    assert house.room.value("s", "max_iterations") == 50
    assert await house.says(action="inspect", key="mine") == "mine: 1"


async def test_a_restore_that_fails_half_way_takes_back_what_it_had_set() -> None:
    house = House()
    await house.says(action="snapshot", name="before")
    await house.says(action="modify", key="model", value="other/model")
    house.room.refused = "max_iterations"
    answer = await house.says(action="restore", name="before")
    assert answer.startswith("Error: 'max_iterations' cannot be set")
    assert house.room.value("s", "model") == "other/model"


@pytest.mark.parametrize(("action", "said"), [("inspect", "is not accessible"), ("modify", "is protected")])
async def test_python_s_own_names_are_refused_in_a_variable_s_data_too(action: str, said: str) -> None:
    house = House()
    await house.says(action="modify", key="mine", value={"a": 1})
    assert said in await house.says(action=action, key="mine.__class__", value=1)
    assert await house.says(action="inspect", key="mine") == "mine: {'a': 1}"


async def test_a_name_with_a_wildcard_allows_nothing_for_always() -> None:
    given = [permissions({"action": "modify", "key": key}, None) for key in ("mine", "*", "m?ne")]  # type: ignore[arg-type]
    assert [list(one.always) for (one,) in given] == [["modify mine"], [], []]


@pytest.mark.parametrize("key", [None, 5, "", "x" * 257, "a\nb", "\uff4dodel"], ids=ascii)
async def test_what_is_no_path_stands_in_no_pattern(key: Any) -> None:
    (asked,) = permissions({"action": "modify", "key": key}, None)  # type: ignore[arg-type]
    assert (list(asked.patterns), list(asked.always)) == (["modify"], ["modify"])


async def test_a_part_of_what_holds_a_secret_is_not_set_for_the_rest_would_be_stars() -> None:
    house = House()
    before = {"a": 1, "other": Secret(HELD)}
    house.room.defaults["options"] = before
    answer = await house.says(action="modify", key="options.a", value=2)
    assert answer == "Error: 'options' cannot be read: it holds a Secret, which is not plain data"
    assert house.room.value("s", "options") is before
    assert house.told == []


@pytest.mark.parametrize("name", RESTRICTED)
async def test_a_restricted_parameter_that_nothing_declares_is_not_kept_as_a_variable(name: str) -> None:
    house = House()
    house.views = [view for view in house.views if view.name != "parameters"]
    answer = await house.says(action="modify", key=name, value=50)
    assert answer.startswith(f"Error: '{name}' not found: nothing declares this parameter here")
    assert house.sessions["s"].variables == {}


async def test_a_snapshot_of_what_is_out_of_range_is_refused() -> None:
    house = House()
    house.room.put("s", "max_iterations", 1_000_000)
    answer = await house.says(action="snapshot", name="bad")
    assert answer == "Error: snapshot 'bad' cannot be used: 'max_iterations' must be <= 100"
    assert await house.says(action="list_snapshots") == "No snapshots saved"


async def test_the_snapshots_of_a_session_are_numbered() -> None:
    house = House()
    for one in range(32):
        assert await house.says(action="snapshot", name=f"s{one}") == f"Snapshot 's{one}' saved"
    assert await house.says(action="snapshot", name="s0") == "Snapshot 's0' saved"
    assert await house.says(action="snapshot", name="more") == (
        "Error: snapshot 'more' is one too many (max 32): save it under the name of one"
    )


async def test_a_tool_that_was_given_back_is_the_same_one() -> None:
    house = House()
    await house.says(action="manage_tool", name="web_search", manage_action="unregister")
    before = house.tools["web_search"]
    await house.says(action="manage_tool", name="web_search", manage_action="register")
    assert house.tools["web_search"] is before
    assert list(house.sessions["s"].unregistered) == []
