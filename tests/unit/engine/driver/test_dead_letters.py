"""Dead letters: kept with all that is known of them, and sent again once."""

import time

import pytest

from fulmen.engine.driver.driver import Stop
from fulmen.engine.driver.edits.changes import Author, StateChange
from fulmen.engine.driver.edits.edit import Edit
from fulmen.engine.driver.edits.letters import drop_letters, replay_letters
from fulmen.engine.state.entries.keyed_state import KeyedState
from fulmen.engine.state.journals import LETTERS
from fulmen.engine.state.letters.kept_letters import read_letters
from fulmen.engine.tasks.parts.dead_letters import MOVED
from fulmen.errors import JobFailed
from fulmen.testing import ManualClock
from support.parts.refusing import LIMIT, Counts, Mended, ran, refusing
from support.runs.engine_runs import Steady, make_driver, new_store, state_of

ME = Author("me", "it is mended")


def ids(store, text=""):
    return [str(one.id) for one in read_letters(store).letters if text in one.letter.reason]


def test_a_message_that_is_given_up_is_kept_with_all_that_is_known_of_it():
    store, before = new_store(), time.time()
    ran(store)
    kept = read_letters(store).letters
    assert [(one.component, one.task, one.letter.shown) for one in kept] == [
        ("source", 0, [3]),
        ("source", 0, [2]),
    ]
    letter = kept[1].letter
    assert (letter.stream, letter.msg_id, letter.kind) == ("default", 2, "given up")
    assert (letter.failures, letter.replays, letter.state) == (1, 0, "kept")
    assert letter.reason == "bolt 'count': execute: KeyError: 'cents', hence ValueError: not 2"
    assert letter.cause.who.startswith("'count', task ")
    assert "KeyError: 'cents'\n" in letter.cause.traceback
    assert letter.cause.traceback.endswith("ValueError: not 2\n")
    assert before <= letter.at <= time.time()


def test_letters_that_are_wanted_are_sent_at_the_next_start_and_gone_when_they_are_acked():
    store = new_store()
    ran(store)
    asked = replay_letters(store, ids(store), ME)
    assert [one.letter.shown for one in asked] == [[3], [2]]
    assert {one.letter.state for one in read_letters(store).letters} == {"wanted"}
    driver = ran(store, Mended)
    assert state_of(driver, "count") == dict.fromkeys(range(LIMIT), 1)
    assert read_letters(store).letters == []
    assert state_of(ran(store, Mended), "count") == dict.fromkeys(range(LIMIT), 1)


def test_a_letter_that_fails_again_is_a_letter_again_with_a_count():
    store = new_store()
    ran(store)
    for times in (1, 2):
        replay_letters(store, ids(store, "not 2"), ME)
        ran(store)
        [_, two] = sorted(read_letters(store).letters, key=lambda one: -one.letter.shown[0])
        assert (two.letter.replays, two.letter.failures, two.letter.state) == (times, 1, "kept")
        assert two.letter.reason.endswith("ValueError: not 2")
        assert two.letter.cause.traceback.endswith("ValueError: not 2\n")


def test_dropped_letters_are_gone_and_others_stay():
    store = new_store()
    ran(store)
    [one] = drop_letters(store, ids(store, "not 3"), ME)
    assert one.letter.shown == [3]
    assert [kept.letter.shown for kept in read_letters(store).letters] == [[2]]
    assert drop_letters(store, [str(one.id)], ME) == []


def test_results_of_a_bolt_are_kept_and_sent_again_in_the_same_way():
    store = new_store()
    ran(store, of_results=True)
    kept = read_letters(store).letters
    assert [(one.component, one.letter.shown) for one in kept] == [("pass", [3]), ("pass", [2])]
    replay_letters(store, ids(store, "not 2"), ME)
    ran(store, of_results=True)
    assert [one.letter.replays for one in read_letters(store).letters] == [1, 0]
    replay_letters(store, ids(store), ME)
    driver = ran(store, Mended, of_results=True)
    assert state_of(driver, "count") == dict.fromkeys(range(LIMIT), 1)
    assert read_letters(store).letters == []


def test_letters_go_along_when_the_number_of_tasks_changes():
    store = new_store()
    ran(store, of_results=True, passing=3)
    assert len(read_letters(store).letters) == 2
    replay_letters(store, ids(store, "not 2"), ME)
    driver = ran(store, Mended, of_results=True, passing=1)
    assert state_of(driver, "count") == {0: 1, 1: 1, 2: 1, 4: 1}
    [kept] = read_letters(store).letters
    assert (kept.component, kept.task, kept.letter.shown) == ("pass", 0, [3])
    replay_letters(store, [str(kept.id)], ME)
    driver = ran(store, Mended, of_results=True, passing=4)
    assert state_of(driver, "count") == dict.fromkeys(range(LIMIT), 1)
    assert read_letters(store).letters == []


def test_what_was_on_its_way_when_its_task_changed_is_a_letter_again_and_says_so():
    store = new_store()
    ran(store)
    replay_letters(store, ids(store), ME)
    driver = make_driver(refusing(Mended), store=store).start()
    driver.step()
    driver.close()
    edit, entries = Edit(store, ME), KeyedState(name=LETTERS)
    for one in read_letters(store).letters:
        assert one.letter.state == "on its way"
        entries[one.id.key] = one.letter.entry() | {"origin": 99}
    for journal, (data, keep_from) in entries.updates(edit.number).items():
        edit.add("source/0", journal, data, keep_from)
    edit.commit(StateChange("test", "source"))
    ran(store, Mended)
    moved = [one.letter for one in read_letters(store).letters]
    assert [(one.shown, one.state, one.reason) for one in moved] == [
        ([3], "kept", MOVED),
        ([2], "kept", MOVED),
    ]


LOSSES_THAT_DROP = 4


class Deadly(Steady):
    """Loses jobs that have a tuple of a spout until the first one is dropped."""

    to_lose = LOSSES_THAT_DROP

    def run(self, header, timeout_seconds):
        if self.to_lose and (header.default_permit or any(header.permits.values())):
            self.to_lose -= 1
            self.clock.advance(self.seconds)
            raise JobFailed("worker 0 was lost")
        return super().run(header, timeout_seconds)


class Refuses(Counts):
    """Refuses the number 0 so many times."""

    refuses = 0

    def execute(self, tup, collector):
        if tup[0] == 0 and Refuses.refuses:
            Refuses.refuses -= 1
            raise ValueError("not yet")
        self.state[tup[0]] = self.state.get(tup[0], 0) + 1


def deadly(store, losses=LOSSES_THAT_DROP):
    """A driver whose first tuple kills its worker until it is dropped, at its start."""
    clock = ManualClock()
    jobs = Deadly(clock, 0.25, store=store)
    jobs.to_lose = losses
    builder = refusing(Refuses, max_replays=None)
    return make_driver(builder, store=store, clock=clock, jobs=jobs).start()


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("refuses", [0, 1])
def test_the_letter_of_a_message_that_killed_its_worker_is_gone_when_its_source_has_it_acked(
    refuses, restarts
):
    Refuses.refuses = refuses
    store, seen = new_store(), []
    driver = deadly(store)
    while not (seen and not read_letters(store).letters):
        driver.step()
        for kept in read_letters(store).letters:
            letter = kept.letter
            assert (letter.shown, letter.kind, letter.replays) == ([0], "kills workers", 0)
            seen.append((letter.state, letter.reason))
        if restarts and seen and seen[-1][0] == "emitted again":
            driver.close()
            driver = deadly(store, losses=0)
    driver.run(Stop(when_drained=True))
    driver.close()
    crash, no = "crashed worker: ", "bolt 'count': execute: ValueError: not yet"
    told = [("kept", crash), ("emitted again", crash)]
    told += [("kept", no), ("emitted again", no)] * refuses
    assert list(dict.fromkeys((state, why if why == no else crash) for state, why in seen)) == told
    assert state_of(driver, "count") == dict.fromkeys(range(LIMIT), 1)
    assert read_letters(store).letters == []


def test_a_letter_whose_source_has_emitted_its_message_again_is_not_sent_but_can_be_dropped():
    Refuses.refuses = 0
    store, state = new_store(), None
    driver = deadly(store)
    while state != "emitted again":
        driver.step()
        state = next((one.letter.state for one in read_letters(store).letters), None)
    driver.close()
    assert replay_letters(store, ids(store), ME) == []
    assert len(drop_letters(store, ids(store), ME)) == 1
    assert state_of(ran(store, Mended, max_replays=None), "count") == dict.fromkeys(range(LIMIT), 1)
