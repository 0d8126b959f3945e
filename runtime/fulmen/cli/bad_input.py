"""Mistakes of those who use the command: what it raises, and the code that it ends with."""

from fulmen.errors import FulmenError

BAD_INPUT = 2
"""A file or an option can't be used: trying again won't help."""


class BadInput(FulmenError):
    """The user's input can't be used: ends the command with `BAD_INPUT`."""
