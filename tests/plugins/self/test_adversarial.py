"""No path and no argument reaches anything outside of the tree, or a secret."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.self.room import HELD, NAMED, PLANTED, SECRETS, House, cyclic, nothing

from instar.plugins.self.tool import ACTIONS

ROOTS = (
    *(
        "",
        "max_iterations",
        "model",
        "options",
        "subagents",
        "subagents._running_tasks",
        "subagents.get_running_count",
    ),
    *(
        "context",
        "context.build_system_prompt",
        "web_config.search",
        "web_config.search.api_key",
        "odd.object",
        "own",
    ),
)
LEAVES = (
    *(
        "__class__",
        "__dict__",
        "__globals__",
        "__init__.__globals__",
        "__class__.__mro__.1.__subclasses__",
        "__func__",
    ),
    *(
        "__self__",
        "__code__",
        "__closure__",
        "__reduce__",
        "__wrapped__",
        "__module__",
        "__get__",
        "__weakref__",
    ),
    *(
        "cr_frame",
        "gi_frame.f_globals",
        "ag_frame",
        "f_back",
        "f_globals",
        "tb_frame",
        "tb_next",
        "func_globals",
    ),
    *(
        "func_code",
        "co_consts",
        "mro",
        "format",
        "format_map",
        "{0.__class__}",
        "%(secret)s",
        "{self}",
        "constructor",
    ),
    *(
        "prototype",
        "__proto__",
        "_value",
        "reveal",
        "secret",
        "_secrets",
        "keys",
        "items",
        "get",
        "pop",
        "-1",
        "1e3",
    ),
)
ALONE = (
    *(
        "bus",
        "provider",
        "_running",
        "_config_defaults",
        "_runtime_vars",
        "_unregistered_tools",
        "_config_snapshots",
    ),
    *(
        "_critical_tool_backup",
        "bus.publish",
        "provider.api_key",
        "provider.complete",
        "_runtime_vars.x",
        "BUS",
    ),
    *(
        "Provider",
        "ｂｕｓ",
        "ｐｒｏｖｉｄｅｒ",
        "pro\u200bvider",
        "bu\u0455",
        "рrovider",
        "__builtins__",
        "__import__",
    ),
    *(
        "os",
        "sys",
        "sys.modules",
        "os.environ",
        "builtins.eval",
        "globals",
        "locals",
        "vars",
        "getattr",
        "instance",
    ),
    *(
        "runtime",
        "config",
        "config.provider",
        "env",
        "environment",
        "secrets",
        "auth",
        "store",
        "input",
        "plugins",
    ),
    *(
        "access",
        "tree",
        "views",
        "states",
        "RESTRICTED",
        "BLOCKED",
        "self._access",
        "self.BLOCKED",
        "_states",
        "tools",
    ),
    *(
        ".",
        "..",
        "...",
        ".a",
        "a.",
        "a b",
        "a\nb",
        "a\0b",
        "\x1b[2J",
        "\u202eabc",
        "'; drop",
        "a[0]",
        "a()",
        "*",
        "?",
    ),
    *(
        "x" * 257,
        "x" * 100_000,
        ".".join("a" * 20),
        "a." * 200,
        "0",
        "-1",
        "1",
        "None",
        "True",
        "💥",
        "ß" * 60,
        "\ufeff",
    ),
)
PATHS = [*ALONE, *(f"{root}.{leaf}".lstrip(".") for root, leaf in itertools.product(ROOTS, LEAVES))]
ODD: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        1.5,
        float("nan"),
        [],
        {},
        ["key"],
        {"key": 1},
        b"key",
        (1,),
        {1},
        print,
        int,
        object(),
        nothing(),
    ),
    *(
        cyclic(),
        10**30,
        "\ud800",
        {"__class__": 1},
        {"a": cyclic()},
        ["x" * 2000],
        Exception(PLANTED),
        type,
        iter([]),
    ),
]


def test_there_are_more_than_three_hundred_of_them() -> None:
    assert len(set(PATHS)) >= 300


async def prepared() -> House:
    house = House()
    await house.says(action="modify", key="own", value={"a": [1, {"b": 2}]})
    house.told.clear()
    return house


def is_clean(answer: str) -> bool:
    leaks = (*SECRETS, "Traceback", " object at 0x", "<function", "<class", "<module", "<frame", "environ")
    return len(answer) < 40_000 and not any(leak in answer for leak in leaks)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(8))
async def test_a_hostile_path_reaches_nothing(chunk: int) -> None:
    house = await prepared()
    before = house.room.set.copy()
    for path in PATHS[chunk::8]:
        for action in ("inspect", "call", "reset"):
            answer = await house.says(action=action, key=path, method=path)
            refused = answer.startswith(("Error: ", "'", '"')) or path == "tools"
            assert refused, (action, path, answer)
            assert is_clean(answer.replace(path, "").replace(path.partition(".")[0], "")), (
                action,
                path,
                answer,
            )
        answer = await house.says(action="modify", key=path, value=1)
        assert answer.startswith(("Error: ", f"Set _runtime_vars.{path}", "Set own.", "Set options.")), (
            path,
            answer,
        )
    assert {one.path.split(".")[0] for one in house.told} <= {"_runtime_vars", "options"}
    assert set(house.room.set.get("s", {})) - set(before) <= {"options"}


@pytest.mark.parametrize("action", ACTIONS)
async def test_an_argument_of_any_type_is_answered(action: str) -> None:
    house = await prepared()
    for odd in ODD:
        for asked in (
            {"key": odd, "method": odd, "name": odd, "value": 1},
            {"key": "own", "method": "odd.echo", "name": "n", "value": odd, "args": odd},
            {"key": "max_iterations", "name": "web_search", "value": odd, "manage_action": odd},
        ):
            answer = await house.says(action=action, **asked)
            assert is_clean(answer), (action, odd, answer)
    assert house.room.value("s", "max_iterations") in (40, 1)


@pytest.mark.parametrize(
    "path",
    [
        "web_config.search.api_key",
        "web_config.search.more",
        "web_config.search.more.list.0",
        "options",
        "options.api_key",
        "odd.keys",
    ],
)
async def test_a_secret_reads_as_stars_on_every_path(path: str) -> None:
    house = House()
    shown = [
        await house.says(action="inspect", key=path),
        await house.says(action="modify", key=path, value="new"),
    ]
    shown += [await house.says(action="reset", key=path), await house.says(action="call", method=path)]
    shown += [repr(one) for one in house.told]
    assert not any(secret in text for secret in (PLANTED, HELD, NAMED) for text in shown)
    assert "***" in shown[0]


NAMES = st.sampled_from([*ROOTS, *LEAVES, *ALONE, "a", "b", "0", "1"]) | st.text(max_size=8)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    action=st.sampled_from(list(ACTIONS)) | st.text(max_size=5),
    names=st.lists(NAMES, min_size=1, max_size=5),
    value=st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5), st.lists, max_leaves=5),
    name=st.text(max_size=6),
)
async def test_whatever_is_asked_is_answered_without_a_secret(
    action: str, names: list[str], value: Any, name: str
) -> None:
    house = await prepared()
    path = ".".join(names)
    answer = await house.says(
        action=action, key=path, method=path, name=name, value=value, manage_action=name
    )
    assert not any(secret in answer for secret in SECRETS)
    assert " object at 0x" not in answer
    assert "self" not in house.sessions["s"].unregistered
    assert isinstance(house.room.value("s", "max_iterations"), int)
