"""Rows of Parquet files, by the number of the row."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fulmen.api import Stream
from fulmen.connectors.files import ParquetSpout
from fulmen.connectors.formats import ERRORS
from support.connectors.file_spouts import SpoutLives


def write(path, numbers, row_group_size=10):
    table = pa.table(
        {"n": list(numbers), "text": [f"t{n}" for n in numbers], "more": list(numbers)}
    )
    pq.write_table(table, path, row_group_size=row_group_size)


def lives(path, **config):
    return SpoutLives(ParquetSpout, **{"path": str(path), "fields": ["text", "n"], **config})


def test_columns_become_fields_and_row_groups_batches(tmp_path):
    write(tmp_path / "a.parquet", range(25))
    life = lives(tmp_path / "*.parquet", follow=False)
    assert life.batch() == [[f"t{n}", n] for n in range(25)]
    assert life.spout.is_exhausted()
    assert life.spout.outputs_for(life.context.options) == {
        "default": Stream(("text", "n")),
        "errors": ERRORS,
    }


@pytest.mark.parametrize("kind", ["int32", "string", "'decimal(20,0)'", "bool", "timestamp"])
def test_a_file_whose_column_is_of_another_type_than_was_said_goes_to_errors(tmp_path, kind):
    write(tmp_path / "a.parquet", range(2))
    fields = {"text": "string", "n": kind.strip("'")}
    life = lives(tmp_path / "a.parquet", fields=fields)
    [[data, reason, _]] = life.batch()
    assert (data, reason) == (b"", f"its column 'n' is int64, which is no {fields['n']}")
    stream = life.spout.outputs_for(life.context.options)["default"]
    assert stream.types == {"text": "string", "n": fields["n"].partition("(")[0]}
    assert lives(tmp_path / "a.parquet", fields={"n": "int64"}).batch() == [[0], [1]]


def test_categories_and_columns_in_which_all_is_missing_are_of_the_type_that_was_said(tmp_path):
    table = pa.table({"text": pa.array(["a", None]).dictionary_encode(), "n": pa.nulls(2)})
    pq.write_table(table, tmp_path / "a.parquet")
    life = lives(tmp_path / "a.parquet", fields={"text": "string", "n": "int64"})
    assert life.batch() == [["a", None], [None, None]]
    life = lives(tmp_path / "a.parquet", fields={"text": "int64"})
    [[_, reason, _]] = life.batch()
    assert reason.endswith("which is no int64")


@pytest.mark.parametrize("calls", [1, 2, 3, 4])
def test_it_goes_on_within_a_row_group_after_a_kill(tmp_path, calls):
    write(tmp_path / "a.parquet", range(25))
    life = lives(tmp_path / "a.parquet", batch_rows=7)
    emitted = life.batch(calls=calls)
    life.start()
    assert emitted + life.batch() == [[f"t{n}", n] for n in range(25)]


def test_a_file_with_more_rows_than_bytes_is_read_on_after_a_kill(tmp_path):
    pq.write_table(pa.table({"n": [7] * 50_000}), tmp_path / "a.parquet")
    life = lives(tmp_path / "a.parquet", fields=["n"], batch_rows=10_000)
    life.batch(calls=20_000)
    life.start()
    assert len(life.batch(calls=50_000)) == 30_000
    assert life.collector.reported == []


def test_rows_that_fail_are_read_again_and_no_others(tmp_path):
    write(tmp_path / "a.parquet", range(25))
    write(tmp_path / "b.parquet", range(100, 105))
    life = lives(tmp_path / "*.parquet")
    life.batch()
    failed = [i for i, (_, values) in life.pending.items() if values[1] in (3, 4, 17, 102)]
    again = life.batch(fails=[failed[1], failed[0], *failed[2:]])
    assert sorted(again) == [["t102", 102], ["t17", 17], ["t3", 3], ["t4", 4]]
    life.finish()
    assert sorted(n for _, n in life.values()) == [*range(25), *range(100, 105)]


def test_a_file_that_is_no_parquet_or_lacks_a_column_goes_to_errors(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and no more")
    pq.write_table(pa.table({"n": [1]}), tmp_path / "b.parquet")
    write(tmp_path / "c.parquet", range(2))
    life = lives(tmp_path / "*.parquet")
    life.finish()
    assert life.values() == [["t0", 0], ["t1", 1]]
    (_, [_, why, where]), (_, [_, reason, _]) = life.untracked
    assert why.startswith("it is not Parquet")
    assert where == f"{tmp_path}/a.parquet:0"
    assert reason == "the file has no column 'text', only ['n']"


@pytest.mark.slow
@pytest.mark.matrix(share=1 / 4)
@pytest.mark.parametrize("seed", range(5))
def test_each_row_is_acked_once_whatever_is_killed_and_fails(tmp_path, seed):
    rng = random.Random(seed)
    life, numbers, faults = lives(tmp_path / "*.parquet", batch_rows=3), 0, 0
    while faults < 50:
        if rng.random() < 0.2:
            count = rng.randint(1, 30)
            write(
                tmp_path / f"{numbers}.parquet", range(numbers, numbers + count), rng.randint(1, 12)
            )
            numbers += count
        ended = [i for i in life.pending if rng.random() < 0.5]
        at = rng.randint(0, len(ended))
        if rng.random() < 0.4:
            life.attempt(rng.randint(0, 9), ended[:at], ended[at:])
            life.start()
            faults += 1
        else:
            life.batch(rng.randint(0, 9), ended[:at], ended[at:])
    life.finish()
    assert sorted(n for _, n in life.values()) == list(range(numbers))
    assert life.spout.progress.positions == {}
