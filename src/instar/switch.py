"""The seed's ``config.yaml``: the one switch that may stand in it (seed 001 "Enabling").

It stands beside ``instar.json`` and says ``tools: self_evolution: true``. Many programs have a file of this name: one
that does not name the switch is another's, and is not looked at further.
"""

from pathlib import Path
from typing import Final, NamedTuple

from instar.document import DocumentError
from instar.front_matter import LONGEST, Place, yaml_file
from instar.wire import Plain

NAME: Final = "config.yaml"
"""The file's name."""
_TOOLS: Final = "tools"
_SWITCH: Final = "self_evolution"


class Switch(NamedTuple):
    """What the file says, in the form of the settings, and the keys that nobody reads, with line and column."""

    data: Plain
    others: list[tuple[Place, tuple[int, int]]]


def names_it(path: Path) -> bool:
    """Whether the file at `path` is ours: a plain file whose beginning names the switch."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return _SWITCH.encode() in file.read(LONGEST)
    except OSError:
        return False


def read(text: str, source: str) -> Switch:
    """Return what the file says. Raises `DocumentError`, with line and column, for what is no YAML or no switch."""
    found = yaml_file(text, source)
    tools = found.data.get(_TOOLS)
    others: list[Place] = [(key,) for key in found.data if key != _TOOLS]
    if not isinstance(tools, dict):
        if tools is not None:
            raise DocumentError(source, *found.places[(_TOOLS,)], "tools: expected names with true or false")
        return Switch({}, _placed(others, found.places))
    others += [(_TOOLS, key) for key in tools if key != _SWITCH]
    if _SWITCH not in tools:
        return Switch({}, _placed(others, found.places))
    on = tools[_SWITCH]
    if not isinstance(on, bool):
        place = found.places[(_TOOLS, _SWITCH)]
        raise DocumentError(source, *place, f"tools.{_SWITCH}: expected true or false")
    return Switch({_TOOLS: {_SWITCH: on}}, _placed(others, found.places))


def _placed(paths: list[Place], places: dict[Place, tuple[int, int]]) -> list[tuple[Place, tuple[int, int]]]:
    return [(path, places.get(path, (1, 1))) for path in paths]
