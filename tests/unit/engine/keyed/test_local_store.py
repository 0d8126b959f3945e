"""Bytes by key on disk."""

import pytest

from fulmen.engine.keyed.stores.local_store import CACHE_BYTES, LocalStore


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "0"


def test_a_store_that_is_opened_again_finds_keys_as_fast_as_the_first_time(folder):
    first = LocalStore(folder)
    first.write({b"key": b"value"})
    first.close()
    again = LocalStore(folder)
    assert again.get_one(b"key") == b"value"
    assert int(again._db.property_value("rocksdb.block-cache-capacity")) == CACHE_BYTES
    again.close()
    _, newest = sorted(folder.glob("OPTIONS-*"))
    lines = set(map(str.strip, newest.read_text().splitlines()))
    assert {"filter_policy=bloomfilter", "partition_filters=true"} <= lines
