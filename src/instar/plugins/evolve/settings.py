"""evolve's settings: ``config/evolve.jsonc`` under ``EVOLVE_*`` variables, typed.

A mistake is an error that names its place, never a silent default: a broken file must not switch a
heartbeat back on that the person had switched off.
"""

import contextlib
import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args, get_type_hints

import msgspec

from instar.plugin import document

Cleanup = Literal["none", "new", "archive", "compact"]
Spawn = Literal["warm", "plain"]


class SettingsError(Exception):
    """Settings that cannot be used; the text says where, what was expected and what was found."""


_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]


class ModelName(msgspec.Struct, frozen=True, rename={"provider_id": "providerID", "model_id": "modelID"}):
    """A model by its provider and its name there."""

    provider_id: _Text
    model_id: _Text


class EvolveSettings(msgspec.Struct, frozen=True):
    """``config/evolve.jsonc`` of the workspace. Times in milliseconds; `heartbeat_ms` below 1 means no heartbeat.

    `heartbeat_skip_active`: a heartbeat is skipped while another session works.
    `pass_environment` names variables that hook scripts get although they look like credentials.
    `spawn` says whether Python scripts may be run by an interpreter that has already started.
    """

    model: ModelName | None = None
    heartbeat_ms: int = 1_800_000
    hook_timeout: _Positive = 30_000
    heartbeat_title: _Text = "heartbeat"
    heartbeat_agent: _Text = "evolve"
    heartbeat_cleanup: Cleanup = "none"
    heartbeat_cleanup_count: _Positive | None = None
    heartbeat_cleanup_tokens: _Positive | None = None
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
        if key not in _TYPES:
            warnings.append(_unknown(path, text, key))
            continue
        try:
            values[key] = _taken(key, value)
        except ValueError as error:
            raise SettingsError(f"{_place(path, text, key)}: {key}: {error}, found {_show(value)}") from None
    values.update(_from_environment(environment))
    return LoadedSettings(EvolveSettings(**values), warnings)


def _read(path: Path) -> tuple[str, dict[str, Any]]:
    try:
        text = document.read_text(path)
        data = document.parse_jsonc(text, str(path))
    except FileNotFoundError:
        return "", {}
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from None
    except document.DocumentError as error:
        raise SettingsError(str(error)) from None
    if not isinstance(data, dict):
        raise SettingsError(f"{path}:1:1: expected an object of settings, found {_show(data)}")
    return text, data


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for key in _TYPES:
        variable = f"EVOLVE_{key.upper()}"
        given = environment.get(variable)
        if given:
            try:
                values[key] = _parsed(key, given)
            except ValueError as error:
                raise SettingsError(f"{variable} in the environment: {error}, found {_show(given)}") from None
    return values


def _parsed(key: str, given: str) -> Any:
    """Take a text as it stands, else as JSON."""
    if key == "pass_environment":
        return tuple(name for name in given.replace(",", " ").split() if name)
    with contextlib.suppress(ValueError):
        return _taken(key, given)
    try:
        return _taken(key, msgspec.json.decode(given))
    except msgspec.DecodeError:
        return _taken(key, given)


def _taken(key: str, value: Any) -> Any:
    """Return a value as the setting has it. Raises `ValueError`."""
    if key == "model" and isinstance(value, str):
        provider, _, name = value.partition("/")
        value = {"providerID": provider, "modelID": name}
    try:
        return msgspec.convert(value, _TYPES[key])
    except msgspec.ValidationError as error:
        known = ", ".join(get_args(_TYPES[key])) if key in ("heartbeat_cleanup", "spawn") else ""
        raise ValueError(f"expected one of {known}" if known else str(error)) from None


_TYPES: Final[dict[str, Any]] = get_type_hints(EvolveSettings, include_extras=True)


def _unknown(path: Path, text: str, key: str) -> str:
    near = difflib.get_close_matches(key, _TYPES, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    return f"{_place(path, text, key)}: unknown setting {key!r} is ignored{meant}"


def _place(path: Path, text: str, key: str) -> str:
    line, column = document.locate(text, [key])
    return f"{path}:{line}:{column}"


def _show(value: Any) -> str:
    return msgspec.json.encode(value).decode()
