"""The command `fulmen`. It ends with 0 if all is fine, else with one of these codes."""

from fulmen.errors import FulmenError

FAILURE = 1
BAD_INPUT = 2
"""A file or an option can't be used: trying again won't help."""


class BadInput(FulmenError):
    """What the user has given can't be used: ends the command with `BAD_INPUT`."""
