"""`cems completion`: the script that makes a shell complete our commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

HOW = {
    "bash": 'eval "$(cems completion bash)"     # in ~/.bashrc',
    "zsh": 'eval "$(cems completion zsh)"      # in ~/.zshrc',
    "fish": "cems completion fish | source      # in ~/.config/fish/config.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(tuple(HOW)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes SHELL complete commands and options.

    \b
    To have it always:
      eval "$(cems completion bash)"        in ~/.bashrc
      eval "$(cems completion zsh)"         in ~/.zshrc
      cems completion fish | source         in ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, "cems", "_CEMS_COMPLETE").source())
