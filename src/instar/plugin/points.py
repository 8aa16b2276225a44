"""The hook points of the core, with what each is given and what it may change.

Names and payloads are opencode's (seed 004 section 1, the reference's section 3.3); the last group
is our own (design section 5). ``docs/plugins.md`` lists them all.
"""

import re
from typing import Any, Final, Literal

from instar.message import FilePart, Message, ModelRef, User, WithParts
from instar.plugin import payload
from instar.plugin.hookpoint import HookPoint, HookPoints, I, O
from instar.wire import Plain, Wire

CORE: Final = HookPoints()
"""Every hook point that the core itself calls."""
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of an HTTP header."""

AutocontinueInput = payload.AutocontinueInput
AutocontinueOutput = payload.AutocontinueOutput
CommandInput = payload.CommandInput
CommandOutput = payload.CommandOutput
CompactedInput = payload.CompactedInput
SessionStartInput = payload.SessionStartInput
SessionEndInput = payload.SessionEndInput
SmallModelInput = payload.SmallModelInput
SmallModelOutput = payload.SmallModelOutput
StepInput = payload.StepInput
StepOutput = payload.StepOutput
CompletedInput = payload.CompletedInput
TurnEndInput = payload.TurnEndInput
TurnEndOutput = payload.TurnEndOutput
SubagentStartInput = payload.SubagentStartInput
SubagentStartOutput = payload.SubagentStartOutput
SubagentStopInput = payload.SubagentStopInput
SubagentStopOutput = payload.SubagentStopOutput


class ChatMessageInput(Wire):
    """A prompt as it came in."""

    session_id: str
    agent: str | None = None
    model: ModelRef | None = None
    message_id: str | None = None
    variant: str | None = None


class ChatMessageOutput(Wire):
    """The user message that will be saved."""

    message: User
    parts: list[Any]


class CallInput(Wire):
    """A model call that is about to be made; `purpose` is ``turn``, ``title`` or ``compaction``."""

    session_id: str
    agent: str
    model: Plain
    provider: Plain
    message: Message
    purpose: str


class ParamsOutput(Wire):
    """Sampling parameters; None leaves one out of the request."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    options: Plain


class HeadersOutput(Wire):
    """Extra HTTP headers of the request."""

    headers: dict[str, str]

    def __post_init__(self) -> None:
        """Raise `ValueError` for what HTTP cannot send: the call would fail, and nobody would know by whom."""
        for name, value in self.headers.items():
            if not _HEADER.fullmatch(name) or not value.isascii() or not (value or " ").isprintable():
                raise ValueError(f"{name!r}: {value!r} cannot be an HTTP header")


class Empty(Wire):
    """An input that says nothing."""


class MessagesOutput(Wire):
    """The messages that this step sends: push, remove and replace all reach the model."""

    messages: list[WithParts]


class SystemInput(Wire):
    """A system prompt that is about to be sent; without a session for agent generation."""

    session_id: str | None = None
    model: Plain
    purpose: str


class SystemOutput(Wire):
    """The system prompt's blocks, in order."""

    system: list[str]


class ToolID(Wire):
    """The tool that is about to be offered."""

    tool_id: str


class DefinitionOutput(Wire):
    """What the model will read of a tool: its description and its JSON Schema."""

    description: str
    parameters: Plain

    @property
    def json_schema(self) -> Plain:
        """opencode's other name of `parameters`."""
        return self.parameters

    @json_schema.setter
    def json_schema(self, schema: Plain) -> None:
        self.parameters = schema


class ToolCallInput(Wire):
    """A tool call: the tool's name as it is registered, also where the model used an alias, its session and its id."""

    tool: str
    session_id: str
    call_id: str


class ArgsOutput(Wire):
    """The arguments; what stands here after the hooks is validated again and run.

    `ask`, when set, is shown to the person who is asked for permission; a call that needs none asks for its own
    name then. `permission.ask` still decides whether anybody is asked.
    """

    args: Plain
    ask: str | None = None


class PermissionInput(Wire):
    """A question that the rules left open, or answered; `action` is what they say."""

    session_id: str
    permission: str
    patterns: list[str]
    always: list[str]
    metadata: Plain
    tool: str
    call_id: str


class PermissionOutput(Wire):
    """The decision: `allow`, `ask` or `deny`. A plugin can never loosen a deny."""

    status: Literal["allow", "ask", "deny"]


class ToolAfterInput(Wire):
    """A tool call that ended."""

    tool: str
    session_id: str
    call_id: str
    args: Plain


class ToolAfterOutput(Wire):
    """What the model (`output`) and people (`title`, `metadata`) will see."""

    title: str
    output: str
    metadata: Plain
    attachments: list[FilePart] | None = None


class ToolFailureOutput(Wire):
    """The error text that the model will read."""

    error: str


class ShellEnvInput(Wire):
    """A child that is about to start for the model."""

    cwd: str
    session_id: str | None = None
    call_id: str | None = None


class ShellEnvOutput(Wire):
    """Variables to set over the child's environment."""

    env: dict[str, str]

    def __post_init__(self) -> None:
        """Raise `ValueError` for what no child can be given: the command would not start."""
        for name, value in self.env.items():
            if not name or "=" in name or "\0" in name + value:
                raise ValueError(f"{name!r}: {value!r} cannot be a variable of the environment")


class TextInput(Wire):
    """A text part that is whole."""

    session_id: str
    message_id: str
    part_id: str


class TextOutput(Wire):
    """The text that will be saved."""

    text: str


class CompactingInput(Wire):
    """A session that is about to be summarised."""

    session_id: str


class CompactingOutput(Wire):
    """`context` is added to the summary's prompt; `prompt`, when set, replaces it."""

    context: list[str]
    prompt: str | None = None


def _point(name: str, given: type[I], changed: type[O], doc: str, *, gate: bool = False) -> HookPoint[I, O]:
    bare = name.removeprefix("experimental.")
    aliases = (bare,) if bare != name else ()
    return CORE.declare(HookPoint(name, given, changed, gate, doc, aliases))


CHAT_MESSAGE = _point(
    "chat.message",
    ChatMessageInput,
    ChatMessageOutput,
    "Before a prompt's message is saved; an exception refuses the prompt.",
    gate=True,
)
COMMAND_BEFORE = _point(
    "command.execute.before",
    CommandInput,
    CommandOutput,
    "Before a command's prompt is saved; an exception refuses the command.",
    gate=True,
)
CHAT_PARAMS = _point("chat.params", CallInput, ParamsOutput, "Before each model call: its parameters.")
CHAT_HEADERS = _point("chat.headers", CallInput, HeadersOutput, "Before each model call: its HTTP headers.")
MESSAGES = _point(
    "experimental.chat.messages.transform",
    Empty,
    MessagesOutput,
    "Before each step and each summary: a copy of the messages that it sends.",
)
SYSTEM = _point(
    "experimental.chat.system.transform",
    SystemInput,
    SystemOutput,
    "Before each model call: its system prompt.",
)
SMALL_MODEL = _point(
    "experimental.provider.small_model",
    SmallModelInput,
    SmallModelOutput,
    "When a small model is needed and none is configured.",
)
TEXT_COMPLETE = _point("experimental.text.complete", TextInput, TextOutput, "When a text part is whole.")
COMPACTING = _point(
    "experimental.session.compacting",
    CompactingInput,
    CompactingOutput,
    "Before a session is summarised.",
)
AUTOCONTINUE = _point(
    "experimental.compaction.autocontinue",
    AutocontinueInput,
    AutocontinueOutput,
    "After a summary that nobody asked for: whether the session is told to go on.",
)
COMPACTION_AFTER = _point("compaction.after", CompactedInput, Empty, "After a session was summarised.")
TOOL_DEFINITION = _point("tool.definition", ToolID, DefinitionOutput, "Before a tool is offered, each step.")
TOOL_BEFORE = _point(
    "tool.execute.before",
    ToolCallInput,
    ArgsOutput,
    "Before a call's permission is asked; an exception refuses the call.",
    gate=True,
)
PERMISSION_ASK = _point(
    "permission.ask",
    PermissionInput,
    PermissionOutput,
    "When the rules say allow or ask; an exception refuses the call.",
    gate=True,
)
SHELL_ENV = _point("shell.env", ShellEnvInput, ShellEnvOutput, "Before a shell child starts for the model.")
TOOL_AFTER = _point("tool.execute.after", ToolAfterInput, ToolAfterOutput, "After a call that succeeded.")
TOOL_FAILURE = _point("tool.execute.failure", ToolAfterInput, ToolFailureOutput, "After a call that failed.")
SESSION_START = _point(
    "session.start",
    SessionStartInput,
    Empty,
    "Before a session is first used in this process.",
)
SESSION_END = _point(
    "session.end", SessionEndInput, Empty, "After a session that was used was deleted, put away or closed."
)
STEP_BEFORE = _point("step.before", StepInput, StepOutput, "Before a step's request is put together.")
MESSAGE_COMPLETED = _point("message.completed", CompletedInput, Empty, "After each answer is saved.")
TURN_END = _point(
    "turn.end",
    TurnEndInput,
    TurnEndOutput,
    "When nothing is left to do: follow-ups returned here go on.",
)
SUBAGENT_START = _point(
    "subagent.start",
    SubagentStartInput,
    SubagentStartOutput,
    "Before a sub-agent gets its task.",
)
SUBAGENT_STOP = _point(
    "subagent.stop",
    SubagentStopInput,
    SubagentStopOutput,
    "When a sub-agent has answered: a prompt returned here makes it go on.",
)
