"""The setting `lsp`: what a language server finds in a file reaches the model, people, clients and plugins.

The server is a small real one; tests/clients/test_language_servers.py meets those that people use.
"""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from tests.running import lives
from tests.turn import reload

from instar.testing import Machine, results, until

HEARS = """
    async def hears(input, options):
        async def heard(event):
            if event.type.startswith("lsp."):
                with open(input.directory / "heard.txt", "a") as file:
                    file.write(f"{event.type} {getattr(event.properties, 'path', None)}\\n")

        return {"event": heard}
"""


def entry(toy: Any, mode: str = "well", **more: Any) -> dict[str, Any]:
    return {"toy": {"command": toy.command(mode), "extensions": [".txt"], **more}}


async def test_the_model_reads_the_errors_of_its_file_and_people_see_them(
    machine: Machine, toy, play
) -> None:
    machine.settings(lsp=entry(toy))
    path = machine.folder / "a.txt"
    _, read, metadata = await play(
        machine,
        ("write", {"filePath": "a.txt", "content": "bad bad\n"}),
        ("edit", {"filePath": "a.txt", "oldString": "bad bad", "newString": "good"}),
    )
    assert read == [
        "Wrote file successfully.\n\nLSP errors detected in this file, please fix:\n"
        f'<diagnostics file="{path}">\nERROR [1:5] bad word 0\nERROR [1:5] bad word 1\n</diagnostics>',
        "Edit applied successfully.",
    ]
    found = metadata[0]["diagnostics"][str(path)]
    assert [(one["message"], one["severity"]) for one in found] == [
        ("bad word 0", 1),
        ("bad word 1", 1),
        ("a hint", 4),
    ]
    assert [one["message"] for one in metadata[1]["diagnostics"][str(path)]] == ["a hint"]


@pytest.mark.slow
async def test_one_server_looks_at_all_files_of_a_root_and_is_told_what_it_asks(
    machine: Machine, toy, play
) -> None:
    machine.settings(lsp=entry(toy, initialization={"toy": {"level": 7}}, env={"LEVEL": "7"}))
    runtime, _, _ = await play(
        machine,
        ("write", {"filePath": "a.txt", "content": "one\n"}),
        ("write", {"filePath": "sub/b.txt", "content": "two\n"}),
        ("edit", {"filePath": "a.txt", "oldString": "one", "newString": "three"}),
        ("write", {"filePath": "c.md", "content": "three\n"}),
    )
    assert len({one["pid"] for one in toy.said()}) == 1
    methods = [one["method"] for one in toy.said()]
    assert [one for one in methods if one and one.startswith("textDocument/")] == [
        *("textDocument/didOpen", "textDocument/didSave"),
        *("textDocument/didOpen", "textDocument/didSave"),
        *("textDocument/didChange", "textDocument/didSave"),
    ]
    (greeting,) = toy.said("initialize")
    assert greeting["params"]["rootUri"] == machine.folder.as_uri()
    assert greeting["params"]["initializationOptions"] == {"toy": {"level": 7}}
    answers = {one["id"]: one for one in toy.said() if one["method"] is None}
    assert answers["own"]["result"] == [7, {"toy": {"level": 7}}]
    assert answers["odd"]["error"]["code"] == -32601
    (pid,) = {one["pid"] for one in toy.said()}
    await runtime.runtime.close()
    assert toy.said("exit")
    assert not lives(pid)


async def test_errors_in_other_files_are_told_after_a_write(machine: Machine, toy, play) -> None:
    machine.settings(lsp=entry(toy))
    _, read, _ = await play(
        machine,
        ("write", {"filePath": "a.txt", "content": "bad\n"}),
        ("write", {"filePath": "b.txt", "content": "good\n"}),
    )
    others = (
        f'LSP errors detected in other files:\n<diagnostics file="{machine.folder / "a.txt"}">\nERROR [1:5]'
    )
    assert read[1].startswith(f"Wrote file successfully.\n\n{others} bad word 0")


async def test_of_a_file_with_many_errors_the_model_reads_the_first_ones(machine: Machine, toy, play) -> None:
    machine.settings(lsp=entry(toy))
    _, (read,), _ = await play(machine, ("write", {"filePath": "a.txt", "content": "bad " * 50}))
    assert read.count("ERROR") == 20
    assert read.endswith("... and 30 more\n</diagnostics>")


async def test_plugins_and_clients_hear_of_servers_and_of_what_they_found(
    machine: Machine, toy, play
) -> None:
    machine.settings(lsp=entry(toy))
    machine.plugin(HEARS)
    runtime, _, _ = await play(machine, ("write", {"filePath": "a.txt", "content": "bad\n"}))
    path = str(machine.folder / "a.txt")
    await until(lambda: any(one.path == path for one in runtime.of("lsp.updated")))
    assert {one.server_id for one in runtime.of("lsp.updated") if one.path} == {"toy"}
    heard = machine.folder / "heard.txt"
    await until(lambda: heard.exists() and f"lsp.client.diagnostics {path}" in heard.read_text())
    assert "lsp.updated None\n" in heard.read_text()
    assert "lsp.client.diagnostics" not in runtime.types()


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        ("dies", "it ended with exit code 3: out of memory"),
        ("prints", "it printed what is no message"),
        ("floods", "it sent a message of more than 16 MiB"),
    ],
)
async def test_a_server_that_fails_costs_its_diagnostics_and_one_line(
    machine: Machine, toy, play, caplog: pytest.LogCaptureFixture, mode: str, why: str
) -> None:
    machine.settings(lsp=entry(toy, mode))
    _, read, _ = await play(
        machine,
        ("write", {"filePath": "a.txt", "content": "bad\n"}),
        ("write", {"filePath": "b.txt", "content": "bad\n"}),
    )
    assert read == ["Wrote file successfully."] * 2
    (line,) = [one.message for one in caplog.records if "lsp=lost" in one.message]
    assert why in line
    assert len({one["pid"] for one in toy.said()}) == 1


async def test_a_call_that_is_aborted_while_a_server_looks_ends_at_once_and_the_change_is_told(
    machine: Machine, toy
) -> None:
    machine.settings(lsp=entry(toy, "mute"))
    machine.says('== turn\ntool: write {"filePath": "a.txt", "content": "bad"}\n\n== turn\ntext: done\n')
    runtime = await machine.open()
    session = await runtime.session()
    await runtime.start(session, "go")
    await until(lambda: toy.said("textDocument/didOpen"))
    await asyncio.wait_for(runtime.client.abort(session), 2)
    assert [one.file for one in runtime.of("file.edited")] == [str(machine.folder / "a.txt")]
    assert (machine.folder / "a.txt").read_text() == "bad"


async def test_a_program_that_is_not_there_is_no_server(machine: Machine, play) -> None:
    machine.settings(lsp={"none": {"command": ["/no/such/server"], "extensions": [".txt"]}})
    _, read, _ = await play(machine, ("write", {"filePath": "a.txt", "content": "bad\n"}))
    assert read == ["Wrote file successfully."]


@pytest.mark.slow
async def test_without_the_setting_where_it_is_disabled_or_not_trusted_no_server_starts(
    machines, toy, play
) -> None:
    for settings, trusted in (
        ({}, True),
        ({"lsp": False}, True),
        ({"lsp": entry(toy, disabled=True)}, True),
        ({"lsp": entry(toy)}, False),
    ):
        machine = machines(trusted=trusted)
        machine.settings(**settings)
        await play(machine, ("write", {"filePath": "a.txt", "content": "bad\n"}))
    assert toy.said() == []


@pytest.mark.slow
async def test_a_setting_that_changes_ends_the_server_and_begins_another(machine: Machine, toy, play) -> None:
    machine.settings(lsp=entry(toy))
    runtime, _, _ = await play(machine, ("write", {"filePath": "a.txt", "content": "bad\n"}))
    (pid,) = {one["pid"] for one in toy.said()}
    machine.settings(lsp=entry(toy, extensions=[".md"]))
    await reload(runtime)
    assert not lives(pid)
    machine.says(
        f"== turn\ntool: write {json.dumps({'filePath': 'b.md', 'content': 'bad'})}\n\n== turn\ntext: done\n"
    )
    session = await runtime.session()
    await runtime.ask(session, "go")
    assert "bad word 0" in results(await runtime.stored(session))[0]
    assert len({one["pid"] for one in toy.said()}) == 2
    machine.settings(lsp=False)
    await reload(runtime)
    assert not [one["pid"] for one in toy.said() if lives(one["pid"])]


async def test_a_server_looks_at_the_file_as_it_was_formatted(machine: Machine, toy, play) -> None:
    code = "import sys, pathlib; path = pathlib.Path(sys.argv[1]); path.write_text('tidy\\n')"
    tidy = {"command": [sys.executable, "-c", code, "$FILE"], "extensions": [".txt"]}
    machine.settings(lsp=entry(toy), formatter={"tidy": tidy})
    _, (read,), _ = await play(machine, ("write", {"filePath": "a.txt", "content": "bad\n"}))
    (opened,) = toy.said("textDocument/didOpen")
    assert opened["params"]["textDocument"]["text"] == "tidy\n"
    assert "bad word" not in read


@pytest.mark.slow
@pytest.mark.parametrize("setting", [{}, {"lsp": False, "formatter": False}, {"lsp": True, "formatter": {}}])
def test_the_plugins_are_imported_where_settings_switch_them_on(
    machine: Machine, setting: dict[str, Any]
) -> None:
    machine.settings(**setting)
    machine.says("== turn\ntext: hello\n")
    arguments = ["run", "-m", "scripted/x", "hello"]
    code = f"import sys; from instar.cli import main; main({arguments!r}, lambda code: print(*sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=machine.folder,
        env=machine.environment,
        capture_output=True,
        check=True,
    )
    loaded = [name for name in done.stdout.decode().split() if name.startswith("instar.plugins.files.")]
    assert ("instar.plugins.files.lsp" in loaded) == (setting.get("lsp") is True)
    assert bool(loaded) == (setting.get("lsp") is True)
