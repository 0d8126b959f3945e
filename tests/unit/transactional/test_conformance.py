"""The cases of conformance.py fail for stores that are broken in one place each."""

import random
from contextlib import contextmanager, nullcontext

import pytest

from fulmen.api import TransactionAttempt
from fulmen.api.marks import CommitPhase
from fulmen.services.pools import close_all
from fulmen.services.sql import sqlite
from fulmen.transactional import SqliteMap, maps, rules
from fulmen.transactional.conformance import CASES
from fulmen.transactional.maps import StoredMap
from fulmen.transactional.owners import FoundMap, MapMark, Owner
from fulmen.transactional.rules import ABSENT

BROKEN, CORRECT = {}, rules.changes


def broken(function):
    """Keeps a way to break a store."""
    BROKEN[function.__name__] = function
    return function


def is_replay(a_map, attempt, mark):
    return mark is not None and a_map._rule == "opaque" and mark.txid == attempt.txid


@broken
def no_attempt_is_stale(patch):
    patch.setattr(StoredMap, "must_take_back", is_replay)


@broken
def attempts_of_a_transaction_are_all_alike(patch):
    correct = StoredMap.must_take_back

    def check(a_map, attempt, mark):
        if mark is not None and mark.txid == attempt.txid:
            return is_replay(a_map, attempt, mark)
        return correct(a_map, attempt, mark)

    patch.setattr(StoredMap, "must_take_back", check)


@broken
def only_the_same_attempt_is_let_in_twice(patch):
    correct = StoredMap.must_take_back

    def is_let_in(a_map, attempt, mark):
        return not (mark and mark.is_of(attempt)) and correct(a_map, attempt, mark)

    patch.setattr(StoredMap, "must_take_back", is_let_in)


@broken
def any_mark_will_do(patch):
    patch.setattr(CommitPhase, "check", lambda phase, where, name, found: None)


@broken
def marks_of_others_are_not_looked_at(patch):
    patch.setattr(maps, "check_inherited", lambda *about: None)


@broken
def marks_have_no_branch(patch):
    patch.setattr(
        StoredMap, "mark_of", lambda a_map, attempt: MapMark(attempt.txid, attempt.attempt)
    )


@broken
def attempts_are_floats(patch):
    correct = StoredMap.must_take_back

    def check(a_map, attempt, mark):
        is_older = mark is not None and attempt < TransactionAttempt(mark.txid, mark.attempt)
        if is_older and float(attempt.attempt) == float(mark.attempt):
            return is_replay(a_map, attempt, mark)
        return correct(a_map, attempt, mark)

    patch.setattr(StoredMap, "must_take_back", check)


@broken
def nothing_to_write_moves_no_mark(patch):
    correct = SqliteMap.update

    def update(a_map, attempt, partials, combine):
        if partials:
            correct(a_map, attempt, partials, combine)

    patch.setattr(SqliteMap, "update", update)


@broken
def a_mark_is_kept_for_a_failed_commit(patch):
    correct = SqliteMap.commit_phase

    def commit(a_map, attempt, keys, decide):
        try:
            correct(a_map, attempt, keys, decide)
        except ZeroDivisionError:
            correct(a_map, attempt, [], lambda found: rules.Changes())
            raise

    patch.setattr(SqliteMap, "commit_phase", commit)


@broken
def a_failed_commit_is_written_in_part(patch):
    @contextmanager
    def transaction(connection, kind="IMMEDIATE"):
        connection.db.execute(f"BEGIN {kind}")
        try:
            yield connection.db
        finally:
            connection.db.execute("COMMIT")

    patch.setattr(sqlite.SqliteConnection, "transaction", transaction)
    patch.setattr(maps, "changes", _written_until_it_fails)


def _written_until_it_fails(rule, attempt, task, rows, partials, combine):
    made = rules.Changes()
    for item in partials:
        try:
            made.rows.update(CORRECT(rule, attempt, task, rows, [item], combine).rows)
        except ZeroDivisionError:
            break
    return made


@broken
def a_transactional_row_is_changed_again(patch):
    correct = rules.changes

    def changes(rule, attempt, task, rows, partials, combine):
        older = {
            key: row._replace(txid=row.txid - 1) if row.txid == attempt.txid else row
            for key, row in rows.items()
        }
        return correct(rule, attempt, task, rows if rule == "opaque" else older, partials, combine)

    patch.setattr(maps, "changes", changes)


@broken
def an_opaque_row_is_changed_on_top_of_an_earlier_attempt(patch):
    patch.setattr(rules, "base_of", lambda row, txid: ABSENT if row is None else row.value)


@broken
def an_opaque_row_always_begins_with_its_previous_value(patch):
    patch.setattr(rules, "base_of", lambda row, txid: ABSENT if row is None else row.previous)


@broken
def an_opaque_row_of_the_same_transaction_stays(patch):
    patch.setattr(maps, "changes", lambda rule, *rest: rules.changes("transactional", *rest))


@broken
def keys_of_an_earlier_attempt_stay(patch):
    patch.setattr(rules, "_take_back", lambda *arguments: None)


@broken
def keys_of_an_earlier_attempt_are_deleted(patch):
    def take_back(made, left, txid, task):
        made.deleted += [key for key, row in left.items() if row.task == task]

    patch.setattr(rules, "_take_back", take_back)


@broken
def new_keys_of_an_earlier_attempt_stay(patch):
    correct = rules._take_back

    def take_back(made, left, txid, task):
        correct(made, {k: r for k, r in left.items() if r.previous is not ABSENT}, txid, task)

    patch.setattr(rules, "_take_back", take_back)


@broken
def rows_of_other_tasks_are_taken_back(patch):
    def select(a_map, db, txid):
        for key, value, of, _, *more in a_map._select(db, "txid = ?", [txid], a_map.owner):
            yield key, value, of, a_map.task, *more

    patch.setattr(SqliteMap, "rows_of_transaction", select)


@broken
def a_row_that_stays_keeps_its_task(patch):
    correct = rules.changes

    def changes(rule, attempt, task, rows, partials, combine):
        made = correct(rule, attempt, task, rows, partials, combine)
        stay = [k for k, r in rows.items() if rule == "transactional" and r.txid == attempt.txid]
        made.rows.update((key, rows[key]) for key in stay)
        return made

    patch.setattr(maps, "changes", changes)


@broken
def a_row_that_is_taken_back_is_new(patch):
    correct = rules._take_back

    def take_back(made, left, txid, task):
        correct(made, left, txid, task)
        newest = max((row.attempt for row in made.rows.values()), default=0)
        made.rows.update((k, made.rows[k]._replace(attempt=newest)) for k in left if k in made.rows)

    patch.setattr(rules, "_take_back", take_back)


@broken
def later_rows_are_overwritten(patch):
    correct = rules.changes

    def changes(rule, attempt, task, rows, partials, combine):
        older = {k: r._replace(txid=min(r.txid, attempt.txid)) for k, r in rows.items()}
        return correct(rule, attempt, task, older, partials, combine)

    patch.setattr(maps, "changes", changes)


@broken
def a_map_belongs_to_everybody(patch):
    patch.setattr(Owner, "refuse_other", lambda self, where, found: None)


@broken
def a_rule_may_change(patch):
    correct = Owner.refuse_other

    def refuse_other(owner, where, found):
        if found.rule == owner.rule:
            correct(owner, where, found)

    patch.setattr(Owner, "refuse_other", refuse_other)


@broken
def values_that_are_false_get_lost(patch):
    correct = SqliteMap.get_many

    def read(a_map, keys, **when):
        return {k: v for k, v in correct(a_map, keys, **when).items() if v}

    patch.setattr(SqliteMap, "get_many", read)


@broken
def absent_keys_are_none(patch):
    correct = SqliteMap.get_many
    patch.setattr(
        SqliteMap,
        "get_many",
        lambda m, keys, **when: dict.fromkeys(keys) | correct(m, keys, **when),
    )


@broken
def the_old_value_is_shared(patch):
    """In-place changes of `combine` reach what is kept as the previous value."""
    correct = rules.changes

    def changes(rule, attempt, task, rows, partials, combine):
        made = correct(rule, attempt, task, rows, partials, combine)
        for key, row in made.rows.items():
            if row.previous is not ABSENT and row.previous.startswith("["):
                made.rows[key] = row._replace(previous=row.value)
        return made

    patch.setattr(maps, "changes", changes)


@broken
def only_some_keys_are_written_at_once(patch):
    correct = SqliteMap.rows_of_keys
    patch.setattr(
        SqliteMap, "rows_of_keys", lambda m, db, keys, columns: correct(m, db, keys[:900], columns)
    )


@broken
def keys_may_be_of_any_length(patch):
    patch.setattr(StoredMap, "_refuse_long", lambda a_map, by_raw: None)


@broken
def a_reader_makes_the_map(patch):
    correct = SqliteMap.read

    def read(a_map, keys, *, with_marks):
        with a_map.connected() as lent, lent.transaction() as db:
            a_map.make_or_check(lent, db)
        return correct(a_map, keys, with_marks=with_marks)

    patch.setattr(SqliteMap, "read", read)


@broken
def what_only_some_tasks_have_written_is_read(patch):
    patch.setattr(
        FoundMap, "after", lambda f, where, at, tasks: {k: row.value for k, row in f.rows.items()}
    )


@broken
def new_values_are_as_they_were_made(patch):
    correct = SqliteMap.update

    def update(a_map, attempt, partials, combine):
        made = {}

        def noted(old, partial):
            made[len(made)] = found = combine(old, partial)
            return found

        correct(a_map, attempt, partials, noted)
        return dict(zip(partials, made.values(), strict=False))

    patch.setattr(SqliteMap, "update", update)


@broken
def several_maps_are_written_one_by_one(patch):
    patch.setattr(SqliteMap, "one_commit", lambda a_map, maps: nullcontext())


@pytest.fixture(autouse=True)
def _without_waiting_for_disks(monkeypatch):
    correct = sqlite.SqliteConnection.__init__

    def make(connection, file):
        correct(connection, file)
        connection.db.execute("PRAGMA synchronous = OFF")

    monkeypatch.setattr(sqlite.SqliteConnection, "__init__", make)


def failing(folder, cases=CASES):
    """The cases that fail, one by one."""
    for number, case in enumerate(cases):
        try:
            case(
                lambda name, context, rule, file=folder / f"{number}.db": SqliteMap(
                    file, name, context, rule=rule
                ),
                random.Random(1),
            )
        except Exception:  # noqa: BLE001 (a case may fail in any way)
            yield case
        finally:
            close_all()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_store_fails(name, tmp_path, monkeypatch):
    BROKEN[name](monkeypatch)
    assert next(failing(tmp_path), None)


def test_a_store_that_is_not_broken_passes(tmp_path):
    assert list(failing(tmp_path)) == []


FINDS = {
    "a_replay_counts_once": "a_transactional_row_is_changed_again",
    "man_dog_and_apple": "a_transactional_row_is_changed_again",
    "the_opaque_rule": "an_opaque_row_is_changed_on_top_of_an_earlier_attempt",
    "a_stale_attempt_is_refused": "no_attempt_is_stale",
    "an_attempt_without_partials_counts": "nothing_to_write_moves_no_mark",
    "the_same_attempt_twice_is_refused": "only_the_same_attempt_is_let_in_twice",
    "what_was_set_back_is_refused": "any_mark_will_do",
    "a_task_that_is_back_goes_by_the_mark_of_another": "marks_of_others_are_not_looked_at",
    "neighbouring_attempts_are_told_apart": "attempts_are_floats",
    "two_tasks_with_one_key_are_refused": "a_row_that_stays_keeps_its_task",
    "a_key_may_go_to_another_task": "a_row_that_is_taken_back_is_new",
    "a_later_row_is_kept": "later_rows_are_overwritten",
    "an_error_changes_nothing": "a_mark_is_kept_for_a_failed_commit",
    "many_keys_at_once": "only_some_keys_are_written_at_once",
    "keys_of_an_older_attempt_get_their_values_back": "rows_of_other_tasks_are_taken_back",
    "an_old_value_may_be_changed_in_place": "the_old_value_is_shared",
    "values_come_back_as_they_were": "values_that_are_false_get_lost",
    "long_keys_are_refused": "keys_may_be_of_any_length",
    "a_reader_claims_nothing": "a_reader_makes_the_map",
    "what_is_read_is_of_one_transaction": "what_only_some_tasks_have_written_is_read",
    "new_values_are_returned": "new_values_are_as_they_were_made",
    "several_maps_are_written_in_one_commit": "several_maps_are_written_one_by_one",
    "a_map_of_somebody_else_is_refused": "a_rule_may_change",
    "random_histories": "keys_of_an_earlier_attempt_stay",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_each_case_finds_what_it_is_there_for(case, tmp_path, monkeypatch):
    BROKEN[FINDS[case.__name__]](monkeypatch)
    assert list(failing(tmp_path, [case])) == [case]
