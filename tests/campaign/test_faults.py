"""The fault matrix: a quarter of its cells, another one at each place; `make campaign` plays them all."""

from pathlib import Path

import pytest
from tests.campaign.faults import EXPECTED, PLACES, play


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_what_fails_comes_to_the_end_that_the_table_says(place: str, tmp_path: Path) -> None:
    at = PLACES.index(place)
    kinds = [
        kind
        for number, kind in enumerate(kind for kind in EXPECTED if EXPECTED[kind][at])
        if (number + at) % 4 == 0
    ]
    found = play(place, tmp_path, kinds)
    assert list(found) == kinds
    assert {kind: texts for kind, texts in found.items() if texts} == {}


def test_the_table_has_an_outcome_for_each_place_and_25_kinds() -> None:
    assert len(EXPECTED) >= 25
    assert {len(outcomes) for outcomes in EXPECTED.values()} == {len(PLACES)}
    known = {"runs", "denied", "told", "answers", "ends", ""}
    assert {outcome for outcomes in EXPECTED.values() for outcome in outcomes} == known
