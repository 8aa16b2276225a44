"""Hook scripts started plainly and warm: the protocol is the same, and a setting chooses."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import pytest
from tests.plugins.evolve.living import living

from instar.plugin import points
from instar.plugins.evolve import script, settings
from instar.plugins.evolve.workspace import VARIABLES

LINE = f"#!{os.path.realpath(sys.executable)}\n"
PARENT = """import json, sys
print(json.dumps({'result': open('/proc/self/stat').read().rsplit(')', 1)[1].split()[1]}))
"""
HOOKS = {
    "discover": {},
    "mutate_request": {"session": {"id": "s"}, "history": []},
    "observe_message": {"session": {"id": "s"}, "thinking": "", "calls": [], "answer": "x"},
    "idle": {"session": {"id": "s"}, "answer": "To be continued."},
    "compacting": {"session": {"id": "s"}, "history": [{"role": "user", "parts": []}]},
    "recover": {"error": "e", "failed_hook": "idle"},
    "execute_tool": {"tool": "note_list", "args": {}},
    "tool_after": {"session": {"id": "s"}, "tool": "t", "callID": "c", "title": "t", "output": "o"},
    "no_such_hook": {},
}
ODD = {
    "raises": "raise ValueError('boom')",
    "exits with a text": "import sys; sys.exit('gone')",
    "prints a list": "print([1])",
    "logs": 'import sys\nprint(\'{"log": "said"}\\n{"a": 1}\')\nprint(\'x\', file=sys.stderr)',
    "prints bytes": 'import sys; sys.stdout.buffer.write(b\'{"a": "\\xff"}\')',
    "kills itself": "import os; print('{}', flush=True); os.kill(os.getpid(), 9)",
    "does not read": "print('{\"a\": 1}')",
    "says unknown": "import sys; print('unknown hook: idle', file=sys.stderr); sys.exit(1)",
}


def place(root: Path, warm: bool) -> script.ScriptEnvironment:
    return script.ScriptEnvironment(
        root, {"PATH": os.environ["PATH"], **dict.fromkeys(VARIABLES, str(root))}, 10.0, warm
    )


async def heat(kit, processes, root: Path) -> None:
    """Call until an interpreter is warm."""
    path = kit.script(root, "parent.py", LINE + PARENT)
    end = time.monotonic() + 20
    while (await script.call(processes, path, "idle", {}, place(root, True)))["result"] == str(os.getpid()):
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def outcome(
    processes, path: Path, hook: str, fields, where: script.ScriptEnvironment, caplog
) -> object:
    """What a call gave, said and logged, without how long it took."""
    caplog.clear()
    try:
        answer = await script.call(processes, path, hook, fields, where)
    except script.UnknownHook as error:
        return str(error)
    except script.ScriptFailure as error:
        return error.why, error.printed
    return answer, [record.getMessage() for record in caplog.records if " ms=" not in record.getMessage()]


@pytest.mark.slow
async def test_the_example_answers_every_hook_the_same_both_ways(kit, processes, hello, caplog):
    caplog.set_level("INFO", "instar.evolve")
    path = hello / "hooks" / "hello.py"
    path.write_text(LINE + path.read_text().partition("\n")[2])
    await heat(kit, processes, hello)
    for hook, fields in HOOKS.items():
        plain, warm = [
            await outcome(processes, path, hook, fields, place(hello, way), caplog) for way in (False, True)
        ]
        assert warm == plain


@pytest.mark.slow
async def test_odd_scripts_fail_or_answer_the_same_both_ways(kit, processes, root, caplog):
    caplog.set_level("INFO", "instar.evolve")
    await heat(kit, processes, root)
    for text in (*ODD.values(), kit.SEED_MINIMAL.partition("\n")[2]):
        path = kit.script(root / "hooks", "odd.py", LINE + text)
        plain, warm = [
            await outcome(processes, path, "idle", {"answer": "hi"}, place(root, way), caplog)
            for way in (False, True)
        ]
        assert warm == plain


@pytest.mark.slow
@pytest.mark.parametrize("spawn", ["warm", "plain"])
async def test_the_setting_says_whether_scripts_are_run_warm(kit, root, spawn):
    said = json.dumps({"name": "p", "tools": [{"name": "parent", "description": "Says its parent."}]})
    kit.script(
        root / "hooks",
        "p.py",
        f"{LINE}import sys\nif sys.argv[1] == 'discover': print({said!r}); sys.exit()\n{PARENT}",
    )
    async with living(root, config={"own_scripts": "free"}, EVOLVE_SPAWN=spawn) as live:
        asked = [await live.said("p_parent") for _ in range(3)]
        end = time.monotonic() + 20
        while spawn == "warm" and asked[-1] == str(os.getpid()):
            assert time.monotonic() < end
            asked.append(await live.said("p_parent"))
        if spawn == "plain":
            assert set(asked) == {str(os.getpid())}


def test_a_way_that_there_is_not_is_a_mistake_with_its_place(tmp_path):
    path = tmp_path / "evolve.jsonc"
    path.write_text('{\n  "spawn": "fork"\n}')
    with pytest.raises(
        settings.SettingsError, match=r'evolve\.jsonc:2:12: spawn: expected one of warm, plain, found "fork"'
    ):
        settings.load(path, {})


@pytest.mark.slow
async def test_a_history_is_the_same_for_every_script(kit, start, root):
    for name in ("a.sh", "b.sh"):
        kit.shell(root, name, compacting='{"prompt": "x"}')
    running = await start(root)
    running.client.session.history = [kit.user("hellö \U0001f389")]
    given = points.CompactingInput(session_id="ses_1")
    await running.hooks["experimental.session.compacting"](
        given, points.CompactingOutput(context=[], prompt=None)
    )
    first, second = (kit.calls(root, name, "compacting")[0]["history"] for name in ("a.sh", "b.sh"))
    assert first == second
    assert first[0]["parts"][0]["text"] == "hellö \U0001f389"
