"""From the nodes of a pipeline to a topology: fusing, folding, names, and what is wrong."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fulmen.api import Component, Stream, output_streams
from fulmen.api.declarer import DEAD_LETTER_FIELDS, DEAD_LETTERS, DEFAULT_STREAM, StreamTime
from fulmen.api.sinks import ERRORS_STREAM
from fulmen.errors import DeclarationError, ValidationFailed
from fulmen.streams.components import ANY, is_stable, is_window_result
from fulmen.streams.folding import WINDOW_LAST, RowSource, after, told
from fulmen.streams.fused import ERROR_FIELDS, FusedSteps
from fulmen.streams.graph import (
    LOCAL,
    AuthorLine,
    ComponentNode,
    Division,
    Graph,
    GroupedNode,
    MergeNode,
    Node,
    SideNode,
    StepNode,
    digest_of,
)
from fulmen.streams.loops import StepsLoop, typed
from fulmen.topology.builder import BoltDeclarer, TopologyBuilder
from fulmen.topology.configuration.options import check_options
from fulmen.topology.problems import Problem, did_you_mean, shown, there_are
from fulmen.topology.resource.spec import Topology


@dataclass
class Compiled:
    """A topology, and what was made of each step.

    Attributes:
        topology: The model.
        lines: For people: components, steps and why they are where they are.
    """

    topology: Topology
    lines: list[str] = field(default_factory=list)


Replace = Callable[[ComponentNode, Mapping[str, Stream]], Any]


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
            replace: Gives an object in place of a component, of which it is told the streams.
            only: Compile only what is in front of this component.
        """
        self._graph, self._only = graph, only
        self._replace: Replace = replace or (lambda *_: None)
        self._builder = TopologyBuilder(graph.name, **graph.spec)
        self._workers = int(graph.spec.get("workers", 1))
        self.received: dict[str, Sequence[str]] = {}
        self._problems: list[Problem] = []
        self._lines: list[str] = []
        self._places: dict[str, AuthorLine] = {}
        self._spouts: list[str] = []
        self._bolts: list[str] = []
        self._streams: dict[Node, Mapping[str, Stream]] = {}
        self._taps: dict[Node, list[RowSource]] = {}
        self._fused: dict[StepNode, str] = {}
        live = self._live()
        self._uses = Counter(parent for node in live for parent in node.parents)
        self._wanted = {
            node.parents[0] for node in live
            if isinstance(node, SideNode) and node.stream == ERRORS_STREAM
        }  # fmt: skip

    def compiled(self) -> Compiled:
        """The topology.

        Raises:
            ValidationFailed: There are mistakes; it names all of them, each with its line.
        """
        live = self._live()
        for node in self._graph.nodes:
            if node in live and (isinstance(node, ComponentNode) or self._is_end(node)):
                self._look(node)
        try:
            topology = self._builder.build()
        except ValidationFailed as failed:
            known = {problem.message for problem in self._problems}
            self._problems += [
                one
                for problem in failed.problems
                if isinstance(problem, Problem) and problem.message not in known
                for one in [self._with_place(problem)]
            ]
        if self._problems:
            raise ValidationFailed(self._problems)
        if self._only is None:
            self._warn(live | self._with_parents(self._graph.shown))
        return Compiled(topology, self._lines)

    # ---- which nodes matter -----------------------------------------------------------------

    def _live(self) -> set[Node]:
        """Components, what ends in a function, and all that is in front of them."""
        nodes = self._graph.nodes
        ends = [n for n in nodes if isinstance(n, ComponentNode) or self._is_end(n)]
        return self._with_parents([self._only] if self._only else ends)

    def _with_parents(self, ends: Iterable[Node]) -> set[Node]:
        found = set(ends)
        for node in reversed(self._graph.nodes):
            if node in found:
                found |= set(node.parents)
        return found

    def _is_end(self, node: Node) -> bool:
        return isinstance(node, StepNode) and node.operator == "for_each"

    def _warn(self, live: set[Node]) -> None:
        for node in self._graph.nodes:
            text = ""
            if node not in live:
                text = f"nothing is behind {node.name!r}: no sink gets its rows"
            elif isinstance(node, ComponentNode) and node.is_derived and not is_stable(node):
                text = (
                    f"{node.name!r} has a name that follows from a derived one or from a merge, so"
                    f" other steps may change it, and its state would stay behind. Give"
                    f" name={node.name!r}"
                )
            if text:
                warnings.warn_explicit(text, UserWarning, node.place.file, node.place.line)

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
        raise _wrong(f"{node.name!r} emits no rows", "It may have side streams, such as errors.")

    def _made(self, node: Node) -> list[RowSource]:
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
                raise _wrong(f"a step has no stream {node.stream!r}", "It has errors.")
            stream = Stream(ERROR_FIELDS, types={"step": "string", "reason": "string"})
            return RowSource(self._fused[of], ERRORS_STREAM, stream, stream)
        if not isinstance(of, ComponentNode):
            raise _wrong("merged streams have no other streams", "Ask each of them.")
        streams = self._streams.get(of, {})
        if node.stream == DEAD_LETTERS:
            stream = Stream(DEAD_LETTER_FIELDS)
            return RowSource(of.name, DEAD_LETTERS, stream, stream)
        if streams and node.stream not in streams:
            cure = did_you_mean(node.stream, streams) or there_are(streams)
            raise _wrong(f"{of.name!r} has no stream {node.stream!r}", cure)
        return self._tap(of, streams, node.stream)

    def _merged(self, node: MergeNode) -> list[RowSource]:
        taps = [tap for parent in node.parents for tap in self._rows_of(parent)]
        if any(tap.received is ANY for tap in taps):
            return taps
        fields = taps[0].received.fields
        for tap in taps:
            if set(tap.received.fields) != set(fields):
                raise _wrong(
                    f"the streams have different fields: {list(fields)} and"
                    f" {list(tap.received.fields)}",
                    "Give them the same ones by select.",
                )
        return [tap.ordered(fields) for tap in taps]

    # ---- steps ------------------------------------------------------------------------------

    def _step(self, node: StepNode) -> list[RowSource]:
        """Fold expressions into the inputs behind them, and fuse the rest into one bolt."""
        chain: list[StepNode] = [node]
        while isinstance(before := chain[0].parents[0], StepNode) and self._uses[before] == 1:
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
        behind: list[StepNode] = []
        while chain[-1].is_text and len(chain) > 1 and node not in self._wanted:
            behind.insert(0, chain.pop())
        taps = [self._fuse(chain, taps)]
        for step in behind:
            folded = _folded(taps, step)
            taps = folded or [self._fuse([step], taps)]
        return taps

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
                stream = typed([step], stream)

    def _fuse(self, chain: Sequence[StepNode], taps: Sequence[RowSource]) -> RowSource:
        """A bolt of its own for steps."""
        graph, first, last = self._graph, chain[0], chain[-1]
        stream = taps[0].received
        try:
            StepsLoop(chain, stream)
        except ValueError as error:  # a class whose fields the rows have not
            raise _wrong(str(error), "") from error
        for step in chain:
            stream = _after(step, stream)
        name = self._name(taps[0].component, chain)
        config: dict[str, Any] = {
            "pipeline": graph.key,
            "steps": [step.name for step in chain],
            "digest": digest_of(chain),
        }
        if last.operator != "for_each":
            config |= {"fields": list(stream.fields)}
            if stream.types:
                config["types"] = dict(stream.types)
        if last in self._wanted:
            config["errors"] = True
        grouped = _regroups(first)
        grouping = grouped.grouping if grouped else LOCAL
        parallelism = (grouped and grouped.parallelism) or self._beside(taps)
        declarer = self._builder.set_bolt(name, FusedSteps, parallelism).set_config(config)
        self._bolts.append(name)
        self._places[name] = first.place
        for tap in taps:
            _subscribe(declarer, tap, grouping)
        for step in chain:
            self._fused[step] = name
        self._explain(name, taps, grouping, [f"{s.words}  ({s.place})" for s in chain])
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

    def _name(self, component: str, chain: Sequence[StepNode]) -> str:
        name = "-".join([component, *dict.fromkeys(s.operator.replace("_", "-") for s in chain)])
        name, taken = name[:60], {node.name for node in self._graph.nodes} | {*self._bolts}
        numbered = (f"{name}-{n}" for n in range(2, 1000))
        return name if name not in taken else next(n for n in numbered if n not in taken)

    # ---- components -------------------------------------------------------------------------

    def _component(self, node: ComponentNode) -> Mapping[str, Stream]:
        taps = [self._rows_of(parent) for parent in node.parents]
        if any(tap.received is ANY for some in taps for tap in some):
            return {}  # whose mistakes are told
        for some, grouping in zip(taps, node.groupings, strict=True):
            self._check_key(some, grouping)
        kind = "spout" if node.is_spout else "bolt"
        config = node.configure(taps)
        self._streams[node] = streams = self._declared(node, config, kind)
        other = self._replace(node, streams)
        code = node.code if other is None else other
        if taps:
            self.received[node.name] = taps[0][0].received.fields
        if node.is_spout:
            declarer: Any = self._builder.set_spout(node.name, code, node.parallelism)
            self._spouts.append(node.name)
        else:
            declarer = self._builder.set_bolt(node.name, code, node.parallelism)
            self._bolts.append(node.name)
        self._places[node.name] = node.place
        if code is node.code and config:
            declarer.set_config(config)
        for method, (arguments, more) in node.says.items():
            if code is node.code or method == "set_event_time":
                getattr(declarer, method)(*arguments, **more)
        for some, grouping in zip(taps, node.groupings, strict=True):
            for tap in some:
                _subscribe(declarer, tap, grouping)
        notes = ["the name is derived"] if node.is_derived else []
        self._explain(
            node.name,
            [t for some in taps for t in some],
            node.groupings[0] if node.groupings else None,
            notes,
            node,
        )
        return streams

    def _declared(
        self, node: ComponentNode, config: Mapping[str, Any], kind: str
    ) -> Mapping[str, Stream]:
        """The streams of a component, with their event times."""
        if node.name in self._places:
            cure = "Give name= to one of them." if node.is_derived else "Choose another."
            raise _wrong(f"the name is taken, at {self._places[node.name]}", cure)
        if not issubclass(node.cls, Component):
            raise _wrong(f"{shown(node.code)} is no {kind}", "Give its class, or an object of it.")
        options = check_options(node.cls, config, "", f"{kind} {node.name!r}")
        if options.problems and options.options is None and node.cls.config_model is not None:
            return {}
        try:
            streams = output_streams(node.code, options.options)
        except DeclarationError as error:
            raise _wrong(str(error), "") from error
        if "set_event_time" in node.says:
            (field_,), more = node.says["set_event_time"]
            times = (
                field_ if isinstance(field_, Mapping) else {more.get("stream", "default"): field_}
            )
            for name, one in times.items():
                if name in streams:
                    time = StreamTime(one, more.get("unit"), more.get("timezone", "UTC"))
                    streams[name] = replace(streams[name], time=time)
        elif is_window_result(node.code):
            streams["default"] = replace(streams["default"], time=StreamTime(WINDOW_LAST))
        return streams

    @staticmethod
    def _check_key(taps: Sequence[RowSource], grouping: Division) -> None:
        for tap in taps:
            for name in () if grouping.is_kept else grouping.fields:
                if name not in tap.received.fields:
                    cure = did_you_mean(name, tap.received.fields) or there_are(tap.received.fields)
                    raise _wrong(f"the rows have no field {name!r}", cure)

    # ---- for people -------------------------------------------------------------------------

    def _with_place(self, problem: Problem) -> Problem:
        """With the line of the component that a problem is about."""
        for section, names in (("spouts", self._spouts), ("bolts", self._bolts)):
            for number, name in enumerate(names):
                if problem.path.startswith(f"spec.{section}[{number}]"):
                    message = f"{self._places[name]}: {problem.message}"
                    return replace(problem, message=message)
        return problem

    def _explain(
        self, name: str, taps: Sequence[RowSource], grouping: Division | None, steps: Sequence[str],
        node: ComponentNode | None = None,
    ) -> None:  # fmt: skip
        what = f"  {node.cls.__name__}  ({node.place})" if node else "  fused"
        self._lines.append(f"{name}{what}")
        for tap in taps:
            stream = "" if tap.stream == DEFAULT_STREAM else f":{tap.stream}"
            how = grouping.method.removesuffix("_grouping").replace("_", "-") if grouping else ""
            of = f" {', '.join(grouping.fields)}" if grouping and grouping.fields else ""
            where = f" where {tap.where}" if tap.where else ""
            select = f" select {', '.join(tap.select)}" if tap.select else ""
            self._lines.append(f"  from {tap.component}{stream} by {how}{of}{where}{select}")
        self._lines += [f"  {step}" for step in steps]


def _regroups(step: StepNode) -> GroupedNode | None:
    before = step.parents[0]
    return before if isinstance(before, GroupedNode) else None


def _folded(taps: Sequence[RowSource], step: StepNode) -> list[RowSource] | None:
    found = [tap.folded(step.expressions(tap.received.fields)) for tap in taps]
    return [tap for tap in found if tap is not None] if None not in found else None


def _after(step: StepNode, stream: Stream) -> Stream:
    if step.is_text:
        return after(stream, step.expressions(stream.fields)).stream
    return typed([step], stream)


def _subscribe(declarer: BoltDeclarer, tap: RowSource, grouping: Division) -> None:
    if grouping.is_kept and not {*grouping.fields} <= {*tap.received.fields}:
        grouping = LOCAL
    fields = [list(grouping.fields)] if grouping.fields else []
    getattr(declarer, grouping.method)(tap.component, *fields, stream=tap.stream)
    if tap.where is not None:
        declarer.where(tap.where)
    if tap.select is not None:
        declarer.select(tap.select)


def _wrong(message: str, cure: str) -> ValidationFailed:
    return ValidationFailed([Problem("", message, cure)])
