"""What calls of streams have in common: words, functions, and what is refused at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from fulmen.errors import ValidationFailed
from fulmen.streams.graph.places import author
from fulmen.topology.problems import Problem, did_you_mean, there_are

S = TypeVar("S")

OTHER_WORDS = {
    "assign": "with_fields", "with_column": "with_fields", "withColumn": "with_fields",
    "each": "with_fields", "mapValues": "with_fields", "apply": "map", "project": "select",
    "drop": "select", "flatMap": "flat_map", "explode": "flat_map", "expand": "flat_map",
    "groupBy": "key_by", "group_by": "key_by", "groupby": "key_by", "mapToPair": "key_by",
    "key_on": "key_by", "keyBy": "key_by", "partitionBy": "key_by", "concat": "merge",
    "union": "merge", "split": "branch", "inspect": "peek", "print": "peek(print)",
    "forEach": "for_each", "to": "sink", "writeStream": "sink", "output": "sink",
    "partitionPersist": "sink", "applyAssembly": "pipe", "transform": "pipe",
    "compose": "process", "dropDuplicates": "deduplicate", "drop_duplicates": "deduplicate",
    "head": "take", "collect": "take", "columns": "fields", "dtypes": "fields",
    "printSchema": "fields", "stateQuery": "lookup", "join_lookup": "lookup",
    "join_asof": "join_as_of",
    "updateStateByKey": "update_state", "coGroupByKey": "co_group", "cogroup": "co_group",
    "stateful_map": "update_state", "reduceByKey": "reduce", "countByKey": "count",
    "persistentAggregate": "persistent_aggregate", "windowedBy": "window",
}  # fmt: skip
"""Words of Storm's Streams API, Trident, Kafka Streams, Bytewax, Quix, Spark and pandas."""

_AGGREGATED = {
    word: f"aggregate({of})"
    for word, of in {
        "sum": 'total=agg.sum("amount")', "mean": 'mean=agg.mean("amount")',
        "avg": 'mean=agg.mean("amount")', "min": 'least=agg.min("amount")',
        "max": 'most=agg.max("amount")', "size": "n=agg.count()", "agg": "n=agg.count()",
        "nunique": 'users=agg.distinct("user")', "apply": "n=agg.count()",
    }.items()
}  # fmt: skip
_BEFORE = ("filter", "map", "flat_map", "where", "select", "with_fields", "branch", "peek")
KEYED_WORDS = {
    **OTHER_WORDS, **_AGGREGATED, **{word: f"{word} in front of key_by" for word in _BEFORE},
    "rolling": 'window(counting(10, every=1)) or window(sliding("1h", "10m"))',
    "resample": 'window(tumbling("1h"))', "tumbling": 'window(tumbling("1h"))',
    "sink": "count(), aggregate, reduce or update_state, and sink behind it",
    "join": 'join(other, on="user") in front of key_by',
}  # fmt: skip
"""What is meant by words that rows by key have not."""
WINDOWED_WORDS = {
    **KEYED_WORDS, "reduce": "aggregate(rows=agg.list(...)), and map behind it",
    "sink": "aggregate(n=agg.count()), and sink behind it",
}  # fmt: skip
"""The same of windows."""


def unknown_word(
    what: str, word: str, cls: type, fields: Iterable[str],
    others: Mapping[str, str] = OTHER_WORDS,
) -> AttributeError:  # fmt: skip
    """The error of an attribute that there is not, with what to write."""
    words = [name for name in dir(cls) if not name.startswith("_")]
    verb = "have" if what.startswith("rows") else "has"
    if word in fields:
        cure = f": it is a field of its rows. Write where('{word} > 0') or lambda row: row.{word}"
    elif word in others and word not in words:
        cure = f": write {others[word]}"
    else:
        cure = f". {did_you_mean(word, words) or there_are(words)}"
    return AttributeError(f"{what} {verb} no {word!r}{cure}", name=word)


ASYNC = ("map", "flat_map")
"""Operators whose function may be async."""


class Branches(Generic[S]):
    """The streams of `branch`, by their names. One that nobody asks for is not made."""

    def __init__(self, names: Sequence[str], make: Callable[[int], S]) -> None:
        self._names, self._make = list(names), make
        self._made: dict[str, S] = {}

    def __getattr__(self, name: str) -> S:
        if name not in self._names:
            raise AttributeError(f"there is no branch {name!r}: {self._names}", name=name)
        if name not in self._made:
            self._made[name] = self._make(self._names.index(name))
        return self._made[name]

    def __getitem__(self, name: str) -> S:
        """The stream of that name."""
        return self.__getattr__(name)


def is_first(tests: Sequence[Callable[[Any], object]], number: int) -> Callable[[Any], bool]:
    """Whether the first test that is true is that of the number; behind the last: none is."""

    def chosen(row: Any) -> bool:
        return next((i for i, test in enumerate(tests) if test(row)), len(tests)) == number

    chosen.functions = tests[: number + 1]  # type: ignore[attr-defined]
    return chosen


def with_arguments(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    """A function of a row alone: the others are given to it behind the row."""
    if not args:
        return function

    async def waited(row: Any) -> Any:
        return await function(row, *args)

    def computed(row: Any) -> Any:
        return function(row, *args)

    called: Any = waited if inspect.iscoroutinefunction(function) else computed
    called.__name__ = getattr(function, "__name__", type(function).__name__)
    called.functions = [function]
    made: Callable[..., Any] = called
    return made


def judged(function: Callable[..., Any]) -> Sequence[Callable[..., Any]]:
    """The author's functions that one of ours calls with the row first; or that one itself."""
    functions: Sequence[Callable[..., Any]] = getattr(function, "functions", [function])
    return functions


def checked(operator: str, function: Any) -> Callable[..., Any]:
    """A function of an author's.

    Raises:
        ValidationFailed: It is none.
    """
    if isinstance(function, str):
        other = "where" if operator == "filter" else "select or with_fields"
        raise refusal(
            f"{operator} takes a function, and not the text {function!r}",
            f"Write {other} for an expression of SQL.",
        )
    if not callable(function):
        raise refusal(f"{operator} takes a function, and not {function!r}", "")
    if inspect.iscoroutinefunction(function) and operator not in ASYNC:
        raise refusal(
            f"{operator} takes no async function",
            "Write map or flat_map, which have a bolt of their own for it.",
        )
    return cast("Callable[..., Any]", function)


def refusal(message: str, cure: str) -> ValidationFailed:
    """The error of a call that can mean nothing, with its line."""
    return ValidationFailed([Problem("", f"{author()[0]}: {message}", cure)])
