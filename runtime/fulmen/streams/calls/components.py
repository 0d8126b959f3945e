"""Steps that become components: their names, and their options as far as these follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fulmen.api.times.event_time import RETRACTION
from fulmen.errors import ValidationFailed
from fulmen.streams.bolts.folds import KeyedFold
from fulmen.streams.graph.nodes import (
    ALL_TO_ONE,
    LOCAL,
    UNSET,
    ComponentNode,
    Config,
    Division,
    FoldNode,
    Node,
    by_fields,
)
from fulmen.streams.graph.places import author
from fulmen.streams.rows.folding import RowSource
from fulmen.streams.rows.shapes import Shape
from fulmen.topology.problems import Problem
from fulmen.topology.resource.base import spelling
from fulmen.windows import (
    Aggregate,
    Deduplicate,
    IntervalJoin,
    LookupJoin,
    PersistentAggregate,
    RegularJoin,
    RunningAggregate,
    TableJoin,
    TemporalJoin,
    WindowJoin,
)
from fulmen.windows.options import FIXED

Keys = str | Sequence[str] | Mapping[str, str]
Within = str | tuple[str, str]
RowSources = Sequence[RowSource]
_SAID = ("num_tasks", "tick_seconds", "blocking", "keyed_state", "track_results")
"""Fields of a component besides its options: each is a method of its declarer."""


def source(
    graph: Any, name: str, spout: Any, parallelism: int, event_time: Any, options: Config,
    row: type | None,
) -> ComponentNode:  # fmt: skip
    """A source of rows."""
    says, config = divided(spout, options)
    if event_time is not None:
        more = {} if isinstance(event_time, str) else dict(event_time)
        field = event_time if isinstance(event_time, str) else more.pop("field", None)
        streams = more.pop("streams", None)
        says["set_event_time"] = ((streams if field is None else field,), more)
    return ComponentNode(
        graph=graph, place=author()[0], name=name, code=spout, parallelism=parallelism, says=says,
        configure=lambda _: config, is_spout=True, row=row,
    )  # fmt: skip


def bolt(
    parent: Node, name: str, code: Any, grouping: Division | None, parallelism: int,
    options: Config, *, row: type | None = None, is_sink: bool = False,
) -> ComponentNode:  # fmt: skip
    """A bolt or sink of the author's choice."""
    says, config = divided(code, options)
    return ComponentNode(
        graph=parent.graph, parents=(parent,), place=author()[0], name=name, code=code,
        parallelism=parallelism, says=says, groupings=(grouping or LOCAL,), row=row,
        configure=lambda _: config, is_sink=is_sink,
    )  # fmt: skip


def divided(code: Any, options: Config) -> tuple[dict[str, tuple[tuple[Any, ...], Config]], Config]:
    """Fields of a component, and its `config`: options have the names of the file."""
    model = getattr(code, "config_model", None)
    fields = getattr(model, "model_fields", {})
    in_file = {name: one.alias or name for name, one in fields.items()}
    says: dict[str, tuple[tuple[Any, ...], Config]] = {}
    config = {}
    for name, value in options.items():
        if name in _SAID and name not in in_file:
            says[f"set_{name}"] = ((value,), {})
        else:
            config[in_file.get(name, name)] = value
    return says, config


def windowed(
    parent: Node, key: Sequence[str], options: Config, aggregates: Mapping[str, str],
    name: str | None, parallelism: int,
) -> ComponentNode:  # fmt: skip
    """Aggregates of windows."""
    given = {spelling(word): value for word, value in options.items()}
    is_by_count = isinstance(given.get("window"), dict) and given["window"].get("type") == "count"
    needs_none = is_by_count or given.get("by") == "clock"

    def configure(taps: Sequence[RowSources]) -> Config:
        time = {} if needs_none else times_of(taps[0], given)
        return {"key": list(key), **time, **given, "aggregates": dict(aggregates)}

    says = _named(parent, key, "window", name) | {"code": Aggregate, "configure": configure}
    return _keyed(parent, key, parallelism, says)


def running(
    parent: Node, key: Sequence[str], aggregates: Mapping[str, str], name: str | None,
    parallelism: int, *, operator: str = "aggregate", retract: bool = False,
) -> ComponentNode:  # fmt: skip
    """Aggregates of all rows so far."""
    config: Config = {"key": list(key), "aggregates": dict(aggregates)}
    if retract:
        config = {**config, "retract": True}
    says = {"code": RunningAggregate, "configure": lambda _: config}
    return _keyed(parent, key, parallelism, _named(parent, key, operator, name) | says)


def persistent(
    parent: Node, key: Sequence[str], aggregates: Mapping[str, str], name: str | None,
    parallelism: int, options: Config,
) -> ComponentNode:  # fmt: skip
    """Aggregates of all transactions so far, in a store."""
    given = {spelling(word): value for word, value in options.items()}
    config = {"key": list(key), "aggregates": dict(aggregates), **given}
    says = {"code": PersistentAggregate, "configure": lambda _: config}
    return _keyed(parent, key, parallelism, _named(parent, key, "persistent", name) | says)


def update_state(
    parent: Node, key: Sequence[str], function: Callable[..., Any], initial: Any,
    fields: str | Sequence[str], name: str | None, parallelism: int,
) -> FoldNode:  # fmt: skip
    """A function of what is kept and a row."""
    names = [fields] if isinstance(fields, str) else list(fields)
    shape = Shape(names, is_one=isinstance(fields, str))
    said = {
        **_named(parent, key, "state", name), "code": KeyedFold, "function": function,
        "initial": initial, "shape": shape,
        "configure": lambda _: _fold_config(parent, key, shape.fields, {}),
    }  # fmt: skip
    return FoldNode(**_keyed_fields(parent, key, parallelism, said))


def reduce(
    parent: Node, key: Sequence[str], function: Callable[..., Any], name: str | None,
    parallelism: int,
) -> FoldNode:  # fmt: skip
    """One row of the rows of a key."""

    def configure(taps: Sequence[RowSources]) -> Config:
        stream = taps[0][0].received
        rest = [field for field in stream.fields if field not in key]
        types = {field: stream.types[field] for field in (*key, *rest) if field in stream.types}
        return _fold_config(parent, key, rest, types)

    said = {
        **_named(parent, key, "reduce", name), "code": KeyedFold, "function": function,
        "initial": UNSET, "configure": configure, "row": None,
    }  # fmt: skip
    return FoldNode(**_keyed_fields(parent, key, parallelism, said))


def _fold_config(
    parent: Node, key: Sequence[str], fields: Sequence[str], types: Mapping[str, str]
) -> Config:
    config = {"pipeline": parent.graph.key, "key": list(key), "fields": list(fields)}
    return {**config, "types": dict(types)} if types else config


def deduplicate(
    parent: Node, by: Sequence[str], within: str, name: str | None, parallelism: int,
    options: Config,
) -> ComponentNode:  # fmt: skip
    """One row of each id."""
    given = {spelling(word): value for word, value in options.items()}

    def configure(taps: Sequence[RowSources]) -> Config:
        is_by_clock = taps[0][0].received.time is None or given.get("time", "") is None
        time = {} if is_by_clock else times_of(taps[0], given, is_named=True)
        fields = list(taps[0][0].received.fields)
        return {"id": list(by), "fields": fields, "horizon": within, **time, **given}

    says = {
        "code": Deduplicate,
        "configure": configure,
        "row": parent.row,
        "is_on_time": given.get("keep", "first") == "first",
    }
    return _keyed(parent, by, parallelism, _named(parent, by, "deduplicate", name) | says)


def join(
    left: Node, right: Node, on: Keys, name: str | None, parallelism: int, options: Config, *,
    within: Within | None = None, window: Config | None = None, kind: str = "",
) -> ComponentNode:  # fmt: skip
    """One of the six joins."""
    given = {spelling(word): value for word, value in options.items()}
    pairs = on if isinstance(on, Mapping) else {n: n for n in ([on] if isinstance(on, str) else on)}
    keys = [*pairs], [*pairs.values()]
    needs_time = True
    if (within is not None) + (window is not None) + (kind == "regular") > 1:
        raise _wrong("join takes one of within, window and retract=True", "")
    if within is not None:
        cls: type = IntervalJoin
        lower, upper = ("0", within) if isinstance(within, str) else within
        given |= {"lower": lower, "upper": upper}
    elif window is not None:
        cls, given = WindowJoin, given | {"window": window}
    else:
        kinds = {"as-of": TemporalJoin, "lookup": LookupJoin, "regular": RegularJoin}
        cls = kinds.get(kind, TableJoin)
        needs_time = cls is TemporalJoin or given.get("forgetAfter") is not None
    needs_time &= given.get("by") != "clock"

    unwanted = (RETRACTION,) if cls is RegularJoin else ()

    def configure(taps: Sequence[RowSources]) -> Config:
        sides = []
        left = [f for f in taps[0][0].received.fields if f not in unwanted]
        fixed = FIXED if cls is WindowJoin else ()
        for number, (of_side, key) in enumerate(zip(taps, keys, strict=True)):
            tap = _single(of_side)
            fields = {f"{f}_left" if f in fixed else f: f for f in left}
            if number:
                fields = {
                    f"{f}_right" if f in left or f in fixed else f: f
                    for f in tap.received.fields
                    if f not in key and f not in unwanted
                }
            side = {"from": tap.component, "stream": tap.stream, "key": key, "fields": fields}
            if needs_time and not (tap.is_timed and tap.received.time is not None):
                side["time"] = times_of([tap], {}, is_named=True)["time"]
            sides.append(side)
        return {"left": sides[0], "right": sides[1], "key": keys[0], **given}

    derived = f"{origin(left)}-join-{origin(right)}"
    return ComponentNode(
        graph=left.graph, parents=(left, right), place=author()[0], name=name or derived, code=cls,
        parallelism=parallelism, configure=configure, is_derived=name is None,
        groupings=tuple(by_fields(key) for key in keys), is_on_time=cls is TemporalJoin,
    )  # fmt: skip


def table_lookup(
    parent: Node, name: str | None, code: Any, on: Keys, grouping: Division | None,
    parallelism: int, options: Config,
) -> ComponentNode:  # fmt: skip
    """Rows with columns of a table, which its own class reads."""
    says, config = divided(code, options)
    key = dict(on) if isinstance(on, Mapping) else [on] if isinstance(on, str) else list(on)

    def configure(taps: Sequence[RowSources]) -> Config:
        return {"fields": list(taps[0][0].received.fields), "key": key, **config}

    return ComponentNode(
        graph=parent.graph, parents=(parent,), place=author()[0],
        name=name or f"{origin(parent)}-lookup", is_derived=name is None, code=code,
        parallelism=parallelism, says=says, groupings=(grouping or LOCAL,), configure=configure,
        is_on_time=True,
    )  # fmt: skip


def _single(taps: RowSources) -> RowSource:
    if len(taps) > 1:
        raise _wrong("a side of a join can't be merged streams", "Join each of them.")
    return taps[0]


def times_of(taps: RowSources, given: Config, *, is_named: bool = False) -> Config:
    """The options that name the event time, if the input's component does not declare it.

    Args:
        taps: Where the rows come from.
        given: The options that the author gave.
        is_named: Whether the field must be named anyway.

    Raises:
        ValidationFailed: It is not known.
    """
    if "time" in given:
        return {}
    times = [tap.received.time for tap in taps]
    found = times[0]
    if found is None or None in times:
        raise _wrong(
            "the rows have no event time here",
            'Give it: event_time="at" of the source, or time="at" here if a map has made new rows.'
            ' For windows and joins by the clock: by="clock".',
        )
    if all(tap.is_timed for tap in taps) and not is_named:
        return {}
    more = {"unit": found.unit} if found.unit else {}
    if found.timezone != "UTC":
        more["timezone"] = found.timezone
    return {"time": found.field, **more}


def _keyed(
    parent: Node, key: Sequence[str], parallelism: int, said: Mapping[str, Any]
) -> ComponentNode:
    return ComponentNode(**_keyed_fields(parent, key, parallelism, said))


def _keyed_fields(
    parent: Node, key: Sequence[str], parallelism: int, said: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "graph": parent.graph,
        "parents": (parent,),
        "place": author()[0],
        "parallelism": parallelism,
        "groupings": (by_fields(key) if key else ALL_TO_ONE,),
        **said,
    }


def _named(parent: Node, key: Sequence[str], operator: str, name: str | None) -> dict[str, Any]:
    by_key = f"-by-{'-'.join(key)}" if key else ""
    derived = f"{origin(parent)}{by_key}-{operator}"
    return {"name": name or derived, "is_derived": name is None}


def origin(node: Node) -> str:
    """The nearest component in front of a step, which its name is derived from."""
    while not isinstance(node, ComponentNode) and node.parents:
        node = node.parents[0]
    return node.name


def _wrong(message: str, cure: str) -> ValidationFailed:
    return ValidationFailed([Problem("", message, cure)])
