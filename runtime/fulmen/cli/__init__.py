"""The command `fulmen`. It ends with 0 if all is fine, else with one of these codes.

`main` finds the subcommand in `commands`. `local` runs topologies on this machine, `kubectl` and
`cluster_topology` talk to a cluster, `display` shows figures. May use everything in `fulmen`; used
by nothing else.
"""

from fulmen.errors import FulmenError

FAILURE = 1
BAD_INPUT = 2
"""A file or an option can't be used: trying again won't help."""


class BadInput(FulmenError):
    """What the user has given can't be used: ends the command with `BAD_INPUT`."""
