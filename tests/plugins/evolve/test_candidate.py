"""Candidates: tried in a copy, refused with reasons, the workspace untouched."""

import os
from pathlib import Path

import pytest

from instar.plugins.evolve import candidate, discovery, script
from instar.plugins.evolve.workspace import Workspace

LIVE = discovery.Registration("hello.py", "hello", "hello_test.py")
BOT = """\
#!/bin/sh
case "$1" in
discover) echo '{"name": "bot", "test": "bot_test.sh", "tools": []}';;
*) printf '{"error": "unknown hook: %s"}\\n' "$1"; exit 1;;
esac
"""


@pytest.fixture
def bot(kit, root):
    """A workspace of one shell script whose test prints its environment; quick to start."""
    kit.script(root / "hooks", "bot.sh", BOT)
    kit.script(
        root / "tests",
        "bot_test.sh",
        "#!/bin/sh\npwd; env; test -x hooks/bot.sh && grep -q discover hooks/bot.sh\n",
    )
    return root


async def check(
    processes, root: Path, file: str, content: str, live=None, timeout: float = 10.0, **environment: str
):
    given = {"PATH": os.environ["PATH"], **environment}
    place = script.Place(root, script.environment(given, root), timeout)
    return await candidate.check(processes, Workspace(root), candidate.Candidate(file, content, live), place)


async def refusal(kit, processes, root: Path, file: str, content: str, **fields) -> str:
    """The refusal's text; nothing in the workspace may have changed."""
    before = kit.files(root)
    with pytest.raises(candidate.Refused) as error:
        await check(processes, root, file, content, **fields)
    assert kit.files(root) == before
    return str(error.value)


async def test_a_candidate_that_passes_gives_its_registration_and_the_tests_output(kit, processes, hello):
    before = kit.files(hello)
    text = (hello / "hooks" / "hello.py").read_text().replace("def note_list", "def note_names")
    said = await refusal(kit, processes, hello, "hello.py", text, live=LIVE)
    assert "its test tests/hello_test.py failed: exit code 1" in said
    assert "note_list" in said
    good = (hello / "hooks" / "hello.py").read_text().replace("There are no notes yet.", "No notes.")
    verdict = await check(processes, hello, "hello.py", good, LIVE)
    assert [tool.full for tool in verdict.registration.tools] == [
        "hello_note_list",
        "hello_note_read",
        "hello_note_write",
    ]
    assert verdict.test_output is not None
    assert "OK" in verdict.test_output
    assert kit.files(hello) == before


async def test_a_syntax_error_is_refused_with_what_the_interpreter_said(kit, processes, hello):
    said = await refusal(
        kit, processes, hello, "hello.py", "#!/usr/bin/env python3\ndef broken(:\n", live=LIVE
    )
    assert "does not answer discover" in said
    assert "SyntaxError" in said
    assert "def broken(:" in said


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ('{"name": "other", "test": "bot_test.sh"}', "must keep the name 'bot'"),
        ('{"name": "bot"}', "must keep the test 'bot_test.sh'"),
        ('{"name": "bot", "test": "other.sh"}', "must keep the test 'bot_test.sh'"),
        (
            '{"name": "bot", "test": "bot_test.sh", "tools": [{"name": "t", "parameters": {"a": {"type": "x"}}}]}',
            "unknown type 'x'",
        ),
        ("[]", "should be a JSON object, not a list"),
    ],
)
async def test_a_candidate_keeps_its_name_and_test_and_registers_well_formed_tools(
    kit, processes, bot, answer, says
):
    live = discovery.Registration("bot.sh", "bot", "bot_test.sh")
    text = f"#!/bin/sh\necho '{answer}'\n"
    assert says in await refusal(kit, processes, bot, "bot.sh", text, live=live)


async def test_a_missing_test_and_one_without_its_run_bit_are_refused_and_say_what_to_do(kit, processes, bot):
    (bot / "tests" / "bot_test.sh").chmod(0o644)
    assert "missing its run bit: chmod +x tests/bot_test.sh" in await refusal(
        kit, processes, bot, "bot.sh", BOT
    )
    (bot / "tests" / "bot_test.sh").unlink()
    assert "tests/bot_test.sh is missing" in await refusal(kit, processes, bot, "bot.sh", BOT)


async def test_a_test_that_hangs_is_ended_and_the_candidate_refused(kit, processes, bot):
    kit.script(bot / "tests", "bot_test.sh", "#!/bin/sh\nsleep 60\n")
    assert "longer than hook_timeout (300 ms)" in await refusal(
        kit, processes, bot, "bot.sh", BOT, timeout=0.3
    )


async def test_of_a_long_test_output_the_end_is_kept(kit, processes, bot):
    kit.script(
        bot / "tests",
        "bot_test.sh",
        "#!/bin/sh\nhead -c 50000 /dev/zero | tr '\\0' x; echo the end; exit 1\n",
    )
    said = await refusal(kit, processes, bot, "bot.sh", BOT)
    assert said.endswith("the end\n")
    assert len(said) < candidate.SHOWN + 300


async def test_without_a_registered_test_only_discover_is_tried(processes, bot, tmp_path):
    ran = tmp_path / "ran"
    (bot / "tests" / "bot_test.sh").write_text(f"#!/bin/sh\ntouch {ran}\n")
    verdict = await check(processes, bot, "bot.sh", '#!/bin/sh\necho \'{"name": "bot"}\'\n')
    assert verdict.test_output is None
    assert not ran.exists()


async def test_the_test_runs_in_the_copy_without_the_persons_keys(processes, bot):
    verdict = await check(
        processes, bot, "bot.sh", BOT, OPENAI_API_KEY="key", GH_TOKEN="t", SOME_SETTING="s", LANG="C.UTF-8"
    )
    printed = (verdict.test_output or "").splitlines()
    folder = Path(printed[0])
    said = dict(line.split("=", 1) for line in printed[1:] if "=" in line)
    assert folder.name == "workspace"
    assert folder != bot
    assert not folder.exists()
    assert said["INSTAR_WORKSPACE"] == said["OPENCODE_EVOLVE_WORKSPACE"] == str(folder)
    assert said["HOME"] == str(folder.parent)
    assert said["TMPDIR"] == str(folder.parent / "tmp")
    assert said["LANG"] == "C.UTF-8"
    assert said.keys() & {"OPENAI_API_KEY", "GH_TOKEN", "SOME_SETTING"} == set()


async def test_a_candidate_that_writes_in_its_workspace_writes_in_the_copy(kit, processes, bot):
    (bot / "state.txt").write_text("before")
    text = BOT.replace("case", "echo broken >state.txt; echo x >hooks/new.sh; case", 1)
    before = kit.files(bot)
    await check(processes, bot, "bot.sh", text)
    assert kit.files(bot) == before


async def test_what_a_test_made_read_only_is_removed_too(processes, bot, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    (bot / "tests" / "bot_test.sh").write_text(
        "#!/bin/sh\nmkdir d && touch d/f && chmod -R a-w d && chmod 0 d\n"
    )
    await check(processes, bot, "bot.sh", BOT)
    assert list((tmp_path / "t").iterdir()) == []


async def test_a_candidates_discover_is_given_the_prompts_as_every_hook_is(processes, bot):
    (bot / "prompts").mkdir()
    (bot / "prompts" / "chat.md").write_text("Be kind.")
    assert await check(processes, bot, "bot.sh", """#!/bin/sh\ngrep -q '"chat":"Be kind."'\n""")
