"""A script's manifest: what it asks to be held to, under `sandbox` in its `discover` answer.

Reading one is pure and refuses what it does not understand: a key that was spelt wrong would be
a limit that nobody holds. What a manifest says counts only once instar has stored it and starts the script so.
"""

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec

from instar.plugin import process, sandbox
from instar.plugins.evolve import protocol
from instar.plugins.evolve.workspace import GUARDED, SCRIPTS_OWN

MOST: Final = 64
"""Names that one list of a manifest may hold."""
LONGEST: Final = 512
"""Characters of a folder in `write`."""
ACTION: Final = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
"""What an action may be called; today there are ``send`` and ``create_session``."""
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_EXAMPLE: Final = '{"env": ["GH_TOKEN"], "network": false, "write": ["state"]}'
_RANGES: Final = {
    "cpu": (1, 86_400),
    "memory": (16 * process.MIB, 1 << 40),
    "processes": (1, 65_536),
    "seconds": (1, 86_400),
}


class BadManifest(ValueError):
    """A manifest that cannot be held to; the text says where, what was expected and what was found."""


class ManifestLimits(msgspec.Struct, frozen=True):
    """What one call may use, None for no limit of its own.

    `cpu` is in seconds and `memory` in bytes, each for one process; `processes` counts those at one time; `seconds`
    are of wall-clock time, and hook_timeout holds beside them.
    """

    cpu: int | None = None
    memory: int | None = None
    processes: int | None = None
    seconds: int | None = None


OPEN: Final = ManifestLimits()
"""No limits, as behind the shield."""
_DEFAULT: Final = ManifestLimits(
    sandbox.Limits().cpu, sandbox.Limits().memory, sandbox.Limits().processes
)  # written out with each manifest, so that another release's defaults change no grant


class Manifest(msgspec.Struct, frozen=True):
    """What a script is held to in a sandbox on the live workspace.

    `env` names variables that it is given whatever they hold; `write` are folders of the workspace in the form of
    `folder`, none inside another; `actions` are what its answers may ask instar to do. The rest of the workspace is
    read-only, and nothing else of the person's is seen.
    """

    env: frozenset[str] = frozenset()
    network: bool = False
    write: frozenset[str] = frozenset()
    limits: ManifestLimits = _DEFAULT
    actions: frozenset[str] = frozenset()

    def sandboxed(self) -> sandbox.Limits:
        """Return the limits that the sandbox holds; `limits.seconds` is for whoever starts the script."""
        given = {name: getattr(self.limits, name) for name in ("cpu", "memory", "processes")}
        return sandbox.Limits(**{name: value for name, value in given.items() if value is not None})


def unasked(env: Iterable[str], actions: Iterable[str]) -> Manifest:
    """Return what a script that gives no manifest is held to: the folders of its own, and no network."""
    return Manifest(frozenset(env), write=frozenset(SCRIPTS_OWN), actions=frozenset(actions))


def parse(asked: Any, file: str) -> Manifest:
    """Return the manifest that the script `file` asks for. Raises `BadManifest` with a line on each mistake."""
    where = f"{file}: sandbox"
    if not isinstance(asked, Mapping):
        raise BadManifest(f"{where}: expected an object such as {_EXAMPLE}, found {_show(asked)}")
    values, problems = _read(asked, _READERS)
    if problems:
        raise BadManifest("\n".join(f"{where}.{problem}" for problem in problems))
    return Manifest(**values)


def folder(path: str) -> str:
    """Return a folder of the workspace in its one form: components joined by ``/``, no empty one and no ``.``.

    Raises `ValueError` for what is absolute, leads up, means the whole workspace, is guarded or hidden, or holds a
    character that is not seen. Guarded names are told without regard to case and Unicode form: there are
    file systems that make no difference. Two spellings of any other name stay two folders.
    """
    if "\\" in path or not path.isprintable() or len(path) > LONGEST:
        raise ValueError(f"is no plain path of at most {LONGEST} characters with / between its parts")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if path.startswith("/") or (parts and parts[0].startswith("~")):
        raise ValueError("expected a path in the workspace, relative to it")
    if ".." in parts:
        raise ValueError("expected a path without ..")
    if not parts:
        raise ValueError("means the whole workspace; name folders in it")
    plain = [_plain(part) for part in parts]
    hidden = parts[0].startswith(".") or plain[0].startswith(".")
    if hidden or plain[0] in GUARDED or ".git" in plain or "" in plain:
        raise ValueError(
            f"is never writable for a script: {', '.join(GUARDED)} and hidden folders are guarded"
        )
    return "/".join(parts)


def covers(outer: str, inner: str) -> bool:
    """Whether the folder `inner` is `outer` or lies in it; both in the form of `folder`."""
    return inner == outer or inner.startswith(f"{outer}/")


def outermost(folders: Iterable[str]) -> frozenset[str]:
    """Return those folders that lie in no other of them."""
    given = set(folders)
    return frozenset(
        inner for inner in given if not any(outer != inner and covers(outer, inner) for outer in given)
    )


def _plain(part: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", part).casefold()).rstrip(". ")


def _read(
    given: Mapping[Any, Any], readers: Mapping[str, Callable[[Any], Any]]
) -> tuple[dict[str, Any], list[str]]:
    values: dict[str, Any] = {}
    problems: list[str] = []
    for key, value in given.items():
        reader = readers.get(key)
        if reader is None:
            near = difflib.get_close_matches(str(key), readers, n=1)
            meant = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(readers)}"
            problems.append(f"{protocol.clip(str(key), 80)}: unknown key; {meant}")
            continue
        try:
            values[key] = reader(value)
        except ValueError as error:
            problems.append(f"{key}: {error}")
    return values, problems


def _names(rule: re.Pattern[str], kind: str) -> Callable[[Any], frozenset[str]]:
    def read(value: Any) -> frozenset[str]:
        texts = _texts(value)
        wrong = [text for text in texts if not rule.fullmatch(text)]
        if wrong:
            raise ValueError(f"expected {kind}, found {_show(wrong[0])}")
        return frozenset(texts)

    return read


def _folders(value: Any) -> frozenset[str]:
    found = set()
    for text in _texts(value):
        try:
            found.add(folder(text))
        except ValueError as error:
            raise ValueError(f"{_show(text)} {error}") from None
    return outermost(found)


def _texts(value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"expected a list of texts, found {_show(value)}")
    if len(value) > MOST:
        raise ValueError(f"expected at most {MOST} texts, found {len(value)}")
    return value


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"expected true or false, found {_show(value)}")


def _limits(value: Any) -> ManifestLimits:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected an object with {', '.join(_RANGES)}, found {_show(value)}")
    values, problems = _read(value, {name: _whole(*ends) for name, ends in _RANGES.items()})
    if problems:
        raise ValueError("; ".join(problems))
    return msgspec.structs.replace(_DEFAULT, **values)


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        raise ValueError(f"expected a whole number from {low} to {high}, found {_show(value)}")

    return read


def _show(value: Any) -> str:
    """The value as ASCII on one line: a person reads it, and the model wrote it."""
    return protocol.clip(ascii(value), 120)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "env": _names(_VARIABLE, "the name of a variable"),
    "network": _switch,
    "write": _folders,
    "limits": _limits,
    "actions": _names(ACTION, "the name of an action in lower case, such as send"),
}
