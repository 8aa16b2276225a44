"""One rule: at which event, for what, and how it decides (issue 8, items 1 and 4 to 6; the seed's config shape)."""

from typing import Literal

import msgspec

from instar.plugins.hooks.event import EVENTS, Dialect

Evaluator = Literal["command", "http", "prompt", "agent"]
OnError = Literal["", "allow", "deny"]


class Command(msgspec.Struct, frozen=True):
    """A program: `command` is for a shell; with `args` it is a program's name, and they are its arguments."""

    command: str
    args: tuple[str, ...] | None = None
    shell: str = ""


class Http(msgspec.Struct, frozen=True):
    """A request to `url`. ``$NAME`` in a header stands for a variable, if `variables` names it."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    variables: tuple[str, ...] = ()


class Prompt(msgspec.Struct, frozen=True):
    """One model call with a policy. `model` empty: the small model. `goes_on`: a refusal does not end the turn."""

    prompt: str
    model: str = ""
    goes_on: bool = False


class Agent(msgspec.Struct, frozen=True):
    """A short-lived session with a task.

    `tools` None: those that read. `context` names files of the project, and ``history``. It can neither `write` nor
    reach the `network` unless the rule says so.
    """

    prompt: str
    model: str = ""
    tools: tuple[str, ...] | None = None
    context: tuple[str, ...] = ()
    max_turns: int | None = None
    system_prompt: str = ""
    write: bool = False
    network: bool = False


class Rule(msgspec.Struct, frozen=True):
    """A rule that is understood.

    `timeout` is in seconds. `condition` is Claude Code's ``if``. `background` (``async``) never delays; `once`: not
    again in the same session. `agent` is the only agent in whose turns it holds, if any. `new`: nobody has seen it, so
    what it allows or rewrites does not count (`instar.plugins.hooks.seen`). `line` and `column` count
    from 1; 0: the source has no lines.
    """

    event: str
    settings: Command | Http | Prompt | Agent
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
    new: bool = False

    @property
    def evaluator(self) -> Evaluator:
        """How it decides."""
        kinds: dict[type, Evaluator] = {Command: "command", Http: "http", Prompt: "prompt", Agent: "agent"}
        return kinds[type(self.settings)]

    @property
    def place(self) -> str:
        """Where it stands: ``file:line:column``."""
        return f"{self.source}:{self.line}:{self.column}" if self.line else self.source

    @property
    def label(self) -> str:
        """What people call it: its name, else the start of what it runs or asks, and its place."""
        settings = self.settings
        text = settings.command if isinstance(settings, Command) else ""
        text = text or (settings.url if isinstance(settings, Http) else "")
        text = text or (settings.prompt if isinstance(settings, Prompt | Agent) else "")
        short = " ".join((self.name or text).split())
        return f"{short if len(short) <= 60 else short[:59] + '…'} ({self.place})"

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two rules one and the same, wherever they stand.

        All that decides what it comes to: a project's file must not put a weaker one in the place of the person's.
        """
        how = (self.timeout, self.on_error, self.once, self.background)
        return (self.event, self.matcher, self.condition, self.agent, self.settings, *how)


def on_error(rule: Rule, default: OnError = "") -> Literal["allow", "deny"]:
    """Return what becomes of an outcome that is undecided: ``docs/hooks.md``, "When an evaluator fails".

    `default` is ``hook_settings.on_error``, for rules that say nothing themselves.
    """
    said = rule.on_error or default
    if said:
        return said
    # The other two systems let a failed program or request pass; their files must mean here what they mean there.
    strict = rule.evaluator in ("prompt", "agent") or rule.dialect == "instar"
    return "deny" if strict and EVENTS[rule.event].gate else "allow"
