"""``instar agent``: the agents of a folder: list them, show one, or have a model write a new one."""

import json
import re
from pathlib import Path
from typing import Final

import click
import msgspec

from instar.agent import Agent, sampling_temperature, to_plain
from instar.cli.context import Context
from instar.cli.door import door, opened_runtime
from instar.cli.line import short
from instar.definition import COLOURS
from instar.document import atomic_write
from instar.message import ModelRef
from instar.plugin import Invalid, points
from instar.provider.describe import describe
from instar.provider.protocol import ProviderError
from instar.runtime import Options, Runtime
from instar.wire import Plain

_ASKED: Final = Path(__file__).with_name("agent.txt")
_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_LONGEST: Final = 64


@click.group()
def command() -> None:
    """List, show or create agents."""


_folder = click.option("--dir", "folder", metavar="PATH", help="The agents of this folder.")
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@command.command("list")
@_folder
@_json
@click.option("--all", "everything", is_flag=True, help="Also hidden agents.")
@door
async def list_(context: Context, folder: str | None, as_json: bool, everything: bool) -> None:
    """List agents, the default one first: name, mode, model, description."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        found = _sorted(runtime, everything)
    if as_json:
        _print_json([to_plain(agent) for agent in found])
        return
    width = max((len(agent.name) for agent in found), default=0)
    for agent in found:
        model = f" ({_model_name(agent)})" if agent.model else ""
        click.echo(
            f"{agent.name.ljust(width)}  {agent.mode:8}  {short(agent.description, 90)}{model}".rstrip()
        )


@command.command()
@click.argument("name")
@_folder
@_json
@door
async def show(context: Context, name: str, folder: str | None, as_json: bool) -> None:
    """Print all that an agent is: model, parameters, rules in the order in which they count, prompt."""
    async with opened_runtime(Options(context.folder(folder), context.environment)) as runtime:
        agent = runtime.instance.agents.get(name)
    if as_json:
        _print_json(to_plain(agent))
        return
    for line in _lines(agent):
        click.echo(line)


@command.command()
@click.argument("description", nargs=-1, required=True)
@click.option("-m", "--model", metavar="PROVIDER/MODEL", help="The model that writes it.")
@click.option("--name", help="The agent's name; else the model finds one.")
@click.option("--mode", type=click.Choice(["all", "primary", "subagent"]), default="all", show_default=True)
@click.option("--home", is_flag=True, help="Put it into the home configuration, not into this project.")
@_folder
@door
async def create(
    context: Context, description: tuple[str, ...], folder: str | None, **given: str | None
) -> None:
    """Write an agent file from a DESCRIPTION of what it is for, with a model's help."""
    directory, name = context.folder(folder), given["name"]
    if name is not None:
        _check_name(name)
    flags: Plain = {"model": given["model"]} if given["model"] else {}
    async with opened_runtime(Options(directory, context.environment, flags)) as runtime:
        base = runtime.instance.paths.config if given["home"] else directory / ".instar"
        found = await _written(runtime, " ".join(description), name)
        path = base / "agent" / f"{found['name']}.md"
        if path.exists():
            raise click.UsageError(f"{path} is there already; give another --name, or delete it")
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, _file(found, str(given["mode"])).encode())
    click.echo(f"made: {path}")


def _model_name(agent: Agent) -> str:
    return f"{agent.model.provider_id}/{agent.model.model_id}" if agent.model else ""


def _sorted(runtime: Runtime, everything: bool) -> list[Agent]:
    agents = runtime.instance.agents
    default = runtime.instance.config.default_agent or "build"
    found = [agent for agent in agents.all() if everything or not agent.hidden]
    return sorted(found, key=lambda agent: (agent.name != default, agent.name))


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


def _print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value)))


# -- create ------------------------------------------------------------------------------------------


async def _written(runtime: Runtime, description: str, name: str | None) -> Plain:
    """What the model makes of a description: name, description and prompt. Raises `Invalid`."""
    taken = ", ".join(agent.name for agent in runtime.instance.agents.all())
    wanted = f'Call it "{name}".' if name else f"These names are taken: {taken}."
    model = runtime.instance.models.default()
    system = points.SystemOutput(system=[_ASKED.read_text("utf-8").strip()])
    told = points.SystemInput(model=describe(model), purpose="agent")
    await runtime.instance.plugins.trigger(points.SYSTEM, told, system)
    try:
        answer = await runtime.generate(
            system=[text for text in system.system if text],
            prompt=f"{description}\n\n{wanted}",
            model=ModelRef(provider_id=model.provider_id, model_id=model.id),
            cause="agent",
        )
    except ProviderError as error:
        raise Invalid(f"no agent was made: {error}") from None
    found = _object(answer.text)
    if name is not None:
        found["name"] = name
    for field in ("name", "description", "prompt"):
        if not isinstance(found.get(field), str) or not found[field].strip():
            raise Invalid(f"no agent was made: the model's answer has no text for {field!r}; try again")
    _check_name(found["name"])
    return found


def _object(text: str) -> Plain:
    """The JSON object in an answer, also between other words. Raises `Invalid`."""
    start, end = text.find("{"), text.rfind("}")
    try:
        found = json.loads(text[start : end + 1]) if start >= 0 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Invalid(
            f"no agent was made: the model did not answer with a JSON object but {short(text, 80)!r}"
        )
    return found


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise Invalid(
            f"an agent's name is small letters, digits and single hyphens, at most {_LONGEST}: not {name!r}"
        )


def _file(found: Plain, mode: str) -> str:
    """The agent's file; every text stands in quotes as JSON writes them, which YAML reads as they are."""
    color = found.get("color")
    fields = {"description": " ".join(found["description"].split()), "mode": mode}
    if color in COLOURS:
        fields["color"] = color
    head = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
    return f"---\n{head}\n---\n\n{found['prompt'].strip()}\n"
