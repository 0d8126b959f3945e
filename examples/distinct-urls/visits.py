"""Counts the distinct URLs of each domain: two tables that always agree."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from fulmen import (
    BatchBolt,
    BatchOutputCollector,
    Committer,
    TopologyContext,
    TransactionalSpout,
    TransactionAttempt,
    Tuple,
)
from fulmen.transactional import SqliteMap, plus

DOMAINS = ["news.example", "shop.example", "wiki.example"]
VISITS, TAKE = 4000, 500  # in all, and in a transaction


def visits(start: int, end: int) -> Iterator[str]:
    """Their URLs: always the same ones for the same numbers, as rows of a table that only grows."""
    for n in range(start, end):
        page = n * n % 4999
        yield f"https://{DOMAINS[page % 7 % 3]}/pages/{page}"


class Visits(TransactionalSpout):
    """Emits (tx, url). The metadata of a transaction are where it begins and ends."""

    outputs = ["tx", "url"]

    def get_coordinator(self, conf: Mapping[str, Any], context: TopologyContext) -> "Coordinator":
        return Coordinator()

    def get_emitter(self, conf: Mapping[str, Any], context: TopologyContext) -> "Emitter":
        return Emitter(context)


class Coordinator(TransactionalSpout.Coordinator):
    """One in the driver: says what the next transaction is."""

    def __init__(self) -> None:
        self.end = 0

    def is_ready(self) -> bool:
        return self.end < VISITS

    def initialize_transaction(self, txid: int, previous_metadata: Any) -> tuple[int, int]:
        start = previous_metadata[1] if previous_metadata else 0
        self.end = min(start + TAKE, VISITS)
        return start, self.end

    def is_exhausted(self) -> bool:
        return self.end >= VISITS


class Emitter(TransactionalSpout.Emitter):
    """One for each task: emits its share of each transaction."""

    def __init__(self, context: TopologyContext) -> None:
        self.index, self.tasks = context.task_index, len(context.tasks(context.component))

    def emit_batch(
        self, attempt: TransactionAttempt, metadata: Any, collector: BatchOutputCollector
    ) -> None:
        for url in list(visits(*metadata))[self.index :: self.tasks]:
            collector.emit([attempt, url])


def first(old: int | None, new: int) -> int:
    """What was there first stays."""
    return new if old is None else old


class NewUrls(BatchBolt, Committer):
    """Keeps in which transaction each URL came first, and counts the new ones of each domain.

    A transaction that comes again finds its URLs in the table. They are new all the same: the table
    says that they came first in this very transaction.
    """

    outputs = ["tx", "domain", "new"]

    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        self.collector, self.attempt = collector, attempt
        self.seen: set[str] = set()
        self.urls = SqliteMap(conf["file"], "urls", context, value="integer")

    def execute(self, tup: Tuple) -> None:
        self.seen.add(tup["url"])

    def finish_batch(self) -> None:
        txid = self.attempt.txid
        self.urls.update(self.attempt, dict.fromkeys(self.seen, txid), first)
        since = self.urls.get_many(self.seen)
        new = Counter(urlsplit(url).hostname for url in self.seen if since[url] == txid)
        for domain, count in new.items():
            self.collector.emit([self.attempt, domain, count])


class CountUrls(BatchBolt):
    """Counts the distinct URLs of each domain. It is behind a committer, so it may write."""

    def prepare(
        self,
        conf: Mapping[str, Any],
        context: TopologyContext,
        collector: BatchOutputCollector,
        attempt: TransactionAttempt,
    ) -> None:
        self.attempt = attempt
        self.new: Counter[str] = Counter()
        self.domains = SqliteMap(conf["file"], "domains", context, value="integer")

    def execute(self, tup: Tuple) -> None:
        self.new[tup["domain"]] += tup["new"]

    def finish_batch(self) -> None:
        self.domains.update(self.attempt, self.new, plus)
