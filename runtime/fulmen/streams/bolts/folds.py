"""Bolts that keep something for each key, and emit it whenever a row changes it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field
from typing_extensions import override

from fulmen.api import (
    BasicOutputCollector,
    ManyBolt,
    ManyCollector,
    Stream,
    TopologyContext,
    Tuple,
    Tuples,
)
from fulmen.api.components import Outputs
from fulmen.connectors.options import Options
from fulmen.errors import PASSED_ON, CodeError
from fulmen.streams.graph.nodes import UNSET, FoldNode
from fulmen.streams.graph.registry import find_graph
from fulmen.streams.rows.shapes import Shape, key_getter
from fulmen.windows.options import Name

Fold = Callable[[Any, Sequence[Any]], tuple[Any, Sequence[Any] | None]]
"""Of what is kept and a row: what to keep, and what to emit behind the key; None: nothing."""


class FoldOptions(Options):
    """The `config` of a `KeyedFold`."""

    pipeline: str
    """The module whose import makes the pipeline, and the pipeline: `shop:shop`."""
    key: tuple[Name, ...]
    """The fields of the key. The input must be grouped by them."""
    fields: tuple[Name, ...]
    """What is emitted behind the key."""
    types: dict[str, str] = Field({})
    """Their types, as far as they are known."""


class KeyedFold(ManyBolt):
    """Storm's updateStateByKey and reduceByKey: a function of what is kept, and a row.

    State: key -> what is kept.
    """

    config_model = FoldOptions
    emits_results = True  # a row that comes again would count twice
    transient: ClassVar[Sequence[str]] = ("_folds", "_context", "_failed")

    @override
    def outputs_for(self, options: FoldOptions) -> Outputs:
        return Stream((*options.key, *options.fields), types=options.types)

    @override
    def check_inputs(
        self, options: FoldOptions, inputs: Mapping[tuple[str, str], Stream]
    ) -> Iterable[str]:
        try:
            find_graph(options.pipeline)
        except CodeError as error:
            return [str(error)]
        return []

    @override
    def grouping_key(self, options: Any, source: tuple[str, str]) -> Sequence[str]:
        key: Sequence[str] = options.key
        return key

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        self._context = context
        self._folds: dict[tuple[str, ...], tuple[Callable[[Sequence[Any]], Any], Fold]] = {}
        self._failed: list[BaseException] = []

    @override
    def execute_many(self, tuples: Tuples, collector: ManyCollector) -> Sequence[int]:
        fields, state, names = tuple(tuples.fields), self.state, self._context.options.key
        if fields not in self._folds:
            self._folds[fields] = key_getter(fields, names), self._made(fields)
        key_of, fold = self._folds[fields]
        is_one = len(names) == 1
        rows, parents, wrong = [], [], []
        for i, values in enumerate(tuples):
            try:
                key = key_of(values)
                if key != key:  # NaN
                    raise ValueError(f"the key {names} is NaN, which equals nothing")
                kept, result = fold(state.get(key), values)
                if kept is None:
                    state.pop(key, None)
                else:
                    state[key] = kept
            except PASSED_ON:
                raise
            except BaseException as error:  # noqa: BLE001 (the author's function)
                wrong.append(i)
                self._failed.append(error)
                continue
            if result is not None:
                rows.append([key, *result] if is_one else [*key, *result])
                parents.append(i)
        if rows:
            collector.emit_many(rows, parents=parents)
        return wrong

    @override
    def execute(self, tup: Tuple, collector: BasicOutputCollector) -> None:
        """Fail a row, as any bolt does for which `execute` raises."""
        if not tup.is_tick():
            raise self._failed.pop(0)

    def _made(self, fields: tuple[str, ...]) -> Fold:
        """What is done to rows with these fields."""
        options: FoldOptions = self._context.options
        node = find_graph(options.pipeline).component(self._context.component)
        if not isinstance(node, FoldNode):
            raise CodeError(
                f"{node.name!r} of pipeline {options.pipeline!r} is something else here"
            )
        row = Shape(fields, node.parents[0].row)
        function, shape, initial = node.function, node.shape or row, node.initial

        def fold(kept: Any, values: Sequence[Any]) -> tuple[Any, Sequence[Any] | None]:
            if kept is None and initial is UNSET:  # reduce: the first row
                result = row.wrap(values)
            else:
                before = copy.deepcopy(initial) if kept is None else shape.wrap(kept)
                if len(shape.fields) == 1 and initial is not UNSET and kept is not None:
                    before = kept[0]
                result = function(before, row.wrap(values))
            if result is None:
                return None, None
            made = shape.unwrap(shape.accept(result))
            return made, [v for v, name in zip(made, shape.fields, strict=True) if name in emitted]

        emitted = set(options.fields)
        return fold
