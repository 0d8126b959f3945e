"""`onError` and errors that are no exception of `execute`: emits that can't be sent, the end."""

import pyarrow as pa
import pytest

from fulmen import TopologyBuilder
from fulmen.engine.driver.driver import Silent, Stop
from fulmen.engine.protocol.figures.statistics import ERRORS
from fulmen.errors import TopologyFailed
from fulmen.testing import CollectBolt, ListSpout, run
from support.parts.hooks import HookArrowBolt, HookBasicBolt, HookBolt, HookSpout, hooks
from support.runs.engine_runs import make_driver

NO_HASH = {"a": 1}  # a dict has no hash that is the same in every process


def anchoring(bolt, tup):
    bolt.collector.emit([NO_HASH], anchors=tup)
    bolt.collector.ack(tup)


EMITS = {
    "basic": (HookBasicBolt, lambda bolt, tup, collector: collector.emit([NO_HASH])),
    "anchoring": (HookBolt, anchoring),
    "arrow": (
        HookArrowBolt,
        lambda bolt, batch, collector: collector.emit(pa.record_batch({"x": [NO_HASH]})),
    ),
}


def bolt_topology(kind, on_error):
    cls, execute = EMITS[kind]
    builder = TopologyBuilder(on_error=on_error)
    builder.set_spout("source", ListSpout(["a"], fields=["x"], replays=False))
    builder.set_bolt("emits", cls).set_config(hooks(execute=execute)).shuffle_grouping("source")
    builder.set_bolt("sink", CollectBolt, 2).fields_grouping("emits", ["x"])
    return builder


def emit_once(spout):
    if not spout.__dict__.get("emitted"):
        spout.emitted = True
        spout.collector.emit([NO_HASH], msg_id=1)


def spout_topology(kind, on_error):
    builder = TopologyBuilder(on_error=on_error)
    config = hooks(next_tuple=emit_once, is_exhausted=lambda spout: "emitted" in spout.__dict__)
    builder.set_spout("emits", HookSpout).set_config(config)
    builder.set_bolt("sink", CollectBolt, 2).fields_grouping("emits", ["x"])
    return builder


KINDS = [(spout_topology, "spout"), *((bolt_topology, kind) for kind in EMITS)]


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_an_emit_without_a_task_to_go_to_fails_its_tree(make, kind):
    result = run(make(kind, "fail"))
    [error] = result.errors
    assert error.message.startswith("emit: no task can be chosen by a value of type 'dict'")
    assert result.trees["failed"] == 1


@pytest.mark.parametrize(("make", "kind"), KINDS)
def test_with_on_error_crash_an_emit_that_can_not_be_sent_stops_the_topology(make, kind):
    with pytest.raises(TopologyFailed, match=r"'emits', task \d: emit: no task can be chosen"):
        run(make(kind, "crash"))


# ---- what `close` and `cleanup` raise ------------------------------------------------------------


class Heard(Silent):
    def __init__(self):
        self.errors = []

    def error(self, error):
        self.errors.append((error.component, error.message))


def raises(*args):
    raise OSError("gone")


def ended(topology):
    heard = Heard()
    driver = make_driver(topology, observer=heard).start()
    driver.run(Stop(when_drained=True))
    driver.close()
    return heard.errors, driver.totals


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_at_the_end_are_told_and_counted(workers):
    builder = TopologyBuilder(workers=workers)
    builder.set_spout("source", HookSpout).set_config(
        hooks(close=raises, is_exhausted=lambda spout: True)
    )
    bolt = builder.set_bolt("bolt", HookBolt, 2).set_config(hooks(cleanup=raises))
    bolt.shuffle_grouping("source")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("bolt")
    errors, totals = ended(builder)
    assert sorted(errors) == [
        ("bolt", "cleanup: OSError: gone"),
        ("source", "close: OSError: gone"),
    ]
    assert [totals.sum(ERRORS, name) for name in ("bolt", "source")] == [2, 1]
    assert totals.report()["components"]["source"]["errors"] == [
        {
            "task": totals.placed.plan.tasks("source")[0],
            "message": "close: OSError: gone",
            "count": 1,
        }
    ]


class Pinned(HookSpout):
    pinned = True


def test_errors_of_pinned_spouts_are_told():
    builder = TopologyBuilder()
    builder.set_spout("source", Pinned).set_config(
        hooks(close=raises, is_exhausted=lambda spout: True)
    )
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("source")
    assert ended(builder)[0] == [("source", "close: OSError: gone")]
