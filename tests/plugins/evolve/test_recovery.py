"""What happens when a hook script fails."""

from pathlib import Path

import pytest

from instar.plugin import ToolFailure

MANAGED = '{"system": ["%s"]}'


FAILING = """\
#!/bin/sh
cat >>"{calls}/$1"
case "$1" in
discover) echo '{{"tools": [{{"name": "t"}}]}}';;
recover) echo '{{"system": ["emergency"], "user": "mend it"}}';;
*) echo sorry >&2; exit 3;;
esac
"""


@pytest.fixture
def failing(kit, root, tmp_path) -> Path:
    """A script that fails at everything but `recover`, beside one that works."""
    (tmp_path / "calls").mkdir()
    kit.script(root / "hooks", "a.sh", FAILING.format(calls=tmp_path / "calls"))
    kit.shell(root, "b.sh", mutate_request=MANAGED % "works", idle="{}")
    return tmp_path / "calls"


@pytest.mark.slow
async def test_recover_speaks_for_its_script_beside_the_others_in_this_step_and_queues_its_message_once(
    kit, start, root, failing
):
    running = await start(root)
    assert await running.system() == ["emergency", "works"]
    assert await running.system() == ["emergency", "works"]
    ((session, body, source),) = running.client.session.follow_ups
    assert (session, source, body.agent) == ("ses_1", "evolve.recover", None)
    assert body.parts == [{"type": "text", "text": "mend it", "synthetic": True}]
    said = (failing / "recover").read_text()
    assert '"failed_hook":"mutate_request"' in said
    assert "a.sh mutate_request: ended with exit code 3" in said
    assert "sorry" in said
    kit.shell(root, "a.sh", mutate_request=MANAGED % "mended")
    await running.accept()
    assert await running.system() == ["mended", "works"]


async def test_a_failing_tool_is_an_error_for_the_model_and_its_emergency_prompt_is_for_the_next_step_only(
    start, root, failing, kit
):
    kit.shell(root, "b.sh", mutate_request="{}")
    (root / "hooks" / "a.sh").write_text(
        (root / "hooks" / "a.sh").read_text().replace("*) echo", "mutate_request) ;;\n*) echo")
    )
    running = await start(root)
    with pytest.raises(
        ToolFailure, match=r"a\.sh execute_tool: ended with exit code 3 after \d+ ms; it printed: sorry"
    ):
        await running.call("a_t")
    assert await running.system() == ["emergency"]
    assert await running.system() == ["base"]
    assert len(running.client.session.follow_ups) == 1


async def test_an_idle_hook_that_fails_queues_recovery_with_the_turns_agent(kit, start, root, failing):
    running = await start(root)
    assert await running.end_turn(kit.answer({"type": "text", "text": "done"})) == []
    ((_, body, _),) = running.client.session.follow_ups
    assert body.agent == "build"


async def test_when_recover_fails_too_recover_md_speaks_and_nothing_recurses(kit, start, root, tmp_path):
    (root / "prompts").mkdir()
    (root / "prompts" / "preamble.md").write_text("who I am")
    (root / "prompts" / "recover.md").write_text("emergency file")
    calls = tmp_path / "count"
    kit.script(root / "hooks", "a.sh", f'#!/bin/sh\necho "$1" >>{calls}\n[ "$1" = discover ] || exit 3\n')
    running = await start(root)
    assert await running.system() == ["who I am", "emergency file"]
    assert running.client.session.follow_ups[0][1].parts[0]["text"] == "emergency file"
    assert calls.read_text().split() == ["discover", "mutate_request", "recover"]


async def test_without_any_recovery_the_session_keeps_its_own_prompt(kit, start, root):
    kit.script(root / "hooks", "a.sh", "#!/bin/sh\nexit 3\n")
    running = await start(root)
    assert await running.system() == ["base"]
    assert running.client.session.follow_ups == []
    assert "a.sh discover: ended with exit code 3" in running.problems[0]


async def test_an_emergency_prompt_for_which_no_step_follows_is_dropped(kit, start, root):
    kit.script(
        root / "hooks",
        "a.sh",
        """\
        #!/bin/sh
        case "$1" in
        idle) exit 3;;
        recover) echo '{"system": ["emergency"]}';;
        esac
        """,
    )
    running = await start(root)
    assert await running.end_turn(kit.answer({"type": "text", "text": "done"})) == []
    assert await running.system() == ["base"]


async def test_after_a_success_the_next_failure_queues_its_message_again(kit, start, root, tmp_path):
    flag = tmp_path / "fail"
    kit.script(
        root / "hooks",
        "a.sh",
        f"""\
        #!/bin/sh
        case "$1" in
        idle) test ! -e {flag};;
        recover) echo '{{"user": "mend it"}}';;
        esac
        """,
    )
    running = await start(root)
    said = kit.answer({"type": "text", "text": "done"})
    for fails, queued in [(True, 1), (True, 1), (False, 1), (True, 2)]:
        flag.touch() if fails else flag.unlink()
        await running.end_turn(said)
        assert len(running.client.session.follow_ups) == queued
