"""A JavaScript plugin's tools as instar's."""

from typing import Any

import msgspec

from instar.jshost.peer import JavaScriptError
from instar.jshost.speaking import Speaking
from instar.message import FilePart
from instar.plugin import Ask, PermissionDenied, Tool, ToolContext, ToolFailure, ToolResult, ids, wire
from instar.wire import Plain


class Call(msgspec.Struct):
    """A call that runs, with what the child may ask of it; `denied` is the permission that it was not given."""

    context: ToolContext
    denied: PermissionDenied | None = None

    def show(self, params: Plain) -> None:
        """Show people how it gets on."""
        title, metadata = params.get("title"), params.get("metadata")
        self.context.metadata(
            title=title if isinstance(title, str) else None,
            metadata=metadata if isinstance(metadata, dict) else None,
        )

    async def ask(self, params: Plain) -> None:
        """Ask for a permission. Raises `PermissionDenied`, and `msgspec.ValidationError` for what asks for none."""
        asked = msgspec.convert({key: params[key] for key in _ASKED if params.get(key) is not None}, _Asked)
        try:
            await self.context.ask(Ask(asked.permission, asked.patterns, asked.always, asked.metadata))
        except PermissionDenied as denied:
            self.denied = denied
            raise


class _Asked(msgspec.Struct):
    """What a plugin gives to ``ask``."""

    permission: str
    patterns: list[str] = msgspec.field(default_factory=lambda: ["*"])
    always: list[str] = msgspec.field(default_factory=lambda: ["*"])
    metadata: Plain = msgspec.field(default_factory=dict)


_ASKED = _Asked.__struct_fields__


def tool_of(host: Speaking, plugin: str, name: str, said: Plain) -> Tool:
    """Return a tool that a plugin has, described as `said`."""

    async def execute(args: Plain, context: ToolContext) -> ToolResult:
        call = Call(context)
        try:
            found = await host.run_tool(
                call, {"plugin": plugin, "tool": name, "args": args, "context": _told(context)}
            )
        except JavaScriptError as error:
            raise call.denied or ToolFailure(str(error)) from error
        return _result(found, context)

    # As in opencode: it asks for nothing by itself; a rule that denies its name takes it away.
    return Tool(said["description"], said["parameters"], execute, permissions=lambda args, context: ())


def _told(context: ToolContext) -> Plain:
    return {
        "sessionID": context.session_id,
        "messageID": context.message_id,
        "callID": context.call_id,
        "agent": context.agent,
        "directory": str(context.directory),
        "worktree": str(context.worktree),
    }


def _result(found: Plain, context: ToolContext) -> ToolResult:
    """What a tool gave as instar's result. Raises `ToolFailure` for what is none."""
    try:
        return ToolResult(
            output=found["output"],
            title=msgspec.convert(found.get("title") or "", str),
            metadata=msgspec.convert(found.get("metadata") or {}, dict[str, Any]),
            attachments=[_attachment(one, context) for one in found.get("attachments") or ()],
        )
    except (msgspec.ValidationError, TypeError) as error:
        raise ToolFailure(f"the tool returned what cannot be used: {error}") from error


def _attachment(given: Plain, context: ToolContext) -> FilePart:
    own = {
        "id": ids.new("prt"),
        "sessionID": context.session_id,
        "messageID": context.message_id,
        "type": "file",
    }
    return wire.decode({**own, **given}, FilePart)
