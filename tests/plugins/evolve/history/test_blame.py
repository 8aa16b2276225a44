"""Why a line is as it is: from git blame to the message that led to it."""

import msgspec
import pytest

from instar.plugin import NotFound
from instar.plugins.evolve.database import Database
from instar.plugins.evolve.history import blame
from instar.plugins.evolve.history.audit_log import AuditEntry, AuditLog
from instar.plugins.evolve.history.blame import NoLine, SourceLine, parse_place
from instar.plugins.evolve.history.repository import Revisions
from instar.plugins.evolve.history.trailers import Trailers, write

SAID = Trailers(session="ses_1", call="call_7", agent="build", epoch=3, cause="the greeting was wrong")


class Bench:
    def __init__(self, kit, root, processes, data):
        self.kit, self.root = kit, root
        self.revisions, self.audit_log = Revisions(processes, root), AuditLog(Database(data))
        self.sessions = {}
        kit.git(root, "init", "--quiet")

    def commit(self, message, text):
        (self.root / "hooks" / "bot.py").write_text(text)
        self.kit.git(self.root, "add", "--all")
        self.kit.git(self.root, "commit", "-q", "-m", message)
        return self.kit.git(self.root, "rev-parse", "HEAD").strip()

    async def fetch(self, session):
        if session not in self.sessions:
            raise NotFound(session)
        return self.sessions[session]

    async def why(self, line, file="hooks/bot.py"):
        return await blame.why(self.revisions, self.audit_log, self.fetch, SourceLine(file, line))


@pytest.fixture
def bench(kit, root, processes, tmp_path):
    made = Bench(kit, root, processes, tmp_path / "data")
    made.commit("initial", "one\ntwo\n")
    return made


def call(kit, call_id):
    state = {
        "status": "completed", "input": {}, "output": "done", "title": "bot.py", "metadata": {},
        "time": {"start": 1, "end": 2},
    }  # fmt: skip
    return kit.answer({"type": "tool", "callID": call_id, "tool": "evolve_hook_edit", "state": state})


def synthetic(kit, text):
    made = kit.user(text)
    made.parts[0].synthetic = True
    return made


async def test_a_line_leads_to_the_change_its_cause_and_the_message_before_the_call(bench, kit):
    bench.sessions["ses_1"] = [
        kit.user("an older wish"),
        call(kit, "call_1"),
        kit.user("greet me\nproperly"),
        call(kit, "call_2"),
        synthetic(kit, "go on"),
        call(kit, "call_7"),
        kit.user("a later wish"),
    ]
    made = bench.commit(write("evolve_hook_edit bot.py", SAID), "zero\none\nTWO\n")
    bench.audit_log.add(AuditEntry(kind="installed", by="agent", commit=made, epoch=3, text="on probation"))
    bench.commit("my own", "new\nzero\none\nTWO\n")
    found = await bench.why(4)
    assert (found.code, found.was, found.missing) == ("TWO", 3, "")
    assert found.change is not None
    assert (found.change.commit, found.change.kind, found.change.text) == (made, "installed", "on probation")
    assert found.change.cause == "the greeting was wrong"
    assert found.prompt is not None
    assert (found.prompt.text, found.prompt.tool, found.prompt.title) == (
        "greet me\nproperly", "evolve_hook_edit", "bot.py",
    )  # fmt: skip
    lines = found.text().split("\n")
    assert lines[0] == "hooks/bot.py:4: TWO"
    assert "cause: the greeting was wrong" in lines
    assert lines[-2:] == ["  greet me", "  properly"]


async def test_a_persons_own_line_and_one_that_is_not_committed_are_said_so(bench):
    found = await bench.why(1)
    assert found.change is not None
    assert (found.change.subject, found.prompt) == ("initial", None)
    assert found.missing == "no session made this change: it is a person's own"
    (bench.root / "hooks" / "bot.py").write_text("one\nedited\n")
    loose = await bench.why(2)
    assert (loose.code, loose.change) == ("edited", None)
    assert loose.text().endswith("this line is not committed: somebody changed the file since")


async def test_a_line_that_a_rollback_wrote_is_instars(bench):
    bench.commit(write("rolled back", Trailers(by="instar", rolls_back="abcdef1")), "one\nback\n")
    found = await bench.why(2)
    assert found.missing == "no session made this change: it is instar's own"
    assert "rolls back: abcdef1" in found.text()


@pytest.mark.parametrize(
    ("kept", "said"), [(False, "session ses_1 is gone"), (True, "no longer holds call call_7")]
)
async def test_a_session_or_call_that_is_gone_is_said_and_the_change_told_all_the_same(
    bench, kit, kept, said
):
    if kept:
        bench.sessions["ses_1"] = [kit.user("hello"), call(kit, "call_1")]
    bench.commit(write("evolve_hook_edit bot.py", SAID), "one\nTWO\n")
    found = await bench.why(2)
    assert found.prompt is None
    assert said in found.missing
    assert found.change is not None
    assert found.change.epoch == 3


async def test_a_change_of_a_turn_that_nobody_prompted_leads_to_what_the_runtime_said(bench, kit):
    bench.sessions["ses_1"] = [synthetic(kit, "heartbeat"), call(kit, "call_7")]
    bench.commit(write("evolve_hook_edit bot.py", SAID), "one\nTWO\n")
    found = await bench.why(2)
    assert found.prompt is not None
    assert found.prompt.text == "heartbeat"


async def test_a_change_that_an_invoked_tool_made_leads_to_the_call_that_invoked_it(bench, kit):
    bench.sessions["ses_1"] = [kit.user("greet me"), call(kit, "call_70"), call(kit, "call_7")]
    invoked = msgspec.structs.replace(SAID, call="call_7.2")
    bench.commit(write("evolve_hook_edit bot.py", invoked), "one\nTWO\n")
    found = await bench.why(2)
    assert found.prompt is not None
    assert found.prompt.text == "greet me"


@pytest.mark.slow
async def test_a_change_that_a_tool_made_in_a_workspace_is_found_by_its_call(
    kit, start, hello, processes, tmp_path
):
    running = await start(hello)
    text = (hello / "hooks" / "hello.py").read_text()
    old = "There are no notes yet."
    await running.call("evolve_hook_edit", hook="hello.py", oldString=old, newString="No notes so far.")
    line = next(n for n, row in enumerate(text.split("\n"), 1) if old in row)

    async def fetch(session):
        return [kit.user("say it shorter"), call(kit, "call_1")]

    place = parse_place(f"hooks/hello.py:{line}", hello)
    found = await blame.why(Revisions(processes, hello), AuditLog(Database(tmp_path)), fetch, place)
    assert found.change is not None
    assert (found.change.tool, found.change.session, found.change.by) == (
        "evolve_hook_edit",
        "ses_1",
        "agent",
    )
    assert found.prompt is not None
    assert found.prompt.text == "say it shorter"


async def test_a_line_or_file_that_git_does_not_know_is_one_sentence(bench):
    with pytest.raises(NoLine, match=r"hooks/bot.py has no line 9, only 2"):
        await bench.why(9)
    (bench.root / "hooks" / "new.py").write_text("x\n")
    with pytest.raises(NoLine, match=r"hooks/new\.py is not committed"):
        await bench.why(1, "hooks/new.py")


def test_a_place_is_read_from_the_workspace_or_from_where_one_stands(root):
    (root / "hooks" / "a:1.py").write_text("x")
    assert parse_place("hooks/a:1.py:12", root) == ("hooks/a:1.py", 12)
    assert parse_place(f"{root}/hooks/../hooks/a:1.py:1", root) == ("hooks/a:1.py", 1)
    assert parse_place("a:1.py:1", root, root / "hooks") == ("hooks/a:1.py", 1)


@pytest.mark.parametrize(
    "text", ["", "a.py", "a.py:", "a.py:0", "a.py:-1", "a.py:x", ":3", "a\0b:1", "a.py:²"]
)
def test_what_is_no_place_is_said_with_an_example(root, text):
    with pytest.raises(NoLine, match="is no place: give FILE:LINE"):
        parse_place(text, root)


@pytest.mark.parametrize("text", ["hooks/gone.py:1", "../out:1", "/etc/passwd:1"])
def test_a_file_outside_the_workspace_or_gone_is_not_looked_for(root, text):
    (root.parent / "out").write_text("x")
    with pytest.raises(NoLine, match=r"there is no .* in the workspace"):
        parse_place(text, root, root.parent)
