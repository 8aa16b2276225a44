"""Invocation: a command with its arguments, made into the body of a prompt.

``command.execute.before`` may change its parts and is a gate.
"""

import os
from typing import Final

from instar import wire
from instar.definitions.agent import Agent, parse_model
from instar.definitions.command import (
    Command,
    Filled,
    OutsideMention,
    UnknownCommand,
    fill,
    leads_out,
    mentioned_parts,
    mentions,
    positional,
    split,
)
from instar.message import ModelRef, part_to_plain
from instar.plugin import CommandBody, Invalid, PromptBody, Refused, points
from instar.process import ProcessError
from instar.session.instance import Instance
from instar.session.state import SessionState
from instar.turn.prompt import choose_model
from instar.wire.pattern import late_pattern

TIMEOUT: Final = 60
"""Seconds that a template's shell command may run."""
MOST_OUTPUT: Final = 50 * 1024
"""Bytes of each of its streams that are put into the prompt."""

_HELD: Final = late_pattern(r"\0(\d+)\0")


async def invoke(instance: Instance, live: SessionState, body: CommandBody) -> PromptBody:
    """Return the prompt that a command becomes.

    Raises `Invalid` for an unknown command, one that cannot be carried out and one that a plugin refuses, and what
    finding its agent or model raises.
    """
    command = await found(instance, body.command)
    agent = instance.agents.get(command.agent or body.agent or live.session.agent)
    is_task = command.subtask is True or (agent.mode == "subagent" and command.subtask is not False)
    parts = await _parts(instance, live, command, body)
    # The work of a task is the sub-agent's; the conversation goes on with its own agent and model.
    speaker = instance.agents.get(body.agent or live.session.agent) if is_task else agent
    if is_task:
        asked = PromptBody(parts=[], model=_model(instance, command, agent, body))
        parts = [_task(command, agent, parts[0]["text"], choose_model(instance, live, asked, speaker))]
    parts = await _hooked(instance, live, body, parts)
    instance.approvals.grant(live.id, command.grants)
    prompt = PromptBody(
        message_id=body.message_id,
        model=_given(instance, body.model) if is_task else _model(instance, command, agent, body),
        agent=speaker.name,
        variant=body.variant or (None if is_task else command.variant),
        parts=parts,
    )
    # As in opencode `chat.message` is given the model in any case.
    prompt.model = choose_model(instance, live, prompt, speaker)
    return prompt


async def found(instance: Instance, name: str) -> Command:
    """Return the command with a name; skills are commands too, unless a command has their name. Raises `Invalid`."""
    try:
        return await instance.commands.find(name)
    except UnknownCommand as error:
        for command in skill_commands(instance):
            if command.name == name:
                return command
        raise Invalid(str(error)) from None


def skill_commands(instance: Instance) -> list[Command]:
    """Return each skill that a person may call as a command, as in opencode."""
    return [
        Command(
            name=skill.name,
            template=f"{skill.text.strip()}\n\nThis skill's folder: {skill.path.parent}",
            description=f"{skill.description} {skill.hint}".strip(),
            model=skill.model,
            trusted=skill.trusted,
            grants=skill.grants,
        )
        for skill in instance.skills.values()
        if skill.invocable
    ]


async def _parts(
    instance: Instance, live: SessionState, command: Command, body: CommandBody
) -> list[wire.Plain]:
    """Return the prompt's text and its mentions; the output of shell commands is not searched for mentions."""
    arguments = split(command, body.arguments)
    filled = fill(command, arguments)
    if filled.shells and not command.trusted:
        raise Invalid(f"the command {command.name} runs shell commands, and its folder is not trusted")
    root = instance.project.worktree if instance.project.vcs else instance.directory
    said, written = _HELD.sub(" ", filled.text), mentions(command.template)
    # A file of the project that a command names can become a link: what nobody accepted is not followed.
    free = [name for name in mentions(said) if name not in written or leads_out(name)]
    try:
        mentioned = mentioned_parts(
            said,
            [instance.directory, instance.project.worktree],
            {agent.name for agent in instance.agents.subagents()},
            root,
            free if command.trusted else (),
        )
    except OutsideMention as error:
        why = "names a link" if command.trusted else "stands in a folder that is not trusted"
        todo = "; write there where it leads to" if command.trusted else ""
        raise Invalid(f"the command {command.name} {why}, and {error}{todo}") from None
    environment = {**arguments.values, "ARGUMENTS": arguments.text}
    text = await _printed(instance, live, filled, positional(command, arguments), environment)
    return [{"type": "text", "text": text}, *mentioned, *(body.parts or [])]


async def _printed(
    instance: Instance, live: SessionState, filled: Filled, words: list[str], values: dict[str, str]
) -> str:
    """The text with what its shell commands printed in their places."""
    outputs = [await _run(instance, live, shell, words, values) for shell in filled.shells]
    return _HELD.sub(lambda match: outputs[int(match[1])], filled.text)


async def _run(
    instance: Instance, live: SessionState, shell: str, words: list[str], values: dict[str, str]
) -> str:
    """Return the output of a shell command; for a failed one also stderr and the exit code."""
    given = points.ShellEnvInput(cwd=str(instance.directory), session_id=live.id)
    environment = {**await instance.variables(given), **values}
    # Start-up time: few commands run another one.
    import shutil

    bash = shutil.which("bash", path=environment.get("PATH", os.defpath)) or "/bin/sh"
    try:
        done = await instance.children.run(
            [bash, "-c", shell, "instar", *words],
            cwd=instance.directory,
            env=environment,
            timeout=TIMEOUT,
            limit=MOST_OUTPUT,
        )
    except ProcessError as error:
        raise Invalid(f"the command's shell command {shell!r} could not be run: {error}") from None
    if done.timed_out:
        raise Invalid(f"the command's shell command {shell!r} did not end within {TIMEOUT} s")
    text = done.stdout.decode(errors="replace").rstrip("\n")
    cut = "\n(the output was longer and is cut here)" if done.truncated else ""
    if done.code == 0:
        return text + cut
    ended = f"exit code {done.code}" if done.code is not None else f"ended by signal {done.signal}"
    errors = done.stderr.decode(errors="replace").strip("\n")
    return "\n".join(filter(None, [text + cut, errors, f"({shell}: {ended})"]))


async def _hooked(
    instance: Instance, live: SessionState, body: CommandBody, parts: list[wire.Plain]
) -> list[wire.Plain]:
    given = points.CommandInput(command=body.command, session_id=live.id, arguments=body.arguments)
    output = points.CommandOutput(parts=parts)
    try:
        await instance.plugins.trigger(points.COMMAND_BEFORE, given, output)
    except Refused as refused:
        raise Invalid(
            f"the plugin {refused.plugin} refused the command {body.command}: {refused}"
        ) from refused
    # The door lets objects, dicts and None through.
    return [part if isinstance(part, dict) else part_to_plain(part) for part in output.parts or []]


def _task(command: Command, agent: Agent, text: str, model: ModelRef) -> wire.Plain:
    return {
        "type": "subtask",
        "agent": agent.name,
        "description": command.description or command.name,
        "command": command.name,
        "prompt": text,
        "model": {"providerID": model.provider_id, "modelID": model.model_id},
    }


def _model(instance: Instance, command: Command, agent: Agent, body: CommandBody) -> ModelRef | None:
    """The model, by opencode's order: the command's, its agent's, the request's; None for the session's."""
    if command.model:
        return _given(instance, command.model)
    if command.agent and agent.model is not None:
        return agent.model
    return _given(instance, body.model)


def _given(instance: Instance, reference: str | None) -> ModelRef | None:
    if not reference:
        return None
    if "/" in reference:
        try:
            return parse_model(reference)
        except ValueError as error:
            raise Invalid(str(error)) from None
    found = instance.models.find(reference)
    return ModelRef(provider_id=found.provider_id, model_id=found.id)
