"""Hook points: the places where the core calls plugins, each declared once with its contract.

A hook point has a typed input (read it), a typed output, a struct (change it in place), and an error policy:
a failing plugin at a *gate* refuses the action; anywhere else its half-made changes are discarded,
``plugin.error`` is published, and the turn goes on (design section 4).
"""

from typing import Any, Final, Generic, TypeVar

import msgspec

I = TypeVar("I")  # noqa: E741 - the input
O = TypeVar("O")  # noqa: E741 - the output


class HookPoint(msgspec.Struct, Generic[I, O], frozen=True):
    """One declared place. `aliases` are other names that a plugin may subscribe under."""

    name: str
    input: type[I]
    output: type[O]
    gate: bool
    doc: str
    aliases: tuple[str, ...] = ()


class Refused(Exception):
    """A plugin refused an action at a gate; the text is its reason."""

    def __init__(self, plugin: str, hook: str, reason: str) -> None:
        super().__init__(reason)
        self.plugin = plugin
        self.hook = hook


class HookPoints:
    """The declared hook points by name; a plugin may add its own with `declare`."""

    def __init__(self) -> None:
        self._by_name: dict[str, HookPoint[Any, Any]] = {}

    def declare(self, point: HookPoint[I, O]) -> HookPoint[I, O]:
        """Add a hook point; the same one may be declared again, by the plugin of another instance.

        Raises `ValueError` when one of its names is another one's.
        """
        for name in (point.name, *point.aliases):
            if self._by_name.get(name, point) != point:
                raise ValueError(f"hook point {name!r} is declared twice")
            self._by_name[name] = point
        return point

    def find(self, name: str) -> HookPoint[Any, Any] | None:
        """Return the hook point that goes by `name` or an alias of it."""
        return self._by_name.get(name)

    def all(self) -> list[HookPoint[Any, Any]]:
        """Return every hook point once, in the order of declaration."""
        return list(dict.fromkeys(self._by_name.values()))


NOT_POINTS: Final = ("event", "config", "tool", "dispose", "auth", "provider", "timeout")
"""Keys of a plugin's hooks that are registrations, not hook points."""
