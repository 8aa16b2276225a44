"""The plugin file that opencode finds: where it stands, what it says, and whether it is still as it was written."""

import hashlib
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from instar.settings.builtin_plugins import BRIDGE, BRIDGE_MARK
from instar.wire.document import atomic_write
from instar.wire.pattern import late_pattern

_HALF: Final = Path(__file__).parent / "opencode.mjs"
_FIRST: Final = late_pattern(rf"{BRIDGE_MARK} \(sha256 ([0-9a-f]{{64}})\)")
_MADE: Final = late_pattern(r"^// folders made with it: (\[.*\])$", re.MULTILINE)

State = Literal["absent", "installed", "outdated", "changed", "foreign"]
"""``outdated``: it starts another instar; ``changed``: somebody wrote into it; ``foreign``: it is not ours."""


class InstallError(Exception):
    """Why a file is left as it is; the text says what to do."""


class BridgeFile(msgspec.Struct, frozen=True):
    """Where the file stands: in `folder`, which is opencode's for a project or for all of them. `top` is not ours."""

    folder: Path
    top: Path

    @property
    def file(self) -> Path:
        """The file."""
        return self.folder / BRIDGE

    @classmethod
    def of_project(cls, project: Path) -> "BridgeFile":
        """Return the place for one project."""
        return cls(project / ".opencode" / "plugin", project)

    @classmethod
    def of_all(cls, config: Path) -> "BridgeFile":
        """Return the place for every project; `config` is the person's ``XDG_CONFIG_HOME``."""
        return cls(config / "opencode" / "plugin", config.parent)


def state(place: BridgeFile) -> State:
    """Return what of it is there."""
    try:
        text = place.file.read_text("utf-8")
    except FileNotFoundError:
        return "absent"
    except (OSError, UnicodeDecodeError):
        return "foreign"
    found = _FIRST.match(text)
    if found is None:
        return "foreign"
    body = text.partition("\n")[2]
    if hashlib.sha256(body.encode()).hexdigest() != found[1]:
        return "changed"
    return "installed" if body == _body(_folders(body)) else "outdated"


def install(place: BridgeFile, *, force: bool = False) -> None:
    """Write the file. Raises `InstallError` if it exists and was edited since, unless `force`."""
    before = state(place)
    if before in ("changed", "foreign") and not force:
        raise InstallError(f"{place.file} {_WHY[before]}; --force writes over it")
    kept = _folders(place.file.read_text("utf-8")) if before in ("installed", "outdated") else []
    missing = [one for one in (place.folder, *place.folder.parents) if not one.exists()]
    place.folder.mkdir(parents=True, exist_ok=True)
    body = _body(kept or [str(one) for one in missing])
    mark = hashlib.sha256(body.encode()).hexdigest()
    atomic_write(place.file, f"{BRIDGE_MARK} (sha256 {mark})\n{body}".encode())


def uninstall(place: BridgeFile, *, force: bool = False) -> bool:
    """Delete the file, and the folders that were made with it and are empty. False when there is none.

    Raises `InstallError` for one that is not as it was written, unless `force`.
    """
    before = state(place)
    if before == "absent":
        return False
    if before in ("changed", "foreign") and not force:
        raise InstallError(f"{place.file} {_WHY[before]}, so it is left there; --force deletes it")
    made = _folders(place.file.read_text("utf-8", "replace")) if before != "foreign" else []
    place.file.unlink()
    for name in made:
        folder = Path(name)
        # What opencode or the person put there since stays, with the folders that it is in.
        if (
            folder not in (place.folder, *place.folder.parents)
            or not folder.is_dir()
            or any(folder.iterdir())
        ):
            break
        folder.rmdir()
    return True


def command() -> Sequence[str]:
    """Return what starts the bridge: this very instar, whatever ``PATH`` says later."""
    return [sys.executable, "-m", "instar", "bridge"]


_WHY: Final = {"changed": "was changed since it was written", "foreign": "was not written by instar"}


def _body(folders: Sequence[str]) -> str:
    return f"""\
// It lets instar's plugins work in opencode; `instar opencode uninstall` takes it away.
// folders made with it: {json.dumps(list(folders))}
const half = {json.dumps(_HALF.as_uri())}
const command = {json.dumps(list(command()))}

const server = async (input) => {{
  const found = await import(half).catch((error) => error)
  if (found.serve) return found.serve(input, command)
  // A plugin that is skipped guards nothing: what it might have refused is refused.
  const refuse = async () => {{
    throw new Error(`instar is not where it was (${{found.message}}), so this is refused: \
instar opencode install, or delete ${{import.meta.url}}`)
  }}
  return {{ "tool.execute.before": refuse }}
}}

export default {{ id: "instar", server }}
"""


def _folders(text: str) -> list[str]:
    """The folders that were made with the file; none where that cannot be read any more."""
    found = _MADE.search(text)
    try:
        return msgspec.json.decode(found[1], type=list[str]) if found else []
    except msgspec.DecodeError:
        return []
