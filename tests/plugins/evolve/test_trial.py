"""Trials: what an unread candidate does where it is tried reaches nothing, at each level of confinement."""

import asyncio
import socket

import pytest
from tests.plugins.evolve.living import bot, discover, living, workspace
from tests.running import having

LEVELS = ("bubblewrap", "landlock")
DISCOVER = discover()


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
async def test_the_stages_pass_and_refuse_at_each_level(root, level):
    workspace(root)
    async with living(root, level=level) as live:
        await live.call("bot_greet")
        for content, stage in (
            (bot(discover="exit 3"), "parse"),
            (bot("# wrong"), "test"),
            (bot(execute_tool="exit 3"), "replay"),
        ):
            assert f"(refused at the stage {stage})" in await live.refused(content)
        await live.write(bot("# better"))
        assert await live.said("bot_greet") == "hello"


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "deed",
    [
        "echo x >>{root}/hooks/bot.sh",
        "echo x >{root}/notes.md",
        "rm -rf {root}/.git",
        "echo x >{home}/.profile",
        "cp /bin/true {root}/tests/bot_test.sh",
        "mv {root}/prompts {root}/gone",
        "ln -sfn /etc hooks; echo x >../outside",
        "git -C {root} commit -q --allow-empty -m x",
    ],
)
async def test_what_a_candidate_changes_where_it_is_tried_stays_there(root, tmp_path, level, deed, kit):
    workspace(root)
    home = tmp_path / "home"
    before = kit.files(home)
    code = deed.format(root=root, home=home)
    async with living(root, level=level) as live:
        said = await live.said(
            "evolve_hook_validate", hook="bot.sh", content=bot(discover=f"({code}) 2>/dev/null\n{DISCOVER}")
        )
        assert "would be" in said
        await live.refused(bot(f"# wrong\n({code}) >/dev/null 2>&1"))
    after = {path: what for path, what in kit.files(home).items() if ".local" not in path}
    assert after == {path: what for path, what in before.items() if ".local" not in path}


@pytest.mark.parametrize("level", LEVELS)
async def test_a_candidate_that_is_tried_has_no_network(root, level):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0)
        code = f"(: >/dev/tcp/127.0.0.1/{listener.getsockname()[1]}) || exit 3\n{DISCOVER}"
        content = bot(discover=code).replace("#!/bin/sh", "#!/bin/bash")
        workspace(root)
        async with living(root, level=level) as live:
            assert "(refused at the stage parse)" in await live.refused(content)
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize("level", LEVELS)
async def test_nothing_that_a_candidate_starts_runs_on(root, level):
    nap = f"47.{abs(hash(str(root))) % 100_000}"
    workspace(root)
    async with living(root, level=level) as live:
        code = f"setsid sleep {nap} >/dev/null 2>&1 </dev/null &\n(sleep {nap} >/dev/null 2>&1 &)\n{DISCOVER}"
        await live.said("evolve_hook_validate", hook="bot.sh", content=bot(discover=code))
        while having(nap):
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_new_version_is_tried_without_the_persons_variables_and_keys(root):
    code = f"""[ -z "$A_TOKEN$ANTHROPIC_API_KEY$SECRET_PLACE" ] || exit 9\n{DISCOVER}"""
    workspace(root)
    given = {"A_TOKEN": "aaaaaaaa", "ANTHROPIC_API_KEY": "sk-aaaaaaaa", "SECRET_PLACE": "x"}
    async with living(root, config={"env": ["A_TOKEN"]}, **given) as live:
        await live.write(bot(discover=code))


@pytest.mark.slow
async def test_without_a_sandbox_the_person_may_say_that_candidates_run_as_them_and_it_is_said_what_that_means(
    root,
):
    workspace(root)
    async with living(root, level="none", config={"unsafe": True}) as live:
        assert "(refused at the stage test)" in await live.refused(bot("# wrong"))
        await live.write(bot(discover=discover(sandbox={"write": ["state"]})))
        held = live.engine.storage.grants.of("bot.sh")
        assert held is not None
        assert held.grant.hold == "unbounded"
        assert await live.said("bot_greet") == "hello"


@pytest.mark.slow
async def test_a_manifest_holds_variables_also_where_no_sandbox_is_enforced(root):
    workspace(root, bot(execute_tool="""printf '{"result": "%s"}\\n' "$A_TOKEN" """))
    async with living(
        root, level="none", config={"unsafe": True, "env": ["A_TOKEN"]}, A_TOKEN="aaaaaaaa"
    ) as live:
        assert await live.said("bot_greet") == "aaaaaaaa"
        text = bot(
            discover=discover(sandbox={}), execute_tool="""printf '{"result": "%s"}\\n' "${A_TOKEN:-none}" """
        )
        await live.write(text)
        assert await live.said("bot_greet") == "none"
