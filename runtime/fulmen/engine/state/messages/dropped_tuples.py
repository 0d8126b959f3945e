"""Records of tuples that were dropped because they kill their workers. Pure.

They were harmful once, maybe when they were pickled or printed. So no code of an author's is
called (but by `sendable`): objects of classes are kept by the names of their classes only.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any, Final

from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.errors import PASSED_ON

MOST: Final = 100
"""The number of dropped tuples that are kept of each spout task: the newest."""
LONGEST: Final = 10_000
"""Characters or bytes of a text, and elements of a container, that are kept."""
DEPTH: Final = 8


def note(
    kept: KeyedState,
    stream: str,
    values: Sequence[Any],
    msg_id: Any,
    cause: str,
    traceback: str,
    at: float,
) -> None:
    """Keep a tuple that was dropped.

    Args:
        kept: The dropped tuples so far, by number; the new one is added.
        stream: The stream that it was emitted on.
        values: Its values.
        msg_id: Its message id; None: it was not tracked.
        cause: What became of its batch, in one line.
        traceback: Of what failed, if there is one.
        at: The time when it was dropped, in wall clock seconds.
    """
    number = max(kept, default=0) + 1
    kept[number] = {
        "stream": stream,
        "values": [plain(value) for value in values],
        "msg_id": plain(msg_id),
        "cause": cause,
        **({"traceback": traceback} if traceback else {}),
        "at": at,
    }
    for old in [n for n in kept if n <= number - MOST]:
        del kept[old]


def message(values: Sequence[Any], cause: str) -> str:
    """The report of a dropped tuple, given its plain values."""
    why = f" ({cause})" if cause else ""
    return (
        f"dropped a tuple: its batch failed with it alone, twice{why}, and succeeded without it:"
        f" {str(values)[:200]}"
    )


def plain(value: Any, depth: int = DEPTH) -> Any:
    """Copy into builtin types, cut to a bounded size; an object is named by its class."""
    kind = type(value)
    if value is None or kind in (bool, int, float):
        return value
    if kind in (str, bytes):
        return value[:LONGEST]
    if kind in (list, tuple) and depth:
        return kind(plain(inner, depth - 1) for inner in value[:LONGEST])
    if kind is dict and depth:
        items = list(value.items())[:LONGEST]
        return {_key(k, depth - 1): plain(v, depth - 1) for k, v in items}
    return f"<{kind.__module__}.{kind.__qualname__}>"


def sendable(value: Any) -> Any:
    """The value, if it can be pickled and read again; else `plain`."""
    try:
        pickle.loads(pickle.dumps(value, 5))
    except PASSED_ON:
        raise
    except BaseException:  # noqa: BLE001 (whatever an author's class raises)
        return plain(value)
    return value


def _key(value: Any, depth: int) -> Any:
    key = plain(value, depth)
    return key if type(key) is not tuple else repr(key)
