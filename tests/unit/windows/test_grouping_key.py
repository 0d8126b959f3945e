"""Windows, joins and deduplication whose equal keys come to several tasks: a warning says so."""

import pytest
import yaml

from fulmen import TopologyBuilder
from fulmen.cli.display.why.run import CURES
from fulmen.testing import CollectBolt, ListSpout
from fulmen.topology.validation.check import check
from fulmen.windows import Aggregate, Deduplicate, LookupJoin, WindowedBolt

FIELDS = ["user", "place", "n"]
COUNTS = {"key": ["user", "place"], "window": {"type": "count", "size": 2}}
AGGREGATE = Aggregate, {**COUNTS, "aggregates": {"count": "count"}}
ONCE = Deduplicate, {"id": ["user", "place"], "fields": ["n"], "horizon": "1h"}
SIDES = {
    "left": {"from": "source", "fields": ["n"]},
    "right": {"from": "table", "fields": {"m": "n"}},
}
JOIN = LookupJoin, {"key": ["user", "place"], **SIDES}


class Windows(WindowedBolt):
    outputs = ("n",)

    def execute(self, window):
        pass


WINDOWED = Windows, {"key": ["user", "place"], "window": {"length": 2}}
IN_PYTHON = Windows().with_window(2).with_key("user", "place"), {}
KINDS = [AGGREGATE, ONCE, JOIN, WINDOWED, IN_PYTHON]
SAID = "but equal values of its key must come to one task"
CURE = "Write grouping: {type: fields, fields: [user, place]}."


def warnings_of(kind, group, tasks=2, table=None):
    cls, config = kind
    builder = TopologyBuilder()
    builder.set_spout("source", ListSpout([], fields=FIELDS)).set_event_time("n")
    bolt = group(builder.set_bolt("bolt", cls, tasks).set_config(config))
    if cls is LookupJoin:
        builder.set_spout("table", ListSpout([], fields=FIELDS))
        (table or by_key)(bolt, "table")
    builder.set_bolt("sink", CollectBolt).shuffle_grouping("bolt")
    problems = [*check(yaml.safe_load(builder.to_yaml())).problems]
    assert {problem.severity for problem in problems} <= {"warning"}, problems
    return [(problem.message, problem.cure) for problem in problems]


def by_key(bolt, source="source"):
    return bolt.fields_grouping(source, ["place", "user"])


@pytest.mark.parametrize("kind", KINDS)
def test_equal_keys_that_come_to_several_tasks_are_told(kind):
    label = "bolt 'bolt', input from 'source'"
    for name, group in {
        "shuffle": lambda bolt: bolt.shuffle_grouping("source"),
        "local-or-shuffle": lambda bolt: bolt.local_or_shuffle_grouping("source"),
        "partial-key": lambda bolt: bolt.partial_key_grouping("source", ["user"]),
        "fields": lambda bolt: bolt.fields_grouping("source", ["user", "n"]),
    }.items():
        assert warnings_of(kind, group) == [(f"{label}: {name} grouping, {SAID}", CURE)]
        assert warnings_of(kind, group, tasks=1) == []


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_told_where_equal_keys_come_to_one_task(kind):
    assert warnings_of(kind, by_key) == []
    assert warnings_of(kind, lambda bolt: bolt.fields_grouping("source", ["place"])) == []
    assert warnings_of(kind, lambda bolt: bolt.global_grouping("source")) == []


def test_what_is_advised_for_a_frequent_key_is_no_mistake():
    assert "if it has `partial: true`" in CURES["skew"]
    tumbling = {"type": "tumbling", "size": "1m"}
    config = AGGREGATE[1] | {"window": tumbling, "time": "n", "partial": True}
    assert warnings_of((Aggregate, config), by_key) == []


def test_a_table_that_every_task_has_whole_is_there_for_what_comes_to_any_of_them():
    def to_all(bolt, source):
        return bolt.all_grouping(source)

    assert warnings_of(JOIN, lambda bolt: bolt.shuffle_grouping("source"), table=to_all) == []
