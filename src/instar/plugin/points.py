"""Hook points: the places where the core calls plugins, each declared once with its contract.

A hook point has a typed input (read it), a typed output, a struct (change it in place), and an error policy:
a failing plugin at a *gate* refuses the action; anywhere else its half-made changes are discarded,
``plugin.error`` is published, and the turn goes on. Names and payloads are opencode's
(https://opencode.ai/docs/plugins); the last group is our own. ``docs/reference/hook-points.md`` lists them all.
"""

from typing import Any, Final, Generic, Literal, TypeVar

import msgspec

from instar.message import Assistant, FilePart, Message, ModelRef, Origin, Part, Tokens, User, WithParts
from instar.wire import Plain, Wire
from instar.wire.pattern import late_pattern

I = TypeVar("I")  # noqa: E741 - the input
O = TypeVar("O")  # noqa: E741 - the output


class HookPoint(msgspec.Struct, Generic[I, O], frozen=True):
    """One declared place. `aliases` are other names that a plugin may subscribe under."""

    name: str
    input: type[I]
    output: type[O]
    gate: bool
    doc: str
    aliases: tuple[str, ...] = ()


class Refused(Exception):
    """A plugin refused an action at a gate; the text is its reason."""

    def __init__(self, plugin: str, hook: str, reason: str) -> None:
        super().__init__(reason)
        self.plugin = plugin
        self.hook = hook


class HookPoints:
    """The declared hook points by name; a plugin may add its own with `declare`."""

    def __init__(self) -> None:
        self._by_name: dict[str, HookPoint[Any, Any]] = {}

    def declare(self, point: HookPoint[I, O]) -> HookPoint[I, O]:
        """Add a hook point; the same one may be declared again, by the plugin of another instance.

        Raises `ValueError` when one of its names is another one's.
        """
        for name in (point.name, *point.aliases):
            if self._by_name.get(name, point) != point:
                raise ValueError(f"hook point {name!r} is declared twice")
            self._by_name[name] = point
        return point

    def find(self, name: str) -> HookPoint[Any, Any] | None:
        """Return the hook point that goes by `name` or an alias of it."""
        return self._by_name.get(name)

    def all(self) -> list[HookPoint[Any, Any]]:
        """Return every hook point once, in the order of declaration."""
        return list(dict.fromkeys(self._by_name.values()))


NOT_POINTS: Final = ("event", "config", "tool", "dispose", "auth", "provider", "timeout")
"""Keys of a plugin's hooks that are registrations, not hook points."""


CORE: Final = HookPoints()
"""Every hook point that the core itself calls."""
_HEADER: Final = late_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of an HTTP header."""


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


class ModelCallInput(Wire):
    """A model call that ended, or an attempt that is tried again, from `started` to `ended` (ms since 1970).

    `cause` is ``turn``, ``task``, ``title``, ``compaction`` or a plugin's word. `asked_id` is the message that is
    answered, `message_id` the answer; `origin` says where the prompt came from. `error` is "" for an answer, else
    the status of the provider's refusal, or the kind of the failure.
    """

    session_id: str
    asked_id: str
    message_id: str | None
    agent: str
    model: ModelRef
    cause: str
    origin: Origin
    started: int
    ended: int
    tokens: Tokens
    cost: float | None
    error: str


class HeadersOutput(Wire):
    """Extra HTTP headers of the request."""

    headers: dict[str, str]

    def __post_init__(self) -> None:
        """Raise `ValueError` for an invalid header, here, where the plugin is known."""
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


class FilesWrittenInput(Wire):
    """Files that a tool wrote and still holds, by their absolute paths."""

    tool: str
    session_id: str
    call_id: str
    files: list[str]


class FilesWrittenOutput(Wire):
    """`notes` are added to the tool's output, which the model reads, `metadata` to what people see."""

    notes: list[str] = msgspec.field(default_factory=list)
    metadata: Plain = msgspec.field(default_factory=dict)


class ShellEnvInput(Wire):
    """A child that is about to start for the model."""

    cwd: str
    session_id: str | None = None
    call_id: str | None = None


class ShellEnvOutput(Wire):
    """Variables to set over the child's environment."""

    env: dict[str, str]

    def __post_init__(self) -> None:
        """Raise `ValueError` for an invalid variable, here, where the plugin is known."""
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


class CommandInput(Wire):
    """A command call, with all text after its name."""

    command: str
    session_id: str
    arguments: str


class CommandOutput(Wire):
    """The parts of the command's prompt, as plain values."""

    parts: list[Any]


class StepInput(Wire):
    """A step that is about to begin; `step` counts from 1 within the turn."""

    session_id: str
    agent: str
    step: int


class StepOutput(Wire):
    """System prompt of this one step: `system`, when set, replaces what would be sent.

    `stop`, when set, ends the turn before the model is called; people read it. The tools named in `without` are not
    offered in this step, and a call to one of them answers that there is no such tool.
    """

    system: list[str] | None = None
    stop: str | None = None
    without: list[str] = msgspec.field(default_factory=list)


class CompletedInput(Wire):
    """An answer that is whole and saved."""

    session_id: str
    message: Assistant
    parts: list[Part]


class TurnEndInput(Wire):
    """A turn that is about to end: its last answer, and how often it was already made to go on."""

    session_id: str
    agent: str
    message: Assistant
    parts: list[Part]
    continued: int


class TurnEndOutput(Wire):
    """Prompts that make the session go on, each with its source (at most 8 in a row)."""

    follow_ups: list[Plain]


class SessionStartInput(Wire):
    """A session that is about to be used: ``new``, or one that was made before (``resume``)."""

    session_id: str
    source: Literal["new", "resume"]


class SessionEndInput(Wire):
    """The end of a session: ``deleted``, ``archived``, or ``closed`` with its instance."""

    session_id: str
    reason: Literal["deleted", "archived", "closed"]


class SmallModelInput(Wire):
    """The provider of the model that the session uses: its id, name, models and where its key comes from."""

    provider: Plain


class SmallModelOutput(Wire):
    """The model for titles and the like: one of the provider's `models`, or ``provider/model``."""

    model: Plain | str | None = None


class SubagentStartInput(Wire):
    """A sub-agent that is about to work: the caller's session, its own (`child_id`), and what it is to do."""

    session_id: str
    child_id: str
    agent: str
    description: str
    resumed: bool


class SubagentStartOutput(Wire):
    """The sub-agent's prompt, and texts that are added to it."""

    prompt: str
    context: list[str]


class SubagentStopInput(Wire):
    """A sub-agent that is about to report: its last answer, and how often it was already made to go on."""

    session_id: str
    child_id: str
    agent: str
    message: Assistant
    parts: list[Part]
    continued: int


class SubagentStopOutput(Wire):
    """`prompt`, when set, makes the sub-agent go on with it (at most 8 times in a row)."""

    prompt: str | None = None


class AutocontinueInput(Wire):
    """An automatic summary: `message` requested it; `overflow`: the provider had refused a request."""

    session_id: str
    agent: str
    model: Plain
    provider: Plain
    message: User
    overflow: bool


class AutocontinueOutput(Wire):
    """Whether the session continues."""

    enabled: bool


class CompactedInput(Wire):
    """A complete, saved summary; `auto`: no person asked for it."""

    session_id: str
    message: Assistant
    parts: list[Part]
    auto: bool
    overflow: bool


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
MODEL_CALL_AFTER = _point(
    "model.call.after",
    ModelCallInput,
    Empty,
    "After each model call, even if it failed: its time and its usage.",
)
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
TEXT_COMPLETE = _point("experimental.text.complete", TextInput, TextOutput, "When a text part is complete.")
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
    "After an automatic summary: whether the session goes on.",
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
FILES_WRITTEN = _point(
    "files.written",
    FilesWrittenInput,
    FilesWrittenOutput,
    "After a tool wrote files; what a plugin changes in them belongs to the call.",
)
TOOL_AFTER = _point("tool.execute.after", ToolAfterInput, ToolAfterOutput, "After a call that succeeded.")
TOOL_FAILURE = _point("tool.execute.failure", ToolAfterInput, ToolFailureOutput, "After a call that failed.")
SESSION_START = _point(
    "session.start",
    SessionStartInput,
    Empty,
    "Before a session is first used in this process.",
)
SESSION_END = _point(
    "session.end", SessionEndInput, Empty, "After a session that was used is deleted, archived or closed."
)
STEP_BEFORE = _point("step.before", StepInput, StepOutput, "Before a step's request is put together.")
MESSAGE_COMPLETED = _point("message.completed", CompletedInput, Empty, "After each answer is saved.")
TURN_END = _point(
    "turn.end",
    TurnEndInput,
    TurnEndOutput,
    "When the turn is about to end; follow-ups returned here continue it.",
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
    "When a sub-agent has answered; a prompt returned here makes it go on.",
)
