"""``instar completion``: a script that completes commands and options in a shell."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script; for bash: eval "$(instar completion bash)"."""
    found = get_completion_class(shell)
    assert found is not None
    root = ctx.find_root()
    click.echo(found(root.command, {}, "instar", "_INSTAR_COMPLETE").source())
