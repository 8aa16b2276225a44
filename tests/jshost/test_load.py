"""Loading JavaScript plugins: where they come from, which exports count, and what is said of those that fail."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.jshost.conftest import programs

from instar.runtime import Options, Runtime
from instar.testing import Machine, said

Write = Callable[..., Path]

HELLO = "== turn\ntext: hello\n"
BANG = "async () => ({ 'text.complete': async (i, o) => { o.text += '!' } })"


async def answer(house: Machine) -> str:
    house.says(HELLO)
    door = await house.open()
    assert not door.runtime.notices
    return said(await door.ask(await door.session(), "hi"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "name", "bangs"),
    [
        (f"export const P = {BANG}", "a.js", 1),
        (f"export const P = {BANG}", "a.mjs", 1),
        (f"export default {BANG}", "a.js", 1),
        (f"module.exports = {{ P: {BANG} }}", "a.cjs", 1),
        (f"module.exports = {BANG}", "a.cjs", 1),
        (f"const p = {BANG}; export const A = p; export default p", "a.js", 1),
        (
            f"export const A = {BANG}; export const B = {BANG}; export const C = {{ server: {BANG} }}",
            "a.js",
            3,
        ),
        (f"export default {{ id: 'own', server: {BANG} }}; export const other = 7", "a.js", 1),
        ("export const P = async () => {}", "a.js", 0),
        ("export const helper = (x) => 'a text'; export const other = () => ({ url: 'u' })", "a.js", 0),
    ],
)
async def test_a_module_offers_plugins_in_each_of_opencodes_forms(
    house: Machine, write: Write, source: str, name: str, bangs: int
) -> None:
    path = write(source, name, "own")
    house.settings(plugin=[path.as_uri()])
    assert await answer(house) == "hello" + "!" * bangs


@pytest.mark.slow
async def test_a_plugin_is_given_its_options_and_what_opencode_gives(house: Machine, write: Write) -> None:
    path = write(
        """
        export default { id: "own", server: async (input, options) => ({
          "text.complete": async (i, o) => {
            o.text = JSON.stringify([Object.keys(input).sort(), options, input.directory, input.project.worktree])
          },
        }) }
        """,
        "p.js",
        "own",
    )
    house.settings(plugin=[[str(path), {"loud": True}]])
    keys, options, directory, worktree = json.loads(await answer(house))
    assert keys == [
        "$",
        "client",
        "directory",
        "experimental_workspace",
        "project",
        "serverUrl",
        "worktree",
    ]
    assert (options, directory, worktree) == ({"loud": True}, str(house.folder), "/")


async def test_the_exports_of_a_module_are_run_in_the_order_of_their_names(
    house: Machine, write: Write
) -> None:
    write("""
        const adds = (text) => async () => ({ "text.complete": async (i, o) => { o.text += text } })
        export const last = adds(" last")
        export default adds(" default")
        export const First = adds(" First")
    """)
    assert await answer(house) == "hello First default last"


@pytest.mark.slow
@pytest.mark.parametrize("folder", [".opencode/plugin", ".opencode/plugins", ".instar/plugins"])
@pytest.mark.parametrize("at_home", [False, True])
async def test_plugin_files_of_the_project_and_the_home_are_found(
    house: Machine, write: Write, folder: str, at_home: bool
) -> None:
    home = Path(house.environment["XDG_CONFIG_HOME"]) / folder[1:]
    write(f"export const P = {BANG}", "p.js", str(home) if at_home else folder)
    assert await answer(house) == "hello!"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "file"),
    [
        ({"main": "./lib/main.js"}, "lib/main.js"),
        ({"exports": {"./server": {"import": "./s.js"}, ".": "./none.js"}}, "s.js"),
        ({"exports": "./e.js"}, "e.js"),
        ({"exports": {".": {"types": "./x.d.ts", "default": "./d.js"}}}, "d.js"),
        ({}, "index.js"),
    ],
)
async def test_a_folder_is_loaded_by_its_package_json(
    house: Machine, write: Write, package: dict[str, object], file: str
) -> None:
    write(json.dumps({"name": "x", "type": "module", **package}), "package.json", "own")
    write(f"export const P = {BANG}", Path(file).name, str(Path("own") / Path(file).parent))
    house.settings(plugin=[str(house.folder / "own")])
    assert await answer(house) == "hello!"


BAD = {
    "throw new Error('at load')": "at load",
    "export const P = async () => { throw new Error('in its function') }": "in its function",
    "export const P = async () => {}; export const version = '1.0'": "Plugin export is not a function",
    "export default { id: 'x' }": "no `server` that is a function",
    "export default { id: 'x', server: async () => {}, tui: async () => {} }": "`server` and `tui`: one of them",
    "export default { server: async () => {} }": "must export id",
    "export const P = async () => ({ tool: { t: { description: 'x' } } })": "the tool t has no function `execute`",
    "export const P = async () => ({ timeout: -1 })": "expected seconds above 0",
    "const x = ;": "Unexpected",
    "import 'no-such-package-anywhere'; export const P = async () => {}": "no-such-package-anywhere",
    "process.exit(1)": "it called process.exit(1)",
    "process.kill(process.pid, 'SIGKILL'); await new Promise(() => {})": "it was ended by SIGKILL",
    "export const P = () => new Promise(() => {})": "it did not return within 3 s",
    "await new Promise(() => {})": "it did not return within",
    "": "it exports no plugin",
}


@pytest.mark.slow
@pytest.mark.parametrize("source", BAD, ids=BAD)
async def test_a_plugin_that_does_not_load_is_one_line_and_the_others_work(
    house: Machine, write: Write, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "did not return" in BAD[source]:
        # Its neighbours are held to the same times.
        monkeypatch.setattr("instar.jshost.host.PATIENCE", 3)
        monkeypatch.setattr("instar.jshost.host._LOADING", 6)
    write(f"export const P = {BANG}", "a.js")
    bad = write(source, "b.js")
    write(f"export const P = {BANG}", "c.js")
    house.says(HELLO)
    door = await house.open()
    (notice,) = door.runtime.notices
    assert notice.startswith(f"plugin {bad} is skipped: ")
    assert BAD[source] in notice
    assert "\n" not in notice
    assert said(await door.ask(await door.session(), "hi")) == "hello!!"


LEAVING = """
import { spawn } from "node:child_process"
import { appendFileSync, existsSync, writeFileSync } from "node:fs"
const tick = () => appendFileSync("ticks", ".")
tick()
setInterval(tick, 20)
const left = spawn("sleep", ["600"])
writeFileSync("left", String(left.pid))
export const P = async () => { WAY }
"""
WAYS = {
    "throw new Error('no')": "no",
    "return { timeout: -1 }": "'timeout' is -1",
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
async def test_a_plugin_that_is_skipped_leaves_no_timer_and_no_child(
    house: Machine, write: Write, way: str
) -> None:
    write(f"export const P = {BANG}", "a.js")
    write(LEAVING.replace("WAY", way), "b.js")
    house.says(HELLO)
    door = await house.open()
    (notice,) = door.runtime.notices
    assert WAYS[way] in notice
    pid = int((house.folder / "left").read_text())
    ticks = (house.folder / "ticks").stat().st_size
    assert not Path(f"/proc/{pid}").exists()
    assert said(await door.ask(await door.session(), "hi")) == "hello!"
    assert (house.folder / "ticks").stat().st_size == ticks


NEEDING = "import { Glob } from 'bun'; export const P = async () => {}"


@pytest.mark.slow
async def test_what_needs_bun_is_skipped_where_the_person_wants_none(
    house: Machine, write: Write, tmp_path: Path
) -> None:
    asked = []

    async def refuse(step: str) -> bool:
        asked.append(step)
        return False

    path = write(NEEDING)
    house.environment["PATH"] = str(programs(tmp_path, "node"))  # type: ignore[index]
    options = Options(house.folder, house.environment, {"model": "scripted/x"}, confirm=refuse)
    async with await Runtime.open(options) as runtime:
        (notice,) = runtime.notices
    assert asked == ["the plugin mine needs bun: install bun@1.4.5 from npm (100 MB)"]
    assert notice.startswith(f"plugin {path} is skipped: ")
    assert "it needs bun, so install bun" in notice


async def test_without_npm_what_needs_bun_says_so(house: Machine, write: Write, tmp_path: Path) -> None:
    house.environment["PATH"] = str(programs(tmp_path, "node"))  # type: ignore[index]
    path = write(NEEDING)
    (notice,) = (await house.open()).runtime.notices
    assert notice.startswith(f"plugin {path} is skipped: bun@1.4.5 is an npm package, and there is no npm")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (None, "there is neither bun nor node on PATH"),
        ("echo v18.2.0", "node has version 18: install bun, or node 20 or newer"),
        ("exit 1", "node has no version"),
    ],
)
async def test_without_a_program_that_runs_it_javascript_is_one_line_and_python_plugins_work(
    house: Machine, write: Write, tmp_path: Path, program: str | None, reason: str
) -> None:
    there = programs(tmp_path)
    if program is not None:
        (there / "node").write_text(f"#!/bin/sh\n{program}\n")
        (there / "node").chmod(0o755)
    house.environment["PATH"] = str(there)  # type: ignore[index]
    path = write(f"export const P = {BANG}")
    house.plugin("""
        async def p(i, o):
            async def c(given, output):
                output.text += "?"
            return {"text.complete": c}
    """)
    house.says(HELLO)
    door = await house.open()
    (notice,) = door.runtime.notices
    assert notice.startswith(f"plugin {path} is skipped: ")
    assert reason in notice
    assert said(await door.ask(await door.session(), "hi")) == "hello?"


async def test_a_module_finds_require_as_under_bun(house: Machine, write: Write) -> None:
    write("""
        const { basename } = require("node:path")
        export const P = async () => ({ "text.complete": async (i, o) => { o.text = basename("/a/found") } })
    """)
    house.says("== turn\ntext: hello\n")
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "found"


async def test_an_untrusted_projects_javascript_never_runs_and_is_named(house: Machine, write: Write) -> None:
    file = write(
        "import { writeFileSync } from 'node:fs'; writeFileSync('/tmp/never', ''); export const P = async () => {}"
    )
    (house.folder / "opencode.json").write_text('{"plugin": ["./x.js", "some-package@1"]}')
    write(f"export const P = {BANG}", "x.js", ".")
    environment = {**house.environment, "INSTAR_TRUST": ""}
    house.says(HELLO)
    async with await Runtime.open(Options(house.folder, environment, {"model": "scripted/x"})) as runtime:
        assert not runtime.instance.plugins.names
        left = f"{file} was left out: an untrusted project may not run code"
        assert left in runtime.untrusted
        assert any("opencode.json: plugin was left out" in one for one in runtime.untrusted)


@pytest.mark.slow
def test_without_a_javascript_plugin_nothing_of_the_host_is_loaded(
    clean_environment: Mapping[str, str],
) -> None:
    code = """
import asyncio, sys
from pathlib import Path
from instar.runtime import Options, Runtime
import os
async def main():
    async with await Runtime.open(Options(Path.cwd(), os.environ, {"model": "scripted/x"})) as runtime:
        print([name for name in sys.modules if "jshost" in name], runtime.instance.plugins.names)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**clean_environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=clean_environment["HOME"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[] []\n"
