"""Candidates that wait for a person, in a real folder."""

import asyncio
import json
import stat
import sys
import time
from pathlib import Path

import msgspec
import pytest

from instar.plugins.evolve.gate import pending
from instar.plugins.evolve.gate.pending import Cause, NotPending, Pending, Proposal
from instar.plugins.evolve.ledger.standing import sha256

LIVE = sha256(b"live")
ASKED = Proposal(
    file="hooks/p.py",
    base=LIVE,
    content="#!/bin/sh\n",
    raised=("it would use the network",),
    cause=Cause("ses_1", "call_1", "evolve_hook_write", "evolve"),
    diff="-a\n+b\n",
    test="1 passed",
    replay="34 of 34 the same",
    prediction={"hook": "idle", "bound": 2},
)


def changed(**fields: object) -> Proposal:
    return msgspec.structs.replace(ASKED, **fields)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "pending"


@pytest.fixture
def store(folder: Path) -> Pending:
    return Pending(folder)


def test_what_waits_is_there_for_another_process_and_private(store: Pending, folder: Path, tmp_path: Path):
    entry = store.put(ASKED)
    (path,) = sorted(folder.iterdir())
    assert path.name == f"{entry.id}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    again = Pending(path.parent)
    assert again.get(entry.id) == entry
    assert again.list() == pending.Listing([entry], [])
    assert (entry.proposal, entry.state) == (ASKED, "waiting")


def test_nothing_waits_where_nothing_was_put(store: Pending):
    assert store.list() == pending.Listing([], [])
    with pytest.raises(NotPending, match=r"nothing waits under the id 'abcdabcd'.*instar evolve pending"):
        store.get("abcdabcd")


@pytest.mark.parametrize("name", ["", "../data", "a/b", "ABCDABCD", "0123456789", "*"])
def test_an_id_is_never_a_path(store: Pending, name: str):
    store.put(ASKED)
    with pytest.raises(NotPending, match="nothing waits"):
        store.get(name)
    with pytest.raises(NotPending, match="nothing waits"):
        store.decide(name, True, "ada", LIVE)
    assert store.remove(name) is False


def test_the_same_candidate_twice_is_one_entry(store: Pending, folder: Path):
    entry = store.put(ASKED)
    assert store.put(changed(cause=Cause("ses_2"), test="again")) == entry
    assert len(sorted(folder.iterdir())) == 1


@pytest.mark.parametrize("fields", [{"base": sha256(b"newer")}, {"raised": ("it would write notes",)}])
def test_the_same_text_judged_anew_takes_the_place_of_the_entry_under_another_id(store: Pending, fields):
    entry = store.put(ASKED)
    store.decide(entry.id, True, "ada", LIVE)
    newer = store.put(changed(**fields))
    assert newer.state == "waiting"
    assert newer.id != entry.id
    assert store.list().entries == [newer]
    with pytest.raises(NotPending, match="nothing waits"):
        store.decide(entry.id, True, "ada", LIVE)


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "other"},
        {"file": "hooks/q.py"},
        {"base": ""},
        {"raised": ("it would use the network", "it would write notes")},
        {"also": {"tests/p_test.py": "x"}},
    ],
)
def test_an_approval_holds_for_this_text_base_and_these_sentences_alone(store: Pending, fields):
    entry = store.put(ASKED)
    assert entry.state == "waiting"
    approved = store.decide(entry.id, True, "ada", LIVE)
    assert approved.state == "approved"
    assert approved.is_of(ASKED)
    assert approved.is_of(changed(test="another output"))
    assert not approved.is_of(changed(**fields))
    assert store.get(entry.id) == approved
    assert approved.decision is not None
    assert approved.decision.by == "ada"


def test_a_rejected_candidate_is_answered_without_asking_again(store: Pending):
    entry = store.put(ASKED)
    store.decide(entry.id, False, "ada", LIVE)
    again = store.put(ASKED)
    assert (again.id, again.state) == (entry.id, "rejected")


def test_a_stale_entry_can_be_rejected_but_not_approved(store: Pending):
    entry = store.put(ASKED)
    assert entry.stale(LIVE) is None
    now = sha256(b"somebody else's")
    with pytest.raises(NotPending, match=r"another version of hooks/p\.py .* judged again"):
        store.decide(entry.id, True, "ada", now)
    assert store.get(entry.id).state == "waiting"
    assert store.decide(entry.id, False, "ada", now).state == "rejected"


def test_an_entry_is_taken_away_once(store: Pending, folder: Path):
    entry = store.put(ASKED)
    assert store.remove(entry.id) is True
    assert store.remove(entry.id) is False
    assert sorted(folder.iterdir()) == []


def test_so_many_wait_and_no_more_until_a_person_decides(tmp_path: Path):
    store = Pending(tmp_path / "pending", most=3)
    entries = [store.put(changed(content=str(number))) for number in range(3)]
    store.decide(entries[0].id, True, "ada", LIVE)
    with pytest.raises(NotPending, match="3 candidates wait for a person already"):
        store.put(changed(content="one more"))
    assert store.put(changed(content="1")) == entries[1]
    # One judged anew takes a place that it had.
    store.put(changed(content="1", base=""))
    store.decide(entries[2].id, False, "ada", LIVE)
    store.put(changed(content="one more"))
    assert len(store.list().entries) == 4


def test_of_rejected_ones_the_newest_are_kept(tmp_path: Path):
    store = Pending(tmp_path / "pending", most=2)
    for number in range(4):
        decided = store.decide(store.put(changed(content=str(number))).id, False, "ada", LIVE).decision
        assert decided is not None
        while time.time_ns() // 1_000_000 <= decided.time:
            pass
    assert [entry.proposal.content for entry in store.list().entries] == ["2", "3"]


def corrupt(text: str, kind: str) -> str:
    value = json.loads(text)
    if kind == "content":
        value["proposal"]["content"] = "rm -rf ~"
    elif kind == "raised":
        value["proposal"]["raised"] = []
    elif kind == "decision":
        value["decision"] = {"approved": True, "by": "x", "time": 0, "digest": "0" * 64}
    elif kind == "type":
        value["time"] = "yesterday"
    return {"torn": text[:100], "deep": "[" * 100_000}.get(kind) or json.dumps(value)


@pytest.mark.parametrize("kind", ["content", "raised", "decision", "type", "torn", "deep"])
def test_a_corrupt_file_is_named_and_the_others_are_served(store: Pending, folder: Path, kind: str):
    bad, good = store.put(ASKED), store.put(changed(content="good"))
    path = folder / f"{bad.id}.json"
    path.write_text(corrupt(path.read_text(), kind))
    found = store.list()
    assert found.entries == [good]
    (problem,) = found.problems
    assert problem.startswith(f"{path} is corrupt and left out")
    with pytest.raises(NotPending, match="is corrupt"):
        store.decide(bad.id, True, "ada", LIVE)
    assert store.put(ASKED).id != bad.id
    assert store.remove(bad.id) is True
    assert store.list().problems == []


def test_a_file_under_another_entrys_id_is_corrupt(store: Pending, folder: Path):
    entry, other = store.put(ASKED), store.put(changed(content="other"))
    (folder / f"{other.id}.json").write_bytes((folder / f"{entry.id}.json").read_bytes())
    with pytest.raises(NotPending, match="is corrupt"):
        store.get(other.id)


def test_what_is_no_text_or_too_large_does_not_wait(store: Pending, folder: Path):
    for fields in ({"content": "\ud800"}, {"diff": "\ud800"}):
        with pytest.raises(NotPending, match=r"hooks/p\.py: .*"):
            store.put(changed(**fields))
    with pytest.raises(NotPending, match="more than may wait"):
        store.put(changed(content="x" * pending.LARGEST))
    assert sorted(folder.iterdir()) == []


def test_a_long_output_keeps_both_ends_and_the_diff_all_of_it(store: Pending):
    long = "start" + "x" * (2 * pending.SHOWN) + "end"
    kept = store.put(changed(test=long, diff=long)).proposal
    assert kept.test.startswith("start")
    assert kept.test.endswith("end")
    assert "characters are left out" in kept.test
    assert kept.diff == long


@pytest.mark.slow
def test_two_processes_that_put_at_once_keep_to_the_number(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from instar.plugins.evolve.gate.pending import *\n"
        "store = Pending(Path(sys.argv[1]), most=10)\n"
        "for n in range(10):\n"
        "    try: store.put(Proposal('hooks/p.py', '', sys.argv[2] + str(n), ()))\n"
        "    except NotPending: pass\n"
    )

    async def both() -> None:
        starts = [
            asyncio.create_subprocess_exec(sys.executable, "-c", code, str(tmp_path / "p"), name)
            for name in "ab"
        ]
        children = await asyncio.gather(*starts)
        assert [await child.wait() for child in children] == [0, 0]

    asyncio.run(both())
    found = Pending(tmp_path / "p").list()
    assert (len(found.entries), found.problems) == (10, [])


def test_a_report_says_all_that_a_person_decides_on(store: Pending):
    entry = store.put(changed(also={"tests/p_test.py": "assert True"}))
    text = pending.report(store.decide(entry.id, False, "ada", LIVE))
    for part in (
        entry.id,
        "hooks/p.py  rejected",
        "session ses_1, call call_1, tool evolve_hook_write, agent evolve",
        "rejected by ada",
        "- it would use the network",
        'it predicts: {"hook":"idle","bound":2}',
        "diff:\n-a\n+b\n",
        "test:\n1 passed",
        "replay:\n34 of 34 the same",
        "new file tests/p_test.py:\nassert True",
    ):
        assert part in text


def test_nothing_in_a_report_hides_from_the_person(store: Pending):
    hidden = "\x1b[2K\x1b[1A\r+\u202eevil\u200b\n+tab\there"
    entry = store.put(changed(diff=hidden, raised=("it\n- waits",), cause=Cause(tool="\x1b]0;x\a")))
    text = pending.report(entry)
    assert not {char for char in text if not char.isprintable()} - {"\n", "\t"}
    assert "\\x1b[2K\\x1b[1A\\r+\\u202eevil\\u200b\n+tab\there" in text
    assert "- it - waits" in text
