"""Profiles: what the agent keeps of its runtime for a later run, in ``config/profiles``.

Any plugin may keep one through the view `evolve.profiles`: it is changed like every guarded file, through the gate and
as a commit. What a profile says is for who made it; evolve sees that it is one JSON object.
"""

import re
from typing import Any, Final

import msgspec

from instar.plugin import Method, Value, View, wire
from instar.plugins.evolve.candidate import PROFILES, CandidateRefused
from instar.plugins.evolve.engine import EvolveEngine
from instar.plugins.evolve.install import ChangeCause, NotChanged
from instar.plugins.evolve.workspace import OutsideWorkspace

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
"""A profile's name: also that of its file, without ``.json``."""
_NAMED: Final[wire.Plain] = {"type": "string", "description": "The profile."}


class Profiles:
    """The profiles of one workspace."""

    def __init__(self, engine: EvolveEngine) -> None:
        self._engine = engine

    def view(self) -> View:
        """Return what others may do with them."""
        names = Value(doc="The names of the profiles.", read=lambda session: self.names(), scope="instance")
        load = Method(
            doc="Returns the accepted version of a profile.",
            parameters={"type": "object", "properties": {"name": _NAMED}, "required": ["name"]},
            run=lambda session, args: self.load(args["name"]),
        )
        keep = Method(
            doc="Keeps a profile in the workspace, through the gate.",
            parameters={
                "type": "object",
                "properties": {"name": _NAMED, "profile": {"type": "object"}},
                "required": ["name", "profile"],
            },
            run=self.keep,
            acts=True,
            writes=True,
            timeout=600.0,
        )
        doc = "Profiles for a run: instar run --profile NAME."
        return View("evolve.profiles", doc, {"names": names, "load": load, "keep": keep})

    def names(self) -> list[str]:
        """Return the names of the accepted ones, in order."""
        found = self._engine.storage.ledger.files
        return sorted(
            path.removeprefix(PROFILES).removesuffix(".json") for path in found if path.startswith(PROFILES)
        )

    def load(self, name: str) -> wire.Plain:
        """Return the accepted version of a profile. Raises `ValueError` with a sentence."""
        path = path_of(name)
        if self._engine.safe is not None:
            raise ValueError(f"{path} is not read: a safe run starts with none of the agent's changes")
        if path not in self._engine.storage.ledger.files:
            known = ", ".join(self.names()) or "none yet"
            raise ValueError(f"there is no profile {name!r} in {self._engine.real.root} (there are: {known})")
        content = self._engine.storage.ledger.good(path)
        if content is None:
            raise ValueError(f"no copy of the accepted version of {path} is left")
        try:
            found: Any = msgspec.json.decode(content)
        except msgspec.DecodeError as error:
            raise ValueError(f"{path} is not JSON: {error}") from None
        if not isinstance(found, dict):
            raise ValueError(f"{path} is no JSON object")
        return found

    async def keep(self, session_id: str, args: wire.Plain) -> str:
        """Keep a profile, and return where. Raises `ValueError` with a sentence; then all is as it was."""
        path, real = path_of(args["name"]), self._engine.real
        encoded = msgspec.json.encode(args["profile"], order="sorted")
        text = msgspec.json.format(encoded, indent=2).decode() + "\n"
        if self._engine.storage.ledger.good(path) == text.encode():
            return f"{path} (it says so already)"
        try:
            real.resolve(real.root / PROFILES.rstrip("/"), f"{args['name']}.json")
            cause = ChangeCause(tool="self", session=session_id)
            installed = await self._engine.evolution.change(path, lambda before: text, cause)
        except (NotChanged, OutsideWorkspace) as error:
            raise ValueError(str(error)) from None
        except CandidateRefused as error:
            raise ValueError(
                f"{path} was not changed: {error} (refused at the stage {error.stage})"
            ) from None
        commit = f"commit {installed.commit.id}" if installed.commit else "not committed: git failed"
        return f"{path} ({commit})"


def path_of(name: str) -> str:
    """Return the path of a profile in the workspace. Raises `ValueError` for a name that is none."""
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name[:80]!r} is no name of a profile: letters, digits, - and _, 64 at most, no - or _ first"
        )
    return f"{PROFILES}{name}.json"
