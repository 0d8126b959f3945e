"""What a method of an author's class returned, where nobody takes it: an error if work is lost."""

from __future__ import annotations

import inspect


def refuse_result(returned: object) -> None:
    """Raise if a method that is to emit, and to return nothing, returned something.

    In other frameworks a bolt returns or yields what is to be sent. Here that would go nowhere, and
    the tuple would be acked.

    Args:
        returned: What it returned.

    Raises:
        TypeError: It is not None.
    """
    if returned is None:
        return
    refuse_unrun(returned)
    raise TypeError(
        f"it returned a {type(returned).__name__}, which goes nowhere. Emit each tuple with"
        " `collector.emit([...])`, and return nothing"
    )


def refuse_answer(returned: object) -> None:
    """Raise if `next_tuple` returned anything but None or whether it did something.

    Args:
        returned: What it returned.

    Raises:
        TypeError: It is neither None nor a bool.
    """
    if returned is not True and returned is not False:
        refuse_result(returned)


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
    kind = type(returned).__name__
    if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        raise TypeError(
            f"it returned {'an' if kind[0] in 'aeiou' else 'a'} {kind} that nobody runs, so its"
            " work is not done. Write the method without `yield`: emit each tuple with"
            " `collector.emit([...])`"
        )
    if not inspect.isawaitable(returned):
        return
    if inspect.iscoroutine(returned):
        returned.close()  # else Python warns that nobody has awaited it
    raise TypeError(
        f"it returned a {kind} that nobody awaits, so its work is not done."
        " Await it in `async def execute`, or, where that can't be async, run it by asyncio.run"
    )
