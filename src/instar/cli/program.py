"""The commands by name, and the way into them."""

import difflib
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import click

from instar import __version__
from instar.cli import collector
from instar.cli.context import Context
from instar.cli.failure import Failure, drop_output
from instar.flagship import commands as brought
from instar.flagship import commands_under

COMMANDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "run": ("instar.cli.run:command", "Give the agent a message and print its answer."),
        "session": ("instar.cli.session:command", "List, show or delete sessions."),
        "export": ("instar.cli.exchange:export", "Print a session as a file that opencode reads."),
        "import": (
            "instar.cli.exchange:import_",
            "Take in a session's file, or sessions of opencode's database.",
        ),
        "agent": ("instar.cli.agent:command", "List, show or create agents."),
        "models": ("instar.cli.models:command", "List the models that can be called."),
        "mcp": ("instar.cli.mcp:command", "List MCP servers, or approve what changed in one."),
        "auth": ("instar.cli.auth:command", "Keep, list or forget providers' keys."),
        "permission": ("instar.cli.permission:command", "List what was allowed for always, or take it back."),
        "workspace": ("instar.cli.workspace:command", "List, make or remove worktrees for sessions."),
        "serve": ("instar.cli.serve:command", "Serve opencode's HTTP interface."),
        "stop": ("instar.cli.stop:command", "End every turn that runs in a folder's project, or everywhere."),
        "stats": ("instar.cli.stats:command", "Tell what model calls used and cost."),
        "opencode": ("instar.cli.opencode:command", "Let instar's plugins work in opencode."),
        "trust": ("instar.cli.trust:command", "Say which folders may run code."),
        "config": ("instar.cli.config:command", "Show or check the settings, or print their schema."),
        "doctor": ("instar.cli.doctor:command", "Say what is missing, and what to do about it."),
        "init": ("instar.cli.init:command", "Make a folder with an evolve workspace of your own."),
        "completion": ("instar.cli.completion:command", "Print a completion script for a shell."),
    }
)
"""Each command: ``module:attribute`` of its click command, and its line in the help."""

HIDDEN: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {"bridge": ("instar.cli.bridge:command", "What opencode's plugin file starts.")}
)
"""Commands for programs alone: no list shows them."""


class Program(click.Group):
    """A group whose commands are imported when they are called; the help is written from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names: the core's, then the flagships'."""
        return list(table())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command called `cmd_name`; None when there is none."""
        found = table().get(cmd_name) or HIDDEN.get(cmd_name)
        if found is None:
            return None
        module, _, attribute = found[0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        if cmd_name not in COMMANDS and cmd_name not in HIDDEN:
            return _equipped(command)
        if isinstance(command, click.Group):
            _complete(cmd_name, command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in table().items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` begin with. Raises `click.UsageError` naming the nearest ones."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and name not in {*table(), *HIDDEN}:
            near = difflib.get_close_matches(name, table(), n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f'there is no command {name!r}{meant} (a prompt: instar run "…")', ctx)
        return super().resolve_command(ctx, args)


def table() -> dict[str, tuple[str, str]]:
    """Return every command: the core's, then those that the flagships bring."""
    return {**COMMANDS, **brought()}


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
@click.pass_context
def program(ctx: click.Context) -> None:
    """A self-evolving agent: it rewrites its own hooks, prompts and tools, each change tested first."""
    ctx.obj = Context(dict(os.environ))


def main(arguments: list[str] | None = None, exit_with: Callable[[int], Any] = sys.exit) -> None:
    """Run the command line and end the process with its exit code."""
    collector.starting()
    _stand_in()
    try:
        given = _meant(sys.argv[1:] if arguments is None else arguments)
        code = program.main(given, prog_name="instar", standalone_mode=False)
    except Failure as error:
        error.show()
        code = error.code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = error.exit_code
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "instar"
        Failure(f"{error.format_message().rstrip('.')} (see: {where} --help)").show()
        code = error.exit_code
    except click.Abort:
        code = 130
    except OSError as error:  # the help itself: a command's own errors are failures already
        drop_output()
        Failure(error.strerror or str(error)).show()
        code = 1
    exit_with(int(code or 0))


def _stand_in() -> None:
    """Open nothing in place of a standard stream that is closed: else the database would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def _meant(arguments: list[str]) -> list[str]:
    """What a person means who asks for help or the version by a word instead of an option."""
    match arguments:
        case ["help", *words]:
            return [*words, "--help"]
        case ["version"]:
            return ["--version"]
        case _:
            return arguments


def _complete(name: str, group: click.Group) -> None:
    """Give a group of ours the commands that flagships have in it."""
    for inner, brings in commands_under(name).items():
        if inner not in group.commands:
            module, _, attribute = brings.command.partition(":")
            group.add_command(_equipped(getattr(importlib.import_module(module), attribute)), inner)


def _equipped(command: click.Command) -> click.Command:
    """A flagship's command with what ours have: a flagship imports no door, so it cannot ask for it."""
    # Start-up time: the help of the whole program needs no door.
    from instar.cli.door import equip

    return equip(command)
