"""Tests that every store for committers must pass: also yours.

    import random

    import pytest

    from fulmen.transactional.conformance import CASES

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_my_map(case, tmp_path):
        case(lambda name, context, rule: MyMap(tmp_path, name, context, rule), random.Random(1))

`make(name, context, rule)` makes a map, whose keys are text and whose values are anything that JSON
can hold. Maps of one name are views of the same rows, as those of several processes are. Each case
begins with names that it has not used before: begin each with an empty store.

A case that fails raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from fulmen.api.context import TopologyContext
from fulmen.api.marks import WHATEVER, CommitPhase, Point, StoreMismatch
from fulmen.api.transactions import TransactionAttempt
from fulmen.services.errors import StoreError, StoreRefused
from fulmen.transactional.commits import together
from fulmen.transactional.errors import StaleAttempt
from fulmen.transactional.maps import LONGEST_KEY, StoredMap, TransactionalMap, plus
from fulmen.transactional.rules import Rule

T = TypeVar("T")


class Random(Protocol):
    """The methods of `random.Random` that are used."""

    def random(self) -> float:
        """At least 0 and below 1."""
        ...

    def randint(self, a: int, b: int, /) -> int:
        """An int of `a` to `b`."""
        ...

    def choice(self, seq: Sequence[T], /) -> T:
        """One of them."""
        ...


Make = Callable[[str, TopologyContext, Rule], TransactionalMap]
Case = Callable[[Make, Random], None]
RULES: tuple[Rule, ...] = ("transactional", "opaque")
TASKS = 3
EPOCH = 1 << 62
"""Numbers of attempts have up to 63 bits."""


def context_of(
    task: int = 0, component: str = "count", topology: str = "conformance"
) -> TopologyContext:
    """The context of a task of a bolt."""
    return TopologyContext(
        topology, component, task + 1, task, 0, component_tasks={"count": range(1, TASKS + 1)}
    )


def at(txid: int, attempt: int = 1) -> TransactionAttempt:
    """An attempt of a transaction."""
    return TransactionAttempt(txid, EPOCH + attempt)


def holds(a_map: TransactionalMap, expected: Mapping[str, Any]) -> None:
    """Check the values of keys; an absent key is one whose value is `...`."""
    values = a_map.get_many(list(expected))
    wanted = {key: value for key, value in expected.items() if value is not ...}
    assert values == wanted, f"the map has {values}, not {wanted}"


def refuses(error: type[Exception], call: Callable[..., object], *arguments: object) -> None:
    """Check that a call raises an error."""
    try:
        call(*arguments)
    except error:
        return
    raise AssertionError(f"no {error.__name__} was raised")


# ---- what is said in Storm's documentation -------------------------------------------------------


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


# ---- what an attempt may not do ------------------------------------------------------------------


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


# ---- all or nothing ------------------------------------------------------------------------------


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


# ---- what only another attempt had ---------------------------------------------------------------


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


# ---- values --------------------------------------------------------------------------------------


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


# ---- whose it is ---------------------------------------------------------------------------------


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


# ---- who reads it --------------------------------------------------------------------------------


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


# ---- several maps --------------------------------------------------------------------------------


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


# ---- at random -----------------------------------------------------------------------------------


def random_histories(make: Make, rng: Random) -> None:
    """Tasks in turn, replays, attempts that end in the middle, and stale ones.

    The value of a key must be what the attempts give that completed, in the order of their
    transactions, and nothing else.
    """
    for number in range(8):
        for rule in RULES:
            _history(make, f"history_{rule}_{number}", rule, rng)


def _history(make: Make, name: str, rule: Rule, rng: Random) -> None:
    keys = [[f"{task}-{n}" for n in range(4)] for task in range(TASKS)]
    expected: dict[str, str] = {}
    written: list[tuple[int, TransactionAttempt]] = []
    views = [make(name, context_of(task), rule) for task in range(TASKS)]
    attempt = 0

    def partials(label: str) -> list[dict[str, str]]:
        return [{key: f"{label};" for key in own if rng.random() < 0.4} for own in keys]

    for txid in range(1, 8):
        same = partials(f"{txid}")
        for is_last in [False] * rng.randint(0, 2) + [True]:
            attempt += rng.randint(1, 3)
            now = at(txid, attempt)
            sent = same if rule == "transactional" else partials(f"{txid}.{attempt}")
            for task in range(TASKS):
                if is_last or rng.random() < 0.5:
                    if rng.random() < 0.3:
                        views[task] = make(name, context_of(task), rule)
                    views[task].update(now, sent[task], append_text)
                    written.append((task, now))
            _late(views, written, keys, rng)
        for part in sent:
            for key, value in part.items():
                expected[key] = expected.get(key, "") + value
        all_keys = [key for own in keys for key in own]
        holds(views[rng.randint(0, TASKS - 1)], {key: expected.get(key, ...) for key in all_keys})


def append_text(old: str | None, partial: str) -> str:
    """Append: what comes twice, or in another order, shows."""
    return (old or "") + partial


def _late(
    views: Sequence[TransactionalMap],
    written: Sequence[tuple[int, TransactionAttempt]],
    keys: Sequence[Sequence[str]],
    rng: Random,
) -> None:
    newest = dict(written)
    late = [(task, attempt) for task, attempt in written if attempt < newest[task]]
    if late:
        task, attempt = rng.choice(late)
        partials = dict.fromkeys(keys[task], "late;")
        refuses(StaleAttempt, views[task].update, attempt, partials, append_text)


CASES: tuple[Case, ...] = (
    a_replay_counts_once,
    man_dog_and_apple,
    the_opaque_rule,
    a_stale_attempt_is_refused,
    an_attempt_without_partials_counts,
    the_same_attempt_twice_is_refused,
    what_was_set_back_is_refused,
    neighbouring_attempts_are_told_apart,
    a_later_row_is_kept,
    two_tasks_with_one_key_are_refused,
    a_key_may_go_to_another_task,
    an_error_changes_nothing,
    many_keys_at_once,
    keys_of_an_older_attempt_get_their_values_back,
    an_old_value_may_be_changed_in_place,
    values_come_back_as_they_were,
    long_keys_are_refused,
    a_map_of_somebody_else_is_refused,
    a_reader_claims_nothing,
    what_is_read_is_of_one_transaction,
    new_values_are_returned,
    several_maps_are_written_in_one_commit,
    random_histories,
)
"""All of them. Each is independent of the others."""
