"""What commands and sub-agents give to their hook points (`instar.plugin.points`)."""

from typing import Any

from instar.message import Assistant, Part
from instar.wire import Wire


class CommandInput(Wire):
    """A command as it was called, with all that was said after its name."""

    command: str
    session_id: str
    arguments: str


class CommandOutput(Wire):
    """The parts of the prompt that the command becomes, as plain values."""

    parts: list[Any]


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
