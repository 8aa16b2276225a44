"""The timeline, and one change in full: real git, a real chronicle."""

import subprocess

import msgspec
import pytest

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.history import timeline
from instar.plugins.evolve.history.audit_log import AuditEntry, AuditLog
from instar.plugins.evolve.history.repository import NoSuchChange, Revisions
from instar.plugins.evolve.history.trailers import Trailers, write

HOUR = 3_600_000
START = 1_700_000_000_000


class Bench:
    """A workspace with a history whose clock the test sets."""

    def __init__(self, kit, root, processes, data):
        self.kit, self.root, self.data = kit, root, data
        self.audit_log = AuditLog(Database(data))
        self.revisions = Revisions(processes, root)
        kit.git(root, "init", "--quiet")

    def commit(self, hour, message, *args, **files):
        """Write `files` of ``hooks/`` and commit them; the commit's id."""
        for name, text in files.items():
            (self.root / "hooks" / name).write_text(text)
        moment = f"{(START + hour * HOUR) // 1000} +0000"
        env = {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
        self.kit.git(self.root, "add", "--all")
        argv = ["env", *(f"{name}={value}" for name, value in env.items()), "git", "commit", "-q", *args]
        subprocess.run([*argv, "--allow-empty", "-F", "-"], cwd=self.root, input=message.encode(), check=True)
        return self.kit.git(self.root, "rev-parse", "HEAD").strip()

    def add(self, hour, kind, **fields):
        return self.audit_log.add(AuditEntry(kind=kind, time=START + hour * HOUR, **fields))

    async def newest(self, limit=50):
        return await timeline.page(self.revisions, self.audit_log, timeline.TimelinePage(limit))

    async def show(self, ref, **fields):
        return await timeline.show(self.revisions, self.audit_log, ref, **fields)


@pytest.fixture
def bench(kit, root, processes, tmp_path):
    return Bench(kit, root, processes, tmp_path / "data")


AGENT = Trailers(
    session="ses_1", call="call_1", agent="build", epoch=1, gate=["test passed 1.2 s"], cost=1300
)


async def test_commits_and_the_chronicle_are_one_line_of_time_newest_first(bench):
    initial = bench.commit(0, "initial", **{"bot.py": "1"})
    bench.add(1, "refused", by="agent", files=["hooks/bot.py"], stage="test", text="exit code 1", cost=300)
    made = bench.commit(2, write("evolve_hook_edit bot.py", AGENT), **{"bot.py": "2"})
    bench.add(3, "frozen", by="person", text="holiday")
    edited = bench.commit(4, "my own\n\nedit", **{"bot.py": "3", "new one.py": "x"})
    found = await bench.newest()
    assert found.problems == []
    assert [(one.kind, one.by, one.commit) for one in found.changes] == [
        ("changed", "person", edited),
        ("frozen", "person", ""),
        ("changed", "agent", made),
        ("refused", "agent", ""),
        ("changed", "person", initial),
    ]
    own, frozen, change, refused, _ = found.changes
    assert (own.files, own.author, own.tool) == (["hooks/bot.py", "hooks/new one.py"], "Ada", "")
    assert frozen.text == "holiday"
    assert (change.tool, change.session, change.call, change.agent) == (
        "evolve_hook_edit", "ses_1", "call_1", "build",
    )  # fmt: skip
    assert (change.epoch, change.gate, change.cost, change.time) == (1, AGENT.gate, 1300, START + 2 * HOUR)
    assert (refused.stage, refused.cost) == ("test", 300)
    assert [one.kind for one in (await bench.newest(2)).changes] == ["changed", "frozen"]


async def test_what_the_chronicle_says_of_a_commit_is_told_with_it(bench):
    first = bench.commit(0, "initial")
    made = bench.commit(1, "accepted what stands", **{"bot.py": "1"})
    bench.add(1, "accepted", by="person", commit=made[:9], epoch=7, text="my own edit")
    bench.add(2, "installed", commit="0" * 40, text="of a commit that is gone")
    bench.add(3, "approved", by="person", commit=made)
    found = (await bench.newest()).changes
    assert [(one.kind, one.commit) for one in found] == [
        ("approved", made), ("installed", "0" * 40), ("accepted", made), ("changed", first),
    ]  # fmt: skip
    assert (found[2].epoch, found[2].by, found[2].text) == (7, "person", "my own edit")


async def test_a_clock_that_went_back_does_not_reorder_the_history(bench):
    ids = [bench.commit(hour, f"c{hour}") for hour in (5, 1, 3)]
    bench.add(4, "frozen")
    assert [one.commit for one in (await bench.newest()).changes if one.commit] == ids[::-1]


async def test_a_workspace_without_commits_or_repository_still_tells_its_chronicle(
    bench, kit, processes, tmp_path
):
    bench.add(1, "frozen")
    found = await bench.newest()
    assert ([one.kind for one in found.changes], found.problems) == (["frozen"], [])
    bare = tmp_path / "bare"
    bare.mkdir()
    kit.git(tmp_path, "init", "--quiet")  # a repository around it is not its own
    found = await timeline.page(Revisions(processes, bare), bench.audit_log, timeline.TimelinePage(9))
    assert [one.kind for one in found.changes] == ["frozen"]
    assert "not a git repository" in found.problems[0]


async def test_damaged_lines_of_the_chronicle_are_said(bench):
    bench.commit(0, "initial")
    bench.add(1, "frozen")
    damage = "INSERT INTO audit VALUES (NULL, CAST('{' AS BLOB))"
    Database(bench.data).change(lambda connection: connection.execute(damage))
    found = await bench.newest()
    assert found.problems == ["left out of the chronicle: 1 damaged line"]
    assert found.text().startswith("problem: left out of the chronicle: 1 damaged")


async def test_commits_without_files_and_hostile_names_are_read_one_by_one(bench):
    bench.commit(0, "e1")
    bench.commit(1, "e2")
    bench.commit(2, "files", **{"\nx": "1", "b\x1b[2J": "2"})
    bench.commit(3, "", "--allow-empty-message")
    found = await bench.newest()
    assert [one.files for one in found.changes] == [[], ["hooks/\nx", "hooks/b\x1b[2J"], [], []]
    assert [one.subject for one in found.changes] == ["", "files", "e2", "e1"]
    assert "\x1b" not in found.text()
    assert len(found.text().split("\n")) == 4


async def test_the_text_has_a_line_a_change_and_what_is_known_below(bench):
    made = bench.commit(0, write("evolve_hook_edit bot.py", AGENT), **{"bot.py": "2"})
    bench.add(1, "refused", by="agent", files=["hooks/bot.py"], stage="test", text="exit code 1\nsecond line")
    lines = (await bench.newest()).text().split("\n")
    assert lines[0].startswith("-        2023-11-1")
    assert lines[0].endswith("agent   refused: hooks/bot.py")
    assert [line.strip() for line in lines[1:3]] == ["stage: test", "text: exit code 1 second line"]
    assert lines[3].startswith(f"{made[:7]}  2023-11-1")
    assert lines[3].endswith("agent   @1 evolve_hook_edit bot.py")
    assert [line.strip() for line in lines[4:]] == [
        "session ses_1, call call_1, agent build", "gate: test passed 1.2 s (1300 ms in all)",
    ]  # fmt: skip


async def test_it_can_be_printed_as_json(bench):
    bench.commit(0, write("tool", AGENT), **{"bot.py": "2"})
    bench.add(1, "thawed")
    found = await bench.newest()
    again = msgspec.json.decode(msgspec.json.encode(found), type=timeline.Timeline)
    assert again == found
    assert (await bench.show("HEAD")).change == found.changes[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ref", "subject"),
    [
        ("HEAD", "c3"),
        ("HEAD~2", "c1"),
        ("HEAD^", "c2"),
        ("@1", "c1"),
        ("@2", "c3"),
        ("initial", "c0"),
        ("ID", "c1"),
    ],
)
async def test_a_change_is_named_by_its_id_its_place_or_its_epoch(bench, ref, subject):
    bench.commit(0, "c0")
    one = bench.commit(1, write("c1", Trailers(epoch=1)), **{"bot.py": "1"})
    bench.commit(2, "c2\n\nEpoch: 2\n\nis only text here")
    bench.commit(3, write("c3", Trailers(epoch=2)))
    shown = await bench.show(one[:6] if ref == "ID" else ref)
    assert shown.change.subject == subject


@pytest.mark.parametrize(
    "ref",
    [
        "",
        "@9",
        "@",
        "main",
        "--all",
        "-p",
        "HEAD..HEAD~1",
        "HEAD~99",
        "ffffffff",
        "HEAD:hooks",
        "HEAD\n",
        ":/c",
        "\0",
    ],
)
async def test_what_names_no_change_is_said_so(bench, ref):
    bench.commit(0, "c0")
    with pytest.raises(
        NoSuchChange, match=r"names no change of .* name the start of a commit's id, HEAD, HEAD~2, an epoch"
    ):
        await bench.show(ref)


async def test_of_a_workspace_without_commits_nothing_can_be_named(bench):
    for ref in ("HEAD", "initial", "@1", "abcdef"):
        with pytest.raises(NoSuchChange):
            await bench.show(ref)


async def test_a_change_is_shown_with_its_files_diff_trailers_and_events(bench):
    bench.commit(0, "initial", **{"bot.py": "1\n"})
    made = bench.commit(1, write("evolve_hook_edit bot.py", AGENT), **{"bot.py": "2\n", "é.py": "x\x1b[2J\n"})
    bench.add(1, "installed", by="agent", commit=made, epoch=1, session="ses_1", call="call_1", text="warm")
    bench.add(0, "refused", by="agent", stage="test", session="ses_1", call="call_1", text="first try")
    bench.add(
        1, "refused", by="agent", stage="test", session="ses_2", call="call_1", text="of another session"
    )
    back = bench.commit(
        2, write("rolled back", Trailers(rolls_back=made[:9], by="instar")), **{"bot.py": "1\n"}
    )
    shown = await bench.show("@1")
    assert (shown.change.kind, shown.change.text, shown.change.rolled_back_by) == (
        "installed",
        "warm",
        [back],
    )
    assert [one.text for one in shown.events] == ["first try"]
    assert shown.change.files == ["hooks/bot.py", "hooks/é.py"]
    assert "-1\n+2\n" in shown.diff
    text = shown.text()
    assert "\x1b" not in text
    for line in (
        "gate: test passed 1.2 s (1300 ms in all)",
        f"rolled back by: {back}",
        "file: hooks/é.py",
        "+2",
        "+x[2J",
    ):
        assert line in text.split("\n")
    rolled = (await bench.show("HEAD")).change
    assert (rolled.kind, rolled.by, rolled.rolls_back) == ("rolled back", "instar", made[:9])


async def test_a_diff_is_bounded_and_large_files_are_left_out_of_it(bench):
    bench.commit(0, "many", a="line\n" * 1000)
    shown = await bench.show("HEAD", longest=200)
    assert len(shown.diff) == 200
    assert shown.cut > 4000
    assert f"... {shown.cut} more characters: git show {shown.change.commit}" in shown.diff_text()
    bench.commit(1, "large", b="x" * (2 << 20))
    assert "Binary files /dev/null and b/hooks/b differ" in (await bench.show("HEAD")).diff


async def test_nothing_that_the_repository_configures_runs_for_a_diff(bench, tmp_path):
    mark = tmp_path / "ran"
    (bench.root / ".gitattributes").write_text("* diff=evil\n")
    bench.commit(0, "initial", **{"bot.py": "1\n"})
    bench.commit(1, "edit", **{"bot.py": "2\n"})
    for key in ("diff.evil.command", "diff.evil.textconv", "diff.external", "core.pager"):
        bench.kit.git(bench.root, "config", key, f"touch {mark}; cat")
    assert "-1\n+2\n" in (await bench.show("HEAD")).diff
    await bench.newest()
    await bench.revisions.blame("hooks/bot.py", 1)
    assert not mark.exists()


async def test_of_a_merge_what_it_brought_is_shown(bench):
    bench.commit(0, "initial", **{"bot.py": "1\n"})
    bench.kit.git(bench.root, "checkout", "-q", "-b", "side")
    bench.commit(1, "side", **{"side.py": "1\n"})
    bench.kit.git(bench.root, "checkout", "-q", "main")
    bench.commit(2, "main", **{"main.py": "1\n"})
    bench.kit.git(bench.root, "merge", "-q", "side", "-m", "merged")
    shown = await bench.show("HEAD")
    assert (shown.change.files, "+++ b/hooks/side.py" in shown.diff) == (["hooks/side.py"], True)
    line = [one.subject for one in await bench.revisions.line(shown.change.commit)]
    assert line == ["initial", "main", "merged"]
