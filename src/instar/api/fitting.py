"""Settings as opencode's schema of them allows: what does not fit it is left out, the rest is kept."""

from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

import msgspec

from instar.api.config import (
    AgentSettings,
    CommandSettings,
    Config,
    FormatterSettings,
    LspSettings,
    McpSettings,
    ProviderSettings,
    ReferenceSettings,
)
from instar.wire import Plain

_ACTIONS: Final = ("allow", "ask", "deny")
_PLAIN_ONLY: Final = ("todowrite", "question", "webfetch", "websearch", "doom_loop")
"""Permissions to which opencode's schema allows no patterns."""
_OF_KIND: Final = {
    "local": ("type", "command", "cwd", "environment", "enabled", "timeout"),
    "remote": ("type", "url", "headers", "enabled", "timeout"),
    None: ("enabled",),
}
_NEEDED: Final = {"local": "command", "remote": "url", None: "enabled"}


_EXACT: Final = {
    "command": dict[str, CommandSettings],
    "mode": dict[str, AgentSettings],
    "agent": dict[str, AgentSettings],
    "provider": dict[str, ProviderSettings],
    "mcp": dict[str, McpSettings],
    "formatter": bool | dict[str, FormatterSettings],
    "lsp": bool | dict[str, LspSettings],
    "references": dict[str, str | ReferenceSettings],
    "reference": dict[str, str | ReferenceSettings],
}
"""What the blocks hold that are free in `Config`: a body's own keys in them must not get lost."""


def fitted(data: Plain) -> Config:
    """Return what of settings fits opencode's schema."""
    found = _fit(data, Config)
    for block, kind in _EXACT.items():
        if block in found:
            found[block] = _fit(found[block], kind)
    for block in ("agent", "mode"):
        if block in found:
            found[block] = {name: _agent(data[block][name], one) for name, one in found[block].items()}
    for block, whole in _WHOLE.items():
        if isinstance(found.get(block), dict):
            found[block] = {name: one for name, given in found[block].items() if (one := whole(given))}
    found["permission"] = _permission(data.get("permission"))
    return msgspec.convert(found, Config)


def _agent(given: Plain, known: Plain) -> Plain:
    """An agent's fields that fit, and its other keys, which are its own affair."""
    others = {key: value for key, value in given.items() if key not in AgentSettings.__struct_fields__}
    rules = _permission(given.get("permission"))
    return {**others, **known, "permission": {} if rules is None else rules}


def _mcp(server: Plain) -> Plain | None:
    kind = server.get("type")
    if _NEEDED[kind] not in server:
        return None
    return {key: value for key, value in server.items() if key in _OF_KIND[kind]}


def _lsp(server: Plain) -> Plain | None:
    if "command" in server:
        return server
    return {"disabled": True} if server.get("disabled") is True else None


def _reference(given: Any) -> Any:
    if isinstance(given, str):
        return given
    kind = "path" if "path" in given else "repository"
    keys = (kind, "description", "hidden", *(("branch",) if kind == "repository" else ()))
    return {key: given[key] for key in keys if key in given} if kind in given else None


_WHOLE: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {"mcp": _mcp, "lsp": _lsp, "references": _reference, "reference": _reference}
)
"""Blocks in which an entry is one of several forms: an entry as the form has it, or nothing."""


def _permission(block: Any) -> Any:
    """A block of rules in opencode's form; what is no rule is left out."""
    if not isinstance(block, dict):
        return block if block in _ACTIONS else None
    found: Plain = {}
    for name, rule in block.items():
        if rule in _ACTIONS if not isinstance(rule, dict) else False:
            found[name] = rule
        elif isinstance(rule, dict) and name in _PLAIN_ONLY:
            if rule.get("*") in _ACTIONS:
                found[name] = rule["*"]
        elif isinstance(rule, dict):
            found[name] = {pattern: action for pattern, action in rule.items() if action in _ACTIONS}
    return found


_UNFIT: Final = object()


def _fit(value: Any, kind: Any) -> Any:
    """`value` as plain data without the entries that do not fit `kind`; `_UNFIT` where nothing is left to say."""
    bare = _bare(kind)
    if get_origin(bare) in (Union, UnionType):
        arms = (arm for arm in get_args(bare) if arm is not NoneType)
        return next((one for arm in arms if (one := _fit(value, arm)) is not _UNFIT), _UNFIT)
    if get_origin(bare) is dict and isinstance(value, dict):
        inner = get_args(bare)[1]
        return {key: one for key, item in value.items() if (one := _fit(item, inner)) is not _UNFIT}
    if isinstance(bare, type) and issubclass(bare, msgspec.Struct):
        return _fit_struct(value, bare)
    try:
        return msgspec.to_builtins(msgspec.convert(value, kind))
    except msgspec.ValidationError:
        return _UNFIT


def _fit_struct(value: Any, kind: type[msgspec.Struct]) -> Any:
    if not isinstance(value, dict):
        return _UNFIT
    found = {}
    for field in msgspec.structs.fields(kind):
        one = _fit(value[field.encode_name], field.type) if field.encode_name in value else _UNFIT
        if one is not _UNFIT and one is not None:
            found[field.encode_name] = one
        elif field.required:
            return _UNFIT
    return found


def _bare(kind: Any) -> Any:
    while get_origin(kind) is Annotated and not isinstance(get_args(kind)[0], type):
        kind = get_args(kind)[0]
    return kind
