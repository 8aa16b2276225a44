"""Which model was used last: ``state/evolve.json`` in the workspace.

Scripts may write there too, so what is read is held to its form, and keys that are not ours are kept. Nothing is read
or written through a link.
"""

import logging
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugins.evolve.ledger import standing
from instar.plugins.evolve.settings import ModelName
from instar.plugins.evolve.storage import Storage

log = logging.getLogger("instar.evolve")

FILE: Final = "state/evolve.json"
LARGEST: Final = 1 << 20
"""Bytes of the file; a larger one is left alone."""

_IGNORE: Final = "state/.gitignore"
_KEY: Final = "model"
_NOTE: Final = "model"
"""The note in the storage."""
_NAME: Final = re.compile(r"[\w.:/@+~-]{1,200}")


class Unusable(Exception):
    """The file is there and cannot be used; the text says where, why and what to do. It is left as it is."""


def last_model(root: Path) -> ModelName | None:
    """Return the model that was used last in the workspace at `root`; None where that is not known.

    Raises `Unusable`. The name is not known to be one that a provider has.
    """
    try:
        found = msgspec.convert(_read(root).get(_KEY), ModelName)
    except msgspec.ValidationError:
        return None
    named = _NAME.fullmatch(found.provider_id) and _NAME.fullmatch(found.model_id)
    return found if named else None


def note(storage: Storage, root: Path, model: ModelName) -> None:
    """Write down which model a person used, once: what a script writes there afterwards stands.

    What cannot be written is logged.
    """
    kept = {_KEY: msgspec.to_builtins(model)}
    if storage.note(_NOTE) == kept:
        return
    try:
        remember(root, model)
        storage.keep(_NOTE, kept)
    except (Unusable, OSError) as error:
        log.warning("heartbeat=model problem=%r", str(error))


def remember(root: Path, model: ModelName) -> bool:
    """Write down the model that was used; False where it stood there already. Raises `Unusable` and `OSError`.

    A file that is made here is told to git as one to ignore: each turn would leave the workspace changed.
    """
    data = _read(root)
    said = msgspec.to_builtins(model)
    if data.get(_KEY) == said:
        return False
    if not any((root / path).exists() for path in (FILE, _IGNORE)):
        standing.put(root, _IGNORE, b"evolve.json\n.gitignore\n", 0o644)
    content = msgspec.json.format(msgspec.json.encode({**data, _KEY: said}), indent=2) + b"\n"
    standing.put(root, FILE, content, 0o644)
    return True


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
