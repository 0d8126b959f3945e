"""What maps hold, whose they are, and who reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fulmen.api.context import TopologyContext
from fulmen.api.transactions import TransactionAttempt
from fulmen.services.errors import StoreError, StoreRefused
from fulmen.transactional.commits import together
from fulmen.transactional.conformance.checks import (
    RULES,
    TASKS,
    Case,
    Make,
    Random,
    at,
    context_of,
    holds,
    refuses,
)
from fulmen.transactional.errors import StaleAttempt
from fulmen.transactional.maps import LONGEST_KEY, StoredMap, TransactionalMap, plus
from fulmen.transactional.rules import Rule


def values_come_back_as_they_were(make: Make, _rng: Random) -> None:
    """Also those that are false, large, or hard to write down; and put replaces them."""
    values: dict[str, Any] = {
        "none": None,
        "": "",
        "zero": 0,
        "large": 2**80,
        "float": 0.1,
        "list": [1, [None, "x"], {"a": True}],
        "quotes ' \" \\ % {} :x $1 ?": "' \" \\ % {} :x $1 ?",
        "snow ☃ 🐦\n\t": "☃ 🐦\n\t",
    }
    for rule in RULES:
        kept = make(f"values_{rule}", context_of(), rule)
        kept.put(at(1), values)
        holds(kept, values)
        kept.put(at(2), {"none": 1, "zero": None})
        holds(kept, {**values, "none": 1, "zero": None})
        assert kept.get_many([]) == {}


def long_keys_are_refused(make: Make, rng: Random) -> None:
    """Every store takes keys of the same length, also if they can't be compressed."""
    letters = [chr(code) for code in range(0x4E00, 0x9FFF)]  # of three bytes each
    key = "".join(rng.choice(letters) for _ in range(LONGEST_KEY // 3))
    for rule in RULES:
        counts = make(f"long_{rule}", context_of(), rule)
        refuses(StoreRefused, counts.update, at(1), {key + "long": 1}, plus)
        counts.update(at(1), {key: 1}, plus)
        holds(counts, {key: 1, key + "long": ...})


def a_map_of_somebody_else_is_refused(make: Make, _rng: Random) -> None:
    """Of another bolt, of another topology, or made with the other rule."""
    for rule, other in (RULES, RULES[::-1]):
        name = f"owned_{rule}"
        owned = make(name, context_of(), rule)
        owned.update(at(1), {"a": 1}, plus)
        for context, its_rule in (
            (context_of(component="sums"), rule),
            (context_of(topology="elsewhere"), rule),
            (context_of(), other),
        ):
            refuses(StoreRefused, _use, make, name, context, its_rule)
        refuses(StoreRefused, make(name, context_of(), other).get_many, ["a"])
        holds(owned, {"a": 1})


def _use(make: Make, name: str, context: TopologyContext, rule: Rule) -> None:
    make(name, context, rule).update(at(2), {"a": 1}, plus)


def a_reader_claims_nothing(make: Make, _rng: Random) -> None:
    """Another bolt, or another topology, reads a map: before it is there, and afterwards."""
    for rule, other in (RULES, RULES[::-1]):
        name = f"read_{rule}"
        readers = [
            make(name, context_of(component="reader"), other),
            make(name, context_of(component="reader", topology="elsewhere"), rule),
        ]
        for reader in readers:
            holds(reader, {"a": ...})
        make(name, context_of(), rule).update(at(1), {"a": 1}, plus)
        for reader in readers:
            holds(reader, {"a": 1, "b": ...})


def what_is_read_is_of_one_transaction(make: Make, _rng: Random) -> None:
    """After a transaction, when all tasks have written it; before it, however many have."""
    for rule in RULES:
        name = f"exact_{rule}"
        tasks = [make(name, context_of(task), rule) for task in range(TASKS)]
        reader = make(name, context_of(component="reader"), "transactional")
        refuses(StoreError, _read, reader, None, at(1))
        assert rule != "opaque" or _read(reader, at(1), None) == {}
        _write(tasks, at(1), {0: {"a": 1}})
        assert _read(reader, None, at(1)) == {"a": 1}
        _write(tasks[:1], at(2, 2), {0: {"a": 1, "b": 1}})
        refuses(StoreError, _read, reader, None, at(2, 2))
        _write(tasks[1:], at(2, 2), {1: {"c": 1}})
        _write(tasks[:1], at(2, 3), {0: {"a": 1, "b": 1}})
        refuses(StoreError, _read, reader, None, at(2, 3))
        refuses(StaleAttempt, _read, reader, None, at(2, 2))
        if rule == "opaque":
            assert _read(reader, at(2, 3), None) == {"a": 1}
        else:
            refuses(StoreRefused, _read, reader, at(2, 3), None)
        _write(tasks[1:], at(2, 3), {1: {"c": 1}})
        assert _read(reader, None, at(2, 3)) == {"a": 2, "b": 1, "c": 1}
        elsewhere = make(name, context_of(topology="elsewhere"), "transactional")
        refuses(StoreRefused, _read, elsewhere, None, at(2, 3))


def _write(
    tasks: Sequence[TransactionalMap],
    attempt: TransactionAttempt,
    partials: Mapping[int, Mapping[str, int]],
) -> None:
    for task in tasks:
        task.update(attempt, partials.get(getattr(task, "task", 0), {}), plus)


def _read(
    reader: TransactionalMap, before: TransactionAttempt | None, after: TransactionAttempt | None
) -> Mapping[str, Any]:
    return reader.get_many("abc", before=before, after=after)


def new_values_are_returned(make: Make, _rng: Random) -> None:
    """Each attempt that has the same values gets the same new ones."""
    for rule in RULES:
        counts = make(f"returned_{rule}", context_of(), rule)
        counts.put(at(1), {"a": [1], "b": [1]})
        for attempt in (at(2), at(2, 2)):
            returned = counts.update(attempt, {"a": (2,), "c": (2,)}, _joined)
            assert dict(returned) == {"a": [1, 2], "c": [2]}, f"{dict(returned)} were returned"
            assert (returned.get("b"), returned.get(7), len(returned)) == (None, None, 2)
        assert dict(counts.update(at(2, 3), {}, plus)) == {}


def _joined(old: list[int] | None, partial: tuple[int, ...]) -> tuple[int, ...]:
    return (*(old or ()), *partial)


def several_maps_are_written_in_one_commit(make: Make, _rng: Random) -> None:
    """All of them or none; a store that can't do that says so before it writes anything."""
    for rule in RULES:
        first, second = (make(f"{name}_{rule}", context_of(), rule) for name in ("one", "two"))
        if not isinstance(first, StoredMap) or not isinstance(second, StoredMap):
            return
        try:
            with together(first, second):
                first.update(at(1), {"a": 1}, plus)
                second.update(at(1), {"a": 1}, plus)
        except StoreRefused:
            holds(first, {"a": ...})
            return
        try:
            with together(first, second):
                first.update(at(2), {"a": 1, "b": 1}, plus)
                second.update(at(1), {"a": 1}, plus)
        except StoreRefused:
            pass
        else:
            raise AssertionError("the attempt was written twice")
        holds(first, {"a": 1, "b": ...})
        with together(first, second):
            second.update(at(2, 2), {"a": 1}, plus)
            first.update(at(2, 2), {"a": 1}, plus)
        holds(first, {"a": 2})
        holds(second, {"a": 2})


CASES: tuple[Case, ...] = (
    values_come_back_as_they_were,
    long_keys_are_refused,
    a_map_of_somebody_else_is_refused,
    a_reader_claims_nothing,
    what_is_read_is_of_one_transaction,
    new_values_are_returned,
    several_maps_are_written_in_one_commit,
)
