"""Topologies of a spout whose methods are given, and a sink for its stream."""

from fulmen import TopologyBuilder
from fulmen.testing import CollectBolt, run
from support.parts.hooks import HookSpout, hooks

WHO = "spout 'source', task 3"


def topology(kind=HookSpout, *, bolt=CollectBolt, conf=None, **spec):
    """A spout, and a sink for its stream."""
    spec.setdefault("message_timeout_seconds", 3)
    builder = TopologyBuilder(**spec)
    builder.set_spout("source", kind).set_config(conf or {})
    builder.set_bolt("sink", bolt).shuffle_grouping("source")
    return builder


def with_spout(kind=HookSpout, options=None, spec=None, **functions):
    return run(topology(kind, conf=hooks(**functions), **(spec or {})), **(options or {}))


def emitting(*values, msg_ids=True):
    """next_tuple of a spout that emits these, one in each call."""

    def next_tuple(spout):
        spout.__dict__.setdefault("at", 0)
        if spout.at < len(values):
            spout.at += 1
            spout.collector.emit([values[spout.at - 1]], msg_id=spout.at if msg_ids else None)

    return next_tuple


def recording(calls, *names):
    return {name: lambda spout, *args, n=name: calls.append((n, *args)) for name in names}
