"""What an attempt changes: all of it once, or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fulmen.api.context import TopologyContext
from fulmen.api.marks import WHATEVER, CommitPhase, Point, StoreMismatch
from fulmen.api.transactions import TransactionAttempt
from fulmen.services.errors import StoreError, StoreRefused
from fulmen.transactional.conformance.checks import (
    RULES,
    Case,
    Make,
    Random,
    at,
    context_of,
    holds,
    refuses,
)
from fulmen.transactional.errors import StaleAttempt
from fulmen.transactional.maps import TransactionalMap, plus


def a_replay_counts_once(make: Make, _rng: Random) -> None:
    """A transaction that comes again, as from a source that repeats itself, counts once."""
    for rule in RULES:
        counts = make(f"replay_{rule}", context_of(), rule)
        counts.update(at(1), {"man": 1, "dog": 2}, plus)
        counts.update(at(1, 2), {"man": 1, "dog": 2}, plus)
        counts.update(at(2, 3), {"man": 1}, plus)
        counts.update(at(2, 4), {"man": 1}, plus)
        holds(counts, {"man": 2, "dog": 2, "apple": ...})


def man_dog_and_apple(make: Make, _rng: Random) -> None:
    """[3, tx1], [4, tx3] and [10, tx2]; then transaction 3 comes again: man, man and dog."""
    first, second = (make("example", context_of(task), "transactional") for task in (0, 1))
    first.update(at(1), {"dog": 1}, plus)
    second.update(at(1), {"man": 3}, plus)
    first.update(at(2), {"dog": 2}, plus)
    second.update(at(2), {"apple": 10}, plus)
    first.update(at(3), {"dog": 1}, plus)
    holds(first, {"man": 3, "dog": 4, "apple": 10})
    first.update(at(3, 2), {"dog": 1}, plus)
    second.update(at(3, 2), {"man": 2}, plus)
    holds(second, {"man": 5, "dog": 4, "apple": 10})


def the_opaque_rule(make: Make, _rng: Random) -> None:
    """{value 4, previous 1, txid 2}: 2 in transaction 3 makes 6, and 2 in transaction 2 makes 3."""
    for name, attempt, expected in (("next", at(3), 6), ("again", at(2, 2), 3)):
        counts = make(name, context_of(), "opaque")
        counts.update(at(1), {"n": 1}, plus)
        counts.update(at(2), {"n": 3}, plus)
        holds(counts, {"n": 4})
        counts.update(attempt, {"n": 2}, plus)
        holds(counts, {"n": expected})
        counts.update(at(attempt.txid, 3), {"n": 10}, plus)
        holds(counts, {"n": expected - 2 + 10})


def a_stale_attempt_is_refused(make: Make, _rng: Random) -> None:
    """A process that was believed dead writes late: older transactions, and older attempts."""
    for rule in RULES:
        counts = make(f"stale_{rule}", context_of(), rule)
        counts.update(at(3, 5), {"a": 1}, plus)
        for late in (at(2, 9), at(3, 4), at(1)):
            refuses(StaleAttempt, counts.update, late, {"a": 5, "b": 5}, plus)
        holds(counts, {"a": 1, "b": ...})


def an_attempt_without_partials_counts(make: Make, _rng: Random) -> None:
    """An older attempt comes too late, even if the newer one wrote nothing."""
    for rule in RULES:
        counts = make(f"none_{rule}", context_of(), rule)
        counts.update(at(1), {}, plus)
        counts.update(at(2, 3), {}, plus)
        refuses(StaleAttempt, counts.update, at(2, 2), {"a": 1}, plus)
        holds(counts, {"a": ...})


def the_same_attempt_twice_is_refused(make: Make, _rng: Random) -> None:
    """Its second call would be lost, or replace the first one."""
    for rule in RULES:
        counts = make(f"twice_{rule}", context_of(), rule)
        counts.update(at(1), {"a": 1}, plus)
        refuses(StoreError, counts.update, at(1), {"a": 2, "b": 2}, plus)
        holds(counts, {"a": 1, "b": ...})


def what_was_set_back_is_refused(make: Make, _rng: Random) -> None:
    """A store or a checkpoint that was set back, is empty, or is another one is not written to."""
    for rule in RULES:
        name, context = f"set_back_{rule}", context_of()
        counts = make(name, context, rule)

        def commit(
            transaction: Point,
            written: Point | None,
            attempt: int,
            a_map: TransactionalMap = counts,
            task: TopologyContext = context,
        ) -> None:
            known = (getattr(a_map, "name", ""),) if written else ()
            task.batch.commits = CommitPhase(transaction, written, ("c-given up",), known)
            a_map.update(at(transaction.number, attempt), {"a": 1}, plus)

        first, second, third = (Point(txid, "c-branch") for txid in (1, 2, 3))
        refuses(StoreMismatch, commit, second, first, 1)
        commit(first, None, 1)
        commit(first, None, 2)  # another attempt
        commit(second, first, 3)
        for transaction, written in (
            (Point(4, "c-branch"), third),  # the store was set back
            (Point(2, "c-later"), first),  # the checkpoint was
            (third, Point(2, "c-later")),
            (Point(1, "other-branch"), None),  # another checkpoint
        ):
            refuses(StoreMismatch, commit, transaction, written, 9)
        holds(counts, {"a": 2})
        given_up = Point(3, "c-given up")
        commit(given_up, second, 4)
        commit(Point(4, "c-branch"), second, 5)
        commit(Point(9, "other-branch"), Point(8, WHATEVER), 6)
        holds(counts, {"a": 5})


def a_task_that_is_back_goes_by_the_mark_of_another(make: Make, _rng: Random) -> None:
    """A task whose mark is of when there was one before writes if one that went on may."""
    for rule in RULES:
        contexts = context_of(0), context_of(1)
        maps = [make(f"back_{rule}", context, rule) for context in contexts]
        name = getattr(maps[0], "name", "")

        def commit(
            task: int,
            txid: int,
            of: Sequence[TopologyContext] = contexts,
            a_map: TransactionalMap = maps[0],
            other: TransactionalMap = maps[1],
            name: str = name,
        ) -> None:
            written = Point(txid - 1, "c-branch") if txid > 1 else None
            known = {name} if task == 0 and written else set[str]()
            inherited = {name: 0} if task == 1 and written else {}
            phase = CommitPhase(Point(txid, "c-branch"), written, (), known, inherited=inherited)
            of[task].batch.commits = phase
            (other if task else a_map).update(at(txid, txid), {f"of {task}": 1}, plus)

        commit(1, 1)
        for txid in (1, 2, 3):
            commit(0, txid)
        refuses(StoreMismatch, commit, 1, 6)  # the store was set back
        refuses(StoreMismatch, commit, 1, 2)  # the checkpoint was
        holds(maps[1], {"of 0": 3, "of 1": 1})
        commit(1, 4)
        commit(0, 4)
        holds(maps[1], {"of 0": 4, "of 1": 2})


def neighbouring_attempts_are_told_apart(make: Make, _rng: Random) -> None:
    """Numbers of attempts are not floats."""
    counts = make("neighbours", context_of(), "opaque")
    largest = 2**63 - 1
    counts.update(TransactionAttempt(1, largest - 1), {"a": 1}, plus)
    counts.update(TransactionAttempt(1, largest), {"a": 2}, plus)
    late = TransactionAttempt(1, largest - 1)
    refuses(StaleAttempt, counts.update, late, {"a": 3}, plus)
    holds(counts, {"a": 2})


def a_later_row_is_kept(make: Make, _rng: Random) -> None:
    """A row of a later transaction, by another task: the writer has been asleep."""
    for rule in RULES:
        first, second = (make(f"later_{rule}", context_of(task), rule) for task in (0, 1))
        first.update(at(5), {"a": 1}, plus)
        refuses(StaleAttempt, second.update, at(4, 9), {"b": 1, "a": 1}, plus)
        holds(first, {"a": 1, "b": ...})


def two_tasks_with_one_key_are_refused(make: Make, _rng: Random) -> None:
    """Equal keys go to the same task. In each attempt one of both is refused, whoever is first."""
    for rule in RULES:
        first, second = (make(f"shared_{rule}", context_of(task), rule) for task in (0, 1))
        second.update(at(1), {"k": 3}, plus)
        refuses(StoreRefused, first.update, at(1), {"k": 2}, plus)
        first.update(at(1, 2), {"k": 2}, plus)
        refuses(StoreRefused, second.update, at(1, 2), {"k": 3}, plus)
        second.update(at(1, 3), {"k": 3}, plus)
        refuses(StoreRefused, first.update, at(1, 3), {"k": 2}, plus)


def a_key_may_go_to_another_task(make: Make, _rng: Random) -> None:
    """In another attempt, after a change of the grouping: in whatever order tasks write then."""
    for rule in RULES:
        for order in ((0, 1), (1, 0)):
            name = f"moved_{rule}_{order[0]}"
            tasks = [make(name, context_of(task), rule) for task in (0, 1)]
            tasks[1].update(at(1), {"k": 1, "other": 1}, plus)
            tasks[1].update(at(2), {"k": 1, "other": 1}, plus)
            partials = {"k": 1}, {"other": 1}
            for task in order:
                tasks[task].update(at(2, 2), partials[task], plus)
            holds(tasks[0], {"k": 2, "other": 2})


def an_error_changes_nothing(make: Make, _rng: Random) -> None:
    """Neither rows nor the mark, so that the next attempt finds all as it was."""

    def half(old: Any, partial: Any) -> Any:
        if partial == "wrong":
            raise ZeroDivisionError
        return plus(old, partial)

    for rule in RULES:
        counts = make(f"error_{rule}", context_of(), rule)
        counts.update(at(1), {"a": 1, "b": 1}, plus)
        refuses(ZeroDivisionError, counts.update, at(2), {"a": 1, "b": "wrong", "c": 1}, half)
        holds(counts, {"a": 1, "b": 1, "c": ...})
        counts.update(at(2), {"a": 1, "c": 1}, half)
        holds(counts, {"a": 2, "b": 1, "c": 1})


def many_keys_at_once(make: Make, _rng: Random) -> None:
    """More than a statement or a script takes at once."""
    for rule in RULES:
        counts = make(f"many_{rule}", context_of(), rule)
        keys = [f"key-{n}" for n in range(3_000)]
        counts.update(at(1), dict.fromkeys(keys, 1), plus)
        counts.update(at(2), dict.fromkeys(keys[:2_000], 1), plus)
        counts.update(at(2, 2), dict.fromkeys(keys[:2_000], 1), plus)
        values = counts.get_many(keys)
        assert list(map(values.__getitem__, keys)) == [2] * 2_000 + [1] * 1_000


def keys_of_an_older_attempt_get_their_values_back(make: Make, _rng: Random) -> None:
    """An opaque source sends other tuples: what the first attempt alone had was never there."""
    first, second = (make("back", context_of(task), "opaque") for task in (0, 1))
    first.update(at(1), {"a": 1, "b": 1}, plus)
    second.update(at(1), {"x": 1}, plus)
    first.update(at(2), {"a": 10, "new": 10}, plus)
    second.update(at(2), {"x": 10}, plus)
    holds(first, {"a": 11, "b": 1, "new": 10, "x": 11})
    first.update(at(2, 2), {"b": 10}, plus)
    holds(first, {"a": 1, "b": 11, "new": ..., "x": 11})
    first.update(at(2, 3), {"a": 5}, plus)
    holds(first, {"a": 6, "b": 1, "new": ..., "x": 11})
    first.update(at(2, 4), {}, plus)
    holds(first, {"a": 1, "b": 1, "new": ..., "x": 11})
    first.update(at(3), {"a": 1, "new": 1}, plus)
    holds(first, {"a": 2, "b": 1, "new": 1, "x": 11})


def an_old_value_may_be_changed_in_place(make: Make, _rng: Random) -> None:
    """`combine` appends to the list that it was given: what was before must not change with it."""

    def append(old: list[int] | None, partial: int) -> list[int]:
        old = [] if old is None else old
        old.append(partial)
        return old

    lists = make("lists", context_of(), "opaque")
    lists.update(at(1), {"a": 1}, append)
    lists.update(at(2), {"a": 2}, append)
    lists.update(at(2, 2), {"a": 3}, append)
    holds(lists, {"a": [1, 3]})


CASES: tuple[Case, ...] = (
    a_replay_counts_once,
    man_dog_and_apple,
    the_opaque_rule,
    a_stale_attempt_is_refused,
    an_attempt_without_partials_counts,
    the_same_attempt_twice_is_refused,
    what_was_set_back_is_refused,
    a_task_that_is_back_goes_by_the_mark_of_another,
    neighbouring_attempts_are_told_apart,
    a_later_row_is_kept,
    two_tasks_with_one_key_are_refused,
    a_key_may_go_to_another_task,
    an_error_changes_nothing,
    many_keys_at_once,
    keys_of_an_older_attempt_get_their_values_back,
    an_old_value_may_be_changed_in_place,
)
