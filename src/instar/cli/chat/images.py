"""Images that go along with what a person says: from a path that is pasted or dropped, ``@a.png``, the clipboard."""

import base64
import shlex
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from instar.client import Invalid
from instar.definitions.command import mentioned_parts
from instar.process import Processes
from instar.wire import Plain

LARGEST: Final = 5 * 1024 * 1024
"""Bytes of an image; providers refuse larger ones."""
_LONGEST: Final = 4096
"""Characters of a paste that may be paths."""
_KINDS: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}
_HEAD: Final = 12
"""Bytes that tell what an image is."""
_CLIPBOARDS: Final = (
    ("wl-paste", "--type", "image/png"),
    ("xclip", "-selection", "clipboard", "-target", "image/png", "-out"),
    ("pngpaste", "-"),
)
_PATIENCE: Final = 5


class Images:
    """The images of a chat; each has a mark that stands for it in the input, such as ``[image 1: a.png]``."""

    def __init__(self) -> None:
        self._parts: dict[str, Plain] = {}

    def put(self, name: str, data: bytes) -> str:
        """Take an image and return its mark. Raises `Invalid` where it is none, or too large."""
        mark = f"[image {len(self._parts) + 1}: {name}]"
        self._parts[mark] = _part(name, data)
        return mark

    def named(self, pasted: str) -> str | None:
        """Return the marks for a paste that is the paths of images and nothing else; None for any other."""
        paths = _paths(pasted.strip())
        if not paths or not all(_is_image(path) for path in paths):
            return None
        return " ".join(self.put(path.name, path.read_bytes()) for path in paths)

    def marked(self, text: str) -> list[Plain]:
        """Return the images whose marks stand in a text."""
        return [part for mark, part in self._parts.items() if mark in text]


def mentioned(text: str) -> dict[str, Plain]:
    """Return the images of this machine that a text mentions, by the URLs of their files."""
    named = [(one["url"], _path(one["url"])) for one in mentioned_parts(text, [Path.cwd()], ())]
    return {url: _part(path.name, path.read_bytes()) for url, path in named if _is_image(path)}


async def clipboard() -> bytes:
    """Return the image in the clipboard. Raises `Invalid` where there is none, or no program that reads it."""
    found = [argv for argv in _CLIPBOARDS if shutil.which(argv[0])]
    if not found:
        raise Invalid(
            "for an image from the clipboard install wl-clipboard (Wayland), xclip (X11) or pngpaste"
        )
    processes = Processes()
    try:
        for argv in found:
            done = await processes.run(argv, cwd=Path.cwd(), timeout=_PATIENCE, limit=LARGEST + 1)
            if _kind(done.stdout):
                return done.stdout
    finally:
        await processes.close()
    raise Invalid("there is no image in the clipboard; text is pasted with the terminal's own key")


def _paths(text: str) -> list[Path]:
    """Return what a terminal pastes for files that are dropped on it: paths as a shell quotes them, or URLs."""
    if len(text) > _LONGEST or not text.startswith(("/", "~/", "'", '"', "file://")):
        return []
    if _is_image(_path(text)):
        return [_path(text)]
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is not closed
        return []
    return [_path(word) for word in words]


def _path(word: str) -> Path:
    return Path(unquote(urlsplit(word).path) if word.startswith("file://") else word).expanduser()


def _is_image(path: Path) -> bool:
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return _kind(file.read(_HEAD)) is not None
    except (OSError, ValueError):  # a name that no file can have
        return False


def _kind(data: bytes) -> str | None:
    found = next((kind for begin, kind in _KINDS.items() if data.startswith(begin)), None)
    return None if found == "image/webp" and data[8:_HEAD] != b"WEBP" else found


def _part(name: str, data: bytes) -> Plain:
    kind = _kind(data)
    if kind is None:
        raise Invalid(f"{name} is no image: PNG, JPEG, GIF and WebP are")
    if len(data) > LARGEST:
        raise Invalid(f"{name} is larger than {LARGEST // 1024 // 1024} MiB: make it smaller")
    url = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return {"type": "file", "mime": kind, "filename": name, "url": url}
