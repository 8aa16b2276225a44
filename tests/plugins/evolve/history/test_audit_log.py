"""The chronicle: a log that is only added to, bounded, and read whatever happened to it."""

import multiprocessing
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instar.plugins.evolve.history.audit_log import FOLDER, NEWER, OLDER, AuditEntry, AuditLog


@pytest.fixture
def audit_log(tmp_path):
    return AuditLog(tmp_path / "data")


@pytest.fixture
def log(tmp_path):
    return tmp_path / "data" / FOLDER / NEWER


def texts(audit_log):
    return [entry.text for entry in audit_log.read().entries]


def test_entries_are_read_newest_first_with_all_that_was_said(audit_log, log):
    assert audit_log.read().entries == []
    refused = AuditEntry(
        kind="refused", by="agent", time=5, files=["hooks/a.py"], stage="test", text="exit 1\nline", cost=300,
        session="ses_1", call="call_1", tool="evolve_hook_edit", agent="build",
    )  # fmt: skip
    assert audit_log.add(refused) == refused
    frozen = audit_log.add(AuditEntry(kind="frozen", by="person"))
    assert frozen.time > 1_600_000_000_000
    assert audit_log.read().entries == [frozen, refused]
    assert (log.stat().st_mode & 0o777, log.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_text_of_the_model_stays_one_entry_and_cannot_steer_a_terminal(audit_log):
    audit_log.add(
        AuditEntry(kind="refused", text='a\n{"kind": "approved"}\x1b[2J\ud800', files=["x\ny"], stage="t\n")
    )
    (entry,) = audit_log.read().entries
    assert (entry.text, entry.files, entry.stage) == ('a\n{"kind": "approved"}[2J', ["x y"], "t")
    audit_log.add(AuditEntry(kind="refused", text="x" * 100_000, files=["f"] * 5000))
    assert len(texts(audit_log)[0]) == 4000
    assert len(audit_log.read().entries[0].files) == 100


def test_a_line_that_a_crash_cut_short_is_counted_and_harms_no_other(audit_log, log):
    audit_log.add(AuditEntry(kind="frozen", text="1"))
    with log.open("ab") as file:
        file.write(b'{"kind":"fro')
    audit_log.add(AuditEntry(kind="thawed", text="2"))
    assert texts(audit_log) == ["2", "1"]
    assert audit_log.read().broken == 1


def test_two_files_of_bounded_size_are_kept(tmp_path):
    audit_log = AuditLog(tmp_path, largest=2000)
    for number in range(200):
        audit_log.add(AuditEntry(kind="pinned", text=str(number)))
        assert texts(audit_log)[0] == str(number)
    folder = tmp_path / FOLDER
    sizes = [(folder / name).stat().st_size for name in (NEWER, OLDER)]
    assert max(sizes) <= 2000
    kept = texts(audit_log)
    assert kept == [str(number) for number in range(199, 199 - len(kept), -1)]
    assert sum(sizes) > 2000


def _add(folder, name):
    audit_log = AuditLog(folder, largest=20_000)
    for number in range(100):
        audit_log.add(AuditEntry(kind="installed", text=f"{name} {number}"))


@pytest.mark.slow
def test_processes_that_add_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_add, args=(tmp_path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    told = AuditLog(tmp_path, largest=20_000).read()
    assert told.broken == 0
    assert sorted(entry.text for entry in told.entries) == sorted(
        f"{name} {n}" for name in "ab" for n in range(100)
    )


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300), st.integers(0, 400))
def test_whatever_stands_in_the_file_reading_and_adding_go_on(tmp_path, junk, at):
    audit_log = AuditLog(tmp_path / "data")
    path = tmp_path / "data" / FOLDER / NEWER
    path.unlink(missing_ok=True)
    audit_log.add(AuditEntry(kind="frozen", text="before"))
    data = path.read_bytes()
    path.write_bytes(data[:at] + junk + data[at:])
    audit_log.add(AuditEntry(kind="thawed", text="after"))
    assert texts(audit_log)[0] == "after"


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("/etc/hosts", path)])
def test_what_is_no_file_of_ours_is_said_and_not_followed(audit_log, log, make):
    log.parent.mkdir(parents=True)
    make(log)
    told = audit_log.read()
    assert told.entries == []
    assert str(log) in told.problem
    with pytest.raises(OSError):  # noqa: PT011 - whichever of several
        audit_log.add(AuditEntry(kind="frozen"))
