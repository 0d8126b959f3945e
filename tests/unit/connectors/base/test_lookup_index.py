"""Rows by their keys, in memory and on disk: as in a dict, whatever the keys are."""

from datetime import date
from decimal import Decimal

import pytest

from fulmen.connectors.base.lookup.index import TableIndex
from fulmen.connectors.base.lookup.table import TableError

MEMORY = {"in memory": 10**9, "moved to disk": 2000, "on disk": 0}
ODD = [-1, -2, 0, 2**61 - 1, 2**64, "", "7", 7, 7.5, Decimal("7.5"), b"7", date(2026, 1, 2), True]
KEYS = [*ODD, *range(3000), *(f"key {n}" for n in range(3000)), -1, "7", 41]


def index_of(rows, matches="all", memory=0, key=("key",)):
    chunks = [rows[i : i + 100] for i in range(0, len(rows), 100)]
    columns = ("key", "more", "n")
    return TableIndex(iter(chunks), columns, key, ["n"], matches, memory)


@pytest.mark.parametrize("memory", MEMORY.values(), ids=MEMORY)
@pytest.mark.parametrize("matches", ["all", "first", "last"])
def test_rows_are_found_by_whatever_equals_their_key(memory, matches):
    """Minus one and minus two have one hash, and 0 that of the largest number below 2**61."""
    rows = [[key, None, n] for n, key in enumerate(KEYS)]
    rows[50:50] = [[None, None, "never"], [float("nan"), None, "never"]]
    index = index_of(rows, matches, memory)
    assert index.is_on_disk == (memory < 10**9)
    assert index.size == len(rows)
    expected = {}
    for key, _, n in rows:
        if key == key and key is not None:
            expected.setdefault(key, []).append([n])
    asked = [*expected, 7.0, -1.0, "no key", 2**70, None, float("nan"), (1,)]
    of = {"all": slice(None), "first": slice(1), "last": slice(-1, None)}[matches]
    found = index.find([asked])
    assert [list(rows) for rows in found] == [expected.get(key, [])[of] for key in asked]


@pytest.mark.parametrize("memory", MEMORY.values(), ids=MEMORY)
def test_rows_are_found_by_all_parts_of_their_key(memory):
    rows = [[n % 7, f"{n % 11}", n] for n in range(300)]
    index = index_of(rows, memory=memory, key=("more", "key"))
    asked = [["3", "10", "3", 3], [2, 6, 9, 2]]
    pairs = [*zip(*asked, strict=True)]
    expected = [[[n] for of_key, more, n in rows if (more, of_key) == pair] for pair in pairs]
    assert [list(found) for found in index.find(asked)] == expected
    assert [len(found) for found in expected] == [4, 3, 0, 0]


@pytest.mark.parametrize("memory", MEMORY.values(), ids=MEMORY)
def test_a_table_without_rows_or_without_keys_has_nothing(memory):
    for rows in ([], [[None, None, n] for n in range(300)]):
        assert [list(found) for found in index_of(rows, memory=memory).find([[1, "a"]])] == [[], []]


@pytest.mark.parametrize("memory", MEMORY.values(), ids=MEMORY)
def test_keys_without_a_hash_are_refused(memory):
    rows = [[n, None, n] for n in range(300)]
    with pytest.raises(TableError, match="has no hash"):
        index_of([*rows, [[], None, 0]], memory=memory)
    with pytest.raises(TypeError):
        index_of(rows, memory=memory).find([[[]]])
