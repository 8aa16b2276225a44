"""An export that may be shown to others: its shape, times and counts without anybody's words."""

from typing import Any, Final

from instar.message import PART_TYPES
from instar.wire import Plain

_KEPT: Final = frozenset(
    {
        *("id", "sessionID", "messageID", "parentID", "projectID", "providerID", "modelID", "callID"),
        *("slug", "version", "variant", "type", "role", "status", "tool", "agent", "mode", "finish"),
        *("reason", "mime", "name", "permission", "action", "priority", "tail_start_id"),
    }
)
"""Keys whose text stays: opencode's own words, and the names of tools, agents and models. All other text goes."""

_FREE: Final = frozenset({"input", "metadata", "responseHeaders"})
"""Keys under which anything may stand: nothing below them stays."""

_DROPPED: Final = frozenset({"source", "structured", "format"})
"""Optional keys whose form opencode checks: left out whole."""


def redacted(plain: Plain) -> Plain:
    """Return an exported session without its texts, as ``opencode export --sanitize`` means it.

    Fails closed: a key that is not known loses its text. Unlike opencode's, the errors of tools go too, since
    they quote files and commands.
    """
    cleaned: Plain = _cleaned(plain, "", "")
    return cleaned


def _cleaned(value: Any, key: str, owner: str) -> Any:
    if isinstance(value, str):
        return value if key in _KEPT or value in ("", "*") else f"[redacted:{key}:{owner}]"
    if isinstance(value, list):
        return [_cleaned(item, key, owner) for item in value]
    if not isinstance(value, dict):
        return value
    if key in _FREE:
        return {"redacted": f"{key}:{owner}"}
    owner = str(value.get("id") or owner)
    if isinstance(value.get("type"), str) and value["type"] not in PART_TYPES and "messageID" in value:
        return _head(value)
    return {name: _cleaned(item, name, owner) for name, item in value.items() if name not in _DROPPED}


def _head(part: Plain) -> Plain:
    """A part of an unknown kind: nobody knows where its words stand."""
    return {key: part[key] for key in ("id", "sessionID", "messageID", "type") if key in part}
