"""What `bench.instructions` makes of counts, and the pieces that it counts; valgrind itself has `make bench-check`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from bench.instructions import TRIES, held_for, main
from bench.pieces import PIECES

ROOT = Path(__file__).parents[2]
PIECE = "a turn of one word"


def keep(path: Path, count: int, python: str = "") -> Path:
    here = held_for()
    path.write_text(
        json.dumps({"for": {**here, "python": python or here["python"]}, "counts": {PIECE: count}})
    )
    return path


def counting(*counts: int) -> Callable[[str], int]:
    found = iter(counts)
    return lambda piece: next(found)


def test_a_piece_that_grew_by_more_than_a_tenth_fails_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = keep(tmp_path / "kept.json", 1000)
    assert main([PIECE], counting(*[1101] * TRIES), path) == 1
    printed = capsys.readouterr()
    assert "GREW" in printed.out
    assert PIECE in printed.err
    assert "--keep" in printed.err


def test_a_count_that_only_a_busy_machine_made_large_is_taken_again(tmp_path: Path) -> None:
    assert main([PIECE], counting(1300, 1000), keep(tmp_path / "kept.json", 1000)) == 0


@pytest.mark.parametrize("count", [1100, 1000, 500])
def test_what_grew_by_a_tenth_at_most_is_counted_once_and_passes(tmp_path: Path, count: int) -> None:
    assert main([PIECE], counting(count), keep(tmp_path / "kept.json", 1000)) == 0


def test_counts_of_another_python_judge_nothing_and_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = keep(tmp_path / "kept.json", 1000, python="3.0.1")
    assert main([PIECE, "--json"], counting(5000), path) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"piece": PIECE, "found": 5000, "kept": None, "grew": False}
    assert "3.0.1" in printed.err


def test_keeping_writes_the_least_of_the_counts_and_leaves_the_other_pieces(tmp_path: Path) -> None:
    path = keep(tmp_path / "kept.json", 1000)
    other = "a call of read"
    assert main([other, "--keep"], counting(31, 30, 32), path) == 0
    assert json.loads(path.read_text()) == {"for": held_for(), "counts": {PIECE: 1000, other: 30}}


def test_what_is_kept_with_the_program_is_of_its_pieces() -> None:
    kept = json.loads((ROOT / "bench" / "instructions.json").read_text())
    assert set(kept["counts"]) > set(PIECES)


def test_a_piece_that_does_not_exist_is_named_with_those_that_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing"])
    said = capsys.readouterr().err
    assert "no such piece: nothing" in said
    assert PIECE in said


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_a_piece_is_done_also_where_nobody_counts(piece: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.pieces", piece], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
