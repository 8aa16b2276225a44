"""Loading plugins: V0 and V1, from files, packages and modules, in order, each failure named and skipped."""

import asyncio
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from instar.event.bus import Bus
from instar.plugin import points
from instar.plugin.door import Plugins
from instar.plugin.interface import PluginInput
from instar.plugin.load import Spec, distinct, load
from instar.plugin.shell import Shell
from instar.process import Processes

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


class Given:
    """As much of a `PluginInput` as these plugins use."""

    def __init__(self, name: str, processes: Processes) -> None:
        self.name = name
        self.shell = Shell(processes, Path.cwd(), {"PATH": "/usr/bin:/bin"}, name)


async def loaded(*specs: Spec, patience: float = 5.0) -> tuple[list[str], list[str]]:
    plugins, processes = Plugins(Bus(), points.CORE), Processes()

    def given(name: str) -> PluginInput:
        return Given(name, processes)  # type: ignore[return-value]

    failures = await load(specs, plugins, given, patience)
    await processes.close()
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
        ("async def bad(input, options): return 5", "it returned a int, not a mapping"),
        ("async def bad(input, options): return {'event': 5}", "'event' is 5: expected an async function"),
        ("async def bad(input, options): return {'timeout': 0}", "expected seconds above 0"),
        ("async def bad(input, options): return {'tool': [1]}", "expected a mapping of names to Tool"),
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
        (
            "no_such_module_anywhere",
            "there is no Python package or module 'no_such_module_anywhere' here; instar installs nothing by itself",
        ),
        ("/some/plugin.ts", "there is no file /some/plugin.ts"),
    ],
)
async def test_what_cannot_be_found_is_one_clear_line(target: str, why: str) -> None:
    names, [failure] = await loaded(Spec(target))
    assert (names, "\n" in failure) == ([], False)
    assert why in failure


def test_of_several_specs_for_one_plugin_the_last_counts() -> None:
    specs: list[Any] = [Spec("a", {"n": 1}), Spec("evolve"), Spec("a", {"n": 2}), Spec("opencode-evolve@1.2")]
    assert distinct(specs) == [Spec("a", {"n": 2}), Spec("opencode-evolve@1.2")]


@pytest.mark.slow
async def test_a_plugin_that_does_not_return_is_named_and_skipped_also_when_it_ignores_its_end(
    tmp_path: Path,
) -> None:
    stuck = """
        import asyncio

        async def stuck(input, options):
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
    """
    bad = written(tmp_path, "stuck.py", textwrap.dedent(stuck))
    names, [failure] = await loaded(bad, written(tmp_path, "good.py", V1), patience=0.05)
    assert names == ["mine"]
    assert failure == f"plugin {bad.target} is skipped: Late: it did not return within 0.05 s and was ended"


async def test_what_a_plugin_started_ends_when_it_fails_at_load(tmp_path: Path) -> None:
    source = """
        import asyncio

        STARTED = []

        async def server(input, options):
            STARTED.append(input.shell.background(["sleep", "600"]))
            await asyncio.sleep(0.05)
            raise RuntimeError("after all")
    """
    names, [failure] = await loaded(written(tmp_path, "half.py", textwrap.dedent(source)))
    (module,) = [one for name, one in sys.modules.items() if name.startswith("instar_plugin_half")]
    assert (names, "after all" in failure, module.STARTED[0].running) == ([], True, False)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with one plugin, as an entry point."""
    site = tmp_path / "site"
    info = site / "notify_me-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: notify-me\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[instar.plugins]\nbell = notify_me.bell:ring\n")
    folder = site / "notify_me"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "bell.py").write_text("async def ring(input, options):\n    return {}\n")
    monkeypatch.syspath_prepend(str(site))
    for name in [name for name in sys.modules if name.startswith("notify_me")]:
        monkeypatch.delitem(sys.modules, name)
    return site


@pytest.mark.parametrize(
    "target",
    ["bell", "notify-me", "notify_me:bell", "notify-me==1.2", "notify-me@1.2", "bell==1.2", "bell@latest"],
)
async def test_a_package_offers_its_plugins_as_entry_points(package: Path, target: str) -> None:
    assert await loaded(Spec(target)) == (["bell"], [])


async def test_another_version_than_the_one_that_is_asked_for_is_named(package: Path) -> None:
    names, [failure] = await loaded(Spec("notify-me==2.0"))
    assert names == []
    assert "version 2.0 is asked for and 1.2 is installed: pip install notify-me==2.0" in failure


async def test_a_name_that_two_packages_have_is_no_choice(package: Path) -> None:
    info = package / "other-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[instar.plugins]\nbell = notify_me.bell:ring\n")
    _, [failure] = await loaded(Spec("bell"))
    assert "several packages offer it; write which: notify-me:bell, other:bell" in failure
    assert await loaded(Spec("other:bell")) == (["bell"], [])


async def test_a_plugin_that_is_listed_by_its_module_and_by_its_file_loads_once_where_it_stands_last(
    package: Path, tmp_path: Path
) -> None:
    own = written(tmp_path, "own.py", V1)
    file = Spec(str(package / "notify_me" / "bell.py"))
    assert await loaded(Spec("notify_me.bell"), own, file) == (["mine", "bell"], [])
    assert await loaded(file, own, Spec("notify_me.bell")) == (["mine", "notify_me.bell"], [])


async def test_a_folder_with_an_init_file_is_a_plugin_and_may_import_its_neighbours(tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "words.py").write_text("NAME = 'from beside'")
    (folder / "__init__.py").write_text(
        "from .words import NAME\nid = NAME\nasync def server(input, options): return {}\n"
    )
    assert await loaded(Spec(str(folder))) == (["from beside"], [])
    assert await loaded(Spec(folder.as_uri())) == (["from beside"], [])


async def test_loading_can_be_given_up(tmp_path: Path) -> None:
    slow = written(
        tmp_path, "slow.py", "import asyncio\nasync def slow(input, options): await asyncio.Event().wait()"
    )
    task = asyncio.create_task(loaded(slow))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
