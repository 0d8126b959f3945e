"""Why tuples failed: what is counted, shown and waited for."""

import pytest

from fulmen import BasicBolt, Bolt, FailedException, TopologyBuilder
from fulmen.cli.display.formats import age
from fulmen.engine.protocol.figures.failure_reasons import (
    MOST_REASONS,
    OTHER,
    FailureReasons,
    kind_of,
)
from fulmen.engine.protocol.summary import Resting
from fulmen.engine.totals.derived_waits import resting_waits
from fulmen.engine.totals.failures import Failures
from fulmen.plan import make_plan
from fulmen.secrets import note
from fulmen.testing import ListSpout, ManualClock, NotDrained, run


class Fails(BasicBolt):
    def execute(self, tup, collector):
        if tup[0] % 2:
            raise FailedException(f"no price for item {tup[0]} of 'shop{tup[0]}'")
        if tup[0] == 4:
            raise ValueError("four")


class Keeps(Bolt):
    def prepare(self, conf, context, collector):
        self.kept = []

    def execute(self, tup):
        self.kept.append(tup)


def topology(bolt, items=range(6), **spec):
    builder = TopologyBuilder(**spec)
    builder.set_spout("numbers", ListSpout(list(items), replays=False))
    builder.set_bolt("prices", bolt).shuffle_grouping("numbers")
    return builder


def test_reasons_are_counted_by_component_and_kind_with_an_example():
    result = run(topology(Fails))
    found = {
        one["reason"]: one["count"] for one in result.report["components"]["prices"]["failures"]
    }
    assert found == {
        "no price for item 5 of 'shop5'": 3,
        "bolt 'prices': execute: ValueError: four": 1,
    }
    assert result.report["components"]["numbers"]["failures"] == []


def test_a_message_that_times_out_counts_as_the_spouts():
    result = run(topology(Keeps, [1], message_timeout_seconds=1), clock=ManualClock())
    [failure] = result.report["components"]["numbers"]["failures"]
    assert (failure["reason"], failure["count"]) == ("timed out", 1)


def test_a_failure_is_no_error():
    result = run(topology(Fails))
    assert [error.message for error in result.errors] == ["execute: ValueError: four"]


def test_kinds_leave_out_numbers_and_quoted_texts():
    assert kind_of("row 12: 'x' is no \"y\"") == "row …: … is no …"


def test_the_number_of_kinds_is_bounded_in_a_batch_and_in_all():
    reasons, failures = FailureReasons(), Failures()
    for i in range(100):
        reasons.add("bolt", 3, "x" * (i + 1))
    found = list(reasons)
    assert len(found) == MOST_REASONS + 1
    assert {one.kind: one.number for one in found}[OTHER] == 100 - MOST_REASONS
    for moment in range(3):
        for i in range(100):
            again = FailureReasons()
            again.add("bolt", 3, chr(97 + moment) * (i + 1))
            for one in again:
                failures.add(one, float(moment))
    assert len(failures["bolt"]) == MOST_REASONS + 1
    assert sum(reason.count for reason in failures["bolt"].values()) == 300


def test_secrets_are_masked_and_examples_are_short():
    note("${REASONS_TOKEN}", "hunter2-hunter2", {"REASONS_TOKEN": "hunter2-hunter2"})
    reasons = FailureReasons()
    reasons.add("bolt", 3, "no entry with hunter2-hunter2" + "x" * 10_000)
    [found] = reasons
    assert found.example.startswith("no entry with ${REASONS_TOKEN}")
    assert len(found.example) == 500
    assert "hunter2" not in found.kind


@pytest.mark.parametrize(
    ("messages", "failures", "text"),
    [
        (1, 1, "1 message of 's' failed (once) and will be tried again; the last reason: no"),
        (
            3,
            1,
            "3 messages of 's' failed (up to once) and will be tried again; the last reason: no",
        ),
        (1, 9, "1 message of 's' failed (9 times) and will be tried again; the last reason: no"),
    ],
)
def test_what_comes_again_is_said_in_a_sentence(messages, failures, text):
    builder = TopologyBuilder()
    builder.set_spout("s", ListSpout([]))
    plan = make_plan(builder.build())
    resting = {plan.tasks("s")[0]: Resting(messages, 1.0, failures, "no")}
    [wait] = resting_waits(resting, plan)
    assert wait.sentence == text


def test_a_test_whose_message_only_fails_ends_soon_and_says_why():
    builder = TopologyBuilder()
    builder.set_spout("numbers", ListSpout([0, 1]))
    builder.set_bolt("prices", Fails).shuffle_grouping("numbers")
    with pytest.raises(NotDrained) as failure:
        run(builder)
    assert failure.value.batches < 500
    assert "- prices: 1" in str(failure.value)
    assert "such as: no price for item 1 of 'shop1'" in str(failure.value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1.5, "1,500 ms"),
        (119, "119.0 s"),
        (150, "2 min 30 s"),
        (3600, "1 h"),
        (2 * 86_400 + 3 * 3600, "2 days 3 h"),
        (212198924.1, "6 years 8 months"),
        (20 * 31_557_600, "20 years"),
    ],
)
def test_ages_are_in_words_of_a_person(seconds, text):
    assert age(seconds) == text
