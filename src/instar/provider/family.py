"""Short names of models, as files of Claude Code write them: ``haiku`` is the newest Claude Haiku that can be called.

Source: issue 8 (a file of Claude Code runs as it stands); its documents name ``haiku``, ``sonnet`` and ``opus``.
"""

import re
from typing import Final

from instar.provider.assemble import UnknownModel
from instar.provider.protocol import Model
from instar.provider.resolve import Models

FAMILIES: Final = ("haiku", "sonnet", "opus")
"""The names that stand for a family."""
_NUMBER: Final = re.compile(r"(?<!\d)\d{1,2}(?!\d)")
"""Part of a version; a date is longer."""


def find_named(models: Models, ref: str, beside: Model | None = None) -> Model:
    """Return the model of a reference; of a family's name the newest one, of the provider of `beside` first.

    A model that is listed under the short name itself is meant by it. Providers that an untrusted project brought are
    not looked at. Raises `UnknownModel`.
    """
    try:
        return models.find(ref)
    except UnknownModel:
        name = ref.removeprefix("/").lower()
        if name not in FAMILIES:
            raise
    found = [
        model for model in models.list() if _is_of(model, name) and not models.is_foreign(model.provider_id)
    ]
    if not found:
        raise UnknownModel(
            f"the model {name!r} stands for the newest Claude {name.title()}, and no provider that can be called here "
            "lists one; write provider/model in its place (instar models lists what there is), or no model at all"
        )
    own = [model for model in found if beside is not None and model.provider_id == beside.provider_id]
    first = [model for model in found if model.provider_id == found[0].provider_id]
    return max(own or first, key=_version)


def _is_of(model: Model, family: str) -> bool:
    return {"claude", family} <= set(re.split(r"[^a-z]+", model.id.lower()))


def _version(model: Model) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(model.id.rpartition("/")[2]))
