"""Values of authors as they may be shown: builtin types, of a bounded size, without secrets."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from fulmen.errors import PASSED_ON, repr_of
from fulmen.secrets import masked

LONGEST: Final = 10_000
"""Characters or bytes of a text, and elements of a container, that are shown."""
DEPTH: Final = 8
_BUILTIN: Final = frozenset((type(None), bool, int, float, str, bytes))


def message(values: Sequence[Any], cause: str) -> str:
    """The report of a dropped tuple, given its values as they may be shown."""
    why = f" ({cause})" if cause else ""
    return (
        f"dropped a tuple: its batch failed with it alone, twice{why}, and succeeded without it:"
        f" {str(values)[:200]}"
    )


def class_name(value: Any) -> str:
    """An object by the name of its class: no code of an author's is called."""
    kind = type(value)
    return f"<{kind.__module__}.{kind.__qualname__}>"


def described(value: Any) -> str:
    """An object by its own text, which is code of an author's."""
    return _cut(masked(repr_of(value, LONGEST)))


def shown(value: Any, depth: int = DEPTH, of_object: Callable[[Any], str] = class_name) -> Any:
    """Copy into builtin types, cut to a bounded size. Secrets of this process are masked.

    Args:
        value: The value.
        depth: How many levels of containers are copied.
        of_object: The text for an object of a class.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float):
        return value
    if kind is str:
        return _cut(masked(value))
    if kind is bytes:
        return value[:LONGEST]
    if kind in (list, tuple) and depth:
        return kind(shown(inner, depth - 1, of_object) for inner in value[:LONGEST])
    if kind is dict and depth:
        items = list(value.items())[:LONGEST]
        return {_key(k, depth - 1): shown(v, depth - 1, of_object) for k, v in items}
    return of_object(value) if depth else class_name(value)


def _cut(text: str) -> str:
    left = len(text) - LONGEST
    return text if left <= 0 else f"{text[:LONGEST]}… ({left:,} more characters)"


def sendable(value: Any) -> Any:
    """The value, if it can be pickled and read again; else `shown`."""
    try:
        pickle.loads(pickle.dumps(value, 5))
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (whatever an author's class raises)
        return shown(value)
    return value


def is_builtin(value: Any, depth: int = DEPTH) -> bool:
    """Whether there is no object of any other class in it."""
    kind = type(value)
    if kind in _BUILTIN:
        return True
    inner: Collection[Any]
    if kind is dict:
        inner = [*value, *value.values()]
    elif kind in (list, tuple):
        inner = value
    else:
        return False
    return depth > 0 and all(is_builtin(one, depth - 1) for one in inner)


def _key(value: Any, depth: int) -> Any:
    key = shown(value, depth)
    return key if type(key) is not tuple else repr(key)
