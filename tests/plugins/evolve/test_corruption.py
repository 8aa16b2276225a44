"""A sample of the campaign against corruption, which `python -m tests.campaign.corruption` runs at length."""

import asyncio
import shutil
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.campaign import corruption
from tests.campaign.corruption import Damage
from tests.campaign.stores import StoresWorld
from tests.waiting import take_quickest

from instar.process import Processes

DAMAGES = st.lists(
    st.builds(Damage, st.sampled_from(corruption.ACTIONS), *(st.integers(0, 1 << 30) for _ in range(3))),
    min_size=1,
    max_size=3,
)


class Stage:
    """A world that synchronous tests can play in."""

    def __init__(self, folder: str) -> None:
        self._runner = asyncio.Runner()
        self.world = self._runner.run(self._make(folder))

    async def _make(self, folder: str) -> corruption.World:
        self._processes = Processes()
        world = corruption.World(corruption.Path(folder), self._processes)
        await world.make()
        return world

    def play(self, damages: list[Damage]) -> float:
        return self._runner.run(self.world.play(damages))

    def close(self) -> None:
        self._runner.run(self._processes.close())
        self._runner.close()


@pytest.fixture
def stage(person):
    with tempfile.TemporaryDirectory(dir=corruption.MEMORY) as folder:
        stage = Stage(folder)
        yield stage
        stage.close()


# Not shrunk: a round that waits for something takes its time each time.
@pytest.mark.slow
@settings(
    max_examples=80,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(DAMAGES)
def test_whatever_is_damaged_an_accepted_version_of_every_file_serves_within_two_seconds(stage, damages):
    assert take_quickest(lambda: stage.play(damages), corruption.SECONDS) < corruption.SECONDS


def test_the_campaign_sees_a_version_that_was_never_accepted(stage):
    stage.world.accepted["hooks/bot.sh"].clear()
    with pytest.raises(AssertionError, match=r"hooks/bot\.sh"):
        stage.play([Damage("append", 0, 0, 0)])


def test_damage_never_follows_a_link_out_of_the_world(tmp_path):
    outside, link = tmp_path / "outside", tmp_path / "world" / "link"
    outside.write_text("as it was")
    for action in corruption.ACTIONS:
        shutil.rmtree(link.parent, ignore_errors=True)
        link.parent.mkdir()
        link.symlink_to(outside)
        for at in range(8):
            corruption.damage([link], Damage(action, 0, 0, at))
    assert (outside.read_text(), outside.stat().st_mode & 0o777) == ("as it was", 0o644)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damages=DAMAGES)
def test_whatever_is_damaged_of_the_database_a_start_works_or_says_why_in_one_line(stores, damages):
    stores.play(damages)


@pytest.fixture
def stores():
    with tempfile.TemporaryDirectory(dir=corruption.MEMORY) as folder:
        world = StoresWorld(corruption.Path(folder))
        world.make()
        yield world
