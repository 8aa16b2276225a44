"""What bubblewrap's mounts hold by themselves."""

import os
from pathlib import Path

from tests.sandbox.conftest import Home

from instar.process import Processes
from instar.sandbox.probe import find_level


async def test_mounts_alone_hold_without_landlock_inside(processes: Processes, home: Home) -> None:
    level = await find_level(processes, os.environ)
    before = home.guarded()
    script = "echo evil > hooks/a.py; unshare -Urm umount -l hooks; mv ../ws ../old; mkdir prompts; echo x > prompts/y"
    done = await processes.run(
        ["bash", "-c", script],
        cwd=home.workspace,
        env=home.environment(),
        confine=home.shield(level, inside=False),
    )
    assert done.code != 0
    assert home.guarded() == before
    assert Path(home.workspace / "prompts").is_dir()
