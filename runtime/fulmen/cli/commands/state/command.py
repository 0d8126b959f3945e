"""The command `fulmen state` with its subcommands."""

import click

from fulmen.cli.commands.state.change import delete, set_value
from fulmen.cli.commands.state.decide import accept_store, forget, read_again
from fulmen.cli.commands.state.get import get
from fulmen.cli.commands.state.history import log, undo
from fulmen.cli.commands.state.serve import serve
from fulmen.cli.commands.state.sizes import sizes
from fulmen.cli.commands.state.transfer import export, import_file


@click.group(short_help="Show, and mend, what components keep: keyed state, or fields.")
def state() -> None:
    """Show what components keep in a checkpoint, and mend it.

    CHECKPOINT is a folder, a URI (file://, s3://, gs://, az://), or a topology's file that names
    its checkpoint. Reading a checkpoint can run code that is in it: read only your own.
    """


_SHOW = (get, sizes, serve, log)
_CHANGE = (set_value, delete, import_file, undo, accept_store, read_again, forget)
for _command in (*_SHOW, export, *_CHANGE):
    state.add_command(_command)
