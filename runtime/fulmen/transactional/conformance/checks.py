"""What cases are made of: maps, tasks, attempts, and what must be so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from fulmen.api.context import TopologyContext
from fulmen.api.transactions import TransactionAttempt
from fulmen.transactional.maps import TransactionalMap
from fulmen.transactional.rules import Rule

T = TypeVar("T")


class Random(Protocol):
    """The methods of `random.Random` that are used."""

    def random(self) -> float:
        """At least 0 and below 1."""
        ...

    def randint(self, a: int, b: int, /) -> int:
        """An int of `a` to `b`."""
        ...

    def choice(self, seq: Sequence[T], /) -> T:
        """One of them."""
        ...


Make = Callable[[str, TopologyContext, Rule], TransactionalMap]
Case = Callable[[Make, Random], None]
RULES: tuple[Rule, ...] = ("transactional", "opaque")
TASKS = 3
EPOCH = 1 << 62
"""Numbers of attempts have up to 63 bits."""


def context_of(
    task: int = 0, component: str = "count", topology: str = "conformance"
) -> TopologyContext:
    """The context of a task of a bolt."""
    return TopologyContext(
        topology, component, task + 1, task, 0, component_tasks={"count": range(1, TASKS + 1)}
    )


def at(txid: int, attempt: int = 1) -> TransactionAttempt:
    """An attempt of a transaction."""
    return TransactionAttempt(txid, EPOCH + attempt)


def holds(a_map: TransactionalMap, expected: Mapping[str, Any]) -> None:
    """Check the values of keys; an absent key is one whose value is `...`."""
    values = a_map.get_many(list(expected))
    wanted = {key: value for key, value in expected.items() if value is not ...}
    assert values == wanted, f"the map has {values}, not {wanted}"


def refuses(error: type[Exception], call: Callable[..., object], *arguments: object) -> None:
    """Check that a call raises an error."""
    try:
        call(*arguments)
    except error:
        return
    raise AssertionError(f"no {error.__name__} was raised")
