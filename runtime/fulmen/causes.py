"""What an exception came of: `raise … from …`, what was being handled, exceptions of a group."""

from types import TracebackType

MOST = 5
"""More are not told: the innermost and the outermost are what tells most."""
_MOST_LOOKED_AT = 1000
_OWN = "fulmen."


def is_plain(error: BaseException) -> bool:
    """Whether there is nothing to be told of an exception but its type and its text. Cheap."""
    return (
        error.__context__ is None
        and error.__cause__ is None
        and not hasattr(error, "__notes__")
        and not isinstance(error, BaseExceptionGroup)
    )


def causes_of(error: BaseException) -> list[BaseException]:
    """All that an author's exception came of, the innermost first, without the exception itself.

    The text of one that Fulmen itself raises is complete.
    """
    if is_plain(error):
        return []
    order: list[BaseException] = []
    left, seen = [error], {id(error)}
    while left and len(order) < _MOST_LOOKED_AT:
        order.append(one := left.pop())
        for cause in _direct(one):
            if id(cause) not in seen:
                seen.add(id(cause))
                left.append(cause)
    found = order[:0:-1]
    return found if len(found) <= MOST else [*found[: MOST - 2], *found[-2:]]


def _direct(error: BaseException) -> list[BaseException]:
    where = error.__traceback__
    if where is not None and _is_own(_last(where)):
        return []
    cause = error.__cause__
    if cause is None and not error.__suppress_context__:
        cause = error.__context__
        # One that Fulmen was handling is not what the author's exception came of.
        if cause is not None and cause.__traceback__ and _is_own(cause.__traceback__):
            cause = None
    if isinstance(cause, StopIteration | StopAsyncIteration):  # how `next` says that it found none
        cause = None
    parts = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return [*([cause] if cause is not None else []), *parts]


def _last(where: TracebackType) -> TracebackType:
    while where.tb_next is not None:
        where = where.tb_next
    return where


def _is_own(where: TracebackType) -> bool:
    return str(where.tb_frame.f_globals.get("__name__", "")).startswith(_OWN)
