"""A pipeline: its sources, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fulmen.errors import ValidationFailed
from fulmen.streams import running
from fulmen.streams.calls import components
from fulmen.streams.compiling.compiler import StreamsCompiler
from fulmen.streams.compiling.explained import ExplainedPipeline
from fulmen.streams.graph.nodes import ComponentNode, Config
from fulmen.streams.graph.places import is_importing
from fulmen.streams.graph.registry import new_graph
from fulmen.streams.rows.shapes import fields_of
from fulmen.streams.stream import DataStream
from fulmen.topology.problems import Problem
from fulmen.topology.reading.documents import to_yaml
from fulmen.topology.resource.spec import Topology

if TYPE_CHECKING:
    from fulmen.testing import ManualClock, Result

R = TypeVar("R")


class Streams:
    """Begins a pipeline; `build` gives the very topology that a file in YAML would be.

    Write it at module level: workers import the module, and find its functions by their steps.

        shop = Streams("shop", workers=2)
        clicks = shop.source("clicks", FileSpout, path="clicks.jsonl", format={"type": "json"})
        clicks.where("amount > 0").key_by("user").count().sink("counts", StdoutSink)
        topology = shop.build()
    """

    def __init__(self, name: str, **spec: Any) -> None:
        """Begin a pipeline.

        Args:
            name: The topology's name.
            spec: Fields of TopologySpec, in Python's spelling: workers=2, max_replays=3.
        """
        self.name = name
        self._graph = new_graph(name, spec)

    def __repr__(self) -> str:
        nodes = [node for node in self._graph.nodes if isinstance(node, ComponentNode)]
        return f"<Streams {self.name!r}: {', '.join(node.name for node in nodes)}>"

    @overload
    def source(
        self, name: str, spout: Any, *, row: type[R], parallelism: int = ...,
        event_time: Any = ..., lag: str | None = ..., idle_timeout: str | None = ...,
        config: Config | None = ..., **options: Any,
    ) -> DataStream[R]: ...  # fmt: skip
    @overload
    def source(
        self, name: str, spout: Any, *, row: None = ..., parallelism: int = ...,
        event_time: Any = ..., lag: str | None = ..., idle_timeout: str | None = ...,
        config: Config | None = ..., **options: Any,
    ) -> DataStream[Any]: ...  # fmt: skip
    def source(
        self, name: str, spout: Any, *, row: type[Any] | None = None, parallelism: int = 1,
        event_time: Any = None, lag: str | None = None, idle_timeout: str | None = None,
        config: Config | None = None, **options: Any,
    ) -> DataStream[Any]:  # fmt: skip
        """Read rows.

        Args:
            name: Its name in the topology: its position is kept under it.
            spout: A class of a spout, or an object of one.
            row: The class of what functions get: a NamedTuple, dataclass or TypedDict with the
                fields of the source. Default: rows with the fields as attributes, and by name.
            parallelism: The number of executors.
            event_time: The field with the time; or all of `eventTime`: {"field": "at", "unit":
                "ms"}.
            lag: Of event time: a row may be so much older than the newest one.
            idle_timeout: Of event time: a part that is silent for so long holds up nothing.
            config: Options whose names are no names of Python.
            options: Its options, and fields of the component such as `num_tasks`.
        """
        if row is not None and fields_of(row) is None:
            raise ValidationFailed(
                [
                    Problem(
                        "",
                        f"source {name!r}: row is no class with fields",
                        "Give a NamedTuple, dataclass or TypedDict.",
                    )
                ]
            )
        timed = event_time
        if event_time is not None:
            timed = {"field": event_time} if isinstance(event_time, str) else dict(event_time)
            more = {"lag": lag, "idle_timeout": idle_timeout}
            timed |= {word: value for word, value in more.items() if value is not None}
        given = {**(config or {}), **options}
        node = components.source(self._graph, name, spout, parallelism, timed, given, row)
        return DataStream(node)

    def build(self) -> Topology:
        """The topology.

        Raises:
            ValidationFailed: There are mistakes; it names all of them, each with its line.
        """
        return StreamsCompiler(self._graph).compiled().topology

    def to_yaml(self) -> str:
        """The topology as YAML, without what is the default."""
        return to_yaml(self.build())

    def explain(self) -> str:
        """Components, what was fused in each, and how rows are divided."""
        return ExplainedPipeline("\n".join(StreamsCompiler(self._graph).compiled().lines))

    def run(
        self, *, until_drained: bool = True, checkpoint: str | None = None,
        enough: Callable[[Result], bool] | None = None,
    ) -> Result | None:  # fmt: skip
        """Run it in this process, without Spark; not while a worker imports the module.

        Args:
            until_drained: Until all sources are at their ends, or nothing comes any more.
            checkpoint: A URI or folder where state is kept. Default: in memory.
            enough: Stop earlier, if this is true after a batch.

        Returns:
            What happened; None while the module is imported.
        """
        if is_importing():
            return None
        return running.run(
            self.build(), until_drained=until_drained, checkpoint=checkpoint, enough=enough
        )

    def test(
        self, *, clock: ManualClock | None = None, replays: bool = True, **rows: Sequence[Any]
    ) -> running.StreamsOutcome:
        """Run it in this process with these rows, and collect what comes to each sink.

        Args:
            clock: Moved by hand. Default: one that begins at 0 and goes on with each batch.
            replays: Whether a row that fails comes again.
            rows: By the name of each source: dicts, or lists of values. A field that a dict has
                not is null; a text stands for a time or another value as the source would read it.
                `fulmen.testing.PAUSE` between them ends a batch.

        Raises:
            ValidationFailed: The pipeline has mistakes, or a row is none of its source.
        """
        return running.test(self._graph, rows, replays=replays, clock=clock)
