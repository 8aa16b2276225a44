"""A sample of the siege, which `python -m tests.campaign.siege` plays at length, and its table in siege.md."""

from pathlib import Path

import pytest
from tests.campaign.siege import clone, page
from tests.campaign.siege.case import POSSIBLE, Case, batches, folder, table
from tests.campaign.siege.players import cases, is_possible_here, play
from tests.sandbox.conftest import KEY

PAGE = Path(__file__).parents[2] / "docs/reference/siege.md"


def wrong(chosen: list[Case]) -> dict[str, str]:
    return {one.case.name: one.wrong for batch in batches(chosen, 100) for one in play(batch) if one.wrong}


def sample(size: int, *begins: str) -> list[Case]:
    """So many cases of each attacker, door and level, by how their names begin, spread over all of them."""
    found = []
    for batch in batches(cases(), 1000):
        here = [case for case in batch if is_possible_here(case) and case.name.startswith(begins or "")]
        found += here[:: max(1, len(here) // size)][:size] if here else []
    return found


def test_the_page_has_the_table_of_the_siege() -> None:
    text = PAGE.read_text("utf-8")
    begin, end = "<!-- begin siege: tests/campaign/test_siege.py reads this table -->\n", "\n<!-- end -->"
    assert text.partition(begin)[2].partition(end)[0].splitlines() == table(cases())


def test_no_two_cases_have_one_name_and_each_attacker_has_some() -> None:
    names = [case.name for case in cases()]
    assert len(names) == len(set(names)) >= 600
    assert {case.who for case in cases()} == {"model", "repository", "page", "local user"}


@pytest.mark.slow
def test_nothing_gets_through_in_a_short_siege() -> None:
    begins = ("page/header", "model/instar's own tools/none", "repository/a trusted folder, later")
    assert wrong(sample(10, *begins)) == {}


@pytest.mark.slow
def test_nothing_gets_through_by_any_door_at_any_level() -> None:
    assert wrong(sample(1)) == {}


@pytest.mark.slow
def test_a_clone_with_rules_that_have_no_end_or_a_link_to_the_whole_disk_holds_nothing_up() -> None:
    whats = (
        "rules that are a pipe",
        "rules without an end",
        "very large rules",
        "a folder that leads to everything",
    )
    assert wrong([Case("repository", clone.DOORS[0], "any", what) for what in whats]) == {}


@pytest.mark.slow
def test_the_siege_sees_what_gets_through() -> None:
    open_ = [
        Case("model", "bash", "none", "read a hidden file"),
        Case("model", "bash", "none", "add a script"),
    ]
    seen = wrong(open_)
    assert KEY in seen[open_[0].name]
    assert "hooks/b.py" in seen[open_[1].name]
    held = Case("model", "instar's own tools", "none", "write a script", POSSIBLE)
    assert "docs/reference/confinement.md says that it is possible" in wrong([held])[held.name]
    with folder() as root:
        served = page.Port(root)
        try:
            assert "answered with 200, the sessions changed" in served.through(
                page.Asks("POST /session"), "127.0.0.1"
            )
            own = page.Asks("GET /file/content?path=../project/a.txt", answers=True)
            assert served.through(own, "127.0.0.1") == ""
        finally:
            served.served.stop()
