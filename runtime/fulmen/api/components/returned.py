"""Checks of the values that methods of authors' classes return: lost work is an error."""

from __future__ import annotations

import inspect
from typing import NoReturn

import numpy as np


def refuse_result(returned: object) -> None:
    """Raise if a method that is to emit, and to return nothing, returned something.

    In other frameworks a bolt returns or yields what is to be sent. Here that would go nowhere, and
    the tuple would be acked.

    Raises:
        TypeError: It is not None.
    """
    if returned is not None:
        _refuse(returned, "return nothing")


def answer_of(returned: object) -> bool:
    """Read the answer of `next_tuple`: whether it did something.

    Args:
        returned: What it returned, and is not None.

    Raises:
        TypeError: It is no answer.
    """
    if not isinstance(returned, bool | np.bool_):
        _refuse(returned, "return nothing, or True or False: whether it did something")
    return bool(returned)


def _refuse(returned: object, right: str) -> NoReturn:
    refuse_unrun(returned)
    raise TypeError(
        f"it returned {_a(returned)}, which goes nowhere. Emit each tuple with"
        f" `collector.emit([...])`, and {right}"
    )


def _a(value: object) -> str:
    """The kind of a value, with an article."""
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def refuse_unrun(returned: object) -> None:
    """Raise if a method returned what has not run yet, and that nobody would run.

    Validation finds `async` and `yield` where they can't be; not behind a decorator, or in a helper
    that the method calls.

    Args:
        returned: What it returned. Anything else is of no use, and does no harm.

    Raises:
        TypeError: It is to be awaited, or a generator.
    """
    if returned is None:
        return
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        raise TypeError(
            f"it returned {_a(returned)} that nobody runs, so its work is not done. Write the"
            " method without `yield`: emit each tuple with `collector.emit([...])`"
        )
    if not inspect.isawaitable(returned):
        return
    if inspect.iscoroutine(returned):
        returned.close()  # else Python warns that nobody has awaited it
    raise TypeError(
        f"it returned {_a(returned)} that nobody awaits, so its work is not done."
        " Await it in `async def execute`, or, where that can't be async, run it by asyncio.run"
    )
