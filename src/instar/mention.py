"""Mentions: ``@path`` and ``@agent`` in a text become a prompt's file and agent parts; the text stays as it is."""

import mimetypes
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from instar.wire import Plain

_MENTION: Final = re.compile(r"(?<![\w`@/.])@([^\s`,@\0]+)")
_ENDINGS: Final = ".,;:!?)]}>'\""


class Outside(Exception):
    """A mention of a file that may not be shown; the text names it."""


def mentions(text: str) -> list[str]:
    """Return what is mentioned, in order, each once. An address (``me@example.org``) mentions nothing."""
    return list(dict.fromkeys(found[1] for found in _MENTION.finditer(text)))


def parts(
    text: str, folders: Collection[Path], agents: Collection[str], within: Path | None = None
) -> list[Plain]:
    """Return the parts that the mentions in `text` mean; a name that is neither file nor agent means nothing.

    A path is looked for in each of `folders` in turn; ``~/`` is the home folder. Punctuation at the end of a
    name is left out where the name with it does not exist. With `within` a path, links resolved, that leads
    elsewhere raises `Outside`.
    """
    found: dict[str, Plain] = {}
    for name in mentions(text):
        for spelled in dict.fromkeys((name, name.rstrip(_ENDINGS))):
            path = next((path for path in _places(spelled, folders) if spelled and path.exists()), None)
            if path is not None:
                if within is not None and not path.resolve().is_relative_to(within.resolve()):
                    raise Outside(f"@{spelled} leads to {path}, outside of {within}")
                found.setdefault(str(path), _file(path))
                break
            if spelled in agents:
                found.setdefault(f"@{spelled}", {"type": "agent", "name": spelled})
                break
    return list(found.values())


def _places(name: str, folders: Collection[Path]) -> Iterator[Path]:
    try:
        path = Path(name).expanduser()
    except RuntimeError:  # ~nobody: a person whom the machine does not know
        return
    if path.is_absolute():
        yield path
    else:
        yield from (folder / path for folder in folders)


def _file(path: Path) -> Plain:
    folder = path.is_dir()
    mime = "application/x-directory" if folder else mimetypes.guess_type(path.name)[0] or "text/plain"
    return {"type": "file", "mime": mime, "filename": path.name, "url": path.absolute().as_uri()}
