"""`state_ttl`: keys of `self.state` are forgotten some time after they were assigned."""

import itertools
import random
import shutil
from typing import ClassVar

import pytest

from fulmen import BasicBolt, TopologyBuilder, own_files
from fulmen.checkpoint import CommitLog, new_tag, read_newest
from fulmen.checkpoint.savepoints.pins import PINS, pins_in, pins_section
from fulmen.engine.driver.checkpoints.savepoints import Wish, granted
from fulmen.engine.driver.edits.restoring import go_back
from fulmen.engine.state.committed_state import read_state, read_timers
from fulmen.engine.state.entries import disk_state
from fulmen.engine.time import timers
from fulmen.engine.worker.in_process import Crash
from fulmen.errors import TopologyFailed
from fulmen.testing import ABORT, EOF, PAUSE, ListSpout, run
from support.runs.engine_runs import new_store


class Seen(BasicBolt):
    """Keeps each word, and whether it was known."""

    state_ttl: ClassVar = "3s"

    def execute(self, tup, collector):
        word = tup["word"]
        self.state[word] = self.state.get(word, 0) + 1


class SeenForGood(Seen):
    """Keeps it for good."""

    state_ttl = None


class WithTimers(Seen):
    """Has timers of its own."""

    def prepare(self, conf, context):
        self.timers = context.timers

    def execute(self, tup, collector):
        super().execute(tup, collector)
        self.timers.set_after(tup["word"], 1)

    def on_timer(self, key, at, collector):
        self.state[f"after {key}"] = 1


class Wrong(Seen):
    """Says no duration."""

    state_ttl = "soon"


class Waiting(ListSpout):
    """Never says that nothing will come."""

    def is_exhausted(self):
        return False


@pytest.fixture(params=["memory", "disk"])
def kept(request, tmp_path, monkeypatch):
    """What is in the state after some batches of a second."""
    monkeypatch.setenv(own_files.STATE_FOLDER, str(tmp_path))

    def kept(items, kind=Seen, batches=8, **runs):
        builder = TopologyBuilder()
        builder.set_spout("words", Waiting(items, fields=["word"]))
        bolt = builder.set_bolt("seen", kind).shuffle_grouping("words")
        bolt.set_keyed_state(request.param)
        result = run(builder, batches=batches, batch_seconds=1.0, **runs)
        assert result.errors == []
        return result

    return kept


def test_a_key_is_forgotten_when_nothing_has_assigned_it_for_so_long(kept):
    items = ["a", "b", PAUSE, "a", PAUSE, "a", PAUSE]
    assert kept(items, batches=2).state("seen") == {"a": 2, "b": 1}
    assert kept(items, batches=5).state("seen") == {"a": 3}
    assert kept(items, batches=9).state("seen") == {}


def test_a_word_that_comes_when_its_time_is_over_is_kept(kept):
    items = ["a", PAUSE, PAUSE, PAUSE, "a", PAUSE]
    assert kept(items, batches=6).state("seen") == {"a": 2}


def test_what_is_forgotten_survives_crashes_and_restarts(kept):
    items = ["a", PAUSE, ABORT, "b", EOF, PAUSE, PAUSE]
    first = kept(items, batches=2)
    assert first.state("seen") == {"a": 1, "b": 1}
    second = kept(items, batches=4, checkpoint=first)
    assert "a" not in second.state("seen")
    assert kept(items, checkpoint=second).state("seen") == {}


def test_keys_that_are_there_already_get_their_time_to_live_with_the_attribute(kept):
    items = ["a", "b", EOF, "c"]
    first = kept(items, SeenForGood)
    assert first.state("seen") == {"a": 1, "b": 1}
    second = kept(items, batches=2, checkpoint=first)
    assert second.state("seen") == {"a": 1, "b": 1, "c": 1}
    assert kept(items, checkpoint=second).state("seen") == {}


def test_timers_of_the_bolt_itself_are_its_own(kept):
    found = kept(["a", PAUSE], WithTimers, batches=3).state("seen")
    assert found == {"a": 1, "after a": 1}
    assert kept(["a", PAUSE], WithTimers, batches=9).state("seen") == {}


def test_a_time_to_live_that_is_none_is_said(kept):
    with pytest.raises(TopologyFailed, match="reading state_ttl: ValueError: 'soon' is no dura"):
        kept(["a"], Wrong)


class Known(Seen):
    """Assigns the same value again and again."""

    def execute(self, tup, collector):
        self.state[tup["word"]] = 1


def test_a_value_that_is_assigned_again_is_kept_although_it_is_the_same(kept):
    items = [*["a"] * 20, PAUSE, *["a"] * 20, PAUSE]
    assert kept(items, Known, batches=4).state("seen") == {"a": 1}


def test_of_much_that_is_there_on_disk_each_commit_gives_some_a_time_to_live(kept, monkeypatch):
    monkeypatch.setattr(disk_state, "_PAGE", 2)
    words = [f"w{n}" for n in range(7)]
    items = [*words, EOF, *[one for n in range(12) for one in (f"later {n}", PAUSE)]]
    first = kept(items, SeenForGood)
    second = kept(items, batches=12, checkpoint=first)
    left = set(second.state("seen"))
    assert not left & set(words)
    assert {"later 10", "later 11"} <= left <= {f"later {n}" for n in range(8, 12)}


def test_of_many_keys_whose_time_is_over_some_are_forgotten_in_each_batch(kept, monkeypatch):
    monkeypatch.setattr(timers, "AT_ONCE", 2)
    words = ["a", "b", "c", "d", "e"]
    sizes = [len(kept(words, batches=number).state("seen")) for number in (3, 4, 5, 6)]
    assert sizes == [5, 3, 1, 0]


def pin(store, name):
    """Take a savepoint."""
    log = CommitLog(store, "life", "a person")
    log.claim()
    number, clock = log.manifest.number + 1, log.manifest.clock
    pins = granted(pins_in(log.manifest.sections.get(PINS)), [Wish(name)], number, 5.0)
    sections = {PINS: pins_section(pins)}
    log.commit(log.draft(tag=new_tag(), clock=clock, sections=sections, full=True))


def back(store, name):
    """Go back to a savepoint."""
    log = CommitLog(store, "life", "a person")
    log.claim()
    go_back(log, store, name, 9.0)


def read_clock(store):
    return read_newest(store).clock


def whole(committed):
    """What all tasks keep; no two of them keep the same."""
    items = [item for one in committed.tasks.values() for item in one.items()]
    assert len(dict(items)) == len(items)
    return dict(items)


@pytest.mark.parametrize("seed", range(2))
def test_what_expires_is_what_a_dict_forgets_whatever_happens_meanwhile(
    seed, tmp_path, monkeypatch
):
    """Each batch is another run: elsewhere, with other tasks, without its disk, or further back."""
    monkeypatch.setenv(own_files.STATE_FOLDER, str(tmp_path / "disk"))
    rng, store = random.Random(seed), new_store()
    fed, model, saved, expired = [], {}, None, 0
    for number in range(16):
        match rng.choice(["disk lost", "saved", "back", "nothing"]) if number else "nothing":
            case "disk lost":
                shutil.rmtree(tmp_path / "disk", ignore_errors=True)
            case "saved":
                saved = f"s{number}", fed, {**model}
                pin(store, saved[0])
            case "back" if saved is not None:
                name, fed, model = saved[0], saved[1], {**saved[2]}
                back(store, name)
        words = rng.sample("abcdefgh", rng.randrange(1, 4))
        fed = [*fed, *words]
        builder = TopologyBuilder("life")
        builder.set_spout("words", ListSpout(fed, fields=["word"]))
        bolt = builder.set_bolt("seen", Seen, rng.randrange(1, 4))
        bolt.fields_grouping("words", ["word"]).set_keyed_state(rng.choice(["memory", "disk"]))
        topology = builder.build().with_each(lambda one: {"num_tasks": one.tasks})
        before, calls, dies = read_clock(store), itertools.count(), rng.randrange(30)

        def fault(*_, calls=calls, dies=dies):
            if next(calls) == dies:
                raise Crash

        run(topology, batch_seconds=1.0, checkpoint=store, end_of_input=False, fault=fault)
        clock, state = read_clock(store), whole(read_state(store, "seen"))
        due_times = {key: at for (_, key), at in whole(read_timers(store, "seen")).items()}
        for word in words:
            if word not in due_times:  # it has come and gone while state was read ahead
                assert clock - before > 3
                model.pop(word, None)
                expired += 1
                continue
            came, (count, due) = due_times[word] - 3, model.get(word, (0, 0))
            assert before - 0.001 < came < clock + 0.001
            if due <= came and state[word] == 1:  # it was forgotten in a batch before
                count = 0
            model[word] = count + 1, due_times[word]
        expired += sum(due <= clock for _, due in model.values())
        model = {word: one for word, one in model.items() if one[1] > clock}
        assert state == {word: count for word, (count, _) in model.items()}
        assert due_times == {word: due for word, (_, due) in model.items()}
    assert expired > 3
