"""The child that runs JavaScript: what ends it, what it may ask of instar, and that a new one takes its place."""

import asyncio
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.server.conftest import PASSWORD, Served
from tests.waiting import until, wait_until

import instar.jshost
from instar.plugin.shell import LogLines
from instar.testing import Machine, results, said

Write = Callable[..., Path]

PEER = Path(instar.jshost.__file__).parent / "host" / "peer.mjs"
HELLO = "== turn\ntext: hello\n"
ECHO = '== turn\ntool: bash {"command": "echo hi"}\n== turn\ntext: {{tool}}\n'
FRAME = """
import { existsSync, writeFileSync, writeSync } from "node:fs"
const socket = Number(process.argv[2])
const send = (text) => {
  const head = Buffer.alloc(4)
  head.writeUInt32BE(Buffer.byteLength(text))
  writeSync(socket, Buffer.concat([head, Buffer.from(text)]))
}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "reason"),
    [
        ("writeSync(socket, Buffer.from([255, 255, 255, 255]))", "a frame of 4294967295 bytes is longer"),
        ("send('{')", "it sent nonsense"),
        ("send('[1]')", "it sent nonsense"),
        ("send('7')", "it sent nonsense"),
        ("send('{}')", "it sent nonsense"),
        ('send(\'{"id": [], "result": 1}\')', "it sent nonsense"),
        ('send(\'{"method": "cancel"}\')', "it sent nonsense"),
        ('send(\'{"id": NUMBER, "error": 7}\')', "it sent nonsense"),
        ('send(\'{"id": NUMBER, "error": {"message": 1, "data": [1]}}\')', "it sent nonsense"),
    ],
)
async def test_a_child_that_breaks_its_connection_is_ended_its_gate_closes_and_a_new_one_comes_up(
    house: Machine, write: Write, work: str, reason: str
) -> None:
    house.says(ECHO + ECHO)
    write(
        FRAME
        + """
        export const P = async ({ directory }) => ({ "tool.execute.before": async () => {
          if (existsSync(directory + "/once")) return
          writeFileSync(directory + "/once", "")
          // Among them is that of the request that this hook answers.
          for (let number = 1; number < 30; number++) WORK
          await new Promise(() => {})
        } })
    """.replace("WORK", work)
    )
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hi")
    await door.ask(session, "hi")
    refused, echoed = results(await door.stored(session))
    assert "the JavaScript host is gone: " in refused
    assert reason in refused
    assert echoed == "hi\n"


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"method": "package", "params": {"name": "left-pad"}}, "left-pad is not offered to plugins"),
        ({"method": "evil", "params": {}}, "there is no method evil"),
        ({"method": ["x"], "params": 7}, "method"),
        ({"method": "ask", "params": {"call": 99, "permission": "bash"}}, "the call is over"),
    ],
)
async def test_what_the_child_may_not_ask_is_refused_and_ends_nothing(
    house: Machine, write: Write, asked: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "instar.jshost")
    house.says(HELLO)
    frame = json.dumps(json.dumps({"jsonrpc": "2.0", "id": 99, **asked}))
    write(
        FRAME
        + f"send({frame}); export const P = async () => ({{ 'text.complete': async (i, o) => {{ o.text += '!' }} }})"
    )
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "hello!"
    await until(
        lambda: [line for line in caplog.messages if line.startswith("refused method=") and reason in line]
    )


async def test_what_a_plugin_starts_does_not_read_the_connection(house: Machine, write: Write) -> None:
    write("""
        import { execFileSync } from "node:child_process"
        const read = String(execFileSync("cat", { stdio: ["inherit", "pipe", "inherit"] }))
        export const P = async () => ({ "text.complete": async (i, o) => { o.text += `[${read}]` } })
    """)
    house.says(HELLO)
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "hello[]"


async def test_a_line_that_does_not_end_is_cut(
    house: Machine, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "instar.jshost")
    write("process.stdout.write('x'.repeat(100_000) + '\\n'); export const P = async () => {}")
    await house.open()
    (line,) = await until(lambda: [one for one in caplog.messages if "printed line=xxx" in one])
    assert line.count("x") == 4_000
    tracemalloc.start()
    try:
        lines = LogLines(lambda line: None)
        for _ in range(40):
            lines.take(b"x" * 1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


async def test_a_runtime_that_says_nothing_is_one_line(
    house: Machine, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.jshost.host._LOADING", 0.5)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "node").write_text("#!/bin/sh\nexec sleep 600\n")
    (programs / "node").chmod(0o755)
    house.environment["PATH"] = f"{programs}:{house.environment['PATH']}"  # type: ignore[index]
    write("export const P = async () => {}")
    door = await house.open()
    (notice,) = door.runtime.notices
    assert notice.endswith("is skipped: it did not return within 0.5 s and was ended")


@pytest.mark.slow
async def test_bun_is_taken_before_node(house: Machine, write: Write, tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    # It takes one flag; node takes its place.
    (programs / "bun").write_text(
        f'#!/bin/sh\ntouch {house.folder}/bun\nshift\nexec {shutil.which("node")} "$@"\n'
    )
    (programs / "bun").chmod(0o755)
    house.environment["PATH"] = f"{house.environment['PATH']}:{programs}"  # type: ignore[index]
    write("export const P = async () => ({ 'text.complete': async (i, o) => { o.text += '!' } })")
    house.says(HELLO)
    door = await house.open()
    assert said(await door.ask(await door.session(), "hi")) == "hello!"
    assert (house.folder / "bun").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ("throw new Error('not twice')", "not twice"),
        ("await new Promise(() => {})", "it did not return within"),
    ],
)
async def test_one_that_does_not_load_again_is_named_and_the_others_work(
    house: Machine, write: Write, second: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.says(HELLO + HELLO)
    write("""
        import { existsSync, writeFileSync } from "node:fs"
        if (existsSync("once")) { SECOND }
        writeFileSync("once", "")
        export const P = async () => ({ "text.complete": async () => process.kill(process.pid, "SIGKILL") })
    """.replace("SECOND", second), "a.js")  # fmt: skip
    write("export const Q = async () => ({ 'text.complete': async (i, o) => { o.text += '!' } })", "b.js")
    door = await house.open()
    if "Promise" in second:
        monkeypatch.setattr("instar.jshost.host._LOADING", 6)
    session = await door.session()
    assert said(await door.ask(session, "hi")) == "hello!"
    assert said(await door.ask(session, "hi")) == "hello!"
    killed, broken = (one.message for one in door.of("plugin.error"))
    assert "it was ended by SIGKILL" in killed
    assert broken.startswith("it could not be loaded again: ")
    assert reason in broken


@pytest.mark.slow
async def test_a_child_that_starts_slowly_takes_no_plugins_time(
    house: Machine, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    house.settings(plugin_timeouts={"observer": 1})
    house.says(HELLO + HELLO + HELLO)
    write("""
        import { existsSync, writeFileSync } from "node:fs"
        if (existsSync("once")) {
          await new Promise((done) => setTimeout(done, 2_500))
          writeFileSync("loaded", "")
        }
        writeFileSync("once", "")
        export const P = async () => ({ "chat.params": async () => {
          if (existsSync("twice")) return
          writeFileSync("twice", "")
          process.kill(process.pid, "SIGKILL")
        } })
    """, "a.js")  # fmt: skip
    write("export const Q = async () => ({ 'text.complete': async (i, o) => { o.text += '!' } })", "b.js")
    door = await house.open()
    session = await door.session()
    await door.start(session, "hi")
    await until(lambda: "is started again" in caplog.text)
    await asyncio.sleep(0.5)
    # It is half started: the turn that waits for it is ended, the start is not.
    await door.client.abort(session)
    assert said(await door.ask(session, "hi")) == "hello!"
    (killed,) = door.of("plugin.error")
    assert "SIGKILL" in killed.message


async def test_the_end_of_the_instance_starts_no_child_to_tell_it(
    house: Machine, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "instar.jshost")
    write("""
        export const P = async () => ({
          "text.complete": async () => process.kill(process.pid, "SIGKILL"),
          dispose: async () => {},
        })
    """)
    door = await house.open()
    house.says(HELLO)
    (host,) = [one.host for one in door.runtime.instance.plugins.loaded]
    assert said(await door.ask(await door.session(), "hi")) == "hello"
    await until(lambda: not host.is_up)
    await door.runtime.close()
    assert "is started again" not in caplog.text
    assert len(door.of("plugin.error")) == 1


async def test_a_child_that_closes_its_socket_is_ended(
    house: Machine, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instar.jshost.host._ENDING", 0.1)
    # Where a shield stands between, that holds the socket too.
    house.settings(shield={"level": "none"})
    house.says(ECHO)
    write("""
        import { closeSync } from "node:fs"
        export const P = async () => ({ "tool.execute.before": async () => {
          setInterval(() => {}, 1000)
          closeSync(Number(process.argv[2]))
          await new Promise(() => {})
        } })
    """)
    door = await house.open()
    session = await door.session()
    await door.ask(session, "hi")
    (refused,) = results(await door.stored(session))
    assert "the JavaScript host is gone: it closed its socket" in refused


@pytest.mark.slow
@pytest.mark.parametrize("level", ["auto", "none"])
def test_the_child_of_an_instar_that_is_killed_ends(house: Machine, write: Write, level: str) -> None:
    house.settings(shield={"level": level})
    write("""
        import { createServer } from "node:net"
        import { writeFileSync } from "node:fs"
        // It would go on for ever.
        const server = createServer((connection) => connection.end())
        await new Promise((done) => server.listen(0, "127.0.0.1", done))
        writeFileSync("port", String(server.address().port))
        export const P = async () => {}
    """)
    house.says(HELLO)
    served = Served([], house.folder, {**house.environment, "INSTAR_SERVER_PASSWORD": PASSWORD})
    try:
        served.session()
        port = int((house.folder / "port").read_text())
        socket.create_connection(("127.0.0.1", port)).close()
    finally:
        served.stop(signal.SIGKILL)

    def is_gone() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionError:
            return True
        return False

    wait_until(is_gone)


def _node(source: str) -> str:
    done = subprocess.run(
        [
            "node",
            "--input-type=module",
            "-e",
            f"import {{ Peer }} from {json.dumps(PEER.as_uri())}\n{source}",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
    )
    return done.stdout


def test_the_childs_end_takes_frames_in_any_pieces_and_none_that_is_too_long() -> None:
    said = _node("""
        const written = []
        let take
        const write = (frame) => written.push(JSON.parse(frame.subarray(4)))
        const socket = { on: (_, listener) => { take = listener }, write }
        const peer = new Peer(socket, { echo: ({ text }) => text, big: () => 10n })
        const frame = (message) => {
          const body = Buffer.from(JSON.stringify(message))
          const head = Buffer.alloc(4)
          head.writeUInt32BE(body.length)
          return Buffer.concat([head, body])
        }
        const all = Buffer.concat([
          frame({ id: 1, method: "echo", params: { text: "ä€" } }),
          frame({ id: 2, method: "none", params: {} }),
          frame({ id: 3, method: "big", params: {} }),
          frame({ id: 77, result: "nobody asked" }),
          frame({ method: "cancel", params: { id: 5 } }),
        ])
        for (let at = 0; at < all.length; at++) take(all.subarray(at, at + 1))
        const more = (id, text) => frame({ id, method: "echo", params: { text } })
        take(Buffer.concat([more(4, "b"), more(5, "c")]))
        await new Promise((done) => setImmediate(done))
        const told = written.map(({ id, result, error }) => [id, result ?? error.message]).sort(([a], [b]) => a - b)
        let refused
        try { take(Buffer.from([255, 255, 255, 255])) } catch (error) { refused = error.message }
        console.log(JSON.stringify([told, refused]))
    """)
    told, refused = json.loads(said)
    assert told == [
        [1, "ä€"],
        [2, "there is no method none"],
        [3, "Do not know how to serialize a BigInt"],
        [4, "b"],
        [5, "c"],
    ]
    assert refused == "a frame of 4294967295 bytes is longer than 268435456"
