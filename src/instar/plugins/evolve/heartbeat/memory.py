"""What the heartbeat remembers: the session that it beats in, and which model was used last.

The model stands in ``state/evolve.json`` in the workspace. Scripts may write there too, so what is read is held to its
form, and keys that are not ours are kept. Nothing is read or written through a link.
"""

import logging
import re
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugin import Client, Invalid, NotFound, Origin, SessionBody, message
from instar.plugins.evolve.books import Books
from instar.plugins.evolve.heartbeat.cleanup import CleanupDecision
from instar.plugins.evolve.heartbeat.schedule import Decision
from instar.plugins.evolve.ledger import place, standing, vault
from instar.plugins.evolve.ledger.journal import JournalPiece
from instar.plugins.evolve.ledger.standing import Version
from instar.plugins.evolve.settings import EvolveSettings, ModelName

log = logging.getLogger("instar.evolve")

FILE: Final = "state/evolve.json"
LARGEST: Final = 1 << 20
"""Bytes of the file; a larger one is left alone."""

_KEY: Final = "model"
_NOTE: Final = "model"
"""The note in the books."""
_SESSION_NOTE: Final = "heartbeat"
"""The note in the books that says which session it is, by the directory that instar runs in."""
_NAME: Final = re.compile(r"[\w.:/@+~-]{1,200}")


class Unusable(Exception):
    """The file is there and cannot be used; the text says where, why and what to do. It is left as it is."""


def last_model(root: Path) -> ModelName | None:
    """Return the model that was used last in the workspace at `root`; None where that is not known.

    Raises `Unusable`. The name is not known to be one that a provider has.
    """
    found = _read(root).get(_KEY)
    if not isinstance(found, dict):
        return None
    names = [found.get("providerID"), found.get("modelID")]
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names):
        return None
    return ModelName(*map(str, names))


def note(books: Books, model: ModelName) -> None:
    """Keep in mind which model a person used, until the next beat writes it down.

    A workspace that never beats gets no file of ours. What cannot be kept is logged.
    """
    said = _plain(model)
    kept = books.note(_NOTE)
    if isinstance(kept, dict) and kept.get(_KEY) == said:
        return
    try:
        books.keep(_NOTE, {_KEY: said, "written": False})
    except OSError as error:
        log.warning("heartbeat=model problem=%r", str(error))


def write_down(books: Books, root: Path) -> None:
    """Write down what `note` has kept, once: what a script writes there afterwards stands. Raises as `remember`."""
    kept = books.note(_NOTE)
    if not isinstance(kept, dict) or kept.get("written") is not False:
        return
    said = kept[_KEY]
    remember(root, ModelName(said["providerID"], said["modelID"]))
    books.keep(_NOTE, {**kept, "written": True})


def remember(root: Path, model: ModelName) -> bool:
    """Write down the model that was used; False where it stood there already. Raises `Unusable` and `OSError`."""
    data = _read(root)
    said = _plain(model)
    if data.get(_KEY) == said:
        return False
    content = msgspec.json.format(msgspec.json.encode({**data, _KEY: said}), indent=2) + b"\n"
    place.put(root, JournalPiece(FILE, None, Version(vault.sha256(content), 0o644, len(content))), content)
    return True


def _plain(model: ModelName) -> dict[str, str]:
    return {"providerID": model.provider_id, "modelID": model.model_id}


def _read(root: Path) -> dict[str, Any]:
    path = root / FILE
    if path.parent.is_symlink():
        raise Unusable(f"{path.parent} is a symbolic link: make it a folder")
    try:
        if path.lstat().st_size > LARGEST:
            raise Unusable(f"{path} is larger than {LARGEST >> 20} MiB: make it smaller, or delete it")
        data = msgspec.json.decode(standing.read(root, FILE, keep=True).data or b"")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, standing.NotPlain) as error:
        raise Unusable(f"{path} cannot be read ({error}): mend or delete it") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unusable(f"{path} is not JSON ({error}): mend or delete it") from None
    if not isinstance(data, dict):
        raise Unusable(f"{path} should hold a JSON object: mend or delete it")
    return data


class HeartbeatSession:
    """The heartbeat's session in `directory`: a session works in one directory, a workspace is used from several."""

    def __init__(self, client: Client, books: Books, directory: str) -> None:
        self._client = client
        self._books = books
        self._directory = directory

    @property
    def id(self) -> str:
        """The session's id as it was last; "" where there is none."""
        return self._kept().get(self._directory, "")

    async def find(self) -> message.Session | None:
        """Return the session; None where there is none, or it was deleted or put away."""
        if not self.id:
            return None
        try:
            found = await self._client.session.get(self.id)
        except NotFound:
            return None
        return None if found.time.archived or found.directory != self._directory else found

    async def make(self, settings: EvolveSettings) -> message.Session:
        """Make a new session and keep in mind that it is this one. Raises `Invalid` and `OSError`."""
        body = SessionBody(title=settings.heartbeat_title, agent=settings.heartbeat_agent)
        made = await self._client.session.create(body)
        self._books.keep(_SESSION_NOTE, {**self._kept(), self._directory: made.id})
        return made

    async def clean(self, session_id: str, verdict: CleanupDecision, origin: Origin) -> Decision:
        """Do what was decided about the session, and return what was done: ``none`` where it could not be.

        `origin` is whose the call for a summary is.

        What failed is decided on again after the next beat.
        """
        try:
            match verdict.decision:
                case "new":
                    self._leave()
                case "archive":
                    self._leave()
                    await self._client.session.update(session_id, archived=time.time_ns() // 1_000_000)
                case "compact":
                    await self._client.session.summarize(session_id, origin=origin)
                    await self._check_summary(session_id)
                case _:
                    return verdict.decision
        except (Invalid, NotFound, OSError) as error:
            log.warning("heartbeat=%s session=%s failed=%r", verdict.decision, session_id, str(error))
            return "none"
        log.info("heartbeat=%s session=%s why=%r", verdict.decision, session_id, verdict.why)
        return verdict.decision

    async def _check_summary(self, session_id: str) -> None:
        """Raise `Invalid` where the session was not summarised."""
        for found in reversed(await self._client.session.messages(session_id)):
            info = found.info
            if isinstance(info, message.Assistant) and info.summary:
                if info.error is None:
                    return
                break
        raise Invalid("the session could not be summarised")

    def _leave(self) -> None:
        self._books.keep(
            _SESSION_NOTE, {key: value for key, value in self._kept().items() if key != self._directory}
        )

    def _kept(self) -> dict[str, str]:
        return self._books.note(_SESSION_NOTE) or {}
