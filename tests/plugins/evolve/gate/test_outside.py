"""What a test loads from outside the guarded folders: the gate tries a candidate with what a person left of it."""

import subprocess

import pytest
from tests.plugins.evolve.living import bot, git, living, script, workspace

LEVELS = ["bubblewrap", pytest.param("landlock", marks=pytest.mark.slow)]
CHECKS = "#!/bin/sh\n. lib/check.sh\ncheck\n"
STRICT = "check() { hooks/bot.sh discover | grep -q greet; }\n"
BLIND = "check() { true; }\n"
BROKEN = bot(discover="""echo '{"name": "bot", "test": "bot_test.sh"}'""")


@pytest.fixture
def root(tmp_path):
    root = workspace(tmp_path / "ws", test=CHECKS)
    script(root / "lib", "check.sh", STRICT, 0o644)
    return root


def commit(root, text):
    """Commit all of it as the person does."""
    git(root, "add", "-A")
    git(root, "-c", "user.name=ada", "-c", "user.email=ada@localhost", "commit", "-qm", text)


@pytest.mark.parametrize("level", LEVELS)
async def test_a_file_that_the_test_loads_and_the_model_rewrote_does_not_let_a_broken_script_in(root, level):
    async with living(root, level=level) as live:
        (root / "lib" / "check.sh").write_text(BLIND)
        said = await live.refused(BROKEN)
        assert "(refused at the stage test)" in said
        assert "It was tried without what nobody accepted: lib/check.sh" in said
        await live.write(bot("# still greets"))


async def test_nor_does_it_once_it_was_committed_with_a_tool_run(root):
    rewrites = f"""printf '{BLIND[:-1]}\\n' >lib/check.sh; echo '{{"result": "done"}}'"""
    script(root / "hooks", "bot.sh", bot(execute_tool=rewrites))
    async with living(root, config={"own_scripts": "free"}) as live:
        await live.said("bot_greet")
        assert git(root, "log", "-1", "--name-only", "--format=").split() == ["lib/check.sh"]
        assert "nobody accepted: lib/check.sh" in await live.refused(BROKEN)
        # A person's own commit accepts it.
        (root / "lib" / "check.sh").write_text(f"# read\n{BLIND}")
        commit(root, "a check that sees nothing")
        await live.write(BROKEN)


async def test_what_git_does_not_know_is_not_there_unless_the_persons_settings_name_it(root):
    script(root / "tests", "bot_test.sh", "#!/bin/sh\n. ./own/check.sh\ncheck\n")
    async with living(root, config={"loads": ["own"]}) as live:
        script(root / "own", "check.sh", BLIND, 0o644)
        await live.write(bot("# one"))
        values = live.values
    async with living(root, values=values) as live:
        said = await live.refused(bot("# two"))
        assert "nobody accepted: own (as a person committed it last, or not there)" in said
        subprocess.run(["rm", "-r", str(root / "own")], check=True)


async def test_the_folders_of_the_scripts_own_are_there_as_they_stand(root):
    script(root / "tests", "bot_test.sh", "#!/bin/sh\ngrep -q kept notes/a.md\n")
    async with living(root) as live:
        script(root / "notes", "a.md", "kept\n", 0o644)
        await live.write(bot("# one"))
