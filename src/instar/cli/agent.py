"""``instar agent``: the agents of a folder: list them, show one, or have a model write a new one."""

import json
from pathlib import Path
from typing import Final

import click
import msgspec

from instar.cli import complete
from instar.cli.door import Context, door, folder_option, json_option, model_option, opened_runtime
from instar.cli.text import echo, print_json, short
from instar.definitions.agent import Agent, sampling_temperature, to_plain
from instar.definitions.markdown import COLOURS
from instar.message import ModelRef
from instar.plugin import Invalid, points
from instar.provider.protocol import ProviderError, describe
from instar.runtime import Options, Runtime
from instar.wire.document import atomic_write
from instar.wire.pattern import late_pattern

_INSTRUCTIONS: Final = Path(__file__).with_name("agent.txt")
_NAME: Final = late_pattern(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST_NAME: Final = 64


@click.group()
def command() -> None:
    """List, show or create agents."""


_folder = folder_option("The agents of this folder.")


@command.command("list")
@_folder
@json_option
@click.option("--all", "everything", is_flag=True, help="Also hidden agents.")
@door
async def list_(context: Context, folder: str | None, as_json: bool, everything: bool) -> None:
    """List agents: name, mode, description, model. The default agent is first."""
    async with context.runtime(folder) as runtime:
        default = runtime.instance.config.default_agent or "build"
        found = [agent for agent in runtime.instance.agents.all() if everything or not agent.hidden]
    found.sort(key=lambda agent: (agent.name != default, agent.name))
    if as_json:
        print_json([to_plain(agent) for agent in found])
        return
    width = max((len(agent.name) for agent in found), default=0)
    for agent in found:
        model = f" ({_model_name(agent)})" if agent.model else ""
        echo(f"{agent.name.ljust(width)}  {agent.mode:8}  {short(agent.description, 90)}{model}".rstrip())


@command.command()
@click.argument("name", shell_complete=complete.agents)
@_folder
@json_option
@door
async def show(context: Context, name: str, folder: str | None, as_json: bool) -> None:
    """Print an agent's model, parameters, permission rules and prompt."""
    async with context.runtime(folder) as runtime:
        agent = runtime.instance.agents.get(name)
    if as_json:
        print_json(to_plain(agent))
        return
    for line in _lines(agent):
        echo(line)


@command.command()
@click.argument("description", nargs=-1, required=True)
@model_option("The model that writes it.")
@click.option("--name", metavar="NAME", help="The agent's name; else the model finds one.")
@click.option("--mode", type=click.Choice(["all", "primary", "subagent"]), default="all", show_default=True)
@click.option("--home", is_flag=True, help="Put it into the home configuration, not into this project.")
@_folder
@door
async def create(
    context: Context,
    description: tuple[str, ...],
    model: str | None,
    name: str | None,
    mode: str,
    home: bool,
    folder: str | None,
) -> None:
    """Have a model write an agent file. DESCRIPTION says what the agent is for."""
    directory = context.folder(folder)
    if name is not None:
        _check_name(name)
    flags = {"model": model} if model else {}
    async with opened_runtime(Options(directory, context.environment, flags)) as runtime:
        config = runtime.instance.paths.config if home else directory / ".instar"
        written = await _written(runtime, " ".join(description), name)
        path = config / "agent" / f"{written.name}.md"
        if path.exists():
            raise click.UsageError(f"{path} is there already; give another --name, or delete it")
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, _file(written, mode).encode())
    echo(f"made: {path}")


def _model_name(agent: Agent) -> str:
    return f"{agent.model.provider_id}/{agent.model.model_id}" if agent.model else ""


def _lines(agent: Agent) -> list[str]:
    temperature = sampling_temperature(agent, agent.model.model_id if agent.model else "")
    fields = {
        "name": agent.name,
        "description": short(agent.description, 300),
        "mode": agent.mode + (", hidden" if agent.hidden else ""),
        "model": _model_name(agent) or "the session's",
        "variant": agent.variant,
        "temperature": f"{temperature:g}",
        "top_p": agent.top_p,
        "steps": agent.steps,
        "color": agent.color,
        "options": json.dumps(agent.options, ensure_ascii=False) if agent.options else None,
    }
    lines = [f"{name}: {value}" for name, value in fields.items() if value not in (None, "")]
    rules = [f"  {rule.permission} {json.dumps(rule.pattern)}: {rule.action}" for rule in agent.permission]
    prompt = ["", agent.prompt] if agent.prompt else []
    return [*lines, "permission (the last that matches decides):", *rules, *prompt]


# -- create ------------------------------------------------------------------------------------------


class _Written(msgspec.Struct):
    """What a model answers to a description; a color that opencode does not know is left out of the file."""

    name: str = ""
    description: str = ""
    prompt: str = ""
    color: object = None


async def _written(runtime: Runtime, description: str, name: str | None) -> _Written:
    """What the model makes of a description. Raises `Invalid`."""
    taken = ", ".join(agent.name for agent in runtime.instance.agents.all())
    wanted = f'Call it "{name}".' if name else f"These names are taken: {taken}."
    model = runtime.instance.models.default()
    system = points.SystemOutput(system=[_INSTRUCTIONS.read_text("utf-8").strip()])
    await runtime.instance.plugins.trigger(
        points.SYSTEM, points.SystemInput(model=describe(model), purpose="agent"), system
    )
    try:
        answer = await runtime.generate(
            system=[text for text in system.system if text],
            prompt=f"{description}\n\n{wanted}",
            model=ModelRef(provider_id=model.provider_id, model_id=model.id),
            cause="agent",
        )
    except ProviderError as error:
        raise Invalid(f"no agent was made: {error}") from None
    written = _parsed(answer.text)
    written.name = name or written.name
    for field in ("name", "description", "prompt"):
        if not getattr(written, field).strip():
            raise Invalid(f"no agent was made: the model's answer has no text for {field!r}; try again")
    _check_name(written.name)
    return written


def _parsed(text: str) -> _Written:
    """The JSON object in an answer, also between other words. Raises `Invalid`."""
    try:
        return msgspec.json.decode(text[text.find("{") : text.rfind("}") + 1], type=_Written)
    except msgspec.ValidationError as error:
        raise Invalid(f"no agent was made: the model's answer: {error}; try again") from None
    except msgspec.DecodeError:
        raise Invalid(
            f"no agent was made: the model did not answer with a JSON object but {short(text, 80)!r}"
        ) from None


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise Invalid(
            "an agent's name is small letters, digits and single hyphens, "
            f"at most {_LONGEST_NAME}: not {name!r}"
        )


def _file(written: _Written, mode: str) -> str:
    """The agent's file; every text stands in quotes as JSON writes them, which YAML reads as they are."""
    fields = {"description": " ".join(written.description.split()), "mode": mode}
    if written.color in COLOURS:
        fields["color"] = str(written.color)
    head = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
    return f"---\n{head}\n---\n\n{written.prompt.strip()}\n"
