"""A sample of what ``python -m tests.campaign.production`` lives at length."""

import pytest
from tests.campaign.production.life import Life, Span


@pytest.mark.slow
async def test_a_workspace_of_production_size_lives_through_turns_heartbeats_and_evolutions(person):
    found = await Life(person, Span(turns=10, beats=1, evolutions=1)).live()
    assert found["sessions"] == 1
    assert found["commits"] > 10
