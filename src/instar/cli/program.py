"""The program: its commands by name, imported when they are called, and the way into them."""

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from instar import __version__
from instar.cli import streams
from instar.cli.text import note
from instar.settings.builtin_plugins import commands as plugin_commands
from instar.settings.builtin_plugins import commands_under

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "run": ("instar.cli.run:command", "Give the agent a message and print its answer."),
        "chat": ("instar.cli.chat.command:command", "Talk with the agent at a terminal."),
        "acp": ("instar.cli.acp.command:command", "Let an editor talk with the agent."),
        "session": ("instar.cli.session:command", "List, show, revert, fork, compact or delete sessions."),
        "export": ("instar.cli.import_export:export", "Print a session as a file that opencode reads."),
        "import": (
            "instar.cli.import_export:import_",
            "Take in a session's file, or sessions of opencode's database.",
        ),
        "agent": ("instar.cli.agent:command", "List, show or create agents."),
        "models": ("instar.cli.models:command", "List the models that can be called."),
        "mcp": ("instar.cli.mcp:command", "List MCP servers, or approve what changed in one."),
        "plugin": (
            "instar.cli.plugin:command",
            "Add or update plugin folders of Claude Code and Agent Plugins.",
        ),
        "auth": ("instar.cli.auth:command", "Keep, list or forget providers' keys."),
        "permission": (
            "instar.cli.permission:command",
            "List what you allowed with `always`, or take it back.",
        ),
        "workspace": ("instar.cli.workspace:command", "List, make or remove worktrees for sessions."),
        "serve": ("instar.cli.serve:command", "Serve opencode's HTTP interface."),
        "open": ("instar.cli.open:command", "Open the page of a running server in a browser, or start one."),
        "db": ("instar.cli.db:command", "Move what is stored to another database."),
        "stop": ("instar.cli.stop:command", "End every turn that runs in a folder's project, or everywhere."),
        "stats": ("instar.cli.stats:command", "Show what model calls used and cost."),
        "opencode": ("instar.cli.opencode:command", "Install instar's plugins in opencode."),
        "trust": ("instar.cli.trust:command", "Allow a folder to run code: plugins, hook scripts."),
        "aside": ("instar.cli.aside:command", "List or put back what a model made that would run later."),
        "config": ("instar.cli.config:command", "Show or check the settings, or print their schema."),
        "doctor": ("instar.cli.doctor:command", "Check what instar needs, and say what to do."),
        "docs": ("instar.cli.docs:command", "Print a page of the documentation, or list the pages."),
        "init": ("instar.cli.init:command", "Make a folder with an evolve workspace of your own."),
        "completion": ("instar.cli.completion:command", "Print a completion script for a shell."),
    }
)
"""Each command: ``module:attribute`` of its click command, and its line in the help."""

HIDDEN: Final = MappingProxyType({"bridge": "instar.cli.opencode:bridge"})
"""Commands that programs start; no list shows them."""


class Program(click.Group):
    """A group whose commands are imported when they are called; the help is written from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands' names: the core's, then the built-in plugins'."""
        return list(table())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command called `cmd_name`; None when there is none."""
        if cmd_name in HIDDEN:
            return _imported(HIDDEN[cmd_name])
        if cmd_name not in table():
            return None
        command = _imported(table()[cmd_name][0])
        if cmd_name not in COMMANDS:
            return _equipped(command)
        if isinstance(command, click.Group):
            for name, added in commands_under(cmd_name).items():
                if name not in command.commands:
                    command.add_command(_equipped(_imported(added.command)), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing one."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in table().items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return the commands that begin as a word does, without importing one."""
        from click.shell_completion import CompletionItem

        known = table().items()
        found = [CompletionItem(name, help=line) for name, (_, line) in known if name.startswith(incomplete)]
        return found or click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` begin with. Raises `click.UsageError` naming the nearest one."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and name not in {*table(), *HIDDEN}:
            # Start-up time: only a wrong name is compared.
            from difflib import get_close_matches

            near = get_close_matches(name, table(), n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise click.UsageError(f'there is no command {name!r}{meant} (a prompt: instar run "…")', ctx)
        return super().resolve_command(ctx, args)


def table() -> dict[str, tuple[str, str]]:
    """Return every command: the core's, then those of the built-in plugins."""
    return {**COMMANDS, **plugin_commands()}


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
@click.pass_context
def program(ctx: click.Context) -> None:
    """A self-evolving agent: it rewrites its own hooks, prompts and tools, each change tested first."""
    # Start-up time, here and below: the help of the whole program needs no door.
    from instar.cli.door import Context

    ctx.obj = Context(dict(os.environ))


def run(arguments: list[str], exit_with: Callable[[int], Any]) -> None:
    """Run the command line and end the process with its exit code."""
    _open_standard_streams()
    streams.replace()
    match arguments:
        case ["help", *words]:
            arguments = [*words, "--help"]
        case ["version"]:
            arguments = ["--version"]
        case [] if sys.stdin.isatty() and sys.stdout.isatty():
            arguments = ["chat"]
    try:
        code = program.main(arguments, prog_name="instar", standalone_mode=False, **_given())
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = error.exit_code
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "instar"
        note(f"{error.format_message().rstrip('.')} (see: {where} --help)")
        code = error.exit_code
    except click.ClickException as error:
        note(error.message)
        code = getattr(error, "code", error.exit_code)
    except click.Abort:
        code = 130
    except OSError as error:  # the help itself: a command's own errors are failures already
        from instar.cli.door import drop_output

        drop_output()
        note(error.strerror or str(error))
        code = 1
    finally:
        streams.restore()
    exit_with(int(code or 0))


def _given() -> dict[str, Any]:
    """What completion needs, for which no command is entered."""
    if "_INSTAR_COMPLETE" not in os.environ:
        return {}
    from instar.cli.door import Context

    return {"obj": Context(dict(os.environ))}


def _open_standard_streams() -> None:
    """Open /dev/null for a standard stream that is closed: else the database would get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))  # noqa: SIM115, PTH123


def _imported(place: str) -> click.Command:
    module, _, attribute = place.partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return command


def _equipped(command: click.Command) -> click.Command:
    """A plugin's command with the options and errors of ours: a plugin imports only `instar.plugin`."""
    from instar.cli.door import equip

    return equip(command)
