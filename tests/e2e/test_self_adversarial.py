"""No path and no argument reaches a secret of the real runtime, another session, or anything outside of the tree.

Secrets are planted in every room that has any: settings, auth.json, the environment, MCP servers, providers' headers, a
plugin's options, the server's password, another session. Every question is put to the tool inside one turn.
"""

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.self.test_adversarial import ALONE, LEAVES

from instar.plugin import Branch, Method, Tool, Value
from instar.plugins.self.tool import ACTIONS
from instar.plugins.self.tree import SelfTree
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest

PLANTED = {
    room: f"sk-{room}-0123456789abcdef"
    for room in (
        *("CONFIG", "AUTH", "ENVIRONMENT", "MCPENV", "MCPHEADER", "HEADER", "SERVER"),
        *("OPTIONS", "REFERENCE", "WORKSPACE"),
    )
}
OTHERS = ("OTHER-TITLE-1", "OTHER-TEXT-1")
"""The title and the text of another session."""
LEAKS = (*PLANTED.values(), *OTHERS)
GIVEAWAYS = ("Traceback", " object at 0x", "<function", "<class", "<module", "<frame", "<bound method")
SETTINGS: dict[str, Any] = {
    "tools": {"self_evolution": True},
    "permission": "allow",
    "model": "scripted/x",
    "provider": {
        "acme": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {
                "baseURL": "http://127.0.0.1:9/v1",
                "apiKey": PLANTED["CONFIG"],
                "headers": {"X-Acme-Token": PLANTED["HEADER"]},
            },
            "models": {"m": {"headers": {"Authorization": f"Bearer {PLANTED['HEADER']}"}}},
        },
        "other": {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": "http://127.0.0.1:9/v1", "apiKey": "{env:REFERRED_API_KEY}"},
            "models": {"m": {}},
        },
    },
    "mcp": {
        "gh": {
            "type": "local",
            "command": ["true"],
            "environment": {"GH_TOKEN": PLANTED["MCPENV"]},
            "enabled": False,
        },
        "far": {
            "type": "remote",
            "url": "http://127.0.0.1:9/mcp",
            "headers": {"Authorization": f"Bearer {PLANTED['MCPHEADER']}"},
            "enabled": False,
        },
    },
}
PLUGIN = """
async def mine(input, options):
    return {}
"""


class Inside:
    """A turn that a call holds open, in a thread of its own; the test asks the tool from inside of it."""

    def __init__(self, house: Machine) -> None:
        self._house = house
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.door: RuntimeUnderTest = self._run(self._open())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT * 3)

    async def _open(self) -> RuntimeUnderTest:
        door = await self._house.open()
        other = await door.session(OTHERS[0])
        await door.ask(other, OTHERS[1])
        begun: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._end = asyncio.Event()

        async def hold(args: Any, context: Any) -> str:
            begun.set_result(context)
            await self._end.wait()
            return "held"

        held = Tool("Hold.", {"type": "object", "properties": {}}, hold)
        door.plugin({"tool": {"hold": held}})
        self.session = await door.session("mine")
        await door.start(self.session, "hold it")
        self._context = await asyncio.wait_for(begun, TIMEOUT)
        return door

    def ask(self, *questions: dict[str, Any]) -> list[str]:
        """What the tool answers to each."""

        async def all_of_them() -> list[str]:
            # The tool as the turn has it; what asks before a call and saves it has tests of its own.
            tool = (await self._context.tools())["self"]
            return [(await tool.execute(one, self._context)).output for one in questions]

        return list(self._run(all_of_them()))

    def tree(self) -> SelfTree:
        return SelfTree(self.door.runtime.registry.views.values())

    def told(self) -> str:
        """All that was published of changes."""
        return json.dumps([one.to_plain() for one in self.door.heard if one.type == "self.modified"])

    def close(self) -> None:
        async def end() -> None:
            self._end.set()
            await self.door.idle(self.session)
            await self._house.close()

        try:
            self._run(end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(TIMEOUT)
            self._loop.close()


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    root = tmp_path_factory.mktemp("inside")
    home = root / "home"
    home.mkdir()
    (root / "ws" / "hooks").mkdir(parents=True)
    (root / "ws" / ".env").write_text(f"API_KEY={PLANTED['WORKSPACE']}\n")
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "INSTAR_WORKSPACE": str(root / "ws"),
        "MY_API_KEY": PLANTED["ENVIRONMENT"],
        "REFERRED_API_KEY": PLANTED["REFERENCE"],
        "OPENCODE_SERVER_PASSWORD": PLANTED["SERVER"],
    }
    house = Machine(root, environment)
    house.says(
        '== when "OTHER"\ntext: OTHER-TEXT-1 again\n== when "hold it" once\ntool: hold {}\n== turn\ntext: done\n'
    )
    house.plugin(PLUGIN, "quiet")
    named = str(house.folder / ".instar" / "plugins" / "quiet.py")
    house.settings(**SETTINGS, plugin=[[named, {"api_key": PLANTED["OPTIONS"]}]])
    house.data.mkdir(parents=True, exist_ok=True)
    auth = {"acme": {"type": "api", "key": PLANTED["AUTH"]}}
    (house.data / "auth.json").write_text(json.dumps(auth))
    (house.data / "auth.json").chmod(0o600)
    made = Inside(house)
    yield made
    made.close()


def declared(inside: Inside) -> list[str]:
    return [".".join(one.at) for one in inside.tree().walk()]


def hostile(inside: Inside) -> list[str]:
    """Every declared path with hostile names behind it, and hostile paths of their own."""
    leaves = itertools.cycle(LEAVES)
    behind = [f"{path}.{next(leaves)}" for path in declared(inside) for _ in range(5)]
    return list(dict.fromkeys([*ALONE, *behind]))


def clean(answer: str, asked: str = "") -> bool:
    without = answer.replace(asked, "") if asked else answer
    return not any(one in without for one in (*LEAKS, *GIVEAWAYS)) and len(answer) < 40_000


@pytest.mark.slow
def test_there_are_more_than_three_hundred_paths_and_every_room_is_among_them(inside: Inside) -> None:
    assert len(hostile(inside)) >= 300
    tops = {path.partition(".")[0] for path in declared(inside)}
    assert {"model", "tools", "sessions", "context", "hooks", "evolve", "dream", "limits", "usage"} <= tops


@pytest.mark.slow
def test_a_hostile_path_reaches_nothing(inside: Inside) -> None:
    paths = hostile(inside)
    for action in ("inspect", "call", "reset", "modify"):
        questions = [{"action": action, "key": path, "method": path, "value": 1} for path in paths]
        for path, answer in zip(paths, inside.ask(*questions), strict=True):
            assert clean(answer, path), (action, path, answer)
            kept = action == "modify" and answer.startswith(f"Set _runtime_vars.{path}")
            known = path in declared(inside) or answer == f"Deleted _runtime_vars.{path}"
            assert kept or known or answer.startswith(("Error", "'", '"')) or ": " in answer, (action, path)
    for name in inside.ask({"action": "inspect"})[0].partition("_runtime_vars: ")[2].split("'")[1::2]:
        inside.ask({"action": "reset", "key": name})
    assert clean(inside.told())


def test_every_value_and_every_method_reads_without_a_secret(inside: Inside) -> None:
    nodes = list(inside.tree().walk())
    looked = inside.ask(*({"action": "inspect", "key": ".".join(one.at)} for one in nodes))
    for one, answer in zip(nodes, looked, strict=True):
        assert clean(answer), (one.at, answer)
        assert not answer.startswith("Error"), (one.at, answer)
    methods = [one for one in nodes if isinstance(one.node, Method)]
    called = inside.ask(*({"action": "call", "method": ".".join(one.at)} for one in methods))
    assert all(clean(answer) for answer in called)
    assert {type(one.node) for one in nodes} == {Value, Method, Branch}


ODD: list[Any] = [
    *(None, -1, 0, -1.5, 10**30, "", " ", "x" * 2000, [], {}, [[]], {"__class__": 1}),
    *(
        "{0.__class__}",
        "%(secret)s",
        "${MY_API_KEY}",
        "{env:MY_API_KEY}",
        "{file:auth.json}",
        "__import__('os')",
    ),
    *({"constructor": {"prototype": 1}}, [None] * 1025, "\ud800", "nan", "True"),
]


def test_no_value_of_the_tree_takes_what_is_not_of_its_kind(inside: Inside) -> None:
    paths = [
        ".".join(one.at) for one in inside.tree().walk() if isinstance(one.node, Value) and one.node.write
    ]
    before = inside.ask(*({"action": "inspect", "key": path} for path in paths))
    for path in paths:
        questions = [{"action": "modify", "key": path, "value": odd} for odd in ODD]
        for odd, answer in zip(ODD, inside.ask(*questions), strict=True):
            assert answer.startswith("Error"), (path, odd, answer)
            assert clean(answer)
    assert inside.ask(*({"action": "inspect", "key": path} for path in paths)) == before


def test_a_method_takes_no_argument_that_is_not_its_own(inside: Inside) -> None:
    methods = [".".join(one.at) for one in inside.tree().walk() if isinstance(one.node, Method)]
    odd: list[Any] = [
        *({"self": 1}, {"__class__": 1}, {"session_id": "x"}, {"name": {}}, {"session_key": ["x"]}),
        *({"name": "../../auth", "profile": {}}, {"name": "x", "profile": []}, {"name": "auth.json"}),
    ]
    for method in methods:
        for answer in inside.ask(*({"action": "call", "method": method, "args": one} for one in odd)):
            assert answer.startswith("Error calling"), (method, answer)
            assert clean(answer)


def test_another_session_is_not_reached_by_its_id(inside: Inside) -> None:
    sessions = inside.door.runtime.instance.store
    others = [one.id for one in inside._run(sessions.sessions()) if one.title == OTHERS[0]]
    assert others
    for other in others:
        key = {"session_key": other}
        answers = inside.ask(
            {"action": "call", "method": "subagents.cancel_by_session", "args": key},
            {"action": "inspect", "key": f"sessions.{other}"},
            {"action": "inspect", "key": f"sessions.children.{other}"},
            {"action": "inspect", "key": f"subagents._running_tasks.{other}"},
        )
        assert answers[0] == "0"
        assert all(answer.startswith("Error") for answer in answers[1:])
        assert all(clean(answer) for answer in answers)


def test_the_guards_are_as_they_were_and_the_tool_is_still_there(inside: Inside) -> None:
    loosen = [
        ("web_config.enable", True),
        ("exec_config.enable", True),
        ("limits.session.tokens", 10**9),
        ("limits.day", None),
        ("permission.rules", []),
        ("trust.project", True),
        ("exec_config.sandbox.level", "none"),
        ("hooks.rules", []),
        ("evolve.safe", False),
        ("evolve.epoch", 0),
    ]
    inside.ask({"action": "modify", "key": "exec_config.enable", "value": False})
    inside.ask({"action": "modify", "key": "web_config.enable", "value": False})
    inside.ask({"action": "modify", "key": "limits.session.tokens", "value": 10**8})
    for path, value in loosen:
        for answer in inside.ask(
            {"action": "modify", "key": path, "value": value}, {"action": "reset", "key": path}
        ):
            assert answer.startswith(("Error", "'")), (path, answer)
    for name in ("self", "SELF", " self ", "ｓｅｌｆ"):
        (answer,) = inside.ask({"action": "manage_tool", "name": name, "manage_action": "unregister"})
        assert answer.startswith(("Error: cannot unregister the 'self' tool", "Tool "))
    assert "\n  self: " in inside.ask({"action": "list_tools"})[0]


NAMES = st.sampled_from([*LEAVES, *ALONE, "a", "0"]) | st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_whatever_is_asked_is_answered_without_a_secret(inside: Inside, data: st.DataObject) -> None:
    draw: Callable[[Any], Any] = data.draw
    root = draw(st.sampled_from([*declared(inside), ""]))
    path = ".".join([*([root] if root else []), *draw(st.lists(NAMES, max_size=3))])
    # What is set for good would end the turn: a value that fits goes nowhere but into a path that is not declared.
    action = draw(st.sampled_from([one for one in ACTIONS if one not in ("manage_tool", "restore")]))
    writes = action == "modify" and path in declared(inside)
    value = draw(JSON if not writes else st.sampled_from(ODD))
    asked = {"action": action, "key": path, "method": path, "name": draw(st.text(max_size=6)), "value": value}
    (answer,) = inside.ask({**asked, "args": draw(st.dictionaries(st.text(max_size=5), JSON, max_size=2))})
    assert not any(one in answer for one in LEAKS)
    assert " object at 0x" not in answer
    assert clean(inside.told())


def test_no_secret_was_logged(inside: Inside, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG", logger="instar"):
        inside.ask(
            {"action": "modify", "key": "mine", "value": PLANTED["ENVIRONMENT"]},
            {"action": "inspect", "key": "mine"},
            {"action": "snapshot", "name": "mine"},
            {"action": "reset", "key": "mine"},
        )
    assert "mine" in caplog.text
    assert not any(one in caplog.text for one in LEAKS)
    assert clean(inside.told())
