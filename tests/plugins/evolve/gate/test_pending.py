"""Candidates that wait for a person, in a real database."""

import asyncio
import json
import stat
import sys
import time
from pathlib import Path

import msgspec
import pytest

from instar.plugins.evolve.database import Database
from instar.plugins.evolve.gate import pending
from instar.plugins.evolve.gate.pending import Cause, NotPending, Pending, Proposal
from instar.plugins.evolve.history import trailers
from instar.settings.accepted import blob_id

LIVE = blob_id(b"live")
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
def database(tmp_path: Path) -> Database:
    return Database(tmp_path / "data", durable=False)


@pytest.fixture
def store(database: Database) -> Pending:
    return Pending(database)


def number(database: Database) -> int:
    """Return how many entries are kept."""
    return int(database.rows("SELECT count(*) FROM pending")[0][0])


def test_what_waits_is_there_for_another_process_and_private(store: Pending, database: Database):
    entry = store.put(ASKED)
    for path in database.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(database.folder.stat().st_mode) == 0o700
    again = Pending(Database(database.folder))
    assert again.get(entry.id) == entry
    assert again.list() == pending.Listing([entry], [])
    assert (entry.proposal, entry.state) == (ASKED, "waiting")


def test_nothing_waits_where_nothing_was_put(store: Pending):
    assert store.list() == pending.Listing([], [])
    with pytest.raises(NotPending, match=r"nothing waits under the id 'abcdabcd'.*instar evolve pending"):
        store.get("abcdabcd")


@pytest.mark.parametrize("name", ["", "../data", "a/b", "ABCDABCD", "0123456789", "*", "%", "' OR 1 --"])
def test_an_id_is_never_a_pattern(store: Pending, name: str):
    store.put(ASKED)
    with pytest.raises(NotPending, match="nothing waits"):
        store.get(name)
    with pytest.raises(NotPending, match="nothing waits"):
        store.reject(name, "ada")
    assert store.remove(name) is False


def test_the_same_candidate_twice_is_one_entry(store: Pending, database: Database):
    entry = store.put(ASKED)
    assert store.put(changed(cause=Cause("ses_2"), test="again")) == entry
    assert number(database) == 1


@pytest.mark.parametrize("fields", [{"base": blob_id(b"newer")}, {"raised": ("it would write notes",)}])
def test_the_same_text_judged_anew_takes_the_place_of_the_entry_under_another_id(store: Pending, fields):
    entry = store.put(ASKED)
    newer = store.put(changed(**fields))
    assert newer.state == "waiting"
    assert newer.id != entry.id
    assert store.list().entries == [newer]
    with pytest.raises(NotPending, match="nothing waits"):
        store.reject(entry.id, "ada")


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
    assert entry.is_of(ASKED)
    assert entry.is_of(changed(test="another output"))
    assert not entry.is_of(changed(**fields))
    assert store.get(entry.id) == entry


def test_a_rejected_candidate_is_answered_without_asking_again(store: Pending):
    entry = store.put(ASKED)
    store.reject(entry.id, "ada")
    again = store.put(ASKED)
    assert (again.id, again.state) == (entry.id, "rejected")


def test_a_stale_entry_says_so_and_can_be_rejected(store: Pending):
    entry = store.put(ASKED)
    assert entry.stale(LIVE) is None
    assert "out of date: hooks/p.py changed since" in str(entry.stale(blob_id(b"somebody else's")))
    assert store.reject(entry.id, "ada").state == "rejected"


def test_an_entry_is_taken_away_once(store: Pending, database: Database):
    entry = store.put(ASKED)
    assert store.remove(entry.id) is True
    assert store.remove(entry.id) is False
    assert number(database) == 0


def test_so_many_wait_and_no_more_until_a_person_decides(database: Database):
    store = Pending(database, most=3)
    entries = [store.put(changed(content=str(count))) for count in range(3)]
    with pytest.raises(NotPending, match="3 candidates wait for a person already"):
        store.put(changed(content="one more"))
    assert store.put(changed(content="1")) == entries[1]
    # One judged anew takes a place that it had.
    store.put(changed(content="1", base=""))
    store.reject(entries[2].id, "ada")
    store.put(changed(content="one more"))
    assert len(store.list().entries) == 4


def test_of_rejected_ones_the_newest_are_kept(database: Database):
    store = Pending(database, most=2)
    for count in range(4):
        decided = store.reject(store.put(changed(content=str(count))).id, "ada").decision
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


def put_in(database: Database, name: str, value: bytes) -> None:
    """Put these bytes in the place of an entry."""
    row = (value, name)
    database.change(lambda connection: connection.execute("UPDATE pending SET value = ? WHERE id = ?", row))


@pytest.mark.parametrize("kind", ["content", "raised", "decision", "type", "torn", "deep"])
def test_a_damaged_entry_is_named_and_the_others_are_served(store: Pending, database: Database, kind: str):
    bad, good = store.put(ASKED), store.put(changed(content="good"))
    ((text,),) = database.rows("SELECT value FROM pending WHERE id = ?", bad.id)
    put_in(database, bad.id, corrupt(text.decode(), kind).encode())
    found = store.list()
    assert found.entries == [good]
    (problem,) = found.problems
    assert problem.startswith(f"what waits as {bad.id} is damaged and left out")
    with pytest.raises(NotPending, match="is damaged"):
        store.reject(bad.id, "ada")
    # Its candidate takes its place when it is proposed again.
    again = store.put(ASKED)
    assert again.id != bad.id
    assert {entry.id for entry in store.list().entries} == {good.id, again.id}
    assert store.list().problems == []
    assert store.remove(bad.id) is False


def test_an_entry_under_another_ones_id_is_damaged(store: Pending, database: Database):
    entry, other = store.put(ASKED), store.put(changed(content="other"))
    put_in(database, other.id, msgspec.json.encode(entry))
    with pytest.raises(NotPending, match="is damaged"):
        store.get(other.id)


def test_a_database_that_cannot_be_used_is_said(tmp_path: Path):
    (tmp_path / "data").write_text("in the way")
    store = Pending(Database(tmp_path / "data"))
    assert "data" in store.list().problems[0]
    for act in (lambda: store.put(ASKED), lambda: store.get("abcdabcd"), lambda: store.remove("abcdabcd")):
        with pytest.raises(NotPending, match="data"):
            act()


def test_what_is_no_text_or_too_large_does_not_wait(store: Pending, database: Database):
    for fields in ({"content": "\ud800"}, {"diff": "\ud800"}):
        with pytest.raises(NotPending, match=r"hooks/p\.py: .*"):
            store.put(changed(**fields))
    with pytest.raises(NotPending, match="more than may wait"):
        store.put(changed(content="x" * pending.LARGEST))
    assert number(database) == 0


def test_a_long_output_keeps_both_ends_and_the_diff_all_of_it(store: Pending):
    long = "start" + "x" * (2 * trailers.SHOWN) + "end"
    kept = store.put(changed(test=long, diff=long)).proposal
    assert kept.test.startswith("start")
    assert kept.test.endswith("end")
    assert "characters are left out" in kept.test
    assert kept.diff == long


@pytest.mark.slow
def test_two_processes_that_put_at_once_keep_to_the_number(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from instar.plugins.evolve.gate.pending import *\n"
        "from instar.plugins.evolve.database import Database\n"
        "store = Pending(Database(Path(sys.argv[1])), most=10)\n"
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
    found = Pending(Database(tmp_path / "p")).list()
    assert (len(found.entries), found.problems) == (10, [])


def test_a_report_says_all_that_a_person_decides_on(store: Pending):
    entry = store.put(changed(also={"tests/p_test.py": "assert True"}))
    text = store.reject(entry.id, "ada").text()
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
    text = entry.text()
    assert not {char for char in text if not char.isprintable()} - {"\n", "\t"}
    assert "\\x1b[2K\\x1b[1A\\r+\\u202eevil\\u200b\n+tab\there" in text
    assert "- it - waits" in text
