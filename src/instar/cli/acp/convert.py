"""Between instar's words and the protocol's: prompts, tool calls, changes of files, lists of things to do."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from acp import helpers, schema
from acp.exceptions import RequestError

from instar.api.instance import McpBody, McpLocalConfig, McpRemoteConfig
from instar.approval.permissions import KEEP
from instar.cli.output import tool_line
from instar.cli.person import KEPT
from instar.event import PermissionAsked, Todo
from instar.message import (
    Assistant,
    ContentFilterError,
    FilePart,
    MessageAbortedError,
    MessageOutputLengthError,
    ToolCompleted,
    ToolError,
    ToolPart,
)
from instar.wire import Plain
from instar.wire.pattern import late_pattern

Update = helpers.SessionUpdate | schema.UsageUpdate | schema.ConfigOptionUpdate
McpServer = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio

_KINDS: Final[Mapping[str, schema.ToolKind]] = MappingProxyType(
    {
        **dict.fromkeys(("read", "list", "skill"), "read"),
        **dict.fromkeys(("edit", "write", "apply_patch"), "edit"),
        **dict.fromkeys(("grep", "glob"), "search"),
        **dict.fromkeys(("webfetch", "websearch"), "fetch"),
        **dict.fromkeys(("task", "todowrite", "todoread"), "think"),
        "bash": "execute",
    }
)
_STATUS: Final[Mapping[str, schema.ToolCallStatus]] = MappingProxyType(
    {"pending": "pending", "running": "in_progress", "completed": "completed", "error": "failed"}
)
_PLAN: Final[Mapping[str, schema.PlanEntryStatus]] = MappingProxyType(
    {"in_progress": "in_progress", "completed": "completed", "cancelled": "completed"}
)
_HUNK: Final = late_pattern(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_LONGEST: Final = 50_000
"""Characters of a text in a tool call."""


# -- from the client ---------------------------------------------------------------------------------


def parts(blocks: Iterable[helpers.ContentBlock]) -> list[Plain]:
    """Return a prompt's blocks as parts. Raises `RequestError` for sound, which no prompt can hold."""
    return [_part(block) for block in blocks]


def _part(block: helpers.ContentBlock) -> Plain:
    match block:
        case schema.TextContentBlock(text=text):
            return {"type": "text", "text": text}
        case schema.ImageContentBlock(data=data, mime_type=mime):
            return {"type": "file", "mime": mime, "url": f"data:{mime};base64,{data}"}
        case schema.ResourceContentBlock(uri=uri, name=name, mime_type=mime):
            if not uri.startswith("file:"):
                return {"type": "text", "text": f"[{name}]({uri})"}
            return {"type": "file", "mime": mime or "text/plain", "filename": name, "url": uri}
        case schema.EmbeddedResourceContentBlock(resource=schema.TextResourceContents(uri=uri, text=text)):
            # As it stands in the client, which may be otherwise than the file is.
            return {"type": "text", "text": f'<file path="{uri}">\n{text}\n</file>'}
        case schema.EmbeddedResourceContentBlock(resource=schema.BlobResourceContents() as blob):
            mime = blob.mime_type or "application/octet-stream"
            return {"type": "file", "mime": mime, "url": f"data:{mime};base64,{blob.blob}"}
        case _:
            raise RequestError(-32602, f"instar takes no {block.type} in a prompt")


def mcp_body(server: McpServer) -> McpBody:
    """Return what adds a client's MCP server. Raises `RequestError` for one that the client itself relays."""
    match server:
        case schema.McpServerStdio():
            environment = {one.name: one.value for one in server.env}
            config = McpLocalConfig(command=[server.command, *server.args], environment=environment)
            return McpBody(name=server.name, config=config)
        case schema.HttpMcpServer() | schema.SseMcpServer():
            headers = {one.name: one.value for one in server.headers}
            return McpBody(name=server.name, config=McpRemoteConfig(url=server.url, headers=headers))
        case _:
            raise RequestError(-32602, f"instar reaches no MCP server through the client ({server.name})")


# -- to the client -----------------------------------------------------------------------------------


def call(part: ToolPart, root: Path, *, known: bool) -> schema.ToolCallStart | schema.ToolCallProgress:
    """Return the update of a tool call; `known`: the client was told of it. `root` is what its paths begin at."""
    state, line = part.state, tool_line(part)
    fields: dict[str, Any] = {
        "tool_call_id": part.call_id,
        "title": f"{line.name} {line.title}".strip(),
        "kind": _KINDS.get(part.tool, "other"),
        "status": _STATUS[state.status],
        "raw_input": state.input,
        "locations": _locations(state.input, root),
        "content": _content(part, root),
    }
    if isinstance(state, ToolCompleted):
        fields["raw_output"] = {"output": state.output[:_LONGEST]}
    if known:
        return schema.ToolCallProgress(session_update="tool_call_update", **fields)
    return schema.ToolCallStart(session_update="tool_call", **fields)


def asked_call(asked: PermissionAsked, root: Path) -> schema.ToolCallUpdate:
    """Return the tool call that waits for a permission, with all that it would do."""
    metadata = asked.metadata
    changes = diffs(str(metadata.get("diff") or ""), root)
    shown = metadata.get("command") or (None if changes else metadata.get("diff"))
    return schema.ToolCallUpdate(
        tool_call_id=asked.tool.call_id if asked.tool else asked.id,
        title=KEPT if asked.permission == KEEP else f"{asked.permission} wants: {', '.join(asked.patterns)}",
        kind=_KINDS.get(asked.permission, "other"),
        status="pending",
        raw_input=metadata,
        locations=_locations(metadata, root),
        content=[*changes, *([_fenced(shown)] if isinstance(shown, str) else [])],
    )


def options(asked: PermissionAsked) -> list[schema.PermissionOption]:
    """Return how a permission may be answered; the ids are instar's replies, the client chooses by kind."""
    keep = asked.permission == KEEP
    names: list[tuple[str, str, schema.PermissionOptionKind]] = [
        ("once", "Keep it" if keep else "Allow once", "allow_once"),
        ("always", f"Always allow {', '.join(asked.always)}", "allow_always"),
        ("reject", "Put it aside" if keep else "Reject", "reject_once"),
    ]
    return [
        schema.PermissionOption(option_id=reply, name=name, kind=kind)
        for reply, name, kind in names
        if asked.always or reply != "always"
    ]


def plan(todos: Iterable[Todo]) -> schema.AgentPlanUpdate:
    """Return the model's list of things to do."""
    return helpers.update_plan(
        helpers.plan_entry(
            todo.content,
            priority="high" if todo.priority == "high" else "low" if todo.priority == "low" else "medium",
            status=_PLAN.get(todo.status, "pending"),
        )
        for todo in todos
    )


def image(file: FilePart) -> schema.ImageContentBlock | None:
    """Return the image that a file is; None for another one, or for one that is elsewhere."""
    head, _, data = file.url.partition(";base64,")
    if not data or not file.mime.startswith("image/") or not head.startswith("data:"):
        return None
    return helpers.image_block(data, file.mime)


def stop_reason(info: Assistant) -> schema.StopReason | None:
    """Return why a turn ended with this answer; None for an error that the client is to be told as one."""
    match info.error:
        case MessageAbortedError():
            return "cancelled"
        case MessageOutputLengthError():
            return "max_tokens"
        case ContentFilterError():
            return "refusal"
        case None:
            return {"length": "max_tokens", "content-filter": "refusal"}.get(info.finish or "", "end_turn")  # type: ignore[return-value]
        case _:
            return None


def diffs(patch: str, root: Path) -> list[schema.FileEditToolCallContent]:
    """Return a unified diff as the protocol's: one for each hunk, its old lines and its new ones."""
    found, path = [], ""
    lines = iter(patch.split("\n"))
    for line in lines:
        if line.startswith("+++ "):
            path = str(root / line[4:])
        elif hunk := _HUNK.match(line):
            left = {"-": int(hunk[2] or 1), "+": int(hunk[4] or 1)}
            is_new = not left["-"] and hunk[1] == "0"
            sides: dict[str, list[str]] = {"-": [], "+": []}
            while any(left.values()) and (text := next(lines, None)) is not None:
                for sign in "-+" if text[:1] not in ("-", "+") else text[0]:
                    sides[sign].append(text[1:])
                    left[sign] -= 1
            old, new = ("\n".join(side) for side in sides.values())
            found.append(helpers.tool_diff_content(path, new, None if is_new else old))
    return found


def _content(part: ToolPart, root: Path) -> list[helpers.ToolCallContentVariant]:
    state = part.state
    metadata = getattr(state, "metadata", None) or {}
    if isinstance(state, ToolError):
        return [helpers.tool_content(helpers.text_block(state.error[:_LONGEST]))]
    if isinstance(diff := metadata.get("diff"), str) and (changes := diffs(diff, root)):
        return list(changes)
    if isinstance(state, ToolCompleted):
        pictures = [picture for file in state.attachments or [] if (picture := image(file)) is not None]
        text = _fenced(state.output) if part.tool == "bash" else _text(state.output)
        return [text, *(helpers.tool_content(picture) for picture in pictures)]
    return [_fenced(output)] if isinstance(output := metadata.get("output"), str) and output else []


def _text(text: str) -> schema.ContentToolCallContent:
    return helpers.tool_content(helpers.text_block(text[:_LONGEST]))


def _fenced(text: str) -> schema.ContentToolCallContent:
    fence = "```"
    while fence in text:
        fence += "`"
    return _text(f"{fence}\n{text[: _LONGEST - 200]}\n{fence}")


def _locations(given: Mapping[str, Any], root: Path) -> list[schema.ToolCallLocation]:
    named = given.get("filePath") or given.get("filepath") or given.get("path")
    if not isinstance(named, str) or not named:
        return []
    line = given.get("offset")
    return [schema.ToolCallLocation(path=str(root / named), line=line if isinstance(line, int) else None)]
