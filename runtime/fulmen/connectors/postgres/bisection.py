"""Finds the rows that a database refuses, with few statements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any


class Refused(Exception):
    """The database refuses at least one of the rows. The text says why."""


Write = Callable[[Sequence[int]], None]
"""Writes rows, given their positions, all of them or none. Raises Refused."""


def write_but_refused(positions: Sequence[int], write: Write) -> dict[int, str]:
    """Write all rows but those that are refused. Returns why, by position.

    Halves what was refused until single rows are left, so a refused row among n costs 2 log n
    statements. Rows are written in their order.
    """
    refused: dict[int, str] = {}
    todo = [positions] if positions else []
    while todo:
        part = todo.pop()
        try:
            write(part)
        except Refused as error:
            if len(part) == 1:
                refused[part[0]] = str(error)
            else:
                half = len(part) // 2
                todo += [part[half:], part[:half]]
    return refused


def write_last_of_keys(
    items: Sequence[Sequence[Any]], key: Sequence[int], write: Write
) -> dict[int, str]:
    """The same for an upsert: of the rows with one key only the last is written.

    If that one is refused, the one before it is written instead, as if they came one by one. Rows
    are written in the order of keys, so that writers of the same rows don't block each other.

    Args:
        items: The rows.
        key: Which of their values are the key.
        write: Writes rows of different keys.
    """
    key_of = itemgetter(*key)
    latest = {value: i for i, value in enumerate(map(key_of, items))}
    if len(latest) == len(items):
        return write_but_refused(_in_order(latest), write)
    chains: dict[Any, list[int]] = {}
    for i, item in enumerate(items):
        value: Any = key_of(item)
        if any(item[at] is None for at in key):
            value = i  # NULL equals nothing
        chains.setdefault(value, []).append(i)
    refused: dict[int, str] = {}
    while chains:
        last = {value: chain.pop() for value, chain in chains.items()}
        reasons = write_but_refused(_in_order(last), write)
        refused |= reasons
        chains = {
            value: chain for value, chain in chains.items() if chain and last[value] in reasons
        }
    return refused


def _in_order(positions: dict[Any, int]) -> list[int]:
    try:
        return [positions[value] for value in sorted(positions)]
    except TypeError:  # there are NULLs among the keys
        return list(positions.values())
