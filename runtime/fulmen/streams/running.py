"""Runs a pipeline in this process: for a script, a notebook and tests.

`fulmen.testing` is imported when it is needed: workers, which import authors' modules, don't.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from fulmen.api import Stream, TransactionalSource
from fulmen.errors import ValidationFailed
from fulmen.streams.calls import components
from fulmen.streams.compiling.compiler import StreamsCompiler
from fulmen.streams.graph.nodes import ComponentNode, Config, Graph, Node
from fulmen.streams.graph.places import is_importing
from fulmen.topology.problems import Problem, did_you_mean, there_are
from fulmen.windows import PersistentAggregate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fulmen.testing import ManualClock, Result
    from fulmen.topology.resource.spec import Topology

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
        topology, until=until, enough=enough, checkpoint=checkpoint, clock=Clock(),
        batch_seconds=0, at_most=1 << 62,
    )  # fmt: skip


def show(node: Node, count: int) -> list[Row] | None:
    """Print the first rows of a stream; None while an import goes on."""
    if is_importing():
        return None
    from fulmen import testing

    graph = node.graph
    graph.shown.append(node)
    with _sink(node, testing.CollectBolt) as sink, TemporaryDirectory() as folder:
        compiler = StreamsCompiler(graph, only=sink, replace=partial(_with_store, folder))
        topology = compiler.compiled().topology
        name = sink.name
        enough: Enough = lambda result: len(result.collected(name)) >= count  # noqa: E731
        result = run(topology, enough=enough)
    rows = StreamsOutcome(result, compiler.received)[name][:count]
    for row in rows:
        print("  ".join(f"{field}={value!r}" for field, value in row.items()))  # noqa: T201
    return rows


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
        fields = streams["default"].fields
        items = [
            [item.get(field) for field in fields] if isinstance(item, Mapping) else item
            for item in rows.get(node.name, ())
        ]
        if issubclass(node.cls, TransactionalSource):
            return testing.ListTransactions(items, fields), {}
        return testing.ListSpout(items, streams=streams, replays=replays), {}

    with TemporaryDirectory() as folder:
        compiler = StreamsCompiler(graph, replace=replaced)
        result = testing.run(compiler.compiled().topology, clock=clock)
    return StreamsOutcome(result, compiler.received)


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


@contextmanager
def _sink(node: Node, cls: type) -> Iterator[ComponentNode]:
    """A sink for a stream, for as long as the block lasts."""
    sink = components.bolt(node, node.graph.unique("show"), cls, None, 1, {}, is_sink=True)
    try:
        yield sink
    finally:
        node.graph.nodes.remove(sink)
