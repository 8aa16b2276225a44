"""Loading plugins: V0 and V1, from files and modules, in order, each failure named and skipped."""

from pathlib import Path
from typing import Any

import pytest

from instar.bus import Bus
from instar.plugin import points
from instar.plugin.door import Plugins
from instar.plugin.load import Spec, distinct, load

V0 = """
async def first(input, options):
    async def event(event): ...
    return {"event": event}

async def second(input, options):
    return {}

async def _private(input, options):
    raise AssertionError

def helper():
    raise AssertionError
"""
V1 = """
async def server(input, options):
    OPTIONS.append(options)
    return {}

OPTIONS = []
plugin = {"id": "mine", "server": server}
"""


async def loaded(*specs: Spec) -> tuple[list[str], list[str]]:
    plugins = Plugins(Bus(), points.CORE)
    failures = await load(specs, plugins, lambda name: name)  # type: ignore[arg-type, return-value]
    return plugins.names, failures


def written(folder: Path, name: str, text: str) -> Spec:
    path = folder / name
    path.write_text(text)
    return Spec(str(path), {"depth": 3})


async def test_a_file_offers_its_public_async_functions(tmp_path: Path) -> None:
    assert await loaded(written(tmp_path, "two.py", V0)) == (["two", "two"], [])


async def test_an_object_with_id_and_server_gives_the_plugin_its_name(tmp_path: Path) -> None:
    assert await loaded(written(tmp_path, "v1.py", V1)) == (["mine"], [])


async def test_a_module_may_itself_be_the_plugin(tmp_path: Path) -> None:
    text = "id = 'self'\nasync def server(input, options): return {}\n"
    assert await loaded(written(tmp_path, "module.py", text)) == (["self"], [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1", "neither a `server` (V1) nor a public async function (V0)"),
        ("def broken(:", "SyntaxError"),
        ("raise ValueError('at load')", "ValueError: at load"),
        ("async def bad(input, options): raise KeyError('when called')", "KeyError: 'when called'"),
        ("plugin = {'id': 'x', 'server': 3}", "its `server` is not a function"),
    ],
)
async def test_a_plugin_that_fails_is_named_and_its_neighbours_load(
    tmp_path: Path, text: str, why: str
) -> None:
    bad, good = written(tmp_path, "bad.py", text), written(tmp_path, "good.py", V1)
    names, [failure] = await loaded(bad, good)
    assert names == ["mine"]
    assert failure.startswith(f"plugin {bad.target} is skipped: ")
    assert why in failure


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("/nowhere/at-all.py", "there is no file /nowhere/at-all.py"),
        ("no_such_module_anywhere", "there is no Python module 'no_such_module_anywhere'"),
        ("/some/plugin.ts", "it is JavaScript"),
    ],
)
async def test_what_cannot_be_found_is_one_clear_line(target: str, why: str) -> None:
    names, [failure] = await loaded(Spec(target))
    assert (names, "\n" in failure) == ([], False)
    assert why in failure


def test_of_several_specs_for_one_plugin_the_last_counts() -> None:
    specs: list[Any] = [Spec("a", {"n": 1}), Spec("evolve"), Spec("a", {"n": 2}), Spec("opencode-evolve@1.2")]
    assert distinct(specs) == [Spec("a", {"n": 2}), Spec("opencode-evolve@1.2")]
