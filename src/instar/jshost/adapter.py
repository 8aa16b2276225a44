"""A workspace adapter of a JavaScript plugin as instar's (seed 004 section 6)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from instar.plugin import LocalTarget, RemoteTarget, Target, WorkspaceInfo, wire
from instar.wire import Plain


class Adapter:
    """How workspaces of one type are made, by the functions of `given`, which the child has."""

    def __init__(self, given: Plain) -> None:
        self.name = str(given.get("name", ""))
        self.description = str(given.get("description", ""))
        self._given = given

    async def configure(self, info: WorkspaceInfo) -> WorkspaceInfo:
        """Return `info` as it will be kept. Raises `JavaScriptError`, and `msgspec.ValidationError`."""
        return wire.decode(await self._call("configure", info), WorkspaceInfo)

    async def create(
        self, info: WorkspaceInfo, env: Mapping[str, str], from_: WorkspaceInfo | None = None
    ) -> None:
        """Make the workspace. Raises `JavaScriptError`."""
        await self._call("create", info, dict(env), *([] if from_ is None else [from_]))

    async def remove(self, info: WorkspaceInfo) -> None:
        """Unmake the workspace. Raises `JavaScriptError`."""
        await self._call("remove", info)

    async def target(self, info: WorkspaceInfo) -> Target:
        """Return where the workspace is. Raises `JavaScriptError`, and `ValueError` for no place."""
        found = await self._call("target", info)
        if found.get("type") == "local":
            return LocalTarget(Path(found["directory"]))
        if found.get("type") == "remote":
            return RemoteTarget(str(found["url"]), dict(found.get("headers") or {}))
        raise ValueError(f"its target is {found!r}: expected a local or a remote one")

    async def _call(self, name: str, *args: Any) -> Any:
        if not callable(self._given.get(name)):
            raise ValueError(f"the adapter has no function {name}")
        return await self._given[name](*args)
