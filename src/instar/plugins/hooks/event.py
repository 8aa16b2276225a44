"""The events for rules: their names, and what a rule can decide for each."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

Dialect = Literal["instar", "claude", "openhands"]
"""The system whose semantics hold for a rule, by the file that it is in."""


class EventKind(msgspec.Struct, frozen=True):
    """The properties of all events of one name.

    `subject` names the field of `HookEvent.fields` that a matcher looks at where there is no tool. `gate`: an evaluator
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


EVENTS: Final[Mapping[str, EventKind]] = {
    kind.name: kind
    for kind in (
        EventKind("PreToolUse", tool=True, gate=True),
        EventKind("PostToolUse", tool=True),
        EventKind("PostToolUseFailure", tool=True),
        EventKind("PermissionRequest", tool=True, gate=True),
        EventKind("UserPromptSubmit", gate=True, text=True),
        EventKind("Stop"),
        EventKind("SubagentStart", subject="agent_type"),
        EventKind("SubagentStop", subject="agent_type"),
        EventKind("SessionStart", subject="source", text=True),
        EventKind("SessionEnd", subject="reason"),
        EventKind("PreCompact", subject="trigger"),
        EventKind("PostCompact", subject="trigger"),
        EventKind("Notification", subject="notification_type"),
        EventKind("Heartbeat", subject="title"),
        EventKind("Evolve", subject="files", gate=True),
    )
}
"""By the name in instar and Claude Code; only instar has ``Heartbeat`` and ``Evolve``."""

SPELLINGS: Final[Mapping[str, str]] = {
    **{name: name for name in EVENTS},
    **{kind.snake: name for name, kind in EVENTS.items()},
}
"""Both spellings of each event, to its name."""


def nearest(name: str) -> str:
    """Return what a person may have meant by the name of an event that there is not, as the end of a sentence."""
    near = difflib.get_close_matches(name, SPELLINGS, n=1)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(EVENTS)}"


_NEVER_HERE: Final = (
    "Setup UserPromptExpansion PermissionDenied PostToolBatch MessageDisplay TaskCreated "
    "TaskCompleted StopFailure TeammateIdle InstructionsLoaded ConfigChange CwdChanged "
    "DirectoryAdded FileChanged WorktreeCreate WorktreeRemove Elicitation ElicitationResult"
)
ELSEWHERE: Final = frozenset(_NEVER_HERE.split())
"""Events of Claude Code that never happen here (Claude Code's hooks reference)."""


class ToolUse(msgspec.Struct, frozen=True):
    """A tool call, with instar's names of the tool and its arguments.

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
        """Whether the call runs a shell command, as `background` does when it starts one."""
        return self.name == "bash" or (self.name == "background" and self.input.get("action") == "start")


class HookEvent(msgspec.Struct, frozen=True):
    """An event of a session, for rules.

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
    def speaker(self) -> str:
        """The session whose turn it is: a sub-agent's own."""
        return self.agent_id or self.session_id

    @property
    def kind(self) -> EventKind:
        """The properties of events of this name. Raises `KeyError` for an unknown name."""
        return EVENTS[self.name]
