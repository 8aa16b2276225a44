"""A clock that moves only when a test moves it."""

import asyncio


class FakeClock:
    """Give it to code that takes a clock: a function that returns seconds, or an object with `wall` and `steady`.

    `now` is the time in ms since 1970, `uptime` the ms since the machine was started. Setting one does not change the
    other, as on a machine whose clock is set.
    """

    def __init__(self, now: int = 1_800_000_000_000) -> None:
        self.now = now
        self.uptime = 0

    def __call__(self) -> float:
        """Return the time in seconds since 1970."""
        return self.now / 1000

    def wall(self) -> int:
        """Return the time in ms since 1970."""
        return self.now

    def steady(self) -> float:
        """Return the seconds since the machine was started."""
        return self.uptime / 1000

    def advance(self, seconds: float) -> None:
        """Let time go by, in whole ms."""
        passed = round(seconds * 1000)
        self.now += passed
        self.uptime += passed

    async def pause(self, wake: asyncio.Event, seconds: float) -> None:
        """Let `seconds` go by at once, at least a ms; no time when `wake` is set."""
        if not wake.is_set():
            self.advance(max(0.001, seconds))
