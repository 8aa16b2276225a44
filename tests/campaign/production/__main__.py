"""``python -m tests.campaign.production``: 50 turns, 20 heartbeats, 10 evolutions of a workspace of production size."""

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.campaign.production.life import Life, Span, Wrong
from tests.e2e.conftest import made


async def main() -> int:
    """Live once; print what it came to."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        person = made(Path(folder))
        os.environ |= {name: person.environment[name] for name in ("HOME", "GIT_CONFIG_NOSYSTEM", "TMPDIR")}
        try:
            found = await Life(person, Span()).live()
        except Wrong as error:
            print(f"wrong: {error}", file=sys.stderr)
            return 1
        finally:
            for runtime in person.doors:
                await runtime.close()
    said = ", ".join(f"{name} {number}" for name, number in found.items())
    print(f"{said}; {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
