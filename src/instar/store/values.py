"""What a plugin keeps in the store."""

from typing import Any

from instar.store import PutValue
from instar.store.store import Store


class Values:
    """The values of one plugin."""

    def __init__(self, store: Store, plugin: str) -> None:
        self._store = store
        self._plugin = plugin

    async def get(self, key: str) -> Any:
        """Return the value for `key`, or None."""
        return await self._store.value(self._plugin, key)

    async def set(self, key: str, value: Any) -> None:
        """Set the value for `key`; None deletes it."""
        await self._store.commit([PutValue(self._plugin, key, value)])

    async def swap(self, key: str, before: Any, value: Any) -> bool:
        """Set the value for `key` if it still is `before` (None: there is none); return whether it was."""
        return await self._store.swap_value(self._plugin, key, before, value)

    async def list(self, prefix: str = "") -> dict[str, Any]:
        """Return the keys that start with `prefix`, with their values."""
        return await self._store.values(self._plugin, prefix)
