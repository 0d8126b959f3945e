"""What tasks keep, divided among others by their own class: see `Component.redistribute`."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from fulmen.api.components import Component
from fulmen.api.components.kept import Kept
from fulmen.checkpoint.rewriting import Journals
from fulmen.checkpoint.rewriting import Update as Record
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.fields import record_of
from fulmen.engine.state.journals import FAILED, FIELDS, PARTITIONS, STATE
from fulmen.engine.state.messages.failed_messages import FailedMessages
from fulmen.engine.state.pickling import CONTEXT, INSTANCE, digest, dumps, made_of
from fulmen.engine.tasks.transactional.spout_parts import emitter_of
from fulmen.errors import PASSED_ON, error_text


class _Part:
    """Stands for a part of an instance that is made anew with it, such as its collector."""


_PARTS: Mapping[str, Any] = {
    name: _Part() for name in (INSTANCE, CONTEXT, "collector", "conf", "state", "options")
}
_NAMES = {id(one): name for name, one in _PARTS.items()}


class NotDivided(Exception):
    """A class has not divided what its tasks keep. Its text says why."""


def changed_fields(journals: Journals) -> list[str]:
    """The fields of a task that are no longer what `open` or `prepare` has set them to."""
    fields, initial, _ = _fields(journals)
    return [name for name, value in fields.items() if digest(value, _NAMES) != initial.get(name)]


def redistributed(
    cls: type[Component], tasks: Sequence[Journals], to: int, number: int
) -> list[dict[str, Record]]:
    """The records for so many tasks, as their class divides what they have kept.

    Args:
        cls: The class.
        tasks: What each task has in the checkpoint.
        to: The new number of tasks.
        number: The commit.

    Raises:
        NotDivided: It raised, or has not returned so many.
    """
    kept = [_kept(journals) for journals in tasks]
    logs = [_failed(journals) for journals in tasks]
    changes = [change for resting, _ in logs for change in resting]
    # numbers below those of all messages to come
    failed = {repr(change[2]): (-1 - i, *change[1:]) for i, change in enumerate(changes)}
    tried = {msg_id: why for _, of_one in logs for msg_id, why in of_one}
    try:
        divided = list(cls.redistribute(kept, to))
    except PASSED_ON:
        raise
    except BaseException as error:  # author's code
        raise NotDivided(f"{cls.__qualname__}.redistribute raised {error_text(error)}") from error
    if len(divided) != to or not all(isinstance(one, Kept) for one in divided):
        raise NotDivided(
            f"{cls.__qualname__}.redistribute(kept, {to}) must return {to} objects of fulmen.Kept,"
            f" but returned {len(divided)} of {sorted({type(one).__name__ for one in divided})}"
        )
    known = {repr(msg_id) for one in kept for msg_id in one.failed}
    if wrong := {repr(m) for one in divided for m in one.failed} ^ known:
        who = f"{cls.__qualname__}.redistribute"
        raise NotDivided(f"{who} has lost message {min(wrong)} of Kept.failed, or made it up")
    _, initial, given = next((_fields(j) for j in tasks if record_of(j)), ({}, {}, {}))
    return [_records(one, (initial, given), failed, tried, number) for one in divided]


def dealt_partitions(tasks: Sequence[Journals], to: int, number: int) -> list[dict[str, Record]]:
    """The records of a transactional spout's partitions for so many tasks.

    Args:
        tasks: What each task has in the checkpoint.
        to: The new number of tasks.
        number: The commit.

    Raises:
        NotDivided: What an author's class has said of them can't be read.
    """
    dealt = [KeyedState(name=PARTITIONS) for _ in range(to)]
    for journals in tasks:
        try:
            known = KeyedState.restore(journals, name=PARTITIONS)
        except PASSED_ON:
            raise
        except BaseException as error:  # author's classes
            why = f"the metadata of its partitions can't be read: {error_text(error)}"
            raise NotDivided(why) from error
        for partition, ends in known.items():
            dealt[emitter_of(partition, to)][partition] = ends
    return [state.updates(number) for state in dealt]


def _fields(journals: Journals) -> tuple[dict[str, Any], dict[str, bytes], dict[str, Any]]:
    record = record_of(journals)
    if record is None:
        return {}, {}, {}
    with made_of(_PARTS):
        fields: tuple[dict[str, Any], dict[str, bytes], dict[str, Any]] = pickle.loads(record)
    return fields


def _kept(journals: Journals) -> Kept:
    fields, _, _ = _fields(journals)
    with made_of(_PARTS):
        state = dict(KeyedState.restore(journals, name=STATE))
    return Kept(fields, state, [change[2] for change in _failed(journals)[0]])


def _failed(journals: Journals) -> Any:
    return FailedMessages.restore(journals).everything()


def _records(
    kept: Kept,
    of_fields: tuple[Mapping[str, bytes], Mapping[str, Any]],
    failed: Mapping[str, Any],
    tried: Mapping[Any, Any],
    number: int,
) -> dict[str, Record]:
    records: dict[str, Record] = {}
    if kept.fields:
        initial, given = of_fields
        known = {name: one for name, one in initial.items() if name in kept.fields}
        records[FIELDS] = dumps((kept.fields, known, given), _NAMES, _PARTS), number
    if kept.state:
        state = KeyedState()
        state.update(kept.state)
        records |= state.updates(number)
    if kept.failed or tried:
        changes = [failed[repr(msg_id)] for msg_id in kept.failed]
        records[FAILED] = dumps((changes, list(tried.items())), {}), number
    return records
