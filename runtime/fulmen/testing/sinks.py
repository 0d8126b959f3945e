"""One sink alone, called as the engine calls it, and tests that every sink must pass: also yours.

    import pytest

    from fulmen.testing.sinks import CASES, Subject

    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
    def test_my_sink(case, database):
        case(
            Subject(
                MySink,
                {"guarantee": "exactly-once", "dsn": database.dsn},
                fields=["id", "name"],
                row=lambda i: [i, f"name {i}"],
                read=lambda: database.rows("SELECT id, name FROM people"),
            )
        )

Begin each case with an empty store. A case that fails raises AssertionError.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from fulmen.api import Mark, Rows, Sink, StoreMismatch, Stream, TopologyContext
from fulmen.api.marks import Point
from fulmen.engine.tasks.author.instance import AuthorInstance
from fulmen.topology.configuration.options import configured_alone

_sinks = itertools.count(1)


class SinkHarness:
    """Writes to one sink what it is given, with or without marks.

    Attributes:
        sink: The instance; another one after `lose`.
    """

    def __init__(
        self,
        cls: type[Sink],
        config: Mapping[str, Any] | None = None,
        *,
        fields: Sequence[str] = ("value",),
        task: int = 0,
    ) -> None:
        """Make an instance and prepare it.

        Args:
            cls: The class of the sink.
            config: The component's `config`.
            fields: The names of the values of a row.
            task: The number of the task among those of the sink.

        Raises:
            ValidationFailed: `config` has mistakes, or names a variable that is not set.
        """
        self._cls, self._fields, self._task = cls, tuple(fields), task
        self._configuration = configured_alone(cls, config or {}, "the sink")
        chosen = (config or {}).get("guarantee", cls.guarantees[0])
        self._is_exactly_once = chosen == "exactly-once"
        self._id = f"{next(_sinks):024x}"
        self._number = 0
        self._last: tuple[Sequence[Any], Mark] | None = None
        self._start()

    def _start(self) -> None:
        self._author = AuthorInstance(self._cls, {})
        self.sink: Any = self._author.instance
        context = TopologyContext(
            topology="test",
            component="sink",
            task_id=1 + self._task,
            task_index=self._task,
            worker=0,
            component_tasks={"source": range(1), "sink": range(1, 2 + self._task)},
            streams={"source": {"default": Stream(self._fields)}},
            sources=(("source", "default"),),
            options=self._configuration.options,
        )
        conf = dict(self._configuration.conf)
        injected = {"conf": conf, "context": context, "collector": None}
        self._author.open(injected, lambda call: call(), is_copy=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._author.close()

    def write(self, values: Iterable[Sequence[Any]]) -> dict[int, str]:
        """Have it write the rows of one batch.

        Returns:
            The reasons of the rows that it refused, by their positions.
        """
        rows = Rows(self._fields, list(values))
        items = self.sink.encode(rows)
        assert len(items) == len(rows), f"encode returned {len(items)} items for {len(rows)} rows"
        left = [i for i in range(len(rows)) if i not in rows.failed]
        mark = None
        if self._is_exactly_once:
            self._number += 1
            mark = self.mark(self._number)
        written = [items[i] for i in left]
        if mark is not None:
            self._last = written, mark
        refused = self._call(written, mark)
        return rows.failed | {left[i]: reason for i, reason in refused.items()}

    def mark(self, number: int) -> Mark:
        """The mark of write `number`, from 1."""
        previous = Point(number - 1, f"tag {number - 1}") if number > 1 else None
        return Mark(self._id, number, f"tag {number}", f"test/sink/{self._task}", previous)

    def repeat(self) -> dict[int, str]:
        """Have it write the last rows again with the same mark, as after a loss."""
        assert self._last is not None, "nothing was written with a mark"
        return self._call(*self._last)

    def _call(self, items: Sequence[Any], mark: Mark | None) -> dict[int, str]:
        rows = Rows(self._fields, items)
        self.sink.write(rows, mark)
        return rows.failed

    def lose(self) -> None:
        """Lose the process: what goes on is a new instance."""
        self._author.close()
        self._start()


@dataclass(frozen=True)
class Subject:
    """A sink to be tested, and a way to see what it has written.

    Attributes:
        cls: The class of the sink.
        config: The component's `config`.
        fields: The names of the values of a row.
        row: Row `i`: each is another one.
        read: All rows in the store, in any order.
        refused: Rows that the store itself refuses, whatever else there is.
    """

    cls: type[Sink]
    config: Mapping[str, Any]
    fields: Sequence[str]
    row: Callable[[int], Sequence[Any]]
    read: Callable[[], Iterable[Sequence[Any]]]
    refused: Sequence[Sequence[Any]] = field(default=())

    @property
    def is_exactly_once(self) -> bool:
        """Whether the configuration asks for that."""
        chosen: object = self.config.get("guarantee", self.cls.guarantees[0])
        return chosen == "exactly-once"

    def harness(self, task: int = 0) -> SinkHarness:
        """Make a harness of one of its tasks."""
        return SinkHarness(self.cls, self.config, fields=self.fields, task=task)

    def rows(self, *numbers: int) -> list[Sequence[Any]]:
        """The rows of these numbers."""
        return [self.row(i) for i in numbers]

    def check(self, *numbers: int) -> None:
        """See that the store has these rows, each once, and no other."""
        found = Counter(tuple(row) for row in self.read())
        wanted = Counter(tuple(row) for row in self.rows(*numbers))
        assert found == wanted, f"too many: {found - wanted}; missing: {wanted - found}"


Case = Callable[[Subject], None]


def writes_all_rows(subject: Subject) -> None:
    """Rows of several batches are there, each once."""
    with subject.harness() as sink:
        assert not sink.write(subject.rows(0, 1, 2))
        subject.check(0, 1, 2)
        assert not sink.write(subject.rows(3))
        subject.check(0, 1, 2, 3)


def goes_on_after_a_loss(subject: Subject) -> None:
    """A new instance goes on where the one before ended."""
    with subject.harness() as sink:
        sink.write(subject.rows(0, 1))
        sink.lose()
        sink.write(subject.rows(2))
        subject.check(0, 1, 2)


def keeps_tasks_apart(subject: Subject) -> None:
    """Rows that one task has written don't make another leave rows out."""
    with subject.harness(0) as first, subject.harness(1) as second:
        first.write(subject.rows(0))
        first.write(subject.rows(1))
        second.write(subject.rows(2))
        subject.check(0, 1, 2)


def writes_a_mark_once(subject: Subject) -> None:
    """Written rows are not written again, by the same instance or by a new one."""
    if not subject.is_exactly_once:
        return
    with subject.harness() as sink:
        sink.write(subject.rows(0, 1))
        sink.repeat()
        sink.lose()
        sink.repeat()
        subject.check(0, 1)
        sink.write(subject.rows(2))
        sink.lose()
        sink.repeat()
        subject.check(0, 1, 2)


def refuses_what_does_not_follow(subject: Subject) -> None:
    """A process that was superseded writes late, or the store is behind: nothing is changed."""
    if not subject.is_exactly_once:
        return
    with subject.harness() as sink:
        sink.write(subject.rows(0))
        late = sink._last  # noqa: SLF001 (of this module)
        sink.write(subject.rows(1))
        assert late is not None
        for mark in (late[1], sink.mark(4)):
            rows = Rows(tuple(subject.fields), late[0])
            try:
                sink.sink.write(rows, mark)
            except StoreMismatch:
                continue
            raise AssertionError(
                f"a write of mark {mark.number} where the store has mark 2 is to raise"
                " StoreMismatch, as mark.is_written does"
            )
        subject.check(0, 1)
        sink.write(subject.rows(2))
        subject.check(0, 1, 2)


def refuses_single_rows(subject: Subject) -> None:
    """Rows that the store refuses are told, again at each repetition; others are written."""
    for i, bad in enumerate(subject.refused):
        with subject.harness() as sink:
            first = 10 * i
            values = [subject.row(first), bad, subject.row(first + 1)]
            failed = sink.write(values)
            assert failed.keys() == {1}, f"{bad} is refused, not {failed}"
            if subject.is_exactly_once:
                sink.lose()
                assert sink.repeat() == failed, "a repetition refuses the same rows"
    numbers = [10 * i + k for i in range(len(subject.refused)) for k in (0, 1)]
    subject.check(*numbers)


CASES: tuple[Case, ...] = (
    writes_all_rows,
    goes_on_after_a_loss,
    keeps_tasks_apart,
    writes_a_mark_once,
    refuses_what_does_not_follow,
    refuses_single_rows,
)
"""The cases that every sink must pass."""
