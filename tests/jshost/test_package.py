"""npm packages as plugins, from a registry on loopback by the real npm: once, checked, and never with their scripts."""

import asyncio
import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.jshost.registry import Registry

from instar.jshost.package import demand_host
from instar.plugin.locate import LoadError
from instar.testing import Machine, RuntimeUnderTest, results, said

BANG = "export const P = async () => ({ 'text.complete': async (i, o) => { o.text += 'WORD' } })"


@pytest.fixture
def registry(house: Machine) -> Iterator[Registry]:
    made = Registry()
    # npm asks nobody else, and nothing of an earlier test is in its cache.
    house.environment |= {"npm_config_registry": made.url, "npm_config_fetch_retries": "0"}  # type: ignore[operator]
    yield made
    made.close()


def cache(house: Machine) -> Path:
    return Path(house.environment["XDG_CACHE_HOME"]) / "instar" / "npm"


async def answer(house: Machine, door: RuntimeUnderTest) -> str:
    return said(await door.ask(await door.session(), "hi"))


@pytest.mark.slow
async def test_a_package_is_installed_once_with_its_lock_and_never_runs_its_scripts(
    house: Machine, registry: Registry
) -> None:
    ran = house.folder / "ran"
    registry.publish("dep", "2.0.0", {"index.js": "export const word = '!'"}, main="index.js")
    registry.publish(
        "some-plugin",
        "1.2.0",
        {"server.js": "import { word } from 'dep'\n" + BANG.replace("'WORD'", "word")},
        exports={"./server": "./server.js"},
        dependencies={"dep": "^2.0.0"},
        scripts={"install": f"touch {ran}", "postinstall": f"touch {ran}"},
    )
    registry.publish("some-plugin", "1.3.0", {"index.js": "throw new Error('the wrong version')"})
    house.settings(plugin=["some-plugin@1.2"])
    house.says("== turn\ntext: hello\n")
    first = await house.open()
    assert not first.runtime.notices
    assert first.runtime.instance.plugins.names == ["some-plugin"]
    assert await answer(house, first) == "hello!"
    assert not ran.exists()
    lock = json.loads((cache(house) / "some-plugin@1.2" / "package-lock.json").read_text())["packages"]
    assert lock["node_modules/dep"]["integrity"].startswith("sha512-")
    asked = len(registry.asked)
    assert registry.asked.count("/-/some-plugin-1.2.0.tgz") == 1
    second = await house.open()
    assert await answer(house, second) == "hello!"
    assert len(registry.asked) == asked


@pytest.mark.slow
async def test_a_fresh_home_is_enough_for_npm_and_for_what_plugins_keep_there(
    house: Machine, registry: Registry
) -> None:
    source = """
    import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
    const home = process.env.HOME
    appendFileSync(home + '/.opencode-supermemory.log', 'loaded\\n')
    mkdirSync(home + '/.claude/todos', { recursive: true })
    mkdirSync(home + '/.config/opencode', { recursive: true })
    writeFileSync(home + '/.claude/todos/1.json', '[]')
    """
    registry.publish("plug", "1.0.0", {"index.js": source + BANG.replace("WORD", "!")}, main="index.js")
    house.settings(plugin=["plug"], shield={"level": "landlock"})
    house.says("== turn\ntext: hello\n")
    door = await house.open()
    assert not door.runtime.notices
    assert await answer(house, door) == "hello!"
    home = Path(house.environment["HOME"])
    assert (home / ".npm/_cacache").is_dir()
    assert (home / ".claude/todos/1.json").exists()


@pytest.mark.slow
async def test_two_that_install_a_package_at_once_use_the_one_that_was_there_first(
    house: Machine, registry: Registry
) -> None:
    registry.publish("plug", "1.0.0", {"index.js": BANG.replace("WORD", "!")}, main="index.js")
    registry.together = threading.Barrier(2)
    house.settings(plugin=["plug"])
    house.says("== turn\ntext: hello\n")
    folder = cache(house) / "plug@latest"

    async def opened() -> tuple[RuntimeUnderTest, int]:
        door = await house.open()
        return door, folder.stat().st_ino

    found = await asyncio.gather(opened(), opened())
    # A child may be reading of it: another one put in its place would be gone under its hands.
    assert {number for _, number in found} == {folder.stat().st_ino}
    assert [one.name for one in cache(house).iterdir()] == [folder.name]
    assert [await answer(house, door) for door, _ in found] == ["hello!", "hello!"]


@pytest.mark.slow
async def test_an_install_that_was_changed_is_made_anew_and_what_runs_for_the_model_cannot_change_it(
    house: Machine, registry: Registry
) -> None:
    registry.publish("@team/plug", "1.0.0", {"index.js": BANG.replace("WORD", "!")}, main="index.js")
    house.settings(plugin=["@team/plug"], permission={"*": "allow"})
    folder = cache(house) / "_team_plug@latest".replace("_team", "@team")
    house.says(
        '== turn\ntool: bash {"command": "echo x >> LOCK; true"}\n== turn\ntext: hello\n'.replace(
            "LOCK", str(folder / "package-lock.json")
        )
    )
    door = await house.open()
    session = await door.session()
    assert said(await door.ask(session, "hi")) == "hello!"
    (refused,) = results(await door.stored(session))
    assert "Read-only file system" in refused
    lock = folder / "package-lock.json"
    before = lock.read_text()
    assert json.loads(before)
    lock.write_text(before.replace("sha512-", "sha512-0"))
    again = await house.open()
    assert again.runtime.instance.plugins.names == ["@team/plug"]
    assert lock.read_text() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (
            "no-such-package",
            "npm knows no package no-such-package: look at its spelling, or name a file by its path",
        ),
        ("npm:no-such-package@1", "npm knows no package no-such-package"),
        ("plug@9", "npm has no version of plug that fits plug@9"),
        ("npm:Not A Name", "'Not A Name' is no name of an npm package"),
    ],
)
async def test_a_package_that_is_not_there_is_one_line(
    house: Machine, registry: Registry, spec: str, reason: str
) -> None:
    registry.publish("plug", "1.0.0", {"index.js": BANG})
    house.settings(plugin=[spec])
    door = await house.open()
    (notice,) = door.runtime.notices
    assert notice == f"plugin {spec} is skipped: {notice.partition(': ')[2]}"
    assert reason in notice
    assert "\n" not in notice


@pytest.mark.slow
async def test_a_package_that_needs_another_opencode_is_one_line_and_one_that_fits_works(
    house: Machine, registry: Registry
) -> None:
    newer, same = {"opencode": ">=99"}, {"opencode": "^1.18.0", "node": ">=99"}
    registry.publish(
        "newer", "1.0.0", {"index.js": BANG.replace("WORD", "?")}, main="index.js", engines=newer
    )
    registry.publish("same", "1.0.0", {"index.js": BANG.replace("WORD", "!")}, main="index.js", engines=same)
    house.settings(plugin=["newer", "same"])
    house.says("== turn\ntext: hello\n")
    door = await house.open()
    assert door.runtime.notices == [
        "plugin newer is skipped: it needs opencode >=99, and instar offers plugins what 1.18.33 does"
    ]
    assert await answer(house, door) == "hello!"


@pytest.mark.parametrize(
    ("engines", "fits"),
    [
        *[({"opencode": one}, True) for one in ("*", "", "1.18.33", "~1.18", "1.x", ">=1.0.0 <2", "1 - 2")],
        *[({"opencode": one}, True) for one in ("0.9 || >= 1.2", ">1.18.33-beta.1", "  >=1\n <2 ")],
        *[({"opencode": one}, False) for one in ("1.18.34", "<1.18", "^2", "~1.17.0", ">1.18.33", "0.x")],
        *[({"opencode": one}, False) for one in ("<1.18.33-beta.1", "the newest", "1 " * 200_000)],
        # What names no range demands nothing.
        *[(one, True) for one in (None, [], "1.0", {"node": ">=99"}, {"opencode": 2}, {"opencode": None})],
    ],
    ids=lambda one: str(one)[:30],
)
def test_a_package_fits_where_npms_range_of_its_engines_holds_the_opencode_that_is_offered(
    tmp_path: Path, engines: object, fits: bool
) -> None:
    (tmp_path / "package.json").write_text(json.dumps({"name": "x", "engines": engines}), "utf-8")
    if fits:
        demand_host(tmp_path)
    else:
        with pytest.raises(LoadError, match=r"^it needs opencode .{1,256}, and instar offers plugins what"):
            demand_host(tmp_path)


@pytest.mark.slow
async def test_bytes_that_are_not_what_the_registry_announced_are_refused(
    house: Machine, registry: Registry
) -> None:
    registry.publish("plug", "1.0.0", {"index.js": BANG})
    registry.lies = True
    house.settings(plugin=["plug"])
    door = await house.open()
    (notice,) = door.runtime.notices
    assert "integrity" in notice.lower()
    assert not list(cache(house).iterdir())


LOCK = {
    "node_modules/plug": {"version": "1.0.0", "resolved": "http://127.0.0.1/p.tgz", "integrity": "sha512-x"}
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (
            f"echo '{json.dumps({'packages': LOCK})}' > package-lock.json",
            "not all that its lock names is there",
        ),
        ("echo '{' > package-lock.json", "npm wrote no lock that can be read"),
        ("true", "npm wrote no lock that can be read"),
        ("sleep 600", "npm took longer than 0.5 s"),
        (
            "printf 'npm error code EPERM\\nnpm error no\\n  such luck' >&2; exit 1",
            "installed by npm: no such luck",
        ),
        ("exit 1", "installed by npm: it did not say why"),
        (
            f"echo '{json.dumps({'packages': {'node_modules/plug': {**LOCK['node_modules/plug'], 'integrity': ''}}})}'"
            " > package-lock.json",
            "npm's registry gives no integrity for node_modules/plug",
        ),
    ],
)
async def test_an_install_that_is_not_sound_is_one_line_and_leaves_nothing_behind(
    house: Machine, tmp_path: Path, work: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if work.startswith("sleep"):
        monkeypatch.setattr("instar.jshost.package._TIMEOUT", 0.5)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "npm").write_text(f"#!/bin/sh\necho >> {house.folder}/asked\n{work}\n")
    (programs / "npm").chmod(0o755)
    house.environment["PATH"] = f"{programs}:{house.environment['PATH']}"  # type: ignore[index]
    house.settings(plugin=["plug"])
    door = await house.open()
    (notice,) = door.runtime.notices
    assert reason in notice
    assert "\n" not in notice
    assert not list(cache(house).iterdir())


@pytest.mark.slow
async def test_what_is_missing_of_an_install_is_installed_anew(house: Machine, registry: Registry) -> None:
    registry.publish("plug", "1.0.0", {"index.js": BANG.replace("WORD", "!")}, main="index.js")
    house.settings(plugin=["plug"])
    await house.open()
    package = cache(house) / "plug@latest" / "node_modules" / "plug"
    for spoil in (shutil.rmtree, lambda path: (path / "package.json").write_text('{"version": "2.0.0"}')):
        spoil(package)
        asked = len(registry.asked)
        door = await house.open()
        assert not door.runtime.notices
        assert json.loads((package / "package.json").read_text())["version"] == "1.0.0"
        assert len(registry.asked) > asked


@pytest.mark.slow
async def test_the_bare_name_of_the_original_selects_our_own_and_npm_selects_the_original(
    house: Machine, registry: Registry
) -> None:
    registry.publish("opencode-evolve", "0.1.0", {"index.js": BANG.replace("WORD", "?")}, main="index.js")
    house.settings(plugin=["npm:opencode-evolve"])
    house.says("== turn\ntext: hello\n")
    door = await house.open()
    assert await answer(house, door) == "hello?"
    house.settings(plugin=["opencode-evolve"])
    ours = await house.open()
    assert ours.runtime.instance.plugins.names == ["evolve"]
    assert ours.runtime.instance.plugins.loaded[0].host is None


async def test_without_npm_a_package_is_one_line(house: Machine, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "git", "node"):
        for folder in house.environment["PATH"].split(":"):
            if (Path(folder) / name).exists() and not (programs / name).exists():
                (programs / name).symlink_to(Path(folder) / name)
    house.environment["PATH"] = str(programs)  # type: ignore[index]
    house.settings(plugin=["some-plugin"])
    door = await house.open()
    (notice,) = door.runtime.notices
    assert notice.endswith(
        "some-plugin@latest is an npm package, and there is no npm on PATH: install node with npm"
    )
