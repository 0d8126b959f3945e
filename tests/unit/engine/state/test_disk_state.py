"""`self.state` on disk: whatever happens, it is what a dict would be."""

import random
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fulmen.api.components.sinks import ServiceUnavailable
from fulmen.engine.keyed.stores.local_store import LocalStore
from fulmen.engine.state.entries import disk_entries, disk_state
from fulmen.engine.state.entries import segments as segments_module
from fulmen.engine.state.entries.disk_entries import DiskEntries
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.entries.known_records import KnownRecords
from support.runs.engine_runs import Kept
from support.stores.disk_states import DiskLife, MemoryLife

KEYS = st.integers(0, 12).map(lambda n: n if n % 2 else ("key", n))
VALUES = st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=2), st.just("x" * 300))
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, VALUES),
    st.tuples(st.just("set"), KEYS, VALUES),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("read"), KEYS),
    st.tuples(st.just("fetch"), st.lists(KEYS, max_size=3)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("commit")),
    st.tuples(st.just("void")),
    st.tuples(st.just("restart"), st.booleans(), st.booleans()),
    st.tuples(st.just("ends before it knows"), st.booleans()),
)


@pytest.mark.parametrize(("life_of", "examples"), [(MemoryLife, 100), (DiskLife, 25)])
def test_it_is_a_dict_that_outlives_its_process_and_its_disk(life_of, examples):
    @settings(max_examples=examples)
    @given(st.lists(STEPS, max_size=60), st.sampled_from((0, 1 << 14)), st.booleans())
    def lives(steps, free_bytes, loads_by_the_segment):
        with (
            mock.patch.object(segments_module, "FREE_BYTES", free_bytes),
            mock.patch.object(disk_entries, "_LOADED_BYTES", 1 if loads_by_the_segment else 1e9),
            mock.patch.object(disk_state, "_KEPT", 3 if loads_by_the_segment else 50_000),
            mock.patch.object(disk_entries, "_FILE_BYTES", 1 if loads_by_the_segment else 1e9),
            tempfile.TemporaryDirectory() as folder,
        ):
            live(life_of(Path(folder), Kept()), steps)

    lives()


def live(life, steps):
    committed, expected = {}, {}
    for what, *args in steps:
        match what:
            case "set":
                life.state[args[0]] = expected[args[0]] = args[1]
            case "delete":
                assert life.state.pop(args[0], None) == expected.pop(args[0], None)
            case "read":
                assert life.state.get(args[0]) == expected.get(args[0])
                assert (args[0] in life.state) == (args[0] in expected)
            case "fetch":  # changes nothing
                life.state.fetch(args[0])
            case "commit":
                life.commit()
            case "void":  # what the batch has changed is forgotten with its tasks
                life.restart()
                expected = dict(committed)
            case "restart":
                life.commit()
                life.restart(killed=args[0], lost=args[1])
            case "ends before it knows":
                life.write_down()
                life.restart(killed=args[0])
        if what in ("commit", "restart", "ends before it knows"):
            committed = dict(expected)
            assert life.state.size == (len(committed), life.kept.bytes)
            pages = [key for page in life.state.key_pages() for key in page]
            assert sorted(pages, key=repr) == sorted(committed, key=repr)
        assert len(life.state) == len(expected)
        assert dict(life.state.items()) == expected
    life.commit()
    assert KeyedState.restore(life.kept.journals) == expected
    life.state.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_long_life_loses_nothing_and_brings_nothing_back(seed, tmp_path):
    rng = random.Random(seed)
    with mock.patch.object(segments_module, "FREE_BYTES", rng.choice((0, 500))):
        life, expected = DiskLife(tmp_path, Kept()), {}
        for number in range(400):
            for _ in range(rng.randrange(4)):
                key = rng.randrange(12)
                if rng.random() < 0.5:
                    life.state[key] = expected[key] = "x" * rng.randrange(40)
                else:
                    assert life.state.pop(key, None) == expected.pop(key, None)
            life.commit()
            assert KeyedState.restore(life.kept.journals) == expected
            if number % 100 == 99:
                life.restart()
            assert dict(life.state.items()) == expected
        life.state.close()


CHILD = """
import os, signal, sys
from pathlib import Path
from fulmen.engine.keyed.stores.local_store import LocalStore

store = LocalStore(Path(sys.argv[1]))
for number in range(1, 501):
    store.write({b"k%d" % (i % 7): b"%d" % number for i in range(number)})
    if number == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_after_a_kill_the_store_is_as_after_its_last_write(tmp_path):
    command = [sys.executable, "-c", CHILD, str(tmp_path), "300"]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    store = LocalStore(tmp_path)
    assert dict(store.scan(b"k", b"l")) == {b"k%d" % i: b"300" for i in range(7)}
    store.close()


def filled(folder):
    life = DiskLife(folder, Kept())
    life.state.update({f"key-{i}": [i, "x" * 50] for i in range(3000)})
    life.commit()
    life.state["key-1"] = "newest"
    life.commit()
    return life


def test_after_a_restart_only_what_is_newer_is_read(tmp_path):
    life = filled(tmp_path)
    life.restart()
    assert life.read == []
    life.state["key-2"] = "later"
    life.write_down()  # and never confirmed
    life.restart(killed=True)
    assert [journal.split(".")[1] for journal in life.read] == ["3"]
    for is_lost in (False, True):
        life.restart(lost=is_lost)
        found = life.state["key-1"], life.state["key-2"], len(life.state)
        assert found == ("newest", "later", 3000)
    life.state.close()


@pytest.mark.parametrize("past", ["same", "other"])
def test_a_store_whose_last_commit_nobody_knows_any_more_goes_on_if_its_past_is_the_same(
    tmp_path, past
):
    life = DiskLife(tmp_path / "life", Kept())
    expected = {f"key {i}": i for i in range(3000)}
    life.state.update(expected)
    life.commit()
    for n in range(12):
        life.state["changed", n % 2] = expected["changed", n % 2] = n
        if n == 4:
            del life.state["key 7"], expected["key 7"]
        life.commit()
        if n == 1:
            shutil.copytree(life.folder, tmp_path / "behind")
    (tmp_path / "behind" / "LOCK").unlink()
    life.state.close()
    life.folder, life.tags[1] = tmp_path / "behind", life.tags[1] if past == "same" else "other"
    life.read.clear()
    life.open()
    assert dict(life.state) == expected
    assert life.read
    assert ("state.1.0" in life.read) == (past == "other")
    assert "state.3.0" not in life.kept.journals  # the last that the store had
    life.state.close()


def test_a_load_that_finds_a_segment_gone_keeps_what_it_has_read(tmp_path):
    life = DiskLife(tmp_path, Kept())
    for number in range(6):
        life.state["key", number] = number
        life.commit()
    life.state.close()
    shutil.rmtree(life.folder)
    [*older, newest] = life.kept.journals
    data = life.kept.journals.pop(newest)
    life.kept.journals[newest] = []  # another process has merged it meanwhile
    with pytest.raises(ValueError, match="unpack"):
        life.open()
    assert life.read == older
    life.read.clear()
    life.store.close()
    life.kept.journals[newest] = data
    life.open()
    assert life.read == [older[-1], newest]
    assert dict(life.state) == {("key", number): number for number in range(6)}
    life.state.close()


def test_a_load_that_was_interrupted_goes_on_where_it_was(tmp_path, monkeypatch):
    life, expected = DiskLife(tmp_path, Kept()), {}
    for number in range(6):
        for n in range(number, 40):
            life.state[n] = expected[n] = (number, n)
        life.commit()
    journals, writes, confirm = len(life.kept.journals), count(), DiskEntries.confirm

    def refused(entries, *, as_file=False):
        if next(writes) == 2:
            raise ServiceUnavailable("the disk", "full")
        confirm(entries, as_file=as_file)

    monkeypatch.setattr(disk_entries, "_LOADED_BYTES", 1)
    monkeypatch.setattr(DiskEntries, "confirm", refused)
    with pytest.raises(ServiceUnavailable, match="full"):
        life.restart(lost=True)
    life.read.clear()
    life.open()
    assert len(life.read) == journals - 2 >= 2
    assert dict(life.state.items()) == expected
    assert life.reached == [
        f"{100 * n // (journals - 2)} % of it is read" for n in range(journals - 2)
    ]
    life.state.close()


def test_a_store_of_another_past_is_not_used(tmp_path):
    """The checkpoint was replaced by a copy of before, and went on in another way."""
    life = filled(tmp_path / "one")
    copy = dict(life.kept.journals)
    life.state["key-3"] = "of a past that is gone"
    life.commit()
    life.state.close()
    life.kept.journals, life.number, before, life.folder = copy, 2, life.folder, tmp_path / "other"
    life.open()
    life.state["key-3"] = "of the past that counts"
    life.commit()
    life.tags[3] = "other"
    life.state.close()
    life.folder = before
    life.open()
    assert life.state["key-3"] == "of the past that counts"
    life.state.close()


def test_a_store_from_before_somebody_went_back_is_not_used(tmp_path):
    """Going back is a later commit with the journals of an earlier one."""
    life = filled(tmp_path)
    copy = dict(life.kept.journals)
    life.state["key-3"] = "undone"
    life.commit()
    life.kept.journals, life.number = copy, 4
    life.tags[4] = "t4"
    life.restart()
    assert life.state["key-3"] == [3, "x" * 50]
    life.state.close()


@pytest.mark.parametrize("suffix", ["sst", "MANIFEST", "CURRENT", "log"])
def test_a_damaged_store_is_told_or_made_anew_but_never_believed(tmp_path, suffix):
    life = filled(tmp_path)
    expected = dict(life.state.items())
    life.state.close()
    files = [f for f in life.folder.iterdir() if f.is_file() and suffix in f.name]
    for file in files:
        data = bytearray(file.read_bytes())
        for place in range(len(data) // 3, len(data), max(1, len(data) // 50)):
            data[place] ^= 0x55
        file.write_bytes(data)
    assert files
    for _ in range(2):  # it is told, and then begun anew
        try:
            life.read.clear()
            life.open()
            assert dict(life.state.items()) == expected
            break
        except ServiceUnavailable:
            pass
    else:
        pytest.fail("it is not made anew")
    life.state.close()


def test_what_is_changed_in_place_is_as_before_in_the_next_batch_and_is_told_once(tmp_path):
    life = filled(tmp_path)
    for key in ("key-5", "key-6"):
        life.state[key].append("in place")
        assert life.state[key][-1] == "in place"
        life.commit()
        assert life.state[key][-1] == "x" * 50
    assert life.state.take_warnings() == [
        "self.state['key-5'] was changed in place, and not assigned: on disk such a change is gone"
        " with its batch. Assign the value when it has changed, as in self.state[key] = value"
    ]
    life.state.close()


def test_a_number_stays_at_hand_and_what_may_be_changed_in_place_does_not(tmp_path, monkeypatch):
    life, asked = DiskLife(tmp_path, Kept()), []
    life.state.update({"number": 1, "list": [1], "gone": 1})
    life.commit()
    monkeypatch.setattr(DiskEntries, "get", lambda _, key: asked.append(key))
    del life.state["gone"]
    assert life.state["number"] == 1
    life.commit()
    assert [life.state.get(key) for key in ("number", "list", "gone")] == [1, None, None]
    assert asked == ["list", "gone"]
    life.state.close()


def test_what_the_disk_refused_can_not_be_ignored(tmp_path):
    life = filled(tmp_path)
    life.restart()
    life.store.close()
    with suppress(ServiceUnavailable):
        life.state.get("key-1")
    with pytest.raises(ServiceUnavailable, match="the disk for state"):
        life.state.updates(life.number + 1)


def test_no_commit_writes_very_much_anew(tmp_path, monkeypatch):
    """As many keys as become a few large segments in memory; what is written anew is fetched."""
    life, fetched = DiskLife(tmp_path, Kept()), []
    records = KnownRecords.records

    def counted(known, kbs):
        fetched[-1] += len(kbs)
        return records(known, kbs)

    monkeypatch.setattr(KnownRecords, "records", counted)
    for start in range(0, 63_000, 7_000):
        fetched.append(0)
        life.state.update({f"customer-{n:012d}": n for n in range(start, start + 7_000)})
        life.commit()
    assert max(fetched) < 30_000
    life.state.update({f"visitor-{n:012d}": n * n for n in range(40_000)})
    life.commit()
    assert len(life.state) == 103_000
    assert max(len(data) for [data] in life.kept.journals.values()) < 5 << 18
    life.state.close()


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_the_entries_of_tuples_that_begin_alike(tmp_path, is_confirmed):
    life = DiskLife(tmp_path, Kept())
    for first in (1, 2, 256, 1.5, "a"):
        for second in ("x", "y\x00", 3):
            life.state[first, second] = [first]
    life.state[1] = life.state["a"] = life.state[1,] = "another"
    life.commit() if is_confirmed else life.write_down()
    everything = {(1, "x"): [1], (1, "y\x00"): [1], (1, 3): [1], (1,): "another"}
    assert dict(life.state.items_of(1)) == everything
    assert dict(life.state.items_of("a", 3)) == {("a", 3): ["a"]}
    life.state[1, "x"] = life.state[1, "new"] = life.state[2, "new"] = "changed"
    del life.state[1, 3]
    expected = {(1, "x"): "changed", (1, "new"): "changed", (1, "y\x00"): [1], (1,): "another"}
    assert dict(life.state.items_of(1)) == expected
    life.state.forget([*expected, (1, "never")])
    assert dict(life.state.items_of(1)) == {}
    assert len(life.state) == 15
    life.state.begin_batch("t2") if not is_confirmed else None
    life.commit()
    life.restart(lost=True)
    assert len(life.state) == 15
    assert dict(life.state.items_of(1)) == {}
    life.state.close()
