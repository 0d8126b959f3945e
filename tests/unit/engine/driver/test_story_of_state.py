"""State is looked after while everything dies: more tasks, a bug, the way back, a key by hand."""

import itertools
import random
from collections import Counter

import numpy as np
import pytest

from fulmen import BasicBolt, TopologyBuilder, own_files
from fulmen.checkpoint import CommitLog, read_newest
from fulmen.engine.driver.checkpoints.layout import layout_of
from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.driver.edits.entries import StateWriter
from fulmen.engine.driver.edits.owners import Owners
from fulmen.engine.driver.edits.restoring import go_back
from fulmen.engine.driver.observer import Silent
from fulmen.engine.state.committed_state import read_state
from fulmen.errors import Unreachable
from fulmen.testing import ListSpout, ManualClock
from support.lives.chaos import Chaos, DriverDied, chaotic
from support.runs.engine_runs import A_PERSON, Steady, make_driver, new_store
from support.stores.savepoints import pinned
from support.suite import seeds

DEATHS = (DriverDied, Unreachable)


class Spell(BasicBolt):
    """Passes words on, so that they reach the counts by another stage."""

    outputs = ("word",)

    def execute(self, tup, collector):
        collector.emit(list(tup.values))


class Counts(BasicBolt):
    def execute(self, tup, collector):
        self.count(tup["word"])

    def count(self, word):
        self.state[word] = self.state.get(word, 0) + 1


class Wrong(Counts):
    """The version with the bug."""

    def count(self, word):
        if self.state.get(word, 0) % 3:
            self.state[word] += 7
        else:
            self.state[word, "new"] = self.state.pop(word, 0)


class Shop(Silent):
    """Asks for another number of tasks once some batches were committed, and notes the change."""

    def __init__(self, stop, topology, after):
        self.stop, self.topology, self.after = stop, topology, after
        self.batches, self.has_changed = 0, False

    def batch(self, totals, done):
        self.batches += 1
        assert self.batches < 3000, "it never ends"
        if self.batches == self.after:
            self.stop.topology = self.topology

    def note(self, text):
        self.has_changed |= self.batches >= self.after and "is taken over, with" in text


class Story:
    """One checkpoint. Attributes: live: How often the number changed while it ran."""

    def __init__(self, seed):
        self.chaos = Chaos(seed, 0, 0.02)
        self.choose = random.Random(seed)
        self.backend = self.choose.choice(("memory", "disk"))
        self.store, self.clock = new_store(), ManualClock()
        self.tasks, self.live = 2, 0

    def topology(self, cls, words, tasks):
        builder = TopologyBuilder("story", workers=2, max_spout_pending=15, ackers=2)
        builder.set_spout("words", ListSpout(words, fields=["word"]))
        builder.set_bolt("spell", Spell, 2).shuffle_grouping("words")
        counts = builder.set_bolt("count", cls).set_num_tasks(tasks)
        counts.fields_grouping("spell", ["word"]).set_keyed_state(self.backend)
        return builder.build()

    def runs(self, cls, words, tasks):
        """Drivers, until one has counted all; while one runs, the number of tasks changes."""
        numbers = itertools.count(self.choose.randrange(10**9))
        generator = lambda: np.random.Generator(np.random.PCG64(next(numbers)))  # noqa: E731
        self.chaos.left = self.choose.randint(2, 8)
        while True:
            failing, stop = chaotic(self.store, self.chaos), Stop(when_drained=True)
            wanted = self.topology(cls, words, tasks)
            shop = Shop(stop, wanted, self.choose.randint(1, 6))
            driver = make_driver(
                self.topology(cls, words, self.tasks),
                store=failing,
                clock=self.clock,
                jobs=Steady(self.clock, 0.05, self.chaos.fault, failing, generator),
                observer=shop,
                generator=generator,
            )
            try:
                running = driver.start()
                running.run(stop)
                running.close()
            except DEATHS:
                continue
            else:
                break
            finally:
                self.chaos.crashes = None
                self.live += shop.has_changed
                if shop.has_changed:
                    self.tasks = tasks
        assert layout_of(read_newest(self.store)).tasks["count"] == self.tasks

    def at_last(self, do):
        """A command, again and again until it comes to its end."""
        self.chaos.left = 4
        while True:
            try:
                return do(chaotic(self.store, self.chaos))
            except DEATHS:
                continue

    @property
    def counts(self):
        by_task = read_state(self.store, "count").tasks
        found = [item for of_one in by_task.values() for item in of_one.items()]
        assert len(found) == len(dict(found)), "a key is in two tasks"
        return dict(found)

    def back(self, store):
        log = CommitLog(store, "story", "a person")
        log.claim()
        go_back(log, store, "before", 9.0)

    def mend(self, store, word, count):
        edit = Edit(store, A_PERSON)
        task = Owners(store, edit.manifest, "count", "state").task_of(word)
        writer = StateWriter(edit, "count", "state")
        writer.write(task, word, count, self.counts[word])
        writer.commit("set")


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_no_count_is_wrong_after_more_tasks_a_bug_the_way_back_and_a_key_by_hand(
    tmp_path_factory, monkeypatch
):
    live = 0
    for seed in seeds.several(3):
        folder = tmp_path_factory.mktemp("states")
        monkeypatch.setenv(own_files.STATE_FOLDER, str(folder))
        story = Story(seed)
        words = [[story.choose.choice("abcdefghijklmnop") * 3] for _ in range(240)]
        twice, right = words[30], Counter(word for [word] in words)
        sent = [*words[:60], *[twice] * 5, *words[60:]]  # by mistake
        story.runs(Counts, sent[:80], 4)
        before = story.counts
        assert before == Counter(word for [word] in sent[:80]), seed
        pinned(story.store, "before")
        story.runs(Wrong, sent[:130], 6)
        assert story.counts != Counter(word for [word] in sent[:130]), seed
        story.at_last(story.back)
        assert story.counts == before, seed
        story.runs(Counts, sent[:180], 3)
        found = story.counts
        word, wanted = twice[0], found[twice[0]] - 5
        story.at_last(lambda s, w=word, n=wanted, of=story: of.mend(s, w, n))
        story.runs(Counts, sent, 5)
        assert story.counts == right, seed
        live += story.live
    assert live >= 3, "each was made while it ran"
