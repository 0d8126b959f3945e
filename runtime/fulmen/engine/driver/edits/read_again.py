"""Has sources read again what a store lacks that is older than its checkpoint.

That is exact only from a state that expects of the store what the store has: a savepoint of the
same age. From any other one, rows would be there twice, or be missing. The stores of other sinks
stay as they are, so a state is refused with which they do not fit. Whatever is said here, each task
compares the mark of its own store before it writes.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fulmen.api.marks import Point
from fulmen.checkpoint import Manifest, Store, load_many
from fulmen.checkpoint.rewriting import Journals
from fulmen.checkpoint.savepoints.pins import PINS, pins_in, read_pinned
from fulmen.engine.batches.ledger import ledger_of
from fulmen.engine.driver.checkpoints.layout import Layout, layout_of
from fulmen.engine.driver.edits.changes import Author, StateChange
from fulmen.engine.driver.edits.decisions import accept_store
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.driver.edits.restoring import go_back
from fulmen.engine.driver.edits.sink_ids import older_key, older_names
from fulmen.engine.state.journals import ENGINE, MARK, ROWS
from fulmen.engine.state.messages.unwritten_rows import Unwritten, unpacked_point
from fulmen.errors import CheckpointError
from fulmen.plan import task_key, task_of_key

LEDGER = "the transactions"


@dataclass(frozen=True)
class SetBack:
    """A store that was set back.

    Attributes:
        component: Whose store it is: a sink, or a transactional spout, whose committers are meant.
        task: The task of a sink that has noticed it.
        has: What the store has; None: nothing.
        others: More components whose stores were set back to the same moment.
        replaces: Rows of the sink take the place of older ones, so that it does no harm to write
            some again.
    """

    component: str
    task: int
    has: Point | None
    others: Collection[str] = ()
    replaces: bool = False


class _Expected(NamedTuple):
    """What a state expects of the store of a task.

    Attributes:
        sink: By which the store knows the task; "": it has not written yet.
        points: What the store may have: rows that are to be written may be there already.
    """

    sink: str
    points: frozenset[Point | None]

    @property
    def number(self) -> int:
        return max((point.number for point in self.points if point), default=0)


_NEW = _Expected("", frozenset({None}))


def read_again(store: Store, back: SetBack, author: Author, now: float) -> str:
    """Go back to the savepoint that a store fits. Returns what was done.

    Args:
        store: The checkpoint.
        back: What the store has.
        author: Who does it.
        now: In seconds since 1970.

    Raises:
        CheckpointError: No savepoint fits, or other stores do not fit the one that does; or
            somebody else has committed meanwhile.
    """
    edit = Edit(store, author)
    name, state = _chosen(store, edit.manifest, back)
    told = sorted(set(_with_more(store, edit.manifest, state, {back.component, *back.others})))
    if told:
        raise CheckpointError(
            f"checkpoint {store.uri}: savepoint {name!r} fits the store of {back.component!r}, but"
            f" {', '.join(told)} have written to stores since then, which would get that again."
            " Nothing was changed. If those stores were set back to the same moment, name their"
            " components with --also. Otherwise go on without what the store lacks: fulmen state"
            f" accept-store CHECKPOINT {back.component} --because TEXT"
        )
    keys = [f"commit {state.number}"]
    change = StateChange("read-again", back.component, count=1, keys=keys).by(author, edit.number)
    done = go_back(edit.claimed(), store, name, now, change=change)
    if back.replaces:
        accepted = accept_store(store, back.component, 0, author)
        return f"{done}. {accepted}: some rows are written again"
    return done


def _chosen(store: Store, newest: Manifest, back: SetBack) -> tuple[str, Manifest]:
    """The newest savepoint that fits the store."""
    pins = pins_in(newest.sections.get(PINS))
    seen: list[str] = []
    for name in sorted(pins, key=lambda name: pins[name].commit, reverse=True):
        state = read_pinned(store, name, pins[name])
        expected, current = (_expected(store, one, newest, back) for one in (state, newest))
        is_same = expected.sink in ("", current.sink)
        if is_same and back.has in expected.points:
            return name, state
        if is_same and back.replaces and back.has and expected.number <= back.has.number:
            return name, state
        marks = " or ".join(sorted(map(_told, expected.points)))
        seen.append(f"{name!r} expects {marks}" if is_same else f"{name!r} is of another store")
    known = f"Of the savepoints, {'; '.join(seen)}." if seen else "There is no savepoint."
    raise CheckpointError(
        f"checkpoint {store.uri}: there is no state left in which the store of {back.component!r}"
        f" has {_told(back.has)}, so its sources can't read again exactly what it lacks. {known}"
        " Nothing was changed. Restore the store as it was at one of the savepoints; or, if rows"
        " of the sink replace older ones by their key, say --replaces; or go on without what the"
        f" store lacks: fulmen state accept-store CHECKPOINT {back.component} --because TEXT"
    )


def _expected(store: Store, state: Manifest, newest: Manifest, back: SetBack) -> _Expected:
    """What a state expects of the store that was set back."""
    if back.component in (layout_of(newest) or Layout()).emitters:
        return _of_transactions(state)
    key = task_key(back.component, back.task)
    if state is not newest:
        key = older_key(key, older_names(layout_of(state), layout_of(newest)))
    return _sinks(store, state, [key]).get(key, _NEW)


def _with_more(
    store: Store, newest: Manifest, state: Manifest, but: Collection[str]
) -> Iterator[str]:
    """The components of other stores that may have more than an older state expects."""
    layout, names = layout_of(newest) or Layout(), older_names(layout_of(state), layout_of(newest))
    keys = [key for key, has in newest.tasks.items() if {MARK, ROWS} & has.keys()]
    before = _sinks(store, state, [older_key(key, names) for key in keys])
    for key, current in _sinks(store, newest, keys).items():
        component, _ = task_of_key(key)
        expected = before.get(older_key(key, names), _NEW)
        is_same = expected.sink in ("", current.sink)
        if component not in but and not (is_same and current.points <= expected.points):
            yield repr(component)
    if layout.emitters and not {*but} & layout.emitters.keys():
        current, expected = _of_transactions(newest), _of_transactions(state)
        if not current.points <= expected.points:
            yield LEDGER


def _of_transactions(state: Manifest) -> _Expected:
    """What the stores of committers have: the last transaction that is committed, or the next."""
    ledger = ledger_of(state.transient)
    points = {ledger.written}
    if ledger.head in ledger.branches:  # it is processed again, as the same one
        points.add(Point(ledger.head, ledger.branches[ledger.head]))
    return _Expected("", frozenset(points))


def _sinks(store: Store, state: Manifest, keys: Collection[str]) -> Mapping[str, _Expected]:
    there = [key for key in keys if key in state.tasks]
    journals = load_many(store, state, there, lambda journal: journal in (ENGINE, MARK, ROWS))
    return {key: _of_sink(one) for key, one in journals.items()}


def _of_sink(journals: Journals) -> _Expected:
    engine = pickle.loads(journals[ENGINE][-1]) if journals.get(ENGINE) else {}
    mark, rows = journals.get(MARK), journals.get(ROWS)
    point = unpacked_point(mark[-1]) if mark else None
    points = {point}
    if rows:
        unwritten = Unwritten.unpack(rows[-1])
        points = {point if mark else unwritten.previous}
        if unwritten.items:
            points.add(unwritten.point)
    return _Expected(engine.get("sink", ""), frozenset(points))


def _told(point: Point | None) -> str:
    return "nothing" if point is None else f"{point.number}:{point.branch}"
