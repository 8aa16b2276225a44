"""The file of stops, and what it means for sessions: pure of any turn."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instar.limits.stop import (
    EVERYWHERE,
    StopFile,
    StopFileError,
    StopOrder,
    StopOrdered,
    StopState,
    covers,
    scope_of,
)


@pytest.fixture
def stops(tmp_path: Path) -> StopFile:
    return StopFile(tmp_path / "data")


def halt(stops: StopFile, directory: Path) -> StopState:
    return StopState(stops, directory, clock=lambda: 5)


def test_without_a_stop_everything_may_go_on(stops: StopFile, tmp_path: Path) -> None:
    found = halt(stops, tmp_path)
    assert (found.last_id(), found.halted(), found.why("ses_1"), found.why()) == ("", 0, None, None)


def test_a_turn_that_began_before_a_stop_ends_whatever_is_said_afterwards(
    stops: StopFile, tmp_path: Path
) -> None:
    found = halt(stops, tmp_path)
    found.person_prompted("ses_1")
    found.begin("ses_1")
    stops.add(str(tmp_path), 1)
    stops.resume(str(tmp_path))
    found.person_prompted("ses_1")
    assert "instar stop ended" in (found.why("ses_1") or "")
    with pytest.raises(StopOrdered):
        found.check("ses_1")
    found.finish("ses_1")
    found.check("ses_1")


@pytest.mark.parametrize("time", [0, 1, 1 << 52], ids=["long ago", "early", "in the future"])
def test_no_clock_undoes_a_stop(stops: StopFile, tmp_path: Path, time: int) -> None:
    found = halt(stops, tmp_path)
    found.person_prompted("ses_1")
    stops.add(EVERYWHERE, 1 << 40)
    found.person_prompted("ses_1")
    stops.add(EVERYWHERE, time)
    assert found.why("ses_1") is not None


def test_a_persons_prompt_lets_its_session_go_on_and_those_made_afterwards(
    stops: StopFile, tmp_path: Path
) -> None:
    found = halt(stops, tmp_path)
    stops.add(str(tmp_path), 7)
    found.session_made("ses_before")
    assert found.why("ses_before") is not None
    found.person_prompted("ses_1")
    found.session_made("ses_after")
    found.inherit("ses_task", "ses_1")
    assert [found.why(one) for one in ("ses_1", "ses_after", "ses_task", "")] == [None] * 4
    assert found.why("ses_before") is not None
    assert found.halted() == 7, "heartbeats wait for a person to resume them"


def test_resuming_lets_what_is_automatic_go_on(stops: StopFile, tmp_path: Path) -> None:
    found = halt(stops, tmp_path)
    stops.add(EVERYWHERE, 7)
    stops.resume(str(tmp_path / "elsewhere"))
    assert found.halted() == 7
    stops.resume(str(tmp_path))
    assert (found.halted(), found.why("ses_1")) == (0, None)
    stops.add(EVERYWHERE, 8)
    assert found.halted() == 8


def test_a_stop_covers_a_repository_from_each_of_its_folders(tmp_path: Path) -> None:
    main, linked, other = tmp_path / "main", tmp_path / "linked", tmp_path / "other"
    for folder in (main / "src", other):
        folder.mkdir(parents=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    identity = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for args in (
        ("init", "-q"),
        ("commit", "-q", "--allow-empty", "-m", "x"),
        ("worktree", "add", "-q", linked),
    ):
        subprocess.run(["git", *identity, *map(str, args)], cwd=main, env=environment, check=True)
    for place in (main, main / "src", linked):
        assert scope_of(place) == str(main.resolve())
        assert covers(scope_of(main), place)
    assert not covers(scope_of(main), other)
    assert covers(str(tmp_path), linked)


def test_a_linked_folder_is_stopped_by_its_real_one(stops: StopFile, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    found = halt(stops, tmp_path / "link")
    stops.add(scope_of(tmp_path / "real"), 1)
    assert found.why("ses_1") is not None


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"\xff", b"[]", b'{"version": 2, "stops": []}', b'{"version": 1, "stops": [{"id": 3}]}'],
)
def test_a_file_that_cannot_be_read_stops_everything_and_says_what_to_do(
    stops: StopFile, tmp_path: Path, content: bytes
) -> None:
    stops.path.parent.mkdir(parents=True)
    stops.path.write_bytes(content)
    found = halt(stops, tmp_path)
    assert found.halted() == 5
    for session in ("ses_1", ""):
        assert "run instar stop, which writes it anew" in (found.why(session) or "")
    with pytest.raises(StopFileError, match=str(stops.path)):
        found.person_prompted("ses_1")
    made = stops.add(str(tmp_path), 9)
    assert made.scope == EVERYWHERE, "whatever it covered has to stay stopped"
    found.person_prompted("ses_1")
    assert found.why("ses_1") is None
    assert stops.path.with_suffix(".unreadable").read_bytes() == content


def test_a_folder_in_the_files_place_stops_everything(stops: StopFile, tmp_path: Path) -> None:
    stops.path.mkdir(parents=True)
    assert "cannot be read" in (halt(stops, tmp_path).why() or "")
    stops.add(EVERYWHERE, 1)
    halt(stops, tmp_path).person_prompted("ses_1")


def test_the_file_is_the_persons_alone(stops: StopFile) -> None:
    stops.add(EVERYWHERE, 1)
    assert (stops.path.stat().st_mode & 0o777, stops.path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


folders = st.sampled_from(["*", "/a", "/a/b", "/a/b/c", "/z", "/ab"])


@pytest.mark.slow
@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), folders), max_size=6), folders.filter(lambda one: one != "*"))
def test_the_last_stop_that_covers_a_folder_holds_until_it_is_resumed_there(
    tmp_path_factory: pytest.TempPathFactory, orders: list[tuple[bool, str]], folder: str
) -> None:
    stops = StopFile(tmp_path_factory.mktemp("data"))
    found, last, expected = halt(stops, Path(folder)), "", 0
    for number, (stopping, scope) in enumerate(orders, start=1):
        covered = scope == EVERYWHERE or Path(folder).is_relative_to(scope)
        if stopping:
            made = stops.add(scope, number)
            last, expected = (made.id, number) if covered else (last, expected)
        else:
            stops.resume(scope)
            expected = 0 if covered else expected
        assert (found.last_id(), found.halted()) == (last, expected)


def test_orders_of_other_machines_are_taken_once_and_in_their_order(stops: StopFile, tmp_path: Path) -> None:
    own = stops.add("/own", 7)
    orders = [
        StopOrder("1", "/a/b", 1, resumes=False),
        StopOrder("2", "/a", 2, resumes=False),
        StopOrder("3", EVERYWHERE, 3, resumes=True),
        StopOrder(own.id, "/own", 7, resumes=False),
    ]
    stops.take(orders[:2])
    stops.take(orders)
    assert [(one.id, one.resumed) for one in stops.read()] == [("2", ("*",)), (own.id, ("*",))]
    later = stops.add("/a", 9)
    stops.take(orders)
    assert [one.id for one in stops.read()] == [own.id, later.id]


def test_orders_of_other_machines_do_not_repair_a_file_that_cannot_be_read(
    stops: StopFile, tmp_path: Path
) -> None:
    halt = StopState(stops, tmp_path)
    stops.path.parent.mkdir(parents=True)
    stops.path.write_text("{")
    with pytest.raises(StopFileError):
        stops.take([StopOrder("1", "/a", 1, resumes=True)])
    assert halt.why() is not None
    stops.path.unlink()
    stops.take([StopOrder("1", "/a", 1, resumes=False)])
    assert [one.id for one in stops.read()] == ["1"]
