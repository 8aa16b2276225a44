"""The events that rules may speak of: their names, and what a rule can do about each (issue 8, item 2)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

Dialect = Literal["instar", "claude", "openhands"]
"""Whose way of reading holds for a rule: that of the file it stands in."""
DIALECTS: Final = ("instar", "claude", "openhands")


class Kind(msgspec.Struct, frozen=True):
    """What is known of an event before it happens.

    `subject` names the field of `Event.fields` that a matcher looks at where there is no tool. `gate`: an evaluator
    that could not decide stands in the way. `text`: plain text of a command becomes context.
    """

    name: str
    tool: bool = False
    subject: str = ""
    gate: bool = False
    text: bool = False

    @property
    def snake(self) -> str:
        """The name as OpenHands writes it: ``pre_tool_use``."""
        return "".join(f"_{char.lower()}" if char.isupper() else char for char in self.name)[1:]


EVENTS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("PreToolUse", tool=True, gate=True),
        Kind("PostToolUse", tool=True),
        Kind("PostToolUseFailure", tool=True),
        Kind("PermissionRequest", tool=True, gate=True),
        Kind("UserPromptSubmit", gate=True, text=True),
        Kind("Stop"),
        Kind("SubagentStart", subject="agent_type"),
        Kind("SubagentStop", subject="agent_type"),
        Kind("SessionStart", subject="source", text=True),
        Kind("SessionEnd", subject="reason"),
        Kind("PreCompact", subject="trigger"),
        Kind("PostCompact", subject="trigger"),
        Kind("Notification", subject="notification_type"),
        Kind("Heartbeat", subject="title"),
        Kind("Evolve", subject="files", gate=True),
    )
}
"""By the name that instar and Claude Code give them; ``Heartbeat`` and ``Evolve`` nobody else has."""

SPELLINGS: Final[Mapping[str, str]] = {
    **{name: name for name in EVENTS},
    **{kind.snake: name for name, kind in EVENTS.items()},
}
"""Both spellings of each event, to its name."""

ELSEWHERE: Final = frozenset(
    (
        *(
            "Setup",
            "UserPromptExpansion",
            "PermissionDenied",
            "PostToolBatch",
            "MessageDisplay",
            "TaskCreated",
        ),
        *("TaskCompleted", "StopFailure", "TeammateIdle", "InstructionsLoaded", "ConfigChange", "CwdChanged"),
        *(
            "DirectoryAdded",
            "FileChanged",
            "WorktreeCreate",
            "WorktreeRemove",
            "Elicitation",
            "ElicitationResult",
        ),
    )
)
"""Events of Claude Code that never happen here (the reference's section 2)."""


class ToolUse(msgspec.Struct, frozen=True):
    """A call of a tool: its name and arguments as instar has them.

    `server` is the MCP server that brought the tool. `commands` are the simple commands of a shell command, where a
    parser has read them (`instar.plugin.permission.DOUBT` stands before one in doubt); None: nobody has.
    `response` is what came back, `error` why it failed, `duration` its milliseconds.
    """

    name: str
    input: Mapping[str, Any]
    call_id: str = ""
    server: str = ""
    commands: tuple[str, ...] | None = None
    response: Mapping[str, Any] | None = None
    error: str | None = None
    duration: int | None = None

    @property
    def is_shell(self) -> bool:
        """Whether it runs a shell command: `background` does when it starts one."""
        return self.name == "bash" or (self.name == "background" and self.input.get("action") == "start")


class Event(msgspec.Struct, frozen=True):
    """Something that happens in a session, as rules are told of it.

    `name` is a key of `EVENTS`. `fields` are the event's own, by Claude Code's names: ``prompt``, ``source``,
    ``reason``, ``trigger``, ``stop_hook_active``, ``last_assistant_message``, ``notification_type``, … `agent` is the
    agent whose turn it is; `agent_id` names a sub-agent's session, and is empty outside one.
    """

    name: str
    session_id: str
    directory: Path
    tool: ToolUse | None = None
    agent: str = ""
    agent_id: str = ""
    permission_mode: str = "default"
    transcript_path: str = ""
    fields: Mapping[str, Any] = {}

    @property
    def kind(self) -> Kind:
        """What is known of events of this name. Raises `KeyError` for a name that is none."""
        return EVENTS[self.name]
