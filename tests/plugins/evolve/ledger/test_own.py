"""Whose a file is, told by git's history where nothing else is known."""

import pytest

from instar.plugins.evolve.history.repository import Revision, Revisions, WorkspaceRepository
from instar.plugins.evolve.history.trailers import Trailers, write
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.plugins.evolve.ledger.own import Left, Own, left

AGENT = Trailers(session="ses_1", call="call_1", epoch=2)
APPROVED = Trailers(session="ses_1", call="call_1", by="person")
PERSON = Trailers()
ACCEPTED = Trailers(by="person", epoch=3)
TAKEN_BACK = Trailers(by="instar", cause="it failed")


def commit(name: str, said: Trailers, subject: str = "work") -> Revision:
    return Revision(name * 40, name * 7, "", 0, "Ada", subject, said, ["hooks/bot.sh"])


def rolls(name: str, back: str) -> Revision:
    return commit(name, Trailers(by="person", rolls_back=back * 40))


A, B, C = commit("a", AGENT), commit("b", AGENT), commit("c", APPROVED)
P, Q = commit("1", PERSON), commit("2", ACCEPTED)
LOST = commit("d", PERSON, "evolve_hook_write bot.sh")
RESTORED = commit("e", ACCEPTED, "restore by hand")
AGAIN = commit("f", TAKEN_BACK, "roll back hooks/bot.sh")


@pytest.mark.parametrize(
    ("newest_first", "expected"),
    [
        ([], None),
        ([P], None),
        ([Q, A, P], None),
        ([A, P], Left(P.id)),
        ([B, A, Q, P], Left(Q.id)),
        ([C, P], Left(P.id)),
        ([LOST, P], Left(P.id)),
        ([A], Left(None)),
        ([rolls("3", "a"), A, P], None),
        ([rolls("3", "b"), B, A, P], Left(P.id)),
        ([rolls("3", "2"), Q, A, P], Left(P.id)),
        ([rolls("3", "2"), Q, P], None),
        ([AGAIN, A, P], Left(P.id)),
        ([RESTORED, A, P], Left(P.id)),
        ([RESTORED, P], None),
        ([rolls("4", "3"), rolls("3", "a"), A, P], Left(P.id)),
    ],
)
def test_a_persons_newest_commit_counts_and_what_was_taken_back_does_not(newest_first, expected):
    assert left(newest_first) == expected


async def test_a_clone_without_books_tells_the_agents_changes_by_the_trailers_of_its_commits(
    root, tmp_path, kit, processes
):
    kit.git(root, "init", "--quiet")

    def made(message: str, **contents: str) -> None:
        for name, text in contents.items():
            kit.script(root / "hooks", f"{name}.sh", text)
        kit.git(root, "add", "--all")
        kit.git(root, "commit", "--quiet", "--message", message)

    made("initial", both="yours", plain="yours", later="yours", uncommitted="yours")
    made(write("evolve_hook_edit both.sh", AGENT), both="the agent's", uncommitted="the agent's", later="x")
    made(write("evolve_hook_write its.sh", AGENT), its="the agent's")
    made("mine again", later="yours again")
    kit.script(root / "hooks", "uncommitted.sh", "yours, not committed")

    own = owned(root, tmp_path, processes)
    ledger = own.ledger
    await own.open()
    changed = own.changed
    assert set(changed) == {"hooks/both.sh", "hooks/its.sh"}
    assert changed["hooks/its.sh"] is None
    assert ledger.kept.content(changed["hooks/both.sh"].blob) == b"yours"
    assert changed["hooks/both.sh"].mode == 0o755
    assert own.problem == ""


async def test_where_git_could_not_be_asked_it_says_so_and_asks_again(root, tmp_path, kit, processes):
    kit.script(root / "hooks", "bot.sh", "yours")
    own = owned(root, tmp_path, processes)
    ledger = own.ledger
    await own.open()  # the workspace is no repository
    assert "git could not be asked" in own.problem
    ledger.record("the agent's", {"hooks/bot.sh": ledger.keep(b"the agent's", 0o755)})
    left = ledger.left["hooks/bot.sh"]
    assert own.changed == {"hooks/bot.sh": left}
    kit.git(root, "init", "--quiet")
    kit.git(root, "add", "--all")
    kit.git(root, "commit", "--quiet", "--message", "initial")
    await own.open()
    assert own.problem == ""
    assert own.changed == {"hooks/bot.sh": left}
    again = Ledger(tmp_path / "data", root)
    assert again.load()
    assert again.is_told
    assert again.left == ledger.left


async def test_what_the_agent_changed_is_told_by_the_ledger(root, tmp_path, kit, processes):
    kit.script(root / "hooks", "bot.sh", "yours")
    own = owned(root, tmp_path, processes)
    ledger = own.ledger
    assert not own.is_changed("hooks/bot.sh")
    for word in ("one", "two"):
        ledger.record(word, {"hooks/bot.sh": ledger.keep(word.encode(), 0o755)})
    ledger.record("new", {"hooks/new.sh": ledger.keep(b"new", 0o755)})
    assert own.has_made("hooks/")
    (root / "hooks" / "bot.sh").write_text("yours again")
    stands = {"hooks/bot.sh": ledger.stand("hooks/bot.sh")}
    ledger.record("accept by hand", stands, stands)
    assert set(own.changed) == {"hooks/new.sh"}


class Owned(Own):
    """With its ledger."""

    ledger: Ledger


def owned(root, tmp_path, processes) -> Owned:
    ledger = Ledger(tmp_path / "data", root)
    ledger.first_sight()
    found = Owned(ledger, WorkspaceRepository(processes, root), Revisions(processes, root))
    found.ledger = ledger
    return found
