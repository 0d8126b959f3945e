"""A TableJoin with ids on disk gives what one in memory gives: over restarts, crashes, numbers."""

import itertools
import random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fulmen import TopologyBuilder
from fulmen.engine.worker.in_process import Crash
from fulmen.testing import CollectBolt, ListSpout, run
from fulmen.windows import TableJoin
from support.runs.engine_runs import new_store

CONFIG = {
    "key": ["seller"],
    "left": {"from": "a", "fields": ["seller", "auction", "n"], "id": ["auction"]},
    "right": {"from": "b", "fields": ["person", "m"], "id": ["person"]},
    "type": "full",
}
MEMORY, DISK = ["memory"] * 4, ["disk"] * 4


class Remembering(TableJoin):
    """Notes how many keys it knows the ids of, before and after the end of each batch."""

    known = ()

    def end_batch(self, collector):
        before = len(self._ids._known)
        super().end_batch(collector)
        Remembering.known += ((before, len(self._ids._known)),)


def joining(cls, rows, backend, tasks):
    builder = TopologyBuilder("tables", max_spout_pending=30)
    builder.set_spout("a", ListSpout(rows["a"], fields=["seller", "auction", "n"]))
    builder.set_spout("b", ListSpout(rows["b"], fields=["seller", "person", "m"]))
    bolt = builder.set_bolt("join", cls, tasks).set_config(CONFIG).set_keyed_state(backend)
    for side in "ab":
        bolt.fields_grouping(side, ["seller"])
    builder.set_bolt("all", CollectBolt).global_grouping("join")
    return builder.build().with_each(lambda one: {"num_tasks": one.tasks})


def some_rows(seed, count=60):
    """For each run, the rows of both sides up to it: one side at a time, so that it is exact."""
    rng = random.Random(seed)
    rows = {"a": [], "b": []}
    for side in "abab":
        more = [[f"s{rng.randrange(5)}", rng.randrange(8), rng.randrange(99)] for _ in range(count)]
        rows = {**rows, side: rows[side] + more}
        yield rows


def joined(seed, backends, numbers=(2, 2, 2, 2), crash=None, cls=TableJoin):
    store, calls = new_store(), itertools.count()

    def fault(*_):
        if next(calls) == crash:
            raise Crash

    for rows, backend, tasks in zip(some_rows(seed), backends, numbers, strict=True):
        result = run(joining(cls, rows, backend, tasks), checkpoint=store, fault=fault)
    return sorted(map(repr, result.collected("all")))


@settings(max_examples=4, deadline=None)
@given(
    st.integers(0, 99),
    st.integers(0, 60),
    st.lists(st.integers(1, 4), min_size=4, max_size=4),
    st.lists(st.sampled_from(["disk", "memory"]), min_size=4, max_size=4),
)
@example(1, None, [2, 2, 2, 2], DISK)
@example(2, 25, [2, 4, 1, 3], DISK)
def test_what_is_joined_is_what_is_joined_in_memory(seed, crash, numbers, backends):
    expected = joined(seed, MEMORY)
    assert len(expected) > 500
    assert joined(seed, backends, numbers, crash) == expected


def test_ids_are_in_memory_for_one_batch():
    Remembering.known = ()
    joined(3, DISK, cls=Remembering)
    assert max(before for before, _ in Remembering.known) > 0
    assert {after for _, after in Remembering.known} == {0}
