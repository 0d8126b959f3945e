"""Single keys of keyed state, out of a checkpoint."""

import random
from decimal import Decimal
from enum import StrEnum

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen.checkpoint import CommitLog, Store, load, save
from fulmen.engine.state.committed_state import read_key, read_state
from fulmen.engine.state.entries import segment_blocks
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.entries.measures import (
    FEW,
    NO_HASH,
    KeyMeasures,
    hashes_of,
    quick_size,
    sizes_of,
    stable_hash,
)
from fulmen.engine.state.key_finder import KeyFinder
from fulmen.errors import CheckpointError
from support.runs.engine_runs import new_store


class Colour(StrEnum):
    RED = "red"


class Metered:
    """The backend of a store that counts the bytes which are read."""

    def __init__(self, backend):
        self.backend, self.read = backend, 0

    def __getattr__(self, verb):
        def call(*args):
            result = getattr(self.backend, verb)(*args)
            if verb in ("get", "get_range"):
                self.read += len(result)
            elif verb == "get_many":
                self.read += sum(map(len, result))
            return result

        return call


class Life:
    """A task of the component `count`, whose keyed state is committed."""

    def __init__(self, store):
        self.store = store
        self.log = CommitLog(store, "counting", "me")
        self.log.claim()
        self.state = KeyedState()

    def commit(self):
        number, tag = self.log.manifest.number + 1, f"t{self.log.manifest.number}"
        updates = {
            journal: save(self.store, number, tag, "count/0", journal, data, keep_from)
            for journal, (data, keep_from) in self.state.updates(number).items()
        }
        draft = self.log.draft(tag=tag, clock=0.0, updates={"count/0": updates} if updates else {})
        self.log.commit(draft)

    def restart(self):
        self.state = KeyedState.restore(load(self.store, self.log.manifest, "count/0"))


@pytest.fixture
def small_blocks(monkeypatch):
    """As if segments were large."""
    monkeypatch.setattr(segment_blocks, "WHOLE_BYTES", 200)
    monkeypatch.setattr(segment_blocks, "BLOCK_BYTES", 30)


INF = float("inf")
PLAIN = st.one_of(
    st.integers(-3, 30),
    st.sampled_from([1.0, 2.5, INF, True, False, None, b"1", b"x", 10**30, -(2**61)]),
    st.text("12ab\n'\ud800", max_size=2),
    st.sampled_from([Colour.RED, "red", Decimal(1), frozenset({1}), "(1, 'a')", "None", "1.0"]),
)
KEYS = st.one_of(PLAIN, st.tuples(PLAIN, PLAIN), st.tuples(PLAIN))


@settings(max_examples=15)
@given(
    st.lists(
        st.lists(st.tuples(KEYS, st.one_of(st.none(), st.text(max_size=9))), max_size=20),
        max_size=8,
    )
)
@example([[(0, ""), ((1.0,), "")], [((1,), None)]])  # equal keys, other texts
@pytest.mark.usefixtures("small_blocks")
def test_a_key_is_found_by_its_text_wherever_it_is(batches):
    life = Life(new_store(inline_bytes=150))
    texts = {"nothing"}
    finders = [KeyFinder(life.store, size) for size in (0, 200, 1 << 20)]
    for batch in batches:
        for key, value in batch:
            texts.add(str(key))
            if value is None:
                life.state.pop(key, None)
            else:
                life.state[key] = value
        life.commit()
        for text in sorted(texts)[-6:]:
            wanted = {key: value for key, value in life.state.items() if str(key) == text}
            for finder in finders:  # each has read something of earlier commits
                assert finder.find(life.log.manifest, "count", text).get(0, {}) == wanted
    kept = read_state(life.store, "count").tasks.get(0, {})
    assert kept == life.state
    for text in sorted(texts)[:12]:
        found = read_key(life.store, "count", text).tasks.get(0, {})
        assert found == {key: value for key, value in kept.items() if str(key) == text}


@pytest.mark.usefixtures("small_blocks")
def test_keys_of_many_kinds_are_found():
    life = Life(new_store(inline_bytes=150))
    keys = [
        "a",
        "1x",
        7,
        -1,
        2.5,
        INF,
        (INF, "inf"),
        (-INF, 1),
        None,
        True,
        b"b",
        (1, ("a", None)),
        Colour.RED,
    ]
    for n in range(100):
        life.state[f"other-{n}"] = n
    for key in keys:
        life.state[key] = repr(key)
    life.commit()
    for key in keys:
        assert read_key(life.store, "count", str(key)).tasks == {0: {key: repr(key)}}


@pytest.mark.parametrize("kind", ["file", "memory"])
def test_finding_one_key_reads_a_small_part_of_the_state(tmp_path, kind):
    plain = Store.open(f"{tmp_path.as_uri()}?fsync=false") if kind == "file" else new_store()
    metered = Metered(plain._backend)
    store = Store(plain.uri, metered)
    life = Life(store)
    life.state["large"] = "x" * 3_000_000
    for n in range(40_000):
        life.state[f"key-{n}"] = n * 10**9
    life.commit()
    chance = random.Random(3)
    for _ in range(5):
        for n in chance.sample(range(40_000), 20):
            life.state[f"key-{n}"] += 1
        life.commit()
    metered.read = 0
    whole = read_state(store, "count").tasks[0]
    all_of_it, metered.read = metered.read, 0
    assert read_key(store, "count", "key-777").tasks == {0: {"key-777": whole["key-777"]}}
    assert all_of_it > 3_700_000
    assert metered.read < all_of_it / 20
    assert read_key(store, "count", "large").tasks[0] == {"large": "x" * 3_000_000}
    assert read_key(store, "count", "key-40000").tasks == {0: {}}
    finder, costs = KeyFinder(store, 1 << 20), []
    for _ in range(3):
        metered.read = 0
        found = finder.find(life.log.manifest, "count", "key-777")
        assert found[0]["key-777"] == whole["key-777"]
        costs.append(metered.read)
        life.state["key-1"] += 1
        life.commit()
    assert costs[0] > 16_000
    assert max(costs[1:]) < 8_000, "only what is in commits themselves"


@pytest.mark.usefixtures("small_blocks")
def test_a_block_that_is_damaged_is_noticed():
    life = Life(new_store(inline_bytes=150))
    life.state.update((f"key-{n}", n) for n in range(100))
    life.commit()
    [file] = life.log.manifest.files
    data = life.store.get(file)
    life.store.delete([file])
    life.store.put(file, data[:-200] + bytes(200))
    with pytest.raises(CheckpointError, match="damaged"):
        [read_key(life.store, "count", f"key-{n}") for n in range(100)]


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (1, True), (0, False), ((1, "a"), (1.0, "a")), (2**70, 2.0**70)]
)
def test_equal_keys_have_equal_hashes(one, other):
    assert one == other
    assert stable_hash(one) == stable_hash(other) is not None


@pytest.mark.parametrize("key", [float("nan"), Colour.RED, Decimal(1), (1, Decimal(1)), object()])
def test_keys_of_other_kinds_have_none(key):
    assert stable_hash(key) is None


OF_A_KIND = st.sampled_from(
    [
        st.integers(),
        st.floats(),
        st.text("ab\xe4\ud800", max_size=9),
        st.text("ab", max_size=9),
        st.binary(max_size=9),
        st.booleans(),
        st.none(),
    ]
)
ALIKE = st.one_of(
    OF_A_KIND.flatmap(lambda one: st.lists(one, max_size=9)),
    st.lists(OF_A_KIND, max_size=3).flatmap(lambda some: st.lists(st.tuples(*some), max_size=9)),
    st.lists(OF_A_KIND, max_size=3).flatmap(
        lambda some: st.lists(st.tuples(st.tuples(*some), st.none()), max_size=9)
    ),
    st.lists(KEYS, max_size=9),
)


@given(ALIKE)
def test_many_keys_have_the_sizes_and_hashes_that_each_has(keys):
    for some in (keys, keys * FEW, [*keys * FEW, "other"]):  # few, of a kind, and of several
        assert sizes_of(some).tolist() == list(map(quick_size, some))
        hashes = [NO_HASH if key is None else key for key in map(stable_hash, some)]
        assert hashes_of(some).tolist() == hashes


@given(st.lists(st.tuples(ALIKE, st.sampled_from(("behind", "before", "alone"))), max_size=6))
def test_keys_that_are_measured_again_have_the_same_sizes_and_hashes(steps):
    """Others come behind them or before them, or they are gone."""
    measures, keys = KeyMeasures(), []
    for some, where in steps:
        more = some * FEW
        keys = {"behind": [*keys, *more], "before": [*more, *keys], "alone": more}[where]
        assert measures.sizes_of(keys).tolist() == list(map(quick_size, keys))
        if where != "before":  # a commit of few bytes needs no hashes
            assert measures.hashes_of(keys).tolist() == hashes_of(keys).tolist()


def test_a_state_most_of_which_changes_with_each_commit_loses_nothing_and_brings_nothing_back():
    """Across restarts, with keys that come and go, in several blocks."""
    chance, life, last = random.Random(3), Life(new_store()), 0
    for number in range(24):
        for _ in range(300):
            life.state[last % 997, f"key-{last}"] = number
            last += 1
        for key in chance.sample(list(life.state), 3 * len(life.state) // 4):
            life.state[key] = number
        for key in chance.sample(list(life.state), chance.choice((0, 0, 9, 290))):
            del life.state[key]
        life.commit()
        assert read_state(life.store, "count").tasks[0] == life.state
        if number % 9 == 5:
            life.restart()
    for key in chance.sample(list(life.state), 20):
        assert read_key(life.store, "count", str(key)).tasks[0] == {key: life.state[key]}


SETS_OF_A_KIND = OF_A_KIND.flatmap(lambda one: st.lists(st.sets(one), max_size=9))


@given(SETS_OF_A_KIND | st.lists(st.sets(KEYS), max_size=9))
def test_many_sets_have_the_sizes_that_each_has(sets):
    for some in (sets, sets * FEW, [*sets * FEW, {"other"}]):  # few, of a kind, and of several
        sizes = list(map(quick_size, some))
        assert sizes_of(some).tolist() == sizes
        in_tuples = [(one, None) for one in some]
        assert sizes_of(in_tuples).tolist() == [size and size + 10 for size in sizes]
