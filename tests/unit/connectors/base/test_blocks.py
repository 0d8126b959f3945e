"""Blocks of a source against one entry for each message."""

import math
import pickle
from decimal import Decimal
from uuid import UUID

from hypothesis import example, given
from hypothesis import strategies as st

from fulmen.connectors.base.blocks import EmittedBlocks, kept_bytes

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["end", "fail"]), st.lists(st.integers(0, 25), max_size=6)),
        st.tuples(st.just("restore"), st.none()),
    ),
    max_size=25,
)


@given(steps=STEPS, keeps=st.booleans())
@example(steps=[("add", 2), ("fail", [0]), ("restore", None), ("end", [0])], keeps=False)
@example(steps=[("add", 1), ("fail", [0]), ("end", [0])], keeps=True)
@example(steps=[("add", 2), ("end", [0]), ("restore", None), ("end", [1])], keeps=False)
def test_blocks_know_what_waits_and_what_was_kept_of_it(steps, keeps):
    state, left = {}, {}
    blocks, waiting, acked_before, number = EmittedBlocks(state, left), {}, set(), 0
    for what, of in steps:
        if what == "add":
            ids = [f"m{number + i}" for i in range(of)]
            number += of
            blocks.add(ids, [["row", msg_id] for msg_id in ids] if keeps else None)
            waiting |= {msg_id: ["row", msg_id] if keeps else None for msg_id in ids}
        elif what == "end":
            ids = [f"m{i}" for i in of if f"m{i}" not in acked_before]
            ended = list(blocks.end(ids))
            assert ended == [i for i in dict.fromkeys(ids) if i in waiting]
            for msg_id in ended:
                del waiting[msg_id]
        elif what == "fail":
            for msg_id in (f"m{i}" for i in of if f"m{i}" not in acked_before):
                assert blocks.fail(msg_id) == (msg_id in waiting)
                if msg_id in waiting:
                    assert blocks[msg_id] == waiting[msg_id]
        else:
            state, left = pickle.loads(pickle.dumps((state, left)))
            blocks = EmittedBlocks(state, left)
            acked_before = set(blocks.ids()) - set(waiting)
        assert set(waiting) <= set(blocks.ids()) <= set(waiting) | acked_before
        assert all(msg_id in blocks for msg_id in waiting)
        assert bool(state) == bool(waiting) == bool(blocks.ids())


def test_values_of_databases_are_kept_as_they_are():
    given = [UUID(int=7), *map(Decimal, ["1.10", "-0", "1E+400", "sNaN", "-Infinity"]), math.inf]
    kept = pickle.loads(kept_bytes([given, {"a": given[0]}]))
    assert repr(kept) == repr([given, {"a": given[0]}])
