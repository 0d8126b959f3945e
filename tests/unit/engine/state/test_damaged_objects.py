"""A checkpoint with damaged bytes is never read as another state: a message names the object.

A real checkpoint with every kind of object is damaged in one place at a time, and then read in each
way that there is: by a driver that starts, and by people who look.
"""

import itertools

import obstore
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from fulmen import Bolt, TopologyBuilder
from fulmen.checkpoint import Store, load_many, read_manifest, read_newest
from fulmen.checkpoint.remote import RemoteBackend
from fulmen.engine.state.committed_entries import entries_in
from fulmen.engine.state.committed_state import (
    read_fields,
    read_key,
    read_state,
    read_timers,
)
from fulmen.engine.state.entries.measures import KeyMeasures
from fulmen.engine.state.entries.segment_blocks import blocks_in, head_bytes
from fulmen.engine.state.entries.segment_format import encode
from fulmen.errors import CheckpointError
from fulmen.testing import ListSpout
from support.runs.engine_runs import make_driver

INLINE = 2000
"""Payloads of this size or more are files of their own: most journals have some of both kinds."""
TEXT = "".join(map(chr, range(33, 123)))
numbers = itertools.count()


class Keeps(Bolt):
    """Keeps a key for each tuple, fields, timers, and one of three tuples pending."""

    def __init__(self):
        self.seen = []

    def prepare(self, conf, context, collector):
        self.collector, self.context = collector, context

    def execute(self, tup):
        number = tup[0]
        self.state[f"key {number}"] = TEXT + str(number)
        self.seen.append(number)
        if number % 5 == 0:
            self.context.timers.set(number, at=10**12 + number)
        if number % 3:
            self.collector.ack(tup)

    def on_timer(self, timer, collector):
        raise AssertionError(timer)


def opened(objects):
    """A store that has these objects."""
    memory, uri = MemoryStore(), f"memory://damaged-{next(numbers)}"
    for key, data in objects.items():
        obstore.put(memory, key, data)
    return Store(uri, RemoteBackend(uri, memory), INLINE)


@pytest.fixture(scope="module")
def objects():
    memory = MemoryStore()
    store = Store("memory://whole", RemoteBackend("memory://whole", memory), INLINE)
    builder = TopologyBuilder("keeps")
    builder.set_spout("source", ListSpout(range(3000)))
    builder.set_bolt("keep", Keeps).fields_grouping("source", ["value"])
    driver = make_driver(builder, store=store).start()
    for _ in range(6):
        driver.step()
    driver.close()
    return {key: store.get(key) for key in store.list("")}


READS = {
    "state": lambda store: read_state(store, "keep").tasks,
    "fields": lambda store: read_fields(store, "keep").tasks,
    "timers": lambda store: read_timers(store, "keep").tasks,
    "one key": lambda store: [read_key(store, "keep", f"key {n}").tasks for n in (7, 777)],
    "journals": lambda store: load_many(store, *everything(store)),
    "entries": lambda store: list(entries_in(store, read_newest(store), "keep", "state")),
    "manifest": lambda store: vars(read_manifest(store, read_newest(store).number)),
}


WHOLE = {}


def whole(objects, read):
    """What is read of the objects as they were."""
    if read not in WHOLE:
        WHOLE[read] = READS[read](opened(objects))
    return WHOLE[read]


def everything(store):
    manifest = read_newest(store)
    return manifest, list(manifest.tasks)


def test_the_checkpoint_has_every_kind_of_object(objects):
    store = opened(objects)
    manifest = read_newest(store)
    journals = {journal.split(".")[0] for of in manifest.tasks.values() for journal in of}
    assert {"state", "fields", "timers", "pending", "trees"} <= journals
    state = [key for key in objects if key.startswith("state/") and "state=2E" in key]
    assert max(len(objects[key]) for key in state) > 130_000  # of several blocks
    assert len([key for key in objects if key.startswith("commits/")]) > 5


def damaged(data, how, place, byte):
    at = place % (len(data) + 1)
    if how == "flip":
        at = place % len(data)
        return data[:at] + bytes([data[at] ^ (1 << byte % 8)]) + data[at + 1 :]
    if how == "set":
        at = place % len(data)
        return data[:at] + bytes([byte]) + data[at + 1 :]
    if how == "cut":
        return data[:at]
    if how == "insert":
        return data[:at] + bytes([byte]) + data[at:]
    return data[:at] + data[at + 1 + byte :]  # "take out"


@pytest.mark.parametrize("read", READS)
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    which=st.integers(0, 10**6),
    how=st.sampled_from(["flip", "set", "cut", "insert", "take out"]),
    place=st.integers(0, 700) | st.integers(0, 10**6),
    byte=st.integers(0, 255),
)
def test_damaged_bytes_are_told_or_do_not_matter(objects, read, which, how, place, byte):
    key = sorted(objects)[which % len(objects)]
    data = damaged(objects[key], how, place, byte)
    if data == objects[key]:
        return
    told = ""
    try:
        found = READS[read](opened({**objects, key: data}))
    except CheckpointError as error:
        found, told = None, str(error)
    assert key in told if told else found == whole(objects, read)


def test_no_bit_of_the_head_of_a_segment_can_change_unnoticed():
    values = dict.fromkeys(range(400), "x" * 400)  # of several blocks
    [piece] = encode(values, [], {}, KeyMeasures())
    head = piece.data[: head_bytes(piece.data)]
    assert len(blocks_in("segment", head)) > 5
    for place, bit in itertools.product(range(len(head)), range(8)):
        with pytest.raises(CheckpointError, match="segment is damaged"):
            blocks_in("segment", damaged(piece.data, "flip", place, bit))
    for end in range(len(head)):
        with pytest.raises(CheckpointError, match="segment is damaged"):
            blocks_in("segment", head[:end])
