"""No event is a promise only: each type is heard by a client of a session, or says why it is never sent."""

import ast
import asyncio
import json
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from instar.event import TYPES, Event, EventType
from instar.event.renamed import RENAMED, Renamed
from instar.plugin import CommandBody
from instar.runtime import Options, Runtime
from instar.terminal import TerminalRequest
from instar.testing import TIMEOUT, Machine, RuntimeUnderTest

pytest_plugins = ["tests.turn"]

DOCUMENT = json.loads((Path(__file__).parents[1] / "data" / "opencode-schemas.json").read_text())
OF_A_STREAM = {
    *("server.connected", "server.heartbeat", "global.disposed"),
    *("tui.prompt.append", "tui.command.execute", "tui.toast.show", "tui.session.select"),
    "instar.trust.changed",
}
"""Sent by a server, or where not all is trusted: `tests/server/test_{stream,settings,tui,accepted}.py` hear them."""
OWN = {
    *("plugin.error", "session.limit", "evolve.installed", "evolve.refused", "evolve.rolledback"),
    *("hooks.armed", "hooks.ran", "instance.reloaded", "instar.trust.changed", "self.modified"),
    "instar.hook.waiting",
}
"""Types of our own, without a schema of opencode's."""
SCRIPT = """
    == turn
    text: I look.
    tool: bash {"command": "echo hi"}
    tool: self {"action": "modify", "key": "mine", "value": 1}
    tool: write {"filePath": "a.txt", "content": "new"}
    tool: todowrite {"todos": [{"content": "c", "status": "pending", "priority": "high"}]}
    tool: question {"questions": [QUESTION]}
    tool: question {"questions": [QUESTION]}

    == turn
    text: done

    == when "break"
    error: 400 no such model

    == when "evolve" once
    tool: evolve_hook_write {"hook": "a.sh"}
    arg: content <<END
    #!/bin/sh
    echo '[]'
    END
    tool: evolve_hook_write {"hook": "a.sh"}
    arg: content <<END
    #!/bin/sh
    if test -e FLAG; then exit 3; fi
    END

    == when "Installed hooks/a.sh" once
    tool: bash {"command": "touch FLAG; echo the flag is set"}
    tool: bash {"command": "echo the flag is set"}
    tool: bash {"command": "echo the flag is set"}

    == when "the flag is set" once
    text: over
""".replace(
    "QUESTION", '{"question": "Which?", "header": "h", "options": [{"label": "x", "description": "d"}]}'
)
ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "instar"
PAGE = (ROOT / "docs" / "reference" / "events.md").read_text("utf-8").splitlines()


@cache
def made() -> dict[str, list[str]]:
    """Where each class is called outside of the event room, by the class's name."""
    found: dict[str, list[str]] = {}
    wanted = {declared.properties.__name__ for declared in TYPES.values()}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text("utf-8")
        if path.parent.name == "event" or not any(name in text for name in wanted):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                name = (
                    node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                )
                found.setdefault(name, []).append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("declared", TYPES.values(), ids=lambda one: one.name)
def test_a_declared_type_is_published_or_says_why_it_never_is(declared: EventType) -> None:
    publishers = made().get(declared.properties.__name__, [])
    if declared.never is None:
        assert publishers, f"{declared.name} is declared, and nobody publishes it"
    else:
        assert not publishers, f"{declared.name} is said to be never sent, and is made in {publishers}"


@pytest.mark.parametrize("declared", TYPES.values(), ids=lambda one: one.name)
def test_a_type_stands_in_the_docs_as_the_code_has_it(declared: EventType) -> None:
    when = declared.properties.__doc__ if declared.never is None else f"Never sent: {declared.never}."
    assert f"| `{declared.name}` | {fields(declared.properties)} | {one_line(when)} |" in PAGE


@pytest.mark.parametrize("older", RENAMED, ids=lambda one: one.name)
def test_a_renamed_type_stands_in_the_docs_as_the_code_has_it(older: Renamed) -> None:
    today = f"`{older.today}`" if older.today else "–"
    when = older.means if older.never is None else f"Never sent: {older.never}."
    assert f"| `{older.name}` | {today} | {fields(older.properties)} | {when} |" in PAGE


def test_the_docs_name_no_type_that_is_not_there() -> None:
    rows = [row[1] for row in (re.match(r"\| `([\w.]+)` \|", line) for line in PAGE) if row]
    assert rows == [*TYPES, *(older.name for older in RENAMED)]


def fields(kind: type) -> str:
    return ", ".join(f"`{field.encode_name}`" for field in msgspec.structs.fields(kind)) or "–"


def one_line(text: str | None) -> str:
    return " ".join((text or "").split())


@pytest.mark.slow
async def test_one_day_of_work_publishes_every_type_in_the_documents_form(house: Machine) -> None:
    for line in ("init -q -b main", "-c user.name=t -c user.email=t@t commit -qm first --allow-empty"):
        subprocess.run(["git", *line.split()], cwd=house.folder, check=True)
    house.says(SCRIPT.replace("FLAG", str(house.folder.parent / "workspace" / "state" / "flag")))
    # Events are the same where nothing can be confined.
    house.settings(
        permission={"bash": "ask"},
        agent={"plan": {"steps": 1}},
        evolve={"unsafe": True},
        tools={"self_evolution": True},
        # It ends at once, which is told.
        lsp={"none": {"command": ["false"]}},
        hooks={"SessionStart": [{"hooks": [{"command": "sleep 2.1"}]}]},
    )
    door = await opened(house, workspace(house.folder.parent / "workspace"))
    door.runtime.watch()
    await a_talk(door)
    await files_and_branches(door, house.folder)
    await a_script_that_fails_on_probation(door)
    await a_limit_a_failing_plugin_and_a_failing_model(door)
    await a_terminal(door)
    await door.runtime.close()
    never = {name for name, declared in TYPES.items() if declared.never}
    assert set(TYPES) - set(door.types()) == never | OF_A_STREAM
    assert [fault for event in door.heard for fault in faults(event)] == []


def workspace(root: Path) -> Path:
    """A workspace of one script that knows no hook."""
    (root / "hooks").mkdir(parents=True)
    (root / "state").mkdir()
    script = root / "hooks" / "a.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return root


async def opened(house: Machine, workspace: Path) -> RuntimeUnderTest:
    answers = iter([None])

    async def person(asked: Any) -> Any:
        return "once"

    async def questioner(asked: Any) -> Any:
        return next(answers, [["x"]])

    flags = {"model": "scripted/x", "workspace": str(workspace)}
    return RuntimeUnderTest(
        await Runtime.open(Options(house.folder, house.environment, flags, person, questioner))
    )


async def a_talk(door: RuntimeUnderTest) -> None:
    session = await door.session()
    answer = await door.ask(session, "go")
    await door.client.update(session, title="other")
    await door.client.command(session, CommandBody(command="init", arguments=""))
    await door.client.summarize(session)
    await door.client.revert(session)
    await door.client.unrevert(session)
    await door.client.remove(session, answer.info.id, answer.parts[0].id)
    await door.client.remove(session, answer.info.id)
    await door.client.delete(session)


async def a_script_that_fails_on_probation(door: RuntimeUnderTest) -> None:
    session = await door.session()
    await door.ask(session, "evolve")
    (told,) = door.of("evolve.rolledback")
    assert told.files == ["hooks/a.sh"]


async def files_and_branches(door: RuntimeUnderTest, folder: Path) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not door.of("file.watcher.updated"):
            (folder / "b.txt").write_text(str(len(door.heard)))
            await asyncio.sleep(0.05)
    subprocess.run(["git", "checkout", "-q", "-b", "other"], cwd=folder, check=True)
    await door.until(lambda event: event.type == "vcs.branch.updated")
    (folder / "AGENTS.md").write_text("Be kind.")
    await door.until(lambda event: event.type == "instance.reloaded")


async def a_limit_a_failing_plugin_and_a_failing_model(door: RuntimeUnderTest) -> None:
    async def fail(given: Any, output: Any) -> None:
        raise RuntimeError("no luck")

    door.plugin({"text.complete": fail})
    await door.ask(await door.session(), "go", agent="plan")
    await door.ask(await door.session(), "break")


async def a_terminal(door: RuntimeUnderTest) -> None:
    made = await door.runtime.terminals.create(TerminalRequest(command="true"), lasting=True)
    door.runtime.terminals.update(made.id, "named", None)
    await door.until(lambda event: event.type == "pty.exited")
    await door.runtime.terminals.remove(made.id)


def faults(event: Event) -> list[str]:
    if event.type in OWN:
        return []
    schema = {
        "$ref": f"#/components/schemas/{DOCUMENT['events'][event.type]}",
        "components": DOCUMENT["components"],
    }
    found = Draft202012Validator(schema).iter_errors(json.loads(json.dumps(event.to_plain())))
    return [f"{event.type} {fault.json_path}: {fault.message}" for fault in found]
