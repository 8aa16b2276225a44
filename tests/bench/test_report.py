"""The page of figures is made from the kept run, and cannot say anything else."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from bench.report import IMAGES, PAGE, RUN, grouped, main, outputs, pictures, table, written


def run() -> Any:
    return json.loads(RUN.read_text("utf-8"))


def row(what: str, **more: Any) -> dict[str, Any]:
    return {
        "what": what,
        "unit": "ms",
        "instar": 1,
        "opencode": 2,
        "budgets": [],
        "aim": None,
        "holds": None,
        **more,
    }


def test_the_page_and_its_plots_are_those_of_the_kept_run() -> None:
    for path, text in outputs(run(), PAGE, IMAGES):
        assert path.read_text("utf-8") == text, f"{path}: `python -m bench.report` writes it anew"


def test_every_row_of_the_kept_run_stands_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    assert [one["what"] for one in run()["rows"] if f"| {one['what']}" not in page] == []


@pytest.mark.parametrize(
    ("what", "group"),
    [
        ("cold: run, one word", "start"),
        ("memory, idle", "start"),
        ("as shipped: warm turn, p50", "turns"),
        ("as shipped: 64 at once, p99", "crowds"),
        ("as shipped: 1 session", "crowds"),
        ("10,000 deltas at once to 1 client: memory after", "streams"),
        ("growth: turn 400", "growth"),
        ("a session of 100,000 parts: import", "large"),
        ("with evolve: a call of read", "evolve"),
        ("evolve: a tool that notifies 50 sessions, all told", "evolve"),
    ],
)
def test_a_row_stands_in_the_table_of_its_scene(what: str, group: str) -> None:
    assert [name for name, rows in grouped([row(what)]).items() if rows] == [group]


def test_a_missed_floor_is_said_and_what_opencode_has_not_is_a_dash() -> None:
    text = table([row("a", opencode=None, budgets=["≤ 150"], holds=False), row("b", holds=True, aim="≤ 4")])
    assert "| a, ms | 1.00 | - | - | ≤ 150 | **missed** |  |" in text
    assert "| b, ms | 1.00 | 2.00 | 0.500 × |  | holds | ≤ 4 |" in text


def test_the_plots_are_pictures_that_name_what_they_show() -> None:
    for name, text in pictures(run()).items():
        words = "".join(ElementTree.fromstring(text).itertext())
        assert "×" in words if name == "performance-ratio.svg" else "opencode" in words


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="machine"):
        written("# Performance\n", run())


def test_a_run_that_is_none_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run.json"
    file.write_text("{")
    with pytest.raises(SystemExit):
        main([str(file)])
    assert "make beside" in capsys.readouterr().err
