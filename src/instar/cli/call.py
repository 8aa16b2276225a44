"""What a message of the command line asks for beyond its text: a command by its name, files and agents by ``@``."""

import shlex
from collections.abc import Sequence

import click

from instar import mention
from instar.cli import question
from instar.command import UnknownCommand
from instar.invocation import found, skill_commands
from instar.plugin import CommandBody
from instar.runtime import Runtime
from instar.wire import Plain


def called(runtime: Runtime, name: str | None, parts: Sequence[Plain]) -> CommandBody | None:
    """Return what ``--command NAME`` or a message ``/name arguments`` calls, a command or a skill; None for a message.

    Raises `click.UsageError` for a `name` that no command has. A message that begins with the slash of something
    else (a path) stays a message.
    """
    commands = runtime.instance.commands
    skills = {command.name for command in skill_commands(runtime.instance)}
    text = str(parts[0]["text"]) if parts and parts[0]["type"] == "text" else ""
    files = [part for part in parts if part["type"] != "text"] or None
    if name is not None:
        try:
            if name.removeprefix("/") not in skills:
                commands.get(name.removeprefix("/"))
        except UnknownCommand as error:
            raise click.UsageError(str(error)) from None
        return CommandBody(command=name.removeprefix("/"), arguments=text, parts=files)
    first, *rest = text.split(maxsplit=1) or [""]
    known = {command.name for command in commands.all()} | skills
    if not first.startswith("/") or first[1:] not in known:
        return None
    return CommandBody(command=first[1:], arguments=rest[0] if rest else "", parts=files)


async def completed(runtime: Runtime, body: CommandBody) -> CommandBody:
    """Return a command's body with the values that it lacks, asked for where a person is at the terminal."""
    if not question.is_there():
        return body
    command = await found(runtime.instance, body.command)
    for name in command.missing(body.arguments):
        click.echo(f"{name}: ", nl=False, err=True)
        value = await question.line()
        if value:
            body.arguments = f"{body.arguments} {name}={shlex.quote(value)}".strip()
    return body


def mentioned(runtime: Runtime, said: str) -> list[Plain]:
    """Return the files and agents that the words of a message mention; what was piped in mentions nothing."""
    instance = runtime.instance
    agents = {agent.name for agent in instance.agents.subagents()}
    return mention.parts(said, [instance.directory, instance.project.worktree], agents)
