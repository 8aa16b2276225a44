"""A rule: its event, its matcher, and its evaluator with settings."""

from typing import ClassVar, Literal

import msgspec

from instar.plugins.hooks.event import EVENTS, Dialect

Evaluator = Literal["command", "http", "prompt", "agent"]
OnError = Literal["", "allow", "deny"]


class CommandRule(msgspec.Struct, frozen=True):
    """A program: `command` is for a shell; with `args` it is a program's name, and they are its arguments."""

    kind: ClassVar[Evaluator] = "command"
    command: str
    args: tuple[str, ...] | None = None
    shell: str = ""


class HttpRule(msgspec.Struct, frozen=True):
    """A request to `url`. ``$NAME`` in a header stands for a variable, if `variables` names it."""

    kind: ClassVar[Evaluator] = "http"
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    variables: tuple[str, ...] = ()


class PromptRule(msgspec.Struct, frozen=True):
    """One model call with a policy. `model` empty: the small model. `goes_on`: a refusal does not end the turn."""

    kind: ClassVar[Evaluator] = "prompt"
    prompt: str
    model: str = ""
    goes_on: bool = False


class AgentRule(msgspec.Struct, frozen=True):
    """A short-lived session with a task.

    `tools` None: those that read. `context` names files of the project, and ``history``. It can neither `write` nor
    reach the `network` unless the rule says so.
    """

    kind: ClassVar[Evaluator] = "agent"
    prompt: str
    model: str = ""
    tools: tuple[str, ...] | None = None
    context: tuple[str, ...] = ()
    max_turns: int | None = None
    system_prompt: str = ""
    write: bool = False
    network: bool = False


class HookRule(msgspec.Struct, frozen=True):
    """A rule that was read without a problem.

    `timeout` is in seconds. `condition` is Claude Code's ``if``. `background` (``async``) never delays; `once`: not
    again in the same session. `agent` is the only agent in whose turns it holds, if any. `line` and `column`
    count from 1; 0: the source has no lines.
    """

    event: str
    settings: CommandRule | HttpRule | PromptRule | AgentRule
    dialect: Dialect
    source: str
    timeout: float
    line: int = 0
    column: int = 0
    matcher: str = ""
    condition: str = ""
    name: str = ""
    on_error: OnError = ""
    once: bool = False
    background: bool = False
    agent: str = ""

    @property
    def evaluator(self) -> Evaluator:
        """The type of its evaluator."""
        return self.settings.kind

    @property
    def place(self) -> str:
        """Where it stands: ``file:line:column``."""
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source

    @property
    def label(self) -> str:
        """Its name, else the beginning of what it runs or asks, and its place."""
        # The first field of each is the command, the address or the prompt.
        text = str(msgspec.structs.astuple(self.settings)[0])
        short = " ".join((self.name or text).split())
        return f"{short if len(short) <= 60 else short[:59] + '…'} ({self.place})"

    @property
    def key(self) -> tuple[object, ...]:
        """The identity of a rule, wherever it is written.

        All that decides what it comes to: a project's file must not put a weaker one in the place of the person's.
        """
        how = (self.timeout, self.on_error, self.once, self.background)
        return (self.event, self.matcher, self.condition, self.agent, self.settings, *how)


def on_error(rule: HookRule, default: OnError = "") -> Literal["allow", "deny"]:
    """Return what an undecided outcome becomes: ``docs/hooks.md``, "When an evaluator fails".

    `default` is ``hook_settings.on_error``, for rules that say nothing themselves.
    """
    said = rule.on_error or default
    if said:
        return said
    # Claude Code and OpenHands let a failed program or request pass; their files must mean the same here.
    strict = rule.evaluator in ("prompt", "agent") or rule.dialect == "instar"
    return "deny" if strict and EVENTS[rule.event].gate else "allow"
