"""The routes of trust: what steers in a directory and is not as it was accepted, and accepting it."""

import asyncio
import hashlib
from collections.abc import Mapping
from pathlib import Path

from instar.api.config import AcceptedChange, TrustBody, TrustState
from instar.api.operation import operation
from instar.plugin import Invalid
from instar.server.call import Call
from instar.session.instance import Instance
from instar.settings.load import folder_chain
from instar.settings.steered import Found
from instar.settings.trust import Trust, TrustError
from instar.store.trust import trust_at
from instar.wire.document import DocumentError


class TrustRoutes:
    """What steers in a directory's folders. Only a person accepts it: with the server's password, or in a terminal."""

    @operation("GET", "/instar/trust", "instar.trust.get")
    async def get(self, call: Call, instance: Instance) -> TrustState:
        """Tell what steers in the directory and is not heard, with diffs, as ``instar trust diff``."""
        trust = Trust(call.instances.paths, call.instances.environment)
        return (await asyncio.to_thread(_state, trust, instance))[0]

    @operation("POST", "/instar/trust", "instar.trust.accept", order=True)
    async def accept(self, call: Call, instance: Instance, body: TrustBody) -> TrustState:
        """Trust the directory, and accept what steers in it as it was shown: `version` says which that was.

        Refused where it is another by now.
        """
        trust = await asyncio.to_thread(trust_at, call.instances.paths, call.instances.environment)

        def accepted() -> TrustState:
            state, found = _state(trust, instance)
            if state.version != body.version:
                raise Invalid("what steers here is another than the version that is accepted: get it again")
            trust.add(next(iter(found)), found)
            return _state(trust, instance)[0]

        try:
            return await asyncio.to_thread(accepted)
        except TrustError as error:
            raise Invalid(str(error)) from error


def _state(trust: Trust, instance: Instance) -> tuple[TrustState, Mapping[Path, Found]]:
    """What is told, and what steers in the folders by now."""
    try:
        found = {
            one: files
            for folder in folder_chain(instance.directory, instance.project)
            for one, files in trust.found(folder).items()
        }
    except (TrustError, DocumentError) as error:
        raise Invalid(str(error)) from error
    told = hashlib.sha256()
    for path, file in sorted((path, file) for files in found.values() for path, file in files.items()):
        told.update(f"{path}\0{file.entry}\n".encode(errors="surrogateescape"))
    changes = [
        AcceptedChange(file=str(folder / change.name), change=change.how, diff=diff)
        for folder, files in found.items()
        for change, diff in trust.steering.diff(trust.compared(folder), files)
    ]
    folders, trusted = [str(folder) for folder in found], trust.is_trusted(instance.directory)
    return TrustState(folders=folders, trusted=trusted, changes=changes, version=told.hexdigest()), found
