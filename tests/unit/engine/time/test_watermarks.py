"""Watermarks are what their definition says, for any course of events."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fulmen.engine.time.watermarks import READ, SourcePart, SourceTime, WatermarkRule, Watermarks
from fulmen.errors import CheckpointMismatch

NAMES = ["part a", "part b", "task 0", "task 1"]
BATCHES = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(NAMES), st.integers(-50, 50)),  # the newest times
        st.frozensets(st.sampled_from(["task 0", "task 1"])),  # tasks that have ended
        st.floats(0, 3),  # seconds since the batch before
    ),
    max_size=12,
)


def by_definition(rule, batches, expected):
    """The watermark after each batch, found by looking at all that happened so far."""
    clock, told, found, since = 0.0, [], None, {}
    for newest, ended, seconds in batches:
        clock += seconds
        told += [(name, at, clock) for name, at in newest.items()]
        has_parts = any(not name.startswith("task ") for name, _, _ in told)
        names = {name for name, _, _ in told}
        for name in () if has_parts else expected - ended - names:
            since.setdefault(name, clock)
        last = {name: max(c for n, _, c in told if n == name) for name in names}
        waiting = set() if has_parts else set(since) - names
        last |= {name: since[name] for name in waiting}
        live = {
            name
            for name, at in last.items()
            if name not in ended and (rule.idle_seconds is None or clock - at < rule.idle_seconds)
        }
        if live and not live & waiting:
            least = min(max(at for n, at, _ in told if n == name) for name in live) - rule.lag
            found = least if found is None else max(found, least)
        emitted = {n: max(at for m, at, _ in told if m == n) for n in names - ended}
        if not live and emitted:  # if that is wanted, each goes on since its last tuple
            since_then = {name: round(1000 * (clock - last[name])) for name in emitted}
            gone = [at + rule.advances * since_then[name] for name, at in emitted.items()]
            found = max(gone) - rule.lag if found is None else max(found, max(gone) - rule.lag)
        yield found


@given(BATCHES, st.integers(0, 20), st.none() | st.floats(0.5, 4), st.booleans(), st.booleans())
def test_a_watermark_is_what_its_definition_says(batches, lag, idle, advances, is_spout):
    rule, it, clock = WatermarkRule(lag, idle, advances), SourceTime(), 0.0
    expected = frozenset({"task 0", "task 1"} if is_spout else ())
    for (newest, ended, seconds), wanted in zip(
        batches, by_definition(rule, batches, expected), strict=True
    ):
        clock += seconds
        before = it.watermark
        it = it.after(rule, newest, expected - ended, ended, clock)
        assert it.watermark == wanted
        assert before is None or it.watermark >= before
        it = Watermarks.decode(Watermarks({"s": it}).encode()).sources["s"]


GRAPH = {"a": ["x"], "b": ["x", "y"], "c": ["a", "b"], "d": ["plain"], "e": ["d", "c"]}


@pytest.mark.parametrize(
    ("sources", "over", "passed"),
    [
        pytest.param({"x": 5, "y": 3}, [], {"a": 5, "b": 3, "c": 3, "e": 3}, id="minimum"),
        pytest.param({"x": 5, "y": None}, [], {"a": 5}, id="one-is-not-known-yet"),
        pytest.param({"x": 5, "y": 3}, ["y"], {"a": 5, "b": 5, "c": 5, "e": 5}, id="one-is-over"),
        pytest.param({"x": 5, "y": 3}, ["x", "y"], {}, id="all-are-over"),
        pytest.param(
            {"x": 2, "y": 3},
            ["x"],
            {"a": 3, "b": 3, "c": 3, "e": 3},
            id="over-but-met",
        ),
        pytest.param({"x": 5}, [], {"a": 5, "b": 5, "c": 5, "e": 5}, id="one-has-no-times"),
        pytest.param({"x": 5, "b": 1}, [], {"a": 5, "b": 5, "c": 1, "e": 1}, id="behind-a-parser"),
    ],
)
def test_a_bolt_has_the_minimum_of_its_inputs(sources, over, passed):
    times = {name: SourceTime(at) for name, at in sources.items()}
    assert Watermarks(times).with_passed(GRAPH, over).passed == passed


def test_what_is_behind_ended_sources_stands_if_it_meets_nothing_that_goes_on():
    alone = {"a": ["x"], "b": ["a"], "c": ["y"]}
    before = Watermarks({"x": SourceTime(2), "y": SourceTime(1)}).with_passed(alone, [])
    later = Watermarks({"x": SourceTime(2), "y": SourceTime(9)}, before.passed)
    assert later.with_passed(alone, ["x"]).passed == {"a": 2, "b": 2, "c": 9}
    met = {**alone, "d": ["b", "c"]}
    assert later.with_passed(met, ["x"]).passed == {"a": 9, "b": 9, "c": 9, "d": 9}


def test_what_is_behind_ended_sources_goes_on_with_the_furthest_if_it_ever_had_times():
    met = {"a": ["x"], "b": ["a", "y"], "c": ["z"], "d": ["plain"], "e": ["d"], "f": ["e", "y"]}
    times = Watermarks({"x": SourceTime(1), "y": SourceTime(3), "z": SourceTime(9)})
    assert times.with_passed(met, ["x"]).passed == {"a": 9, "b": 3, "c": 9, "f": 3}


def test_a_bolts_watermark_never_goes_back_and_the_one_before_is_closed():
    first = Watermarks({"x": SourceTime(9), "y": SourceTime(2)}).with_passed(GRAPH, ["y"])
    second = first.with_passed(GRAPH, [])  # y is back
    assert first.passed["b"] == second.passed["b"] == 9
    assert (first.closed, second.closed) == ({}, first.passed)


def test_a_bolt_with_too_much_for_one_batch_tells_how_far_it_was_until_it_is_done():
    inputs, found, it = {"a": ["s"], "b": ["a"]}, [], Watermarks()
    batches = [(5, 10), (12, 10), (12, 10), (13, 10), (20, 15), (20, 15), (20, 99)]
    for source, due in batches:  # and when the next results of `a` are due
        it = replace(it, sources={"s": SourceTime(source)}).with_passed(inputs, (), due={"a": due})
        it = Watermarks.decode(it.encode())
        found.append((it.passed["a"], it.passed["b"], "a" in it.told, it.are_behind()))
    assert found == [
        (5, 5, False, False),
        (12, 5, True, False),  # the next batch brings the first page
        (12, 5, True, True),
        (13, 5, True, True),
        (20, 13, True, False),  # all that was due by 13 has come
        (20, 13, True, True),
        (20, 20, False, False),
    ]


def test_a_checkpoint_without_watermarks_begins_with_none():
    assert Watermarks.decode(None) == Watermarks()


def test_watermarks_of_a_later_version_are_refused():
    with pytest.raises(CheckpointMismatch, match="have format 2, and this version of Fulmen reads"):
        Watermarks.decode(b'{"format": 2}')


FILES = ["part a", "part b", "part c"]
UNREAD = ([], FILES[:1], FILES[1:], FILES)
READINGS = st.lists(
    st.just(({}, {}))  # the task was left out
    | st.tuples(
        st.dictionaries(st.sampled_from(FILES), st.integers(-50, 50)),  # the newest times
        st.sampled_from([{"task 0": unread} for unread in UNREAD]),
    ),
    max_size=10,
)


def of_files(lag, readings):
    """The watermark after each batch, if files that are not read to their ends hold it."""
    unread, newest, everything, found = [], {}, [], None
    for emitted, said in readings:
        unread = said.get("task 0", unread)
        newest = {name: max(newest.get(name, -99), emitted.get(name, -99)) for name in unread}
        everything += emitted.values()
        least = min(newest.values()) if newest else max(everything, default=-99)
        if least != -99:
            found = least - lag if found is None else max(found, least - lag)
        yield found


@given(READINGS, st.integers(0, 20))
def test_only_what_is_not_read_to_its_end_holds_the_watermark(readings, lag):
    it = SourceTime()
    for clock, ((newest, said), wanted) in enumerate(
        zip(readings, of_files(lag, readings), strict=True)
    ):
        expected = () if said or it.parts else ["task 0"]
        it = it.after(WatermarkRule(lag), newest, expected, (), float(clock), said)
        assert it.watermark == wanted
        assert len(it.parts) <= len(FILES) + 1
        it = Watermarks.decode(Watermarks({"s": it}).encode()).sources["s"]


TO_READ = st.dictionaries(st.sampled_from(["task 0", "task 1"]), st.sets(st.sampled_from(FILES)))


def of_partitions(rule, readings):
    """The watermark after each batch, if parts without an end have something to read."""
    newest, told, since, found = {}, {}, {}, None
    for clock, (emitted, said) in enumerate(readings):
        told |= said
        to_read = {name for names in told.values() for name in names} - {*newest, *emitted}
        for name, at in emitted.items():
            newest[name], since[name] = max(at, newest.get(name, at)), clock
        since = {n: since.get(n, clock) for n in newest.keys() | to_read}
        live = {
            n for n in since if rule.idle_seconds is None or clock - since[n] < rule.idle_seconds
        }
        if live and not live & to_read:
            least = min(newest[name] for name in live) - rule.lag
            found = least if found is None else max(found, least)
        if not live and newest:
            most = max(newest.values()) - rule.lag
            found = most if found is None else max(found, most)
        yield found


@given(
    st.lists(
        st.tuples(st.dictionaries(st.sampled_from(FILES), st.integers(-50, 50)), TO_READ),
        max_size=12,
    ),
    st.integers(0, 20),
    st.none() | st.integers(1, 4),
)
def test_a_part_without_an_end_holds_the_watermark_before_its_first_tuple(readings, lag, idle):
    rule, it = WatermarkRule(lag, idle), SourceTime()
    for clock, ((newest, said), wanted) in enumerate(
        zip(readings, of_partitions(rule, readings), strict=True)
    ):
        it = it.after(rule, newest, (), (), float(clock), to_read=said)
        assert it.watermark == wanted


def test_an_unread_part_is_never_idle():
    rule = WatermarkRule(0, idle_seconds=5.0)
    it = SourceTime().after(rule, {"part a": 9}, (), (), 0.0, {"task 0": ["part a", "part b"]})
    it = it.after(rule, {}, (), (), 100.0, {"task 0": ["part b"]})
    assert (it.watermark, it.held_by) == (None, "part b")


def test_a_task_that_was_not_asked_yet_what_is_unread_holds_the_watermark():
    tasks, nine = ["task 0", "task 1"], {"part a": 9}
    it = SourceTime().after(WatermarkRule(0), nine, tasks, (), 0.0, {"task 0": []})
    assert (it.watermark, it.held_by) == (None, "task 1")
    it = it.after(WatermarkRule(0), {}, tasks, (), 1.0, {"task 0": []})
    assert (it.watermark, it.held_by) == (None, "task 1")
    assert (
        it.after(WatermarkRule(0), {}, tasks, (), 2.0, {"task 0": [], "task 1": []}).watermark == 9
    )
    over = it.after(WatermarkRule(0), {}, tasks[:1], tasks[1:], 2.0, {"task 0": []})
    assert over.watermark == 9, "it is exhausted"


def test_a_spout_that_says_no_more_what_is_unread_has_parts_as_others_have():
    it = SourceTime().after(WatermarkRule(0), {"part a": 9}, (), (), 0.0, {"task 0": ["part b"]})
    it = it.after(WatermarkRule(0), {"task 0": 4}, ["task 0"], (), 1.0, {"task 0": None})
    assert (it.watermark, it.held_by, set(it.parts)) == (4, "task 0", {"task 0"})


def test_a_spout_that_says_no_more_what_is_unread_waits_for_none_of_its_parts_for_good():
    nine = {"part a": 9}
    it = SourceTime().after(WatermarkRule(0), nine, (), (), 0.0, {"task 0": ["part a", "part b"]})
    assert it.after(WatermarkRule(0), {"part c": 4}, (), (), 1.0, {"task 0": None}).watermark == 4


def test_a_task_that_was_not_asked_has_what_it_had_not_read():
    both = {"task 0": ["part a"], "task 1": ["part b"]}
    it = SourceTime().after(WatermarkRule(0), {"part a": 3, "part b": 9}, (), (), 0.0, both)
    assert (it.watermark, it.held_by, set(it.parts)) == (3, "part a", {"part a", "part b"})
    assert it.after(WatermarkRule(0), {}, (), (), 1.0, {"task 0": None}).watermark == 9
    assert it.after(WatermarkRule(0), {"part c": 1}, (), (), 1.0).held_by == "part a"


def test_what_was_read_is_idle_when_its_newest_tuple_is_old():
    rule, nothing = WatermarkRule(0, idle_seconds=5.0), {"task 0": []}
    it = SourceTime().after(rule, {"part a": 9}, (), (), 0.0, {"task 0": ["part a"]})
    it = it.after(rule, {"part b": 3}, (), (), 4.0, nothing)
    assert it.parts == {READ: SourcePart(9, 4.0)}
    assert it.after(rule, {}, ["task 0"], (), 8.0).held_by == READ
    assert it.after(rule, {}, ["task 0"], (), 9.0).held_by is None


def test_a_part_with_something_to_read_is_idle_some_time_after_it_was_first_said_to_have():
    rule, to_read = WatermarkRule(0, idle_seconds=5.0), {"task 0": ["part a"]}
    it = SourceTime().after(rule, {}, ["task 0", "task 1"], (), 0.0, to_read=to_read)
    assert (it.held_by, set(it.parts)) == ("part a", {"part a"})
    assert it.after(rule, {}, ["task 0", "task 1"], (), 1.0).held_by == "part a", "not asked again"
    it = it.after(rule, {"part b": 7}, (), (), 4.0, to_read=to_read)
    assert (it.watermark, it.held_by) == (None, "part a")
    assert it.after(rule, {}, (), (), 5.0, to_read=to_read).watermark == 7


@pytest.mark.parametrize(
    ("parts", "watermark"),
    [
        ([SourcePart(5000, 0.0), SourcePart(3000, 9.0)], 14_990),
        ([SourcePart(3000, 9.0), SourcePart(5000, 0.0)], 14_990),
        ([SourcePart(5000, 6.0), SourcePart(None, 0.0)], 8990),
        ([SourcePart(0, 9.0)], 990),
        ([SourcePart(-500, 7.5)], 1990),
        ([SourcePart(None, 0.0)], None),
        ([SourcePart(5000, 0.0), SourcePart(3000, 9.5)], 2990),  # the second is not idle
    ],
)
def test_event_time_goes_on_with_the_clock_from_where_the_furthest_idle_part_was(parts, watermark):
    rule = WatermarkRule(lag=10, idle_seconds=1.0, advances=True)
    it = SourceTime(None, {f"task {n}": part for n, part in enumerate(parts)})
    assert it.after(rule, {}, (), (), 10.0).watermark == watermark


@pytest.mark.parametrize("first", ["part a", "part b"])
def test_when_all_parts_are_idle_the_furthest_counts_whichever_fell_silent_first(first):
    rule, it = WatermarkRule(10, idle_seconds=2.0), SourceTime()
    other = {"part a": "part b", "part b": "part a"}[first]
    newest = {"part a": 1000, "part b": 5000}
    it = it.after(rule, newest, (), (), 0.0)
    it = it.after(rule, {other: newest[other]}, (), (), 1.0)
    for clock in (2.0, 3.0, 100.0):
        it = it.after(rule, {}, (), (), clock)
    assert (it.watermark, it.held_by) == (4990, None)


def test_a_task_holds_the_watermark_before_its_first_tuple():
    it = SourceTime().after(WatermarkRule(0), {"task 0": 5}, ["task 1"], (), 0.0)
    assert (it.watermark, it.held_by) == (None, "task 1")
    assert it.after(WatermarkRule(0), {"task 1": 3}, (), (), 1.0).watermark == 3


def test_the_part_that_is_least_far_holds_the_watermark_also_at_the_beginning_of_time():
    it = SourceTime(None, {"task 0": SourcePart(1, 0.0), "task 1": SourcePart(0, 0.0)})
    now = it.after(WatermarkRule(0), {}, (), (), 1.0)
    assert (now.watermark, now.held_by) == (0, "task 1")


@pytest.mark.parametrize(
    ("rule", "ended", "holding"),
    [
        (WatermarkRule(0), (), "task 1"),
        (WatermarkRule(0), ("task 1",), "task 2"),
        (WatermarkRule(0, 5.0), (), "task 2"),
        (WatermarkRule(0, 0.5), (), None),
    ],
)
def test_the_part_that_holds_the_watermark_is_named(rule, ended, holding):
    it = SourceTime(
        None,
        {"task 0": SourcePart(5, 0.0), "task 1": SourcePart(None, 0.0), "task 2": SourcePart(1, 9)},
    )
    assert it.after(rule, {}, (), ended, 10.0).held_by == holding
