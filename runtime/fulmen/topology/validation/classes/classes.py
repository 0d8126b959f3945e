"""Mistakes that only the author's classes show: what they are, and which streams they declare."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fulmen import api
from fulmen.api.declarer import ANY_STREAM, DEAD_LETTER_FIELDS, DEAD_LETTERS
from fulmen.errors import CodeError, DeclarationError
from fulmen.topology.code.callbacks import mistaken_callbacks, unlikely_callbacks
from fulmen.topology.code.class_state import kept_in_class
from fulmen.topology.code.error_streams import mistaken_errors
from fulmen.topology.code.loading import (
    create_grouping,
    create_input_function,
    instantiate,
    load_class,
    load_named,
    streams_of,
    unpickle,
)
from fulmen.topology.code.sinks import (
    GUARANTEE,
    guarantee_of,
    no_guarantee,
    takes_any_stream,
    with_attempt,
    with_guarantee,
    without_attempt,
)
from fulmen.topology.code.streamparse import leftovers
from fulmen.topology.code.transient import mistaken_transient
from fulmen.topology.configuration.options import (
    CheckedOptions,
    check_options,
    depends_on_options,
)
from fulmen.topology.problems import Problem, Severity
from fulmen.topology.reading.partial_document import ComponentPart, InputPart
from fulmen.topology.resource.spec import BoltSpec, TopologySpec
from fulmen.topology.validation.classes.event_times import timed_stream, without_watermark
from fulmen.topology.validation.classes.input_steps import (
    as_received,
    mistaken_function,
    mistaken_steps,
)
from fulmen.topology.validation.classes.inputs import answer, checked_inputs
from fulmen.topology.validation.classes.kinds import BASES, TRANSACTIONAL, wrong_kind
from fulmen.topology.validation.classes.lateness import stricter_in_front
from fulmen.topology.validation.classes.subscriptions import (
    inputs_of_sink,
    mistaken_subscription,
    needed_fields,
)
from fulmen.topology.validation.classes.transactions import (
    in_transactions,
    transactional_graph,
    written_maps,
)

Streams = Mapping[str, api.Stream]


@dataclass
class Classes:
    """Facts about the classes of a topology.

    Attributes:
        folder: The folder of the author's modules.
        spec: The topology's, as far as it can be read without its components.
        streams: Component -> its streams, if their declaration could be read.
        checks: Component -> the instance that checks its inputs, and its options as far as known.
        pinned: Names of the spouts that the driver hosts.
        printing: Names of the bolts that write rows to standard output.
        in_any_order: Names of the bolts that take their streams in any order.
        by_clock: Names of the bolts whose watermark is the time of day.
        committers: Names of the bolts whose class has the marker `Committer`, and of the sinks of a
            transactional topology.
        sinks: Names of the bolts that are sinks, and whether these take any stream.
        refused: Names of the bolts that a transactional topology can't have.
        is_transactional: Whether the topology has a transactional spout.
        is_opaque: Whether that may send other tuples in another attempt.
        base: The folder of the topology's file.
        severity: The severity of mistakes only in a topology without an end.
        told: Mistakes in the code that were told: a module that can't be imported is one mistake,
            not one for each component in it.
    """

    folder: Path | None
    spec: TopologySpec
    severity: Severity
    streams: dict[str, Streams] = field(default_factory=dict)
    checks: dict[str, tuple[Any, CheckedOptions]] = field(default_factory=dict)
    pinned: list[str] = field(default_factory=list)
    printing: list[str] = field(default_factory=list)
    in_any_order: list[str] = field(default_factory=list)
    by_clock: set[str] = field(default_factory=set)
    committers: list[str] = field(default_factory=list)
    sinks: dict[str, bool] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    is_transactional: bool = False
    is_opaque: bool = False
    base: Path | None = None
    told: set[str] = field(default_factory=set)

    def load(self, parts: Sequence[ComponentPart]) -> Iterator[Problem]:
        """Import all classes, make an instance of each, and read what it declares."""
        self.is_transactional = any(part.kind == TRANSACTIONAL for part in parts)
        for part in parts:
            if part.model is not None:
                yield from self._component(part)

    def of_state(self, spec: TopologySpec) -> Iterator[Problem]:
        """Import the classes of values in the checkpoint that have other names by now."""
        for old, new in spec.state_classes.items():
            try:
                load_named(f"{new}.__name__", self.folder)  # of a class, or of a whole module
            except CodeError as error:
                yield Problem(f"spec.stateClasses.{old}", error.message, error.cure)

    def _component(self, part: ComponentPart) -> Iterator[Problem]:
        assert part.model is not None
        try:
            instance = yield from self._instance(part)
        except CodeError as error:
            yield from self._code_problem(f"{part.path}.class", part.label, error)
            if error.meant:  # so that mistakes in its options are told at once
                model = part.model.model_copy(update={"class_": error.meant})
                yield from self._component(replace(part, model=model))
            return
        if instance is None:
            return
        is_class = isinstance(instance, type)
        cls = instance if is_class else type(instance)
        if not is_class:
            yield from _callbacks(f"{part.path}.class", part.label, instance)
        for message, cure in mistaken_transient(instance):
            yield Problem(f"{part.path}.class", f"{part.label}: {message}", cure)
        self._note_kind(part, instance)
        yield from self._committer(part, cls)
        checked = self._options(part, cls)
        yield from checked.problems
        if issubclass(cls, api.Sink):
            yield from self._sink(part, cls, checked)
        if self.is_transactional and part.kind == "bolt":
            for problem in in_transactions(part, instance, checked.options, self.spec):
                self.refused.add(part.name or "")
                yield problem
        self.is_opaque |= issubclass(cls, api.OpaquePartitionedTransactionalSpout)
        yield from self._streams(part, instance, cls, checked)

    def _options(self, part: ComponentPart, cls: type) -> CheckedOptions:
        if part.model is None or "config" in part.wrong:
            return CheckedOptions(has_streams=not depends_on_options(cls))
        config = part.model.config
        if self.is_transactional:
            config = with_guarantee(cls, config)
        return check_options(cls, config, part.path, part.label)

    def _streams(
        self, part: ComponentPart, instance: Any, cls: type, checked: CheckedOptions
    ) -> Iterator[Problem]:
        """Read what a component declares, which may depend on its options."""
        assert part.model is not None
        if not checked.has_streams:
            return
        try:
            streams = streams_of(part.model, instance, checked.options or checked.mended)
        except DeclarationError as error:
            message = f"{part.label}: {str(error).rstrip('.')}"
            yield Problem(f"{part.path}.class", message)
            return
        known = streams
        if self.is_transactional and issubclass(cls, api.Sink):
            known = {name: with_attempt(stream) for name, stream in streams.items()}
        if isinstance(part.model, BoltSpec) and part.model.tasks == 1:
            known = {name: replace(stream, parts=()) for name, stream in known.items()}
        self.streams.setdefault(part.name or "", known)
        is_known = getattr(cls, "config_model", None) is None or checked.options is not None
        if part.name and is_known and not isinstance(instance, type):
            self.checks.setdefault(part.name, (instance, checked))
        yield from timed_stream(part, streams)
        if (wrong := mistaken_errors(cls, streams, checked.options)) is not None:
            yield Problem(f"{part.path}.class", f"{part.label}: {wrong[0]}", wrong[1])

    def _committer(self, part: ComponentPart, cls: type) -> Iterator[Problem]:
        is_sink = self.is_transactional and issubclass(cls, api.Sink)
        is_marked = is_sink or issubclass(cls, api.Committer)
        if is_marked and part.name:
            self.committers.append(part.name)
        is_set = isinstance(part.model, BoltSpec) and part.model.committer
        if (is_marked or is_set) and not (is_sink or issubclass(cls, api.BatchBolt)):
            message = f"{part.label}: only a BatchBolt can be a committer"
            yield Problem(f"{part.path}.committer", message, "Derive it from fulmen.BatchBolt.")

    def _sink(
        self, part: ComponentPart, cls: type[api.Sink], checked: CheckedOptions
    ) -> Iterator[Problem]:
        assert part.model is not None
        if part.name:
            self.sinks[part.name] = takes_any_stream(checked.options, part.model.config)
        if cls.config_model is not None and checked.options is None:
            return  # its model tells what is wrong
        config, path = part.model.config, f"{part.path}.config.{GUARANTEE}"
        chosen = guarantee_of(cls, checked.options, config, is_transactional=self.is_transactional)
        if chosen not in cls.guarantees:
            yield Problem(path, f"{part.label}: {no_guarantee(cls, chosen)}")
        elif self.is_transactional and chosen != "exactly-once" and GUARANTEE not in config:
            message = f"{part.label}: {cls.__name__} writes a transaction again that comes again"
            cure = (
                "Say so with guarantee: at-least-once, or take a sink that can keep exactly-once."
            )
            yield Problem(path, message, cure)

    def _note_kind(self, part: ComponentPart, instance: Any) -> None:
        """Note what a driver has to know of a component's class."""
        if part.kind == "spout" and getattr(instance, "pinned", False) and part.name:
            self.pinned.append(part.name)
        if part.name and getattr(instance, "prints", False):
            self.printing.append(part.name)
        if part.name and getattr(instance, "streams_in_any_order", False):
            self.in_any_order.append(part.name)

    def _instance(self, part: ComponentPart) -> Any:
        """An instance of the part's class; the class if none can be made; None if it is no use."""
        assert part.model is not None
        cls, name = self._load(part.model.class_), part.model.class_
        if part.model.instance is not None:
            try:
                instance = unpickle(part.model.instance)
            except CodeError as error:
                yield from self._code_problem(f"{part.path}.instance", part.label, error)
                return cls
            cls, name = type(instance), f"{type(instance).__module__}.{type(instance).__qualname__}"
        is_batch_bolt = part.kind == "bolt" and self.is_transactional
        bases = BASES["bolt of a transactional topology" if is_batch_bolt else part.kind]
        if not issubclass(cls, bases):
            yield wrong_kind(part, cls, name, bases)
            return None
        if part.model.instance is not None:
            return instance
        if "instance" in part.wrong:
            return cls
        try:
            return instantiate(cls, name, self.folder)
        except CodeError as error:
            yield from self._code_problem(f"{part.path}.class", part.label, error)
            return None if cls.__abstractmethods__ else cls

    def _code_problem(self, path: str, label: str, error: CodeError) -> Iterator[Problem]:
        if error.__cause__ is not None:
            if str(error) in self.told:
                return
            self.told.add(str(error))
        yield Problem(path, f"{label}: {error.message}", error.cure)

    def _load(self, name: str) -> Any:
        """The class; if its module is beside the topology's file, the error says how to name it."""
        try:
            return load_class(name, self.folder)
        except CodeError as error:
            top = name.partition(".")[0]
            paths = [] if self.base is None else [self.base / f"{top}.py", self.base / top]
            beside = next((path for path in paths if path.exists()), None)
            if self.folder is not None or beside is None or error.__cause__ is not None:
                raise
            cure = f"{beside.name} is beside the topology's file: add code: {{folder: .}} to spec."
            raise CodeError(error.message, cure) from error  # told once: one cure helps all

    def subscriptions(self, parts: Sequence[ComponentPart]) -> Iterator[Problem]:
        """Streams and fields that the inputs name, but the classes don't declare."""
        self._add_dead_letters(parts)
        for part in parts:
            selected_by = as_received(part, self.streams, int(self.is_transactional))
            for item in part.inputs:
                yield from self._custom(item)
                of_source = self.streams.get(item.source or "")
                stream = (of_source or {}).get(item.stream or "")
                yield from mistaken_steps(item, stream, int(self.is_transactional))
                yield from self._through(item, stream)
                if of_source is not None and item.stream is not None:
                    got = selected_by[item.source or ""]
                    yield from mistaken_subscription(item, item.stream, got)
                else:
                    yield from needed_fields(item, None)
            streams = self._received(part, selected_by)
            if self.sinks.get(part.name or "") is False:
                yield from inputs_of_sink(part, streams)
            if part.name in self.checks:
                instance, checked = self.checks[part.name]
                of_all = ANY_STREAM if self.sinks.get(part.name) else None
                yield from checked_inputs(part, instance, checked, streams, of_all)
                if answer(instance, "goes_by_clock", checked.options)[0]:
                    self.by_clock.add(part.name or "")
        yield from stricter_in_front(parts, self.checks)
        yield from without_watermark(parts, self.checks, self.by_clock, self.severity)
        yield from transactional_graph(
            parts, self.streams, self.committers, self.sinks, self.refused
        )
        yield from written_maps(parts, self.checks, is_opaque=self.is_opaque)

    def _add_dead_letters(self, parts: Sequence[ComponentPart]) -> None:
        """Add the stream of given-up results to bolts that keep results, if it is asked for."""
        if self.is_transactional:
            return
        keep = {
            part.name
            for part in parts
            if isinstance(part.model, BoltSpec) and part.model.track_results
        }
        for item in (item for part in parts for item in part.inputs):
            streams = self.streams.get(item.source or "") if item.source in keep else None
            if streams and item.source and item.stream == DEAD_LETTERS:
                dead = {DEAD_LETTERS: api.Stream(DEAD_LETTER_FIELDS)}
                self.streams[item.source] = {**streams, **dead}

    def _received(
        self, part: ComponentPart, streams: Mapping[str, Streams]
    ) -> Mapping[str, Streams]:
        """The streams of all components as a component gets them: a sink gets no attempt."""
        if not self.is_transactional or part.name not in self.sinks:
            return streams
        return {
            name: {stream: without_attempt(it) for stream, it in of_one.items()}
            for name, of_one in streams.items()
        }

    def _through(self, item: InputPart, stream: api.Stream | None) -> Iterator[Problem]:
        if item.through is None:
            return
        try:
            function = create_input_function(item.through, self.folder)
        except CodeError as error:
            yield from self._code_problem(f"{item.path}.through.class", item.label, error)
        else:
            yield from mistaken_function(item, function, stream, int(self.is_transactional))

    def _custom(self, item: InputPart) -> Iterator[Problem]:
        grouping = item.grouping
        if grouping is None or grouping.type != "custom" or grouping.class_ is None:
            return
        path = f"{item.path}.grouping.class"
        try:
            instance = create_grouping(grouping, self.folder)
        except CodeError as error:
            yield from self._code_problem(path, item.label, error)
        else:
            yield from _callbacks(path, item.label, instance)


def _callbacks(path: str, label: str, instance: Any) -> Iterator[Problem]:
    for message, cure in mistaken_callbacks(instance):
        yield Problem(path, f"{label}: {message}", cure)
    for message, cure in (*leftovers(instance), *unlikely_callbacks(instance)):
        yield Problem(path, f"{label}: {message}", cure, "warning")
    if isinstance(instance, api.Component):
        for message, cure in kept_in_class(instance):
            yield Problem(path, f"{label}: {message}", cure, "warning")
