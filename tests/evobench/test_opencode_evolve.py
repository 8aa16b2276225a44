"""The adapter for opencode with opencode-evolve, with a program of the same settings, commands and tools: instar."""

import asyncio
from pathlib import Path

import pytest
from bench.contender import Program, instar
from evobench.adapters.opencode_evolve import OpencodeEvolve, ProgramFailed, opened
from evobench.worlds import World

from evobench import arena


@pytest.mark.slow
def test_a_program_is_led_through_a_world_by_its_command_line(tmp_path: Path) -> None:
    world = World(1, proposals=4)
    with opened(world, tmp_path, instar(), "opencode-evolve") as agent:
        course = asyncio.run(arena.play(world, agent)).line()
    installed = {
        kind for kind, said in zip(world.kinds, course["decisions"], strict=True) if said == "installed"
    }
    assert installed >= {"useful", "neutral"} & set(world.kinds)
    assert "broken" not in installed


def test_a_program_that_fails_says_why(tmp_path: Path) -> None:
    program = Program("opencode", ["sh", "-c", "echo no such model; exit 3"])
    with opened(World(1, proposals=4), tmp_path, program, "file:///plugin.ts") as agent:
        assert isinstance(agent, OpencodeEvolve)
        with pytest.raises(ProgramFailed, match="no such model"):
            asyncio.run(agent.use())
