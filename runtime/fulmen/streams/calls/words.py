"""What calls of streams have in common: words, functions, and what is refused at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

from fulmen.errors import ValidationFailed
from fulmen.streams.graph.places import author
from fulmen.topology.problems import Problem

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
    "compose": "process", "dropDuplicates": "deduplicate", "stateQuery": "lookup",
    "join_lookup": "lookup", "join_asof": "join_as_of", "updateStateByKey": "update_state",
    "coGroupByKey": "co_group", "cogroup": "co_group",
    "stateful_map": "update_state", "reduceByKey": "reduce", "countByKey": "count",
    "persistentAggregate": "persistent_aggregate", "windowedBy": "window",
}  # fmt: skip
"""Words of Storm's Streams API, Trident, Kafka Streams, Bytewax, Quix, Spark and pandas."""


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
