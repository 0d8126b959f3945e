"""Components that call functions of a test: everything runs in this process.

A component's `config` names its functions; the instance is the first argument of each. The bolts
declare the streams `default` (x), `pair` (a, b) and the direct `to-task` (x).
"""

from types import MappingProxyType

from fulmen import (
    ArrowBolt,
    ArrowSpout,
    BasicBolt,
    Bolt,
    CustomStreamGrouping,
    Spout,
    Stream,
    TopologyBuilder,
)
from fulmen.testing import CollectBolt, ListSpout, run

HOOKS = {}
OUTPUTS = MappingProxyType(
    {"default": ["x"], "pair": ["a", "b"], "to-task": Stream(("x",), direct=True)}
)


def hooks(**functions):
    """A component's config that names these functions."""
    names = {}
    for what, function in functions.items():
        name = f"{what}-{len(HOOKS)}"
        HOOKS[name] = function
        names[what] = name
    return {"hooks": names}


class Hooked:
    outputs = OUTPUTS

    def call(self, what, *args):
        """Call the test's function, if there is one."""
        name = self.conf["hooks"].get(what)
        return HOOKS[name](self, *args) if name else None

    def begin(self, conf, context, what, collector=None):
        self.conf, self.context = conf, context
        if collector is not None:
            self.collector = collector
        self.call(what)


class HookSpout(Hooked, Spout):
    """Functions: open, next_tuple, ack, fail, activate, deactivate, close, is_exhausted."""

    def open(self, conf, context, collector):
        self.begin(conf, context, "open", collector)

    def next_tuple(self):
        return self.call("next_tuple")

    def ack(self, msg_id):
        self.call("ack", msg_id)

    def fail(self, msg_id, reason):
        self.call("fail", msg_id, reason)

    def activate(self):
        self.call("activate")

    def deactivate(self):
        self.call("deactivate")

    def close(self):
        self.call("close")

    def is_exhausted(self):
        return bool(self.call("is_exhausted"))


class StormSpout(HookSpout):
    """With Storm's own signature of `fail`."""

    def fail(self, msg_id):
        self.call("fail", msg_id)


class BatchedSpout(HookSpout):
    """Hears of many acks in one call."""

    def ack_batch(self, msg_ids):
        self.call("ack_batch", list(msg_ids))


class HookArrowSpout(Hooked, ArrowSpout):
    def open(self, conf, context, collector):
        self.begin(conf, context, "open", collector)

    def next_tuple(self):
        return self.call("next_tuple")

    def ack_batch(self, msg_ids):
        self.call("ack_batch", msg_ids)

    def fail(self, msg_id, reason):
        self.call("fail", msg_id, reason)

    def is_exhausted(self):
        return bool(self.call("is_exhausted"))


class HookBolt(Hooked, Bolt):
    """Functions: prepare, execute, cleanup."""

    def prepare(self, conf, context, collector):
        self.begin(conf, context, "prepare", collector)

    def execute(self, tup):
        self.call("execute", tup)

    def cleanup(self):
        self.call("cleanup")


class HookBasicBolt(Hooked, BasicBolt):
    def prepare(self, conf, context):
        self.begin(conf, context, "prepare")

    def execute(self, tup, collector):
        self.call("execute", tup, collector)


class HookArrowBolt(Hooked, ArrowBolt):
    def prepare(self, conf, context):
        self.begin(conf, context, "prepare")

    def execute(self, batch, collector):
        self.call("execute", batch, collector)

    def tick(self, collector):
        self.call("tick", collector)


class Refuses(BasicBolt):
    """Fails what is in its `config`, so often; the rest goes on to the sink."""

    outputs = ("value",)

    def prepare(self, conf, context):
        self.left = dict(conf["refuse"])

    def execute(self, tup, collector):
        key = str(tup["value"])
        if self.left.get(key):
            self.left[key] -= 1
            raise ValueError("refused")
        collector.emit([tup["value"]])


class BrokenGrouping(CustomStreamGrouping):
    def prepare(self, context, stream, target_tasks):
        raise OSError("no table")

    def choose_tasks(self, task_id, values):
        return []


class Fragile:
    """Can't be unpickled while it is broken."""

    is_broken = False

    def __reduce__(self):
        return restore_fragile, ()


def restore_fragile():
    if Fragile.is_broken:
        raise ValueError("of an older version")
    return Fragile()


class Topology:
    """A spout, a bolt that is looked at, and a sink for each of its streams.

    Args:
        bolt: Its class.
        items: What the spout emits; or a HookSpout's functions.
        spec: Fields of TopologySpec.
    """

    def __init__(self, bolt=HookBolt, items=(), *, spout=None, tasks=1, tick=None, **spec):
        spec.setdefault("message_timeout_seconds", 3)
        self.builder = TopologyBuilder(**spec)
        if spout is None:
            replays = spec.get("max_replays") is not None
            self.builder.set_spout("source", ListSpout(items, fields=["x"], replays=replays))
        else:
            self.builder.set_spout("source", spout[0]).set_config(hooks(**spout[1]))
        self.bolt = self.builder.set_bolt("bolt", bolt, tasks).shuffle_grouping("source")
        if tick:
            self.bolt.set_tick_seconds(tick)
        self.sinks()

    def sinks(self):
        sink = self.builder.set_bolt("sink", CollectBolt).shuffle_grouping("bolt")
        sink.shuffle_grouping("bolt", "pair").direct_grouping("bolt", "to-task")

    def run(self, *, functions, **options):
        """Run it with these functions for the bolt."""
        self.bolt.set_config(hooks(**functions))
        return run(self.builder, **options)


def with_bolt(execute, items=(1,), *, kind=HookBolt, prepare=None, options=None, **spec):
    """The result of a topology whose bolt calls `execute`."""
    functions = {"execute": execute} | ({"prepare": prepare} if prepare else {})
    return Topology(kind, items, **spec).run(functions=functions, **(options or {}))


def messages(result):
    """The errors of a run."""
    return [error.message for error in result.errors]
