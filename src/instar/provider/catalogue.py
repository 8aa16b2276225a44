"""The dated catalogue of models that comes with instar: windows, prices, keys and addresses.

It holds what the maintainers knew at its date. An unknown price is null and an unknown window 0; the
configuration overrides both (``docs/models.md``).
"""

from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from instar.provider.protocol import ModelCost, ModelLimit

FILE: Final = Path(__file__).with_name("catalogue.json")


class Entry(msgspec.Struct, frozen=True):
    """A model: tokens of its window and longest answer, prices as input, output, cache read, cache write.

    `protocol` is its own where it differs from its provider's.
    """

    name: str
    context: int = 0
    output: int = 0
    cost: list[float | None] = []
    reasoning: bool = False
    attachment: bool = False
    temperature: bool = True
    tools: bool = True
    protocol: str | None = None

    @property
    def limit(self) -> ModelLimit:
        """The limits in a model's form."""
        return ModelLimit(context=self.context, output=self.output)

    @property
    def prices(self) -> ModelCost:
        """The prices in a model's form; what the catalogue does not give is None."""
        padded = [*self.cost, None, None, None, None]
        return ModelCost(input=padded[0], output=padded[1], cache_read=padded[2], cache_write=padded[3])


class Vendor(msgspec.Struct, frozen=True):
    """A provider: the variables that may hold its key, its address and models.

    `open`: it serves more models than any list can name. `local`: it needs no key. `base_env` names
    the variable that moves it to another address.
    """

    name: str
    env: list[str]
    url: str
    models: dict[str, Entry]
    protocol: str = "openai"
    default: str | None = None
    small: str | None = None
    base_env: str | None = None
    open: bool = False
    local: bool = False


class Catalogue(msgspec.Struct, frozen=True):
    """All providers, in the order in which a key makes one the default; `dated` says when this was true."""

    dated: str
    source: str
    providers: dict[str, Vendor]


@cache
def shipped() -> Catalogue:
    """Return the catalogue that comes with instar, read once."""
    return msgspec.json.decode(FILE.read_bytes(), type=Catalogue)


def vendor_wanting_key(provider_id: str, url: str) -> Vendor | None:
    """Return the vendor at whose own address `url` a call is refused without a key; else None.

    A server of one's own may need none.
    """
    vendor = shipped().providers.get(provider_id)
    wants = vendor is not None and not vendor.local and vendor.url == url and bool(vendor.env)
    return vendor if wants else None
