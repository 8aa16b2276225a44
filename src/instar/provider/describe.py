"""A model as plugins see it: without its key."""

from instar import wire
from instar.provider.protocol import Model


def describe(model: Model) -> wire.Plain:
    """Return a model's id, provider, name, limits, prices and options, without its key."""
    return {
        "id": model.id,
        "providerID": model.provider_id,
        "name": model.name,
        "limit": wire.to_plain(model.limit),
        "cost": wire.to_plain(model.cost),
        "options": model.options,
    }
