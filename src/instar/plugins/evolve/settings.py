"""evolve's settings: ``config/evolve.jsonc`` under ``EVOLVE_*`` variables, typed.

A mistake is an error that names its place, never a silent default: a broken file must not switch a
heartbeat back on that the person had switched off.
"""

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from instar.plugin import document

Cleanup = Literal["none", "new", "archive", "compact"]
Spawn = Literal["warm", "plain"]


class SettingsError(Exception):
    """Settings that cannot be used; the text says where, what was expected and what was found."""


class ModelName(msgspec.Struct, frozen=True):
    """A model by its provider and its name there."""

    provider_id: str
    model_id: str


class EvolveSettings(msgspec.Struct, frozen=True):
    """``config/evolve.jsonc`` of the workspace. Times in milliseconds; `heartbeat_ms` below 1 means no heartbeat.

    `heartbeat_skip_active`: a heartbeat is skipped while another session works.
    `pass_environment` names variables that hook scripts get although they look like credentials.
    `spawn` says whether Python scripts may be run by an interpreter that has already started.
    """

    model: ModelName | None = None
    heartbeat_ms: int = 1_800_000
    hook_timeout: int = 30_000
    heartbeat_title: str = "heartbeat"
    heartbeat_agent: str = "evolve"
    heartbeat_cleanup: Cleanup = "none"
    heartbeat_cleanup_count: int | None = None
    heartbeat_cleanup_tokens: int | None = None
    heartbeat_skip_active: bool = True
    pass_environment: tuple[str, ...] = ()
    spawn: Spawn = "warm"

    @property
    def timeout(self) -> float:
        """The time that one call of a hook script has, in seconds."""
        return self.hook_timeout / 1000


class LoadedSettings(msgspec.Struct, frozen=True):
    """Settings, and what was said in the file that means nothing (each a sentence)."""

    settings: EvolveSettings
    warnings: list[str]


def load(path: Path, environment: Mapping[str, str]) -> LoadedSettings:
    """Read the settings file, which may be missing, and the ``EVOLVE_*`` variables over it.

    Raises `SettingsError` with ``file:line:column`` or the variable's name.
    """
    text, data = _read(path)
    values: dict[str, Any] = {}
    warnings: list[str] = []
    for key, value in data.items():
        if key not in _READERS:
            warnings.append(_unknown(path, text, key))
            continue
        try:
            values[key] = _READERS[key](value)
        except ValueError as error:
            raise SettingsError(f"{_place(path, text, key)}: {key}: {error}, found {_show(value)}") from None
    values.update(_from_environment(environment))
    return LoadedSettings(EvolveSettings(**values), warnings)


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return "", {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        text = raw.decode("utf-8-sig")
        data = document.parse_jsonc(text, str(path))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        raise SettingsError(f"{path}:{line}:{column}: expected UTF-8 text") from None
    except document.DocumentError as error:
        raise SettingsError(str(error)) from None
    if not isinstance(data, dict):
        raise SettingsError(f"{path}:1:1: expected an object of settings, found {_show(data)}")
    return text, data


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for key, reader in _READERS.items():
        variable = f"EVOLVE_{key.upper()}"
        given = environment.get(variable)
        if given:
            try:
                values[key] = reader(_parsed(key, given))
            except ValueError as error:
                raise SettingsError(f"{variable} in the environment: {error}, found {_show(given)}") from None
    return values


def _parsed(key: str, given: str) -> Any:
    if key == "pass_environment":
        return [name for name in given.replace(",", " ").split() if name]
    if given == "null":
        return None
    if given.startswith("{") or key in _JSON:
        try:
            return msgspec.json.decode(given)
        except msgspec.DecodeError:
            return given
    return given


def _whole(low: int | None = None, *, null: bool = False) -> Callable[[Any], int | None]:
    def read(value: Any) -> int | None:
        if value is None and null:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and (low is None or value >= low):
            return value
        kind = "a whole number" if low is None else f"a whole number of at least {low}"
        raise ValueError(f"expected {kind}{' or null' if null else ''}")

    return read


def _text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError("expected a text")


def _one_of(kind: Any) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value in get_args(kind):
            return str(value)
        raise ValueError(f"expected one of {', '.join(get_args(kind))}")

    return read


def _model(value: Any) -> ModelName | None:
    if value is None:
        return None
    if isinstance(value, str):
        provider, _, name = value.partition("/")
        value = {"providerID": provider, "modelID": name}
    if isinstance(value, dict) and all(
        isinstance(value.get(key), str) and value[key] for key in ("providerID", "modelID")
    ):
        return ModelName(value["providerID"], value["modelID"])
    raise ValueError('expected "provider/model", {"providerID", "modelID"} or null')


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("expected true or false")


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise ValueError("expected a list of variable names")


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "model": _model,
    "heartbeat_ms": _whole(),
    "hook_timeout": _whole(1),
    "heartbeat_title": _text,
    "heartbeat_agent": _text,
    "heartbeat_cleanup": _one_of(Cleanup),
    "heartbeat_cleanup_count": _whole(1, null=True),
    "heartbeat_cleanup_tokens": _whole(1, null=True),
    "heartbeat_skip_active": _flag,
    "pass_environment": _names,
    "spawn": _one_of(Spawn),
}
_JSON: Final = (
    *("heartbeat_ms", "hook_timeout", "heartbeat_cleanup_count", "heartbeat_cleanup_tokens"),
    "heartbeat_skip_active",
)
"""Settings whose value in the environment is JSON."""


def _unknown(path: Path, text: str, key: str) -> str:
    near = difflib.get_close_matches(key, _READERS, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"{_place(path, text, key)}: unknown setting {key!r} is ignored{meant}"


def _place(path: Path, text: str, key: str) -> str:
    line, column = document.locate(text, [key])
    return f"{path}:{line}:{column}"


def _show(value: Any) -> str:
    return msgspec.json.encode(value).decode()
