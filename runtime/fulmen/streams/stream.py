"""Streams of rows, and what can be done to them: the calls of an author."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, TypeVarTuple, overload

from fulmen.api.components.sinks import ERRORS_STREAM
from fulmen.errors import ValidationFailed
from fulmen.streams import running
from fulmen.streams.calls import co_groups, components, steps
from fulmen.streams.calls.components import Keys, Within
from fulmen.streams.calls.steps import Fields
from fulmen.streams.calls.words import (
    KEYED_WORDS,
    WINDOWED_WORDS,
    Branches,
    checked,
    is_first,
    refusal,
    unknown_word,
)
from fulmen.streams.compiling.compiler import StreamsCompiler
from fulmen.streams.graph.nodes import (
    ALL_TO_ONE,
    Config,
    Division,
    Node,
    by_fields,
)
from fulmen.streams.rows.folding import quoted

T = TypeVar("T")
U = TypeVar("U")
More = TypeVarTuple("More")


class DataStream(Generic[T]):
    """Rows that functions get as `T`. Each call gives another stream; none changes this one."""

    def __init__(self, node: Node, grouping: Division | None = None) -> None:
        self.node, self.grouping = node, grouping

    def filter(
        self, function: Callable[[T, *More], object], *args: *More, name: str | None = None
    ) -> DataStream[T]:
        """Take the rows for which a function is true: `function(row, *args)`."""
        return DataStream(steps.of_function(self.node, "filter", function, args, name), self._kept)

    @overload
    def map(
        self, function: Callable[[T, *More], Awaitable[U]], *args: *More,
        name: str | None = None,
    ) -> DataStream[U]: ...  # fmt: skip
    @overload
    def map(
        self, function: Callable[[T, *More], U], *args: *More, name: str | None = None
    ) -> DataStream[U]: ...
    @overload
    def map(
        self, function: Callable[[T, *More], Any], *args: *More, fields: Fields,
        name: str | None = None,
    ) -> DataStream[Any]: ...  # fmt: skip
    def map(  # type: ignore[misc]  # mypy takes Any for no number of arguments
        self, function: Callable[..., Any], *args: Any, fields: Fields | None = None,
        name: str | None = None,
    ) -> DataStream[Any]:  # fmt: skip
        """Make another row of each: `function(row, *args)`.

        Args:
            function: What it returns: an object of the class of its annotation (NamedTuple,
                dataclass, TypedDict); or with `fields`, a list, tuple or dict.
            args: What it gets besides.
            fields: The new fields. One text: the result is the value of that field.
            name: The name of the step, for people.
        """
        return DataStream(steps.of_results(self.node, "map", function, args, fields, name))

    @overload
    def flat_map(
        self, function: Callable[[T, *More], Awaitable[Iterable[U]]], *args: *More,
        name: str | None = None,
    ) -> DataStream[U]: ...  # fmt: skip
    @overload
    def flat_map(
        self, function: Callable[[T, *More], Iterable[U]], *args: *More, name: str | None = None
    ) -> DataStream[U]: ...
    @overload
    def flat_map(
        self, function: Callable[[T, *More], Any], *args: *More, fields: Fields,
        name: str | None = None,
    ) -> DataStream[Any]: ...  # fmt: skip
    def flat_map(  # type: ignore[misc]  # mypy takes Any for no number of arguments
        self, function: Callable[..., Any], *args: Any, fields: Fields | None = None,
        name: str | None = None,
    ) -> DataStream[Any]:  # fmt: skip
        """Make any number of rows of each. What a generator gives before it raises is dropped."""
        return DataStream(steps.of_results(self.node, "flat_map", function, args, fields, name))

    def peek(
        self, function: Callable[[T, *More], object], *args: *More, name: str | None = None
    ) -> DataStream[T]:
        """Call a function with each row, and pass the row on."""
        return DataStream(steps.of_function(self.node, "peek", function, args, name), self._kept)

    def for_each(
        self, function: Callable[[T, *More], object], *args: *More, name: str | None = None
    ) -> None:
        """Call a function with each row: Storm's forEach. Nothing is behind it."""
        steps.of_function(self.node, "for_each", function, args, name)

    def where(self, condition: str, *, name: str | None = None) -> DataStream[T]:
        """Take the rows for which an expression of SQL is true, such as `price > 100`."""
        node = steps.of_texts(self.node, "where", {"": condition}, name, self.node.row)
        return DataStream(node, self._kept)

    def select(
        self, *fields: str, row: type[Any] | str | None = None, **more: str
    ) -> DataStream[Any]:
        """Keep some fields, and add others by expressions: `select("user", euros="price * 0.9")`.

        Args:
            fields: Those that stay as they are.
            row: The class of what functions get behind it; a text: the expression of a field `row`.
            more: The name of each new field, and its expression.
        """
        texts = {name: quoted(name) for name in fields} | more
        of = row if isinstance(row, type) else None
        if isinstance(row, str):
            texts["row"] = row
        return DataStream(steps.of_texts(self.node, "select", texts, None, of), self._kept)

    def with_fields(
        self,
        *,
        row: type[Any] | str | Callable[[T], Any] | None = None,
        **more: str | Callable[[T], Any],
    ) -> DataStream[Any]:
        """Add fields, or replace some: each by an expression of SQL, or by a function of the row.

        All of one call see the row as it was before. `row` is the class of what functions get
        behind it, and else a field as any other.
        """
        if row is None or isinstance(row, type):
            return DataStream(steps.with_fields(self.node, more, row), self._kept)
        return DataStream(steps.with_fields(self.node, {**more, "row": row}, None), self._kept)

    def branch(self, **conditions: str | Callable[[T], object]) -> Branches[DataStream[T]]:
        """Divide rows among streams: each goes to the first whose condition is true.

        `parts = s.branch(big="amount > 100", odd=is_odd)` gives `parts.big`, `parts.odd` and
        `parts.rest`, which has what matches none.
        """
        texts = [given for given in conditions.values() if isinstance(given, str)]
        if texts and len(texts) < len(conditions):
            raise refusal("branch takes texts or functions, not both", "Write all in one way.")
        if "rest" in conditions:
            raise refusal("rest is what no branch takes", "Choose another name for that branch.")
        names = [*conditions, "rest"]
        nots = [f"({text}) is not true" for text in texts]
        tests = [] if texts else [checked("branch", given) for given in conditions.values()]

        def made(number: int) -> DataStream[T]:
            if not texts:
                return self.filter(is_first(tests, number))
            wanted = [*nots[:number], *texts[number : number + 1]]
            return self.where(" and ".join(f"({text})" for text in wanted))

        return Branches(names, made)

    def merge(self, *others: DataStream[Any]) -> DataStream[T]:
        """The rows of this stream and of others that have the same fields."""
        return DataStream(steps.merged([self.node, *(other.node for other in others)]))

    def pipe(self, function: Callable[..., U], *args: Any) -> U:
        """`function(stream, *args)`: steps of several pipelines as one function of streams."""
        return function(self, *args)

    def key_by(self, *key: str) -> KeyedStream[T]:
        """Have rows with equal values of these fields together, in their order."""
        return KeyedStream(self, key)

    def window(self, window: Config, **options: Any) -> WindowedStream:
        """Group all rows by time, whatever their keys: one task has them. Flink's windowAll.

        Args:
            window: From `tumbling`, `sliding`, `session`, `calendar` or `counting`.
            options: As of `Aggregate`: by="clock", time="at", allowed_lateness="1h".
        """
        return WindowedStream(self, None, {"window": window, **options})

    def repartition(self, parallelism: int) -> DataStream[T]:
        """Divide rows evenly, and run the next steps with so many executors."""
        return self._grouped(Division("shuffle_grouping"), parallelism)

    def shuffle(self) -> DataStream[T]:
        """Divide rows evenly among the tasks of the next step."""
        return self._grouped(Division("shuffle_grouping"))

    def broadcast(self) -> DataStream[T]:
        """Send each row to all tasks of the next step."""
        return self._grouped(Division("all_grouping"))

    def to_one(self) -> DataStream[T]:
        """Send all rows to one task of the next step: Trident's global."""
        return self._grouped(ALL_TO_ONE)

    def _grouped(self, grouping: Division, parallelism: int | None = None) -> DataStream[T]:
        return DataStream(steps.grouped(self.node, grouping, parallelism), grouping)

    def sink(
        self, name: str, sink: Any, *, parallelism: int = 1, config: Config | None = None,
        **options: Any,
    ) -> DataStream[Any]:  # fmt: skip
        """Write the rows.

        Args:
            name: Its name in the topology: an exactly-once sink is known by it.
            sink: A class of a sink, or an object of one.
            parallelism: The number of executors.
            config: Options whose names are no names of Python.
            options: Its options, and fields of the component such as `num_tasks`.
        """
        node = components.bolt(
            self.node, name, sink, self.grouping, parallelism, {**(config or {}), **options},
            is_sink=True,
        )  # fmt: skip
        return DataStream(node)

    def process(
        self, bolt: Any, *, name: str, parallelism: int = 1, row: type[Any] | None = None,
        config: Config | None = None, **options: Any,
    ) -> DataStream[Any]:  # fmt: skip
        """Have any bolt in the middle: a class, or an object of one."""
        node = components.bolt(
            self.node, name, bolt, self.grouping, parallelism, {**(config or {}), **options},
            row=row,
        )  # fmt: skip
        return DataStream(node)

    def deduplicate(
        self, *by: str, within: str, name: str | None = None, parallelism: int = 1, **options: Any
    ) -> DataStream[T]:
        """Pass on the first row of each value of some fields, as long as they are close."""
        node = components.deduplicate(self.node, by, within, name, parallelism, options)
        return DataStream(node, by_fields(by, is_kept=True))

    def join(
        self, other: DataStream[Any], on: Keys, *, within: Within | None = None,
        window: Config | None = None, retract: bool = False, how: str = "inner",
        name: str | None = None, parallelism: int = 1, **options: Any,
    ) -> DataStream[Any]:  # fmt: skip
        """Find rows of two streams that belong together.

        Args:
            other: The right stream.
            on: The field that is equal, several, or a mapping of left to right fields.
            within: How much later the right row may be: "10m", or ("-5m", "10m").
            window: Rows of the same window belong together. Without both: all rows, the newest of
                each key and side, emitted again whenever one of them changes.
            retract: All rows of a key belong together, for good or for forget_after="7d"; rows
                have is_retraction, which says that an earlier one is taken back.
            how: inner, left, right, full, semi or anti; of the newest rows neither of these two.
            name: Default: the names of both, with `join` between.
            parallelism: The number of executors.
            options: Other options, such as allowed_lateness="1h", and where="price < price_right".
        """
        given = {"type": how, **options}
        node = components.join(
            self.node, other.node, on, name, parallelism, given, within=within, window=window,
            kind="regular" if retract else "",
        )  # fmt: skip
        return DataStream(node)

    def co_group(
        self, other: DataStream[Any], on: Keys, *, window: Config, name: str | None = None,
        parallelism: int = 1, **options: Any,
    ) -> DataStream[Any]:  # fmt: skip
        """Group the rows of two streams: Storm's coGroupByKey.

        What comes out of each key and window of at least one row: the key, `window_start`,
        `window_end`, and `left` and `right`, the lists of the rows as dicts, by their times.

        Args:
            other: The right stream.
            on: As of `join`.
            window: From `tumbling`, `sliding`, `session` or `calendar`.
            name: The name that windows are kept under.
            parallelism: The number of executors.
            options: As of `window`: time="at" is a field of both streams.
        """
        node = co_groups.co_group(self.node, other.node, on, window, name, parallelism, options)
        return DataStream(node)

    def join_as_of(
        self, table: DataStream[Any], on: Keys, *, how: str = "inner", name: str | None = None,
        parallelism: int = 1, **options: Any,
    ) -> DataStream[Any]:  # fmt: skip
        """Find the row of a table that was valid at the time of each row."""
        given = {"type": how, **options}
        node = components.join(self.node, table.node, on, name, parallelism, given, kind="as-of")
        return DataStream(node)

    def lookup(
        self, table: DataStream[Any], on: Keys, *, how: str = "inner", name: str | None = None,
        parallelism: int = 1, **options: Any,
    ) -> DataStream[Any]:  # fmt: skip
        """Find the row of a table that is there now."""
        given = {"type": how, **options}
        node = components.join(self.node, table.node, on, name, parallelism, given, kind="lookup")
        return DataStream(node)

    def lookup_in(
        self, table: type[Any], on: Keys, *, how: str = "left", name: str | None = None,
        parallelism: int = 1, config: Config | None = None, **options: Any,
    ) -> DataStream[Any]:  # fmt: skip
        """Find the rows of a table in a file or database, and add their columns.

        Args:
            table: `FileLookup`, `SqliteLookup` or `PostgresLookup`, or a class derived from one.
            on: The field that equals a column, several, or a mapping of fields to columns.
            how: left, inner, semi or anti.
            name: Default: the name of the stream, with `lookup` behind it.
            parallelism: The number of executors.
            config: Options whose names are no names of Python.
            options: Other options of the lookup, such as path and format.
        """
        given = {"type": how, **(config or {}), **options}
        node = components.table_lookup(
            self.node, name, table, on, self.grouping, parallelism, given
        )  # fmt: skip
        return DataStream(node, self._kept)

    def side(self, stream: str) -> DataStream[Any]:
        """Another stream of this component."""
        return DataStream(steps.side(self.node, stream))

    @property
    def errors(self) -> DataStream[Any]:
        """What could not be read, written or computed. Behind steps: step, values, reason."""
        return self.side(ERRORS_STREAM)

    @property
    def late(self) -> DataStream[Any]:
        """What came too late for its window or join."""
        return self.side("late")

    @property
    def dead_letters(self) -> DataStream[Any]:
        """What has failed more than `max_replays` times."""
        return self.side("__dead_letters")

    @property
    def fields(self) -> Mapping[str, str]:
        """The fields of the rows, and the type of each; an empty text if that is not known.

        Raises:
            ValidationFailed: There are mistakes in front of this stream.
        """
        stream = StreamsCompiler(self.node.graph).stream_of(self.node)
        return {name: stream.types.get(name, "") for name in stream.fields}

    def take(self, count: int = 20) -> list[dict[str, Any]]:
        """Run what is in front of this stream in this process, and give its first rows.

        A row that fails does not come again: what went wrong is told on stderr.

        Returns:
            So many rows, or fewer; none while the module is imported: then nothing runs.
        """
        return running.take(self.node, count)

    def show(self, count: int = 20) -> None:
        """Print the rows that `take` gives, as a table."""
        running.show(self.node, count)

    def __repr__(self) -> str:
        try:
            fields = [f"{name} {kind}".rstrip() for name, kind in self.fields.items()]
        except ValidationFailed as failed:
            fields = [str(failed)]
        return f"<stream {self.node.name!r}: {', '.join(fields)}>"

    def __getitem__(self, name: object) -> NoReturn:
        raise TypeError(
            "a stream has no columns. Write select('a', 'b') for some of its fields,"
            " where('a > 0') for some of its rows, and with_fields(c='a + b') for a new field."
        )

    if not TYPE_CHECKING:  # so that mypy finds words that are wrong

        def __getattr__(self, word: str) -> Any:
            names = () if word.startswith("_") else self._names()  # a notebook asks for many
            raise unknown_word("a stream", word, type(self), names)

    def _names(self) -> Iterable[str]:
        """Of the fields, as far as they are known."""
        try:
            return self.fields
        except ValidationFailed:
            return ()

    @property
    def _kept(self) -> Division | None:
        """The grouping behind a step: rows that were divided are not divided once more."""
        return self.grouping if self.grouping and self.grouping.is_kept else None


class KeyedStream(Generic[T]):
    """Rows by key: what is kept for each of them."""

    def __init__(self, stream: DataStream[T], key: Sequence[str]) -> None:
        if not key or not all(isinstance(name, str) for name in key):
            raise refusal(
                "key_by takes names of fields", 'Write key_by("user"): make a field first.'
            )
        self.stream, self.key = stream, tuple(key)
        self.grouping = by_fields(key, is_kept=True)

    def window(self, window: Config, **options: Any) -> WindowedStream:
        """Group rows of each key by time: `tumbling("10m")`.

        Args:
            window: From `tumbling`, `sliding`, `session`, `calendar` or `counting`.
            options: As of `Aggregate`: by="clock", time="at", allowed_lateness="1h".
        """
        return WindowedStream(self.stream, self, {"window": window, **options})

    def aggregate(
        self, *, name: str | None = None, parallelism: int = 1, retract: bool = False,
        **aggregates: str,
    ) -> DataStream[Any]:  # fmt: skip
        """Aggregates of all rows of a key so far: a row for each that comes.

        Args:
            name: The name that totals are kept under.
            parallelism: The number of executors.
            retract: The row before is taken back first: rows have `is_retraction`.
            aggregates: The name of each result: n=agg.count(), euros=agg.sum("euros").
        """
        given = self.stream.node, self.key, aggregates, name, parallelism
        return DataStream(components.running(*given, retract=retract), self.grouping)

    def count(self, *, name: str | None = None, parallelism: int = 1) -> DataStream[Any]:
        """How many rows of each key there were, in the field `count`: Storm's countByKey."""
        given = self.stream.node, self.key, {"count": "count"}, name, parallelism
        return DataStream(components.running(*given, operator="count"), self.grouping)

    def persistent_aggregate(
        self, store: str, at: str, map: str, *, name: str | None = None, parallelism: int = 1,
        config: Config | None = None, **aggregates: str,
    ) -> DataStream[Any]:  # fmt: skip
        """Add what each transaction has for a key to a map in a store, exactly once: Trident's.

        What comes out are the new values of the keys of each transaction.

        Args:
            store: sqlite, postgres or redis.
            at: The file of SQLite, the DSN of PostgreSQL, or the URL of Redis.
            map: The name of the map: a table, or a hash of Redis.
            name: The name of the bolt, by which the map knows it.
            parallelism: The number of executors.
            config: Other options of `PersistentAggregate`: {"rule": "opaque"}.
            aggregates: The name of each result, of count, sum, min and max: n=agg.count().
        """
        more = {"store": store, "at": at, "map": map, **(config or {})}
        of = self.stream.node
        node = components.persistent(of, self.key, aggregates, name, parallelism, more)
        return DataStream(node, self.grouping)

    def reduce(
        self, function: Callable[[T, T], T], *, name: str | None = None, parallelism: int = 1
    ) -> DataStream[T]:
        """Make one row of the rows of a key: `function(so_far, row)`. Storm's reduceByKey."""
        checked("reduce", function)
        node = components.reduce(self.stream.node, self.key, function, name, parallelism)
        return DataStream(node, self.grouping)

    def update_state(
        self, function: Callable[[Any, T], Any], initial: Any = None, *, fields: Fields = "value",
        name: str | None = None, parallelism: int = 1,
    ) -> DataStream[Any]:  # fmt: skip
        """Keep something for each key: Storm's updateStateByKey.

        Args:
            function: Of what is kept and a row; returns what is kept from then on, which is emitted
                behind the key. None: the key is forgotten.
            initial: What is kept of a new key. Each gets a copy.
            fields: The names of what is emitted behind the key.
            name: The name that the state is kept under.
            parallelism: The number of executors.
        """
        checked("update_state", function)
        kept = initial, fields, name, parallelism
        node = components.update_state(self.stream.node, self.key, function, *kept)
        return DataStream(node, self.grouping)

    def process(
        self, bolt: Any, *, name: str, parallelism: int = 1, row: type[Any] | None = None,
        config: Config | None = None, **options: Any,
    ) -> DataStream[Any]:  # fmt: skip
        """Have any bolt in the middle, grouped by the key."""
        keyed: DataStream[T] = DataStream(self.stream.node, by_fields(self.key))
        more = {"row": row, "config": config, **options}
        return keyed.process(bolt, name=name, parallelism=parallelism, **more)

    if not TYPE_CHECKING:

        def __getattr__(self, word: str) -> Any:
            raise unknown_word("rows by key", word, type(self), (), KEYED_WORDS)


class WindowedStream:
    """Rows by window, and perhaps by key."""

    def __init__(
        self, stream: DataStream[Any], keyed: KeyedStream[Any] | None, options: Config
    ) -> None:
        """`keyed`: its rows by key; None: windows are of all of them."""
        self._stream, self._keyed, self._options = stream, keyed, options

    if not TYPE_CHECKING:

        def __getattr__(self, word: str) -> Any:
            raise unknown_word("a window", word, type(self), (), WINDOWED_WORDS)

    def aggregate(
        self, *, name: str | None = None, parallelism: int = 1, **aggregates: str
    ) -> DataStream[Any]:
        """Aggregates of each window, with any key, `window_start` and `window_end`.

        Args:
            name: The name that windows are kept under.
            parallelism: The number of executors. Without a key there is one.
            aggregates: The name of each result: n=agg.count(), euros=agg.sum("euros").
        """
        keyed, more = self._keyed, (self._options, aggregates, name, parallelism)
        if keyed is not None:
            node = components.windowed(self._stream.node, keyed.key, *more)
            return DataStream(node, keyed.grouping)
        if parallelism != 1:
            raise refusal(
                f"windows of all rows are of one task, and parallelism is {parallelism}",
                "Leave it out, or have key_by in front.",
            )
        return DataStream(components.windowed(self._stream.node, (), *more))

    def count(self, *, name: str | None = None, parallelism: int = 1) -> DataStream[Any]:
        """How many rows there are in each window, of each key if there is one, as `count`."""
        return self.aggregate(name=name, parallelism=parallelism, count="count")
