"""What sessions, steps, commands, sub-agents and compaction give to their hook points (`instar.plugin.points`)."""

from typing import Any, Literal

import msgspec

from instar.message import Assistant, Part, User
from instar.wire import Plain, Wire


class CommandInput(Wire):
    """A command as it was called, with all that was said after its name."""

    command: str
    session_id: str
    arguments: str


class CommandOutput(Wire):
    """The parts of the prompt that the command becomes, as plain values."""

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
    """Prompts that make the session go on, each with its source (design section 4: capped at 8 in a row)."""

    follow_ups: list[Plain]


class SessionStartInput(Wire):
    """A session that is about to be used: ``new``, or one that was made before (``resume``)."""

    session_id: str
    source: Literal["new", "resume"]


class SessionEndInput(Wire):
    """A session that is no longer used: ``deleted``, put away (``archived``), or the instance ends (``closed``)."""

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
    """The prompt that it gets, and texts that it is given beside it."""

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
    """A session that was summarised unasked: `message` asked for it; `overflow`: the provider had refused a request."""

    session_id: str
    agent: str
    model: Plain
    provider: Plain
    message: User
    overflow: bool


class AutocontinueOutput(Wire):
    """Whether the session is told to go on."""

    enabled: bool


class CompactedInput(Wire):
    """A summary that is whole and saved; `auto`: nobody asked for it."""

    session_id: str
    message: Assistant
    parts: list[Part]
    auto: bool
    overflow: bool
