"""What scripts reach: a person's own behind the shield, the agent's in the sandbox; who raises it."""

import logging
import re
import socket
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.plugins.evolve.living import Living, bot, discover, living, workspace

from instar.message import Rule
from instar.plugins.evolve.candidate import CandidateRefused
from instar.plugins.evolve.gate.pending import NotPending
from instar.plugins.evolve.install import ChangeCause, NotChanged
from instar.settings.paths import Paths

LEVELS = ("bubblewrap", "landlock")
PERSON = ChangeCause(by="person")


def probe(comment: str = "", **more: Any) -> str:
    """Return a script whose one tool does what it is told and says how that went."""
    said = {
        "name": "bot",
        "tools": [{"name": "do", "parameters": {"what": "x", "where": "y"}}],
        **more,
    }
    text = f"""\
    #!/usr/bin/env python3
    # {comment}
    import json, os, socket, sys
    SAID = json.loads({msgspec.json.encode(said).decode()!r})

    def connect(where):
        socket.create_connection(("127.0.0.1", int(where)), 2).close()
        return "connected"

    def write(where):
        os.makedirs(os.path.dirname(where) or ".", exist_ok=True)
        with open(where, "w") as file:
            file.write("written")
        return "written"

    def read(where):
        with open(where) as file:
            return file.read()

    def env(where):
        return os.environ.get(where, "not set")

    given = json.loads(sys.stdin.read() or "{{}}")
    if sys.argv[1] == "discover":
        print(json.dumps(SAID))
    elif sys.argv[1] == "execute_tool":
        try:
            print(json.dumps({{"result": globals()[given["args"]["what"]](given["args"]["where"])}}))
        except (OSError, ValueError) as error:
            print(json.dumps({{"error": "failed: " + str(error)}}))
    else:
        print(json.dumps({{"error": "unknown hook: " + sys.argv[1]}}))
        sys.exit(1)
    """
    return textwrap.dedent(text)


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine on which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


async def waits(live: Living, content: str, file: str = "bot.sh", **more: Any) -> str:
    """Propose a script that must wait for a person; return what the model reads."""
    said = await live.refused(content, file, **more)
    assert "It waits for a person as" in said
    return said


async def wait_id(live: Living) -> str:
    (entry,) = [one for one in live.engine.storage.pending.list().entries if one.state == "waiting"]
    return entry.id


# -- what is enforced -----------------------------------------------------------------------------------


WRITTEN_BY_PERSON = (
    *("hooks/more.py", "prompts/chat.md", "tests/bot_test.sh", "config/evolve.jsonc"),
    ".git/HEAD",
)
"""What no script writes."""


@pytest.fixture
def home(tmp_path) -> Path:
    """The person's home with a key, instar's own keys in it, and a file that a shell starts with."""
    made = tmp_path / "home"
    (made / ".ssh").mkdir(parents=True)
    (made / ".ssh" / "id_rsa").write_text("the person's key")
    (made / ".bashrc").write_text("")
    own = Paths.from_environment({"HOME": str(made)}).data / "auth.json"
    own.parent.mkdir(parents=True)
    own.write_text("instar's key")
    return made


async def cannot(live: Living, what: str, *where: Path | str) -> None:
    """Have the probe try it on each; it must fail."""
    for one in where:
        assert "failed" in await live.said("bot_do", what=what, where=str(one)), (what, one)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
async def test_a_persons_own_script_runs_behind_the_shield(root, home, level, port):
    workspace(root, probe())
    async with living(root, level=level) as live:
        await cannot(live, "read", home / ".local/share/instar/auth.json")
        await cannot(live, "write", *WRITTEN_BY_PERSON)
        assert await live.said("bot_do", what="read", where=str(home / ".ssh/id_rsa")) == "the person's key"
        # None of them was there, and at the level landlock no script could make one.
        for where in ("traits/a.md", "notes/a.md", "state/a.json"):
            assert await live.said("bot_do", what="write", where=where) == "written"
        assert await live.said("bot_do", what="connect", where=str(port)) == "connected"
    assert (root / "notes" / "a.md").read_text() == "written"


async def test_a_setting_lets_a_persons_own_script_run_as_they_do(root, home):
    workspace(root, probe())
    async with living(root, config={"own_scripts": "free"}) as live:
        own = home / ".local/share/instar/auth.json"
        assert await live.said("bot_do", what="read", where=str(own)) == "instar's key"
        await live.write(probe("by the agent"))
        await cannot(live, "read", own)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
async def test_the_agents_first_version_reaches_its_folders_and_nothing_else_of_the_person(
    root, home, level, port
):
    workspace(root, probe())
    async with living(root, level=level) as live:
        await live.write(probe("by the agent"))
        await cannot(live, "read", home / ".ssh/id_rsa", home / ".local/share/instar/auth.json")
        await cannot(live, "write", *WRITTEN_BY_PERSON, "log.md", "lib/x.py")
        await live.said("bot_do", what="write", where=str(home / ".bashrc"))
        await cannot(live, "connect", port)
        for where in ("traits/a.md", "notes/a.md", "state/a.json"):
            assert await live.said("bot_do", what="write", where=where) == "written"
    assert (home / ".bashrc").read_text() == ""
    assert (root / "notes" / "a.md").read_text() == "written"


def denials(**rules: str) -> list[Rule]:
    return [Rule(permission=name, pattern="*", action=action) for name, action in rules.items()]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
async def test_what_the_session_denies_is_denied_to_the_agents_scripts_whatever_they_were_granted(
    root, home, level, port
):
    workspace(root, probe())
    program = home / ".nvm" / "node"
    program.parent.mkdir()
    program.write_text("node")
    (root / "plan.txt").write_text("secret")
    (root / "open.txt").write_text("open")
    async with living(root, level=level) as live:
        await waits(live, probe(sandbox={"network": True, "write": ["log", "notes"]}))
        await live.engine.evolution.approve(await wait_id(live), "ada")
        await live.step()
        assert await live.said("bot_do", what="connect", where=str(port)) == "connected"
        assert await live.said("bot_do", what="write", where="log/a") == "written"
        assert await live.said("bot_do", what="read", where="plan.txt") == "secret"
        assert await live.said("bot_do", what="read", where=str(program)) == "node"
        live.client.permissions = [
            *denials(edit="deny", webfetch="deny"),
            Rule(permission="read", pattern="plan*", action="deny"),
            Rule(permission="external_directory", pattern=f"{home}/.nvm/*", action="deny"),
        ]
        await cannot(live, "connect", port)
        await cannot(live, "write", "log/b")
        await cannot(live, "read", "plan.txt", program)
        assert await live.said("bot_do", what="read", where="open.txt") == "open"
        assert await live.said("bot_do", what="write", where="notes/b") == "written"


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
async def test_a_persons_script_imports_nothing_of_the_folder_that_the_model_can_write(root, level):
    imports = """python3 -c 'import json, sys; print(json.dumps({"result": "hello"}))'"""
    workspace(root, bot(execute_tool=imports))
    (root / "json.py").write_text("raise SystemExit('taken over')")
    async with living(root, level=level) as live:
        assert await live.said("bot_greet") == "hello"


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
async def test_a_manifest_is_enforced_no_network_and_only_its_folders(root, level, port):
    workspace(root, probe())
    async with living(root, level=level) as live:
        await live.write(probe(sandbox={"network": False, "write": ["state"]}))
        assert "failed" in await live.said("bot_do", what="connect", where=str(port))
        assert await live.said("bot_do", what="write", where="state/a") == "written"
        assert (root / "state" / "a").read_text() == "written"
        for where in ("notes/a.md", "hooks/bot.sh", "a.md"):
            assert "failed" in await live.said("bot_do", what="write", where=where), where
        assert "failed" in await live.said(
            "bot_do", what="read", where=str(root.parent / "home" / ".gitconfig")
        )
        assert live.subjects() == ["bot_do", "evolve_hook_write bot.sh", "initial"]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
async def test_the_limits_of_a_manifest_hold_the_live_version(root, level):
    said = """[ -e slow ] && sleep 60; echo "{\\"result\\": \\"$(ulimit -t) $(ulimit -v)\\"}\""""
    limits = {"cpu": 7, "memory": 1 << 30, "seconds": 4}
    workspace(root)
    async with living(root, level=level) as live:
        await live.write(bot(discover=discover(sandbox={"limits": limits}), execute_tool=said))
        assert await live.said("bot_greet") == "7 1048576"
        (root / "slow").write_text("")
        assert "took longer than hook_timeout (4000 ms)" in await live.said("bot_greet")


@pytest.mark.slow
async def test_variables_that_look_like_secrets_are_given_by_the_persons_settings_alone(root):
    workspace(root, probe())
    given = {"A_TOKEN": "aaaaaaaa", "B_TOKEN": "bbbbbbbb"}
    async with living(root, config={"env": ["A_TOKEN"]}, **given) as live:
        for content in (None, probe("by the agent")):
            if content:
                await live.write(content)
            assert await live.said("bot_do", what="env", where="A_TOKEN") == "aaaaaaaa"
            assert await live.said("bot_do", what="env", where="B_TOKEN") == "not set"
        # A manifest holds it to what it names itself.
        await live.write(probe(sandbox={}))
        assert await live.said("bot_do", what="env", where="A_TOKEN") == "not set"
        said = await waits(live, probe(sandbox={"env": ["B_TOKEN"]}))
        assert "it would be given the variables B_TOKEN" in said
        await live.engine.evolution.approve(await wait_id(live), "ada")
        assert await live.said("bot_do", what="env", where="B_TOKEN") == "bbbbbbbb"


@pytest.mark.slow
async def test_a_script_that_never_left_its_manifest_may_grow_inside_it(root):
    workspace(root, probe())
    async with living(root) as live:
        await live.write(probe(sandbox={"write": ["state"]}))
        tools = [{"name": "do", "parameters": {"what": "x", "where": "y"}}, {"name": "more"}]
        said = await live.write(probe(sandbox={"write": ["state/a"]}, tools=tools))
        assert "New tools, from the next step on: bot_more" in said
        assert live.engine.storage.pending.list().entries == []


# -- what raises waits ----------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_candidate_that_drops_its_manifest_waits_for_a_person_and_is_installed_by_their_word(root):
    workspace(root)
    held, free = bot(discover=discover(sandbox={"write": ["state"]})), bot("# free")
    async with living(root) as live:
        await live.write(held)
        said = await waits(live, free)
        assert "it would write notes, traits in the workspace (granted: state)" in said
        assert re.search(r"instar evolve approve [0-9a-f]{8}", said)
        (event,) = live.events("refused")
        assert (event.stage, event.file) == ("authority", "hooks/bot.sh")
        (entry,) = live.engine.storage.pending.list().entries
        asked = entry.proposal
        assert (asked.content, asked.cause.session, asked.cause.tool) == (free, "ses_1", "evolve_hook_write")
        assert "+# free" in asked.diff
        installed = await live.engine.evolution.approve(entry.id, "ada")
        assert (root / "hooks" / "bot.sh").read_text() == free
        assert installed.epoch == live.engine.storage.ledger.epoch
        assert live.engine.storage.pending.list().entries == []
        (approved,) = live.audit_log("approved")
        assert (approved.by, "ada" in approved.text) == ("person", True)
        await live.write(bot("# free, and another"))  # what was granted stays granted


@pytest.mark.slow
async def test_a_rejected_candidate_is_answered_at_once_when_it_comes_again(root):
    workspace(root)
    async with living(root) as live:
        await live.write(bot(discover=discover(sandbox={})))
        await waits(live, bot())
        first = await wait_id(live)
        await live.engine.evolution.reject(first, "ada", "no")
        said = await live.refused(bot())
        assert f"a person has rejected just this ({first})" in said
        assert len(live.events("refused")) == 1
        with pytest.raises(NotPending, match="nothing waits"):
            await live.engine.evolution.approve("00000000", "ada")


@pytest.mark.slow
async def test_the_same_candidate_waits_once_however_often_it_is_proposed(root):
    workspace(root)
    async with living(root) as live:
        await live.write(bot(discover=discover(sandbox={})))
        assert await waits(live, bot()) == await waits(live, bot())
        assert len(live.engine.storage.pending.list().entries) == 1


@pytest.mark.slow
async def test_what_waits_is_not_approved_over_another_version_than_it_was_judged_against(root):
    workspace(root)
    async with living(root) as live:
        await live.write(bot(discover=discover(sandbox={})))
        await waits(live, bot())
        entry = await wait_id(live)
        await live.write(bot("# other", discover=discover(sandbox={})))
        with pytest.raises(NotPending, match="out of date"):
            await live.engine.evolution.approve(entry, "ada")
        assert "# other" in (root / "hooks" / "bot.sh").read_text()


@pytest.mark.slow
async def test_an_approved_candidate_is_judged_once_more(root):
    workspace(root)
    async with living(root) as live:
        await live.write(bot(discover=discover(sandbox={})))
        await waits(live, bot())
        test = root / "tests" / "bot_test.sh"
        test.write_text("#!/bin/sh\nexit 9\n")
        await live.engine.rollback.accept(["tests/bot_test.sh"])
        with pytest.raises(CandidateRefused, match="exit code 9"):
            await live.engine.evolution.approve(await wait_id(live), "ada")
        assert "sandbox" in (root / "hooks" / "bot.sh").read_text()


@pytest.mark.slow
async def test_what_would_reach_something_else_by_now_than_a_person_was_shown_is_not_approved(root):
    workspace(root)
    held = bot(discover=discover(sandbox={}))
    async with living(root) as live:
        await live.write(held)
        await waits(live, bot())
        values = live.values
    async with living(root, values=values, config={"unsafe": True}, level="none") as live:
        entry = await wait_id(live)
        with pytest.raises(NotChanged, match=r"something else now than was approved: .*runs unbounded"):
            await live.engine.evolution.approve(entry, "ada")
        assert (root / "hooks" / "bot.sh").read_text() == held
        assert await wait_id(live) == entry


ASKING = [{"name": "greet", "parameters": {"who": "x"}, "permission": {"arg": "who"}}]
PLAIN = [{"name": "greet", "parameters": {"who": "x"}}]
OTHER = [{"name": "wave"}]


async def test_a_tool_that_would_no_longer_ask_about_its_argument_waits(root):
    workspace(root, bot(discover=discover(tools=ASKING)))
    async with living(root) as live:
        said = await waits(live, bot(discover=discover(tools=PLAIN)))
        assert "its tool bot_greet would run without asking a person first (so far it asks about who)" in said


@pytest.mark.slow
async def test_a_tool_that_went_away_and_comes_back_asking_nothing_waits_too(root):
    workspace(root, bot(discover=discover(tools=ASKING)))
    async with living(root) as live:
        await live.write(bot(discover=discover(tools=OTHER)))
        said = await waits(live, bot(discover=discover(tools=[*OTHER, *PLAIN])))
        assert "its tool bot_greet would run without asking a person first (so far it asks about who)" in said
        await live.write(bot(discover=discover(tools=[*OTHER, *ASKING])))


@pytest.mark.slow
async def test_authority_does_not_rise_by_a_restart_nor_by_a_rollback(root):
    workspace(root)
    held = bot(discover=discover(sandbox={}))
    async with living(root) as live:
        await live.write(held)
    async with living(root, values=live.values) as again:
        await waits(again, bot())
        await again.write(held + "# more\n")
        await again.engine.rollback.roll_back("", PERSON)
        assert (root / "hooks" / "bot.sh").read_text() == held
        await waits(again, bot("# free"))


# -- actions --------------------------------------------------------------------------------------------

SENDS = """echo '{"result": "ok", "actions": [{"type": "send", "to": "x"}, {"type": "create_session"}]}'"""
SENDS_ONE = """echo '{"result": "ok", "actions": [{"type": "send", "to": "x"}]}'"""


@pytest.mark.slow
async def test_actions_that_a_script_was_not_granted_are_dropped_from_its_answers_and_the_log_says_so(
    root, caplog
):
    caplog.set_level(logging.WARNING, "instar.evolve")
    workspace(root)
    async with living(root) as live:
        await live.write(bot(execute_tool=SENDS))
        result = await live.call("bot_greet")
        assert result.output == "ok"
        assert not result.metadata.get("actions")
        assert any("script=bot.sh actions=refused granted=none" in line for line in caplog.messages)


@pytest.mark.slow
async def test_a_successor_keeps_the_actions_that_its_persons_script_was_seen_to_use(root):
    workspace(root, bot(execute_tool=SENDS_ONE))
    async with living(root) as live:
        assert (await live.call("bot_greet")).metadata["actions"]
        await live.write(bot("# by the agent", execute_tool=SENDS_ONE))
        assert [one["type"] for one in (await live.call("bot_greet")).metadata["actions"]] == ["send"]
        said = await waits(live, bot(execute_tool=SENDS))
        assert "it would use the actions create_session" in said


# -- who may say so -------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_nothing_that_the_model_can_reach_holds_what_waits_or_was_granted(root):
    workspace(root, probe())
    async with living(root) as live:
        await live.write(probe("agent"))
        await live.write(probe(sandbox={"write": ["state"]}))
        await waits(live, probe())
        storage = live.engine.storage
        assert not storage.folder.is_relative_to(root)
        shown = set(storage.shown)
        kept = [
            path for path in storage.folder.rglob("*") if path.is_file() and not shown & set(path.parents)
        ]
        assert storage.database.path in kept
        await live.engine.evolution.approve(await wait_id(live), "ada")
        for path in kept:
            if path.exists():
                assert "failed" in await live.said("bot_do", what="read", where=str(path)), path
                # What it writes below a /tmp of its own is gone with it.
                await live.said("bot_do", what="write", where=str(path))
                assert path.read_bytes() != b"written"


@pytest.mark.slow
async def test_a_damaged_book_of_grants_holds_every_script_behind_the_shield(root):
    workspace(root, probe())
    async with living(root) as live:
        await live.write(probe("agent"))
        damage = ("UPDATE granted SET value = ?", (b"{",))
        live.engine.storage.database.change(lambda connection: connection.execute(*damage))
        assert "failed" in await live.said("bot_do", what="write", where="hooks/x.py")
        said = await live.refused(probe("more"))
        assert "what scripts were granted cannot be read" in said
        assert str(live.engine.storage.database.path) in said
