"""Completes tuples with the rows of a table that each worker has.

A tuple that is replayed may find another row than before, if the table has changed meanwhile.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, ClassVar

from typing_extensions import override

from fulmen.api.components import Outputs
from fulmen.api.components.many import ManyBolt, ManyCollector, Tuples
from fulmen.api.context import TopologyContext
from fulmen.api.declarer import DEFAULT_STREAM, Stream
from fulmen.connectors.base.lookup.asked import AskedIndex
from fulmen.connectors.base.lookup.holder import TableHolder
from fulmen.connectors.base.lookup.index import TableIndex
from fulmen.connectors.base.lookup.kinds import OF_TYPES, misfit
from fulmen.connectors.base.lookup.options import LookupOptions, WholeTableOptions
from fulmen.connectors.base.lookup.table import AskedTable, LookupTable
from fulmen.connectors.formats.base import positions, refused
from fulmen.errors import repr_of
from fulmen.expressions.condition import RowCondition, mistakes_of
from fulmen.expressions.parsing import shown

_MANY = 1000


class TableLookup(ManyBolt):
    """Finds the rows of a table for each tuple: see `LookupOptions`."""

    durable: ClassVar[Sequence[str]] = ()
    clock: ClassVar[Callable[[], float]] = monotonic
    """By which it is time to look at the table, in seconds."""

    @abstractmethod
    def table(self, options: Any) -> LookupTable | AskedTable:
        """The table, which is read as a whole or asked for keys."""

    @override
    def outputs_for(self, options: LookupOptions) -> Outputs:
        added = options.added if options.adds else {}
        types = {n: options.types[of] for n, of in added.items() if of in options.types}
        return {DEFAULT_STREAM: Stream((*options.fields, *added), types=types)}

    @override
    def check_input(self, options: LookupOptions, stream: Stream) -> Iterable[str | Warning]:
        return list(_mistakes(options, stream))

    @override
    def prepare(self, conf: Mapping[str, Any], context: TopologyContext) -> None:
        """Read the table, if no other task of this process has it.

        Raises:
            ServiceUnavailable: It can't be read.
        """
        options: LookupOptions = context.options
        self._options, self._context = options, context
        of = f"{type(self).__qualname__} of {context.component}: {options.model_dump()}"
        self._holder = context.shared(
            of, partial(_holder, self.table(options), options, type(self).clock)
        )
        self._conditions: dict[tuple[str, ...], RowCondition] = {}
        self._nothing: Sequence[list[Any]] = [[None] * len(options.added)]
        self._told_loads = 0
        self._only_missed: int | None = 0 if options.adds else None
        self._missed = context.counter("lookup_missed", "Tuples whose key had no row.")
        self._loads = context.counter("lookup_loads", "How often the table was read.")
        self._troubles = context.counter(
            "lookup_troubles", "How often a table that has changed could not be read."
        )
        self._rows = context.gauge("lookup_rows", "Rows of the table that is used.")
        self._holder.begin()

    @override
    def execute_many(self, tuples: Tuples, collector: ManyCollector) -> None:
        index = self._holder.of_batch(self._context.batch.attempt)
        self._tell(index, collector)
        key = [tuples.column(name) for name in self._options.pairs]
        try:
            those: Sequence[Sequence[list[Any]] | str] = index.find(key)
        except TypeError:
            those = [self._found(index, one) for one in zip(*key, strict=True)]
        found: list[Sequence[list[Any]] | None] = []
        for place, rows in enumerate(those):
            why: str | None = rows if isinstance(rows, str) else None
            if not rows:
                why = self._misfit(index, [column[place] for column in key])
            if why is not None:
                collector.fail(place, why)
            found.append(None if why is not None else rows)  # type: ignore[arg-type]  # no text
        passed = [tuples.column(name) for name in self._options.fields]
        bases = [list(one) for one in zip(*passed, strict=True)] if passed else [[]] * len(tuples)
        if self._options.where is not None:
            found = self._matching(tuples, bases, found, collector)
        if self._only_missed is not None:
            self._look_for_a_row(index, key, found, collector)
        self._emit(bases, found, collector)

    def _look_for_a_row(
        self,
        index: TableIndex | AskedIndex,
        key: Sequence[Sequence[Any]],
        found: Sequence[Sequence[list[Any]] | None],
        collector: ManyCollector,
    ) -> None:
        """Tell once if many tuples have come, and none has a row of the table."""
        assert self._only_missed is not None
        self._only_missed += len(found)
        if any(found):
            self._only_missed = None
        elif self._only_missed >= _MANY and all(index.kinds):
            self._only_missed = None
            asked = [next((v for v in values if v is not None), None) for values in key]
            there = [next(iter(kinds.values())) for kinds in index.kinds]
            if None not in there:
                collector.report_error(
                    f"none of the first {_MANY:,} tuples and more has a row of the table. One has"
                    f" {_shown(self._options.pairs, asked)}, and a row"
                    f" {_shown(self._options.pairs.values(), there)}. If such keys should equal,"
                    " write them alike, as by upper, trim or cast in select"
                )

    def _tell(self, index: TableIndex | AskedIndex, collector: ManyCollector) -> None:
        self._rows.set(index.size)
        if self._holder.loads != self._told_loads and self._context.task_index == 0:
            self._loads.inc(self._holder.loads - self._told_loads)
            for column, kinds in zip(self._options.pairs.values(), index.kinds, strict=True):
                if len(kinds) > 1:
                    collector.report_error(_of_several_kinds(column, kinds))
        self._told_loads = self._holder.loads
        if (trouble := self._holder.trouble()) is not None:
            self._troubles.inc()
            collector.report_error(trouble)

    def _found(
        self, index: TableIndex | AskedIndex, key: Sequence[Any]
    ) -> Sequence[list[Any]] | str:
        try:
            [found] = index.find([[value] for value in key])
        except TypeError:
            return ()
        return found

    def _misfit(self, index: TableIndex | AskedIndex, key: Sequence[Any]) -> str | None:
        """Why a key that was not found never can be."""
        found = misfit(key, index.kinds)
        if found is None:
            return None
        at, kinds = found
        field, column = [*self._options.pairs.items()][at]
        return (
            f"field {field!r} is {repr_of(key[at])[:80]}, and column {column!r} of"
            f" the table has {kinds}: they never equal. Give one of them the other's type, in"
            " `fields` of the format or by `cast` in select"
        )

    def _matching(
        self,
        tuples: Tuples,
        bases: Sequence[list[Any]],
        found: Sequence[Sequence[list[Any]] | None],
        collector: ManyCollector,
    ) -> list[Sequence[list[Any]] | None]:
        """The rows of each tuple for which the condition is true."""
        fields = tuple(tuples.fields)
        if fields not in self._conditions:
            stream = self._context.input(tuples.component, tuples.stream)
            self._conditions[fields] = RowCondition(*_condition(self._options, stream))
        pairs, at = [], []
        for place, rows in enumerate(found):
            for row in rows or ():
                pairs.append(bases[place] + row)
                at.append((place, row))
        taken, failed = self._conditions[fields].of(pairs)
        kept: list[Sequence[list[Any]] | None] = [None if f is None else [] for f in found]
        for pair in taken:
            place, row = at[pair]
            kept[place].append(row)  # type: ignore[union-attr]  # it was found
        for pair, why in failed.items():
            place, _ = at[pair]
            collector.fail(place, why)
            kept[place] = None
        return kept

    def _emit(
        self,
        bases: Sequence[list[Any]],
        found: Sequence[Sequence[list[Any]] | None],
        collector: ManyCollector,
    ) -> None:
        """Emit tuples with what was found for each; None: it has failed."""
        kind, nothing, missed = self._options.type, self._nothing, 0
        rows: list[list[Any]] = []
        places: list[int] = []
        for place, (base, of_key) in enumerate(zip(bases, found, strict=True)):
            if of_key is None:
                continue
            if not of_key:
                missed += 1
                if kind == "anti":
                    rows.append(base)
                elif kind == "left":
                    rows.append(base + nothing[0])
                else:
                    continue
                places.append(place)
            elif kind == "semi":
                rows.append(base)
                places.append(place)
            elif kind != "anti":
                rows.extend(base + row for row in of_key)
                places.extend([place] * len(of_key))
        self._missed.inc(missed)
        collector.emit_many(rows, parents=places)


def _of_several_kinds(column: str, kinds: Mapping[str, Any]) -> str:
    those = ", ".join(f"{kind} ({repr_of(value)[:80]})" for kind, value in kinds.items())
    return (
        f"column {column!r} of the table has values of several types: {those}. A tuple finds those"
        " of its own type alone. Give the column a type in `fields` of the format"
    )


def _shown(names: Iterable[str], values: Sequence[Any]) -> str:
    return " and ".join(
        f"{name!r} = {repr_of(value)[:80]}" for name, value in zip(names, values, strict=True)
    )


def _holder(
    table: LookupTable | AskedTable, options: LookupOptions, clock: Callable[[], float]
) -> TableHolder | AskedIndex:
    if isinstance(table, AskedTable):
        return AskedIndex(table, options, clock)

    assert isinstance(options, WholeTableOptions)
    memory_bytes = options.memory_bytes

    def index(table: LookupTable) -> TableIndex:
        columns, key = options.columns, [*options.pairs.values()]
        added = [*options.added.values()]
        return TableIndex(table.read(), columns, key, added, options.matches, memory_bytes)

    return TableHolder(table, index, options.reload_seconds, clock)


def _condition(options: LookupOptions, stream: Stream) -> tuple[str, Stream]:
    """The condition, and the rows that it is of."""
    types = {name: stream.types[name] for name in options.fields if name in stream.types}
    types |= {n: options.types[of] for n, of in options.added.items() if of in options.types}
    return options.where or "true", Stream((*options.fields, *options.added), types=types)


def _mistakes(options: LookupOptions, stream: Stream) -> Iterator[str | Warning]:
    if "fields" not in options.model_fields_set:
        yield UserWarning(
            "nothing of the input is passed on. If it should be, write fields:"
            f" [{', '.join(stream.fields)}]"
        )
    for option, names in (("fields", options.fields), ("key", [*options.pairs])):
        for one in refused(partial(positions, names, stream.fields)):
            yield f"{option}: {one}"
    for field, column in options.pairs.items():
        of_field, of_column = stream.types.get(field), options.types.get(column)
        kinds = OF_TYPES.get(of_field or ""), OF_TYPES.get(of_column or "")
        if None not in kinds and kinds[0] != kinds[1]:
            yield (
                f"key: field {field!r} is {of_field}, and column {column!r} of the table is"
                f" {of_column}: they never equal. Give the column that type: fields: {{{column}:"
                f" {of_field}}}; or cast the field in `select` of the input"
            )
    if options.where is not None:
        for error in mistakes_of(*_condition(options, stream)):
            among = f". There are {', '.join(map(repr, error.among))}" if error.among else ""
            cure = f". {error.cure}" if error.cure and not among else ""
            yield f"where {shown(options.where)}: {error}{among}{cure}"
