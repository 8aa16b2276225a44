"""What a person defined for the model, as the API shows it: agents, commands, skills, tools."""

from typing import Literal

from instar.message import Rule
from instar.wire import Plain, Wire

AgentMode = Literal["primary", "subagent", "all"]


class AgentModel(Wire):
    """The model that an agent is bound to."""

    provider_id: str
    model_id: str


class Agent(Wire):
    """An agent. `permission` holds every rule that applies to it, defaults first; `native`: it ships with instar."""

    name: str
    description: str | None = None
    mode: AgentMode
    native: bool | None = None
    hidden: bool | None = None
    top_p: float | None = None
    temperature: float | None = None
    color: str | None = None
    permission: list[Rule]
    model: AgentModel | None = None
    variant: str | None = None
    prompt: str | None = None
    options: Plain
    steps: int | None = None


class Command(Wire):
    """A command; `source` is what it is made of, `hints` the places in its template."""

    name: str
    description: str | None = None
    agent: str | None = None
    model: str | None = None
    source: Literal["command", "mcp", "skill"] | None = None
    template: str
    subtask: bool | None = None
    hints: list[str]


class Skill(Wire):
    """A skill: `location` is its file, `content` what stands below the front matter."""

    name: str
    description: str | None = None
    location: str
    content: str


class ToolQuery(Wire):
    """The model that the tools are for."""

    provider: str
    model: str


class ToolListItem(Wire):
    """A tool as a model is told of it; `parameters` is a JSON Schema."""

    id: str
    description: str
    parameters: Plain


class LogBody(Wire):
    """A line for the log, of a client that calls itself `service`."""

    service: str
    level: Literal["debug", "info", "error", "warn"]
    message: str
    extra: Plain | None = None


class LSPStatus(Wire):
    """A language server."""

    id: str
    name: str
    root: str
    status: Literal["connected", "error"]


class FormatterStatus(Wire):
    """A formatter, and the file name extensions that it is for."""

    name: str
    extensions: list[str]
    enabled: bool
