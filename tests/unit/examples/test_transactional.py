"""The transactional examples, when transactions fail and processes are lost."""

import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from fulmen import FailedException
from fulmen.engine.worker.in_process import Crash
from fulmen.testing import run
from fulmen.transactional import SqliteMap

TABLES = {
    "global-count": ["counts"],
    "bucketed-words": ["counts", "buckets"],
    "distinct-urls": ["urls", "domains"],
}


@pytest.fixture
def writing(example, tmp_path):
    """Reads the topology of an example that writes to a file."""
    return lambda name, file: example(name, f"spec.config.file={tmp_path / file}")


def tables(name, file):
    """What an example has written: for each table the values by key."""
    with closing(sqlite3.connect(file)) as database:
        return {
            table: dict(database.execute(f'SELECT key, value FROM "{table}"'))
            for table in TABLES[name]
        }


class Writes:
    """Counts what committers write, and fails after some of it.

    Attributes:
        seen: How many writes there were.
        failed: How many of them were failed.
    """

    def __init__(self, monkeypatch, every):
        self.seen = self.failed = 0
        update = SqliteMap.update

        def counted(store, attempt, partials, combine):
            values = update(store, attempt, partials, combine)
            self.seen += 1
            if every and self.seen % every == 0 and self.failed < 8:
                self.failed += 1
                raise FailedException("after it was written")
            return values

        monkeypatch.setattr(SqliteMap, "update", counted)


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("name", TABLES)
def test_a_transaction_that_fails_after_it_was_written_counts_once(
    name, every, writing, tmp_path, monkeypatch
):
    run(writing(name, "whole.db"))
    writes = Writes(monkeypatch, every)
    run(writing(name, "broken.db"))
    assert writes.failed >= 2
    assert tables(name, tmp_path / "broken.db") == tables(name, tmp_path / "whole.db")


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_workers_that_are_lost_after_a_write_change_nothing(name, writing, tmp_path, monkeypatch):
    run(writing(name, "whole.db"))
    writes, lost = Writes(monkeypatch, every=0), []

    def fault(stage, worker, moment):
        if writes.seen and len(lost) < 5:
            writes.seen = 0
            lost.append(moment)
            raise Crash("killed")

    result = run(writing(name, "broken.db"), fault=fault)
    assert result.report["failed_attempts"] == 5
    assert tables(name, tmp_path / "broken.db") == tables(name, tmp_path / "whole.db")


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_a_run_that_is_stopped_goes_on_with_the_next_transaction(name, writing, tmp_path):
    run(writing(name, "whole.db"))
    topology = writing(name, "stopped.db")
    checkpoint = None
    for _ in range(10):  # each is another driver, which processes and commits one transaction
        checkpoint = run(topology, batches=2, checkpoint=checkpoint).checkpoint
    assert tables(name, tmp_path / "stopped.db") == tables(name, tmp_path / "whole.db")


def test_the_global_count_is_the_number_of_trees(writing, tmp_path):
    run(writing("global-count", "counts.db"))
    from globalcount import DATA

    assert tables("global-count", tmp_path / "counts.db") == {
        "counts": {"all": sum(map(len, DATA.values()))}
    }


def test_the_buckets_are_those_of_the_counts(writing, tmp_path):
    run(writing("bucketed-words", "words.db"))
    from words import BUCKET_SIZE, DATA

    found = tables("bucketed-words", tmp_path / "words.db")
    counts = Counter(word for rows in DATA.values() for (word,) in rows)
    assert found["counts"] == counts
    buckets = Counter(count // BUCKET_SIZE for count in counts.values())
    assert {bucket: n for bucket, n in found["buckets"].items() if n} == buckets


def test_word_counts_and_their_history_are_exact_though_transactions_fail_after_they_were_written(
    example, tmp_path, monkeypatch
):
    writes = Writes(monkeypatch, every=2)
    places = ("count].config.at", "history].config.path")
    changes = [f"spec.bolts[{place}={tmp_path / 'words.db'}" for place in places]
    run(example("trident-word-count", *changes))
    from tridentwords import Sentences

    batches = Sentences.data[0][:3], Sentences.data[0][3:]
    words = [Counter(" ".join(s for (s,) in batch).split()) for batch in batches]
    counts = words[0] + words[1]
    assert writes.failed >= 2
    with closing(sqlite3.connect(tmp_path / "words.db")) as database:
        assert dict(database.execute("SELECT key, value FROM counts")) == counts
        history = Counter(database.execute("SELECT * FROM history"))
    assert history == Counter([*words[0].items(), *((w, counts[w]) for w in words[1])])
