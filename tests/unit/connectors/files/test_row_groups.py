"""Files of Parquet that have far more in them than their bytes."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fulmen.connectors.files import ParquetSpout
from fulmen.connectors.files.reading import parquet_spout, row_groups
from fulmen.connectors.files.reading.row_groups import PageHeader, RowGroups
from support.connectors.file_spouts import Emits, SpoutLives

ROWS = 64
LIMIT = 1 << 18
LONG = "x" * (1 << 16)
DEEP = pa.map_(pa.string(), pa.list_(pa.string()))
COLUMNS = {
    "shared": ([LONG] * ROWS, pa.string()),
    "in-structs": ([{"a": LONG}] * ROWS, pa.struct({"a": pa.string()})),
    "in-maps-of-lists": ([[(LONG, [LONG])]] * ROWS, DEEP),
    "of-a-width": ([b"x" * (1 << 16)] * ROWS, pa.binary(1 << 16)),
    "rare": ([*["x"] * 5000, *[LONG] * ROWS], pa.string()),
    "begins-alike": ([f"{LONG}{i}" for i in range(ROWS)], pa.string()),
}


class Sizes(Emits):
    """A collector that keeps how large batches were, and the ids."""

    def __init__(self):
        super().__init__()
        self.sizes, self.ids = [], []

    def emit(self, values, stream="default", msg_id=None, msg_ids=None):
        assert stream == "default"
        self.sizes.append(values.nbytes)
        self.ids += msg_ids


@pytest.mark.parametrize("name", COLUMNS)
def test_batches_of_a_file_that_is_a_few_bytes_are_bounded(tmp_path, monkeypatch, name):
    monkeypatch.setattr(row_groups, "BATCH_BYTES", LIMIT)
    monkeypatch.setattr(parquet_spout, "BATCH_BYTES", LIMIT)
    values, kind = COLUMNS[name]
    delta = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}
    path = tmp_path / "a.parquet"
    more = delta if name == "begins-alike" else {"dictionary_pagesize_limit": 8 << 20}
    pq.write_table(pa.table({"v": pa.array(values, kind)}), path, compression="zstd", **more)
    assert path.stat().st_size < 3000
    life = SpoutLives(ParquetSpout, path=str(path), follow=False, fields=["v"])
    found = life.spout.collector = life.collector = Sizes()
    while life.spout.next_tuple():
        pass
    assert found.ids == list(range(len(values)))
    for msg_id in found.ids[-ROWS:]:
        life.spout.fail(msg_id, "a reason")
    while life.spout.progress.again:
        life.spout.next_tuple()
    assert found.ids[len(values) :] == found.ids[len(values) - ROWS : len(values)]
    assert max(found.sizes) < 3 * LIMIT
    assert len(found.sizes) < 100, "small pieces are put together"


def told(path, **config):
    life = SpoutLives(ParquetSpout, path=str(path), follow=False, fields=["v"], **config)
    life.finish()
    assert life.values() == []
    return [values[1] for _, values in life.untracked]


def test_a_row_that_is_too_large_is_told(tmp_path):
    nulls = pa.ListArray.from_arrays(pa.array([0, 20_000_000], pa.int32()), pa.nulls(20_000_000))
    pq.write_table(pa.table({"v": nulls.cast(pa.list_(pa.int8()))}), tmp_path / "a.parquet")
    assert told(tmp_path / "a.parquet") == [
        "a row has 305 MiB on average, and 256 MiB is the limit. Its rows 0 to 0 are left out"
    ]


def test_a_page_that_is_too_large_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(row_groups, "MOST_BYTES", 1 << 20)
    table = pa.table({"v": [f"{LONG}{i}" for i in range(48)]})
    pq.write_table(table, tmp_path / "a.parquet", use_dictionary=False, compression="zstd")
    assert told(tmp_path / "a.parquet") == [
        "a page of its column 'v' has 3 MiB, and 1 MiB is the limit. Write it with smaller pages."
        " Its rows 0 to 47 are left out"
    ]


def test_two_columns_of_one_name_are_told_if_they_are_to_be_read(tmp_path):
    column = pa.array([1, 2])
    table = pa.Table.from_arrays([column, column, column], names=["v", "v", "w"])
    pq.write_table(table, tmp_path / "a.parquet")
    assert told(tmp_path / "a.parquet") == ["the file has 2 columns 'v'"]
    life = SpoutLives(ParquetSpout, path=str(tmp_path / "a.parquet"), fields=["w"])
    assert life.batch() == [[1], [2]]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("compression", ["NONE", "SNAPPY", "ZSTD"])
def test_headers_of_pages_say_what_the_footer_says_of_all(version, compression):
    numbers = range(3000)
    table = pa.table(
        {
            "number": numbers,
            "text": [f"{n}" for n in numbers],
            "long": ["x" * 3000 + f"{n}" for n in numbers],  # so are the statistics
            "list": [[n, None] for n in numbers],
        }
    )
    file = io.BytesIO()
    kept = {"data_page_version": version, "compression": compression, "data_page_size": 5000}
    pq.write_table(table, file, write_page_checksum=True, **kept)
    groups = RowGroups(file)
    assert sum(b.num_rows for b in groups.batches(0, table.column_names, 1000)) == 3000
    group = groups.file.metadata.row_group(0)
    for chunk in map(group.column, range(group.num_columns)):
        at = start = chunk.dictionary_page_offset or chunk.data_page_offset
        unpacked = 0
        while at < start + chunk.total_compressed_size:
            file.seek(at)
            header = PageHeader(file.read(1 << 16))
            at += header.length + header.packed
            unpacked += header.length + header.unpacked
        assert at == start + chunk.total_compressed_size
        assert unpacked == chunk.total_uncompressed_size
