"""What transactions cost, and what several active ones gain, beside the plain word count."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import running
from benchmarks.running import Watcher, run_for, word_count

Result = dict[str, Any]
SIZES = (1_000, 100_000)
ACTIVE = (1, 2, 4)
LONG_COMMIT_SIZE = 20_000


def document(
    workers: int,
    size: int,
    active: int,
    config: Mapping[str, Any] | None = None,
    committer: str = "Count",
) -> dict[str, Any]:
    """The word count in transactions of `size` sentences: `count` is a committer."""
    content = word_count(workers)
    spec = content["spec"]
    del spec["spouts"]
    spec["config"] = {"size": size, **(config or {})}
    spec["maxSpoutPending"] = active
    spec["transactional"] = {
        "name": "sentences",
        "class": "transactional.Sentences",
        "parallelism": workers,
    }
    split, count = spec["bolts"]
    split["class"], count["class"] = "transactional.Split", f"transactional.{committer}"
    count |= {"committer": True, "blocking": True}
    return content


def transactions(arguments: argparse.Namespace) -> list[Result]:
    """Sentences and transactions a second, by size and number of active transactions."""
    results = []
    for workers in arguments.workers:
        plain = _plain(workers, arguments)
        for size in SIZES:
            for active in ACTIVE:
                found = _measure(document(workers, size, active), arguments)
                share = found["sentences_per_second"] / plain
                results.append(
                    {
                        "workers": workers,
                        "size": size,
                        "active": active,
                        **found,
                        "of_plain": round(share, 2),
                    }
                )
    return results


def committers(arguments: argparse.Namespace) -> list[Result]:
    """Words of each transaction added to a table of SQLite or PostgreSQL, with two active."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.servers.postgres import running_postgres

    results = []
    with tempfile.TemporaryDirectory() as folder, running_postgres() as postgres:
        for workers in arguments.workers:
            plain = _plain(workers, arguments)
            for size in SIZES:
                for store in ("sqlite", "postgres"):
                    at = f"{folder}/db" if store == "sqlite" else postgres.dsn
                    config = {"store": store, "at": at, "table": f"words_{workers}_{size}"}
                    found = _measure(document(workers, size, 2, config, "CountInto"), arguments)
                    share = round(found["sentences_per_second"] / plain, 2)
                    results.append(
                        {"workers": workers, "size": size, "store": store, **found}
                        | {"of_plain": share}
                    )
    return results


def commits(arguments: argparse.Namespace) -> list[Result]:
    """Where a commit takes as long as processing: what it gains to do both side by side."""
    results = []
    for workers in arguments.workers:
        alone = _measure(document(workers, LONG_COMMIT_SIZE, 1), arguments)
        # a transaction alone takes two batches; nearly all of that is the one that processes it
        seconds = 1 / alone["transactions_per_second"]
        config = {"commit_seconds": round(seconds, 3)}
        for active in ACTIVE:
            content = document(workers, LONG_COMMIT_SIZE, active, config)
            found = _measure(content, arguments)
            results.append({"workers": workers, "active": active, **config, **found})
    return results


def _plain(workers: int, arguments: argparse.Namespace) -> float:
    content = word_count(workers, spout="Endless", batchTargetMillis=arguments.target)
    return float(_measure(content, arguments)["sentences_per_second"])


def _measure(content: Mapping[str, Any], arguments: argparse.Namespace) -> Result:
    with running.running(content, Watcher()) as driver:
        run_for(driver, arguments.warm)
        before, began = _done(driver), time.monotonic()
        run_for(driver, arguments.seconds)
        elapsed, after = time.monotonic() - began, _done(driver)
    emitted, committed = (b - a for a, b in zip(before, after, strict=True))
    found: Result = {"sentences_per_second": round(emitted / elapsed)}
    if committed:
        found["transactions_per_second"] = round(committed / elapsed, 2)
    return found


def _done(driver: Any) -> tuple[int, int]:
    transactions = driver.coordinator.transactions
    committed = transactions.ledger.committed if transactions is not None else 0
    return driver.totals.component("sentences")["emitted"], committed
