"""The tables: what rules can be about and hold. Files write the keys of a rule as its struct has them here."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

Evaluator = Literal["command", "http", "prompt", "agent"]
OnError = Literal["allow", "deny"]
Dialect = Literal["instar", "claude", "openhands"]
"""The system whose semantics hold for a rule, by the file that it is in."""


class EventKind(msgspec.Struct, frozen=True):
    """The properties of all events of one name.

    `subject` names the field of `HookEvent.fields` that a matcher looks at where there is no tool. `gate`: an evaluator
    that could not decide stands in the way. `text`: plain text of a command becomes context. `final`: a refusal
    decides, so that further rules need not run.
    """

    name: str
    tool: bool = False
    subject: str = ""
    gate: bool = False
    text: bool = False
    final: bool = False

    @property
    def snake(self) -> str:
        """The name as OpenHands writes it: ``pre_tool_use``."""
        return "".join(f"_{char.lower()}" if char.isupper() else char for char in self.name)[1:]


EVENTS: Final[Mapping[str, EventKind]] = {
    kind.name: kind
    for kind in (
        EventKind("PreToolUse", tool=True, gate=True, final=True),
        EventKind("PostToolUse", tool=True),
        EventKind("PostToolUseFailure", tool=True),
        EventKind("PermissionRequest", tool=True, gate=True, final=True),
        EventKind("UserPromptSubmit", gate=True, text=True, final=True),
        EventKind("Stop", final=True),
        EventKind("SubagentStart", subject="agent_type"),
        EventKind("SubagentStop", subject="agent_type", final=True),
        EventKind("SessionStart", subject="source", text=True),
        EventKind("SessionEnd", subject="reason"),
        EventKind("PreCompact", subject="trigger"),
        EventKind("PostCompact", subject="trigger"),
        EventKind("Notification", subject="notification_type"),
        EventKind("Heartbeat", subject="title"),
        EventKind("Evolve", subject="files", gate=True, final=True),
    )
}
"""By the name in instar and Claude Code; only instar has ``Heartbeat`` and ``Evolve``."""

SPELLINGS: Final[Mapping[str, str]] = {
    **{name: name for name in EVENTS},
    **{kind.snake: name for name, kind in EVENTS.items()},
}
"""Both spellings of each event, to its name."""
GATES: Final = tuple(name for name, kind in EVENTS.items() if kind.gate)


_KNOWN: Final = f"; known are {', '.join(EVENTS)}"


def meant(name: object, known: Iterable[str], otherwise: str = "") -> str:
    """Return what a person may have meant by a name that is not known, as the end of a sentence."""
    near = difflib.get_close_matches(str(name), known, n=1)
    return f"; did you mean {near[0]}?" if near else otherwise


def no_event(name: object) -> str:
    """Return why there is no event of this name."""
    return f"there is no such event{meant(name, SPELLINGS, _KNOWN)}"


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


Text = Annotated[str, Meta(min_length=1)]
Turns = Annotated[int, Meta(ge=1, le=500)]


class CommandRule(msgspec.Struct, frozen=True):
    """A program: `command` is for a shell; with `args` it is a program's name, and they are its arguments."""

    kind: ClassVar[Evaluator] = "command"
    command: Text
    args: tuple[str, ...] | None = None
    shell: Literal["bash", "sh"] | None = None
    background: bool = msgspec.field(name="async", default=False)
    rewakes: bool = msgspec.field(name="asyncRewake", default=False)


class HttpRule(msgspec.Struct, frozen=True):
    """A request to `url`. ``$NAME`` in a header stands for a variable, if `variables` names it."""

    kind: ClassVar[Evaluator] = "http"
    url: Annotated[str, Meta(pattern="^https?://")]
    headers: dict[str, str] = {}
    variables: tuple[str, ...] = msgspec.field(name="allowedEnvVars", default=())


class PromptRule(msgspec.Struct, frozen=True):
    """One model call with a policy. `model` empty: the small model. `goes_on`: a refusal does not end the turn."""

    kind: ClassVar[Evaluator] = "prompt"
    prompt: Text
    model: str = ""
    goes_on: bool = msgspec.field(name="continueOnBlock", default=False)


class AgentRule(msgspec.Struct, frozen=True):
    """A short-lived session with a task: `prompt`, or `system_prompt`.

    `tools` None: those that read. `context` names files of the project, and ``history``. It can neither `write` nor
    reach the `network` unless the rule says so. `max_iterations` is OpenHands' name of `max_turns`.
    """

    kind: ClassVar[Evaluator] = "agent"
    prompt: str = ""
    system_prompt: str = ""
    model: str = ""
    tools: tuple[str, ...] | None = None
    context: tuple[str, ...] = ()
    max_turns: Turns | None = None
    max_iterations: Turns | None = None
    write: bool = False
    network: bool = False


class CommonKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of every rule. `timeout` is in seconds; `condition` is Claude Code's ``if``; `once`: a session."""

    name: str = ""
    condition: str = msgspec.field(name="if", default="")
    timeout: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    on_error: OnError | None = None
    once: bool = False


class HookRule(CommonKeys, frozen=True, kw_only=True):
    """A rule that was read without a problem.

    `agent` is the only agent in whose turns it holds, if any. `line` and `column` count from 1; 0: the source has no
    lines. `broken` says why the rule could not be read: it stands for what it would judge, and is undecided.
    `environment` are more variables for its program.
    """

    event: str
    settings: CommandRule | HttpRule | PromptRule | AgentRule
    dialect: Dialect
    source: str
    line: int = 0
    column: int = 0
    matcher: str = ""
    agent: str = ""
    broken: str = ""
    environment: Mapping[str, str] = {}

    @property
    def evaluator(self) -> Evaluator:
        """The type of its evaluator."""
        return self.settings.kind

    @property
    def background(self) -> bool:
        """Whether it never delays, and decides nothing."""
        return isinstance(self.settings, CommandRule) and (self.settings.background or self.settings.rewakes)

    @property
    def place(self) -> str:
        """Where it stands: ``file:line:column``."""
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source

    @property
    def text(self) -> str:
        """Its name, else what it runs or asks."""
        settings = self.settings
        match settings:
            case CommandRule():
                said = " ".join((settings.command, *(settings.args or ())))
            case HttpRule():
                said = settings.url
            case PromptRule():
                said = settings.prompt
            case AgentRule():
                said = settings.prompt or settings.system_prompt
        return self.name or said or "a rule that cannot be read"

    @property
    def label(self) -> str:
        """The beginning of its text, and its place."""
        short = " ".join(self.text.split())
        return f"{short if len(short) <= 60 else short[:59] + '…'} ({self.place})"

    @property
    def key(self) -> bytes:
        """The identity of a rule, wherever it is written.

        All that decides what it comes to: a project's file must not put a weaker one in the place of the person's.
        """
        how = (self.timeout, self.on_error, self.once)
        return msgspec.json.encode(
            (self.event, self.matcher, self.condition, self.agent, self.evaluator, self.settings, *how)
        )


def on_error(rule: HookRule, default: str = "dialect") -> OnError:
    """Return what an undecided outcome becomes: ``docs/reference/hooks.md``, "When an evaluator fails".

    `default` is ``hook_settings.on_error``, for rules that say nothing themselves.
    """
    if rule.on_error:
        return rule.on_error
    if default != "dialect":
        return "deny" if default == "deny" else "allow"
    # Claude Code and OpenHands let a failed program or request pass; their files must mean the same here.
    strict = rule.evaluator in ("prompt", "agent") or rule.dialect == "instar"
    return "deny" if strict and EVENTS[rule.event].gate else "allow"
