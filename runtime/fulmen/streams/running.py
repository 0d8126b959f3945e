"""Runs a pipeline in this process: for a script, a notebook and tests.

`fulmen.testing` is imported when it is needed: workers, which import authors' modules, don't.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fulmen.api import Stream, TransactionalSource
from fulmen.connectors.formats.base import Malformed
from fulmen.connectors.formats.types import converter
from fulmen.errors import ValidationFailed
from fulmen.streams.calls import components
from fulmen.streams.compiling.compiler import StreamsCompiler
from fulmen.streams.graph.nodes import ComponentNode, Config, Graph, Node
from fulmen.streams.graph.places import is_importing
from fulmen.streams.rows.tables import table
from fulmen.topology.problems import Problem, did_you_mean, there_are
from fulmen.windows import PersistentAggregate

if TYPE_CHECKING:
    from fulmen.testing import ManualClock, Result
    from fulmen.topology.resource.spec import Topology

MOST_TOLD = 20
"""So many different errors of a run are told."""
TEXTS = frozenset({"string", "binary", "base64", "json"})
"""Types whose values are texts, or may be."""
Row = dict[str, Any]
Replaced = tuple[Any, Config]
Enough = Callable[["Result"], bool]


class StreamsOutcome:
    """What has come to the sinks of a pipeline.

    Attributes:
        result: All that `fulmen.testing` tells of the run.
    """

    def __init__(self, result: Result, fields: Mapping[str, Sequence[str]]) -> None:
        self.result, self._fields = result, fields

    def __getitem__(self, sink: str) -> list[Row]:
        """The rows of a sink, by the names of their fields."""
        if sink not in self._fields:
            raise KeyError(f"there is no sink {sink!r}: {[*self._fields]}")
        fields = self._fields[sink]
        rows = (values[len(values) - len(fields) :] for values in self.result.collected(sink))
        return [dict(zip(fields, values, strict=True)) for values in rows]  # without the attempt

    def __repr__(self) -> str:
        """The rows of each sink, as a table: in a notebook a cell shows it."""
        return "\n\n".join(
            "\n".join((f"{sink}:", *table(fields, self[sink])))
            for sink, fields in self._fields.items()
        )


def run(
    topology: Topology, *, until_drained: bool = True, checkpoint: str | None = None,
    enough: Enough | None = None,
) -> Result:  # fmt: skip
    """Run a topology by the clock on the wall."""
    from fulmen import testing

    class Clock(testing.ManualClock):
        """Seconds that pass by themselves."""

        def __call__(self) -> float:
            return time.monotonic()

        def advance(self, seconds: float) -> None:
            time.sleep(seconds)

    until: Any = "drained" if until_drained else lambda _: False
    return testing.run(
        topology, until=until, enough=_telling(enough), checkpoint=checkpoint, clock=Clock(),
        batch_seconds=0, at_most=1 << 62,
    )  # fmt: skip


def _telling(enough: Enough | None) -> Enough:
    """Also tell on stderr what goes wrong: each message once, since rows come again and again."""
    told: set[str] = set()
    seen = 0

    def looked_at(result: Result) -> bool:
        nonlocal seen
        for error in result.errors[seen:]:
            if error.message not in told and len(told) < MOST_TOLD:
                told.add(error.message)
                print(f"{error.component}: {error.message}", file=sys.stderr)  # noqa: T201
        seen = len(result.errors)
        return enough is not None and enough(result)

    return looked_at


def take(node: Node, count: int) -> list[Row]:
    """The first rows of a stream; none while an import goes on."""
    return _taken(node, count)[1]


def show(node: Node, count: int) -> None:
    """Print the first rows of a stream."""
    if not is_importing():
        print("\n".join(table(*_taken(node, count))))  # noqa: T201


def _taken(node: Node, count: int) -> tuple[Sequence[str], list[Row]]:
    if is_importing():
        return (), []
    from fulmen import testing

    graph = node.graph
    graph.shown.append(node)
    sink = components.bolt(
        node, graph.unique("show"), testing.CollectBolt, None, 1, {}, is_sink=True
    )
    try:
        with TemporaryDirectory() as folder:
            compiler = StreamsCompiler(graph, only=sink, replace=partial(_with_store, folder))
            topology = compiler.compiled().topology
            # a row that fails always does
            once = topology.spec.model_copy(update={"max_replays": 0})
            name = sink.name
            enough: Enough = lambda result: len(result.collected(name)) >= count  # noqa: E731
            result = run(topology.model_copy(update={"spec": once}), enough=enough)
    finally:
        graph.nodes.remove(sink)
    return compiler.received[name], StreamsOutcome(result, compiler.received)[name][:count]


def test(
    graph: Graph,
    rows: Mapping[str, Sequence[Any]],
    *,
    replays: bool,
    clock: ManualClock | None,
) -> StreamsOutcome:
    """Run a pipeline with these rows; its sinks only collect."""
    from fulmen import testing

    sources = [n.name for n in graph.nodes if isinstance(n, ComponentNode) and n.is_spout]
    if unknown := [name for name in rows if name not in sources]:
        cure = did_you_mean(unknown[0], sources) or there_are(sources)
        raise ValidationFailed([Problem("", f"there is no source {unknown[0]!r}", cure)])

    def replaced(
        node: ComponentNode, streams: Mapping[str, Stream], config: Config
    ) -> Replaced | None:
        if node.is_sink:
            return testing.CollectBolt(), {}
        if not node.is_spout:
            return _with_store(folder, node, streams, config)
        if "default" not in streams:  # its options have mistakes, which are told
            return None
        fields = streams["default"].fields
        items = [
            _as_read(number, item, streams["default"])
            for number, item in enumerate(rows.get(node.name, ()), 1)
        ]
        if issubclass(node.cls, TransactionalSource):
            return testing.ListTransactions(items, fields), {}
        return testing.ListSpout(items, streams=streams, replays=replays), {}

    with TemporaryDirectory() as folder:
        compiler = StreamsCompiler(graph, replace=replaced)
        result = testing.run(compiler.compiled().topology, clock=clock)
    return StreamsOutcome(result, compiler.received)


def _as_read(number: int, item: Any, stream: Stream) -> Any:
    """The values of a row of a test; texts of times and the like as the source would read them."""
    if not isinstance(item, Mapping | list | tuple):  # such as PAUSE
        return item
    if isinstance(item, Mapping):
        if unknown := [name for name in item if name not in stream.fields]:
            cure = did_you_mean(unknown[0], stream.fields) or there_are(stream.fields)
            message = f"row {number}: there is no field {unknown[0]!r}"
            raise ValidationFailed([Problem("", message, cure)])
        item = [item.get(field) for field in stream.fields]
    values = list(item)
    for at, (name, value) in enumerate(zip(stream.fields, values, strict=False)):
        if isinstance(value, str) and stream.types.get(name, "string") not in TEXTS:
            try:
                values[at] = converter(stream.types[name])(value)
            except Malformed as error:
                message = f"row {number}: field {name!r}: {error}"
                raise ValidationFailed([Problem("", message, "")]) from None
    return values


def _with_store(
    folder: str,
    node: ComponentNode,
    streams: Mapping[str, Stream],  # noqa: ARG001 (that of any replacement)
    config: Config,
) -> Replaced | None:
    """What adds to a map in a store, with one of its own: a test changes no database."""
    if node.cls is not PersistentAggregate:
        return None
    return node.code, {**config, "store": "sqlite", "at": str(Path(folder) / "maps.db")}
