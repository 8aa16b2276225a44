"""The blocks that guard: `shield` of the core, and what flagships bring (`instar.flagship.Section`).

A file may say only what such a block has: a guard that a typing error takes away would let things through.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from instar.config.fault import ConfigError, check_keys, describe, fault
from instar.flagship import section_kind, section_names


class ShieldConfig(msgspec.Struct, frozen=True):
    """The ``shield`` block (issue 5): how children that are started for the model are held back.

    ``tighter`` is explained by `instar.config.guarding`; the descriptions are those of the JSON Schema and of
    docs/configuration.md.
    """

    level: Annotated[
        Literal["auto", "bubblewrap", "landlock", "none"],
        Meta(
            description="How far children are confined at most; `auto`: as far as this machine can.",
            extra={"tighter": ["none", "landlock", "bubblewrap", "auto"]},
        ),
    ] = "auto"
    env: Annotated[
        list[str],
        Meta(
            description="Variables that children get although they look like secrets.",
            extra={"tighter": "fewer"},
        ),
    ] = []

    @property
    def at_most(self) -> Literal["bubblewrap", "landlock", "none"]:
        """The level up to which to look for what the machine can do."""
        return "bubblewrap" if self.level == "auto" else self.level


_OF_THE_CORE: Final[Mapping[str, type[msgspec.Struct]]] = MappingProxyType({"shield": ShieldConfig})

SECTIONS: Final = (*_OF_THE_CORE, *section_names())
"""The top-level keys that guard: a project's file is heard in them only as far as the person vouches for it."""


def kind_of(name: str) -> type[msgspec.Struct]:
    """Return the struct that says what the block `name` of `SECTIONS` may hold; for a flagship's, import it."""
    return _OF_THE_CORE[name] if name in _OF_THE_CORE else section_kind(name)


def check_section(name: str, block: Any, origin: str) -> None:
    """Raise `ConfigError` at the first mistake in the block `name` of `SECTIONS`."""
    if name not in SECTIONS:
        raise ConfigError(origin, (name,), f"expected one of {', '.join(SECTIONS)}")
    if not isinstance(block, dict):
        raise ConfigError(origin, (name,), f"expected a map, found {describe(block)}")
    kind = kind_of(name)
    check_keys(block, kind.__struct_fields__, (name,), origin)
    found = fault(block, kind, (name,))
    if found is not None:
        raise ConfigError(origin, *found)
    try:
        msgspec.json.encode(block)
    except UnicodeEncodeError:
        text = "expected text that UTF-8 can hold, found half of a surrogate pair"
        raise ConfigError(origin, (name,), text) from None
