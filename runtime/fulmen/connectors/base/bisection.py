"""Finds the rows that a system refuses, with few tries."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence


class RowsRefused(Exception):
    """The system refuses at least one of the rows. The text says why."""


Write = Callable[[Sequence[int]], None]
"""Writes rows, given their positions, all of them or none. Raises Refused."""


def write_but_refused(positions: Sequence[int], write: Write) -> dict[int, str]:
    """Write all rows but those that are refused. Returns why, by position.

    Halves what was refused until single rows are left, so a refused row among n costs 2 log n
    statements, and n of them 2 n. Rows are written in their order.
    """
    refused: dict[int, str] = {}
    todo = [positions] if positions else []
    while todo:
        part = todo.pop()
        try:
            write(part)
        except RowsRefused as error:
            if len(part) == 1:
                refused[part[0]] = str(error)
            else:
                half = len(part) // 2
                todo += [part[half:], part[:half]]
    return refused


def last_of_keys(keys: Sequence[Hashable]) -> list[int]:
    """The position of the last row of each key.

    In the order of keys, so that writers of the same rows don't block each other.

    Args:
        keys: Of each row; None equals nothing, alone or in a tuple.
    """
    latest = {i if _is_null(key) else key: i for i, key in enumerate(keys)}
    try:
        return [latest[key] for key in sorted(latest)]  # type: ignore[type-var]
    except TypeError:  # there are NULLs among the keys
        return list(latest.values())


def write_last_of_keys(keys: Sequence[Hashable], write: Write) -> dict[int, str]:
    """Like `write_but_refused` for an upsert: of the rows with one key only the last is written.

    If that one is refused, the one before it is written instead, as if they came one by one.

    Args:
        keys: Of each row; None equals nothing.
        write: Writes rows of different keys.
    """
    chains: dict[Hashable, list[int]] = {}
    for i, key in enumerate(keys):
        chains.setdefault((i,) if _is_null(key) else key, []).append(i)
    refused: dict[int, str] = {}
    while chains:
        last = {key: chain.pop() for key, chain in chains.items()}
        reasons = write_but_refused(sorted(last.values()), write)
        refused |= reasons
        chains = {key: chain for key, chain in chains.items() if chain and last[key] in reasons}
    return refused


def _is_null(key: Hashable) -> bool:
    return key is None or (isinstance(key, tuple) and None in key)
