"""What plugins hear beside the events of the wire: types and fields that opencode has renamed since its first plugins.

Clients get today's form alone, which is the OpenAPI document's. A plugin written for the older names hears
`for_plugins`: each event, followed by its older form where that has a type of its own. An event whose type
kept its name and whose fields were renamed comes once, with both.
"""

from typing import Any, Final

import msgspec

from instar.event import Event, LspUpdated, OfSession, PermissionAsked, PermissionReplied
from instar.wire import Plain, Wire, ids


class PermissionTime(Wire):
    """When the question was put, in milliseconds since the epoch."""

    created: int


class PermissionUpdated(OfSession):
    """A tool call waits for a person: the older form of `permission.asked`. `type` is the permission's name."""

    id: str
    type: str
    pattern: str | list[str]
    message_id: str
    call_id: str | None = None
    title: str
    metadata: Plain
    time: PermissionTime


class PermissionRepliedBoth(PermissionReplied):
    """A person answered, under today's names and the earlier ones."""

    permission_id: str
    response: str


class LspClientDiagnostics(Wire):
    """A language server has looked at a file."""

    server_id: str
    path: str


class IdeInstalled(Wire):
    """An editor's extension was installed."""

    ide: str


class Renamed(msgspec.Struct, frozen=True):
    """An older type: `today` is what it became, `never` why it is not sent; what it `means`."""

    name: str
    properties: type[Wire]
    today: str | None
    means: str
    never: str | None = None


RENAMED: Final = (
    Renamed("permission.updated", PermissionUpdated, "permission.asked", "Follows each `permission.asked`."),
    Renamed(
        "permission.replied",
        PermissionRepliedBoth,
        "permission.replied",
        "Comes once, with the fields of both times.",
    ),
    Renamed(
        "lsp.client.diagnostics",
        LspClientDiagnostics,
        "lsp.updated",
        "Follows each `lsp.updated` that names a file.",
    ),
    Renamed(
        "ide.installed",
        IdeInstalled,
        None,
        "An editor's extension was installed.",
        never="instar installs nothing into editors, and opencode no longer sends it",
    ),
)
"""Every earlier type that is no longer a type of the wire, or no longer has its fields."""


def for_plugins(event: Event, now: int) -> list[Event]:
    """Return what a plugin hears of `event`, in order; `now` is in milliseconds since the epoch."""
    given = event.properties
    if isinstance(given, PermissionAsked):
        return [event, Event(ids.new("evt"), "permission.updated", _updated(given, now))]
    if isinstance(given, LspUpdated) and given.server_id and given.path:
        found = LspClientDiagnostics(server_id=given.server_id, path=given.path)
        return [event, Event(ids.new("evt"), "lsp.client.diagnostics", found)]
    if isinstance(given, PermissionReplied):
        both = PermissionRepliedBoth(
            session_id=given.session_id,
            request_id=given.request_id,
            reply=given.reply,
            permission_id=given.request_id,
            response=given.reply,
        )
        return [Event(event.id, event.type, both)]
    return [event]


def _updated(asked: PermissionAsked, now: int) -> PermissionUpdated:
    patterns = asked.patterns
    title: Any = asked.metadata.get("title")
    return PermissionUpdated(
        session_id=asked.session_id,
        id=asked.id,
        type=asked.permission,
        pattern=patterns[0] if len(patterns) == 1 else list(patterns),
        message_id=asked.tool.message_id if asked.tool else "",
        call_id=asked.tool.call_id if asked.tool else None,
        title=title if isinstance(title, str) else f"{asked.permission}: {', '.join(patterns)}",
        metadata=dict(asked.metadata),
        time=PermissionTime(created=now),
    )
