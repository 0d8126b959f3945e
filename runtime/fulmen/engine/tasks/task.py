"""A task: an author's instance, routes for its emits, and the parts that it is made of."""

from __future__ import annotations

import pickle
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import numpy as np
from typing_extensions import override

from fulmen.api.components import Component, overrides
from fulmen.api.declarer import DEAD_LETTER_FIELDS, DEAD_LETTERS, Stream
from fulmen.api.times.event_time import LATE, LATE_FIELDS
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.emitting.routes import Routes, configuration_of, context_of
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.protocol.transaction_work import TransactionWork
from fulmen.engine.state.journals import ENGINE, ROWS
from fulmen.engine.state.messages.message_ids import MessageIds
from fulmen.engine.state.pickling import noting
from fulmen.engine.state.values.renamed_classes import use_renamed
from fulmen.engine.state.values.value_classes import ValueClasses
from fulmen.engine.tasks.attempts import Attempts
from fulmen.engine.tasks.author.errors import ComponentFailed, Unavailable, is_outside, may_pass
from fulmen.engine.tasks.author.instance import AuthorInstance
from fulmen.engine.tasks.task_errors import TaskErrors
from fulmen.engine.tasks.task_part import StateSize, TaskPart
from fulmen.engine.tasks.uncommitted import Uncommitted
from fulmen.engine.time.event_times import StreamTimes
from fulmen.errors import CheckpointMismatch
from fulmen.topology.code.loading import create

Part = TypeVar("Part", bound=TaskPart)
_NOTHING = pickle.dumps({}, 5)


class Task(ABC):
    """One task of a spout or a bolt. Its kind says which parts it has.

    Attributes:
        opening: The author's method that an instance is opened by.
        closing: The one that it is closed by.
        all_calls: The name under which each of its calls is noted; None: they have names of their
            own.
        writes_rows: Whether it writes the rows that a sink has committed.
        ids: Message ids that are one object in its fields and elsewhere; None: it has none.
        parts: What it is made of, in the order in which they are written down.
        attempts: Its part in transactions; None: the topology has none.
        uncommitted: What it has changed for the active transaction; None: it changes nothing.
        was_called: Whether the author's code was called since the last commit.
        calls: How many tuples it had in these calls.
    """

    opening, closing = "prepare", "cleanup"
    all_calls: str | None = None
    writes_rows = False
    ids: MessageIds | None = None
    attempts: Attempts | None = None
    uncommitted: Uncommitted | None = None
    now: Callable[[], float] = time.time  # noqa: TID251 (when trees begin, for latencies)

    def __init__(
        self,
        placed: PlacedTopology,
        task: int,
        journals: Journals,
        number: int,
        rng: np.random.Generator,
    ) -> None:
        self.placed = placed
        self.task = task
        self.rng = rng
        self.component = placed.plan.component_of(task)
        crashes = placed.topology.spec.on_error == "crash"
        self.errors = TaskErrors(self.component, task, crashes=crashes)
        self.report, self.guarded = self.errors.report, self.errors.guarded
        self.was_called = True
        self._is_told = False  # of the latest commit that changed it
        self.was_told = False  # in this batch
        self.calls = 0
        self.restored_at = number
        self.who = placed.who(self.component, task)
        self.parts: list[TaskPart] = []
        self.routes = self.guarded("making its groupings", self._routes)
        self._engine_record: bytes | None = None
        self._restore(journals)
        configuration = self.guarded("reading its config", lambda: configuration_of(placed, task))
        self.conf = dict(configuration.conf)
        self.context = context_of(placed, task, configuration)
        self.begin(journals)

    # What it is made of

    def add(self, part: Part) -> Part:
        """Add a part."""
        self.parts.append(part)
        return part

    def restore(self, engine: Mapping[str, Any], journals: Journals) -> None:
        """Make the parts that are there before the author's instance is.

        Args:
            engine: What the engine itself has kept for the task.
            journals: What the checkpoint has of it.
        """

    def begin(self, journals: Journals) -> None:
        """Make the author's instance, as the checkpoint has it, and have it opened."""
        spec, code_folder = self.placed.component(self.component), self.placed.code_folder
        self.author = AuthorInstance(lambda: create(spec, code_folder), journals, self.guarded)
        self.instance: Component = self.author.instance
        self.add(_AuthorsCode(self))
        self.add(StateSize(self.task, self.author.state))
        injected = {
            "collector": self.make_collector(),
            "context": self.context,
            "conf": self.conf,
        }
        self.author.open(injected, self.open, is_copy=spec.instance is not None, ids=self.ids)

    def _restore(self, journals: Journals) -> None:
        def check() -> None:
            if journals.get(ROWS) and not self.writes_rows:
                raise CheckpointMismatch(
                    f"component {self.component!r} was a sink, and has rows in the checkpoint that"
                    " are committed, and perhaps not written yet. Start the topology with that sink"
                    " once more until they are written, or give this component another name"
                )

        self.guarded("going on from the checkpoint", check)
        engine = pickle.loads(journals[ENGINE][-1]) if journals.get(ENGINE) else {}
        use_renamed(self.placed.topology.spec.state_classes)
        self.classes = ValueClasses(engine.get("classes", {}), engine.get("other_classes", ()))
        self.guarded("going on from the checkpoint", self._check_classes)
        for stream, state in engine.get("routes", {}).items():
            if stream in self.routes:
                self.routes[stream].restore(state)
        self.guarded("restoring its messages", lambda: self.restore(engine, journals))

    def _check_classes(self) -> None:
        if (text := self.classes.moved()) is not None:
            raise CheckpointMismatch(text)
        for warning in self.classes.lacking():
            self.errors.warn(warning)

    def _routes(self) -> dict[str, Routes]:
        streams = dict(self.placed.streams[self.component])
        if self.placed.plan.key_of(self.task) in self.placed.origins:
            streams[DEAD_LETTERS] = Stream(DEAD_LETTER_FIELDS)
        declared = self.placed.event_times.get(self.component)
        if declared is not None:
            streams[LATE] = Stream(LATE_FIELDS)
        routes = {
            name: Routes(self.placed, self.task, name, stream, self.rng)
            for name, stream in streams.items()
        }
        if declared is not None:
            for name, field in declared.timed.items():
                timed = routes[name]
                timed.times = StreamTimes(declared, timed.fields.index(field))
                timed.late = routes[LATE]
        return routes

    @cached_property
    def ordered(self) -> frozenset[str]:
        """The streams of this component whose order counts: some bolt receives several of them."""
        placed = self.placed
        subscriptions = [s for s in placed.subscriptions if s.source == self.component]
        seen = [s for s in subscriptions if s.target not in placed.in_any_order]
        times = Counter(s.target for s in seen)
        return frozenset(s.stream for s in seen if times[s.target] > 1)

    @abstractmethod
    def make_collector(self) -> Any:
        """The collector that the instance is given."""

    def before_open(self) -> None:
        """Get ready for `open` or `prepare`, which is called next."""

    def open(self, call: Callable[[], object]) -> None:
        """Call the author's method that opens an instance.

        Raises:
            Unavailable: What it needs is away.
            ComponentFailed: Something is wrong with it, or the topology has `onError: crash`.
        """

        def opened() -> None:
            self.before_open()
            call()

        def fail(error: BaseException) -> NoReturn:
            crashes = self.errors.crashes
            if may_pass(error) and not crashes:
                raise Unavailable(self.report(error, what=self.opening)) from error
            report = self.report(error, fatal=True, what=self.opening)
            is_theirs = is_outside(error) and not crashes
            raise ComponentFailed(replace(report, is_outside=is_theirs)) from error

        self.errors.called(self.opening, opened, fail)

    # A batch

    def begin_batch(self, header: Header) -> None:
        """Begin a batch: tell the instance which, and what has become durable.

        Raises:
            ComponentFailed: `onError: crash`, and `committed` raised.
            Unavailable: The disk for state does not take what was committed.
        """
        for part in self.parts:
            part.confirm(header.tag)
        batch, number = self.context.batch, header.number - 1
        batch.number, batch.attempt = header.number, header.tag
        batch.looks_ahead = header.looks_ahead
        self.context.timers.clock = header.clock
        watermarks = header.watermarks.get(self.component, (None, None))
        batch.next_watermark, batch.watermark = watermarks
        if self._is_told or not self.hears_commits or number < 1:
            return
        self._is_told = self.was_told = True
        instance: Any = self.instance
        self.errors.called(
            "committed",
            lambda: instance.committed(number),
            lambda e: self.errors.report_or_crash(e, "committed"),
        )

    def begin_attempts(self, work: TransactionWork) -> None:
        """A batch of a transactional topology begins, in which there is this to do."""

    @property
    def hears_commits(self) -> bool:
        """Whether the author's instance makes use of `committed`.

        One in a transactional topology does not: what is committed there is a transaction.
        """
        return self.attempts is None and overrides(self.instance, "committed")

    @property
    def emits_results(self) -> bool:
        """Whether what a bolt's `execute` emits are results as well."""
        return bool(getattr(self.instance, "emits_results", False))

    @property
    def wants_batch(self) -> bool:
        """Whether it needs another batch soon, whatever spouts have: it is to be told of this one.

        Read it when the batch's `updates` were taken.
        """
        is_untold = self.hears_commits and not self._is_told
        return is_untold or any(part.wants_batch for part in self.parts)

    # Its end

    def updates(self, number: int) -> dict[str, Update]:
        """The records for commit `number` for this task, by journal; empty if nothing changed."""
        records: dict[str, Update] = {}
        if self.was_called or self.was_told:  # else large fields are pickled, to find no change
            was_called, self.was_called, self.was_told = self.was_called, False, False
            with noting(self.classes.shapes):
                records |= self.record(number)
            engine = pickle.dumps(self._engine_state(), 5)
            if engine != (self._engine_record or _NOTHING):
                records[ENGINE] = engine, number
            self._engine_record = engine
            self.calls = 0
            if records and was_called:  # what `committed` changes is no reason to call it again
                self._is_told = False
        for part in self.parts:
            records |= part.updates(number)
        return records

    def record(self, number: int) -> dict[str, Update]:
        """The records for commit `number` of all that the author's code may have changed."""
        records: dict[str, Update] = {}
        for part in self.parts:
            records |= part.record(number)
        return records

    def _engine_state(self) -> dict[str, Any]:
        states = {
            name: routes.state() for name, routes in self.routes.items() if routes.subscriptions
        }
        states = {
            name: state for name, state in states.items() if any(s is not None for s in state)
        }
        engine: dict[str, Any] = {"routes": states} if states else {}
        if classes := self.classes.fields():
            engine["classes"] = classes
        if self.classes.others:
            engine["other_classes"] = sorted(self.classes.others)
        for part in self.parts:
            engine |= part.engine_state()
        return engine

    def tell(self, summary: Summary) -> None:
        """Put into a summary what went wrong, and what the author's code has told."""
        self.tell_errors(summary)
        summary.take(self.task, self.context.signals, self.component)
        for part in self.parts:
            part.tell(summary)

    def tell_errors(self, summary: Summary) -> None:
        """Put into a summary what went wrong."""
        hold = self.context.signals.hold
        if hold.reason and self.component in self.placed.sources:
            hold.reason = ""  # it would never be called again, to release them
            self.report("hold_spouts is for bolts: a spout that waits emits nothing")
        self.errors.tell(summary)

    def end(self) -> None:
        """Have the instance let go of what it holds."""
        self.author.close()

    def close(self) -> list[ErrorReport]:
        """Let go of the instance. Returns what its own method raised: that can't stop anything."""
        self.errors.forget()  # of an attempt that came to nothing
        self.errors.called(self.closing, self.end, lambda e: self.report(e, what=self.closing))
        return self.errors.all


class _AuthorsCode(TaskPart):
    """The fields and the keyed state of the author's instance."""

    def __init__(self, task: Task) -> None:
        self._task = task

    @override
    def confirm(self, tag: str) -> None:
        self._task.author.begin_batch(tag)

    def record(self, number: int) -> Mapping[str, Update]:
        records = self._task.author.updates(number, self._task.calls)
        for warning in self._task.author.take_warnings():
            self._task.errors.warn(warning)
        return records
