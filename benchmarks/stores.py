"""What a commit phase costs, by store: milliseconds, for 10,000 keys that are all there already.

`python -m benchmarks.stores`. Servers are started on this machine, as tests start them; one that is
not installed is left out. `plain` is the same work without a store: what the rules and the types of
columns cost in Python.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fulmen.api import TopologyContext, TransactionAttempt
from fulmen.services.pools import close_all
from fulmen.transactional import PostgresMap, RedisMap, SqliteMap, TransactionalMap, plus
from fulmen.transactional.maps import Decide, StoredMap
from fulmen.transactional.owners import FoundMap
from fulmen.transactional.rules import Rule

KEYS = 10_000
TIMES = 15
RULES: tuple[Rule, ...] = ("transactional", "opaque")
CONTEXT = TopologyContext("benchmark", "count", 1, 0, 0)

Make = Callable[[str, Rule], TransactionalMap]


class PlainMap(StoredMap):
    """A map in this process: nothing is written."""

    def __init__(self, name: str, rule: Rule) -> None:
        super().__init__(name, "this process", CONTEXT, rule, "text", "integer")
        self._rows: dict[Any, Any] = {}

    def commit_phase(self, attempt: TransactionAttempt, keys: Any, decide: Decide) -> None:
        """Change what is in memory."""
        rows = {key: self._rows[key] for key in keys if key in self._rows}
        self._rows.update(decide(rows).rows)

    def read(self, keys: Any, *, with_marks: bool) -> FoundMap:
        """What there is of keys. There are no marks."""
        return FoundMap(self.owner, {key: self._rows[key] for key in keys if key in self._rows})


@contextmanager
def stores() -> Iterator[dict[str, Make]]:
    """What makes a map, by the name of the store."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.servers.postgres import running_postgres
    from support.servers.redis_server import running_redis

    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        options: Any = {"value": "integer"}
        made: dict[str, Make] = {
            "plain": PlainMap,
            "SQLite": lambda name, rule: SqliteMap(
                f"{folder}/db", name, CONTEXT, rule=rule, **options
            ),
        }
        try:
            dsn = stack.enter_context(running_postgres()).dsn
            made["PostgreSQL"] = lambda name, rule: PostgresMap(
                dsn, name, CONTEXT, rule=rule, **options
            )
        except pytest.skip.Exception as reason:
            print(reason)
        try:
            url = stack.enter_context(running_redis()).url
            made["Redis"] = lambda name, rule: RedisMap(url, name, CONTEXT, rule=rule, **options)
        except pytest.skip.Exception as reason:
            print(reason)
        yield made
        close_all()


def milliseconds(act: Callable[[int], object]) -> list[float]:
    """How long each call took, the shortest first."""
    times = []
    for number in range(TIMES):
        began = time.perf_counter()
        act(number)
        times.append(1000 * (time.perf_counter() - began))
    return sorted(times)


def measure(a_map: TransactionalMap) -> dict[str, list[float]]:
    """Commit phases, one that comes again, and reading."""
    partials = dict.fromkeys((f"key-{n}" for n in range(KEYS)), 1)
    a_map.update(TransactionAttempt(1, 1), partials, plus)

    def commit(number: int) -> None:
        a_map.update(TransactionAttempt(number + 2, 1), partials, plus)

    def repeat(number: int) -> None:
        a_map.update(TransactionAttempt(TIMES + 1, number + 2), partials, plus)

    return {
        "commit": milliseconds(commit),
        "replay": milliseconds(repeat),
        "read": milliseconds(lambda _: a_map.get_many(partials)),
    }


def main() -> None:
    """Print the table."""
    print(f"{KEYS:,} keys, ms: half of {TIMES} took no longer (and the shortest)")
    print(f"{'':26}{'commit phase':>16}{'the same again':>16}{'reading':>16}")
    with stores() as made:
        for store, make in made.items():
            for rule in RULES:
                found = measure(make(f"counts_{rule}", rule))
                figures = "".join(
                    f"{f'{times[len(times) // 2]:.0f} ({times[0]:.0f})':>16}"
                    for times in found.values()
                )
                print(f"{f'{store}, {rule}':26}{figures}", flush=True)


if __name__ == "__main__":
    main()
