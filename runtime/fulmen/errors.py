"""Every error that Fulmen raises on purpose. A class of its own exists only where somebody reacts differently.

FulmenError
    DeclarationError      a component declares its output streams wrongly
    StreamError           an emit that the component's declaration does not allow
    CollectorError        a collector used outside of a callback
"""


class FulmenError(Exception):
    """Base of all errors that are Fulmen's own. Its text is complete: who, where, what, and the cure."""


class DeclarationError(FulmenError):
    """A component's `outputs` or `declare_output_fields` can't be understood."""


class StreamError(FulmenError):
    """An emit names an undeclared stream, uses a direct one wrongly, or has another number of values."""


class CollectorError(FulmenError):
    """An emit, ack or fail outside of the callbacks in which it is allowed."""
