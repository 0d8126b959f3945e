"""The bolt that runs an async function: many rows wait for a service side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api import BasicBolt, BasicOutputCollector, Stream, TopologyContext, Tuple
from fulmen.api.components import FailedException, Outputs
from fulmen.api.components.sinks import ERRORS_STREAM, ServiceUnavailable
from fulmen.api.signals import StepRows
from fulmen.errors import PASSED_ON, error_text
from fulmen.streams.bolts.fused import FusedOptions, checked_steps, outputs_of
from fulmen.streams.bolts.loops import StepFailed
from fulmen.streams.graph.registry import find_graph
from fulmen.streams.rows.shapes import Shape


class AsyncStep(BasicBolt):
    """Runs one step whose function is async. It is found in the author's module: `FusedOptions`."""

    config_model = FusedOptions
    transient: ClassVar[Sequence[str]] = (
        "_has_errors",
        "_signals",
        "_step",
        "_function",
        "_shapes",
    )

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
        options: FusedOptions = context.options
        (self._step,) = find_graph(options.pipeline).steps(options.steps, options.digest)
        (self._function,) = self._step.functions.values()
        self._has_errors, self._signals = options.errors, context.signals
        self._shapes: dict[Sequence[str], Shape] = {}

    async def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        """Wait for the function's result, and emit it."""
        if tup.is_tick():
            return
        fields, made = tuple(tup.fields), self._step.shape
        assert made is not None
        if fields not in self._shapes:
            self._shapes[fields] = Shape(fields, self._step.parents[0].row)
        try:
            result = await self._function(self._shapes[fields].wrap(tup.values))
            is_many = self._step.operator == "flat_map"
            rows = made.accept_all(result) if is_many else [made.accept(result)]
        except (*PASSED_ON, FailedException, ServiceUnavailable):
            raise
        except BaseException as error:
            self._signals.note_steps([StepRows(self._step.name, 1, 0, 1)])
            where = f"step 1 {self._step.operator!r} ({self._step.place})"
            reason = f"{where}: {error_text(error)}"
            if not self._has_errors:
                raise StepFailed(reason) from error
            collector.emit([self._step.name, list(tup.values), reason], ERRORS_STREAM)
            return
        self._signals.note_steps([StepRows(self._step.name, 1, len(rows), 0)])
        for row in rows:
            collector.emit(made.unwrap(row))
