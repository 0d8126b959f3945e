"""From the nodes of a pipeline to a topology: fusing, folding, names, and what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fulmen.api import Stream
from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.api.declarer import DEAD_LETTER_FIELDS, DEAD_LETTERS, DEFAULT_STREAM
from fulmen.errors import ValidationFailed
from fulmen.streams.bolts.async_step import AsyncStep
from fulmen.streams.bolts.fused import ERROR_FIELDS, FusedSteps
from fulmen.streams.bolts.loops import typed
from fulmen.streams.compiling import ahead, ends, transactions
from fulmen.streams.compiling.declared import check_key, declared, mistaken_options, wrong
from fulmen.streams.compiling.declared_components import DeclaredComponents
from fulmen.streams.compiling.explained import explained
from fulmen.streams.compiling.field_reads import mistaken_reads
from fulmen.streams.compiling.passed_on import with_passed_types
from fulmen.streams.graph.nodes import (
    LOCAL,
    ComponentNode,
    Config,
    FoldNode,
    Graph,
    GroupedNode,
    MergeNode,
    Node,
    SideNode,
    StepNode,
)
from fulmen.streams.rows.folding import ANY, RowSource, after, told, with_time
from fulmen.topology.builder import TopologyBuilder
from fulmen.topology.problems import Problem, did_you_mean, there_are
from fulmen.topology.resource.spec import Topology
from fulmen.topology.transactional_builder import TransactionsBuilder


@dataclass
class Compiled:
    """A topology, and what was made of each step.

    Attributes:
        topology: The model.
        lines: For people: components, steps and why they are where they are.
    """

    topology: Topology
    lines: list[str] = field(default_factory=list)


Replace = Callable[[ComponentNode, Mapping[str, Stream], Config], tuple[Any, Config] | None]
"""Gives the code and the options of a component in place of the author's; None: it stays."""


class StreamsCompiler:
    """Compiles one pipeline.

    Attributes:
        received: The fields of the rows that each component gets.
    """

    def __init__(
        self, graph: Graph, *, replace: Replace | None = None, only: ComponentNode | None = None
    ) -> None:
        """Make it.

        Args:
            graph: What the author's calls say.
            replace: Gives something else in place of a component, of which it is told the streams
                and the options.
            only: Compile only what is in front of this component.
        """
        self._graph, self._only = graph, only
        self._replace: Replace = replace or (lambda *_: None)
        self._has_transactions = transactions.has_transactions(graph)
        spec = dict(graph.spec)
        if replace is not None and self._has_transactions:
            spec["max_spout_pending"] = 1  # what collects rows keeps them in its state
        builder = TransactionsBuilder if self._has_transactions else TopologyBuilder
        self._declared = DeclaredComponents(graph, builder(graph.name, **spec))
        self._workers = int(graph.spec.get("workers", 1))
        self.received: dict[str, Sequence[str]] = {}
        self._problems: list[Problem] = []
        self._lines: list[str] = []
        self._streams: dict[Node, Mapping[str, Stream]] = {}
        self._taps: dict[Node, list[RowSource]] = {}
        self._fused: dict[StepNode, str] = {}
        self._of_use = of_use = ends.live(graph, only)
        self._uses = Counter(parent for node in of_use for parent in node.parents)
        self._wanted = {
            node.parents[0] for node in of_use
            if isinstance(node, SideNode) and node.stream == ERRORS_STREAM
        }  # fmt: skip

    def compiled(self) -> Compiled:
        """The topology.

        Raises:
            ValidationFailed: There are mistakes; it names all of them, each with its line.
        """
        of_use = self._of_use
        for node in self._graph.nodes:
            if node in of_use and (isinstance(node, ComponentNode) or ends.is_end(node)):
                self._look(node)
        topology = self._built()
        if self._only is None:
            ends.warn(self._graph, of_use | ends.with_parents(self._graph, self._graph.shown))
        return Compiled(topology, self._lines)

    def _built(self) -> Topology:
        """The topology of what was looked at. Raises what `compiled` does."""
        try:
            topology = self._declared.builder.build()
        except ValidationFailed as failed:
            known = {problem.message for problem in self._problems}
            self._problems += [
                one
                for problem in failed.problems
                if isinstance(problem, Problem) and problem.message not in known
                for one in [self._declared.with_place(problem)]
            ]
        if self._problems:
            raise ValidationFailed(self._problems)
        return topology

    def stream_of(self, node: Node) -> Stream:
        """What is known of the rows of a node.

        Raises:
            ValidationFailed: There are mistakes in front of it.
        """
        rows = self._look(node)
        if self._problems:
            raise ValidationFailed(self._problems)
        if rows and rows[0].received is ANY:  # options have mistakes
            self._built()
        return rows[0].received if rows else ANY

    # ---- where rows can be had --------------------------------------------------------------

    def _look(self, node: Node) -> list[RowSource]:
        if node not in self._taps:
            try:
                self._taps[node] = self._made(node)
            except ValidationFailed as failed:
                for problem in failed.problems:
                    if isinstance(problem, Problem):
                        message = f"{node.place}: {node.name!r}: {problem.message}"
                        self._problems.append(replace(problem, message=message))
                self._taps[node] = [RowSource(node.name, DEFAULT_STREAM, ANY, ANY)]
        return self._taps[node]

    def _rows_of(self, node: Node) -> list[RowSource]:
        """Where the rows of a node can be had: somewhere."""
        if found := self._look(node):
            return found
        raise wrong(f"{node.name!r} emits no rows", "It may have side streams, such as errors.")

    def _made(self, node: Node) -> list[RowSource]:
        for parent in node.parents:
            if parent not in self._graph.nodes:
                raise wrong(
                    f"{parent.name!r}, which it gets its rows from, was made again since",
                    "Run this cell again, too.",
                )
        match node:
            case ComponentNode():
                streams = self._component(node)
                if (streams and DEFAULT_STREAM not in streams) or node.is_sink:
                    return []  # nothing can be behind it, but for its other streams
                return [self._tap(node, streams, DEFAULT_STREAM)]
            case SideNode():
                return [self._side(node)]
            case MergeNode():
                return self._merged(node)
            case StepNode():
                return self._step(node)
            case _:
                return self._rows_of(node.parents[0])

    @staticmethod
    def _tap(node: ComponentNode, streams: Mapping[str, Stream], name: str) -> RowSource:
        stream = streams.get(name, ANY)
        return RowSource(node.name, name, stream, stream, "set_event_time" in node.says)

    def _side(self, node: SideNode) -> RowSource:
        of = node.parents[0]
        self._look(of)
        if isinstance(of, StepNode):
            if node.stream != ERRORS_STREAM:
                raise wrong(f"a step has no stream {node.stream!r}", "It has errors.")
            stream = Stream(ERROR_FIELDS, types={"step": "string", "reason": "string"})
            return RowSource(self._fused[of], ERRORS_STREAM, stream, stream)
        if not isinstance(of, ComponentNode):
            raise wrong("merged streams have no other streams", "Ask each of them.")
        streams = self._streams.get(of, {})
        if node.stream == DEAD_LETTERS:
            stream = Stream(DEAD_LETTER_FIELDS)
            return RowSource(of.name, DEAD_LETTERS, stream, stream)
        if streams and node.stream not in streams:
            cure = did_you_mean(node.stream, streams) or there_are(streams)
            raise wrong(f"{of.name!r} has no stream {node.stream!r}", cure)
        return self._tap(of, streams, node.stream)

    def _merged(self, node: MergeNode) -> list[RowSource]:
        taps = [tap for parent in node.parents for tap in self._rows_of(parent)]
        if any(tap.received is ANY for tap in taps):
            return taps
        fields = taps[0].received.fields
        for tap in taps:
            if set(tap.received.fields) != set(fields):
                raise wrong(
                    f"the streams have different fields: {list(fields)} and"
                    f" {list(tap.received.fields)}",
                    "Give them the same ones by select.",
                )
        return [
            (self._bolt_of(tap) if tap.ahead and tap.received.fields != fields else tap).ordered(
                fields
            )
            for tap in taps
        ]

    # ---- steps ------------------------------------------------------------------------------

    def _step(self, node: StepNode) -> list[RowSource]:
        """Fold expressions into the inputs behind them, and fuse the rest into one bolt."""
        chain: list[StepNode] = [node]
        while isinstance(before := chain[0].parents[0], StepNode) and self._uses[before] == 1:
            if before.is_async or node.is_async:  # a bolt of its own
                break
            chain.insert(0, before)
        taps = self._rows_of(chain[0].parents[0])
        if any(tap.received is ANY for tap in taps):
            return [replace(tap, received=ANY) for tap in taps]
        self._check(chain, taps[0].received)
        if not _regroups(chain[0]) and node not in self._wanted:
            while chain and chain[0].is_text and (folded := _folded(taps, chain[0])):
                taps = folded
                chain = chain[1:]
        if not chain:
            return taps
        if node not in self._wanted and ahead.fits(chain, taps, self._of_use):
            return [ahead.with_steps(chain, tap) for tap in taps]
        behind: list[StepNode] = []
        while chain[-1].is_text and len(chain) > 1 and node not in self._wanted:
            behind.insert(0, chain.pop())
        taps = [self._fuse(chain, taps)]
        for step in behind:
            folded = _folded(taps, step)
            taps = folded or [self._fuse([step], taps)]
        return taps

    def _bolt_of(self, tap: RowSource) -> RowSource:
        """A bolt for the steps that are ahead; without any, one that passes rows on."""
        before = tap.received if tap.before is None else tap.before
        return self._fuse(tap.ahead, [replace(tap, received=before, ahead=(), before=None)])

    def _check(self, chain: Sequence[StepNode], stream: Stream) -> None:
        """Note what is wrong with expressions, each with its line."""
        for step in chain:
            if step.is_text:
                texts = step.expressions(stream.fields)
                found = after(stream, texts)
                for name, error in found.mistakes:
                    message, cure = told(error)
                    which = f" {name}" if name else ""
                    text = f"{step.place}: {step.operator}{which} {texts[name]!r}: {message}"
                    self._problems.append(Problem("", text, cure))
                stream = found.stream
            else:
                self._problems += mistaken_reads(step, stream.fields)
                stream = typed([step], stream)

    def _fuse(self, chain: Sequence[StepNode], taps: Sequence[RowSource]) -> RowSource:
        """A bolt of its own for steps; without any, it has what the input makes of the rows."""
        is_async = any(step.is_async for step in chain)
        if is_async and self._has_transactions:
            raise wrong("a transaction waits for no async function", "Write one that is not async.")
        (taps,) = ahead.apart([taps], self._bolt_of)
        stream = ahead.behind(chain, taps[0].received)
        name = self._declared.name_of_steps(taps[0], chain)
        config = ahead.found_again(chain, self._graph.key)
        if self._has_transactions:
            config["attempt"] = transactions.ATTEMPT
        if not chain or chain[-1].operator != "for_each":
            config |= {"fields": list(stream.fields)}
            if stream.types:
                config["types"] = dict(stream.types)
        if chain and chain[-1] in self._wanted:
            config["errors"] = True
        grouped = _regroups(chain[0]) if chain else None
        grouping = grouped.grouping if grouped else LOCAL
        parallelism = (grouped and grouped.parallelism) or self._beside(taps)
        code = AsyncStep if is_async else FusedSteps
        place = chain[0].place if chain else self._declared.places[taps[0].component]
        declarer = self._declared.steps(name, code, parallelism, place).set_config(config)
        for tap in taps:
            self._declared.subscribe(declarer, tap, grouping)
        for step in chain:
            self._fused[step] = name
        self._lines += explained(name, taps, grouping, [f"{s.words}  ({s.place})" for s in chain])
        return RowSource(name, DEFAULT_STREAM, stream, stream)

    def _beside(self, taps: Sequence[RowSource]) -> int:
        """As many executors as sources; one a worker, since more would mix the order of rows."""
        return min(self._workers, max(self._parallelism.get(t.component, 1) for t in taps))

    @property
    def _parallelism(self) -> Mapping[str, int]:
        return {
            node.name: node.parallelism
            for node in self._graph.nodes
            if isinstance(node, ComponentNode)
        }

    # ---- components -------------------------------------------------------------------------

    def _component(self, node: ComponentNode) -> Mapping[str, Stream]:
        taps = [self._rows_of(parent) for parent in node.parents]
        if any(tap.received is ANY for some in taps for tap in some):
            self._problems += mistaken_options(node)
            return {}  # the other mistakes are told
        taps = ahead.apart(taps, self._bolt_of)
        for some, grouping in zip(taps, node.groupings, strict=True):
            check_key(some, grouping)
        if isinstance(node, FoldNode):
            self._problems += mistaken_reads(node, taps[0][0].received.fields)
        config = node.configure(taps)
        own, streams = self._streams_of(node, config)
        streams = with_passed_types(node, config, taps, streams)
        if node.is_on_time and DEFAULT_STREAM in streams:
            streams = {**streams, DEFAULT_STREAM: _timed(streams[DEFAULT_STREAM], taps[0])}
        self._streams[node] = streams
        code, config = self._replace(node, streams, config) or (own, config)
        if taps:
            self.received[node.name] = taps[0][0].received.fields
        declarer = self._declared.component(node, code).set_config(config)
        for method, (arguments, more) in node.says.items():
            if code is own or method == "set_event_time":
                getattr(declarer, method)(*arguments, **more)
        for some, grouping in zip(taps, node.groupings, strict=True):
            for tap in some:
                self._declared.subscribe(declarer, tap, grouping)
        notes = ["the name is derived"] if node.is_derived else []
        all_taps = [tap for some in taps for tap in some]
        grouping_shown = node.groupings[0] if node.groupings else None
        self._lines += explained(node.name, all_taps, grouping_shown, notes, node)
        return streams

    def _streams_of(self, node: ComponentNode, config: Config) -> tuple[Any, Mapping[str, Stream]]:
        """The class of a component, and its streams as functions see them."""
        self._declared.check_name(node)
        if not self._has_transactions:
            transactions.check_ordinary(node)
            return node.code, declared(node, node.code, config)
        code = transactions.code_of(node)
        return code, transactions.as_rows(node, declared(node, code, config))


def _regroups(step: StepNode) -> GroupedNode | None:
    before = step.parents[0]
    return before if isinstance(before, GroupedNode) else None


def _timed(stream: Stream, taps: Sequence[RowSource]) -> Stream:
    """With the event time of the rows in front, if they have one."""
    first = taps[0].received
    is_one = all(tap.received.time == first.time for tap in taps)
    return with_time(stream, first) if is_one else stream


def _folded(taps: Sequence[RowSource], step: StepNode) -> list[RowSource] | None:
    found = [tap.folded(step.expressions(tap.received.fields)) for tap in taps]
    return [tap for tap in found if tap is not None] if None not in found else None
