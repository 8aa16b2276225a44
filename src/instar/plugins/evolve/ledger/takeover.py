"""Takes over what an instar of before kept of a workspace: its ledger, and what a person left (``own.json``)."""

import contextlib
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import msgspec

from instar.plugins.evolve.ledger import standing
from instar.plugins.evolve.ledger.ledger import Ledger
from instar.plugins.evolve.ledger.standing import Version

T = TypeVar("T")


class _Version(msgspec.Struct, frozen=True):
    sha: str
    mode: int
    size: int
    link: str | None = None


class _Page(msgspec.Struct, frozen=True):
    epoch: int
    files: dict[str, _Version]


class _Own(msgspec.Struct, frozen=True):
    changed: dict[str, _Version | None] = {}
    asked: bool = False


def take_over(ledger: Ledger) -> bool:
    """Accept what the old ledger had accepted; whether there is one that can be read.

    The old folder stays, as ``ledger.before``. Raises `ledger.LedgerError` and `OSError`.
    """
    old, own = ledger.home / "ledger", ledger.home / "own" / "own.json"
    page = next((found for name in ("ledger", "ledger.previous") if (found := _page(old / name))), None)
    if page is None:
        return False
    lost: list[str] = []
    files = _versions(ledger, old, page.files, lost)
    said = _own(own)
    left = {**files, **_versions(ledger, old, said.changed, lost)}
    for path, version in said.changed.items():
        if version is None:
            left.pop(path, None)
    ledger.begin(files, left, "taken over from the ledger of before", page.epoch)
    ledger.leave({}, told=said.asked)
    before = old.rename(ledger.home / "ledger.before")
    with contextlib.suppress(FileNotFoundError):
        own.parent.rename(ledger.home / "own.before")
    missing = f"; no copy is left of {', '.join(sorted(set(lost)))}" if lost else ""
    cut = "; a change that was cut short has departed" if (before / "journal").exists() else ""
    ledger.notice(
        f"the ledger was taken over from an instar of before: {len(files)} accepted files, epoch {page.epoch}{missing}"
        f"{cut}; the old one stands as {before}"
    )
    return True


def _versions(ledger: Ledger, old: Path, known: dict[str, T], lost: list[str]) -> dict[str, Version]:
    found = {}
    for path, one in known.items():
        if not isinstance(one, _Version):
            continue
        data = _content(old / "objects" / one.sha[:2], one.sha)
        data = _content(ledger.root, one.sha, path) if data is None else data
        if data is None:
            lost.append(path)
        else:
            found[path] = ledger.keep(data, one.mode, one.link, durable=False)
    return found


def _content(folder: Path, sha: str, path: str = "") -> bytes | None:
    with contextlib.suppress(OSError, standing.NotPlain):
        found = standing.read(folder, path or sha, keep=True, follow=bool(path))
        return found.data if sha256(found.data or b"").hexdigest() == sha else None
    return None


def _page(path: Path) -> _Page | None:
    """Return what a file of the old ledger holds: a line with the hash of the rest, then JSON."""
    with contextlib.suppress(OSError, standing.NotPlain, msgspec.MsgspecError, UnicodeDecodeError):
        seal, _, body = (standing.read(path.parent, path.name, keep=True).data or b"").partition(b"\n")
        if seal == sha256(body).hexdigest().encode():
            return msgspec.json.decode(body, type=_Page)
    return None


def _own(path: Path) -> _Own:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(path.read_bytes(), type=_Own)
    return _Own()
