"""``instar completion``: a script that completes commands and options in a shell."""

from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

SHELLS: Final = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), required=False)
@click.pass_context
def command(ctx: click.Context, shell: str | None) -> None:
    """Print a completion script for SHELL; without it, for the one that $SHELL names.

    \b
    bash, in ~/.bashrc:                 eval "$(instar completion bash)"
    zsh, in ~/.zshrc after compinit:    eval "$(instar completion zsh)"
    fish, in ~/.config/fish/config.fish:  instar completion fish | source
    """
    name = shell or Path(ctx.obj.environment.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"name a shell: {', '.join(SHELLS)}", ctx)
    kind = get_completion_class(name)
    assert kind is not None
    if name == "bash":
        # Else a name such as llama3:8b is three words.
        click.echo("COMP_WORDBREAKS=${COMP_WORDBREAKS//:}")
    click.echo(kind(ctx.find_root().command, {}, "instar", "_INSTAR_COMPLETE").source())
