"""The names under which calls of authors' code are noted, where no tuple can be to blame for them.

A timer or a window is one of many that a task has, so its key is part of the name, as a digest: the
process in which a key is read may end by that. For all that is to be told of it, the task looks.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from fulmen.errors import repr_of

TICK, TIMER, END, DRAIN, WINDOW, COMMITTED = (
    *("tick", "on_timer", "end_batch", "drain", "window", "committed"),
)
FUNCTIONS = "a function of an input"
"""What the task that emits runs ahead of a grouping: a tuple is to blame for it, also of spouts."""
OF_NO_TUPLE = frozenset((TICK, TIMER, END, DRAIN, WINDOW, COMMITTED))
"""Calls of bolts that are for no tuple."""
OF_A_KEY = frozenset((TIMER, WINDOW))
"""Calls that a task makes for a key, so that it has many of them."""
_BETWEEN = "#"


def name_of(method: str, key: Any, which: object = "") -> str:
    """The name of a call for a key: the same in each process.

    Args:
        method: What is called.
        key: For which key.
        which: Says which call of those for the key it is.
    """
    return _BETWEEN.join((method, _digest(key), str(which)))


def _digest(key: Any) -> str:
    text = repr_of(key)
    if " at 0x" in text:  # the place of an object in memory
        text = type(key).__qualname__
    return blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def name_with(method: str, progress: str) -> str:
    """The name of a call that takes long, with how far it is."""
    return f"{method}{_BETWEEN}{progress}"


def progress_of(name: str) -> str:
    """How far the call is; none: it does not say."""
    method, _, progress = name.partition(_BETWEEN)
    return "" if method in OF_A_KEY else progress


def method_of(name: str) -> str:
    """The method in a call's name."""
    return name.partition(_BETWEEN)[0]


def of_the_key(name: str) -> str:
    """The part of a name that all calls of a method for a key have."""
    return name.rpartition(_BETWEEN)[0]


def is_whole(name: str) -> bool:
    """Whether a name says which call it was: not if it may be that for any of several keys."""
    return name not in OF_A_KEY
