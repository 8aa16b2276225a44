"""What hooks, tools and functions of JavaScript plugins need of their host."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from instar.message import WithParts
from instar.wire import Plain


class Speaking(Protocol):
    """The way to the child. Every method raises `JavaScriptError` where there is none, or where JavaScript throws."""

    @property
    def is_up(self) -> bool:
        """Whether the child runs."""
        ...

    async def request(self, method: str, params: Plain) -> Any:
        """Ask the child."""
        ...

    async def tell(self, method: str, params: Plain) -> None:
        """Tell the child something."""
        ...

    async def send_messages(self, params: Plain, messages: Sequence[WithParts]) -> Plain | None:
        """Let a hook change messages; None when it changed none."""
        ...

    def keep_login(self, plugin: str, get_auth: Callable[[], Awaitable[Any]]) -> None:
        """Let a plugin's login ask `get_auth` what is kept of it."""
        ...

    async def run_tool(self, call: Any, params: Plain) -> Plain:
        """Run a tool; `call` is what the child may ask while it runs."""
        ...
