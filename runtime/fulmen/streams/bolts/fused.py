"""The bolt that runs an author's functions: consecutive steps without a tuple between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import override

from fulmen.api import (
    BasicOutputCollector,
    FailedException,
    ManyBolt,
    ManyCollector,
    Stream,
    TopologyContext,
    Tuple,
    Tuples,
)
from fulmen.api.components import Outputs
from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.connectors.options import Options
from fulmen.errors import CodeError
from fulmen.streams.bolts.loops import FailedRow, StepFailed, StepsLoop
from fulmen.streams.graph.registry import find_graph

ERROR_FIELDS = ("step", "values", "reason")


class FusedOptions(Options):
    """The `config` of `FusedSteps`."""

    pipeline: str
    """The module whose import makes the pipeline, and the pipeline: `shop:shop`."""
    steps: tuple[str, ...]
    """The names of the steps, in their order."""
    digest: str
    """What tells these steps from others: the code of functions doesn't count."""
    fields: tuple[str, ...] | None = None
    """What is emitted; None: nothing."""
    types: dict[str, str] = Field({})
    """The types of these fields, as far as they are known."""
    attempt: str | None = None
    """In a transactional topology the name of the first field, which functions don't see."""
    errors: bool = False
    """Whether a row for which a function raises goes to the stream `errors`, instead of failing."""


def outputs_of(options: FusedOptions) -> dict[str, Stream]:
    """What steps emit."""
    streams: dict[str, Stream] = {}
    front = () if options.attempt is None else (options.attempt,)
    if options.fields is not None:
        streams["default"] = Stream((*front, *options.fields), types=options.types)
    if options.errors:
        streams[ERRORS_STREAM] = Stream((*front, *ERROR_FIELDS))
    return streams


def checked_steps(options: FusedOptions) -> list[str]:
    """What is wrong if the steps are not found here."""
    try:
        find_graph(options.pipeline).steps(options.steps, options.digest)
    except CodeError as error:
        return [str(error)]
    return []


class FusedSteps(ManyBolt):
    """Runs steps of a pipeline. The functions are found in the author's module: `FusedOptions`."""

    config_model = FusedOptions
    transient: ClassVar[Sequence[str]] = ("_options", "_signals", "_steps", "_loops", "_failed")

    @override
    def outputs_for(self, options: FusedOptions) -> Outputs:
        return outputs_of(options)

    @override
    def check_inputs(
        self, options: FusedOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterable[str]:
        return checked_steps(options)

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self._options: FusedOptions = context.options
        self._signals = context.signals
        graph = find_graph(self._options.pipeline)
        self._steps = graph.steps(self._options.steps, self._options.digest)
        self._loops: dict[Sequence[str], StepsLoop] = {}
        self._failed: list[FailedRow] = []

    @override
    def execute_many(self, tuples: Tuples, collector: ManyCollector) -> Sequence[int]:
        kept = 0 if self._options.attempt is None else 1
        fields, rows = tuple(tuples.fields)[kept:], list(tuples)
        fronts = [row[:kept] for row in rows] if kept else None
        if kept:
            rows = [row[kept:] for row in rows]
        loop = self._loops.get(fields)
        if loop is None:
            loop = self._loops[fields] = StepsLoop(self._steps, Stream(fields))
        ran = loop.run(rows)
        self._signals.note_steps(ran.steps)
        if ran.rows and self._options.fields is not None:
            made = ran.rows
            if fronts is not None:
                made = [[*fronts[i], *row] for i, row in zip(ran.at, made, strict=True)]
            collector.emit_many(made, parents=ran.at)
        if not ran.failed:
            return ()
        places = sorted(ran.failed)
        if self._options.errors:
            collector.emit_many(
                [
                    [*(fronts[i] if fronts else ()), failed.step, list(rows[i]), failed.reason]
                    for i in places
                    for failed in [ran.failed[i]]
                ],
                ERRORS_STREAM,
                places,
            )
            return ()
        self._failed = [ran.failed[i] for i in places]
        return places

    @override
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        """Fail a row, as any bolt does for which `execute` raises."""
        if tup.is_tick():
            return
        failed = self._failed.pop(0)
        if isinstance(failed.error, FailedException):
            raise failed.error
        raise StepFailed(failed.reason) from failed.error
