"""What spout and bolt tasks have in common: the author's instance, routes, errors, updates."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from fulmen.api.components import Component, overrides
from fulmen.api.declarer import DEAD_LETTER_FIELDS, DEAD_LETTERS, Stream
from fulmen.api.event_time import LATE, LATE_FIELDS
from fulmen.api.marks import StoreMismatch
from fulmen.api.returned import refuse_unrun
from fulmen.causes import is_plain
from fulmen.checkpoint.rewriting import Journals, Update
from fulmen.engine.emitting.routes import Routes, configuration_of, context_of
from fulmen.engine.protocol.callbacks.calls import CALLS
from fulmen.engine.protocol.header import Header
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import ErrorReport, Summary
from fulmen.engine.state.journals import ENGINE, ROWS
from fulmen.engine.state.messages.message_ids import MessageIds
from fulmen.engine.state.pickling import noting
from fulmen.engine.state.values.value_classes import ValueClasses
from fulmen.engine.tasks.author.errors import (
    LONGEST_MESSAGE,
    LONGEST_TRACEBACK,
    ComponentFailed,
    Unavailable,
    author_traceback,
    is_outside,
    may_pass,
    service_of,
    shortened,
)
from fulmen.engine.tasks.author.forks import end_child
from fulmen.engine.tasks.author.instance import AuthorInstance
from fulmen.engine.time.event_times import StreamTimes
from fulmen.errors import PASSED_ON, CheckpointMismatch, FulmenError, error_text, text_of
from fulmen.topology.code.loading import create

T = TypeVar("T")
ERRORS_TOLD = 5
"""Of each task in each batch."""
REASONS_KEPT = 1000
RESTORING = "restoring "
"""How begins what reads an author's values in a checkpoint."""
_SHOWN_BY = ". `fulmen state CHECKPOINT {} --show unreadable` shows what can't be read"
_PLAIN_STR = (BaseException.__str__, KeyError.__str__)
"""What says of a text no more than the text."""


class TaskBase(ABC):
    """What every spout and bolt task has: an instance, its durable state, routes for its emits.

    Attributes:
        opening: The author's method that an instance is opened by.
        closing: The one that it is closed by.
        writes_rows: Whether it writes the rows that a sink has committed.
        ids: Message ids that are one object in its fields and elsewhere; None: it has none.
    """

    opening, closing = "prepare", "cleanup"
    writes_rows = False
    ids: MessageIds | None = None

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
        self._forget_errors()
        self.was_called = True
        self._is_told = False  # of the latest commit that changed it
        self._was_told = False  # in this batch
        self.calls = 0  # of execute, since the last commit
        self._has_warned = False
        self.restored_at = number
        kind = "spout" if self.component in placed.sources else "bolt"
        self.who = f"{kind} {self.component!r}, task {task}"
        self.routes = self.guarded("making its groupings", self._routes)
        self._engine_record: bytes | None = None
        self._restore_engine(journals)
        configuration = self.guarded("reading its config", lambda: configuration_of(placed, task))
        self.conf = dict(configuration.conf)
        self.context = context_of(placed, task, configuration)
        self.begin(journals)

    def begin(self, journals: Journals) -> None:
        """Make the author's instance, as the checkpoint has it, and have it opened."""
        spec, code_folder = self.placed.component(self.component), self.placed.code_folder
        self.author = AuthorInstance(lambda: create(spec, code_folder), journals, self.guarded)
        self.instance: Component = self.author.instance
        injected = {
            "collector": self.make_collector(),
            "context": self.context,
            "conf": self.conf,
        }
        self.author.open(injected, self.open, is_copy=spec.instance is not None, ids=self.ids)

    def _check_rows(self, journals: Journals) -> None:
        if journals.get(ROWS) and not self.writes_rows:
            raise CheckpointMismatch(
                f"component {self.component!r} was a sink, and has rows in the checkpoint that are"
                " committed, and perhaps not written yet. Start the topology with that sink once"
                " more until they are written, or give this component another name"
            )

    def _check_classes(self) -> None:
        if (text := self.classes.moved()) is not None:
            raise CheckpointMismatch(text)
        for warning in self.classes.lacking():
            self.errors.append(ErrorReport(self.component, self.task, warning, is_warning=True))

    def _restore_engine(self, journals: Journals) -> None:
        self.guarded("going on from the checkpoint", lambda: self._check_rows(journals))
        engine = pickle.loads(journals[ENGINE][-1]) if journals.get(ENGINE) else {}
        self.classes = ValueClasses(engine.get("classes", {}))
        self.guarded("going on from the checkpoint", self._check_classes)
        for stream, state in engine.get("routes", {}).items():
            if stream in self.routes:
                self.routes[stream].restore(state)
        self.guarded("restoring its messages", lambda: self.restore_engine(engine, journals))

    def begin_batch(self, header: Header) -> None:
        """A batch begins: tell the instance which, and what has become durable.

        Raises:
            ComponentFailed: `onError: crash`, and `committed` raised.
        """
        batch, number = self.context.batch, header.number - 1
        batch.number, batch.attempt = header.number, header.tag
        batch.looks_ahead = header.looks_ahead
        self.context.timers.clock = header.clock
        _, batch.watermark = header.watermarks.get(self.component, (0, None))
        if self._is_told or not self.hears_commits or number < 1:
            return
        self._is_told = self._was_told = True
        instance: Any = self.instance
        calling = CALLS.begin(self.task, "committed")
        try:
            refuse_unrun(instance.committed(number))
        except PASSED_ON:
            raise
        except BaseException as e:  # author's code
            fatal = self.placed.topology.spec.on_error == "crash"
            report = self.report(e, fatal=fatal, what="committed")
            if fatal:
                raise ComponentFailed(report) from e
        finally:
            end_child()
        CALLS.end(calling)

    @property
    def hears_commits(self) -> bool:
        """Whether the author's instance makes use of `committed`."""
        return overrides(self.instance, "committed")

    @property
    def wants_batch(self) -> bool:
        """Whether it needs another batch soon, whatever spouts have: it is to be told of this one.

        Read it when the batch's `updates` were taken.
        """
        return self.hears_commits and not self._is_told

    def open(self, call: Callable[[], object]) -> None:
        """Call the author's method that opens an instance.

        Raises:
            Unavailable: What it needs is away.
            ComponentFailed: Something is wrong with it, or the topology has `onError: crash`.
        """
        what = self.opening
        calling = CALLS.begin(self.task, what)
        try:
            self.before_open()
            call()
        except PASSED_ON:
            raise
        except BaseException as e:  # author's code
            crashes = self.placed.topology.spec.on_error == "crash"
            if may_pass(e) and not crashes:
                raise Unavailable(self.report(e, what=what)) from e
            report = self.report(e, fatal=True, what=what)
            raise ComponentFailed(replace(report, is_outside=is_outside(e) and not crashes)) from e
        finally:
            end_child()
        CALLS.end(calling)

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

    @property
    def ordered(self) -> bool:
        """Whether some bolt receives several streams of this component: then their order counts."""
        seen = [s.target for s in self.placed.subscriptions if s.source == self.component]
        return len(seen) != len(set(seen))

    @abstractmethod
    def make_collector(self) -> Any:
        """The collector that the instance is given."""

    def before_open(self) -> None:
        """Get ready for `open` or `prepare`, which is called next."""

    def restore_engine(self, engine: Mapping[str, Any], journals: Journals) -> None:
        """Take over what the engine itself keeps for this task."""

    def engine_state(self) -> dict[str, Any]:
        """What the engine itself keeps for this task; small."""
        states = {
            name: routes.state() for name, routes in self.routes.items() if routes.subscriptions
        }
        states = {
            name: state for name, state in states.items() if any(s is not None for s in state)
        }
        found: dict[str, Any] = {"routes": states} if states else {}
        if classes := self.classes.fields():
            found["classes"] = classes
        return found

    def updates(self, number: int) -> dict[str, Update]:
        """What commit `number` has to write for this task, by journal; empty if nothing changed."""
        found: dict[str, Update] = {}
        if not (self.was_called or self._was_told):  # pickling large fields, to find no change
            return found
        was_called, self.was_called, self._was_told = self.was_called, False, False
        with noting(self.classes.shapes):
            record = self.record(number)
        engine = pickle.dumps(self.engine_state(), 5)
        if engine != self._engine_record and (
            self._engine_record is not None or engine != _NOTHING
        ):
            found[ENGINE] = engine, number
        self._engine_record = engine
        found |= record
        self.calls = 0
        if found and was_called:  # what `committed` itself changes is no reason to call it again
            self._is_told = False
        return found

    def record(self, number: int) -> Mapping[str, Update]:
        """What commit `number` has to write of the author's instance, by journal."""
        found = self.author.updates(number, self.calls)
        self.errors += [
            ErrorReport(self.component, self.task, warning, is_warning=True)
            for warning in self.author.take_warnings()
        ]
        return found

    def report_emit(self, error: FulmenError, fatal: bool = False) -> None:
        """Report an emit that can't be sent. What it is anchored to fails.

        Raises:
            ComponentFailed: `fatal`, or the topology has `onError: crash`.
        """
        fatal = fatal or self.placed.topology.spec.on_error == "crash"
        report = self.report(error, fatal=fatal, what="emit")
        if fatal:
            raise ComponentFailed(report) from error

    def guarded(self, what: str, call: Callable[[], T]) -> T:
        """Call the author's code where the topology can't go on if it raises.

        Raises:
            ComponentFailed: It did.
        """
        calling = CALLS.begin(self.task, what)
        try:
            returned = call()
            if returned is not None:
                refuse_unrun(returned)
        except PASSED_ON:
            raise
        except BaseException as e:  # author's code
            raise ComponentFailed(self.report(e, fatal=True, what=what)) from e
        finally:
            end_child()
        CALLS.end(calling)
        return returned

    def message_of(self, error: BaseException | str, what: str = "") -> str:
        """What a report of an error says."""
        message, cure = "", ""
        if not isinstance(error, BaseException) or isinstance(error, FulmenError):
            message = text_of(error)
        else:
            message = error_text(error)
            if what.startswith(RESTORING):
                cure = _SHOWN_BY.format(self.component)
        return shortened(f"{what}: {message}" if what else message, LONGEST_MESSAGE) + cure

    def count_error(self, error: BaseException, what: str) -> str:
        """Note an error after which the topology goes on; gives why its tuple fails."""
        if self._told < ERRORS_TOLD:
            return self._why(self.report(error, what=what).message)
        self._more += 1
        why, kind = self._why(self.message_of(error, what)), type(error)
        if len(error.args) == 1 and kind.__str__ in _PLAIN_STR and is_plain(error):
            text = error.args[0]
            if type(text) is str and len(text) <= LONGEST_MESSAGE:
                if len(self._reasons) >= REASONS_KEPT:
                    self._reasons.clear()
                self._reasons[kind, text, what] = why
        return why

    def counted_before(self, error: BaseException, what: str) -> str | None:
        """What `count_error` gives, if it has counted such an error in this batch. Cheap."""
        arguments = error.args
        if len(arguments) != 1 or type(text := arguments[0]) is not str or not is_plain(error):
            return None
        why = self._reasons.get((type(error), text, what))
        if why is not None:
            self._more += 1
        return why

    def _why(self, message: str) -> str:
        return f"bolt {self.component!r}: {message}"

    def report(
        self, error: BaseException | str, fatal: bool = False, what: str = ""
    ) -> ErrorReport:
        """Note an error of this task. Of many in a batch the first are told, the others counted."""
        message, stack = self.message_of(error, what), ""
        is_told = fatal or self._told < ERRORS_TOLD
        if isinstance(error, BaseException) and is_told and not isinstance(error, StoreMismatch):
            stack = shortened(author_traceback(error), LONGEST_TRACEBACK)
        service = service_of(error)
        report = ErrorReport(self.component, self.task, message, stack, fatal, service=service)
        if is_told:
            self.errors.append(report)
            self._told += 1
        else:
            self._more += 1
        return report

    def warn_untimed(self, reason: str | None) -> None:
        """Say once that there are tuples without a usable event time; they are counted."""
        if reason is None or self._has_warned:
            return
        self._has_warned = True
        text = (
            f"a tuple is on the stream {LATE!r} instead of its own, as {reason}. More of them are"
            " counted, and not told"
        )
        self.errors.append(ErrorReport(self.component, self.task, text, is_warning=True))

    def _forget_errors(self) -> None:
        self.errors: list[ErrorReport] = []
        self._told = self._more = 0
        self._reasons: dict[tuple[type, str, str], str] = {}  # rows fail for the same reason

    def tell(self, summary: Summary) -> None:
        """Put into a summary what went wrong, and what the author's code has told."""
        self.tell_errors(summary)
        summary.take(self.task, self.context.signals)

    def tell_errors(self, summary: Summary) -> None:
        """Put into a summary what went wrong."""
        hold = self.context.signals.hold
        if hold.reason and self.component in self.placed.sources:
            hold.reason = ""  # it would never be called again, to release them
            self.report("hold_spouts is for bolts: a spout that waits emits nothing")
        if self._more:  # they count with the last one that is told
            at = max(i for i, error in enumerate(self.errors) if not error.is_warning)
            self.errors[at] = replace(self.errors[at], more=self._more)
        summary.errors += self.errors
        self._forget_errors()

    def end(self) -> None:
        """Have the instance let go of what it holds."""
        self.author.close()

    def close(self) -> list[ErrorReport]:
        """Let go of the instance. What its own method raises can't stop anything any more.

        Returns:
            What it raised.
        """
        self._forget_errors()  # of an attempt that came to nothing
        calling = CALLS.begin(self.task, self.closing)
        try:
            self.end()
        except PASSED_ON:
            raise
        except BaseException as e:  # noqa: BLE001 (author's code)
            self.report(e, what=self.closing)
        end_child()
        CALLS.end(calling)
        return self.errors


_NOTHING = pickle.dumps({}, 5)
