"""`fulmen completion`: what a shell reads to complete the words of `fulmen`."""

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
_VARIABLE = "_FULMEN_COMPLETE"


@click.command(short_help="Print what a shell needs to complete words.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes subcommands, options, files and topologies.

    In bash: source <(fulmen completion bash). In zsh the same, with zsh. In fish: fulmen completion
    fish | source. kubectl's own completion does the same for `kubectl fulmen`.
    """
    found = get_completion_class(shell)
    assert found is not None, shell
    root = ctx.find_root().command
    click.echo(found(root, {}, "fulmen", _VARIABLE).source())
