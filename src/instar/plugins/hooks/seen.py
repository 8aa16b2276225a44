"""Which rules of a project a person approved: those in its files when the person trusted the folder.

The law: nothing that the model can write loosens a guard. It can write files of a project that are not there yet, and
those of another project; they hold from the next start. So the list of trusted folders keeps a digest of each file's
rules, and what a rule that is not among them allows or rewrites does not count; what it refuses does.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from instar.plugin import document
from instar.plugins.hooks.rule import AgentRule, Dialect, HookRule, HttpRule

LARGEST: Final = 4 << 20
"""Bytes of a file that is read."""
MOST: Final = 1000
"""Agents' files of one folder that are read."""
FILES: Final[tuple[tuple[str, Dialect], ...]] = (
    (".instar/hooks.json", "instar"),
    (".openhands/hooks.json", "openhands"),
    (".claude/settings.json", "claude"),
    (".claude/settings.local.json", "claude"),
)
"""The files of rules of a folder, in order, with the dialect of each."""

_SETTINGS: Final = ("opencode.json", "opencode.jsonc", "instar.json", "instar.jsonc")
_FOLDERS: Final = (".opencode", ".instar")
_AGENTS: Final = ("agent", "agents", "mode", "modes")
_VARIABLES: Final = ("OPENCODE_CONFIG", "INSTAR_CONFIG")
_DOTTED: Final = (*_FOLDERS, ".openhands", ".claude")

Known = Callable[[Path], Mapping[str, str] | None]
"""`PluginInput.seen`."""


def digests(folder: Path) -> dict[str, str]:
    """Return the files of `folder` that hold rules, by their names from it, each with the digest of its rules."""
    found = {path: digest(path) for path in _files(folder)}
    return {path.relative_to(folder).as_posix(): value for path, value in found.items() if value}


def digest(path: Path) -> str:
    """Return the digest of a file's rules.

    Empty where there are none, where it cannot be read, and where they bring another file's text.
    Of what else stands in the file nothing counts, nor its layout; of an agent's file all of the front matter does.
    """
    try:
        if path.stat().st_size > LARGEST:
            return ""
        text = document.read_text(path)
        data = _front(text) if path.suffix == ".md" else _rules(document.parse_jsonc(text, str(path)), path)
    except (OSError, document.DocumentError, RecursionError):
        return ""
    told = json.dumps(data) if data else ""
    # The file that a reference names may change while the rule does not.
    return hashlib.sha256(told.encode()).hexdigest() if told and "{file:" not in told else ""


class TrustedRules:
    """The rules that a person approved in a project's `folders`. `own` files are the person's and need no approval."""

    def __init__(self, folders: Sequence[Path], known: Known, own: Iterable[Path]) -> None:
        self._folders, self._known = folders, known
        self._own = {*own}
        self._new: dict[str, bool] = {}

    def is_new(self, source: str) -> bool:
        """Return whether a project's file holds rules that no person approved as they are now."""
        if source not in self._new:
            path = Path(source)
            approved = list(self._approved(path)) if self._is_projects(path) else [None]
            self._new[source] = None not in approved and (digest(path) or None) not in approved
        return self._new[source]

    def was_vouched(self, source: str) -> bool:
        """Return whether a person approved rules of a project's file, and it holds others now, or none."""
        path = Path(source)
        told = next(filter(None, self._approved(path)), "") if self._is_projects(path) else ""
        return bool(told) and told != digest(path)

    def problems(self) -> list[str]:
        """Return a sentence for each file whose rules are not approved, or are gone."""
        new = [
            f"{source}: its rules are not those that you trusted: they can refuse, and what they allow or rewrite does"
            f" not count; read them, then: instar trust {_owner(Path(source))}"
            for source, is_new in self._new.items()
            if is_new
        ]
        gone = [
            f"{folder / name}: its rules, which you trusted, are gone; where that is right: instar trust {folder}"
            for folder in self._folders
            for name in self._known(folder) or ()
            if not digest(folder / name)
        ]
        return [*new, *gone]

    def _is_projects(self, path: Path) -> bool:
        return path not in self._own and any(path.is_relative_to(folder) for folder in self._folders)

    def _approved(self, path: Path) -> Iterator[str | None]:
        """Yield the digests of a file that the folders around it keep, "" for none, innermost first.

        None is the last one where a folder needs no approval.
        """
        for folder in path.parents:
            known = self._known(folder)
            yield None if known is None else known.get(path.relative_to(folder).as_posix(), "")
            if known is None:
                return


def own_files(home: Path, environment: Mapping[str, str], directory: Path) -> list[Path]:
    """Return the person's own files: those at home, and those that variables name."""
    named = [directory / Path(environment[name]).expanduser() for name in _VARIABLES if environment.get(name)]
    return [*(home / name for name, _ in FILES), *named]


def held_back(rule: HookRule) -> HookRule:
    """Return a rule that is not approved, restricted: it allows nothing, gets no secret and writes nothing."""
    settings = rule.settings
    if isinstance(settings, HttpRule):
        settings = msgspec.structs.replace(settings, variables=())
    elif isinstance(settings, AgentRule):
        settings = msgspec.structs.replace(settings, write=False, network=False)
    return msgspec.structs.replace(rule, settings=settings, new=True)


def _files(folder: Path) -> list[Path]:
    places = (folder, *(folder / name for name in _FOLDERS))
    named = [*(folder / name for name, _ in FILES), *(place / name for place in places for name in _SETTINGS)]
    for place in (folder / name / kind for name in _FOLDERS for kind in _AGENTS):
        named += sorted(place.rglob("*.md"))[:MOST]
    return named


def _rules(data: Any, path: Path) -> list[Any]:
    """Return the parts of a file that hold rules or may hold them."""
    if not isinstance(data, dict):
        return []
    if path.name == "hooks.json" and "hooks" not in data:
        return sorted(data.items())
    found = []
    for key, value in data.items():
        root = str(key).partition(".")[0]
        if root == "hooks" or (root in ("agent", "mode") and "hooks" in json.dumps([key, value])):
            found.append([key, value])
    return sorted(found, key=lambda pair: str(pair[0]))


def _front(text: str) -> str:
    """Return the front matter of an agent's file if it holds rules, else ""."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return ""
    end = next((at for at, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), len(lines))
    front = "\n".join(lines[1:end])
    return front if "hooks" in front else ""


def _owner(path: Path) -> Path:
    """Return the folder that a person trusts for a file."""
    inner = [folder for folder in path.parents if folder.name in _DOTTED]
    return inner[0].parent if inner else path.parent
