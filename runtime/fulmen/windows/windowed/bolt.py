"""Storm's windowed bolts: what their authors derive from."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, ClassVar, Self

from typing_extensions import override

from fulmen.api.collector import OutputCollector
from fulmen.api.components import Bolt, Outputs
from fulmen.api.components.returned import refuse_result
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import OutputFieldsDeclarer, Stream
from fulmen.errors import FulmenError
from fulmen.windows.inputs import NO_WINDOW_ENDS, check_kept, missing_fields
from fulmen.windows.windowed.options import WindowedOptions
from fulmen.windows.windowed.task_windows import TaskWindows, TupleWindow

LATE_FIELDS = ("late_tuple",)


class WindowedBolt(Bolt):
    """A bolt that gets the tuples of each window, as Storm's `BaseWindowedBolt`.

    Say which windows by the methods `with_...`, of an object that is given to `TopologyBuilder` or
    in `__init__`, or by the component's `config`: see `WindowedOptions`. `config` comes first.

        class Sums(WindowedBolt):
            outputs = ["sum"]

            def prepare(self, conf, context, collector):
                self.collector = collector

            def execute(self, window):
                self.collector.emit([sum(tup["amount"] for tup in window.tuples)])

        builder.set_bolt("sums", Sums().with_window("10m", "1m").with_timestamp_field("at"))

    A tuple is acked when the state with it is committed. What is emitted for a window belongs to no
    tree of its tuples: it is a result, which comes again if it fails. If `execute` raises, that is
    reported, and the window is not called again; with `onError: crash` the topology stops.

    `on_timer` and `end_batch` are used for windows, and can't be overridden.
    """

    config_model = WindowedOptions
    emits_results = True
    state_part, timer_part = "inner", "first"
    kept_for: Mapping[str, str] = MappingProxyType({})
    """The options of the windows in the state."""
    took_late: tuple[int, int | None] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = vars(cls)
        for name in ("on_timer", "end_batch"):
            if name in own:
                raise TypeError(f"{cls.__qualname__}: a WindowedBolt can't have a method {name}")
        cls.transient = ("_windows", *(n for n in cls.transient if n != "_windows"))
        if "execute" in own:
            cls.execute = _dispatching(cls, own["execute"])  # type: ignore[method-assign]
        if "prepare" in own:
            cls.prepare = _beginning(own["prepare"])  # type: ignore[method-assign]
        if "declare_output_fields" in own:
            cls.declare_output_fields = _with_late(own["declare_output_fields"])  # type: ignore[method-assign]

    transient: ClassVar[Sequence[str]] = ("_windows",)

    # What windows there are

    def with_window(self, length: int | str, slide: int | str = 1) -> Self:
        """Have windows of a length, at an interval.

        Args:
            length: A number of tuples, or a duration such as `10m`.
            slide: As `length`; default: a window after each tuple.
        """
        return self._with(window={"length": length, "slide": slide})

    def with_tumbling_window(self, length: int | str) -> Self:
        """Have one window after the other: a number of tuples, or a duration such as `10m`."""
        return self._with(window={"length": length, "slide": length})

    def with_timestamp_field(
        self, field: str, unit: str | None = None, timezone: str = "UTC"
    ) -> Self:
        """Have windows by event time.

        Args:
            field: The field with the time: a datetime, a number or text in ISO 8601.
            unit: Of numbers: s, ms, us or ns; None: their size tells.
            timezone: Of times that have none.
        """
        return self._with(timestamp_field=field, unit=unit, timezone=timezone)

    def with_lag(self, lag: str) -> Self:
        """A tuple may be so much older than the watermark, such as `10s`."""
        return self._with(lag=lag)

    def with_late_tuple_stream(self, stream: str) -> Self:
        """Emit late tuples on this stream, in the field `late_tuple`."""
        return self._with(late_tuple_stream=stream)

    def with_key(self, *fields: str) -> Self:
        """Give each value of these fields windows of its own. The input must be grouped by them."""
        return self._with(key=fields)

    def _with(self, **given: Any) -> Self:
        self.__dict__["_given"] = {**self._so_far(), **given}
        return self

    def _so_far(self) -> dict[str, Any]:
        found: dict[str, Any] = self.__dict__.get("_given", {})
        return found

    def _options(self, options: WindowedOptions) -> WindowedOptions:
        """The options of `config`, and for the rest those of the methods.

        Raises:
            ValueError: A method was called with something wrong.
        """
        given = WindowedOptions.model_validate(self._so_far())
        rest = {name: getattr(given, name) for name in given.model_fields_set}
        return options.model_copy(
            update={n: v for n, v in rest.items() if n not in options.model_fields_set}
        )

    @override
    def outputs_for(self, options: WindowedOptions) -> Outputs:
        outputs = super().outputs_for(options)
        found = outputs if isinstance(outputs, Mapping) else {"default": outputs} if outputs else {}
        try:
            late = self._options(options).late_tuple_stream
        except ValueError:  # check_input tells
            late = None
        return {**found, late: LATE_FIELDS} if late else found

    @override
    def check_input(self, options: WindowedOptions, stream: Stream) -> Iterable[str | Warning]:
        try:
            options = self._options(options)
        except ValueError:  # check_inputs tells
            return []
        needed = dict.fromkeys(options.key, "key")
        if options.timestamp_field is not None:
            needed.setdefault(options.timestamp_field, "timestampField")
        return list(missing_fields(needed, stream))

    @override
    def grouping_key(self, options: WindowedOptions, source: tuple[str, str]) -> Sequence[str]:
        try:
            return self._options(options).key
        except ValueError:  # check_inputs tells
            return ()

    @override
    def needs_memory(self, options: WindowedOptions) -> str | None:
        try:
            has_key = bool(self._options(options).key)
        except ValueError:  # check_inputs tells
            return None
        if has_key:
            return None
        return (
            "without `key`, a window is of all tuples of its task, which would be read anew in each"
            " batch. Give it a `key`, or have an Aggregate keep numbers instead of tuples"
        )

    @override
    def needs_event_time(self, options: WindowedOptions) -> str | None:
        try:
            is_by_time = self._options(options).timestamp_field is not None
        except ValueError:  # check_inputs tells
            return None
        return NO_WINDOW_ENDS if is_by_time else None

    @override
    def check_inputs(
        self, options: WindowedOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterable[str]:
        return list(self._mistakes(options))

    def _mistakes(self, options: WindowedOptions) -> Iterator[str]:
        try:
            options = self._options(options)
        except ValueError as error:
            for one in getattr(error, "errors", list)():
                where = ".".join(str(part) for part in one["loc"] if part not in ("int",))
                yield f"{where}: {one['msg'].removeprefix('Value error, ')}"
            return
        if options.window is None:
            yield "it has no window: write window: {length: 10m, slide: 1m}, or call with_window"
        if options.timestamp_field is None:
            for name, value in (
                ("lag", options.lag),
                ("lateTupleStream", options.late_tuple_stream),
            ):
                if value is not None:
                    yield f"{name} needs timestampField: without it, windows are by arrival"

    # What the engine calls

    @override
    def prepare(
        self, conf: Mapping[str, Any], context: TopologyContext, collector: OutputCollector
    ) -> None:
        """Prepare as any bolt. `context.options` is the validated `config`."""
        self._begin(context, collector)

    @abstractmethod
    def execute(self, window: TupleWindow) -> None:  # type: ignore[override]
        """Called with each window that has a tuple. Emit what you like."""

    def end_batch(self) -> None:
        """Count keys that have windows. It can't be overridden."""
        self._windows.end_batch()

    def on_timer(self, key: Any, at: float) -> None:
        """Call the windows that are due. It can't be overridden."""
        self._windows.on_timer(key, at)

    def _begin(self, context: TopologyContext, collector: OutputCollector) -> None:
        options = self._options(context.options)
        late = options.late_tuple_stream
        if late is not None and late not in context.streams.get(context.component, {late: ()}):
            raise FulmenError(
                f"the stream {late!r} of late tuples is not declared: declare it with the field"
                " late_tuple, or declare streams by the attribute outputs"
            )
        now = options.kept_as()
        if self.state:
            check_kept("open windows", self.kept_for, now)
        self.kept_for = now
        self._windows = TaskWindows(self, options, context, collector)


# What becomes of an author's methods


def _dispatching(cls: type, execute: Any) -> Any:
    """`execute` of an author, which the engine calls with each tuple."""
    who = f"{cls.__qualname__}.execute"
    if inspect.iscoroutinefunction(execute) or inspect.isgeneratorfunction(execute):
        raise TypeError(f"{who} of a WindowedBolt can't be async, nor have a yield")
    try:
        inspect.signature(execute).bind(None, None)
    except TypeError:
        raise TypeError(f"{who} must be def execute(self, window)") from None

    @wraps(execute)
    def dispatch(self: WindowedBolt, given: Any) -> None:
        if isinstance(given, TupleWindow):
            refuse_result(execute(self, given))
        else:
            self._windows.take(given)

    return dispatch


def _beginning(prepare: Any) -> Any:
    @wraps(prepare)
    def begin(self: WindowedBolt, conf: Any, context: Any, collector: Any) -> Any:
        self._begin(context, collector)
        return prepare(self, conf, context, collector)

    return begin


def _with_late(declare: Any) -> Any:
    @wraps(declare)
    def declare_all(self: WindowedBolt, declarer: OutputFieldsDeclarer) -> None:
        declare(self, declarer)
        late = self._so_far().get("late_tuple_stream")
        if late is not None and late not in declarer.streams:
            declarer.declare_stream(late, LATE_FIELDS)

    return declare_all
