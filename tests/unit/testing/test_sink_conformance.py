"""The conformance of sinks: a right one passes, and each broken one is caught."""

import pytest

from fulmen import Rows, Sink
from fulmen.api import StoreMismatch
from fulmen.testing.sinks import CASES, SinkHarness, Subject
from support.parts import sink_parts
from support.parts.sink_parts import Memory, MemorySink

EXACTLY = {"guarantee": "exactly-once"}


@pytest.fixture(autouse=True)
def memory(monkeypatch):
    monkeypatch.setattr(sink_parts, "MEMORY", Memory())
    return sink_parts.MEMORY


def subject(cls=MemorySink, config=EXACTLY):
    return Subject(
        cls,
        config,
        fields=["value"],
        row=lambda i: [f"value {i}"],
        read=lambda: [[value] for value in sink_parts.MEMORY.rows],
        refused=[["bad"]],
    )


@pytest.mark.parametrize("guarantee", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_sink_that_is_right_passes(case, guarantee):
    case(subject(config={"guarantee": guarantee}))


class Broken(MemorySink):
    """Writes as its `write_rows` says."""

    def write(self, rows, mark):
        for i, reason in self.write_rows(sink_parts.MEMORY, rows, mark).items():
            rows.fail(i, reason)


class IgnoresMarks(Broken):
    def write_rows(self, memory, rows, mark):
        return memory.write(rows, None)


class OneMarkForAll(Broken):
    def write_rows(self, memory, rows, mark):
        from dataclasses import replace

        return memory.write(rows, replace(mark, sink="all"))


class LosesRows(Broken):
    def write_rows(self, memory, rows, mark):
        return memory.write(Rows(rows.fields, rows[1:]), mark)


class ForgetsRefused(Broken):
    def write_rows(self, memory, rows, mark):
        refused = memory.write(rows, mark)
        return {} if memory.repeated else refused


class TakesWhatIsLate(Broken):
    def write_rows(self, memory, rows, mark):
        found = memory.marks.get(mark.sink)
        if found is not None and found[0] > mark.number:
            del memory.marks[mark.sink]
        return memory.write(rows, mark)


class TakesWhatHasAGapBeforeIt(Broken):
    def write_rows(self, memory, rows, mark):
        found = memory.marks.get(mark.sink)
        if found is not None and found[0] < mark.number:
            memory.marks[mark.sink] = mark.previous
        return memory.write(rows, mark)


class LeavesOutWhatIsLateInSilence(Broken):
    def write_rows(self, memory, rows, mark):
        found = memory.marks.get(mark.sink)
        return {} if found is not None and found[0] > mark.number else memory.write(rows, mark)


class RemembersInItself(Broken):
    """Keeps the mark in the process, where a loss ends it."""

    mark = None

    def write_rows(self, memory, rows, mark):
        if mark == self.mark:
            return {}
        self.mark = mark
        return memory.write(rows, None)


class RefusesAll(Broken):
    def write_rows(self, memory, rows, mark):
        if any(value == "bad" for (value,) in rows):
            return dict.fromkeys(range(len(rows)), "one is bad")
        return memory.write(rows, mark)


@pytest.mark.parametrize(
    "cls",
    [
        IgnoresMarks,
        OneMarkForAll,
        LosesRows,
        ForgetsRefused,
        TakesWhatIsLate,
        TakesWhatHasAGapBeforeIt,
        LeavesOutWhatIsLateInSilence,
        RemembersInItself,
        RefusesAll,
    ],
)
def test_a_sink_that_is_broken_is_caught(cls, monkeypatch):
    caught = []
    for case in CASES:
        monkeypatch.setattr(sink_parts, "MEMORY", Memory())
        try:
            case(subject(cls))
        except (AssertionError, StoreMismatch):
            caught.append(case.__name__)
    assert caught


class Encodes(Sink):
    def encode(self, rows):
        return [1] if len(rows) > 1 else [str(value) for (value,) in rows]

    def write(self, rows, mark):
        assert mark is None
        sink_parts.MEMORY.rows += rows


def test_the_harness_gives_write_what_encode_made(memory):
    with SinkHarness(Encodes) as sink:
        sink.write([[1]])
        assert memory.rows == ["1"]
        with pytest.raises(AssertionError, match="1 items for 2 rows"):
            sink.write([[1], [2]])
