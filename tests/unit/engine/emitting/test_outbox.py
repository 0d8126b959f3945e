"""What leaves a worker, and in which order."""

import numpy as np
import pyarrow as pa

from fulmen.api.declarer import Stream
from fulmen.engine.emitting.combined_tuples import Combiners
from fulmen.engine.emitting.outbox import Outbox
from fulmen.engine.emitting.routes import Routes
from fulmen.engine.protocol.placed_topology import PlacedTopology
from fulmen.engine.protocol.summary import Measured
from fulmen.engine.tuples import wire
from fulmen.engine.tuples.tuple_rows import TupleRows
from fulmen.plan import make_plan
from support.windows.aggregates import FIELDS, TUMBLING, topology


def test_arrow_does_not_overtake_tuples_that_are_combined():
    aggregates = {"first": "first(amount)", "last": "last(amount)"}
    made = topology([], TUMBLING, aggregates=aggregates, partial=True).build()
    made = made.model_copy(update={"spec": made.spec.model_copy(update={"workers": 2})})
    streams = {
        "source": {"default": Stream(tuple(FIELDS))},
        "windows": {"default": Stream(("n",)), "late": Stream(("n",))},
    }
    placed = PlacedTopology("run", made, make_plan(made), streams, {}, "memory://x", None, (0,))
    rng = np.random.default_rng(1)
    task = placed.plan.tasks("source")[0]
    stage = placed.plan.stage_of("source")
    outbox = Outbox(placed, stage, rng, Measured())
    outbox.combined = Combiners(placed, stage, ["source"]).begin({})
    routes = Routes(placed, task, "default", streams["source"]["default"], rng)
    arrow = pa.record_batch({"user": ["a"], "amount": [2], "at": [5]})
    for rows in (TupleRows([["a", 1, 5]]), TupleRows.of_arrow(arrow), TupleRows([["a", 3, 5]])):
        outbox.send(task, routes, rows, None)
    outbox.pack_all()
    parcels = [wire.unpack_tuples(row) for _, row in outbox.take_rows()]
    assert [placed.sent[one.subscription].is_combined for one in parcels] == [True, False, True]
